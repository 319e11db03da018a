//! A test's figures by variant, clients and metric, and the charts made of them.

use super::plot::{Chart, Fall, Series};
use super::words;
use crate::analysis::{Comparison, Curve, Estimate, Metric, Test};
use std::collections::HashMap;

pub struct Facts<'a> {
    pub test: &'a Test,
    figures: HashMap<(&'a str, u32, Metric), &'a Estimate>,
    comparisons: HashMap<(&'a str, u32, Metric), &'a Comparison>,
}

impl<'a> Facts<'a> {
    pub fn new(test: &'a Test) -> Self {
        let mut figures = HashMap::new();
        for curve in &test.curves {
            for point in &curve.points {
                for (metric, estimate) in &point.figures {
                    figures.insert((curve.variant.as_str(), point.clients, *metric), estimate);
                }
            }
        }
        let comparisons = test.comparisons.iter().map(|c| ((c.variant.as_str(), c.clients, c.metric), c)).collect();
        Self { test, figures, comparisons }
    }

    pub fn figure(&self, variant: &str, clients: u32, metric: Metric) -> Option<&'a Estimate> {
        self.figures.get(&(variant, clients, metric)).copied()
    }

    pub fn comparison(&self, variant: &str, clients: u32, metric: Metric) -> Option<&'a Comparison> {
        self.comparisons.get(&(variant, clients, metric)).copied()
    }

    /// What was measured, in the order in which a reader wants it.
    pub fn metrics(&self) -> Vec<Metric> {
        let has = |m: &Metric| self.figures.keys().any(|(_, _, metric)| metric == m);
        words::METRICS.into_iter().filter(has).collect()
    }

    /// What counted as no difference, if variants were compared by this metric.
    pub fn margin(&self, metric: Metric) -> Option<f64> {
        self.test.comparisons.iter().find(|c| c.metric == metric).map(|c| c.margin)
    }

    /// Over the client counts, the figure that a row of a summary shows: the worst for memory, the one at most clients
    /// for costs and times.
    pub fn summary(&self, variant: &str, metric: Metric) -> Option<&'a Estimate> {
        let mut all = self.test.clients.iter().filter_map(|n| self.figure(variant, *n, metric));
        match metric {
            Metric::MemoryPeak | Metric::MemoryIdle | Metric::MemoryLoaded => {
                all.max_by(|a, b| a.median.total_cmp(&b.median))
            }
            _ => all.next_back(),
        }
    }

    /// `places`: all variants of the report in order, which gives each the same look in every picture.
    pub fn chart(&self, metric: Metric, places: &[&str]) -> Option<Chart<'a>> {
        let series = |curve: &'a Curve| {
            let name = curve.variant.as_str();
            let figure = |n: &u32| self.figure(name, *n, metric).filter(|e| e.median.is_finite()).map(|e| (*n, *e));
            let points: Vec<(u32, Estimate)> = self.test.clients.iter().filter_map(figure).collect();
            Series { name, place: places.iter().position(|p| *p == name).unwrap_or(0), points, fall: None }
        };
        let chart = Chart {
            metric,
            title: format!("{}: {}", self.test.test, words::about(metric).name),
            clients: &self.test.clients,
            series: self.test.curves.iter().map(series).collect(),
        };
        (!chart.is_empty()).then_some(chart)
    }

    /// The curve the verdict is about, with its cliffs.
    pub fn main_chart(&self, places: &[&str]) -> Option<Chart<'a>> {
        let mut chart = self.chart(self.test.throughput, places)?;
        for series in &mut chart.series {
            let curve = self.test.curves.iter().find(|c| c.variant == series.name);
            let Some(cliff) = curve.and_then(|c| c.shape.cliff.as_ref()) else { continue };
            let measured = series.points.iter().find(|(n, _)| *n == cliff.after).map(|(_, e)| e.median);
            series.fall = measured.filter(|_| cliff.factor.median > 0.0).map(|measured| Fall {
                after: cliff.after,
                predicted: measured / cliff.factor.median,
                factor: cliff.factor.median,
            });
        }
        Some(chart)
    }
}
