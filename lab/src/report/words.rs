//! How figures are put into words: the name and unit of each metric, numbers with as many digits as mean something, and the
//! words and marks of a verdict. Every form of the report speaks through this file, so that all of them say the same.

use crate::analysis::{Comparison, Estimate, Fit, Margin, MarginSource, Metric, Verdict};

pub struct About {
    pub name: &'static str,
    /// The same in CSV.
    pub key: &'static str,
    pub unit: &'static str,
    /// Name and unit for the head of a narrow column.
    pub short: &'static str,
    /// What a stored value is divided by to be in the unit.
    pub per: f64,
    pub aim: Aim,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    More,
    Less,
    Neither,
}

pub fn about(metric: Metric) -> About {
    use Aim::{Less, More, Neither};
    let (name, key, unit, short, per, aim) = match metric {
        Metric::Tps => ("throughput", "tps", "transactions/s", "tps", 1.0, More),
        Metric::NewOrders => ("throughput", "new_orders", "new orders/min", "NOPM", 1.0, More),
        Metric::TransactionsPerMinute => {
            ("all transactions", "transactions_per_minute", "transactions/min", "TPM", 1.0, More)
        }
        Metric::LatencyMean => ("latency, mean", "latency_mean", "ms", "mean ms", 1.0, Less),
        Metric::LatencyP95 => ("latency, 95th percentile", "latency_p95", "ms", "p95 ms", 1.0, Less),
        Metric::LatencyP99 => ("latency, 99th percentile", "latency_p99", "ms", "p99 ms", 1.0, Less),
        Metric::NewOrderMean => ("New-Order, mean", "new_order_mean", "ms", "New-Order ms", 1.0, Less),
        Metric::NewOrderP95 => ("New-Order, 95th percentile", "new_order_p95", "ms", "New-Order p95 ms", 1.0, Less),
        Metric::PaymentMean => ("Payment, mean", "payment_mean", "ms", "Payment ms", 1.0, Less),
        Metric::PaymentP95 => ("Payment, 95th percentile", "payment_p95", "ms", "Payment p95 ms", 1.0, Less),
        Metric::DeliveryMean => ("Delivery, mean", "delivery_mean", "ms", "Delivery ms", 1.0, Less),
        Metric::DeliveryP95 => ("Delivery, 95th percentile", "delivery_p95", "ms", "Delivery p95 ms", 1.0, Less),
        Metric::CpuPerTransaction => ("server CPU", "cpu_per_transaction", "µs/transaction", "CPU µs/tx", 1.0, Less),
        Metric::SwitchesPerTransaction => {
            ("context switches", "switches_per_transaction", "per transaction", "switches/tx", 1.0, Less)
        }
        Metric::FaultsPerTransaction => {
            ("page faults", "faults_per_transaction", "per transaction", "faults/tx", 1.0, Less)
        }
        Metric::MemoryLoaded => ("memory, loaded", "memory_loaded", "MB", "loaded MB", 1e6, Less),
        Metric::MemoryPeak => ("memory, peak", "memory_peak", "MB", "peak MB", 1e6, Less),
        Metric::MemoryIdle => ("memory, idle afterwards", "memory_idle", "MB", "idle MB", 1e6, Less),
        Metric::MemoryPerConnection => {
            ("memory per connection", "memory_per_connection", "kB", "kB/connection", 1e3, Less)
        }
        Metric::ClientShare => ("client's share of CPU", "client_share", "%", "client %", 0.01, Neither),
    };
    About { name, key, unit, short, per, aim }
}

/// In the order in which a reader wants them.
pub const METRICS: [Metric; 20] = [
    Metric::Tps,
    Metric::NewOrders,
    Metric::TransactionsPerMinute,
    Metric::LatencyMean,
    Metric::LatencyP95,
    Metric::LatencyP99,
    Metric::NewOrderMean,
    Metric::NewOrderP95,
    Metric::PaymentMean,
    Metric::PaymentP95,
    Metric::DeliveryMean,
    Metric::DeliveryP95,
    Metric::MemoryLoaded,
    Metric::MemoryPeak,
    Metric::MemoryIdle,
    Metric::MemoryPerConnection,
    Metric::CpuPerTransaction,
    Metric::SwitchesPerTransaction,
    Metric::FaultsPerTransaction,
    Metric::ClientShare,
];

/// Three digits that mean something; all of them before the point, in groups of three.
pub fn number(v: f64) -> String {
    if !v.is_finite() {
        return "–".into();
    }
    let size = v.abs();
    let decimals = match size {
        s if s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        s if s >= 0.9995 => 2,
        s if s >= 0.09995 => 3,
        0.0 => 0,
        _ => 4,
    };
    let plain = format!("{size:.decimals$}");
    let (whole, fraction) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let sign = if v < 0.0 && plain.bytes().any(|b| b.is_ascii_digit() && b != b'0') { "−" } else { "" };
    format!("{sign}{}{fraction}", grouped(whole))
}

fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A value that is a whole number, in groups of three.
pub fn whole(v: f64) -> String {
    let sign = if v <= -0.5 { "−" } else { "" };
    format!("{sign}{}", grouped(&format!("{:.0}", v.abs())))
}

/// A stored value in the metric's unit, without it.
pub fn value(metric: Metric, v: f64) -> String {
    number(v / about(metric).per)
}

/// `[69,800 – 70,400]`, or nothing where a single round has no interval.
pub fn interval(metric: Metric, e: &Estimate) -> Option<String> {
    (e.rounds > 1).then(|| format!("{} – {}", value(metric, e.low), value(metric, e.high)))
}

/// A fraction as `+4.2 %`; the sign is always there, since the figure is a change.
pub fn change(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if !percent.is_finite() {
        return "–".into();
    }
    let decimals = if percent.abs() >= 99.95 { 0 } else { 1 };
    let plain = format!("{:.decimals$}", percent.abs());
    let zero = plain.bytes().all(|b| b == b'0' || b == b'.');
    let sign = match percent {
        _ if zero => "±",
        p if p < 0.0 => "−",
        _ => "+",
    };
    let (whole, fraction) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    format!("{sign}{}{fraction}\u{a0}%", grouped(whole))
}

pub fn change_interval(e: &Estimate) -> Option<String> {
    (e.rounds > 1).then(|| {
        let low = change(e.low);
        format!("{} … {}", low.trim_end_matches("\u{a0}%"), change(e.high))
    })
}

pub fn p_value(p: f64) -> String {
    match p {
        p if p < 0.001 => "p < 0.001".into(),
        p if p < 0.1 => format!("p = {p:.3}"),
        p => format!("p = {p:.2}"),
    }
}

pub const VERDICTS: [Verdict; 4] = [Verdict::Better, Verdict::Worse, Verdict::Equivalent, Verdict::Undecided];

pub fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Equivalent => "equivalent",
        Verdict::Undecided => "undecided",
    }
}

/// One column wide, told apart by form and not by colour.
pub fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "▲",
        Verdict::Worse => "▼",
        Verdict::Equivalent => "=",
        Verdict::Undecided => "?",
    }
}

/// What would decide an undecided comparison.
pub fn more_rounds(c: &Comparison) -> Option<String> {
    match (c.verdict, c.more_rounds) {
        (Verdict::Undecided, Some(1)) => Some("1 more round".into()),
        (Verdict::Undecided, Some(n)) => Some(format!("{n} more rounds")),
        _ => None,
    }
}

/// A fraction without a sign, in two digits: `3.2 %`, `5 %`.
pub fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    let decimals = match percent.abs() {
        p if p >= 9.95 => 0,
        p if p >= 0.995 => 1,
        _ => 2,
    };
    let plain = format!("{percent:.decimals$}");
    let short = if decimals > 0 { plain.trim_end_matches('0').trim_end_matches('.') } else { &plain };
    format!("{short}\u{a0}%")
}

/// What counted as no difference, and why that much.
pub fn margin(m: &Margin) -> String {
    let why = match m.source {
        MarginSource::Stated => "stated in the experiment",
        MarginSource::AaPairs => "from the same thing measured twice",
        MarginSource::Repeats => "from what rounds of one cell differ by",
        MarginSource::Default => "by default",
    };
    let seen = m.seen.map(|s| format!(" The same thing measured twice differed by up to {}.", percent(s)));
    format!("Differences within ±{} do not matter ({why}).{}", percent(m.value), seen.unwrap_or_default())
}

/// The model that fits a curve best, and its parameters.
pub fn model(fit: &Fit) -> Option<(&'static str, String)> {
    match *fit {
        Fit::None => None,
        Fit::Usl { contention, coherence, .. } => {
            Some(("falls (USL)", format!("contention {}, coherence {}", small(contention), small(coherence))))
        }
        Fit::Saturating { half, .. } => Some(("saturates", format!("half at {} clients", number(half)))),
    }
}

/// Two digits, with an exponent where they would drown in zeros.
fn small(v: f64) -> String {
    match v.abs() {
        0.0 => "0".into(),
        s if s < 1e-3 => format!("{v:.1e}"),
        _ => number(v),
    }
}

/// Throughput against what the points before the fall predict: `×0.41`.
pub fn factor(f: f64) -> String {
    format!("×{}", number(f))
}

/// A figure and its unit stay on one line.
pub fn kept(text: &str) -> String {
    let units = ["%", "MB", "GB", "kB", "ms", "clients"];
    let mut out = String::with_capacity(text.len());
    for (i, word) in text.split(' ').enumerate() {
        let unit = word.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '%');
        if i > 0 {
            let after_figure = out.ends_with(|c: char| c.is_ascii_digit()) && units.contains(&unit);
            out.push(if after_figure { '\u{a0}' } else { ' ' });
        }
        out.push_str(word);
    }
    out
}

pub fn counted(n: usize, one: &str, many: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        n => format!("{} {many}", grouped(&n.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_mean_something() {
        let cases = [
            (0.0, "0"),
            (1_234_567.0, "1,234,567"),
            (999.6, "1,000"),
            (99.96, "100"),
            (12.345, "12.3"),
            (1.0, "1.00"),
            (0.1234, "0.123"),
            (0.00123, "0.0012"),
            (-0.00001, "0.0000"),
            (-12.0, "−12.0"),
            (f64::NAN, "–"),
        ];
        for (v, shown) in cases {
            assert_eq!(number(v), shown);
        }
    }

    #[test]
    fn changes_carry_their_sign() {
        assert_eq!(change(0.0421), "+4.2\u{a0}%");
        assert_eq!(change(-0.4211), "−42.1\u{a0}%");
        assert_eq!(change(-0.0001), "±0.0\u{a0}%");
        assert_eq!(change(12.5), "+1,250\u{a0}%");
        let e = Estimate { median: 0.0, low: -0.012, high: 0.003, rounds: 5 };
        assert_eq!(change_interval(&e).as_deref(), Some("−1.2 … +0.3\u{a0}%"));
        assert_eq!(change_interval(&Estimate { rounds: 1, ..e }), None);
    }

    #[test]
    fn fractions_are_short() {
        let shown = [0.05, 0.0321, 0.004, 0.0, 0.123, 1.0].map(percent);
        assert_eq!(shown, ["5 %", "3.2 %", "0.4 %", "0 %", "12 %", "100 %"].map(|t| t.replace(' ', "\u{a0}")));
    }

    #[test]
    fn figures_keep_their_units() {
        assert_eq!(
            kept("2.3 to 4.1 % in all, (2 GB), at 512 clients;"),
            "2.3 to 4.1\u{a0}% in all, (2\u{a0}GB), at 512\u{a0}clients;"
        );
        assert_eq!(kept("all clients  a % b"), "all clients  a % b");
    }

    #[test]
    fn every_metric_is_named_once() {
        let mut keys: Vec<_> = METRICS.iter().map(|m| about(*m).key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), Metric::ALL.len());
        assert_eq!(value(Metric::MemoryPeak, 170e6), "170");
    }
}
