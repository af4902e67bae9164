//! Parameters: from the words of chat completions, in which configs are written, to those of
//! the Messages API; what it has no word for is left out and told.

use mswea_sdk::host::{Level, log};
use mswea_sdk::types::PluginError;
use serde_json::{Map, Value, json};

use crate::models::{Thinking, Traits};

/// Switches of litellm itself, which it never sends either; not worth a word.
const SWITCHES: [&str; 3] = ["drop_params", "modify_params", "custom_llm_provider"];

/// What the Messages API has no word for: parameters of chat completions, and settings of
/// litellm's client.
const UNKNOWN: [&str; 36] = [
    "additional_drop_params",
    "allowed_openai_params",
    "api_version",
    "audio",
    "base_model",
    "cache",
    "caching",
    "fallbacks",
    "frequency_penalty",
    "function_call",
    "functions",
    "input_cost_per_token",
    "logit_bias",
    "logprobs",
    "max_retries",
    "mock_response",
    "modalities",
    "n",
    "num_retries",
    "output_cost_per_token",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "request_timeout",
    "response_format",
    "safety_identifier",
    "seed",
    "store",
    "stream_options",
    "stream_timeout",
    "timeout",
    "top_logprobs",
    "truncation",
    "verbosity",
    "web_search_options",
];

/// What is left for the answer when thinking has a budget and no limit was set.
const BESIDE_THINKING: u64 = 4096;

/// `model_kwargs` in the words of the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    /// Keys of the body.
    pub body: Map<String, Value>,
    /// The limit of the answer.
    pub max_tokens: Value,
    /// How tools are chosen; only sent with tools.
    pub tool_choice: Option<Value>,
    /// Headers that were among the parameters, as written.
    pub headers: Map<String, Value>,
    /// What was left out.
    dropped: Vec<String>,
    /// What has another name on the wire.
    renamed: Map<String, Value>,
}

impl Params {
    /// Translates `model_kwargs`.
    ///
    /// # Errors
    /// `invalid-config` for values that no wire could take.
    pub fn new(
        kwargs: Map<String, Value>,
        traits: Traits,
        max_output: Option<u64>,
    ) -> Result<Self, PluginError> {
        let mut params = Self::default();
        let mut parallel = None;
        let mut effort = None;
        let mut completion_limit = Value::Null;
        for (key, value) in kwargs {
            if value.is_null() || SWITCHES.contains(&key.as_str()) {
                continue;
            }
            match (key.as_str(), value) {
                ("max_tokens", value) => params.max_tokens = value,
                ("max_completion_tokens", value) => {
                    completion_limit = value;
                    params.rename(&key, "max_tokens");
                }
                ("stop", value) => {
                    let list = match value {
                        Value::Array(list) => list,
                        one => vec![one],
                    };
                    params.body.insert("stop_sequences".to_owned(), list.into());
                    params.rename(&key, "stop_sequences");
                }
                ("user", user) => {
                    let metadata = params.body.entry("metadata");
                    metadata.or_insert_with(|| json!({ "user_id": user }));
                    params.rename(&key, "metadata.user_id");
                }
                ("metadata", Value::Object(metadata)) => params.take_metadata(metadata),
                ("parallel_tool_calls", Value::Bool(value)) => {
                    parallel = Some(value);
                    params.rename(&key, "tool_choice.disable_parallel_tool_use");
                }
                ("tool_choice", value) => params.take_choice(&value, traits.may_be_forced),
                ("reasoning_effort", value) => effort = Some(value),
                ("temperature", value) if !traits.samples && value.as_f64() != Some(1.0) => {
                    params.dropped.push(key);
                }
                ("top_p" | "top_k", _) if !traits.samples => params.dropped.push(key),
                ("service_tier", value) if value != "auto" && value != "standard_only" => {
                    params.dropped.push(key);
                }
                ("extra_headers", Value::Object(headers)) => params.headers = headers,
                ("extra_body", Value::Object(body)) => params.body.extend(body),
                ("extra_headers" | "extra_body", _) => {
                    let message = format!(
                        "`model.model_kwargs.{key}` is no table; write names and values into it"
                    );
                    let pointer = format!("/model_kwargs/{key}");
                    return Err(PluginError::invalid_config(message).at(&pointer));
                }
                (name, _) if UNKNOWN.contains(&name) => params.dropped.push(key),
                // What is not known here may be new on the wire.
                (_, value) => {
                    params.body.insert(key, value);
                }
            }
        }
        if !completion_limit.is_null() {
            params.max_tokens = completion_limit;
        }
        if let Some(effort) = effort {
            params.take_effort(&effort, traits.thinking);
        }
        params.fit_thinking(traits);
        if let Some(parallel) = parallel {
            params.take_parallel(parallel);
        }
        if params.max_tokens.is_null() {
            let limit = max_output.unwrap_or(traits.max_tokens);
            params.max_tokens = json!(params.budget().map_or(limit, |budget| {
                // A budget alone says how much is wanted, as litellm reads it.
                budget.saturating_add(BESIDE_THINKING)
            }));
        }
        Ok(params)
    }

    fn rename(&mut self, from: &str, to: &str) {
        self.renamed.insert(from.to_owned(), to.into());
    }

    /// The wire has one key of metadata; what else is in it is for litellm's log.
    fn take_metadata(&mut self, metadata: Map<String, Value>) {
        for (key, value) in metadata {
            if key == "user_id" {
                self.body
                    .insert("metadata".to_owned(), json!({ "user_id": value }));
                self.renamed.shift_remove("user");
            } else {
                self.dropped.push(format!("metadata.{key}"));
            }
        }
    }

    fn take_effort(&mut self, effort: &Value, thinking: Thinking) {
        let name = "reasoning_effort";
        let word = effort.as_str().or_else(|| effort.get("effort")?.as_str());
        let level = match word {
            Some("none") => return,
            Some("minimal") => "low",
            Some(word @ ("low" | "medium" | "high" | "xhigh" | "max")) => word,
            _ => return self.dropped.push(name.to_owned()),
        };
        let thinking = match thinking {
            Thinking::Unknown => return self.dropped.push(name.to_owned()),
            Thinking::Budget => {
                self.rename(name, "thinking");
                budget_of(level)
            }
            Thinking::Either | Thinking::Adaptive => {
                self.rename(name, "output_config.effort");
                self.set_effort(level);
                json!({ "type": "adaptive", "display": "summarized" })
            }
        };
        self.body.entry("thinking").or_insert(thinking);
    }

    fn set_effort(&mut self, level: &str) {
        let output = self.body.entry("output_config");
        if let Value::Object(output) = output.or_insert_with(|| json!({})) {
            output.entry("effort").or_insert_with(|| level.into());
        }
    }

    /// Puts `thinking` into the words of a model that does not take it as it was written.
    fn fit_thinking(&mut self, traits: Traits) {
        let Some(Value::Object(thinking)) = self.body.get_mut("thinking") else {
            return;
        };
        let kind = thinking.get("type").and_then(Value::as_str);
        match (kind, traits.thinking) {
            (Some("disabled"), _) if !traits.may_rest => {
                self.body.shift_remove("thinking");
                self.dropped.push("thinking".to_owned());
            }
            (Some("enabled"), Thinking::Adaptive) => {
                thinking.insert("type".to_owned(), "adaptive".into());
                let budget = thinking.shift_remove("budget_tokens");
                if let Some(budget) = budget.and_then(|budget| budget.as_u64()) {
                    self.rename("thinking.budget_tokens", "output_config.effort");
                    self.set_effort(match budget {
                        0..2048 => "low",
                        2048..4096 => "medium",
                        8192.. if traits.has_xhigh => "xhigh",
                        _ => "high",
                    });
                }
            }
            (Some("adaptive"), Thinking::Budget) => {
                self.body.insert("thinking".to_owned(), budget_of("medium"));
                self.rename("thinking: adaptive", "thinking: enabled");
            }
            _ => {}
        }
    }

    fn take_choice(&mut self, choice: &Value, may_be_forced: bool) {
        match tool_choice(choice) {
            Some(choice)
                if !may_be_forced && (choice["type"] == "any" || choice["type"] == "tool") =>
            {
                self.tool_choice = Some(json!({ "type": "auto" }));
                self.rename("tool_choice", "tool_choice.type: auto");
            }
            Some(choice) => self.tool_choice = Some(choice),
            None => self.dropped.push("tool_choice".to_owned()),
        }
    }

    fn take_parallel(&mut self, parallel: bool) {
        let choice = self.tool_choice.get_or_insert(json!({ "type": "auto" }));
        if choice["type"] != "none"
            && let Value::Object(choice) = choice
        {
            choice
                .entry("disable_parallel_tool_use")
                .or_insert(Value::Bool(!parallel));
        }
    }

    fn budget(&self) -> Option<u64> {
        self.body.get("thinking")?.get("budget_tokens")?.as_u64()
    }

    /// Tells the user, once per instance.
    pub fn log(&self) {
        if !self.dropped.is_empty() {
            let names = self.dropped.iter().map(|name| format!("`{name}`"));
            let names = names.collect::<Vec<_>>().join(", ");
            log(
                Level::Warn,
                &format!(
                    "not sent, because the Messages API or the model does not take it: {names}; \
                     remove it from `model.model_kwargs`"
                ),
            );
        }
        for (from, to) in &self.renamed {
            let to = to.as_str().unwrap_or_default();
            log(Level::Debug, &format!("`{from}` is sent as `{to}`"));
        }
    }

    /// What was left out, for the record: a reply's `extra`.
    pub fn report(&self) -> Option<String> {
        let report = json!({ "dropped_params": self.dropped });
        (!self.dropped.is_empty()).then(|| report.to_string())
    }
}

/// An effort as a budget of tokens; litellm's numbers.
fn budget_of(effort: &str) -> Value {
    let tokens = match effort {
        "low" => 1024,
        "medium" => 2048,
        "high" => 4096,
        "xhigh" => 8192,
        _ => 16_384,
    };
    json!({ "type": "enabled", "budget_tokens": tokens })
}

/// A choice of tools in the wire's words; none for what can't be said in them.
fn tool_choice(choice: &Value) -> Option<Value> {
    let kind = choice
        .as_str()
        .or_else(|| choice.get("type")?.as_str())
        .unwrap_or_default();
    Some(match kind {
        "auto" | "any" | "none" | "tool" if choice.is_object() => choice.clone(),
        "auto" | "none" | "any" => json!({ "type": kind }),
        "required" => json!({ "type": "any" }),
        "function" => json!({ "type": "tool", "name": choice.get("function")?.get("name")? }),
        _ => return None,
    })
}

#[cfg(test)]
#[path = "params_tests.rs"]
mod tests;
