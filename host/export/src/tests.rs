//! What the exports keep of a journal, and that ATIF is written by the rules of its version 1.7:
//! these are the rules of Harbor's own models, as a table.

use mswea_record::journal::read_bytes;
use serde_json::{Value, json};

use crate::{
    Conversation, SecretValues, TokenIds, from_atif, from_records, to_atif, to_html, to_jsonl,
    to_markdown,
};

const HOSTILE: &str =
    "</pre></script><script>alert(1)</script><img src=x onerror=\"a()\">'&\u{1b}[31mred";

/// A run in text mode with two actions in a step, a rejected reply, and calls of tools.
fn events() -> Vec<Value> {
    let said =
        |role: &str, text: &str| json!({"role": role, "content": [{"type": "text", "text": text}]});
    let reply = |message: Value, cost: f64| {
        json!({"event": "reply", "cost": cost, "timestamp": 1_795_585_214.5, "reply": {"message": message,
            "finish_reason": "stop", "model": "m", "usage": {"input_tokens": 10, "output_tokens": 2, "cache_read_tokens": 3, "cache_write_tokens": 4,
                "reasoning_tokens": 1}}})
    };
    let output = |index: usize, text: &str| {
        json!({"event": "output", "index": index, "timestamp": 1_795_585_216.0,
            "output": {"output": text, "returncode": 0, "exception_info": ""}})
    };
    let action =
        |index: usize| json!({"event": "action", "index": index, "action": {"command": "x"}});
    let mut image = said("tool", "a picture");
    add(
        &mut image,
        json!({"type": "image", "url": "data:image/png;base64,iVBORw=="}),
    );
    image["tool_call_id"] = json!("c1");
    let mut called = said("assistant", "");
    add(&mut called, json!({"type": "reasoning", "text": "I think"}));
    called["tool_calls"] = json!([{"id": "c1", "name": "look", "arguments": "{}"},
        {"id": "c2", "name": "bash", "arguments": "no json"}]);
    vec![
        json!({"event": "run_started", "format": "mswea-journal-2", "run_id": "r1", "host_version": "0.1.0",
            "task": "t", "config": {"model": {"model_name": "m"}},
            "plugins": [{"name": "p", "kind": "k", "version": "1", "sha256": "00", "grants": {}}]}),
        json!({"event": "opening", "messages": [said("system", "S"), said("user", HOSTILE)]}),
        json!({"event": "query_started", "query": 1}),
        json!({"event": "retry", "class": "rate-limited", "message": "m", "attempt": 1, "wait_seconds": 2.5}),
        reply(said("assistant", "first"), 0.25),
        json!({"event": "accepted", "actions": [{"command": "one"}, {"command": "two"}]}),
        action(0),
        output(0, "1"),
        action(1),
        output(1, "2"),
        json!({"event": "observed", "messages": [said("user", "shown 1"), said("user", "shown 2")]}),
        reply(said("assistant", "second"), 0.25),
        json!({"event": "rejected", "code": "no-command", "message": "m", "feedback": said("user", "again")}),
        with_tokens(reply(called, 0.5)),
        json!({"event": "accepted", "actions": [{"command": "x", "tool_call_id": "c1"}, {"command": "y", "tool_call_id": "c2"}]}),
        action(0),
        output(0, "raw"),
        json!({"event": "observed", "messages": [image]}),
        reply(said("assistant", "last"), 0.5),
        json!({"event": "accepted", "actions": [{"command": "end"}]}),
        action(0),
        output(0, HOSTILE),
    ]
}

/// As vLLM answers when it is asked for ids.
fn with_tokens(mut reply: Value) -> Value {
    let logprobs = json!([{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -0.25}]);
    reply["reply"]["response"] = json!({"prompt_token_ids": [1, 2, 3], "choices": [
        {"index": 0, "token_ids": [11, 12], "logprobs": {"content": logprobs}}]});
    reply
}

fn add(message: &mut Value, part: Value) {
    message["content"].as_array_mut().unwrap().push(part);
}

fn run(events: &[Value]) -> Conversation {
    let mut lines = String::new();
    for (seq, event) in (1..).zip(events) {
        let mut event = event.clone();
        event["seq"] = json!(seq);
        event["t"] = json!(1_795_585_215.0);
        lines.push_str(&format!("{event}\n"));
    }
    let log = read_bytes(lines.as_bytes()).unwrap();
    assert_eq!(log.records.len(), events.len());
    from_records(&log.records)
}

#[test]
fn a_killed_run_in_atif() {
    let told = run(&events());
    let made = to_atif(&told);
    let step = |at: usize| &made["steps"][at];
    let results = |at: usize| &step(at)["observation"]["results"];
    assert_eq!(made["extra"]["exit_status"], "Killed");
    assert_eq!(made["final_metrics"]["total_cost_usd"], 1.5);
    assert_eq!(made["final_metrics"]["total_prompt_tokens"], 40);
    assert_eq!(step(1)["message"], HOSTILE);
    assert_eq!(step(2)["timestamp"], "2026-11-25T05:40:14.500Z");
    assert_eq!(step(2)["tool_calls"][1]["arguments"]["command"], "two");
    assert_eq!(
        results(2)[1],
        json!({"source_call_id": step(2)["tool_calls"][1]["tool_call_id"], "content": "shown 2",
            "extra": {"duration_sec": 1.0}})
    );
    assert_eq!(step(3)["extra"]["rejected"], "no-command");
    assert_eq!(*results(3), json!([{"content": "again"}]));
    assert_eq!(step(4)["reasoning_content"], "I think");
    let metrics = &step(4)["metrics"];
    assert_eq!(metrics["prompt_token_ids"], json!([1, 2, 3]));
    assert_eq!(metrics["completion_token_ids"], json!([11, 12]));
    assert_eq!(metrics["logprobs"], json!([-0.5, -0.25]));
    assert_eq!(step(2)["metrics"].get("prompt_token_ids"), None);
    assert_eq!(step(4)["tool_calls"][0]["arguments"], json!({}));
    assert_eq!(
        step(4)["tool_calls"][1]["arguments"],
        json!({"raw": "no json"})
    );
    assert_eq!(
        results(4)[0]["content"][1]["source"]["media_type"],
        "image/png"
    );
    assert_eq!(results(5)[0]["extra"]["shown_to_model"], false);

    let pauses = |step: usize| told.steps[step].pauses.iter().map(|(_, seconds)| *seconds);
    assert_eq!(pauses(2).collect::<Vec<_>>(), [2.5]);
    assert_eq!(pauses(3).count(), 0);

    check(&made).unwrap();
    assert_eq!(to_jsonl(&told).lines().count(), 6);
    // What is read again is written as it was, and lacks only what has no place in the format.
    let mut again = from_atif(&made).unwrap();
    assert_eq!(to_atif(&again), made);
    assert_eq!(again.exit_status.as_deref(), Some("Killed"));
    again.exit_status = None;
    for (again, told) in again.steps.iter_mut().zip(&told.steps) {
        (again.asked, again.view) = (told.asked, told.view);
        again.pauses.clone_from(&told.pauses);
    }
    assert_eq!(again, told);
}

#[test]
fn a_token_without_a_probability_shifts_no_other() {
    let logprobs = json!([{"logprob": -0.5}, {"logprob": null}, {"logprob": -0.25}]);
    let choice = json!({"token_ids": [11, 12, 13], "logprobs": {"content": logprobs}});
    let tokens = TokenIds::of(&json!({"choices": [choice]}));
    assert_eq!(tokens.reply, [11, 12, 13]);
    assert_eq!(tokens.logprobs, [0.0; 0]);
}

#[test]
fn an_end_that_was_taken_back_is_no_end() {
    let mut events = events();
    let end = json!({"event": "run_ended", "exit_status": "LimitsExceeded", "submission": "", "cost": 1.5,
        "queries": 4, "usage": {}});
    events.push(end);
    assert_eq!(run(&events).exit_status.as_deref(), Some("LimitsExceeded"));
    events.push(
        json!({"event": "run_resumed", "host_version": "0.1.0", "config": {}, "plugins": []}),
    );
    assert_eq!(run(&events).exit_status, None);
}

/// Before its first message, at its first query, and with tokens that have no sum.
#[test]
fn a_run_that_failed_says_why() {
    let events = events();
    let most = u64::MAX;
    let end = json!({"event": "run_ended", "exit_status": "AuthenticationError", "submission": "", "cost": 0.0,
        "queries": 1, "usage": {}, "extra": {"message": "bad key sk-abcdefghij0123456789 <b>"}});
    let query = json!({"event": "query_started", "query": 1});
    let failed = json!({"event": "query_failed", "class": "authentication", "message": "m",
        "usage": {"input_tokens": most, "output_tokens": most}, "cost": null});
    let before = [events[0].clone(), end.clone()];
    let asked = [events[0].clone(), events[1].clone(), query, failed, end];
    for (events, steps) in [(&before[..], 1), (&asked[..], 2)] {
        let mut told = run(events);
        SecretValues::default().remove_from(&mut told);
        let made = to_atif(&told);
        check(&made).unwrap();
        assert_eq!(made["extra"]["error"], "bad key [secret removed] <b>");
        assert_eq!(made["extra"]["started_at"], "2026-11-25T05:40:15.000Z");
        assert_eq!(made["final_metrics"]["total_steps"], steps);
        assert_eq!(made["final_metrics"]["extra"]["total_queries"], 1);
        let again = from_atif(&made).unwrap();
        assert_eq!(to_atif(&again), made);
        assert_eq!(again.failure, told.failure);
        let lines = to_jsonl(&told);
        let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        assert_eq!(last["extra"]["run"], made["extra"]);
        assert_eq!(lines.lines().count(), steps);
        let page = to_html(&told, true);
        assert!(page.contains("bad key [secret removed] &lt;b&gt;"));
        assert!(page.contains("<title>t</title>") && page.contains("2026-11-25T05:40:15"));
        let text = to_markdown(&told, true);
        assert!(
            text.contains("- error: bad key \\[secret removed] \\<b>\n"),
            "{text}"
        );
        assert!(text.starts_with("# t\n\n- run: r1\n"), "{text}");
    }
    // The task is the only step.
    let made = to_atif(&run(&before));
    assert_eq!(made["steps"][0]["source"], "user");
    assert_eq!(made["steps"][0]["message"], "t");
}

#[test]
fn the_tools_of_another_program_are_kept() {
    let mut made = to_atif(&run(&events()));
    let tools = json!([{"type": "function", "function": {"name": "bash"}}]);
    made["agent"]["tool_definitions"] = tools.clone();
    let again = from_atif(&made).unwrap();
    assert_eq!(to_atif(&again)["agent"]["tool_definitions"], tools);
}

#[test]
fn a_pause_before_a_resume_is_not_a_part_of_the_duration() {
    let of = |event: Value, t: f64| {
        let mut event = event;
        event["seq"] = json!(1);
        event["t"] = json!(t);
        read_bytes(format!("{event}\n").as_bytes())
            .unwrap()
            .records
            .remove(0)
    };
    let end = json!({"event": "run_ended", "exit_status": "LimitsExceeded", "submission": "", "cost": 0.0,
        "queries": 4, "usage": {}});
    let resumed =
        json!({"event": "run_resumed", "host_version": "0.1.0", "config": {}, "plugins": []});
    let start = events().remove(0);
    let all = [
        (start, 100.0),
        (end.clone(), 110.0),
        (resumed, 500.0),
        (end, 575.0),
    ];
    let records: Vec<_> = all.into_iter().map(|(it, t)| of(it, t)).collect();
    let told = from_records(&records);
    assert_eq!((told.started, told.seconds), (Some(100.0), Some(85.0)));
    assert!(to_markdown(&told, false).contains("- duration: 1 min 25 s\n"));
}

#[test]
fn pages_show_what_was_printed() {
    let patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-<old>\n+new\n";
    let mut told = run(&events());
    let step = told.steps.iter_mut().find(|it| it.is_reply).unwrap();
    step.shown[0].text = json!({"returncode": 0, "output": patch}).to_string();
    step.text = "x".repeat(3 << 18);
    let page = to_html(&told, false);
    assert!(page.contains("<span class=\"removed\">-&lt;old&gt;\n</span>"));
    assert!(page.contains("<span class=\"added\">+new\n</span>"));
    assert!(page.contains("<details><summary>Text · 1 line</summary><details>"));
    assert!(page.matches('x').count() >= 3 << 18);
    assert_eq!(page.matches("Part ").count(), 3);
    assert!(to_markdown(&told, false).contains(&format!("```diff\n{patch}```\n")));
}

#[test]
fn no_picture_is_hidden_by_an_escape_sequence() {
    let mut events = events();
    let text = "!\u{1b}[0m[x](http://evil/p.png)";
    events[1]["messages"][1]["content"][0]["text"] = json!(text);
    let mut run = run(&events);
    for step in &mut run.steps {
        step.text = text.to_owned();
    }
    let markdown = to_markdown(&run, false);
    for (at, _) in markdown.match_indices("![x]") {
        assert!(
            markdown[..at].ends_with("```text\n") || markdown[..at].ends_with("> "),
            "{markdown}"
        );
    }
    assert!(
        markdown.contains("```text\n![x](http://evil/p.png)"),
        "{markdown}"
    );
}

/// No rule of the check is one that nothing breaks.
#[test]
fn broken_trajectories_break_a_rule() {
    let good = to_atif(&run(&events()));
    for (pointer, value) in [
        ("/steps/1/step_id", json!(7)),
        ("/steps/1/source", json!("tool")),
        ("/steps/1/model_name", json!("m")),
        ("/steps/2/timestamp", json!(12)),
        ("/steps/2/other", json!(1)),
        ("/steps/2/tool_calls/0/arguments", json!("{}")),
        (
            "/steps/2/observation/results/0/source_call_id",
            json!("nobody"),
        ),
        ("/steps/2/metrics/prompt_tokens", json!("1")),
        ("/agent/version", Value::Null),
        ("/steps", json!([])),
    ] {
        let mut bad = good.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        bad.pointer_mut(parent).unwrap()[key] = value;
        assert!(check(&bad).is_err(), "{pointer}");
    }
}

#[test]
fn pages_show_hostile_text_as_text() {
    let told = run(&events());
    let page = to_html(&told, false);
    assert!(!page.contains("<script") && !page.contains("<img src=x") && !page.contains('\u{1b}'));
    assert_eq!(page.matches("&lt;script&gt;alert(1)").count(), 2);
    assert!(page.contains("default-src 'none'") && !page.contains("http://"));
    assert!(page.contains("<img alt=\"image\" src=\"data:image/png;base64,iVBORw==\">"));
    assert!(page.contains("I think") && page.contains("not shown to the model"));
    let focused = to_html(&told, true);
    assert!(!focused.contains("I think") && !focused.contains("System prompt"));
    let mut fenced = told;
    fenced.steps[1].text = "````\nx".to_owned();
    assert!(to_markdown(&fenced, false).contains("`````text\n````\nx\n`````"));
    // What the model wrote is Markdown, but opens no fence and holds no HTML.
    let model = fenced.steps.iter_mut().find(|it| it.is_reply).unwrap();
    model.text = "<b>x</b>\n```\nopen".to_owned();
    model.rejected = Some("<i>".to_owned());
    let told = to_markdown(&fenced, false);
    assert!(told.contains("\n````text\n<b>x</b>\n```\nopen\n````\n"));
    assert!(told.contains("not accepted: \\<i>\n"));
}

/// The rules of ATIF-v1.7: the first that is broken.
fn check(it: &Value) -> Result<(), String> {
    keys(
        it,
        "schema_version session_id trajectory_id agent steps notes final_metrics continued_trajectory_ref extra subagent_trajectories",
    )?;
    keys(
        &it["agent"],
        "name version model_name tool_definitions extra",
    )?;
    texts(&it["agent"], &["name", "version"])?;
    keys(
        &it["final_metrics"],
        "total_prompt_tokens total_completion_tokens total_cached_tokens total_cost_usd total_steps extra",
    )?;
    let steps = it["steps"].as_array().filter(|it| !it.is_empty());
    for (id, step) in (1..).zip(steps.ok_or("no steps")?) {
        keys(
            step,
            "step_id timestamp source model_name reasoning_effort message reasoning_content tool_calls observation metrics is_copied_context llm_call_count extra",
        )?;
        let source = step["source"].as_str().unwrap_or_default();
        rule(step["step_id"] == json!(id), "step_id")?;
        rule(["system", "user", "agent"].contains(&source), "source")?;
        rule(
            step.get("timestamp").is_none_or(Value::is_string),
            "timestamp",
        )?;
        content(&step["message"])?;
        let of_agents = [
            "model_name",
            "reasoning_content",
            "tool_calls",
            "metrics",
            "llm_call_count",
        ];
        let has = of_agents.iter().any(|key| step.get(key).is_some());
        rule(source == "agent" || !has, "a field of agent steps")?;
        let mut ids = Vec::new();
        for call in step["tool_calls"].as_array().into_iter().flatten() {
            keys(call, "tool_call_id function_name arguments extra")?;
            texts(call, &["tool_call_id", "function_name"])?;
            rule(call["arguments"].is_object(), "arguments")?;
            ids.push(&call["tool_call_id"]);
        }
        if let Some(observation) = step.get("observation") {
            keys(observation, "results")?;
            for result in observation["results"].as_array().ok_or("results")? {
                keys(
                    result,
                    "source_call_id content subagent_trajectory_ref extra",
                )?;
                content(&result["content"])?;
                let call = result.get("source_call_id");
                rule(call.is_none_or(|id| ids.contains(&id)), "source_call_id")?;
            }
        }
        if let Some(metrics) = step.get("metrics") {
            keys(
                metrics,
                "prompt_tokens completion_tokens cached_tokens cost_usd prompt_token_ids completion_token_ids logprobs extra",
            )?;
            for key in ["prompt_tokens", "completion_tokens", "cached_tokens"] {
                rule(metrics.get(key).is_none_or(Value::is_u64), key)?;
            }
        }
    }
    Ok(())
}

fn content(it: &Value) -> Result<(), String> {
    let Some(parts) = it.as_array() else {
        return rule(it.is_string(), "content");
    };
    for part in parts {
        keys(part, "type text source")?;
        match part["type"].as_str() {
            Some("text") => texts(part, &["text"])?,
            Some("image") => texts(&part["source"], &["media_type", "path"])?,
            _ => rule(false, "type")?,
        }
    }
    Ok(())
}

fn keys(it: &Value, known: &str) -> Result<(), String> {
    let fields = it.as_object().ok_or("no object")?;
    match fields
        .keys()
        .find(|key| !known.split(' ').any(|it| it == *key))
    {
        Some(key) => Err(format!("`{key}`")),
        None => Ok(()),
    }
}

fn texts(it: &Value, names: &[&str]) -> Result<(), String> {
    names
        .iter()
        .try_for_each(|name| rule(it[*name].is_string(), name))
}

fn rule(holds: bool, name: &str) -> Result<(), String> {
    holds.then_some(()).ok_or_else(|| name.to_owned())
}
