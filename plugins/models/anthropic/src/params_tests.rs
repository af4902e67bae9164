//! Vectors for parameters. The expected bodies are what litellm 1.106 sends for the same ones.

use super::*;
use crate::{Messages, configured};

fn fitted(model: &str, kwargs: &Value) -> Messages {
    configured(&json!({ "model": model, "model_kwargs": kwargs }))
}

#[test]
fn parameters_are_put_into_the_words_of_the_wire() {
    const SONNET: &str = "claude-sonnet-4-5-20250929";
    const OPUS: &str = "claude-opus-4-7";
    // Model, parameters, body, limit, choice of tools.
    let vectors = [
        (SONNET, json!({}), json!({}), 64_000, json!(null)),
        ("claude-x", json!({}), json!({}), 4096, json!(null)),
        (
            SONNET,
            json!({"drop_params": true, "temperature": 0, "parallel_tool_calls": true}),
            json!({"temperature": 0}),
            64_000,
            json!({"type": "auto", "disable_parallel_tool_use": false}),
        ),
        (
            SONNET,
            json!({"top_p": 0.5, "user": "u", "stop": ["a"], "max_completion_tokens": 77,
                   "max_tokens": 5, "temperature": null}),
            json!({"top_p": 0.5, "metadata": {"user_id": "u"}, "stop_sequences": ["a"]}),
            77,
            json!(null),
        ),
        (
            SONNET,
            json!({"stop": "a", "user": "u", "metadata": {"user_id": "v", "trace": 1}}),
            json!({"stop_sequences": ["a"], "metadata": {"user_id": "v"}}),
            64_000,
            json!(null),
        ),
        (
            SONNET,
            json!({"tool_choice": "required", "parallel_tool_calls": false}),
            json!({}),
            64_000,
            json!({"type": "any", "disable_parallel_tool_use": true}),
        ),
        (
            SONNET,
            json!({"tool_choice": {"type": "function", "function": {"name": "bash"}}}),
            json!({}),
            64_000,
            json!({"type": "tool", "name": "bash"}),
        ),
        (
            SONNET,
            json!({"tool_choice": {"type": "tool", "name": "x"}}),
            json!({}),
            64_000,
            json!({"type": "tool", "name": "x"}),
        ),
        (
            SONNET,
            json!({"tool_choice": "none", "parallel_tool_calls": true}),
            json!({}),
            64_000,
            json!({"type": "none"}),
        ),
        (
            SONNET,
            json!({"reasoning_effort": "none"}),
            json!({}),
            64_000,
            json!(null),
        ),
        (
            SONNET,
            json!({"reasoning_effort": "minimal"}),
            json!({"thinking": {"type": "enabled", "budget_tokens": 1024}}),
            5120,
            json!(null),
        ),
        (
            SONNET,
            json!({"reasoning_effort": "high"}),
            json!({"thinking": {"type": "enabled", "budget_tokens": 4096}}),
            8192,
            json!(null),
        ),
        (
            "claude-opus-4-5",
            json!({"reasoning_effort": "max"}),
            json!({"thinking": {"type": "enabled", "budget_tokens": 16_384}}),
            20_480,
            json!(null),
        ),
        (
            SONNET,
            json!({"thinking": {"type": "enabled", "budget_tokens": 2000}}),
            json!({"thinking": {"type": "enabled", "budget_tokens": 2000}}),
            6096,
            json!(null),
        ),
        (
            SONNET,
            json!({"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 3000}),
            json!({"thinking": {"type": "enabled", "budget_tokens": 2000}}),
            3000,
            json!(null),
        ),
        (
            OPUS,
            json!({"reasoning_effort": {"effort": "xhigh"}}),
            json!({"output_config": {"effort": "xhigh"},
                   "thinking": {"type": "adaptive", "display": "summarized"}}),
            128_000,
            json!(null),
        ),
        (
            OPUS,
            json!({"temperature": 0, "top_p": 0.3, "top_k": 4}),
            json!({}),
            128_000,
            json!(null),
        ),
        (
            OPUS,
            json!({"temperature": 1}),
            json!({"temperature": 1}),
            128_000,
            json!(null),
        ),
        (
            "claude-x",
            json!({"reasoning_effort": "low"}),
            json!({}),
            4096,
            json!(null),
        ),
        (
            SONNET,
            json!({"top_k": 3, "foo": 1, "extra_body": {"x": 2}, "service_tier": "auto"}),
            json!({"top_k": 3, "foo": 1, "x": 2, "service_tier": "auto"}),
            64_000,
            json!(null),
        ),
    ];
    for (model, kwargs, body, limit, choice) in vectors {
        let fitted = fitted(model, &kwargs);
        assert_eq!(Value::Object(fitted.server.model_kwargs), body, "{kwargs}");
        assert!(fitted.server.extra_body.is_empty());
        assert_eq!(fitted.max_tokens, limit, "{kwargs}");
        assert_eq!(fitted.tool_choice.unwrap_or_default(), choice, "{kwargs}");
    }
}

#[test]
fn what_is_dropped_and_renamed_is_told() {
    let report = |kwargs: &Value| fitted("claude-opus-4-7", kwargs).server.report;
    let told = report(&json!({
        "seed": 1, "n": 1, "stop": "a", "drop_params": true, "metadata": {"trace": 1},
        "temperature": 0, "tool_choice": "x", "reasoning_effort": "hard", "timeout": 5,
        "service_tier": "flex", "logprobs": null, "parallel_tool_calls": true,
    }));
    let dropped = [
        "timeout",
        "seed",
        "n",
        "metadata.trace",
        "temperature",
        "tool_choice",
        "service_tier",
        "reasoning_effort",
    ];
    let extra: Value = serde_json::from_str(&told.extra().unwrap()).unwrap();
    assert_eq!(extra, json!({ "dropped_params": dropped }));
    let notes = told.notes();
    for (name, note) in dropped.iter().zip(&notes) {
        let beginning = format!("`model.model_kwargs.{name}` is not sent: ");
        assert!(note.starts_with(&beginning), "{note}");
    }
    let renamed = [
        "`model.model_kwargs.stop` is sent as `stop_sequences`",
        "`model.model_kwargs.parallel_tool_calls` is sent as \
         `tool_choice.disable_parallel_tool_use`",
    ];
    assert_eq!(notes[dropped.len()..], renamed);
    assert_eq!(report(&json!({"foo": 1})), Report::default());
}

#[test]
fn a_known_limit_of_the_model_replaces_ours() {
    let limited = |kwargs: Value| {
        let config =
            json!({"model": "claude-next", "max_output_tokens": 32_000, "model_kwargs": kwargs});
        configured(&config).max_tokens
    };
    assert_eq!(limited(json!({})), 32_000);
    assert_eq!(limited(json!({"max_tokens": 7})), 7);
    assert_eq!(limited(json!({"thinking": {"budget_tokens": 1024}})), 5120);
}

#[test]
fn the_list_of_unknown_parameters_is_in_order() {
    assert!(UNKNOWN.is_sorted());
}
