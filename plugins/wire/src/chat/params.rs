//! Parameters: those of chat completions that OpenAI's models accept. For other models all
//! parameters are sent, because their servers have parameters of their own. The parameters sent are
//! the same as those that litellm sends for mini-swe-agent.

use serde_json::Value;

use crate::Server;
use crate::models::{is_o_series, is_reasoning_series, never_reasons, rests_by_default};

/// Parameters that the GPT-5 series never accepts.
const NOT_FOR_REASONING_SERIES: [&str; 8] = [
    "stop",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "prediction",
    "modalities",
    "web_search_options",
    "thinking",
];

/// Parameters that the o-series never accepts.
const NOT_FOR_O_SERIES: [&str; 5] = [
    "parallel_tool_calls",
    "frequency_penalty",
    "presence_penalty",
    "verbosity",
    "thinking",
];

/// Parameters that models without reasoning never accept.
const NOT_WITHOUT_REASONING: [&str; 3] = ["reasoning_effort", "verbosity", "thinking"];

/// Parameters that no model accepts while it reasons, except for a temperature of 1.
const NOT_WHILE_REASONING: [&str; 4] = ["temperature", "top_p", "logprobs", "top_logprobs"];

/// Adapts the parameters to the API and the model.
pub fn fit(server: &mut Server) {
    let model = server.model.as_str();
    let kwargs = &mut server.model_kwargs;
    let report = &mut server.report;
    if kwargs.shift_remove("metadata").is_some() {
        report.dropped(
            "metadata",
            "litellm uses it only for its log; write it into `extra_body` if the server needs it",
        );
    }
    if !server.stream && kwargs.shift_remove("stream_options").is_some() {
        report.dropped("stream_options", "the request does not ask for a stream");
    }
    let (is_series, is_o) = (is_reasoning_series(model), is_o_series(model));
    if (is_series || is_o)
        && let Some(limit) = kwargs.shift_remove("max_tokens")
    {
        report.renamed("max_tokens", "max_completion_tokens");
        kwargs.entry("max_completion_tokens").or_insert(limit);
    }
    if !server.drop_params {
        return;
    }
    let never: &[&str] = if is_series {
        &NOT_FOR_REASONING_SERIES
    } else if is_o {
        &NOT_FOR_O_SERIES
    } else if never_reasons(model) {
        &NOT_WITHOUT_REASONING
    } else {
        &[]
    };
    for key in never {
        if kwargs.shift_remove(*key).is_some() {
            report.dropped(key, &format!("`{model}` takes none"));
        }
    }
    let effort = kwargs
        .get("reasoning_effort")
        .filter(|effort| !effort.is_null());
    let effort = effort.map(|effort| effort.get("effort").unwrap_or(effort));
    let reasons = match effort {
        Some(effort) => effort != "none",
        None => !rests_by_default(model),
    };
    if is_o || (is_series && reasons) {
        for key in NOT_WHILE_REASONING {
            let is_one =
                key == "temperature" && kwargs.get(key).and_then(Value::as_f64) == Some(1.0);
            if !is_one && kwargs.shift_remove(key).is_some() {
                report.dropped(key, &format!("`{model}` takes none while it reasons"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Table;
    use crate::chat::OPENAI;
    use serde_json::json;

    fn fitted(model: &str, kwargs: &Value, drop_params: bool) -> (Value, usize) {
        let mut kwargs = kwargs.clone();
        kwargs["drop_params"] = json!(drop_params);
        let config = json!({"model": model, "stream": false, "model_kwargs": kwargs});
        let mut server = Server::take(&mut Table::new(config).unwrap(), &OPENAI).unwrap();
        fit(&mut server);
        let notes = server.report.notes().len();
        (Value::Object(server.model_kwargs), notes)
    }

    /// The parameters that each model loses under `drop_params`, against those that litellm 1.106
    /// sends for each of them alone, recorded by a server in its place.
    #[test]
    fn each_model_loses_what_the_recording_shows() {
        let models = ["gpt-5", "gpt-5.1", "o3", "gpt-4.1", "my-local"];
        let vectors = [
            (json!({"reasoning_effort": "low"}), &["gpt-4.1"][..]),
            (json!({"max_completion_tokens": 99}), &[]),
            (json!({"seed": 1}), &[]),
            (json!({"stop": "x"}), &["gpt-5", "gpt-5.1"]),
            (json!({"top_p": 0.5}), &["gpt-5", "o3"]),
            (json!({"temperature": 0.0}), &["gpt-5", "o3"]),
            (json!({"temperature": 1}), &[]),
            (json!({"logprobs": true}), &["gpt-5", "o3"]),
            (json!({"top_logprobs": 2}), &["gpt-5", "o3"]),
            (json!({"response_format": {"type": "json_object"}}), &[]),
            (json!({"zzz": 3}), &[]),
            (json!({"n": 2}), &[]),
            (json!({"parallel_tool_calls": false}), &["o3"]),
            (json!({"frequency_penalty": 1}), &["gpt-5", "gpt-5.1", "o3"]),
            (json!({"presence_penalty": 1}), &["gpt-5", "gpt-5.1", "o3"]),
            (json!({"top_k": 5}), &[]),
            (json!({"store": true}), &[]),
            (json!({"prediction": {"a": 1}}), &["gpt-5", "gpt-5.1"]),
            (json!({"logit_bias": {"1": 1}}), &["gpt-5", "gpt-5.1"]),
            (json!({"modalities": ["text"]}), &["gpt-5", "gpt-5.1"]),
            (json!({"web_search_options": {}}), &["gpt-5", "gpt-5.1"]),
            (json!({"metadata": {"a": "b"}}), &models),
            (json!({"stream_options": {"include_usage": true}}), &models),
            // litellm accepts these also for models that it does not know.
            (json!({"verbosity": "low"}), &["o3", "gpt-4.1"]),
            (
                json!({"thinking": {"type": "enabled"}}),
                &["gpt-5", "gpt-5.1", "o3", "gpt-4.1"],
            ),
        ];
        for (kwargs, losers) in vectors {
            for model in models {
                let expected = match losers.contains(&model) {
                    true => (json!({}), 1),
                    false => (kwargs.clone(), 0),
                };
                assert_eq!(fitted(model, &kwargs, true), expected, "{model} {kwargs}");
            }
        }
    }

    #[test]
    fn without_drop_params_the_server_has_its_say() {
        for kwargs in [
            json!({"temperature": 0.0}),
            json!({"stop": "x"}),
            json!({"verbosity": "low"}),
        ] {
            assert_eq!(fitted("gpt-5", &kwargs, false), (kwargs, 0));
        }
        let awake = json!({"temperature": 0.0, "reasoning_effort": "low"});
        assert_eq!(
            fitted("gpt-5.1", &awake, true).0,
            json!({"reasoning_effort": "low"})
        );
        let asleep = json!({"temperature": 0.0, "reasoning_effort": "none"});
        assert_eq!(fitted("gpt-5", &asleep, true), (asleep, 0));
    }

    #[test]
    fn limits_get_the_name_that_the_model_takes() {
        let limit = json!({"max_tokens": 77});
        for model in ["gpt-5", "gpt-5.1", "o3", "openai/o4-mini"] {
            for drop_params in [true, false] {
                let renamed = json!({"max_completion_tokens": 77});
                assert_eq!(fitted(model, &limit, drop_params), (renamed, 1), "{model}");
            }
        }
        for model in ["gpt-4.1", "my-local", "olmo-3", "gpt-oss-120b"] {
            assert_eq!(fitted(model, &limit, true), (limit.clone(), 0), "{model}");
        }
    }
}
