//! Writes a page of synthetic records.
#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/judged.rs"]
mod judged;

fn main() {
    let folder = std::env::args().nth(1).expect("folder");
    let records = common::Sweep::default().records();
    let analysis = judged::analysis(&records);
    let environment = common::environment();
    let redo = common::redo();
    let page = lab::report::Page {
        analysis: &analysis,
        records: &records,
        experiment_toml: common::EXPERIMENT,
        environment: &environment,
        folder: "results/synthetic",
        redo: &redo,
    };
    let put = |name: &str, text: String| std::fs::write(format!("{folder}/{name}"), text).expect("written");
    let t = std::time::Instant::now();
    put("report.html", lab::report::html(&page));
    eprintln!("{:?}", t.elapsed());
    put("report.md", lab::report::markdown(&page));
    put("report.csv", lab::report::csv(&page));
    put("report.json", lab::report::json(&page));
    put("curve.svg", lab::report::curve_svg(&analysis.tests[0], "oltp").expect("curve"));
    for w in [60, 80, 120, 160] {
        println!("{}\n{}", "-".repeat(w), lab::report::terminal(&page, w, false));
    }
}
