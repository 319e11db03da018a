//! The tests and their sizes; defaults are sysbench's.

use super::choose::Distribution;
use clap::{Args, ValueEnum};

/// sysbench's tests by its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Plan {
    #[value(name = "oltp_read_only")]
    ReadOnly,
    #[value(name = "oltp_read_write")]
    ReadWrite,
    #[value(name = "oltp_write_only")]
    WriteOnly,
    #[value(name = "oltp_point_select")]
    PointSelect,
    #[value(name = "oltp_update_index")]
    UpdateIndex,
    #[value(name = "oltp_update_non_index")]
    UpdateNonIndex,
    #[value(name = "oltp_insert")]
    Insert,
    #[value(name = "oltp_delete")]
    Delete,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "sysbench's tests")]
pub struct Shape {
    /// Tables sbtest1, sbtest2, ...
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub tables: u32,

    /// Rows of each table
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..=2_000_000_000))]
    pub table_size: u32,

    /// Which rows are asked for (sysbench 1.0's default is special)
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Distribution::Special)]
    pub distribution: Distribution,

    /// Rows of a range
    #[arg(long, value_name = "N", default_value = "100")]
    pub range_size: u32,

    /// Point selects of a transaction (oltp_point_select always has 1)
    #[arg(long, value_name = "N", default_value = "10")]
    pub point_selects: u32,

    #[arg(long, value_name = "N", default_value = "1")]
    pub simple_ranges: u32,

    #[arg(long, value_name = "N", default_value = "1")]
    pub sum_ranges: u32,

    #[arg(long, value_name = "N", default_value = "1")]
    pub order_ranges: u32,

    #[arg(long, value_name = "N", default_value = "1")]
    pub distinct_ranges: u32,

    #[arg(long, value_name = "N", default_value = "1")]
    pub index_updates: u32,

    #[arg(long, value_name = "N", default_value = "1")]
    pub non_index_updates: u32,

    #[arg(long, value_name = "N", default_value = "1")]
    pub delete_inserts: u32,

    /// No BEGIN and COMMIT: each statement commits by itself
    #[arg(long)]
    pub skip_trx: bool,
}

/// A prepared statement of each table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    Point,
    Simple,
    Sum,
    Order,
    Distinct,
    UpdateIndex,
    UpdateNonIndex,
    Delete,
    Insert,
}

impl Statement {
    pub fn sql(self, table: u32) -> String {
        let t = format!("sbtest{table}");
        match self {
            Statement::Point => format!("SELECT c FROM {t} WHERE id=?"),
            Statement::Simple => format!("SELECT c FROM {t} WHERE id BETWEEN ? AND ?"),
            Statement::Sum => format!("SELECT SUM(k) FROM {t} WHERE id BETWEEN ? AND ?"),
            Statement::Order => format!("SELECT c FROM {t} WHERE id BETWEEN ? AND ? ORDER BY c"),
            Statement::Distinct => format!("SELECT DISTINCT c FROM {t} WHERE id BETWEEN ? AND ? ORDER BY c"),
            Statement::UpdateIndex => format!("UPDATE {t} SET k=k+1 WHERE id=?"),
            Statement::UpdateNonIndex => format!("UPDATE {t} SET c=? WHERE id=?"),
            Statement::Delete => format!("DELETE FROM {t} WHERE id=?"),
            Statement::Insert => format!("INSERT INTO {t} (id, k, c, pad) VALUES (?, ?, ?, ?)"),
        }
    }
}

impl Plan {
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
    }

    /// The groups of a transaction in order, and how many statements each has; a group keeps to one table.
    pub fn groups(self, shape: &Shape) -> Vec<(Statement, u32)> {
        use Statement as S;
        let reads = [
            (S::Point, shape.point_selects),
            (S::Simple, shape.simple_ranges),
            (S::Sum, shape.sum_ranges),
            (S::Order, shape.order_ranges),
            (S::Distinct, shape.distinct_ranges),
        ];
        let writes = [
            (S::UpdateIndex, shape.index_updates),
            (S::UpdateNonIndex, shape.non_index_updates),
            // Each delete is followed by the insert of the same row.
            (S::Delete, shape.delete_inserts),
        ];
        match self {
            Plan::ReadOnly => reads.to_vec(),
            Plan::ReadWrite => [&reads[..], &writes].concat(),
            Plan::WriteOnly => writes.to_vec(),
            Plan::PointSelect => vec![(S::Point, 1)],
            Plan::UpdateIndex => vec![(S::UpdateIndex, shape.index_updates)],
            Plan::UpdateNonIndex => vec![(S::UpdateNonIndex, shape.non_index_updates)],
            Plan::Insert => vec![(S::Insert, 1)],
            Plan::Delete => vec![(S::Delete, 1)],
        }
    }

    /// Whether a transaction is more than one statement that commits by itself.
    pub fn begins(self, shape: &Shape) -> bool {
        !shape.skip_trx && matches!(self, Plan::ReadOnly | Plan::ReadWrite | Plan::WriteOnly)
    }

    /// Whether a delete is followed by an insert.
    pub fn reinserts(self) -> bool {
        matches!(self, Plan::ReadWrite | Plan::WriteOnly)
    }

    /// Prepared statements of one client.
    pub fn statements(self, shape: &Shape) -> u32 {
        let groups = self.groups(shape);
        let used = groups.iter().filter(|(_, count)| *count > 0).count() as u32;
        let own = match self {
            Plan::Insert => 0,
            _ => used + u32::from(self.reinserts() && shape.delete_inserts > 0),
        };
        own * shape.tables + 2 * u32::from(self.begins(shape))
    }
}
