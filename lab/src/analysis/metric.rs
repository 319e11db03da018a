//! What a record says of each metric, and which way is better. A metric that was not measured is `None`.

use super::Metric;
use crate::record::{Figures, Record};

impl Metric {
    pub const ALL: [Metric; 20] = [
        Metric::Tps,
        Metric::NewOrders,
        Metric::LatencyMean,
        Metric::LatencyP95,
        Metric::LatencyP99,
        Metric::NewOrderMean,
        Metric::NewOrderP95,
        Metric::PaymentMean,
        Metric::PaymentP95,
        Metric::DeliveryMean,
        Metric::DeliveryP95,
        Metric::CpuPerTransaction,
        Metric::SwitchesPerTransaction,
        Metric::FaultsPerTransaction,
        Metric::MemoryLoaded,
        Metric::MemoryPeak,
        Metric::MemoryIdle,
        Metric::MemoryPerConnection,
        Metric::ClientShare,
        Metric::TransactionsPerMinute,
    ];

    /// What it is, as the head of a column or an axis.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Tps => "transactions per second",
            Metric::LatencyMean => "mean latency",
            Metric::LatencyP95 => "p95 latency",
            Metric::LatencyP99 => "p99 latency",
            Metric::CpuPerTransaction => "server CPU per transaction",
            Metric::SwitchesPerTransaction => "context switches per transaction",
            Metric::FaultsPerTransaction => "page faults per transaction",
            Metric::MemoryLoaded => "loaded memory",
            Metric::MemoryPeak => "peak memory",
            Metric::MemoryIdle => "idle memory",
            Metric::MemoryPerConnection => "memory per connection",
            Metric::ClientShare => "client's share of the CPU time",
            Metric::NewOrders => "new orders per minute",
            Metric::TransactionsPerMinute => "transactions per minute",
            Metric::NewOrderMean => "mean New-Order latency",
            Metric::NewOrderP95 => "p95 New-Order latency",
            Metric::PaymentMean => "mean Payment latency",
            Metric::PaymentP95 => "p95 Payment latency",
            Metric::DeliveryMean => "mean Delivery latency",
            Metric::DeliveryP95 => "p95 Delivery latency",
        }
    }

    /// Throughput is better when larger; latency, cost and memory are better when smaller.
    pub fn larger_is_better(self) -> bool {
        self.is_throughput()
    }

    pub fn is_throughput(self) -> bool {
        matches!(self, Metric::Tps | Metric::NewOrders | Metric::TransactionsPerMinute)
    }

    pub fn is_memory(self) -> bool {
        matches!(self, Metric::MemoryLoaded | Metric::MemoryPeak | Metric::MemoryIdle | Metric::MemoryPerConnection)
    }

    /// Its value in one record. `MemoryPerConnection` needs two records: see `Group::values`.
    pub fn of(self, record: &Record) -> Option<f64> {
        let f = &record.figures;
        let value = match self {
            Metric::Tps => f.tps,
            Metric::LatencyMean => f.latency_mean_ms,
            Metric::LatencyP95 => f.latency_p95_ms,
            Metric::LatencyP99 => f.latency_p99_ms,
            Metric::CpuPerTransaction => per_transaction(f.server_cpu_s.map(|s| s * 1e6), f),
            Metric::SwitchesPerTransaction => per_transaction(sum(f.voluntary_switches, f.involuntary_switches), f),
            Metric::FaultsPerTransaction => per_transaction(sum(f.minor_faults, f.major_faults), f),
            Metric::MemoryLoaded => f.rss_loaded,
            Metric::MemoryPeak => f.rss_peak,
            Metric::MemoryIdle => f.rss_idle,
            Metric::MemoryPerConnection => None,
            Metric::ClientShare => match (f.client_cpu_s, f.server_cpu_s) {
                (Some(client), Some(server)) if client + server > 0.0 => Some(client / (client + server)),
                _ => None,
            },
            Metric::NewOrders => f.nopm,
            Metric::TransactionsPerMinute => f.tpm,
            Metric::NewOrderMean => f.neworder_mean_ms,
            Metric::NewOrderP95 => f.neworder_p95_ms,
            Metric::PaymentMean => f.payment_mean_ms,
            Metric::PaymentP95 => f.payment_p95_ms,
            Metric::DeliveryMean => f.delivery_mean_ms,
            Metric::DeliveryP95 => f.delivery_p95_ms,
        };
        value.filter(|v| v.is_finite() && *v >= 0.0)
    }
}

fn transactions(f: &Figures) -> Option<f64> {
    f.transactions.or_else(|| Some(f.tps? * f.seconds?)).filter(|t| *t > 0.0)
}

fn per_transaction(what: Option<f64>, f: &Figures) -> Option<f64> {
    Some(what? / transactions(f)?)
}

/// Both kinds must have been counted: half of the switches is not the switches.
fn sum(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? + b?)
}
