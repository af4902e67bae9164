//! Strict checking of one layer against the table of keys.
//!
//! Each layer is checked on its own, before the layers are merged: an error is reported also where
//! a later layer replaces the value, and only then is the value's position in its own file still
//! known.

use serde_json::Value;

use super::error::{ConfigProblem, Files, ProblemKind};
use super::import_paths;
use super::keys::{self, ConfigKey, Found, KNOWN_LATER, MAX_SECONDS, Type};
use super::model_class;
use super::node::{Content, Entry, Node};
use super::origin::Origin;
use super::suggest;

/// Checks a layer. With `mini`, keys that mini-swe-agent has and this version ignores are removed,
/// with a warning.
pub(super) fn layer(
    node: &mut Node,
    mini: bool,
    files: &Files,
) -> (Vec<ConfigProblem>, Vec<String>) {
    let mut checker = Checker {
        mini,
        files,
        problems: Vec::new(),
        warnings: Vec::new(),
        unknown: 0,
    };
    checker.node(&mut Vec::new(), node);
    if let Some(more @ 1..) = checker.unknown.checked_sub(NAMED) {
        let message = format!("and {more} more unknown keys");
        match mini {
            true => checker.warnings.push(message),
            false => checker
                .problems
                .push(ConfigProblem::new(ProblemKind::UnknownKey, message)),
        }
    }
    (checker.problems, checker.warnings)
}

/// How many unknown keys are named: for each the most similar known key is searched.
const NAMED: usize = 100;

struct Checker<'a> {
    mini: bool,
    files: &'a Files,
    /// The number of unknown keys.
    unknown: usize,
    problems: Vec<ConfigProblem>,
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
                        ConfigProblem::new(ProblemKind::WrongValue, message)
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
                self.unknown += 1;
                if self.unknown > NAMED {
                    // Counted only.
                } else if self.mini && KNOWN_LATER.contains(&dotted.as_str()) {
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

    /// mini-swe-agent ignores unknown keys without a message, and its users put anchors for the
    /// rest of a file below such keys.
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
        let problem =
            ConfigProblem::new(ProblemKind::UnknownKey, format!("unknown key `{dotted}`"))
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

    fn value(&mut self, key: &'static ConfigKey, path: &[String], node: &mut Node) {
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
                    // Null removes a variable that a lower layer set.
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
            let problem = ConfigProblem::new(ProblemKind::WrongValue, message)
                .key(dotted)
                .at(&node.origin, width(node), self.files);
            self.problems.push(match value_hint(kind, dotted, node) {
                Some(hint) => problem.hint(hint),
                None => problem,
            });
        }
    }
}

/// How mini-swe-agent reads a value of another type: a text that holds a number or a boolean word
/// becomes that number or boolean, and a number becomes a boolean.
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

/// The values that a key takes, as text.
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
        Type::Seconds => format!("a number of seconds above 0 and up to {MAX_SECONDS}"),
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

/// How many characters of the source line to mark: the length of the written value as far as it is
/// known, at most to the end of the line.
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
                    "this host does not run environments written in Python: write one of these, for example \
                     `docker`"
                        .to_owned(),
                );
            }
            if dotted == "agent.agent_class" && text.contains('.') {
                return Some(
                    "this host does not run agents written in Python: write `interactive` or `default`, \
                     and change the behaviour with plugins: a history processor changes the messages that the model gets, an action policy decides which commands run"
                        .to_owned(),
                );
            }
            if dotted == "model.model_class" {
                return Some(model_class::hint(text));
            }
            mswea_text::nearest(text, words.iter().copied())
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
            Some("a time limit can't be switched off: give a time that is long enough".to_owned())
        }
        (_, Value::Null) => Some("leave the key out for its default".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
