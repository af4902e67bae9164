//! Parameters of chat completions as a provider takes them: litellm renames some, and with
//! `drop_params` leaves out those of OpenAI's that the provider does not have.

use serde_json::{Map, Value, json};

/// OpenAI's own parameters. litellm passes all others as a part of `extra_body`.
const OPENAI: [&str; 27] = [
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "modalities",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "reasoning_effort",
    "response_format",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
];

/// Whether the parameter is one of OpenAI's: then `extra_body` takes precedence over it.
pub(super) fn is_openais(name: &str) -> bool {
    OPENAI.contains(&name)
}

/// How a provider differs from OpenAI.
struct Dialect {
    provider: &'static str,
    /// The value of `tool_choice` for `required`, and for a certain tool.
    required: &'static str,
    /// OpenAI's parameters that it does not have.
    lacks: &'static [&'static str],
}

/// Parameters that Ollama takes only in its own API.
const OF_OLLAMA: [&str; 24] = [
    "format",
    "keep_alive",
    "low_vram",
    "main_gpu",
    "min_p",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "num_batch",
    "num_ctx",
    "num_gpu",
    "num_gqa",
    "num_keep",
    "num_predict",
    "num_thread",
    "options",
    "repeat_last_n",
    "repeat_penalty",
    "tfs_z",
    "think",
    "top_k",
    "typical_p",
    "use_mlock",
    "use_mmap",
];

/// A note for each parameter without effect on Ollama, in its own API or in the compatible one.
pub(super) fn without_effect(
    is_own_api: bool,
    parameters: &Map<String, Value>,
) -> impl Iterator<Item = String> {
    parameters.keys().filter_map(move |name| {
        let remedy = match name.as_str() {
            "system" => "set `SYSTEM` in the model's Modelfile instead",
            "template" => "set `TEMPLATE` in the model's Modelfile instead",
            name if !is_own_api && OF_OLLAMA.contains(&name) => {
                "Ollama takes it only in its own API; leave `/v1` off the address"
            }
            _ => return None,
        };
        Some(format!(
            "`model.model_kwargs.{name}` has no effect: {remedy}"
        ))
    })
}

const DIALECTS: [Dialect; 14] = [
    dialect(
        "mistral",
        "any",
        &[
            "frequency_penalty",
            "presence_penalty",
            "logit_bias",
            "logprobs",
            "top_logprobs",
            "n",
            "user",
        ],
    ),
    dialect("codestral", "any", &[]),
    dialect("fireworks_ai", "any", &[]),
    dialect(
        "nvidia_nim",
        "required",
        &["n", "logit_bias", "logprobs", "top_logprobs", "user"],
    ),
    dialect(
        "deepinfra",
        "",
        &[
            "seed",
            "user",
            "logprobs",
            "top_logprobs",
            "parallel_tool_calls",
        ],
    ),
    dialect("moonshot", "required", &["functions"]),
    dialect("xai", "required", &[]),
    dialect(
        "baseten",
        "required",
        &["n", "logit_bias", "logprobs", "top_logprobs"],
    ),
    dialect(
        "cerebras",
        "required",
        &[
            "frequency_penalty",
            "presence_penalty",
            "logit_bias",
            "logprobs",
            "top_logprobs",
            "n",
        ],
    ),
    dialect(
        "sambanova",
        "required",
        &[
            "frequency_penalty",
            "presence_penalty",
            "logit_bias",
            "logprobs",
            "top_logprobs",
            "n",
            "seed",
            "user",
        ],
    ),
    dialect(
        "featherless_ai",
        "",
        &[
            "seed",
            "user",
            "logprobs",
            "top_logprobs",
            "response_format",
        ],
    ),
    dialect(
        "databricks",
        "required",
        &[
            "audio",
            "frequency_penalty",
            "function_call",
            "functions",
            "logit_bias",
            "logprobs",
            "modalities",
            "parallel_tool_calls",
            "prediction",
            "presence_penalty",
            "seed",
            "service_tier",
            "store",
            "top_logprobs",
            "user",
        ],
    ),
    dialect("groq", "required", &["user"]),
    dialect(
        "ollama",
        "",
        &[
            "n",
            "logit_bias",
            "parallel_tool_calls",
            "service_tier",
            "store",
            "user",
        ],
    ),
];

const fn dialect(
    provider: &'static str,
    required: &'static str,
    lacks: &'static [&'static str],
) -> Dialect {
    Dialect {
        provider,
        required,
        lacks,
    }
}

/// Writes the parameters as the provider takes them; returns a note for each that is left out.
pub(super) fn fit(
    provider: &str,
    model: &str,
    drops: bool,
    parameters: &mut Map<String, Value>,
) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(dialect) = DIALECTS.iter().find(|it| it.provider == provider) else {
        return notes;
    };
    if let Some(limit) = parameters.shift_remove("max_completion_tokens") {
        parameters.insert("max_tokens".to_owned(), limit);
    }
    if matches!(provider, "mistral" | "codestral")
        && let Some(seed) = parameters.shift_remove("seed")
    {
        parameters.insert("random_seed".to_owned(), seed);
    }
    if provider == "moonshot"
        && let Some(temperature) = parameters.get("temperature").and_then(Value::as_f64)
    {
        let is_several = parameters.get("n").and_then(Value::as_u64) > Some(1);
        let least = if is_several { 0.3 } else { 0.0 };
        if !(least..=1.0).contains(&temperature) {
            let fitted = temperature.clamp(least, 1.0);
            parameters.insert("temperature".to_owned(), json!(fitted));
        }
    }
    let mut leave_out = |parameters: &mut Map<String, Value>, name: &str| {
        if parameters.shift_remove(name).is_some() {
            notes.push(format!(
                "`model.model_kwargs.{name}` is not sent: `{provider}` takes none for `{model}`"
            ));
        }
    };
    let choice = parameters.get("tool_choice");
    if choice.is_some_and(|choice| choice == "required" || choice.is_object()) {
        match dialect.required {
            "" if drops => leave_out(parameters, "tool_choice"),
            "any" => {
                parameters.insert("tool_choice".to_owned(), json!("any"));
            }
            _ => {}
        }
    }
    if drops {
        for name in dialect.lacks {
            leave_out(parameters, name);
        }
    }
    if drops && provider == "xai" {
        let is = |names: &[&str]| names.iter().any(|name| model.contains(name));
        if is(&["grok-3-mini", "grok-4", "grok-code-fast"]) {
            leave_out(parameters, "stop");
        }
        if is(&["grok-4", "grok-code-fast"]) {
            leave_out(parameters, "frequency_penalty");
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_provider_gets_what_litellm_sends() {
        let all = json!({"seed": 1, "tool_choice": "required", "max_completion_tokens": 9, "top_k": 3,
            "stop": "x", "frequency_penalty": 1, "temperature": 1.5, "user": "u"});
        for (provider, model, drops, expected) in [
            ("openai", "m", true, all.clone()),
            (
                "mistral",
                "m",
                false,
                json!({"max_tokens": 9, "random_seed": 1, "tool_choice": "any", "top_k": 3, "stop": "x",
                    "frequency_penalty": 1, "temperature": 1.5, "user": "u"}),
            ),
            (
                "mistral",
                "m",
                true,
                json!({"max_tokens": 9, "random_seed": 1, "tool_choice": "any", "top_k": 3, "stop": "x",
                    "temperature": 1.5}),
            ),
            (
                "fireworks_ai",
                "m",
                true,
                json!({"max_tokens": 9, "seed": 1, "tool_choice": "any", "top_k": 3, "stop": "x",
                    "frequency_penalty": 1, "temperature": 1.5, "user": "u"}),
            ),
            (
                "nvidia_nim",
                "m",
                true,
                json!({"max_tokens": 9, "seed": 1, "tool_choice": "required", "top_k": 3, "stop": "x",
                    "frequency_penalty": 1, "temperature": 1.5}),
            ),
            (
                "deepinfra",
                "m",
                true,
                json!({"max_tokens": 9, "top_k": 3, "stop": "x", "frequency_penalty": 1,
                    "temperature": 1.5}),
            ),
            (
                "databricks",
                "m",
                true,
                json!({"max_tokens": 9, "tool_choice": "required", "top_k": 3, "stop": "x",
                    "temperature": 1.5}),
            ),
            (
                "groq",
                "m",
                true,
                json!({"max_tokens": 9, "seed": 1, "tool_choice": "required", "top_k": 3, "stop": "x",
                    "frequency_penalty": 1, "temperature": 1.5}),
            ),
            (
                "moonshot",
                "m",
                false,
                json!({"max_tokens": 9, "seed": 1, "tool_choice": "required", "top_k": 3, "stop": "x",
                    "frequency_penalty": 1, "temperature": 1.0, "user": "u"}),
            ),
            (
                "xai",
                "grok-4",
                true,
                json!({"max_tokens": 9, "seed": 1, "tool_choice": "required", "top_k": 3,
                    "temperature": 1.5, "user": "u"}),
            ),
            (
                "xai",
                "grok-4",
                false,
                json!({"max_tokens": 9, "seed": 1, "tool_choice": "required", "top_k": 3, "stop": "x",
                    "frequency_penalty": 1, "temperature": 1.5, "user": "u"}),
            ),
        ] {
            let mut parameters = all.as_object().unwrap().clone();
            let notes = fit(provider, model, drops, &mut parameters);
            assert_eq!(Value::Object(parameters), expected, "{provider} {drops}");
            let lost = 8 - expected.as_object().unwrap().len();
            assert_eq!(notes.len(), lost, "{notes:?}");
        }
        for (name, is_own_api, remedy) in [
            ("num_ctx", true, ""),
            ("num_ctx", false, "leave `/v1` off"),
            ("system", true, "`SYSTEM`"),
            ("template", false, "`TEMPLATE`"),
            ("temperature", false, ""),
        ] {
            let parameters = Map::from_iter([(name.to_owned(), json!(8192))]);
            let notes: Vec<String> = without_effect(is_own_api, &parameters).collect();
            assert_eq!(notes.is_empty(), remedy.is_empty(), "{notes:?}");
            assert!(notes.concat().contains(remedy), "{notes:?}");
        }
    }
}
