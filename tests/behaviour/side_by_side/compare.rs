//! Removes from a result what differs from run to run, and compares two results. The rules are those of
//! `tests/side-by-side/compare.py`, which the README there describes.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// The headers that carry meaning for a provider.
const HEADERS: &[&str] = &[
    "authorization",
    "x-api-key",
    "anthropic-version",
    "anthropic-beta",
    "content-type",
    "x-extra",
];

/// Keys of a message that hold a time.
const CLOCKS: &[&str] = &["timestamp", "created", "created_at"];

/// Values that differ from run to run. In a recording, names such as `@URL@` stand for them.
pub struct Places {
    /// Host and port of the server.
    pub address: String,
    /// The folder that the program is run in.
    pub work: PathBuf,
    /// The home folder.
    pub home: PathBuf,
}

impl Places {
    /// The values and their names. A value that contains another one is first.
    fn pairs(&self) -> [(String, &'static str); 4] {
        [
            (format!("http://{}", self.address), "@URL@"),
            (self.address.clone(), "@URL@"),
            (self.work.to_string_lossy().into_owned(), "@WORK@"),
            (self.home.to_string_lossy().into_owned(), "@HOME@"),
        ]
    }

    /// Replaces the names by the values.
    pub fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // Of two values with the same name, the first one has replaced it.
        for (place, name) in self.pairs() {
            text = text.replace(name, &place);
        }
        text
    }

    /// Replaces the values by their names.
    fn blank(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (place, name) in self.pairs() {
            text = text.replace(&place, name);
        }
        blank_uuids(&text)
    }
}

/// A result with names in place of addresses, folders, times, ids and tracebacks.
pub fn normal(mut result: Value, places: &Places) -> Value {
    for request in result["requests"].as_array_mut().into_iter().flatten() {
        if let Some(headers) = request["headers"].as_object_mut() {
            headers.retain(|name, _| HEADERS.contains(&name.as_str()));
        }
    }
    walk(&result, places, &mut Vec::new())
}

fn walk(value: &Value, places: &Places, path: &mut Vec<String>) -> Value {
    let in_message = path.len() > 2 && path[0] == "trajectory" && path[1] == "messages";
    let last = path.last().map(String::as_str).unwrap_or_default();
    match value {
        Value::Object(map) => {
            let mut out = Map::new();
            for (key, child) in map {
                path.push(key.clone());
                out.insert(places.blank(key), walk(child, places, path));
                path.pop();
            }
            out.into()
        }
        Value::Array(list) => {
            let mut out = Vec::new();
            for (index, child) in list.iter().enumerate() {
                path.push(index.to_string());
                out.push(walk(child, places, path));
                path.pop();
            }
            out.into()
        }
        Value::Number(_) if in_message && CLOCKS.contains(&last) => "@TIME@".into(),
        Value::String(_) if in_message && last == "traceback" => "@TRACEBACK@".into(),
        Value::String(text) => places.blank(text).into(),
        other => other.clone(),
    }
}

/// Replaces what looks like `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` in lower-case hex.
fn blank_uuids(text: &str) -> String {
    const LENGTH: usize = 36;
    let is_uuid = |bytes: &[u8]| {
        bytes.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.as_bytes().windows(LENGTH).position(is_uuid) {
        out.push_str(&rest[..place]);
        out.push_str("@UUID@");
        rest = &rest[place + LENGTH..];
    }
    out.push_str(rest);
    out
}

/// A place where two results differ. A value is none if that result has nothing there.
#[derive(Debug, PartialEq)]
pub struct Difference {
    /// Keys and indices from the top.
    pub path: Vec<String>,
    /// What mini-swe-agent's result has.
    pub mini: Option<Value>,
    /// What ours has.
    pub ours: Option<Value>,
}

/// Every place where the two differ.
pub fn differences(mini: &Value, ours: &Value) -> Vec<Difference> {
    let mut out = Vec::new();
    compare(Some(mini), Some(ours), &mut Vec::new(), &mut out);
    out
}

fn compare(
    mini: Option<&Value>,
    ours: Option<&Value>,
    path: &mut Vec<String>,
    out: &mut Vec<Difference>,
) {
    match (mini, ours) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let more = other.keys().filter(|key| !one.contains_key(*key));
            for key in one.keys().chain(more) {
                path.push(key.clone());
                compare(one.get(key), other.get(key), path, out);
                path.pop();
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for index in 0..one.len().max(other.len()) {
                path.push(index.to_string());
                compare(one.get(index), other.get(index), path, out);
                path.pop();
            }
        }
        (Some(one), Some(other)) if same(one, other) => {}
        (one, other) => out.push(Difference {
            path: path.clone(),
            mini: one.cloned(),
            ours: other.cloned(),
        }),
    }
}

/// Whether two values are equal. 3 equals 3.0, and numbers may differ by rounding, because costs may be
/// added in another order.
fn same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => {
            let scale = one.abs().max(other.abs());
            (one - other).abs() <= (scale * 1e-9).max(1e-12)
        }
        _ => one == other,
    }
}

/// A path as a JSON pointer.
pub fn pointer(path: &[String]) -> String {
    path.iter()
        .map(|part| format!("/{}", escaped(part)))
        .collect()
}

fn escaped(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1")
}

/// The intended differences.
pub struct Allowed(Vec<Entry>);

struct Entry {
    scenario: String,
    pointer: String,
    /// `mini` or `ours`: only that result has a value there.
    only: Option<String>,
    /// The values of the two results there, if the entry names them.
    mini: Option<Value>,
    ours: Option<Value>,
}

impl Allowed {
    /// Reads the list.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read(path).unwrap();
        let entries: Vec<Map<String, Value>> = serde_json::from_slice(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(entries.into_iter().map(Entry::read).collect())
    }

    /// Whether the difference is on the list.
    pub fn lists(&self, scenario: &str, difference: &Difference) -> bool {
        self.0.iter().any(|entry| entry.fits(scenario, difference))
    }
}

impl Entry {
    fn read(mut entry: Map<String, Value>) -> Self {
        let mut text = |key: &str| {
            let value = entry.remove(key)?;
            Some(value.as_str().expect("a text").to_owned())
        };
        let why = text("why").expect("each entry says why");
        let out = Self {
            scenario: text("scenario").unwrap_or_else(|| "*".to_owned()),
            pointer: text("pointer").expect("each entry has a pointer"),
            only: text("only"),
            mini: entry.remove("mini"),
            ours: entry.remove("ours"),
        };
        assert!(entry.is_empty() && !why.is_empty(), "unknown: {entry:?}");
        out
    }

    fn fits(&self, scenario: &str, difference: &Difference) -> bool {
        let Difference { path, mini, ours } = difference;
        let is = |wanted: &Option<Value>, got: &Option<Value>| match (wanted, got) {
            (Some(wanted), Some(got)) => same(wanted, got),
            (Some(_), None) => false,
            (None, _) => true,
        };
        let one_sided = match self.only.as_deref() {
            Some("mini") => ours.is_none(),
            Some("ours") => mini.is_none(),
            Some(other) => panic!("`only` is `mini` or `ours`, not `{other}`"),
            None => true,
        };
        let path: Vec<String> = path.iter().map(|part| escaped(part)).collect();
        let pattern: Vec<&str> = self.pointer.split('/').skip(1).collect();
        one_sided
            && is_named(&self.scenario, scenario)
            && is(&self.mini, mini)
            && is(&self.ours, ours)
            && matches(&pattern, &path)
    }
}

/// Whether the pattern, a name or a prefix followed by `*`, matches this name.
pub fn is_named(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

/// Whether the pattern matches the path. `*` stands for one part of the path, `**` at the end for any
/// number of further parts.
fn matches(pattern: &[&str], path: &[String]) -> bool {
    match (pattern, path) {
        (["**"], _) | ([], []) => true,
        ([first, pattern @ ..], [part, path @ ..]) => {
            (*first == "*" || first == part) && matches(pattern, path)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(mini: &Value, ours: &Value) -> Vec<String> {
        differences(mini, ours)
            .iter()
            .map(|difference| pointer(&difference.path))
            .collect()
    }

    #[test]
    fn differences_are_found_at_their_places() {
        for (mini, ours, want) in [
            (
                json!({"a": 3, "b": [1]}),
                json!({"b": [1.0], "a": 3.0}),
                &[][..],
            ),
            (json!(0.1 + 0.2), json!(0.3), &[]),
            (json!(1), json!(true), &[""]),
            (json!({"a": null}), json!({}), &["/a"]),
            (
                json!({"a/b": 1}),
                json!({"a/b": 2, "c~": 1}),
                &["/a~1b", "/c~0"],
            ),
            (json!([1, 2]), json!([1, 3, 4]), &["/1", "/2"]),
            (json!({"a": [1]}), json!({"a": {"0": 1}}), &["/a"]),
        ] {
            assert_eq!(paths(&mini, &ours), want, "{mini} {ours}");
        }
    }

    #[test]
    fn only_listed_differences_are_allowed() {
        let entry = |entry: Value| Entry::read(entry.as_object().unwrap().clone());
        let found = differences(&json!({"m": [{"x": null}]}), &json!({"m": [{"y": 1}]}));
        let [gone, new] = &found[..] else {
            panic!("{found:?}");
        };
        for (listed, fits_gone, fits_new) in [
            (json!({"pointer": "/m/*/x", "why": "w"}), true, false),
            (json!({"pointer": "/m/**", "why": "w"}), true, true),
            (json!({"pointer": "/m/*", "why": "w"}), false, false),
            (json!({"pointer": "/m/0/x/**", "why": "w"}), true, false),
            (
                json!({"pointer": "/m/**", "only": "ours", "why": "w"}),
                false,
                true,
            ),
            (
                json!({"pointer": "/m/**", "only": "mini", "why": "w"}),
                true,
                false,
            ),
            (
                json!({"pointer": "/m/**", "mini": null, "why": "w"}),
                true,
                false,
            ),
            (
                json!({"pointer": "/m/**", "ours": 2, "why": "w"}),
                false,
                false,
            ),
            (
                json!({"pointer": "/m/**", "scenario": "s_*", "why": "w"}),
                true,
                true,
            ),
            (
                json!({"pointer": "/m/**", "scenario": "s", "why": "w"}),
                false,
                false,
            ),
        ] {
            let entry = entry(listed.clone());
            assert_eq!(entry.fits("s_1", gone), fits_gone, "{listed}");
            assert_eq!(entry.fits("s_1", new), fits_new, "{listed}");
        }
    }

    #[test]
    fn values_that_differ_from_run_to_run_are_replaced() {
        let places = Places {
            address: "127.0.0.1:9".to_owned(),
            work: "/tmp/r/work".into(),
            home: "/tmp/r/home".into(),
        };
        let result = json!({
            "requests": [{"headers": {"host": "h", "x-api-key": "k"}, "body": {"created": 5}}],
            "trajectory": {"messages": [{
                "content": "in /tmp/r/work, at http://127.0.0.1:9/v1 (127.0.0.1:9)",
                "extra": {"timestamp": 1.5, "traceback": "File", "timestamp_of": 1,
                    "id": "é-01234567-89ab-cdef-0123-456789abcdef!"},
            }]},
        });
        let want = json!({
            "requests": [{"headers": {"x-api-key": "k"}, "body": {"created": 5}}],
            "trajectory": {"messages": [{
                "content": "in @WORK@, at @URL@/v1 (@URL@)",
                "extra": {"timestamp": "@TIME@", "traceback": "@TRACEBACK@", "timestamp_of": 1,
                    "id": "é-@UUID@!"},
            }]},
        });
        assert_eq!(normal(result, &places), want);
        assert_eq!(
            places.fill("@URL@/v1 @HOME@"),
            "http://127.0.0.1:9/v1 /tmp/r/home"
        );
    }
}
