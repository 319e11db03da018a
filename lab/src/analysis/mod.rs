//! Analysis: pure functions of records. No clock, no file, no randomness that is not seeded from the records themselves:
//! the same records give the same analysis on every machine.

use serde::{Deserialize, Serialize};

/// What the analysis needs to know of the experiment besides its records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    pub title: String,
    /// The variant that the others are compared with (as `Curve::variant`). None: the first in the records.
    pub baseline: Option<String>,
    /// A difference that would not matter, as a fraction. None: from the A/A pairs of the records, else `DEFAULT_MARGIN`.
    pub margin: Option<f64>,
    /// Names of variants that are the same thing measured twice: (original, twin). They calibrate the noise.
    pub twins: Vec<(String, String)>,
}

pub const DEFAULT_MARGIN: f64 = 0.05;

/// Median of the rounds with a 95 % bootstrap interval. One round has no interval: low == median == high.
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
    /// Any other single figure (a published NOPM, a latency of one kind of transaction).
    Other,
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
    /// variant / baseline - 1, with its 95 % interval.
    pub change: Estimate,
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
    pub test: String,
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
    Default,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    pub title: String,
    pub baseline: String,
    pub margin: Margin,
    pub rounds: u32,
    pub trials: u32,
    /// (trial, cell in words, why) of each trial that does not count.
    pub not_counted: Vec<(String, String, String)>,
    pub tests: Vec<Test>,
    /// The answer: one sentence.
    pub sentence: String,
    /// What limits the answer, one sentence each: few rounds, no A/A, a saturated client, a noisy host.
    pub limits: Vec<String>,
}
