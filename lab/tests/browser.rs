//! The page in a browser: it opens without an error, its curves are there, hovering and switching lines work, and it fits a
//! telephone and a wide screen. Needs Chromium (Debian's package `chromium`), and says so where there is none.

mod invented;

use invented::Sweep;
use lab::analysis::{Analysis, Question, analyse};
use lab::profile::collect::Stacks;
use lab::profile::{Kind, folded};
use lab::report::{self, Page};
use lab::why::{self, Asked, Spot, Taken, Why};
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs before the page's own script, in each copy of the page.
const BEFORE: &str = "<script>
  window.errors = [];
  addEventListener('error', (e) => errors.push(String(e.message)));
  for (const kind of ['error', 'warn']) console[kind] = (...what) => errors.push(kind + ': ' + what.join(' '));
</script>";

/// Runs after it, acts as a reader would, and tells the frame around it what came of it.
const AFTER: &str = "<script>
  const $ = (s) => document.querySelector(s), $$ = (s) => [...document.querySelectorAll(s)];
  const shown = (e) => e.getClientRects().length > 0;
  const told = { width: innerWidth };
  told.charts = $$('svg.chart').filter(shown).length;
  told.lines = $$('figure.main polyline').filter(shown).length;
  told.main = $$('figure.main svg.chart').filter(shown).map((s) => s.getAttribute('class'));
  told.overflow = document.documentElement.scrollWidth - innerWidth;

  const chart = $$('figure.main svg.chart').find(shown);
  const xs = chart.dataset.x.split(' ').map(Number);
  const box = chart.getBoundingClientRect();
  const at = (i) => ({ clientX: box.left + xs[i] * box.width / chart.viewBox.baseVal.width, clientY: box.top + 90, bubbles: true });
  const tip = () => shown($('#tip')) && $('#tip').innerText;
  told.before = tip();
  chart.dispatchEvent(new PointerEvent('pointermove', at(5)));
  told.hover = tip();
  told.cross = $$('.cross').length;
  const place = $('#tip').getBoundingClientRect();
  told.inside = place.left >= 0 && place.right <= innerWidth;
  chart.dispatchEvent(new PointerEvent('pointerleave'));
  told.after = [tip(), $$('.cross').length];

  chart.focus();
  for (const key of ['ArrowLeft', 'ArrowLeft']) chart.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  told.keys = tip();
  chart.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));

  const button = $$('.legend button').find((b) => b.textContent === 'mimalloc');
  button.click();
  told.off = [$$('figure.main polyline').filter(shown).length, button.getAttribute('aria-pressed'), shown(button)];
  chart.dispatchEvent(new PointerEvent('pointermove', at(5)));
  told.without = tip();
  chart.dispatchEvent(new PointerEvent('pointerleave'));
  button.click();
  told.on = [$$('figure.main polyline').filter(shown).length, button.getAttribute('aria-pressed')];

  $('#log-0').click();
  const log = $$('figure.main svg.chart').find(shown);
  told.log = [log !== chart, log.querySelector('.unit').textContent, $$('figure.main polyline').filter(shown).length];

  // The flamegraphs: in colours without the script, with it searched and zoomed into.
  told.flames = $$('svg.flame').length;
  const holder = $$('details.flames').find((d) => d.querySelector('.by-inclusive'));
  holder.open = true;
  const flame = holder.querySelector('svg.flame');
  const boxOf = (name) => [...flame.querySelectorAll('g')].find((g) => g.querySelector('title').textContent.startsWith(name));
  const fill = (name) => getComputedStyle(boxOf(name).querySelector('rect')).fill;
  const own = fill('libc.so.6!malloc');
  holder.querySelector('.by-inclusive').click();
  told.colours = own !== fill('libc.so.6!malloc') && own !== fill('mariadbd!do_command');
  const find = holder.querySelector('.find');
  find.value = 'MALLOC';
  find.dispatchEvent(new Event('input'));
  told.found = [holder.querySelector('.found').textContent, flame.querySelectorAll('.lit').length];
  find.value = '';
  find.dispatchEvent(new Event('input'));
  const wide = (name) => Number(boxOf(name).querySelector('rect').getAttribute('width'));
  const before = wide('libc.so.6!malloc');
  boxOf('libc.so.6!malloc').dispatchEvent(new MouseEvent('click', { bubbles: true }));
  told.zoom = [before < 1160, wide('libc.so.6!malloc'), boxOf('mariadbd!row_search_mvcc').classList.contains('gone')];
  flame.querySelector('.all').dispatchEvent(new MouseEvent('click', { bubbles: true }));
  told.back = [Math.abs(wide('libc.so.6!malloc') - before) < 0.1, flame.querySelectorAll('.gone').length];
  told.errors = errors;
  parent.postMessage(told, '*');
</script>";

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = |folder: PathBuf| names.iter().map(|n| folder.join(n)).find(|p| p.is_file());
    std::env::split_paths(&path).find_map(found)
}

fn page() -> String {
    let records = Sweep::default().records();
    let question = Question { title: invented::TITLE.into(), baseline: None, margin: None, twins: vec![] };
    let analysis = analyse(&question, &records);
    let why = why(&analysis);
    report::html(&Page {
        analysis: &analysis,
        why: Some(&why),
        records: &records,
        experiment_toml: invented::EXPERIMENT,
        environment: &invented::environment(),
        folder: "results/synthetic",
        redo: &[],
    })
}

/// Profiles of the first test's baseline and of one that loses to it.
fn why(analysis: &Analysis) -> Why {
    let test = &analysis.tests[0];
    let is_twin = |_: &str| false;
    let asked = Asked { is_twin: &is_twin, cpus: Some(2), heap_alone: true };
    let loss = why::losses(test, asked).remove(0);
    let spot = |variant: &str, malloc: u64| {
        let root = "libc.so.6!start_thread;mariadbd!do_command";
        let text =
            format!("{root};mariadbd!row_search_mvcc 900\n{root};libc.so.6!malloc;libc.so.6!_int_malloc {malloc}\n");
        let profile = folded::read("invented", &text).expect("stacks");
        let stacks = Stacks {
            kind: Kind::Cpu,
            file: "profiles/x.cpu.folded".into(),
            samples: profile.total(),
            lost: 0,
            nowhere: 0,
            each: 1e-3,
            seconds: 1.0,
            unwound: "dwarf".into(),
        };
        let taken = Taken { rounds: vec![profile], stacks: vec![stacks], transactions: vec![1000.0] };
        let views = [(Kind::Cpu, taken)].into();
        Spot { test: test.test.clone(), variant: variant.into(), clients: loss.clients, views, ..Spot::default() }
    };
    let beside = loss.beside.clone().expect("another variant");
    let spots = vec![spot(&loss.variant, 800), spot(&beside, 20)];
    let answers = why::answers(&analysis.tests, &spots, None, asked);
    Why { answers, spots, tolls: Vec::new() }
}

/// What a browser made of a file: its document once all scripts ran, and what it logged.
fn opened(chromium: &Path, folder: &Path, file: &str) -> (String, String) {
    let done = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1800,1200"])
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", folder.join(file).display()))
        .output()
        .expect("the browser starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{}", text(&done.stderr));
    (text(&done.stdout), text(&done.stderr))
}

#[test]
fn a_reader_can_use_the_page() {
    let Some(chromium) = chromium() else {
        // Not println, which the harness keeps to itself when a test passes.
        let _ = writeln!(std::io::stderr(), "skipped: a_reader_can_use_the_page: no chromium on PATH");
        return;
    };
    let folder = std::env::temp_dir().join(format!("evenkeel-page-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let page = page();
    let (head, rest) = page.split_once("<head>").expect("a head");
    let (body, end) = rest.rsplit_once("</body>").expect("a body");
    let put = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
    put("page.html", &page);
    put("driven.html", &format!("{head}<head>{BEFORE}{body}{AFTER}</body>{end}"));
    // Frames, since a window cannot be as narrow as a telephone.
    put(
        "frames.html",
        "<!doctype html><pre id=\"told\"></pre><script>
          const told = [];
          addEventListener('message', (e) => {
            told.push(e.data);
            document.getElementById('told').textContent = JSON.stringify(told);
          });
        </script>
        <iframe src=\"driven.html\" style=\"width: 360px; height: 900px; border: 0\"></iframe>
        <iframe src=\"driven.html\" style=\"width: 1600px; height: 900px; border: 0\"></iframe>",
    );

    let (dom, log) = opened(&chromium, &folder, "page.html");
    assert!(dom.contains("class=\"js\""), "the script ran");
    assert!(!log.contains("CONSOLE"), "{log}");

    let (dom, log) = opened(&chromium, &folder, "frames.html");
    let told = dom.split_once("<pre id=\"told\">").and_then(|(_, rest)| rest.split_once("</pre>")).expect("a place").0;
    let told: Vec<Value> = serde_json::from_str(
        &told.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace("&nbsp;", "\u{a0}"),
    )
    .unwrap_or_else(|e| panic!("{e}: {told}\n{log}"));
    assert_eq!(told.len(), 2, "{told:?}");
    for t in &told {
        let wide = t["width"] == 1600;
        assert_eq!(t["errors"], serde_json::json!([]));
        let class = if wide { "chart wide" } else { "chart narrow" };
        assert_eq!(t["main"], serde_json::json!([class, class]), "one picture for each test");
        assert_eq!(t["lines"], 10, "five lines in each of two");
        assert!(t["charts"].as_u64() > Some(20), "{t}");
        assert!(t["overflow"].as_i64() <= Some(0), "wider than its window: {t}");

        assert_eq!(t["before"], false);
        let hover = t["hover"].as_str().expect("words");
        assert!(hover.contains("256 clients") && hover.contains("transactions/s"), "{hover}");
        for name in ["glibc", "jemalloc", "mimalloc", "tcmalloc", "evenkeel"] {
            assert!(hover.contains(name), "{name}: {hover}");
        }
        // The best first, as the lines lie.
        assert!(
            hover.find("evenkeel") < hover.find("glibc") && hover.find("glibc") < hover.find("mimalloc"),
            "{hover}"
        );
        assert!(hover.contains("worse −6"), "{hover}");
        assert_eq!(t["cross"], 1);
        assert_eq!(t["inside"], true, "{t}");
        assert_eq!(t["after"], serde_json::json!([false, 0]));
        assert!(t["keys"].as_str().is_some_and(|k| k.contains("clients")), "{t}");

        assert_eq!(t["off"], serde_json::json!([8, "false", true]));
        let without = t["without"].as_str().expect("words");
        assert!(!without.contains("mimalloc") && without.contains("glibc"), "{without}");
        assert_eq!(t["on"], serde_json::json!([10, "true"]));
        assert_eq!(t["log"], serde_json::json!([true, "transactions/s, log scale", 10]));

        assert_eq!(t["flames"], 2, "of the loser, and of what stands beside it");
        assert_eq!(t["colours"], true, "the change has a colour of its own");
        assert_eq!(t["found"], serde_json::json!(["47.1 % in 2 boxes", 2]));
        assert_eq!(t["zoom"], serde_json::json!([true, 1160, true]));
        assert_eq!(t["back"], serde_json::json!([true, 0]));
    }
    assert!(told.iter().any(|t| t["width"] == 360) && told.iter().any(|t| t["width"] == 1600));
    std::fs::remove_dir_all(&folder).expect("removed");
}
