//! Which column is which figure. A column may bear the name of the figure in a record, or one that tools and articles use.

use crate::record::Figures;

/// Names of throughput, without which a row is no measurement.
pub(super) const THROUGHPUT: &str = "tps, qps, throughput or nopm";

pub(super) type Place = fn(&mut Figures) -> &mut Option<f64>;

/// Where the figure of a column goes, and by what its unit must be multiplied.
pub(super) fn place(name: &str) -> Option<(Place, f64)> {
    Some(match name {
        "tps" | "qps" | "throughput" | "qps_or_tps" | "tps_or_qps" | "transactions_per_second" => (|f| &mut f.tps, 1.0),
        "nopm" | "new_orders_per_minute" | "tpmc" => (|f| &mut f.nopm, 1.0),
        "tpm" => (|f| &mut f.tpm, 1.0),
        "seconds" => (|f| &mut f.seconds, 1.0),
        "duration_min" => (|f| &mut f.seconds, 60.0),
        "transactions" => (|f| &mut f.transactions, 1.0),
        "latency_mean_ms" | "latency_avg_ms" | "avg_ms" | "mean_ms" => (|f| &mut f.latency_mean_ms, 1.0),
        "latency_p50_ms" | "p50_ms" => (|f| &mut f.latency_p50_ms, 1.0),
        "latency_p95_ms" | "p95_ms" => (|f| &mut f.latency_p95_ms, 1.0),
        "latency_p99_ms" | "p99_ms" => (|f| &mut f.latency_p99_ms, 1.0),
        "latency_p999_ms" | "p999_ms" => (|f| &mut f.latency_p999_ms, 1.0),
        "neworder_mean_ms" | "neword_avg_ms" => (|f| &mut f.neworder_mean_ms, 1.0),
        "neworder_p95_ms" | "neword_p95_ms" => (|f| &mut f.neworder_p95_ms, 1.0),
        "payment_mean_ms" | "payment_avg_ms" => (|f| &mut f.payment_mean_ms, 1.0),
        "payment_p95_ms" => (|f| &mut f.payment_p95_ms, 1.0),
        "delivery_mean_ms" | "delivery_avg_ms" => (|f| &mut f.delivery_mean_ms, 1.0),
        "delivery_p95_ms" => (|f| &mut f.delivery_p95_ms, 1.0),
        "errors" => (|f| &mut f.errors, 1.0),
        "server_cpu_s" => (|f| &mut f.server_cpu_s, 1.0),
        "client_cpu_s" => (|f| &mut f.client_cpu_s, 1.0),
        "rss_start" => (|f| &mut f.rss_start, 1.0),
        "rss_loaded" | "rss" | "rss_bytes" => (|f| &mut f.rss_loaded, 1.0),
        "rss_mb" => (|f| &mut f.rss_loaded, 1e6),
        "rss_peak" => (|f| &mut f.rss_peak, 1.0),
        "peak_mb" | "rss_peak_mb" => (|f| &mut f.rss_peak, 1e6),
        "rss_idle" => (|f| &mut f.rss_idle, 1.0),
        _ => return None,
    })
}
