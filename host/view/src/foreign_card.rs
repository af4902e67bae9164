//! Reads the data for the list from a trajectory without a journal: of mini-swe-agent, SWE-agent,
//! this program, or in ATIF. The file is read as a stream, and only as far as needed.

use std::fmt;
use std::io::BufReader;
use std::path::Path;

use mswea_files::RECORDS;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::card::{RunCard, changed, first_of};

/// Reads the card of a trajectory.
///
/// # Errors
/// A message if the file is no trajectory.
pub(crate) fn read(path: &Path) -> Result<RunCard, String> {
    let file = mswea_files::open(path, RECORDS).map_err(|error| error.to_string())?;
    let bytes = file.metadata().map(|it| it.len()).unwrap_or_default();
    let mut input = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, file));
    let mut found = ForeignHead::default();
    let read = input.deserialize_any(HeadVisitor(&mut found));
    if let Err(error) = read
        && !found.is_enough()
    {
        return Err(format!("it is no trajectory: {error}"));
    }
    let name = path.file_name().unwrap_or_default();
    let last = changed(path);
    let text = |value: &Value, pointer: &str| {
        let value = value.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let number = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_f64);
    let count = |value: &Value, pointer: &str| {
        let value = value.pointer(pointer).and_then(Value::as_u64);
        value.unwrap_or_default()
    };
    let base = RunCard {
        run_id: name.to_string_lossy().into_owned(),
        task: task_of(&found.task),
        started: found.time.unwrap_or(last),
        last,
        bytes,
        ..RunCard::default()
    };
    let info = &found.info;
    if found.is_atif {
        let status = text(&found.extra, "/exit_status");
        let program = [
            &text(&found.agent, "/name"),
            " ",
            &text(&found.agent, "/version"),
        ];
        return Ok(RunCard {
            status: if status.is_empty() {
                "ATIF".to_owned()
            } else {
                status
            },
            model: text(&found.agent, "/model_name"),
            steps: found.replies,
            cost: number(&found.metrics, "/total_cost_usd"),
            input: count(&found.metrics, "/total_prompt_tokens"),
            output: count(&found.metrics, "/total_completion_tokens"),
            program: program.concat(),
            ..base
        });
    }
    if found.is_sweagent {
        let status = text(info, "/exit_status");
        return Ok(RunCard {
            status: if status.is_empty() {
                "unfinished".to_owned()
            } else {
                status
            },
            steps: u32::try_from(count(info, "/model_stats/api_calls")).unwrap_or(u32::MAX),
            cost: number(info, "/model_stats/instance_cost"),
            input: count(info, "/model_stats/tokens_sent"),
            output: count(info, "/model_stats/tokens_received"),
            program: format!("SWE-agent {}", text(info, "/swe_agent_version")),
            ..base
        });
    }
    if info.is_null() && !found.has_messages {
        return Err("it is no trajectory: it has neither `info` nor `messages`".to_owned());
    }
    let status = text(info, "/exit_status");
    let run_id = text(info, "/mswea/run_id");
    let version = text(info, "/mini_version");
    let is_ours = !run_id.is_empty();
    let task = text(info, "/mswea/task");
    Ok(RunCard {
        run_id: if is_ours { run_id } else { base.run_id },
        task: if is_ours { first_of(&task) } else { base.task },
        status: if status.is_empty() {
            "unfinished".to_owned()
        } else {
            status
        },
        model: text(info, "/config/model/model_name"),
        environment: text(info, "/config/environment/environment_class"),
        steps: match info.is_null() {
            true => found.replies,
            false => u32::try_from(count(info, "/model_stats/api_calls")).unwrap_or(u32::MAX),
        },
        cost: number(info, "/model_stats/instance_cost"),
        input: count(info, "/mswea/usage/input_tokens"),
        output: count(info, "/mswea/usage/output_tokens"),
        started: number(info, "/mswea/started").unwrap_or(base.started),
        last: number(info, "/mswea/ended").unwrap_or(base.last),
        program: match is_ours {
            true => version,
            false if version.is_empty() => String::new(),
            false => format!("mini-swe-agent {version}"),
        },
        ..base
    })
}

/// The line of the first message that most likely has the task: not a tag, and not a line that
/// introduces the following text.
fn task_of(message: &str) -> String {
    let is_lead = |line: &str| line.ends_with(':') || line.starts_with('<') && line.ends_with('>');
    let mut lines = message.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && !is_lead(line));
    first_of(line.unwrap_or(message))
}

/// The head of a trajectory.
#[derive(Default)]
struct ForeignHead {
    is_atif: bool,
    info: Value,
    has_messages: bool,
    is_sweagent: bool,
    agent: Value,
    metrics: Value,
    extra: Value,
    task: String,
    time: Option<f64>,
    /// Steps of the model, in ATIF and in a bare list of messages.
    replies: u32,
}

impl ForeignHead {
    fn is_enough(&self) -> bool {
        !self.is_atif && !self.info.is_null() && self.has_messages
    }
}

struct HeadVisitor<'f>(&'f mut ForeignHead);

impl<'de> Visitor<'de> for HeadVisitor<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a trajectory")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, entries: A) -> Result<(), A::Error> {
        self.0.has_messages = true;
        let head = self.0;
        ForeignSteps { head, stops: false }.visit_seq(entries)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let head = self.0;
        while let Some(name) = entries.next_key::<String>()? {
            match name.as_str() {
                "schema_version" => {
                    let version: Value = entries.next_value()?;
                    head.is_atif = version.as_str().is_some_and(|it| it.starts_with("ATIF"));
                }
                "info" => head.info = entries.next_value()?,
                "agent" => head.agent = entries.next_value()?,
                "final_metrics" => head.metrics = entries.next_value()?,
                "extra" => head.extra = entries.next_value()?,
                "messages" => {
                    head.has_messages = true;
                    // The steps are in `info`, so the rest is not read if that was found.
                    let stops = !head.info.is_null();
                    entries.next_value_seed(ForeignSteps { head, stops })?;
                }
                "trajectory" => {
                    head.is_sweagent = true;
                    entries.next_value::<IgnoredAny>()?;
                }
                "history" => entries.next_value_seed(ForeignSteps { head, stops: false })?,
                "steps" => entries.next_value_seed(ForeignSteps { head, stops: false })?,
                _ => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The messages or steps: the first ones tell the task.
struct ForeignSteps<'f> {
    head: &'f mut ForeignHead,
    /// Whether to stop, with an error, once the task is known.
    stops: bool,
}

#[derive(Deserialize)]
struct ForeignStep {
    #[serde(default)]
    role: Value,
    #[serde(default)]
    source: Value,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    message: Value,
    #[serde(default)]
    extra: Value,
}

#[derive(Deserialize)]
struct StepWhose {
    #[serde(default)]
    source: Value,
    #[serde(default)]
    role: Value,
}

impl<'de> serde::de::DeserializeSeed<'de> for ForeignSteps<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ForeignSteps<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let head = self.head;
        while head.task.is_empty() {
            let Some(step) = entries.next_element::<ForeignStep>()? else {
                return Ok(());
            };
            head.replies += u32::from(step.source == "agent" || step.role == "assistant");
            if step.role == "user" || step.source == "user" {
                head.task = match text(&step.content) {
                    text if text.is_empty() => self::text(&step.message),
                    text => text,
                };
                head.time = step.extra.get("timestamp").and_then(Value::as_f64);
                break;
            }
        }
        if self.stops {
            return Err(serde::de::Error::custom("the rest is not needed"));
        }
        while let Some(step) = entries.next_element::<StepWhose>()? {
            head.replies += u32::from(step.source == "agent" || step.role == "assistant");
        }
        Ok(())
    }
}

/// The text of a message, which may consist of parts.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|it| it.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_card_of_each_format() {
        let folder = tempfile::tempdir().unwrap();
        let messages = json!([
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "<task>\nHere it is:\nfix it\n</task>"}]},
            {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"},
        ]);
        let info = json!({"exit_status": "Submitted", "mini_version": "2",
            "model_stats": {"api_calls": 7, "instance_cost": 0.5}});
        let steps = json!([{"source": "user", "message": "fix it"}, {"source": "agent"}, {"source": "agent"}]);
        let history =
            json!([{"role": "user", "content": "fix it"}, {"role": "assistant", "content": "a"}]);
        // The content; status, steps, cost and program of the card.
        for (value, status, steps, cost, program) in [
            (
                json!({"info": info, "messages": messages}),
                ("Submitted", 7, Some(0.5), "mini-swe-agent 2"),
            ),
            // The messages may come first.
            (
                json!({"messages": messages, "info": info}),
                ("Submitted", 7, Some(0.5), "mini-swe-agent 2"),
            ),
            (messages.clone(), ("unfinished", 2, None, "")),
            (
                json!({"schema_version": "ATIF-v1.7", "agent": {"name": "x", "version": "1"}, "steps": steps,
                    "final_metrics": {"total_cost_usd": 1.5}}),
                ("ATIF", 2, Some(1.5), "x 1"),
            ),
            (
                json!({"trajectory": [{"action": "ls"}], "history": history, "info": {"exit_status": null,
                    "swe_agent_version": "1", "model_stats": {"api_calls": 3, "instance_cost": 0.25}}}),
                ("unfinished", 3, Some(0.25), "SWE-agent 1"),
            ),
        ]
        .map(|(value, (status, steps, cost, program))| (value, status, steps, cost, program))
        {
            let path = folder.path().join("x.traj.json");
            std::fs::write(&path, value.to_string()).unwrap();
            let card = read(&path).unwrap();
            assert_eq!(card.task, "fix it", "{value}");
            assert_eq!((card.status.as_str(), card.steps), (status, steps), "{value}");
            assert_eq!((card.cost, card.program.as_str()), (cost, program), "{value}");
        }
        for text in ["", "{}", "7", "{\"info\": ", "{\"a\": 1}"] {
            let path = folder.path().join("x.traj.json");
            std::fs::write(&path, text).unwrap();
            assert!(read(&path).unwrap_err().contains("no trajectory"), "{text}");
        }
    }
}
