//! What the command says of itself: help, man pages, completions, version.

mod common;

use common::{Folder, Said};
use std::fs;
use std::process::{Command, Stdio};

/// The verbs that the main help names.
fn verbs(folder: &Folder) -> Vec<String> {
    let help = folder.run(&["--help"]).fine().out;
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = list.lines().filter(|l| l.starts_with("  ") && !l.starts_with("   "));
    names.map(|l| l.split_whitespace().next().unwrap().to_string()).filter(|v| v != "help").collect()
}

#[test]
fn every_verb_has_help_with_an_example_of_itself() {
    let folder = Folder::new("help");
    let verbs = verbs(&folder);
    assert!(verbs.len() >= 10 && verbs.iter().any(|v| v == "sweep"), "{verbs:?}");
    for verb in &verbs {
        let help = folder.run(&[verb.as_str(), "--help"]).fine().out;
        let (_, examples) = help.split_once("Example").unwrap_or_else(|| panic!("{verb}: {help}"));
        let own = format!("  evenkeel {verb}");
        let lines: Vec<&str> = examples.lines().filter(|l| l.starts_with(&own)).collect();
        assert!(!lines.is_empty(), "{verb}: {help}");
        // An example uses no option that the verb does not have; after `--` comes another program.
        for line in lines {
            for word in line.split_whitespace().take_while(|w| *w != "--").filter(|w| w.starts_with("--")) {
                assert!(help.contains(&format!("{word} ")) || help.contains(&format!("{word}\n")), "{verb}: {word}");
            }
        }
    }
}

#[test]
fn without_a_verb_it_helps_and_fails() {
    let folder = Folder::new("bare");
    folder.run(&[]).refused(2, &["Usage: evenkeel", "Begin with: evenkeel sweep experiments/try.toml"]);
    assert_eq!(folder.run(&["--version"]).fine().out, format!("evenkeel {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_man_page_for_the_command_and_for_each_verb() {
    let folder = Folder::new("man");
    folder.run(&["man", "--out", "pages"]).fine();
    let page = |name: &str| fs::read_to_string(folder.path("pages").join(name)).unwrap();
    let main = page("evenkeel.1");
    let verbs = verbs(&folder);
    assert_eq!(folder.run(&["man"]).fine().out, main);
    for verb in &verbs {
        assert!(
            main.contains(&format!("evenkeel\\-{}(1)", verb.replace('-', "\\-"))),
            "{verb} is not in the main page"
        );
        let own = page(&format!("evenkeel-{verb}.1"));
        assert!(
            own.contains(".TH ")
                && own.contains("Example")
                && own.contains(&format!("evenkeel {}", verb.replace('-', "\\-"))),
            "{own}"
        );
    }
}

#[test]
fn completions_complete() {
    let folder = Folder::new("completions");
    let verbs = verbs(&folder);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = folder.run(&["completions", shell]).fine().out;
        for verb in &verbs {
            assert!(text.contains(verb.as_str()), "{shell}: {verb}");
        }
    }
    folder.write("words", &folder.run(&["completions", "bash"]).fine().out);
    let ask = |words: &str, at: usize| {
        let script = format!(
            "source words; COMP_WORDS=({words}); COMP_CWORD={at}; _evenkeel evenkeel \"${{COMP_WORDS[{at}]}}\" \
             \"${{COMP_WORDS[{}]}}\"; echo \"${{COMPREPLY[@]}}\"",
            at - 1
        );
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &script]).current_dir(&folder.0);
        Said::of(bash).fine().out
    };
    assert_eq!(ask("evenkeel sw", 1), "sweep\n");
    assert_eq!(ask("evenkeel sweep --dr", 2), "--dry-run\n");
    assert_eq!(ask("evenkeel report --format m", 3), "markdown\n");
}

#[test]
fn a_reader_who_leaves_is_no_error() {
    let folder = Folder::new("pipe");
    for words in [&["heaps"][..], &["heaps", "--json"], &["man"], &["completions", "zsh"], &["doctor", "--machine"]] {
        let mut child = folder.evenkeel(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let said: Said = child.wait_with_output().unwrap().into();
        assert!(!said.err.contains("panicked"), "{words:?}: {}", said.err);
        assert_eq!(said.code, Some(0), "{words:?}: {}", said.err);
    }
}

#[test]
fn the_machine_is_described() {
    let folder = Folder::new("doctor");
    let text = folder.run(&["doctor", "--machine"]).fine().out;
    let json: serde_json::Value =
        serde_json::from_str(&folder.run(&["doctor", "--machine", "--json"]).fine().out).unwrap();
    for finding in json.as_array().unwrap() {
        let what = finding["what"].as_str().unwrap();
        assert!(text.contains(&format!(" {what}: ")), "{what} is only in the JSON");
    }
    let heaps: serde_json::Value = serde_json::from_str(&folder.run(&["heaps", "--json"]).fine().out).unwrap();
    let table = folder.run(&["heaps"]).fine().out;
    assert_eq!(heaps[0]["name"], "glibc");
    for heap in heaps.as_array().unwrap() {
        assert!(table.contains(heap["name"].as_str().unwrap()) && table.contains(heap["how"].as_str().unwrap()));
    }
}
