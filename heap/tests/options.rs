//! The options as the environment and `options::set` give them: what is taken, what is refused, and that
//! a value which cannot be used is reported once and the default stays.
#![cfg(not(loom))]

use heap::options::{self, ALL, find, set};
use std::ffi::CString;
use std::process::Command;

/// What `read` makes of an environment: printed by a child, since it writes to stderr.
fn read(environment: &[&str]) -> (Vec<(String, usize)>, Vec<String>) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture"])
        .env("HEAP_TEST", environment.join("\n"))
        .output()
        .unwrap();
    assert!(child.status.success());
    let lines = |text: Vec<u8>| String::from_utf8(text).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    let pair = |line: &String| line.split_once(" = ").map(|(name, value)| (name.to_owned(), value.parse().unwrap()));
    (lines(child.stdout).iter().filter_map(pair).collect(), lines(child.stderr))
}

#[test]
fn child() {
    // Run by the others, in a process of its own.
    let Ok(environment) = std::env::var("HEAP_TEST") else { return };
    let strings: Vec<_> = environment.split('\n').map(|entry| CString::new(entry).unwrap()).collect();
    let mut pointers: Vec<_> = strings.iter().map(|entry| entry.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: C strings and a null, which live until after the call.
    unsafe { options::read(pointers.as_ptr()) };
    ALL.iter().for_each(|option| println!("\n{} = {}", option.name, option.get()));
}

fn defaults() -> Vec<(String, usize)> {
    ALL.iter().map(|option| (option.name.to_owned(), option.default)).collect()
}

#[test]
fn what_is_not_ours_changes_nothing() {
    let others = ["", "=", "EVENKEEL_", "EVENKEEL_=1", "EVENKEEL_DECAY=5", "evenkeel_decay_ms=5", "DECAY_MS=5"];
    assert_eq!(read(&others), (defaults(), vec![]));
    assert_eq!(read(&["EVENKEEL_DECAY_MS", "XEVENKEEL_DECAY_MS=5"]), (defaults(), vec![]));
}

#[test]
fn good_values_are_taken() {
    for option in ALL {
        let name = option.name.to_ascii_uppercase();
        for value in [0, 1, option.most] {
            let (values, complaints) = read(&[&format!("EVENKEEL_{name}={value}")]);
            let want: Vec<_> =
                defaults().into_iter().map(|(n, d)| if n == option.name { (n, value) } else { (n, d) }).collect();
            assert_eq!((values, complaints), (want, vec![]));
        }
    }
    let (values, _) = read(&["EVENKEEL_SLOT_BYTES=3m"]);
    assert!(values.contains(&("slot_bytes".into(), 3 << 20)));
}

#[test]
fn bad_values_are_reported_once_and_the_default_stays() {
    for option in ALL {
        let name = option.name.to_ascii_uppercase();
        let more = (option.most + 1).to_string();
        for value in ["", "yes", "-1", "1 ", "1.5", "0x10", "18446744073709551616", "9999999999g", &more] {
            let (values, complaints) = read(&[&format!("EVENKEEL_{name}={value}")]);
            assert_eq!((values, complaints.len()), (defaults(), 1), "{name}={value}");
            let line = &complaints[0];
            assert!(line.starts_with(&format!("evenkeel: EVENKEEL_{name}={value}: ")), "{line}");
            assert!(line.contains(&option.most.to_string()) && line.ends_with(&format!("using {}", option.default)));
        }
    }
    let long = "9".repeat(1000);
    let (values, complaints) = read(&[&format!("EVENKEEL_DECAY_MS={long}")]);
    assert!(values == defaults() && complaints.len() == 1 && complaints[0].len() < 256);
}

/// docs/options.md has this table, and no other.
#[test]
fn the_docs_have_the_table() {
    let docs = include_str!("../../docs/options.md");
    let found: Vec<&str> = docs.lines().filter(|line| line.starts_with("| `")).collect();
    let row = |o: &&options::Opt| {
        let (variable, fixed) = (o.name.to_ascii_uppercase(), if o.fixed { " (*start*)" } else { "" });
        format!("| `{}` | `EVENKEEL_{variable}` | {} | {} | {}{fixed} |", o.name, o.default, o.most, o.meaning)
    };
    assert_eq!(found, ALL.iter().map(row).collect::<Vec<_>>());
}

#[test]
fn options_are_set_by_name() {
    for option in ALL {
        assert!(std::ptr::eq(find(option.name.as_bytes()).unwrap(), option));
        assert!(!option.meaning.is_empty() && option.meaning.len() < 160 && option.name.len() < 32);
        let (before, most) = (option.get(), option.most.to_string());
        assert_eq!(set(option.name.as_bytes(), most.as_bytes()).is_ok(), !option.fixed);
        assert_eq!(option.get(), if option.fixed { before } else { option.most });
        assert!(set(option.name.as_bytes(), (option.most + 1).to_string().as_bytes()).is_err());
        assert_eq!(option.get(), if option.fixed { before } else { option.most });
        _ = set(option.name.as_bytes(), before.to_string().as_bytes());
        assert_eq!(option.get(), before);
    }
    assert!(find(b"").is_none() && find(b"decay").is_none() && find(b"DECAY_MS").is_none());
}
