//! Parameters: those that the Responses API has and its models accept. The parameters sent are the
//! same as those that litellm sends for mini-swe-agent.

use serde_json::{Map, Value, json};

use crate::Server;
use crate::models::{is_reasoning_series, never_reasons, rests_by_default};

/// The API's parameters.
const KNOWN: [&str; 29] = [
    "background",
    "context_management",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "moderation",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
];

/// Parameters of chat completions, and what to write instead.
const OF_CHAT: [(&str, &str); 7] = [
    ("max_tokens", "write `max_output_tokens`"),
    ("max_completion_tokens", "write `max_output_tokens`"),
    ("response_format", "write `text: {format: ...}`"),
    ("verbosity", "write `text: {verbosity: ...}`"),
    ("functions", "the tools come from the parser"),
    (
        "thinking",
        "it is Anthropic's; write `reasoning: {effort: ...}`",
    ),
    ("logprobs", "write `top_logprobs`"),
];

const UNKNOWN: &str =
    "the Responses API does not know it; write it into `extra_body` if this server does";

/// The smallest limit that the API accepts.
const MIN_OUTPUT_TOKENS: u64 = 16;

/// Adapts the parameters to the API and the model.
pub fn fit(server: &mut Server) {
    let Server {
        model_kwargs: kwargs,
        report,
        ..
    } = server;
    if let Some(effort) = kwargs.shift_remove("reasoning_effort")
        && !effort.is_null()
    {
        if kwargs.contains_key("reasoning") {
            report.dropped(
                "reasoning_effort",
                "`reasoning` is set too, and takes precedence",
            );
        } else {
            report.renamed("reasoning_effort", "reasoning.effort");
            let reasoning = match effort {
                Value::Object(_) => effort,
                effort => json!({ "effort": effort }),
            };
            kwargs.insert("reasoning".to_owned(), reasoning);
        }
    }
    let unknown: Vec<String> = kwargs
        .keys()
        .filter(|key| *key != "user" && !KNOWN.contains(&key.as_str()))
        .cloned()
        .collect();
    for key in unknown {
        kwargs.shift_remove(&key);
        let remedy = OF_CHAT.iter().find(|(name, _)| *name == key);
        report.dropped(&key, remedy.map_or(UNKNOWN, |(_, remedy)| remedy));
    }
    if kwargs.get("background") == Some(&Value::Bool(true)) {
        kwargs.shift_remove("background");
        report.dropped("background", "the host waits for each answer");
    }
    let limit = kwargs.get("max_output_tokens").and_then(Value::as_u64);
    if limit.is_some_and(|limit| (1..MIN_OUTPUT_TOKENS).contains(&limit)) {
        kwargs.insert("max_output_tokens".to_owned(), json!(MIN_OUTPUT_TOKENS));
        report.renamed("max_output_tokens", "max_output_tokens: 16");
    }
    if server.drop_params {
        fit_model(server);
    }
}

/// Leaves out what the model refuses, as `drop_params` demands.
fn fit_model(server: &mut Server) {
    let model = &server.model;
    let kwargs = &mut server.model_kwargs;
    let report = &mut server.report;
    let effort = |kwargs: &Map<String, Value>| {
        let effort = kwargs.get("reasoning").and_then(|r| r.get("effort"));
        effort.filter(|effort| !effort.is_null()).cloned()
    };
    if effort(kwargs).is_some() && never_reasons(model) {
        kwargs.shift_remove("reasoning");
        report.dropped("reasoning", &format!("`{model}` does not reason"));
    }
    let reasons = match effort(kwargs) {
        Some(effort) => effort != "none",
        None => !rests_by_default(model),
    };
    if is_reasoning_series(model) && reasons {
        let why = format!("`{model}` takes none while it reasons");
        let temperature = kwargs.get("temperature").map(Value::as_f64);
        if temperature.is_some_and(|temperature| temperature != Some(1.0)) {
            kwargs.shift_remove("temperature");
            report.dropped("temperature", &why);
        }
        if kwargs.shift_remove("top_p").is_some() {
            report.dropped("top_p", &why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Table;
    use crate::chat::OPENAI;

    fn fitted(model: &str, kwargs: Value) -> (Value, usize) {
        let config = json!({"model": model, "model_kwargs": kwargs});
        let mut server = Server::take(&mut Table::new(config).unwrap(), &OPENAI).unwrap();
        fit(&mut server);
        let notes = server.report.notes().len();
        (Value::Object(server.model_kwargs), notes)
    }

    /// Compares the request for each parameter alone with that of litellm 1.106, recorded by a
    /// server of this project.
    #[test]
    fn each_parameter_becomes_what_the_recording_shows() {
        let kept = json!({
            "user": "u", "service_tier": "flex", "truncation": "auto", "top_logprobs": 2,
            "prompt_cache_key": "k", "safety_identifier": "s", "instructions": "I",
            "previous_response_id": "p", "background": false, "store": true,
            "reasoning": {"effort": "low"}, "text": {"verbosity": "low"},
            "tool_choice": "required", "parallel_tool_calls": false, "max_tool_calls": 3,
            "stream_options": {"include_obfuscation": false}, "prompt": {"id": "x"},
            "prompt_cache_retention": "24h", "max_output_tokens": 16, "metadata": {"a": "b"},
            "include": ["reasoning.encrypted_content"],
        });
        for (key, value) in kept.as_object().unwrap() {
            let one = json!({ key: value });
            assert_eq!(fitted("gpt-5", one.clone()), (one, 0));
        }
        let dropped = json!({
            "max_tokens": 77, "max_completion_tokens": 99, "seed": 1, "stop": ["x"],
            "verbosity": "low", "response_format": {"type": "json_object"}, "zzz": 3, "n": 1,
            "logprobs": true, "frequency_penalty": 1, "presence_penalty": 1, "logit_bias": {},
            "thinking": {"type": "enabled"}, "modalities": ["text"], "functions": [], "top_k": 5,
            "custom_llm_provider": "openai", "timeout": 3, "cache": {},
        });
        for (key, value) in dropped.as_object().unwrap() {
            assert_eq!(fitted("gpt-4.1", json!({ key: value })), (json!({}), 1));
        }
    }

    #[test]
    fn parameters_are_fitted_to_the_model_only_when_asked() {
        let low = json!({"effort": "low"});
        let none = json!({"effort": "none"});
        // model, parameters beside `drop_params`, expected rest
        let vectors = [
            (
                "gpt-5",
                json!({"reasoning_effort": "low"}),
                json!({"reasoning": low}),
            ),
            (
                "gpt-5",
                json!({"reasoning_effort": {"effort": "low", "summary": "auto"}}),
                json!({"reasoning": {"effort": "low", "summary": "auto"}}),
            ),
            (
                "gpt-5",
                json!({"reasoning_effort": "high", "reasoning": low}),
                json!({"reasoning": low}),
            ),
            ("gpt-4.1", json!({"reasoning_effort": "low"}), json!({})),
            (
                "gpt-4.1",
                json!({"reasoning": low, "temperature": 0.0, "top_p": 0.5}),
                json!({"temperature": 0.0, "top_p": 0.5}),
            ),
            (
                "my-local",
                json!({"reasoning": low, "temperature": 0.0}),
                json!({"reasoning": low, "temperature": 0.0}),
            ),
            (
                "gpt-5-mini",
                json!({"temperature": 0.0, "top_p": 0.5}),
                json!({}),
            ),
            (
                "gpt-5-mini",
                json!({"temperature": 1}),
                json!({"temperature": 1}),
            ),
            (
                "gpt-5-chat-latest",
                json!({"temperature": 0.0}),
                json!({"temperature": 0.0}),
            ),
            (
                "gpt-5.1",
                json!({"temperature": 0.0}),
                json!({"temperature": 0.0}),
            ),
            (
                "gpt-5.1-2025-11-13",
                json!({"top_p": 0.5}),
                json!({"top_p": 0.5}),
            ),
            (
                "gpt-5.1",
                json!({"temperature": 0.0, "reasoning": low}),
                json!({"reasoning": low}),
            ),
            ("gpt-5.1-codex", json!({"temperature": 0.0}), json!({})),
            (
                "gpt-5.3-codex",
                json!({"temperature": 0.0, "reasoning": none}),
                json!({"temperature": 0.0, "reasoning": none}),
            ),
            (
                "gpt-5",
                json!({"max_output_tokens": 5}),
                json!({"max_output_tokens": 16}),
            ),
        ];
        for (model, kwargs, expected) in vectors {
            let mut asked = kwargs.clone();
            asked["drop_params"] = json!(true);
            assert_eq!(fitted(model, asked).0, expected, "{model} {kwargs}");
        }
        let cold = json!({"temperature": 0.0});
        assert_eq!(fitted("gpt-5", cold.clone()), (cold, 0));
        let background = json!({"background": true});
        assert_eq!(fitted("gpt-5", background), (json!({}), 1));
    }
}
