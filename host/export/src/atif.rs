//! ATIF, the format of Harbor and of the viewers that read its trajectories: version 1.7 is
//! written, every 1.x is read.
//!
//! The format allows no unknown keys in its objects, so data without a field of its own is in
//! `extra`.

use std::fmt::Write as _;

use mswea_core::Usage;
use serde_json::{Value, json};

use crate::conversation::{
    Conversation, ConversationStep, RecordedCall, ShownResult, StepSource, TokenIds,
};
use crate::images::embedded;
use crate::time::{from_iso, iso};

/// The version that is written.
const VERSION: &str = "ATIF-v1.7";
/// The common beginning of the names of all versions that are read.
const VERSIONS: &str = "ATIF-v1.";

/// The run as a trajectory of ATIF.
///
/// A trajectory needs a step, so that of a run without a message has one with the task.
pub fn to_atif(run: &Conversation) -> Value {
    let told = run.told();
    let steps: Vec<Value> = (1..).zip(&*told).map(|(id, it)| step(id, it)).collect();
    let usage = &run.usage;
    object([
        ("schema_version", json!(VERSION)),
        ("session_id", json!(run.run_id)),
        ("trajectory_id", json!(run.run_id)),
        (
            "agent",
            object([
                ("name", json!(run.program.0)),
                ("version", json!(run.program.1)),
                ("model_name", json!(run.model)),
                ("tool_definitions", json!(run.tools)),
                (
                    "extra",
                    object([
                        ("original_format", json!(run.format)),
                        ("plugins", json!(run.plugins)),
                    ]),
                ),
            ]),
        ),
        ("steps", json!(steps)),
        (
            "final_metrics",
            object([
                ("total_prompt_tokens", json!(usage.input_tokens)),
                ("total_completion_tokens", json!(usage.output_tokens)),
                ("total_cached_tokens", json!(usage.cache_read_tokens)),
                ("total_cost_usd", json!(run.cost)),
                ("total_steps", json!(told.len())),
                (
                    "extra",
                    object([
                        ("total_cache_write_tokens", some(usage.cache_write_tokens)),
                        ("total_reasoning_tokens", some(usage.reasoning_tokens)),
                        ("total_queries", json!(run.queries)),
                    ]),
                ),
            ]),
        ),
        ("extra", end(run)),
    ])
}

/// The end of the run, and what else has no field of its own.
fn end(run: &Conversation) -> Value {
    let mut end = object([
        ("error", json!(run.failure)),
        ("task", text(&run.task)),
        ("started_at", json!(run.started.and_then(iso))),
        ("duration_sec", json!(run.seconds)),
    ]);
    end["exit_status"] = json!(run.exit_status.as_deref().unwrap_or("Killed"));
    end["submission"] = json!(run.submission);
    end
}

/// The steps of the run as ATIF has them, one JSON object a line. The `extra` of the last one has the
/// end of the run.
pub fn to_jsonl(run: &Conversation) -> String {
    let told = run.told();
    let mut out = String::new();
    for (id, it) in (1..).zip(&*told) {
        let mut step = step(id, it);
        if id == told.len() {
            step["extra"]["run"] = end(run);
        }
        let _ = writeln!(out, "{step}");
    }
    out
}

fn step(id: usize, it: &ConversationStep) -> Value {
    let calls = it.calls.iter().map(|call| {
        object([
            ("tool_call_id", json!(call.id)),
            ("function_name", json!(call.name)),
            ("arguments", json!(call.arguments)),
            (
                "extra",
                match call.is_of_text {
                    true => json!({ "parsed_from_text": true }),
                    false => Value::Null,
                },
            ),
        ])
    });
    let mut step = object([
        ("step_id", json!(id)),
        ("timestamp", json!(it.time.and_then(iso))),
        ("source", json!(it.source.word())),
        ("model_name", json!(it.model)),
        (
            "reasoning_content",
            match it.reasoning.is_empty() {
                true => Value::Null,
                false => json!(it.reasoning),
            },
        ),
        ("tool_calls", calls.collect()),
        ("metrics", metrics(it)),
        (
            "observation",
            match it.shown.is_empty() {
                true => Value::Null,
                false => json!({ "results": it.shown.iter().map(result).collect::<Vec<_>>() }),
            },
        ),
        (
            "extra",
            object([
                ("finish_reason", text(&it.finish_reason)),
                ("rejected", json!(it.rejected)),
            ]),
        ),
    ]);
    step["message"] = content(&it.text, &it.images);
    if it.source == StepSource::Agent {
        step["llm_call_count"] = json!(usize::from(it.is_reply));
    }
    // The arguments of a call may be empty, but the key is required.
    if let Some(calls) = step.get_mut("tool_calls").and_then(Value::as_array_mut) {
        for (made, call) in calls.iter_mut().zip(&it.calls) {
            made["arguments"] = call.arguments.clone();
        }
    }
    step
}

fn metrics(it: &ConversationStep) -> Value {
    let usage = it.usage.as_ref();
    let extra = usage.map(|usage| {
        object([
            ("cache_write_tokens", some(usage.cache_write_tokens)),
            ("reasoning_tokens", some(usage.reasoning_tokens)),
        ])
    });
    object([
        ("prompt_tokens", json!(usage.map(|it| it.input_tokens))),
        ("completion_tokens", json!(usage.map(|it| it.output_tokens))),
        ("cached_tokens", json!(usage.map(|it| it.cache_read_tokens))),
        ("cost_usd", json!(it.cost)),
        ("prompt_token_ids", json!(it.tokens.prompt)),
        ("completion_token_ids", json!(it.tokens.reply)),
        ("logprobs", json!(it.tokens.logprobs)),
        ("extra", json!(extra)),
    ])
}

fn result(it: &ShownResult) -> Value {
    let mut result = object([
        ("source_call_id", json!(it.call)),
        (
            "extra",
            object([
                ("returncode", json!(it.returncode)),
                ("exception_info", json!(it.exception)),
                ("duration_sec", json!(it.seconds)),
                (
                    "shown_to_model",
                    match it.is_unseen {
                        true => json!(false),
                        false => Value::Null,
                    },
                ),
            ]),
        ),
    ]);
    result["content"] = content(&it.text, &it.images);
    result
}

fn content(text: &str, images: &[String]) -> Value {
    let images = images.iter().filter_map(|url| {
        let source = json!({ "media_type": embedded(url)?, "path": url });
        Some(json!({ "type": "image", "source": source }))
    });
    let images: Vec<Value> = images.collect();
    if images.is_empty() {
        return json!(text);
    }
    let mut parts = vec![json!({ "type": "text", "text": text })];
    parts.extend(images);
    json!(parts)
}

/// An object from these fields, without those that have no value.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let is_there = |value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let fields = fields.into_iter().filter(|(_, value)| is_there(value));
    Value::Object(fields.map(|(key, value)| (key.to_owned(), value)).collect())
}

fn some(count: u64) -> Value {
    match count {
        0 => Value::Null,
        count => json!(count),
    }
}

fn text(it: &str) -> Value {
    match it {
        "" => Value::Null,
        it => json!(it),
    }
}

/// Whether a value is a trajectory of ATIF.
pub fn is_atif(value: &Value) -> bool {
    let version = value.get("schema_version").and_then(Value::as_str);
    version.is_some_and(|it| it.starts_with(VERSIONS))
}

/// The run that a trajectory of ATIF describes; keys that this version does not know are left out.
///
/// # Errors
/// A message with the place and the mistake, if a required field is missing or a field has the
/// wrong type.
pub fn from_atif(value: &Value) -> Result<Conversation, String> {
    let string = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
    let steps = value.get("steps").and_then(Value::as_array);
    let steps = steps.ok_or("`steps` is not a list; ATIF has the steps of a run there")?;
    let totals = &value["final_metrics"];
    let (extra, made) = (&value["extra"], &value["agent"]["extra"]);
    let steps: Vec<ConversationStep> = (1..)
        .zip(steps)
        .map(|(id, it)| read_step(it).map_err(|error| format!("step {id}: {error}")))
        .collect::<Result<_, _>>()?;
    // The totals may be left out.
    let of_steps = || {
        let mut all = Usage::default();
        let each = steps.iter().filter_map(|it| it.usage.as_ref());
        each.for_each(|it| all.add(it));
        all
    };
    let costs = || steps.iter().filter(|it| it.is_reply).map(|it| it.cost);
    Ok(Conversation {
        run_id: string(value, "session_id")
            .or_else(|| string(value, "trajectory_id"))
            .unwrap_or_default(),
        program: (
            string(&value["agent"], "name").unwrap_or_default(),
            string(&value["agent"], "version").unwrap_or_default(),
        ),
        model: string(&value["agent"], "model_name"),
        format: string(made, "original_format")
            .or_else(|| string(value, "schema_version"))
            .unwrap_or_default(),
        plugins: made["plugins"].as_array().cloned().unwrap_or_default(),
        usage: match totals.is_object() {
            true => usage(totals, "total_").unwrap_or_default(),
            false => of_steps(),
        },
        cost: match totals.is_object() {
            true => totals["total_cost_usd"].as_f64(),
            false => costs().sum(),
        },
        steps,
        exit_status: string(extra, "exit_status"),
        submission: string(extra, "submission").unwrap_or_default(),
        failure: string(extra, "error"),
        task: string(extra, "task").unwrap_or_default(),
        started: string(extra, "started_at").and_then(|it| from_iso(&it)),
        seconds: extra["duration_sec"].as_f64(),
        queries: totals["extra"]["total_queries"].as_u64(),
        tools: value["agent"]["tool_definitions"]
            .as_array()
            .cloned()
            .unwrap_or_default(),
    })
}

/// None if no count is there.
fn usage(value: &Value, beginning: &str) -> Option<Usage> {
    let count = |of: &Value, key: &str| of[format!("{beginning}{key}")].as_u64();
    let (input, output) = (
        count(value, "prompt_tokens"),
        count(value, "completion_tokens"),
    );
    input.or(output)?;
    let extra = &value["extra"];
    Some(Usage {
        input_tokens: input.unwrap_or_default(),
        output_tokens: output.unwrap_or_default(),
        cache_read_tokens: count(value, "cached_tokens").unwrap_or_default(),
        cache_write_tokens: count(extra, "cache_write_tokens").unwrap_or_default(),
        reasoning_tokens: count(extra, "reasoning_tokens").unwrap_or_default(),
        ..Usage::default()
    })
}

fn read_tokens(metrics: &Value) -> TokenIds {
    let logprobs = metrics["logprobs"].as_array().into_iter().flatten();
    TokenIds {
        prompt: TokenIds::ids(&metrics["prompt_token_ids"]),
        reply: TokenIds::ids(&metrics["completion_token_ids"]),
        logprobs: logprobs
            .map(Value::as_f64)
            .collect::<Option<_>>()
            .unwrap_or_default(),
    }
}

fn read_step(value: &Value) -> Result<ConversationStep, String> {
    let source = match value["source"].as_str() {
        Some("system") => StepSource::System,
        Some("user") => StepSource::User,
        Some("agent") => StepSource::Agent,
        _ => return Err("`source` is none of `system`, `user`, `agent`".to_owned()),
    };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let string = |value: &Value| value.as_str().map(str::to_owned);
    let (text, images) = read_content(&value["message"])?;
    let calls = list(&value["tool_calls"]).into_iter().map(|call| {
        Ok(RecordedCall {
            id: string(&call["tool_call_id"]).ok_or("a call without `tool_call_id`")?,
            name: string(&call["function_name"]).ok_or("a call without `function_name`")?,
            arguments: match &call["arguments"] {
                Value::Object(it) => Value::Object(it.clone()),
                _ => return Err("the `arguments` of a call are not an object"),
            },
            is_of_text: call["extra"]["parsed_from_text"] == json!(true),
        })
    });
    let shown = list(&value["observation"]["results"])
        .into_iter()
        .map(|it| {
            let (text, images) = read_content(&it["content"])?;
            let extra = &it["extra"];
            Ok::<_, String>(ShownResult {
                call: string(&it["source_call_id"]),
                text,
                images,
                returncode: extra["returncode"].as_i64(),
                exception: string(&extra["exception_info"]),
                seconds: extra["duration_sec"].as_f64(),
                is_unseen: extra["shown_to_model"] == json!(false),
            })
        });
    let metrics = value.get("metrics").filter(|it| it.is_object());
    Ok(ConversationStep {
        asked: None,
        pauses: Vec::new(),
        view: None,
        source,
        time: value["timestamp"].as_str().and_then(from_iso),
        text,
        images,
        reasoning: string(&value["reasoning_content"]).unwrap_or_default(),
        model: string(&value["model_name"]),
        calls: calls.collect::<Result<_, _>>()?,
        shown: shown.collect::<Result<_, _>>()?,
        usage: metrics.and_then(|it| usage(it, "")),
        tokens: metrics.map(read_tokens).unwrap_or_default(),
        cost: value["metrics"]["cost_usd"].as_f64(),
        is_reply: source == StepSource::Agent && value["llm_call_count"] != json!(0),
        finish_reason: string(&value["extra"]["finish_reason"]).unwrap_or_default(),
        rejected: string(&value["extra"]["rejected"]),
    })
}

fn read_content(value: &Value) -> Result<(String, Vec<String>), String> {
    match value {
        Value::Null => Ok(Default::default()),
        Value::String(text) => Ok((text.clone(), Vec::new())),
        Value::Array(parts) => {
            let of = |pointer: &str| {
                let found = parts.iter().filter_map(|it| it.pointer(pointer)?.as_str());
                found.map(str::to_owned).collect::<Vec<_>>()
            };
            Ok((of("/text").join("\n"), of("/source/path")))
        }
        _ => Err("a message is neither text nor a list of parts".to_owned()),
    }
}
