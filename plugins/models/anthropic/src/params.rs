//! Parameters: from the names of chat completions, which configs use, to those of the Messages API.
//! Parameters without a counterpart are left out and reported.

use mswea_wire::{Report, Server};
use serde_json::{Map, Value, json};

use crate::models::{Thinking, Traits};

/// An option of litellm itself, which litellm does not send either; it is not reported.
const SWITCH: &str = "modify_params";

/// Parameters of chat completions without a counterpart in the Messages API.
const UNKNOWN: [&str; 23] = [
    "audio",
    "base_model",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "mock_response",
    "modalities",
    "n",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "response_format",
    "safety_identifier",
    "seed",
    "store",
    "stream_options",
    "top_logprobs",
    "truncation",
    "verbosity",
    "web_search_options",
];

/// The tokens for the answer if reasoning has a budget and no limit is set.
const BESIDE_THINKING: u64 = 4096;

/// Why a parameter is not sent.
const NO_WORD: &str = "the Messages API has no such parameter; remove it";

/// As [`NO_WORD`], for parameters that depend on the model or the value.
const NOT_TAKEN: &str = "the API or the model does not accept this value; remove it";

/// Translates a server's parameters; returns the limit of the answer, and how tools are chosen.
pub fn fit(server: &mut Server, traits: Traits, max_output: Option<u64>) -> (Value, Option<Value>) {
    let kwargs = std::mem::take(&mut server.model_kwargs);
    let mut params = Params {
        report: std::mem::take(&mut server.report),
        ..Params::default()
    };
    params.take(kwargs, traits);
    // Unknown parameters are sent unchanged.
    params.body.extend(std::mem::take(&mut server.extra_body));
    params.settle(traits, max_output);
    server.model_kwargs = params.body;
    server.report = params.report;
    for (from, to) in &params.renamed {
        server.report.renamed(from, to);
    }
    (params.max_tokens, params.tool_choice)
}

/// `model_kwargs`, translated.
#[derive(Default)]
struct Params {
    /// Keys of the body.
    body: Map<String, Value>,
    /// The limit of the answer.
    max_tokens: Value,
    /// How tools are chosen.
    tool_choice: Option<Value>,
    /// Whether several tools may be called at once.
    parallel: Option<bool>,
    /// The effort of reasoning.
    effort: Option<Value>,
    /// The parameters that were left out.
    report: Report,
    /// The parameters with another name in the API.
    renamed: Vec<(String, &'static str)>,
}

impl Params {
    fn take(&mut self, kwargs: Map<String, Value>, traits: Traits) {
        let mut completion_limit = Value::Null;
        for (key, value) in kwargs {
            match (key.as_str(), value) {
                // The adapter sets `stream` itself.
                ("stream" | SWITCH, _) | (_, Value::Null) => {}
                ("max_tokens", value) => self.max_tokens = value,
                ("max_completion_tokens", value) => {
                    completion_limit = value;
                    self.rename(&key, "max_tokens");
                }
                ("stop", value) => {
                    let list = match value {
                        Value::Array(list) => list,
                        one => vec![one],
                    };
                    self.body.insert("stop_sequences".to_owned(), list.into());
                    self.rename(&key, "stop_sequences");
                }
                ("user", user) => {
                    let metadata = self.body.entry("metadata");
                    metadata.or_insert_with(|| json!({ "user_id": user }));
                    self.rename(&key, "metadata.user_id");
                }
                ("metadata", Value::Object(metadata)) => self.take_metadata(metadata),
                ("parallel_tool_calls", Value::Bool(value)) => {
                    self.parallel = Some(value);
                    self.rename(&key, "tool_choice.disable_parallel_tool_use");
                }
                ("tool_choice", value) => self.take_choice(&value, traits.may_be_forced),
                ("reasoning_effort", value) => self.effort = Some(value),
                ("temperature", value) if !traits.samples && value.as_f64() != Some(1.0) => {
                    self.drop(&key);
                }
                ("top_p" | "top_k", _) if !traits.samples => self.drop(&key),
                ("service_tier", value) if value != "auto" && value != "standard_only" => {
                    self.drop(&key);
                }
                (name, _) if UNKNOWN.contains(&name) => self.report.dropped(name, NO_WORD),
                // An unknown parameter may be a new one of the API.
                (_, value) => {
                    self.body.insert(key, value);
                }
            }
        }
        if !completion_limit.is_null() {
            self.max_tokens = completion_limit;
        }
    }

    /// Translates what depends on several parameters.
    fn settle(&mut self, traits: Traits, max_output: Option<u64>) {
        if let Some(effort) = self.effort.take() {
            self.take_effort(&effort, traits.thinking);
        }
        self.fit_thinking(traits);
        if let Some(parallel) = self.parallel {
            self.take_parallel(parallel);
        }
        if self.max_tokens.is_null() {
            let limit = max_output.unwrap_or(traits.max_tokens);
            self.max_tokens = json!(self.budget().map_or(limit, |budget| {
                // A budget alone implies the limit, as in litellm.
                budget.saturating_add(BESIDE_THINKING)
            }));
        }
    }

    fn drop(&mut self, key: &str) {
        self.report.dropped(key, NOT_TAKEN);
    }

    fn rename(&mut self, from: &str, to: &'static str) {
        self.renamed.push((from.to_owned(), to));
    }

    /// The API has one key of metadata; the other keys are for litellm's log.
    fn take_metadata(&mut self, metadata: Map<String, Value>) {
        for (key, value) in metadata {
            if key == "user_id" {
                self.body
                    .insert("metadata".to_owned(), json!({ "user_id": value }));
                self.renamed.retain(|(from, _)| from != "user");
            } else {
                self.drop(&format!("metadata.{key}"));
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
            _ => return self.drop(name),
        };
        let thinking = match thinking {
            Thinking::Unknown => return self.drop(name),
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

    /// Translates `thinking` for a model that does not accept it as it was written.
    fn fit_thinking(&mut self, traits: Traits) {
        let Some(Value::Object(thinking)) = self.body.get_mut("thinking") else {
            return;
        };
        let kind = thinking.get("type").and_then(Value::as_str);
        match (kind, traits.thinking) {
            (Some("disabled"), _) if !traits.may_rest => {
                self.body.shift_remove("thinking");
                self.drop("thinking");
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
            None => self.drop("tool_choice"),
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
}

/// An effort as a budget of tokens; the numbers are litellm's.
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

/// A choice of tools in the API's form; none if it has no counterpart.
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
