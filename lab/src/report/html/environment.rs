//! The machine and the binaries, whatever the sweep noted of them: what is of one level is a table of names and values, a
//! list of like things (binaries) a table with a row for each, and what lies deeper a table of its own.

use super::super::markup::Markup;
use super::{header, scroll};
use serde_json::{Map, Value};

#[derive(Debug, PartialEq)]
struct Group {
    name: String,
    /// Empty: the rows are names and values.
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

pub(super) fn environment(m: &mut Markup, environment: &Value) {
    m.leaf("h2", "Environment");
    let mut groups = vec![];
    gather("", environment, &mut groups);
    if groups.is_empty() {
        m.leaf("p", "These records come without an environment.");
    }
    let (lists, values): (Vec<Group>, Vec<Group>) = groups.into_iter().partition(|g| !g.heads.is_empty());
    m.el("div").class("environment").with(|m| {
        for group in &values {
            m.el("table").class("text").with(|m| {
                m.leaf("caption", if group.name.is_empty() { "machine" } else { &group.name });
                m.el("tbody").with(|m| {
                    for row in &group.rows {
                        m.el("tr").with(|m| {
                            m.el("th").at("scope", "row").text(&row[0]);
                            m.el("td").with(|m| m.leaf("code", &row[1]));
                        });
                    }
                });
            });
        }
    });
    for group in &lists {
        scroll(m, |m| {
            m.el("table").class("text").with(|m| {
                m.leaf("caption", &group.name);
                header(m, &group.heads);
                m.el("tbody").with(|m| {
                    for row in &group.rows {
                        m.el("tr").with(|m| row.iter().for_each(|value| m.el("td").with(|m| m.leaf("code", value))));
                    }
                });
            });
        });
    }
}

fn gather(name: &str, value: &Value, groups: &mut Vec<Group>) {
    let entries: Vec<(String, &Value)> = match value {
        Value::Array(list) => {
            if let Some(list) = like_things(name, list) {
                groups.push(list);
                return;
            }
            list.iter().enumerate().map(|(i, v)| ((i + 1).to_string(), v)).collect()
        }
        Value::Object(map) => map.iter().map(|(k, v)| (words(k), v)).collect(),
        Value::Null => vec![],
        single => vec![("value".into(), single)],
    };
    let rows: Vec<Vec<String>> = entries.iter().filter_map(|(key, v)| Some(vec![key.clone(), line(v)?])).collect();
    if !rows.is_empty() {
        groups.push(Group { name: name.into(), heads: vec![], rows });
    }
    for (key, value) in entries.iter().filter(|(_, value)| line(value).is_none()) {
        match name {
            "" => gather(key, value, groups),
            _ => gather(&format!("{name}, {key}"), value, groups),
        }
    }
}

/// A list of objects that hold nothing but lines.
fn like_things(name: &str, list: &[Value]) -> Option<Group> {
    let objects: Vec<&Map<String, Value>> = list.iter().map(Value::as_object).collect::<Option<_>>()?;
    let mut keys: Vec<&String> = vec![];
    for key in objects.iter().flat_map(|o| o.keys()) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    if keys.is_empty() {
        return None;
    }
    let cell = |o: &&Map<String, Value>, key: &&String| o.get(*key).map_or(Some(String::new()), line);
    let row = |o: &&Map<String, Value>| keys.iter().map(|key| cell(o, key)).collect::<Option<Vec<_>>>();
    let rows = objects.iter().map(row).collect::<Option<Vec<_>>>()?;
    Some(Group { name: name.into(), heads: keys.iter().map(|key| words(key)).collect(), rows })
}

/// `numa_nodes` as a person writes it.
fn words(key: &str) -> String {
    key.replace('_', " ")
}

/// What fits in a line: anything but objects and lists of lists.
fn line(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("not known".into()),
        Value::Bool(yes) => Some(if *yes { "yes" } else { "no" }.into()),
        Value::Number(n) => Some(n.to_string()),
        Value::String(s) => Some(s.clone()),
        Value::Array(list) => {
            let parts = list.iter().map(|v| line(v).filter(|_| !v.is_array())).collect::<Option<Vec<_>>>()?;
            Some(parts.join(", "))
        }
        Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn environments_of_any_shape_are_tables() {
        let value = json!({
            "kernel": "6.1", "thp": null, "smt": true,
            "cpu": { "model_name": "X", "flags": ["a", "b"], "caches": { "l1": 32 } },
            "binaries": [{ "path": "/a", "sha256": "12" }, { "path": "/b", "size": 3 }],
            "odd": [[[1]], { "deep": { "er": [] } }]
        });
        let mut groups = vec![];
        gather("", &value, &mut groups);
        let strings = |row: &[&str]| row.iter().map(|s| s.to_string()).collect::<Vec<_>>();
        let group = |name: &str, heads: &[&str], rows: &[&[&str]]| Group {
            name: name.into(),
            heads: strings(heads),
            rows: rows.iter().map(|row| strings(row)).collect(),
        };
        let expected = [
            group("", &[], &[&["kernel", "6.1"], &["smt", "yes"], &["thp", "not known"]]),
            group("binaries", &["path", "sha256", "size"], &[&["/a", "12", ""], &["/b", "", "3"]]),
            group("cpu", &[], &[&["flags", "a, b"], &["model name", "X"]]),
            group("cpu, caches", &[], &[&["l1", "32"]]),
            group("odd, 1", &[], &[&["1", "1"]]),
            group("odd, 2, deep", &[], &[&["er", ""]]),
        ];
        for group in &expected {
            assert!(groups.contains(group), "{group:?} in {groups:?}");
        }
        assert_eq!(groups.len(), expected.len());
        for nothing in [json!(null), json!({}), json!([]), json!([{}]), json!({ "a": [{}, {}] })] {
            gather("", &nothing, &mut groups);
        }
        assert_eq!(groups.len(), expected.len());
    }
}
