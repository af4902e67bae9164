//! What the list shows of a trajectory without a journal: mini-swe-agent's, SWE-agent's, ours, or one in ATIF.

use std::collections::BTreeMap;
use std::path::Path;

use mswea_export::replayed_config;
use mswea_files::RECORDS;
use serde::Deserialize as _;
use serde_json::Value;

use crate::card::{RunCard, changed, first_of, last_of};
use crate::config_name::ConfigName;
use crate::foreign_head::ForeignHead;
use crate::indexed::is_told;

/// Reads the card of a trajectory.
///
/// # Errors
/// A message if the file is no trajectory.
pub(crate) fn read(path: &Path) -> Result<RunCard, String> {
    let file = mswea_files::open(path, RECORDS).map_err(|error| error.to_string())?;
    let bytes = file.metadata().map(|it| it.len()).unwrap_or_default();
    let head = ForeignHead::read(file, bytes)?;
    let name = path.file_name().unwrap_or_default();
    let (started, last) = head.times.unzip();
    let card = RunCard {
        run_id: name.to_string_lossy().into_owned(),
        task: task_of(&head.task),
        steps: head.replies,
        started,
        // Of a single time nobody knows how long the run took.
        last: last.filter(|last| started.is_some_and(|first| first < *last)),
        changed: changed(path),
        bytes,
        ..RunCard::default()
    };
    if head.is_atif {
        return Ok(of_atif(&head, card));
    }
    if head.is_sweagent || head.has_history && !head.has_messages {
        return Ok(of_sweagent(&head, card));
    }
    if head.info.is_null() && !head.has_messages {
        return Err("it is no trajectory: it has neither `info` nor `messages`".to_owned());
    }
    Ok(of_messages(&head, card))
}

fn of_atif(head: &ForeignHead, card: RunCard) -> RunCard {
    let (agent, totals) = (&head.agent, &head.metrics);
    let tokens = |pointer: &str, of_steps: u64| match totals.is_object() {
        true => count(totals, pointer),
        false => of_steps,
    };
    RunCard {
        twin: head.trajectory_id.clone(),
        status: status(&head.extra, "ATIF"),
        model: text(agent, "/model_name"),
        cost: match totals.is_object() {
            true => number(totals, "/total_cost_usd"),
            // They may be left out.
            false => head.known_cost(),
        },
        input: tokens("/total_prompt_tokens", head.usage.input_tokens),
        output: tokens("/total_completion_tokens", head.usage.output_tokens),
        program: format!("{} {}", text(agent, "/name"), text(agent, "/version")),
        ..card
    }
}

fn of_sweagent(head: &ForeignHead, card: RunCard) -> RunCard {
    let info = &head.info;
    let config = replayed_config(&head.replay_config);
    let counted = steps(info);
    let steps = match counted {
        0 if head.is_sweagent => head.steps,
        0 => head.replies,
        counted => counted,
    };
    let cost = number(info, "/model_stats/instance_cost");
    let mut name = ConfigName::default();
    if let Some(mut agent) = config.pointer("/agent").cloned() {
        let mut model = agent.get_mut("model").map(Value::take).unwrap_or_default();
        if let Some(keys) = model.as_object_mut() {
            keys.shift_remove("name");
            keys.shift_remove("api_key");
        }
        name.section("agent", &agent);
        name.section("model", &model);
    }
    RunCard {
        status: status(info, "unfinished"),
        model: mswea_export::replayed_model(&config).unwrap_or_default(),
        config: name.name(),
        steps,
        cost: cost.filter(|cost| steps == 0 || is_told(*cost, counted.into())),
        input: count(info, "/model_stats/tokens_sent"),
        output: count(info, "/model_stats/tokens_received"),
        program: format!("SWE-agent {}", text(info, "/swe_agent_version")),
        ..card
    }
}

/// Of mini-swe-agent, also a bare list of messages, or of this host.
fn of_messages(head: &ForeignHead, card: RunCard) -> RunCard {
    let info = &head.info;
    let own = info.get("mswea").filter(|own| own.get("run_id").is_some());
    let version = text(info, "/mini_version");
    let card = RunCard {
        status: match status(info, "") {
            status if status.is_empty() && head.exit_status.is_empty() => "unfinished".to_owned(),
            status if status.is_empty() => head.exit_status.clone(),
            status => status,
        },
        model: text(info, "/config/model/model_name"),
        environment: text(info, "/config/environment/environment_class"),
        config: config(info, own),
        steps: if info.is_null() {
            card.steps
        } else {
            steps(info)
        },
        ..card
    };
    let total = number(info, "/model_stats/instance_cost");
    let Some(own) = own else {
        // An unknown price is written as 0 then.
        let hides = text(info, "/config/model/cost_tracking") == "ignore_errors";
        return RunCard {
            cost: match hides && (head.has_free || head.lacks_costs) {
                true => None,
                false => total.or(head.known_cost()),
            },
            input: head.usage.input_tokens,
            output: head.usage.output_tokens,
            program: match version.is_empty() {
                true => String::new(),
                false => format!("mini-swe-agent {version}"),
            },
            ..card
        };
    };
    RunCard {
        run_id: text(own, "/run_id"),
        task: first_of(&text(own, "/task")),
        cost: total.filter(|_| own["cost_known"] != false),
        input: count(own, "/usage/input_tokens"),
        output: count(own, "/usage/output_tokens"),
        started: number(own, "/started"),
        last: number(own, "/ended"),
        error: last_of(&text(own, "/error/message")),
        program: version,
        secrets_file: info
            .pointer("/config/model/secrets_file")
            .and_then(Value::as_str)
            .map(Into::into),
        ..card
    }
}

fn config(info: &Value, own: Option<&Value>) -> String {
    let mut name = ConfigName::default();
    let sections = ["agent", "model", "environment"].into_iter();
    let mut sections: BTreeMap<&str, &Value> = sections
        .filter_map(|section| Some((section, info.pointer("/config")?.get(section)?)))
        .collect();
    let rest = own.and_then(|own| own["config"].as_object());
    let rest = rest.into_iter().flatten();
    sections.extend(rest.map(|(section, keys)| (section.as_str(), keys)));
    for (section, keys) in sections {
        name.section(section, keys);
    }
    if let Some(own) = own {
        name.plugins(&Vec::deserialize(&own["plugins"]).unwrap_or_default());
    }
    name.name()
}

fn text(value: &Value, pointer: &str) -> String {
    let value = value.pointer(pointer).and_then(Value::as_str);
    value.unwrap_or_default().to_owned()
}

fn number(value: &Value, pointer: &str) -> Option<f64> {
    value.pointer(pointer).and_then(Value::as_f64)
}

fn count(value: &Value, pointer: &str) -> u64 {
    let value = value.pointer(pointer).and_then(Value::as_u64);
    value.unwrap_or_default()
}

fn steps(info: &Value) -> u32 {
    u32::try_from(count(info, "/model_stats/api_calls")).unwrap_or(u32::MAX)
}

fn status(value: &Value, otherwise: &str) -> String {
    match text(value, "/exit_status") {
        status if status.is_empty() => otherwise.to_owned(),
        status => status,
    }
}

/// The line of the first message that most likely has the task: not a tag, and not a line that
/// introduces the following text.
fn task_of(message: &str) -> String {
    let is_lead = |line: &str| line.ends_with(':') || line.starts_with('<') && line.ends_with('>');
    let mut lines = message.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && !is_lead(line));
    first_of(line.unwrap_or(message))
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

    #[test]
    fn sweagent_with_a_demonstration_and_without_statistics() {
        let history = json!([{"role": "system", "content": "s"},
            {"role": "user", "content": "Here is a demonstration", "is_demo": true},
            {"role": "assistant", "content": "d", "is_demo": true},
            {"role": "user", "content": "fix it"}, {"role": "assistant", "content": "a"}]);
        let info = json!({"exit_status": "submitted", "model_stats": {"api_calls": 0, "instance_cost": 0.0}});
        let step = json!({"action": "ls"});
        let mut value = json!({"trajectory": [step, step, step], "history": history, "info": info});
        let whole = card(&value);
        assert_eq!(
            (whole.task.as_str(), whole.steps, whole.cost),
            ("fix it", 3, None)
        );
        // The history alone.
        value.as_object_mut().unwrap().shift_remove("trajectory");
        let alone = card(&value);
        assert_eq!(
            (alone.task.as_str(), alone.steps, alone.status.as_str()),
            ("fix it", 1, "submitted")
        );
        value.as_object_mut().unwrap().shift_remove("info");
        assert_eq!(card(&value).status, "unfinished");
    }

    /// What the list has of a file with this text.
    fn of_text(text: &str) -> Result<RunCard, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.traj.json");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn odd_texts_of_a_file() {
        // Half a character, before and in the messages.
        let half = r#"{"info": {"submission": "a\ud800b", "exit_status": "Submitted"},
            "messages": [{"role": "user", "content": "fix \udfff it"}, {"role": "assistant"}]}"#;
        let read = of_text(half).unwrap();
        assert_eq!(
            (read.status.as_str(), read.task.as_str()),
            ("Submitted", "fix \u{fffd} it")
        );
        for text in [
            r#"{"messages": [], "info": {}, "\u006dessages": []}"#,
            r#"{"info": {}, "messages": [], "messages": 7}"#,
        ] {
            let error = of_text(text).unwrap_err();
            assert!(
                error.contains("the key `messages` more than once"),
                "{error}"
            );
        }
        // What is very long does not hide what comes after it.
        let zeros = vec![0; 200_000];
        let long = json!({"info": {"exit_status": "Submitted", "zeros": zeros}, "messages": [
            {"role": "user", "content": zeros}, {"role": "user", "content": "fix it"},
            {"role": zeros, "extra": {"cost": zeros}}, {"role": "assistant"}]});
        let read = card(&long);
        assert_eq!(
            (read.task.as_str(), read.status.as_str()),
            ("fix it", "Submitted")
        );
    }

    /// The card of a file with this content.
    fn card(value: &Value) -> RunCard {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.traj.json");
        std::fs::write(&path, value.to_string()).unwrap();
        read(&path).unwrap()
    }

    #[test]
    fn tokens_times_and_prices_are_those_in_the_file() {
        let reply = |t: f64, cost: f64| {
            let response = json!({"usage": {"prompt_tokens": 10, "completion_tokens": 2}});
            json!({"role": "assistant", "content": "a", "extra": {"timestamp": t, "cost": cost, "response": response}})
        };
        let refused = json!({"role": "user", "content": "again", "extra": {"interrupt_type": "FormatError", "cost": 0.5,
            "timestamp": 13.0, "response": {"usage": {"prompt_tokens": 5, "completion_tokens": 1}}}});
        // A reply of the Responses API.
        let item = json!({"object": "response", "output": [], "extra": {"cost": 0.0, "timestamp": 15.0},
            "usage": {"input_tokens": 3, "output_tokens": 1}});
        let exit = json!({"role": "exit", "content": "", "extra": {"exit_status": "Submitted", "timestamp": 16.5}});
        let user = json!({"role": "user", "content": "fix it", "extra": null});
        let messages = json!([user, reply(12.0, 0.25), refused, item, exit]);
        let bare = card(&messages);
        let facts = |it: &RunCard| (it.input, it.output, it.steps, it.cost, it.started, it.last);
        assert_eq!(facts(&bare), (18, 4, 3, Some(0.75), Some(12.0), Some(16.5)));
        assert_eq!(bare.status, "Submitted");
        let mut mini = json!({"info": {"model_stats": {"api_calls": 3, "instance_cost": 0.75}, "exit_status": "Submitted",
            "config": {"agent": {"step_limit": 4}, "model": {"model_name": "m", "cost_tracking": "default"}}},
            "messages": messages});
        assert_eq!(facts(&card(&mini)), facts(&bare));
        assert!(
            card(&mini).config.ends_with(" · step_limit 4"),
            "{}",
            card(&mini).config
        );
        // A 0 may be an unknown price then.
        mini["info"]["config"]["model"]["cost_tracking"] = json!("ignore_errors");
        assert_eq!(card(&mini).cost, None);
        // Of one time nobody knows how long it took.
        let one = card(&json!([user, reply(12.0, 0.25)]));
        assert_eq!((one.started, one.last), (Some(12.0), None));

        let step = |time: &str| json!({"source": "agent", "message": "a", "timestamp": time});
        let atif = card(
            &json!({"schema_version": "ATIF-v1.6", "agent": {"name": "x", "version": "1"},
            "steps": [{"source": "user", "message": "fix it"}, step("1970-01-01T00:00:10Z"), step("1970-01-01T01:00:12.5+01:00"),
                {"source": "agent", "message": "said", "llm_call_count": 0}]}),
        );
        assert_eq!(facts(&atif), (0, 0, 2, None, Some(10.0), Some(12.5)));
        // Totals may be left out.
        let step = json!({"source": "agent", "message": "a", "metrics": {"prompt_tokens": 7, "completion_tokens": 2,
            "cost_usd": 0.5, "prompt_token_ids": [1, 2]}});
        let mut atif = json!({"schema_version": "ATIF-v1.6", "agent": {"name": "x", "version": "1"}, "steps": [step, step]});
        assert_eq!(facts(&card(&atif)), (14, 4, 2, Some(1.0), None, None));
        let read = mswea_export::from_atif(&atif).unwrap();
        assert_eq!(
            (read.usage.input_tokens, read.usage.output_tokens, read.cost),
            (14, 4, Some(1.0))
        );
        atif["final_metrics"] =
            json!({"total_prompt_tokens": 20, "total_completion_tokens": 5, "total_cost_usd": 2.0});
        assert_eq!(facts(&card(&atif)), (20, 5, 2, Some(2.0), None, None));
    }

    #[test]
    fn sweagent_has_a_model_and_settings_and_no_times() {
        let run = |config: Value| {
            card(
                &json!({"trajectory": [{"action": "ls", "execution_time": 0.5}], "replay_config": config,
                "history": [{"role": "user", "content": "fix it"}], "info": {"model_stats": {"tokens_sent": 3}}}),
            )
        };
        let config = |name: &str, limit: f64| {
            json!({"agent": {"tools": {"bundles": []}, "model": {"name": name, "per_instance_cost_limit": limit}},
                "env": {"deployment": {"image": name}}})
        };
        let first = run(config("m", 3.0).to_string().into());
        assert_eq!((first.model.as_str(), first.input), ("m", 3));
        assert_eq!((first.started, first.last), (None, None));
        assert!(
            first.config.ends_with(" · per_instance_cost_limit 3.0"),
            "{}",
            first.config
        );
        // As an object, and of another model.
        let second = run(config("n", 3.0));
        assert_eq!(
            (second.model.as_str(), &second.config),
            ("n", &first.config)
        );
        assert_ne!(run(config("m", 2.0)).config, first.config);
        let several = json!({"agent": {"agent_configs": [{"model": {"name": "a"}}, {"model": {"name": "b"}}]}});
        assert_eq!(run(several).model, "a");
        for none in [json!("{"), json!(null), json!(7)] {
            assert_eq!(
                (run(none.clone()).model, run(none).config),
                Default::default()
            );
        }
    }
}
