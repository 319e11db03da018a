//! Draws the cliff: one line per heap, threads to the right, CPU time per operation upwards, both in equal ratios.
//! The picture stands alone: its colours follow the reader's light or dark mode, and each line is named at its end.

use crate::machine;
use crate::record::{Record, Results};
use crate::stats;
use crate::table;
use std::fmt::Write as _;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 540.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 640.0;
const TOP: f64 = 132.0;
const BOTTOM: f64 = 484.0;
/// Between the base lines of two labels.
const LEADING: f64 = 17.0;

/// A heap's line: (threads, nanoseconds), and the first number of threads at which it gave no figure.
struct Curve {
    heap: String,
    points: Vec<(f64, f64)>,
    lost: Option<(f64, String)>,
}

pub fn cliff(results: &Results, subject: &str) -> Result<(), String> {
    let path = machine::root().join("docs/cliff.svg");
    let svg = svg(results, subject).ok_or("there are no figures of the cliff to draw")?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    std::fs::write(&path, svg).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("drawn: {}", machine::shown(&path));
    Ok(())
}

fn curves(results: &Results, subject: &str) -> Vec<Curve> {
    let mut counts: Vec<u32> =
        results.records.iter().filter_map(|r| r.work.strip_prefix("cliff-")?.parse().ok()).collect();
    counts.sort();
    counts.dedup();
    let curve = |heap: &str| {
        let mut curve = Curve { heap: heap.into(), points: vec![], lost: None };
        for n in &counts {
            let work = format!("cliff-{n}");
            let trials: Vec<&Record> = results.records.iter().filter(|r| r.work == work && r.heap == heap).collect();
            let values = table::typical(results, &trials, |r| r.figure("cpu_ns_per_op"));
            match (stats::median(&values), trials.first()) {
                (Some(ns), _) if curve.lost.is_none() => curve.points.push((f64::from(*n), ns)),
                (None, Some(first)) if curve.lost.is_none() => {
                    let why = match first.status.as_str() {
                        status if status.starts_with("timeout") => "ran out of time".into(),
                        status if status.starts_with("over ") => format!("took {status}"),
                        status => status.to_string(),
                    };
                    curve.lost = Some((f64::from(*n), why));
                }
                _ => {}
            }
        }
        curve
    };
    table::heaps_in(results, subject).into_iter().map(curve).filter(|c| !c.points.is_empty()).collect()
}

/// Where values of a range that is cut in equal ratios come to lie.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let part = (value / self.low).ln() / (self.high / self.low).ln();
        self.from + part * (self.to - self.from)
    }
}

/// 1, 2, 5, 10, 20, .. within the range.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let mut ticks = vec![];
    let mut decade = 10f64.powf(low.log10().floor());
    while decade <= high {
        ticks.extend([1.0, 2.0, 5.0].map(|m| m * decade));
        decade *= 10.0;
    }
    ticks.retain(|t| (low..=high).contains(t));
    ticks
}

/// Moves labels apart until none is nearer than `LEADING` to the next, as little as that takes.
fn spread_out(wanted: &[f64], low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    // Groups of labels that touch: each is centred on the mean of what its labels want.
    let mut groups: Vec<(Vec<usize>, f64)> = vec![];
    let half = |n: usize| (n as f64 - 1.0) * LEADING / 2.0;
    let centre = |members: &[usize]| {
        let mean = members.iter().map(|i| wanted[*i]).sum::<f64>() / members.len() as f64;
        let reach = half(members.len());
        mean.clamp(low + reach, (high - reach).max(low + reach))
    };
    for i in order {
        groups.push((vec![i], centre(&[i])));
        while let [.., (upper, a), (lower, b)] = groups.as_slice() {
            if b - half(lower.len()) - (a + half(upper.len())) >= LEADING {
                break;
            }
            let members: Vec<usize> = upper.iter().chain(lower).copied().collect();
            let middle = centre(&members);
            groups.truncate(groups.len() - 2);
            groups.push((members, middle));
        }
    }
    let mut places = vec![0.0; wanted.len()];
    for (members, middle) in groups {
        let first = middle - half(members.len());
        for (n, i) in members.into_iter().enumerate() {
            places[i] = first + n as f64 * LEADING;
        }
    }
    places
}

const STYLE: &str = "
  svg { font: 14px system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif }
  .paper { fill: #ffffff } .ink { fill: #1f2328 } .faint { fill: #59636e }
  .grid { stroke: #d1d9e0 } .title { font-size: 17px; font-weight: 600 } .small { font-size: 12px }
  .line { fill: none; stroke-width: 1.8; stroke-linejoin: round }
  .ours { stroke-width: 3.6 } .name.ours { font-weight: 700; stroke: none }
  .c0 { stroke: #0969da; fill: #0969da } .c1 { stroke: #6e7781; fill: #57606a } .c2 { stroke: #bc4c00; fill: #bc4c00 }
  .c3 { stroke: #1a7f37; fill: #1a7f37 } .c4 { stroke: #8250df; fill: #8250df } .c5 { stroke: #bf3989; fill: #bf3989 }
  .c6 { stroke: #9a6700; fill: #9a6700 } .c7 { stroke: #0a7d8c; fill: #0a7d8c } .c8 { stroke: #cf222e; fill: #cf222e }
  .name { stroke: none } .line { fill: none } .lead { stroke-width: 0.8; fill: none } .gone { stroke-dasharray: 4 4 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } .ink { fill: #f0f6fc } .faint { fill: #9198a1 } .grid { stroke: #30363d }
    .c0 { stroke: #58a6ff; fill: #58a6ff } .c1 { stroke: #8b949e; fill: #a5adb6 } .c2 { stroke: #f0883e; fill: #f0883e }
    .c3 { stroke: #3fb950; fill: #3fb950 } .c4 { stroke: #bc8cff; fill: #bc8cff } .c5 { stroke: #f778ba; fill: #f778ba }
    .c6 { stroke: #d29922; fill: #d29922 } .c7 { stroke: #39c5cf; fill: #39c5cf } .c8 { stroke: #ff7b72; fill: #ff7b72 }
    .line, .lead { fill: none } .name { stroke: none }
  }
";

fn svg(results: &Results, subject: &str) -> Option<String> {
    let curves = curves(results, subject);
    let all = || curves.iter().flat_map(|c| &c.points);
    let low = all().map(|p| p.1).reduce(f64::min)?;
    let high = all().map(|p| p.1).reduce(f64::max)?;
    let xs: Vec<f64> = {
        let lost = curves.iter().filter_map(|c| Some(c.lost.as_ref()?.0));
        let mut xs: Vec<f64> = all().map(|p| p.0).chain(lost).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        xs
    };
    let (least, most) = (*xs.first()?, *xs.last()?);
    let x = Scale { low: least, high: most.max(least * 2.0), from: LEFT + 16.0, to: RIGHT - 16.0 };
    // Room above for the lines that leave the picture.
    let y = Scale { low: low / 1.25, high: high * 1.6, from: BOTTOM, to: TOP };
    let round_ns = |ns: f64| match ns {
        ns if ns < 10.0 => format!("{ns:.1}"),
        _ => grouped(ns.round() as u64),
    };

    let mut out = String::new();
    let mut put = |line: String| {
        let _ = writeln!(out, "{line}");
    };
    put(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" role=\"img\" aria-labelledby=\"t d\">"
    ));
    let title = "CPU time per operation as the same work spreads over more threads";
    put(format!("<title id=\"t\">{title}</title>"));
    let spoken: Vec<String> = curves
        .iter()
        .map(|c| {
            let points: Vec<String> = c.points.iter().map(|(n, ns)| format!("{} ns at {n}", round_ns(*ns))).collect();
            format!("{}: {}", c.heap, points.join(", "))
        })
        .collect();
    put(format!("<desc id=\"d\">{}</desc>", escaped(&spoken.join("; "))));
    put(format!("<style>{STYLE}</style>"));
    put(format!("<rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>"));
    put(format!("<text class=\"ink title\" x=\"16\" y=\"28\">{title}</text>"));
    let rounds = results.rounds();
    let under = [
        "Each thread keeps 64 blocks and replaces random ones; one block in eight is freed by another thread.".into(),
        format!(
            "{}, Linux {}; {}, {}. Lower is better.",
            results.fact("machine"),
            results.fact("kernel").split('-').next().unwrap_or(""),
            match rounds {
                1 => "one round".into(),
                n => format!("medians of {n} rounds"),
            },
            results.fact("date")
        ),
    ];
    for (line, text) in under.iter().enumerate() {
        put(format!("<text class=\"faint small\" x=\"16\" y=\"{}\">{}</text>", 48 + 17 * line, escaped(text)));
    }
    put(format!("<text class=\"faint small\" x=\"16\" y=\"{}\">ns</text>", TOP - 8.0));
    for tick in ticks(y.low, y.high) {
        let at = y.at(tick);
        put(format!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"));
        put(format!(
            "<text class=\"faint small\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            at + 4.0,
            round_ns(tick).trim_end_matches(".0")
        ));
    }
    for n in &xs {
        let at = x.at(*n);
        put(format!("<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>"));
        put(format!(
            "<text class=\"faint small\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            BOTTOM + 18.0,
            grouped(*n as u64)
        ));
    }
    put(format!(
        "<text class=\"faint small\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">threads</text>",
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 40.0
    ));

    // Ours is drawn last, above the others. Lines that leave the picture are named where they leave it.
    let class = |n: usize| {
        let ours = if curves[n].heap == subject { " ours" } else { "" };
        format!("c{}{ours}", n % 9)
    };
    let mut ends = vec![];
    let mut gone = vec![];
    for n in (0..curves.len()).rev() {
        let curve = &curves[n];
        let points: Vec<String> =
            curve.points.iter().map(|(a, b)| format!("{:.1},{:.1}", x.at(*a), y.at(*b))).collect();
        put(format!("<polyline class=\"line {}\" points=\"{}\"/>", class(n), points.join(" ")));
        for (a, b) in &curve.points {
            put(format!(
                "<circle class=\"{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{}\" style=\"stroke:none\"/>",
                class(n),
                x.at(*a),
                y.at(*b),
                if curve.heap == subject { 4.5 } else { 3.0 }
            ));
        }
        let (last_n, last) = *curve.points.last()?;
        match &curve.lost {
            Some((lost, why)) => {
                put(format!(
                    "<polyline class=\"line gone {}\" points=\"{:.1},{:.1} {:.1},{TOP}\"/>",
                    class(n),
                    x.at(last_n),
                    y.at(last),
                    x.at(*lost)
                ));
                gone.push((n, *lost, why.clone()));
            }
            None => ends.push((n, (x.at(last_n), y.at(last)), format!("{} {}", curve.heap, round_ns(last)))),
        }
    }
    // One line of text above the picture for each number of threads at which lines leave it.
    let leaving = xs.iter().rev().filter(|n| gone.iter().any(|g| g.1 == **n));
    for (row, count) in leaving.enumerate() {
        let names: Vec<String> = gone
            .iter()
            .filter(|g| g.1 == *count)
            .map(|(n, _, why)| {
                let name = escaped(&curves[*n].heap);
                format!("<tspan class=\"name {}\">{name}</tspan> {}", class(*n), escaped(why))
            })
            .collect();
        put(format!(
            "<text class=\"faint small\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            x.at(*count) + 4.0,
            TOP - 8.0 - row as f64 * LEADING,
            names.join(", ")
        ));
    }
    let wanted: Vec<f64> = ends.iter().map(|(_, (_, at), _)| *at).collect();
    let places = spread_out(&wanted, TOP, BOTTOM);
    for ((n, (from_x, from_y), text), place) in ends.iter().zip(places) {
        put(format!(
            "<polyline class=\"lead {}\" style=\"stroke-width:0.8\" points=\"{:.1},{from_y:.1} {:.1},{from_y:.1} {:.1},{place:.1}\"/>",
            class(*n),
            from_x + 6.0,
            RIGHT - 4.0,
            RIGHT + 12.0
        ));
        put(format!(
            "<text class=\"name {}\" x=\"{}\" y=\"{:.1}\">{}</text>",
            class(*n),
            RIGHT + 16.0,
            place + 5.0,
            escaped(text)
        ));
    }
    put("</svg>".into());
    Some(out)
}

/// 4096 as 4,096.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record;

    #[test]
    fn labels_do_not_touch_and_stay_inside() {
        let wanted = [100.0, 101.0, 102.0, 300.0, 439.0, 440.0, 440.0];
        let places = spread_out(&wanted, 80.0, 440.0);
        let mut sorted = places.clone();
        sorted.sort_by(f64::total_cmp);
        for pair in sorted.windows(2) {
            assert!(pair[1] - pair[0] >= LEADING - 1e-9, "{sorted:?}");
        }
        assert!(sorted[0] >= 80.0 && sorted[6] <= 440.0 + 1e-9, "{sorted:?}");
        assert_eq!(places[3], 300.0);
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(8.0, 210.0), [10.0, 20.0, 50.0, 100.0, 200.0]);
    }

    #[test]
    fn thousands() {
        assert_eq!(grouped(2), "2");
        assert_eq!(grouped(4096), "4,096");
        assert_eq!(grouped(1234567), "1,234,567");
    }

    #[test]
    fn a_line_that_ends_early_says_so() {
        let text = "# machine: a <machine>\nwork,heap,status,cpu_ns_per_op\n\
                    cliff-2,evenkeel,ok,20\ncliff-4096,evenkeel,ok,21\n\
                    cliff-2,gperftools,ok,13\ncliff-4096,gperftools,timeout,\n";
        let results = record::parse(text).unwrap();
        let svg = svg(&results, "evenkeel").unwrap();
        assert!(svg.contains("gperftools</tspan> ran out of time"));
        assert!(svg.contains("evenkeel 21"));
        assert!(svg.contains("a &lt;machine&gt;"));
        assert!(super::svg(&record::parse("work,heap\n").unwrap(), "x").is_none());
    }
}
