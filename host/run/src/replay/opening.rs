//! The first messages of a recorded run, made anew.

use serde_json::Value;

use crate::agent::Agent;
use mswea_core::{Event, Message, Object};
use mswea_record::journal::Record;

/// In these the templates of the first messages are, and the variables that they may name.
const SECTIONS: [&str; 2] = ["agent", "model"];

/// The keys of the templates.
const TEMPLATES: [&str; 4] = [
    "system_template",
    "instance_template",
    "strategy_template",
    "demonstrations",
];

/// Encloses the number of a variable that the record does not hold.
const MARKS: [char; 2] = ['\u{f0000}', '\u{f0001}'];

/// What the first messages have come to.
pub(super) struct OpeningAgain {
    /// What joins the replayed history.
    pub(super) messages: Vec<Message>,
    /// What of them was not compared.
    pub(super) remark: Option<String>,
}

/// Makes the first messages of a run anew. The variables of its machine are not in the record, so other
/// values of them are no difference. `doubt` says why its config may not be the one that they were made
/// with; then they are taken from the record if they differ.
pub(super) async fn open_again(
    agent: &Agent,
    recorded: &[Message],
    doubt: Option<&str>,
) -> OpeningAgain {
    agent.update_variables();
    let made = match made(agent, &Object::new()).await {
        Ok(made) => made,
        Err(why) => return copied(recorded, &why),
    };
    if made == recorded {
        return OpeningAgain {
            messages: made,
            remark: None,
        };
    }
    let others = other_values(agent, recorded).await;
    match (others, doubt) {
        (Some(names), _) => OpeningAgain {
            messages: recorded.to_vec(),
            remark: Some(format!(
                "the first messages have other values of {} than this machine: these are not recorded, and were \
                 not compared",
                names.join(", ")
            )),
        },
        (None, Some(doubt)) => copied(recorded, doubt),
        (None, None) => OpeningAgain {
            messages: made,
            remark: None,
        },
    }
}

fn copied(recorded: &[Message], why: &str) -> OpeningAgain {
    OpeningAgain {
        messages: recorded.to_vec(),
        remark: Some(format!("the first messages were not compared: {why}")),
    }
}

async fn made(agent: &Agent, over: &Object) -> Result<Vec<Message>, String> {
    let opening = agent.parts.prompts.opening(over).await;
    let mut messages = opening.map_err(|end| {
        let why = end.error().unwrap_or(end.exit_status());
        format!("they can't be made here ({why})")
    })?;
    for message in &mut messages {
        agent.find_images(message);
    }
    Ok(messages)
}

/// Why the config at the end of a record may not be the one with which its first messages were made; none
/// if it is, as far as they depend on it.
pub(super) fn doubt(records: &[Record]) -> Option<&'static str> {
    let (mut opened, mut last) = (None, &Value::Null);
    for record in records {
        match &record.event {
            Event::RunStarted {
                parent: Some(_), ..
            } => return Some("they are those of the run that this one is a fork of"),
            Event::RunStarted { config, .. } | Event::RunResumed { config, .. } => last = config,
            Event::Opening { .. } => opened = Some(last),
            _ => {}
        }
    }
    let opened = opened?;
    let templates: String = TEMPLATES
        .iter()
        .map(|key| opened["agent"][key].to_string())
        .collect();
    let is_same = |section: &str| {
        let (before, now) = (opened[section].as_object(), last[section].as_object());
        let names = before.into_iter().chain(now).flat_map(|it| it.keys());
        let get = |keys: Option<&serde_json::Map<String, Value>>, name: &str| {
            keys.and_then(|keys| keys.get(name)).cloned()
        };
        names
            .filter(|name| TEMPLATES.contains(&name.as_str()) || templates.contains(name.as_str()))
            .all(|name| get(before, name) == get(now, name))
    };
    let is_same = SECTIONS.into_iter().all(is_same);
    (!is_same).then_some("their config was changed when the run was resumed")
}

/// The variables that have other values in the recorded messages, if nothing else differs.
async fn other_values(agent: &Agent, recorded: &[Message]) -> Option<Vec<String>> {
    let mut unrecorded = agent.parts.prompts.variables.unrecorded();
    unrecorded.extend(agent.parts.executor.template_vars());
    unrecorded.retain(|_, value| value.is_string());
    let marked = unrecorded.keys().enumerate();
    let marked: Object = marked
        .map(|(number, name)| {
            let [begin, end] = MARKS;
            (name.clone(), format!("{begin}{number}{end}").into())
        })
        .collect();
    let pattern = made(agent, &marked).await.ok()?;
    let (pattern, recorded) = (
        serde_json::to_value(pattern).ok()?,
        serde_json::to_value(recorded).ok()?,
    );
    let mut found = Vec::new();
    if !fits(&pattern, &recorded, &mut found) {
        return None;
    }
    let mut names = Vec::new();
    for (number, value) in found {
        let (name, now) = unrecorded.iter().nth(number)?;
        let shown = format!("`{name}`");
        if *now != value && !names.contains(&shown) {
            names.push(shown);
        }
    }
    Some(names)
}

/// Whether `recorded` is `pattern` with values in the place of its marked variables: the number of each,
/// and its value.
fn fits(pattern: &Value, recorded: &Value, found: &mut Vec<(usize, String)>) -> bool {
    match (pattern, recorded) {
        (Value::String(pattern), Value::String(text)) => match values(pattern, text) {
            Some(values) => {
                found.extend(values);
                true
            }
            None => false,
        },
        (Value::Array(pattern), Value::Array(items)) => {
            pattern.len() == items.len()
                && pattern
                    .iter()
                    .zip(items)
                    .all(|(it, other)| fits(it, other, found))
        }
        (Value::Object(pattern), Value::Object(entries)) => {
            pattern.len() == entries.len()
                && pattern.iter().all(|(name, it)| {
                    let other = entries.get(name);
                    other.is_some_and(|other| fits(it, other, found))
                })
        }
        (pattern, recorded) => pattern == recorded,
    }
}

/// The values of the marked variables in a text; none if the text differs elsewhere. A value is within a
/// line.
fn values(pattern: &str, text: &str) -> Option<Vec<(usize, String)>> {
    let mut parts = pattern.split(MARKS[0]);
    let mut rest = text.strip_prefix(parts.next().unwrap_or_default())?;
    let mut parts = parts.peekable();
    let mut found = Vec::new();
    let is_whole = parts.peek().is_some();
    while let Some(part) = parts.next() {
        let (number, literal) = part.split_once(MARKS[1])?;
        let length = match parts.peek() {
            None => rest.strip_suffix(literal)?.len(),
            Some(_) => rest.find(literal)?,
        };
        let value = &rest[..length];
        if value.contains('\n') {
            return None;
        }
        found.push((number.parse().ok()?, value.to_owned()));
        rest = &rest[length + literal.len()..];
    }
    (is_whole || rest.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_values_of_variables_may_differ() {
        let pattern = "on \u{f0000}0\u{f0001} \u{f0000}12\u{f0001}.\nEnd";
        let found = |text: &str| values(pattern, text);
        assert_eq!(
            found("on Linux 6.1.\nEnd"),
            Some(vec![(0, "Linux".to_owned()), (12, "6.1".to_owned())])
        );
        for text in [
            "on Linux 6.1.\nEnd!",
            "in Linux 6.1.\nEnd",
            "on Linux 6.1.",
            "on Linux\nand more 6.1.\nEnd",
            "",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
        assert_eq!(values("same", "same"), Some(Vec::new()));
        assert_eq!(values("same", "same!"), None);
        let mut found = Vec::new();
        let pattern = json!([{"text": "on \u{f0000}3\u{f0001}", "role": "user"}]);
        assert!(fits(
            &pattern,
            &json!([{"text": "on x", "role": "user"}]),
            &mut found
        ));
        assert_eq!(found, [(3, "x".to_owned())]);
        for other in [
            json!([]),
            json!([{"text": "on x", "role": "system"}]),
            json!([{"text": "on x", "role": "user", "more": 1}]),
        ] {
            assert!(!fits(&pattern, &other, &mut found), "{other}");
        }
    }

    #[test]
    fn a_config_that_was_changed_later_is_in_doubt_if_the_templates_name_the_key() {
        let record = |event| Record {
            seq: 1,
            t: 0.0,
            event,
        };
        let config = |limit: u32, text: &str| json!({"agent": {"system_template": text, "step_limit": limit}});
        let doubted = |before: Value, after: Value| {
            let resumed = Event::RunResumed {
                host_version: String::new(),
                config: after,
                plugins: Value::Null,
            };
            let started = Event::RunResumed {
                host_version: String::new(),
                config: before,
                plugins: Value::Null,
            };
            let opening = Event::Opening {
                messages: Vec::new(),
            };
            doubt(&[started, opening, resumed].map(record)).is_some()
        };
        assert!(!doubted(config(1, "x"), config(2, "x")));
        assert!(doubted(config(1, "x"), config(1, "y")));
        assert!(doubted(
            config(1, "{{ step_limit }}"),
            config(2, "{{ step_limit }}")
        ));
    }
}
