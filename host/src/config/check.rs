//! Strict checking of one layer against the table of keys.
//!
//! Layers are checked one by one, before they merge: what is wrong is wrong even where a
//! later layer covers it, and only here does the value still stand in its own file.

use serde_json::Value;

use super::error::{Files, Kind, Problem};
use super::import_paths;
use super::keys::{self, Found, KNOWN_LATER, Key, MAX_SECONDS, Type};
use super::model_class;
use super::node::{Content, Entry, Node};
use super::origin::Origin;
use super::suggest;

/// Checks a layer; takes out what mini-swe-agent knows and this version does not, if `mini`.
pub(super) fn layer(node: &mut Node, mini: bool, files: &Files) -> (Vec<Problem>, Vec<String>) {
    let mut checker = Checker {
        mini,
        files,
        problems: Vec::new(),
        warnings: Vec::new(),
    };
    checker.node(&mut Vec::new(), node);
    (checker.problems, checker.warnings)
}

struct Checker<'a> {
    mini: bool,
    files: &'a Files,
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

impl Checker<'_> {
    fn node(&mut self, path: &mut Vec<String>, node: &mut Node) {
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        match keys::find(&segments) {
            Found::Key(key) => self.value(key, path, node),
            Found::Group { nullable } => match &mut node.content {
                Content::Map(entries) => self.entries(path, entries),
                Content::Scalar(Value::Null) if nullable => {}
                // `agent:` with everything under it commented out.
                Content::Scalar(Value::Null) if matches!(node.origin, Origin::File { .. }) => {
                    *node = Node::empty(node.origin.clone());
                }
                _ => {
                    let what = match path.is_empty() {
                        true => "the top level".to_owned(),
                        false => format!("`{}`", path.join(".")),
                    };
                    let message = format!("{what} must be a map of keys, not {}", found(node));
                    self.problems.push(
                        Problem::new(Kind::WrongValue, message)
                            .key(path.join("."))
                            .at(&node.origin, width(node), self.files)
                            .hint(group_hint(path)),
                    );
                }
            },
            // Reached from `entries` and `value` only with known paths.
            Found::Inside(_) | Found::Unknown => {}
        }
    }

    fn entries(&mut self, path: &mut Vec<String>, entries: &mut Vec<Entry>) {
        entries.retain_mut(|entry| {
            path.push(entry.key.clone());
            let segments: Vec<&str> = path.iter().map(String::as_str).collect();
            let dotted = segments.join(".");
            let mut keep = true;
            if matches!(keys::find(&segments), Found::Unknown) {
                keep = false;
                if self.mini && KNOWN_LATER.contains(&dotted.as_str()) {
                    self.warnings.push(format!(
                        "`{dotted}` has no effect yet (set at {})",
                        entry.at
                    ));
                } else if self.mini {
                    self.ignored(&segments, &dotted, entry);
                } else {
                    self.unknown(&segments, &dotted, entry);
                }
            } else {
                self.node(path, &mut entry.node);
            }
            path.pop();
            keep
        });
    }

    /// mini-swe-agent says nothing about keys that it does not know; people put anchors for the
    /// rest of the file below such ones.
    fn ignored(&mut self, segments: &[&str], dotted: &str, entry: &Entry) {
        let near = suggest::for_key(segments)
            .filter(|hint| hint.starts_with("did you mean"))
            .map_or_else(String::new, |hint| format!("; {hint}"));
        self.warnings.push(format!(
            "unknown key `{dotted}` is ignored, as mini-swe-agent does (set at {}{near})",
            entry.at
        ));
    }

    fn unknown(&mut self, segments: &[&str], dotted: &str, entry: &Entry) {
        let problem = Problem::new(Kind::UnknownKey, format!("unknown key `{dotted}`"))
            .key(dotted)
            .at(&entry.at, entry.key.chars().count(), self.files);
        let hint = match KNOWN_LATER.contains(&dotted) {
            true => Some("mini-swe-agent has this key, this version does not: leave it out".into()),
            false => suggest::for_key(segments),
        };
        self.problems.push(match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        });
    }

    fn value(&mut self, key: &'static Key, path: &[String], node: &mut Node) {
        if key.nullable && node.content == Content::Scalar(Value::Null) {
            return;
        }
        if self.mini
            && let Content::Scalar(value) = &mut node.content
            && let Some(read) = lenient(key.kind, value)
        {
            *value = read;
        }
        if let Content::Scalar(Value::String(text)) = &mut node.content
            && let Some(name) = import_paths::short_name(key.path, text)
        {
            name.clone_into(text);
        }
        match (key.kind, &node.content) {
            (Type::TextList, Content::List(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.scalar(Type::Text, &format!("{}.{index}", path.join(".")), item);
                }
            }
            (Type::TextMap, Content::Map(entries)) => {
                for entry in entries {
                    // Null takes a variable away that a lower layer has set.
                    if entry.node.content != Content::Scalar(Value::Null) {
                        let name = format!("{}.{}", path.join("."), entry.key);
                        self.scalar(Type::Text, &name, &entry.node);
                    }
                }
            }
            (Type::Object, Content::Map(_)) => {}
            (kind, _) => self.scalar(kind, &path.join("."), node),
        }
    }

    fn scalar(&mut self, kind: Type, dotted: &str, node: &Node) {
        let fits = match (&node.content, kind) {
            (Content::Scalar(value), kind) => fits(kind, value),
            _ => false,
        };
        if !fits {
            let message = format!("`{dotted}` must be {}, not {}", expected(kind), found(node));
            let problem = Problem::new(Kind::WrongValue, message).key(dotted).at(
                &node.origin,
                width(node),
                self.files,
            );
            self.problems.push(match value_hint(kind, dotted, node) {
                Some(hint) => problem.hint(hint),
                None => problem,
            });
        }
    }
}

/// What mini-swe-agent takes a value for that is of another type: texts that hold a number or a
/// word for yes or no, and numbers for the latter.
fn lenient(kind: Type, value: &Value) -> Option<Value> {
    let text = value.as_str().map(str::trim);
    let number = || {
        text?
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
    };
    match kind {
        Type::Int(..) => {
            let whole = match text {
                Some(text) => text.parse::<i64>().ok(),
                None => None,
            };
            whole
                .or_else(|| integer(number().or_else(|| value.as_f64())?))
                .map(Value::from)
        }
        Type::Number(_) | Type::Seconds => number().map(Value::from),
        Type::Bool => {
            let word = match text {
                Some(text) => text.to_ascii_lowercase(),
                None => integer(value.as_f64()?)?.to_string(),
            };
            match word.as_str() {
                "1" | "true" | "t" | "yes" | "y" | "on" => Some(Value::Bool(true)),
                "0" | "false" | "f" | "no" | "n" | "off" => Some(Value::Bool(false)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A number without a fraction as an integer.
#[expect(
    clippy::cast_possible_truncation,
    reason = "checked to be whole and small"
)]
fn integer(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

fn fits(kind: Type, value: &Value) -> bool {
    match kind {
        Type::Text => value.is_string(),
        Type::OneOf(words) => value.as_str().is_some_and(|text| words.contains(&text)),
        Type::Bool => value.is_boolean(),
        Type::Int(low, high) => value
            .as_i64()
            .is_some_and(|number| (low..=high).contains(&number)),
        Type::Number(low) => value.as_f64().is_some_and(|number| number >= low),
        Type::Seconds => value
            .as_f64()
            .is_some_and(|number| number > 0.0 && number <= MAX_SECONDS),
        Type::TextList | Type::TextMap | Type::Object => false,
    }
}

/// What a key takes, in words.
pub(super) fn expected(kind: Type) -> String {
    match kind {
        Type::Text => "text".to_owned(),
        Type::OneOf(words) => {
            let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
            match words.as_slice() {
                [only] => only.clone(),
                _ => format!("one of {}", words.join(", ")),
            }
        }
        Type::Bool => "true or false".to_owned(),
        Type::Int(i64::MIN, _) => "an integer".to_owned(),
        Type::Int(low, i64::MAX) => format!("an integer of at least {low}"),
        Type::Int(low, high) => format!("an integer from {low} to {high}"),
        Type::Number(low) if low.is_finite() => format!("a number of at least {low}"),
        Type::Number(_) => "a number".to_owned(),
        Type::Seconds => "a number of seconds above 0".to_owned(),
        Type::TextList => "a list of texts".to_owned(),
        Type::TextMap => "a map of texts".to_owned(),
        Type::Object => "a map".to_owned(),
    }
}

fn found(node: &Node) -> String {
    match &node.content {
        Content::List(_) => "a list".to_owned(),
        Content::Map(_) => "a map".to_owned(),
        Content::Scalar(Value::Null) => "null".to_owned(),
        Content::Scalar(Value::String(text)) => {
            let short: String = text.chars().take(40).collect();
            let dots = if short.len() < text.len() { "..." } else { "" };
            format!("the text `{:?}{dots}`", short)
        }
        Content::Scalar(value) => format!("`{value}`"),
    }
}

/// How many characters of the source to mark: what is written there, as far as it can be
/// known; never past the line.
fn width(node: &Node) -> usize {
    match &node.content {
        Content::Scalar(Value::String(text)) => text.chars().count() + 2,
        Content::Scalar(Value::Null) => 1,
        Content::Scalar(value) => value.to_string().len(),
        Content::List(_) | Content::Map(_) => 1,
    }
}

fn group_hint(path: &[String]) -> String {
    match path {
        [] => "start with a section, for example `[agent]` (TOML) or `agent:` (YAML)".to_owned(),
        _ => format!(
            "write its keys one by one, for example `-c {}.KEY=VALUE`",
            path.join(".")
        ),
    }
}

fn value_hint(kind: Type, dotted: &str, node: &Node) -> Option<String> {
    let Content::Scalar(value) = &node.content else {
        return None;
    };
    let set = matches!(node.origin, Origin::Set { .. });
    match (kind, value) {
        (Type::OneOf(words), Value::String(text)) => {
            if dotted == "environment.environment_class" && text.contains('.') {
                return Some(
                    "environments written in Python are not run here: write one of these, for example \
                     `docker`"
                        .to_owned(),
                );
            }
            if dotted == "agent.agent_class" && text.contains('.') {
                return Some(
                    "agents written in Python are not run here: write `interactive` or `default`, \
                     and change the behaviour with plugins: a history processor for what the \
                     model sees, an action policy for what may run"
                        .to_owned(),
                );
            }
            if dotted == "model.model_class" {
                return Some(model_class::hint(text));
            }
            suggest::nearest(text, words.iter().copied())
                .map(|word| format!("did you mean `{word}`?"))
        }
        (Type::Text, Value::Number(_) | Value::Bool(_)) if set => Some(format!(
            "quote it twice, for the shell and for JSON: `-c '{dotted}=\"{value}\"'`"
        )),
        (Type::Text, Value::Number(_) | Value::Bool(_)) => {
            Some(format!("put it in quotes: \"{value}\""))
        }
        (Type::Int(..) | Type::Number(_) | Type::Seconds, Value::String(text))
            if text.trim().parse::<f64>().is_ok() && !set =>
        {
            Some(format!("write it without quotes: {}", text.trim()))
        }
        (Type::Int(..), Value::Number(number)) if number.is_f64() => {
            Some("write it without a decimal point".to_owned())
        }
        (Type::TextList, Value::String(text)) => Some(format!("write it as a list: [{text:?}]")),
        (Type::Seconds, Value::Number(_)) => {
            Some("there is no `off`: give a time that is long enough".to_owned())
        }
        (_, Value::Null) => Some("leave the key out for its default".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(value: Value, mini: bool) -> (Vec<String>, Vec<String>, Value) {
        let mut node = Node::uniform(value, &Origin::Flag { name: "-f".into() });
        let (problems, warnings) = layer(&mut node, mini, &Files::default());
        let problems = problems
            .iter()
            .map(|p| match p.remedy() {
                Some(hint) => format!("{} / {hint}", p.message()),
                None => p.message().to_owned(),
            })
            .collect();
        (problems, warnings, node.to_value())
    }

    #[test]
    fn right_values_pass() {
        for value in [
            json!({}),
            json!({"agent": {"step_limit": -1, "cost_limit": 3, "mode": null}}),
            json!({"agent": {"mode": "yolo", "whitelist_actions": ["ls"], "confirm_exit": false}}),
            json!({"model": {"price": null}}),
            json!({"model": {"price": {"input": 1, "output": 2.5}}}),
            json!({"model": {"model_kwargs": {"a": [1, {"b": null}]}, "stream": false}}),
            json!({"environment": {"env": {"A": "b", "C": null}, "timeout": 1}}),
            json!({"plugins": {"any name": {"config": {"x": 1}, "deadline_ms": 2000}}}),
            json!({"providers": {"p": {"base_url": "http://x"}}}),
        ] {
            let (problems, warnings, after) = check(value.clone(), false);
            assert_eq!(problems, Vec::<String>::new(), "{value}");
            assert_eq!(warnings, Vec::<String>::new(), "{value}");
            assert_eq!(after, value);
        }
    }

    #[test]
    fn wrong_values_are_named_with_what_to_write() {
        for (value, expected) in [
            (
                json!({"agent": {"step_limit": "10"}}),
                "`agent.step_limit` must be an integer, not the text `\"10\"` / write it without quotes: 10",
            ),
            (
                json!({"agent": {"step_limit": 1.5}}),
                "`agent.step_limit` must be an integer, not `1.5` / write it without a decimal point",
            ),
            (
                json!({"agent": {"step_limit": null}}),
                "`agent.step_limit` must be an integer, not null / leave the key out for its default",
            ),
            (
                json!({"agent": {"cost_limit": "x"}}),
                "`agent.cost_limit` must be a number, not the text `\"x\"`",
            ),
            (
                json!({"agent": {"step_limit": {"a": 1}}}),
                "`agent.step_limit` must be an integer, not a map",
            ),
            (
                json!({"agent": 5}),
                "`agent` must be a map of keys, not `5` / write its keys one by one, for example `-c agent.KEY=VALUE`",
            ),
            (
                json!({"agent": {"mode": "yollo"}}),
                "`agent.mode` must be one of `human`, `confirm`, `yolo`, not the text `\"yollo\"` / did you mean `yolo`?",
            ),
            (
                json!({"model": {"model_name": 5}}),
                "`model.model_name` must be text, not `5` / put it in quotes: \"5\"",
            ),
            (
                json!({"model": {"stream": "yes"}}),
                "`model.stream` must be true or false, not the text `\"yes\"`",
            ),
            (
                json!({"model": {"price": {"input": -1}}}),
                "`model.price.input` must be a number of at least 0, not `-1`",
            ),
            (
                json!({"model": {"model_kwargs": [1]}}),
                "`model.model_kwargs` must be a map, not a list",
            ),
            (
                json!({"model": {"rate_limit_retries": -1}}),
                "`model.rate_limit_retries` must be an integer from 0 to 4294967295, not `-1`",
            ),
            (
                json!({"environment": {"timeout": 0}}),
                "`environment.timeout` must be a number of seconds above 0, not `0` / there is no `off`: give a time that is long enough",
            ),
            (
                json!({"environment": {"env": {"A": 1}}}),
                "`environment.env.A` must be text, not `1` / put it in quotes: \"1\"",
            ),
            (
                json!({"environment": {"interpreter": "bash"}}),
                "`environment.interpreter` must be a list of texts, not the text `\"bash\"` / write it as a list: [\"bash\"]",
            ),
            (
                json!({"environment": {"interpreter": ["bash", 1]}}),
                "`environment.interpreter.1` must be text, not `1` / put it in quotes: \"1\"",
            ),
            (
                json!({"environment": {"environment_class": "my.Class"}}),
                "`environment.environment_class` must be one of `local`, `docker`, `podman`, `singularity`, `apptainer`, `bubblewrap`, `swerex_docker`, `swerex_modal`, `contree`, not the text `\"my.Class\"` / environments written in Python are not run here: write one of these, for example `docker`",
            ),
            (
                json!({"plugins": {"p": {"memory_mb": 0}}}),
                "`plugins.p.memory_mb` must be an integer of at least 1, not `0`",
            ),
            (
                json!({"plugins": {"p": {"pth": "x"}}}),
                "unknown key `plugins.p.pth` / did you mean `plugins.p.path`?",
            ),
            (
                json!({"environment": {"image_tag": "x"}}),
                "unknown key `environment.image_tag` / mini-swe-agent has this key, this version does not: leave it out",
            ),
            (
                json!([1]),
                "the top level must be a map of keys, not a list / start with a section, for example `[agent]` (TOML) or `agent:` (YAML)",
            ),
        ] {
            let (problems, _, _) = check(value.clone(), false);
            assert_eq!(problems, [expected], "{value}");
        }
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let (problems, _, _) = check(json!({"agent": {"a": 1, "step_limit": "x"}, "b": 2}), false);
        assert_eq!(problems.len(), 3, "{problems:?}");
    }

    #[test]
    fn what_mini_has_is_a_warning_in_its_files() {
        let value =
            json!({"environment": {"image_tag": "x", "timeout": 5}, "model": {"outputs": "y"}});
        let (problems, warnings, after) = check(value, true);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(
            warnings,
            [
                "`environment.image_tag` has no effect yet (set at flag -f)",
                "`model.outputs` has no effect yet (set at flag -f)",
            ]
        );
        assert_eq!(after, json!({"environment": {"timeout": 5}, "model": {}}));
        let (problems, warnings, after) = check(
            json!({"environment": {"timeouts": "x", "timeout": "5"}, "anchors": [1]}),
            true,
        );
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(
            warnings,
            [
                "unknown key `environment.timeouts` is ignored, as mini-swe-agent does (set at flag -f; did you mean `environment.timeout`?)",
                "unknown key `anchors` is ignored, as mini-swe-agent does (set at flag -f)",
            ]
        );
        assert_eq!(after, json!({"environment": {"timeout": 5.0}}));
    }

    #[test]
    fn files_of_mini_may_have_values_of_other_types() {
        for (key, value, expected) in [
            ("agent.step_limit", json!("10"), Some(json!(10))),
            ("agent.step_limit", json!(" 10.0 "), Some(json!(10))),
            ("agent.step_limit", json!(10.0), Some(json!(10))),
            ("agent.step_limit", json!("1.5"), None),
            ("agent.step_limit", json!("ten"), None),
            ("agent.cost_limit", json!("2.5"), Some(json!(2.5))),
            ("agent.cost_limit", json!("nan"), None),
            ("agent.confirm_exit", json!("Yes"), Some(json!(true))),
            ("agent.confirm_exit", json!(0), Some(json!(false))),
            ("agent.confirm_exit", json!(2), None),
            ("model.model_name", json!(5), None),
        ] {
            let path: Vec<&str> = key.split('.').collect();
            let layer = json!({ path[0]: { path[1]: value.clone() } });
            let (problems, _, after) = check(layer.clone(), true);
            assert_eq!(problems.is_empty(), expected.is_some(), "{key} {value}");
            if let Some(expected) = expected {
                assert_eq!(after[path[0]][path[1]], expected, "{key} {value}");
                assert_eq!(check(layer, false).0.is_empty(), value == expected, "{key}");
            }
        }
    }
}
