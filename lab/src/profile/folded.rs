//! Folded stacks: one line a stack, `root;caller;leaf WEIGHT`. What other tools fold (from perf, DTrace, ETW) is read as well.
//!
//! A frame's name keeps no `;` and no line break, so that what is written is read again the same.

use super::Profile;
use crate::wrong::wrong;
use anyhow::Result;
use std::fmt::Write;

/// Reads every line; `name` is the file's, for messages. Lines of comment begin with `#`.
pub fn read(name: &str, text: &str) -> Result<Profile> {
    let mut profile = Profile::default();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad =
            |what: &str| wrong(format!("{name}:{}: {what}; a line is root;caller;leaf, a space and a number", i + 1));
        let (stack, weight) = line.rsplit_once([' ', '\t']).ok_or_else(|| bad("no weight"))?;
        let weight = weight_of(weight).ok_or_else(|| bad(&format!("{weight:?} is no weight")))?;
        let frames = stack.trim_end().split(';').map(|f| profile.frame(object_first(f.trim()).as_ref())).collect();
        profile.add(frames, weight);
    }
    if profile.is_empty() {
        return Err(wrong(format!("{name}: there is no stack in it")));
    }
    Ok(profile)
}

/// Some tools write whole numbers as `12.0`, or milliseconds with a fraction.
fn weight_of(word: &str) -> Option<u64> {
    if let Ok(whole) = word.parse() {
        return Some(whole);
    }
    let number: f64 = word.parse().ok()?;
    (number.is_finite() && number >= 0.0).then(|| number.round() as u64)
}

/// `module`function` (DTrace) as `module!function`.
fn object_first(frame: &str) -> std::borrow::Cow<'_, str> {
    match frame.split_once('`') {
        Some((object, function)) if !object.is_empty() => format!("{object}!{function}").into(),
        _ => frame.into(),
    }
}

/// In the order of the stacks' names, so that the same profile gives the same file.
pub fn write(profile: &Profile) -> String {
    let mut lines: Vec<(String, u64)> = profile
        .stacks()
        .map(|(stack, weight)| {
            let names: Vec<String> = stack.iter().map(|f| clean(profile.name(*f))).collect();
            (names.join(";"), weight)
        })
        .collect();
    lines.sort();
    lines.iter().fold(String::new(), |mut text, (stack, weight)| {
        let _ = writeln!(text, "{stack} {weight}");
        text
    })
}

fn clean(name: &str) -> String {
    name.replace(';', ",").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let text = "a;b c::d(int, char);e 3\na;b c::d(int, char) 2\nx 1\n";
        let profile = read("f", text).unwrap();
        assert_eq!(profile.total(), 6);
        let again = write(&profile);
        assert_eq!(again, "a;b c::d(int, char) 2\na;b c::d(int, char);e 3\nx 1\n");
        assert_eq!(read("f", &again).unwrap().total(), 6);
    }

    #[test]
    fn other_tools_forms() {
        let profile = read("f", "# folded by hand\nntdll.dll!A;B\t2.0\nlibc`malloc 1\n\n").unwrap();
        assert_eq!(
            (profile.total(), profile.names()),
            (3, &["ntdll.dll!A".to_string(), "B".into(), "libc!malloc".into()][..])
        );
    }

    #[test]
    fn what_is_no_stack_is_named_with_its_line() {
        for (text, says) in [("a;b 1\na;b\n", "f:2: no weight"), ("a x\n", "f:1: \"x\" is no weight"), ("", "no stack")]
        {
            let error = read("f", text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
