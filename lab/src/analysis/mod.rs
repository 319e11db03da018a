//! Analysis: pure functions of records. No clock, no file, no randomness that is not seeded from the records themselves:
//! the same records give the same analysis on every machine.

mod cliff;
mod compare;
mod curve;
mod estimate;
mod fit;
mod limits;
mod metric;
mod noise;
pub mod planner;
mod sentence;
mod table;
pub(crate) mod words;

use serde::{Deserialize, Serialize};

use crate::record::Record;
pub use compare::ALPHA;
use compare::Judge;
pub use noise::Spread;
pub use table::Naming;
use table::{Group, Table, Values};

/// What the analysis needs to know of the experiment besides its records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    pub title: String,
    /// The variant that the others are compared with (as `Curve::variant`). None: the first in the records.
    pub baseline: Option<String>,
    /// A difference that would not matter, as a fraction. None: from the A/A pairs of the records, else from what rounds of
    /// one cell differ by, else `DEFAULT_MARGIN`.
    pub margin: Option<f64>,
    /// Names of variants that are the same thing measured twice: (original, twin). They calibrate the noise.
    pub twins: Vec<(String, String)>,
}

pub const DEFAULT_MARGIN: f64 = 0.05;

/// Median of the rounds with a 95 % interval. One round has no interval: low == median == high.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub rounds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    Tps,
    LatencyMean,
    LatencyP95,
    LatencyP99,
    /// Server CPU, microseconds per transaction.
    CpuPerTransaction,
    SwitchesPerTransaction,
    FaultsPerTransaction,
    MemoryLoaded,
    MemoryPeak,
    MemoryIdle,
    /// Growth of loaded memory from the fewest clients to this count, for each further client.
    MemoryPerConnection,
    /// Client's share of all CPU time used.
    ClientShare,
    /// TPROC-C: new orders and all transactions per minute, and the latencies of its kinds of transaction.
    NewOrders,
    TransactionsPerMinute,
    NewOrderMean,
    NewOrderP95,
    PaymentMean,
    PaymentP95,
    DeliveryMean,
    DeliveryP95,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Better,
    Worse,
    Equivalent,
    Undecided,
}

/// One variant against the baseline at one client count, for one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub variant: String,
    pub clients: u32,
    pub metric: Metric,
    /// variant / baseline - 1, with its 95 % interval. The middle is the mean of the log ratios within rounds.
    pub change: Estimate,
    /// What counted as no difference for this metric of this test, as a fraction.
    pub margin: f64,
    /// After Holm's correction over all comparisons of the same metric and test.
    pub p: Option<f64>,
    pub verdict: Verdict,
    /// Undecided: how many more rounds would decide, if the noise stays.
    pub more_rounds: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    pub clients: u32,
    pub figures: Vec<(Metric, Estimate)>,
}

/// Where adding clients loses throughput beyond what saturation and noise explain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cliff {
    /// The last client count before the fall and the first after it.
    pub before: u32,
    pub after: u32,
    /// Throughput at `after` over what the fit of the points before the fall predicts there.
    pub factor: Estimate,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "model")]
pub enum Fit {
    /// Universal Scalability Law: X(N) = rate N / (1 + contention (N-1) + coherence N (N-1)).
    Usl { rate: f64, contention: f64, coherence: f64, aicc: f64 },
    /// X(N) = peak N / (half + N), and flat: it saturates and stays.
    Saturating { peak: f64, half: f64, aicc: f64 },
    /// Too few points for either.
    None,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    pub peak: Estimate,
    pub peak_clients: u32,
    pub end_over_peak: Estimate,
    pub cliff: Option<Cliff>,
    /// Of the points before the cliff if there is one, else of all.
    pub fit: Fit,
    /// Median over client counts of (descending / ascending - 1), if both orders were run.
    pub hysteresis: Option<Estimate>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    pub variant: String,
    pub points: Vec<Point>,
    pub shape: Shape,
}

/// Everything about one test (one kind of load).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// The name of the load, and the setting in which the variants were compared if a sweep has several: "tprocc, InnoDB".
    pub test: String,
    /// The analysis' baseline, or the first variant of this test where that one was not run.
    pub baseline: String,
    /// What its curves are drawn of: transactions per second, or new orders per minute where those were counted.
    pub throughput: Metric,
    /// For the throughput.
    pub margin: Margin,
    /// Variants that are level with the best, or it, at every client count.
    pub best: Vec<String>,
    pub clients: Vec<u32>,
    /// In order of the first record of each; the baseline first.
    pub curves: Vec<Curve>,
    pub comparisons: Vec<Comparison>,
    /// One sentence about this test.
    pub sentence: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Margin {
    pub value: f64,
    pub source: MarginSource,
    /// What two measurements of the same thing differed by, at most, in the A/A pairs.
    pub seen: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarginSource {
    Stated,
    AaPairs,
    /// What two rounds of one cell differ by.
    Repeats,
    Default,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    pub title: String,
    pub baseline: String,
    /// The widest of the tests' margins.
    pub margin: Margin,
    /// The most rounds that any cell has.
    pub rounds: u32,
    /// Trials that count.
    pub trials: u32,
    /// (trial, cell in words, why) of each trial that does not count.
    pub not_counted: Vec<(String, String, String)>,
    pub tests: Vec<Test>,
    /// The answer: one sentence.
    pub sentence: String,
    /// What limits the answer, one sentence each: few rounds, no A/A, a saturated client, a noisy host.
    pub limits: Vec<String>,
}

/// The whole answer. The order of the records does not matter but for the order in which variants and tests are named.
pub fn analyse(question: &Question, records: &[Record]) -> Analysis {
    let table = Table::of(question, records);
    let mut tests: Vec<Test> = table.groups.iter().filter_map(|group| test(group, question)).collect();
    for test in &mut tests {
        test.sentence = sentence::sentence(&[test], question);
    }
    let none = Margin { value: question.margin.unwrap_or(DEFAULT_MARGIN), source: MarginSource::Default, seen: None };
    let widest = tests.iter().map(|t| t.margin.clone()).reduce(|a, b| if b.value > a.value { b } else { a });
    Analysis {
        title: question.title.clone(),
        baseline: table.baseline.clone(),
        margin: widest.unwrap_or(none),
        rounds: table.groups.iter().map(Group::rounds).max().unwrap_or(0) as u32,
        trials: table.counted as u32,
        sentence: sentence::sentence(&tests.iter().collect::<Vec<_>>(), question),
        limits: limits::limits(&table, &tests, question),
        not_counted: table.not_counted,
        tests,
    }
}

fn test(group: &Group, question: &Question) -> Option<Test> {
    let measured: Vec<(Judge, Values)> = Metric::ALL
        .into_iter()
        .filter_map(|metric| Some((Judge::of(group, metric, question)?, group.values(metric))))
        .collect();
    let throughput = measured.iter().map(|(judge, _)| judge).find(|j| j.metric == group.throughput())?;
    Some(Test {
        test: group.name.clone(),
        baseline: group.variants[0].clone(),
        throughput: throughput.metric,
        margin: throughput.margin.clone(),
        best: throughput.best(),
        clients: group.clients.clone(),
        curves: (0..group.variants.len()).filter_map(|v| curve::curve(group, v, &measured)).collect(),
        comparisons: measured.iter().flat_map(|(judge, _)| judge.against(0)).collect(),
        sentence: String::new(),
    })
}
