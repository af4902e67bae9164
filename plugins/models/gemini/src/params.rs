//! Parameters: those of chat completions and Gemini's own, placed where Gemini expects them. The
//! figures for reasoning are those that litellm sends for mini-swe-agent.

use mswea_wire::{Report, Server};
use serde_json::{Map, Value, json};

/// Parameters of chat completions whose value is sent unchanged.
const RENAMED: [(&str, &str); 8] = [
    ("top_p", "topP"),
    ("top_k", "topK"),
    ("max_tokens", "maxOutputTokens"),
    ("max_completion_tokens", "maxOutputTokens"),
    ("frequency_penalty", "frequencyPenalty"),
    ("presence_penalty", "presencePenalty"),
    ("logprobs", "responseLogprobs"),
    ("top_logprobs", "logprobs"),
];

/// Gemini's own parameters in `generationConfig`, in either spelling.
const GENERATION: [&str; 18] = [
    "temperature",
    "topP",
    "topK",
    "seed",
    "maxOutputTokens",
    "stopSequences",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "responseModalities",
    "responseLogprobs",
    "presencePenalty",
    "frequencyPenalty",
    "enableEnhancedCivicAnswers",
    "speechConfig",
    "thinkingConfig",
    "imageConfig",
    "mediaResolution",
];

/// Gemini's own parameters outside of it.
const TOP: [&str; 8] = [
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "safetySettings",
    "cachedContent",
    "labels",
    "serviceTier",
];

const UNKNOWN: &str = "Gemini does not know it; write it into `extra_body` if this server does";

/// Translates the parameters to keys of the body.
pub fn fit(server: &mut Server) {
    let kwargs = std::mem::take(&mut server.model_kwargs);
    let model = &server.model;
    let report = &mut server.report;
    let mut top = Map::new();
    let mut generation = Map::new();
    let mut thinking = Map::new();
    for (key, value) in kwargs {
        if value.is_null() {
            continue;
        }
        let own = camel(&key);
        match (key.as_str(), value) {
            ("stream" | "model", _) => {}
            ("generationConfig" | "generation_config", Value::Object(own)) => {
                generation.extend(own);
            }
            ("stop", value) => {
                report.renamed("stop", "generationConfig.stopSequences");
                let list = if value.is_array() {
                    value
                } else {
                    json!([value])
                };
                generation.insert("stopSequences".to_owned(), list);
            }
            ("n" | "candidateCount" | "candidate_count", value) => {
                if value != 1 {
                    report.dropped(&key, "the adapter reads one answer");
                }
            }
            ("reasoning_effort", value) => {
                report.renamed("reasoning_effort", "generationConfig.thinkingConfig");
                let effort = value.get("effort").unwrap_or(&value);
                thinking.extend(of_effort(
                    model,
                    effort.as_str().unwrap_or_default(),
                    report,
                ));
            }
            ("thinking", value) => {
                report.renamed("thinking", "generationConfig.thinkingConfig");
                thinking.extend(of_thinking(model, &value));
            }
            ("response_format", value) => of_response_format(&value, &mut generation, report),
            ("modalities", Value::Array(list)) => {
                report.renamed("modalities", "generationConfig.responseModalities");
                let upper = list.iter().filter_map(Value::as_str);
                let upper = upper.map(|word| json!(word.to_ascii_uppercase()));
                generation.insert("responseModalities".to_owned(), upper.collect());
            }
            ("tool_choice", value) => match of_tool_choice(&value) {
                Some(config) => {
                    report.renamed("tool_choice", "toolConfig");
                    top.insert("toolConfig".to_owned(), config);
                }
                None => report.dropped("tool_choice", "Gemini has no such choice"),
            },
            ("frequency_penalty" | "presence_penalty", _) if is_third(model) => {
                report.dropped(&key, &format!("`{model}` takes none"));
            }
            (name, value) => {
                let renamed = RENAMED.iter().find(|(word, _)| *word == name);
                if let Some((_, to)) = renamed {
                    report.renamed(&key, &format!("generationConfig.{to}"));
                    generation.insert((*to).to_owned(), value);
                } else if GENERATION.contains(&own.as_str()) {
                    generation.insert(own, value);
                } else if TOP.contains(&own.as_str()) {
                    top.insert(own, value);
                } else {
                    report.dropped(&key, UNKNOWN);
                }
            }
        }
    }
    if !thinking.is_empty() && !generation.contains_key("thinkingConfig") {
        generation.insert("thinkingConfig".to_owned(), Value::Object(thinking));
    }
    if !generation.is_empty() {
        top.insert("generationConfig".to_owned(), Value::Object(generation));
    }
    server.model_kwargs = top;
}

/// Google's APIs accept both spellings; the body has one, so that no key is there twice.
fn camel(key: &str) -> String {
    let mut words = key.split('_');
    let mut out = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        out.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        out.push_str(letters.as_str());
    }
    out
}

/// Whether a model is of the third generation or a later one, by its name.
pub fn is_third(model: &str) -> bool {
    let version = model.rsplit('/').next().unwrap_or(model);
    let version = version.strip_prefix("gemini-").unwrap_or_default();
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<u32>().is_ok_and(|version| version >= 3)
}

fn of_effort(model: &str, effort: &str, report: &mut Report) -> Map<String, Value> {
    let is_off = matches!(effort, "none" | "disable");
    let mut out = Map::new();
    if is_third(model) {
        let level = match effort {
            "minimal" if model.contains("flash") => "minimal",
            "medium" => "medium",
            "high" | "xhigh" | "max" => "high",
            _ => "low",
        };
        out.insert("thinkingLevel".to_owned(), json!(level));
    } else {
        let budget = match effort {
            "none" | "disable" => 0,
            "minimal" if model.contains("flash-lite") => 512,
            "minimal" if model.contains("flash") => 1,
            "minimal" => 128,
            "medium" => 2048,
            "high" | "xhigh" | "max" => 4096,
            _ => 1024,
        };
        out.insert("thinkingBudget".to_owned(), json!(budget));
    }
    if !["none", "disable", "minimal", "low", "medium", "high"].contains(&effort) {
        let meant = if matches!(effort, "xhigh" | "max") {
            "high"
        } else {
            "low"
        };
        report.renamed("reasoning_effort", &format!("reasoning_effort: {meant}"));
    }
    out.insert("includeThoughts".to_owned(), json!(!is_off));
    out
}

fn of_thinking(model: &str, thinking: &Value) -> Map<String, Value> {
    let is_on = thinking.get("type").is_none_or(|kind| kind != "disabled");
    let mut out = Map::new();
    out.insert("includeThoughts".to_owned(), json!(is_on));
    let budget = thinking.get("budget_tokens").filter(|_| is_on);
    // The third generation has levels instead of budgets.
    match budget {
        Some(budget) if !is_third(model) => {
            out.insert("thinkingBudget".to_owned(), budget.clone());
        }
        None if !is_on && !is_third(model) => {
            out.insert("thinkingBudget".to_owned(), json!(0));
        }
        _ => {}
    }
    out
}

fn of_response_format(format: &Value, generation: &mut Map<String, Value>, report: &mut Report) {
    let schema = format.pointer("/json_schema/schema");
    match format.get("type").and_then(Value::as_str) {
        Some("text") => {}
        Some("json_object" | "json_schema") => {
            report.renamed("response_format", "generationConfig.responseMimeType");
            generation.insert("responseMimeType".to_owned(), json!("application/json"));
            if let Some(schema) = schema {
                generation.insert("responseJsonSchema".to_owned(), schema.clone());
            }
        }
        _ => report.dropped("response_format", "Gemini has no such format"),
    }
}

fn of_tool_choice(choice: &Value) -> Option<Value> {
    let mode = match choice.as_str() {
        Some("auto") => "AUTO",
        Some("none") => "NONE",
        Some("required" | "any") => "ANY",
        Some(_) => return None,
        None => {
            let name = choice.pointer("/function/name")?;
            return Some(json!({ "functionCallingConfig":
                { "mode": "ANY", "allowedFunctionNames": [name] } }));
        }
    };
    Some(json!({ "functionCallingConfig": { "mode": mode } }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DEFAULTS;
    use mswea_wire::Table;

    fn fitted(model: &str, kwargs: Value) -> (Value, String) {
        let config = json!({"model": model, "model_kwargs": kwargs});
        let mut server = Server::take(&mut Table::new(config).unwrap(), &DEFAULTS).unwrap();
        fit(&mut server);
        let body = Value::Object(server.model_kwargs);
        (body, server.report.notes().join("\n"))
    }

    #[test]
    fn parameters_get_geminis_names_and_places() {
        let two = "gemini-2.5-pro";
        let three = "gemini-3-pro-preview";
        // model, parameters, expected body, expected words of the report
        let vectors = [
            (
                two,
                json!({"temperature": 0.0, "seed": 1}),
                json!({"generationConfig": {"temperature": 0.0, "seed": 1}}),
                "",
            ),
            (
                two,
                json!({"max_tokens": 77}),
                json!({"generationConfig": {"maxOutputTokens": 77}}),
                "maxOutputTokens",
            ),
            (
                two,
                json!({"max_completion_tokens": 9}),
                json!({"generationConfig": {"maxOutputTokens": 9}}),
                "maxOutputTokens",
            ),
            (
                two,
                json!({"top_p": 0.5, "top_k": 3}),
                json!({"generationConfig": {"topP": 0.5, "topK": 3}}),
                "topP",
            ),
            (
                two,
                json!({"stop": "x"}),
                json!({"generationConfig": {"stopSequences": ["x"]}}),
                "stopSequences",
            ),
            (
                two,
                json!({"stop": ["x", "y"]}),
                json!({"generationConfig": {"stopSequences": ["x", "y"]}}),
                "stopSequences",
            ),
            (two, json!({"n": 1}), json!({}), ""),
            (
                two,
                json!({"n": 2}),
                json!({}),
                "`model.model_kwargs.n` is not sent",
            ),
            (
                two,
                json!({"logprobs": true, "top_logprobs": 2}),
                json!({"generationConfig": {"responseLogprobs": true, "logprobs": 2}}),
                "logprobs",
            ),
            (
                two,
                json!({"presence_penalty": 1}),
                json!({"generationConfig": {"presencePenalty": 1}}),
                "presencePenalty",
            ),
            (
                three,
                json!({"presence_penalty": 1}),
                json!({}),
                "takes none",
            ),
            (
                two,
                json!({"response_format": {"type": "json_object"}}),
                json!({"generationConfig": {"responseMimeType": "application/json"}}),
                "responseMimeType",
            ),
            (
                two,
                json!({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}}),
                json!({"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}}}),
                "",
            ),
            (
                two,
                json!({"response_format": {"type": "text"}}),
                json!({}),
                "",
            ),
            (
                two,
                json!({"tool_choice": "required"}),
                json!({"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}),
                "toolConfig",
            ),
            (
                two,
                json!({"tool_choice": {"type": "function", "function": {"name": "bash"}}}),
                json!({"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["bash"]}}}),
                "",
            ),
            (two, json!({"tool_choice": "odd"}), json!({}), "tool_choice"),
            (
                two,
                json!({"safety_settings": [{"category": "a"}]}),
                json!({"safetySettings": [{"category": "a"}]}),
                "",
            ),
            (
                two,
                json!({"cachedContent": "c"}),
                json!({"cachedContent": "c"}),
                "",
            ),
            (
                two,
                json!({"generationConfig": {"topK": 3}, "seed": 1}),
                json!({"generationConfig": {"topK": 3, "seed": 1}}),
                "",
            ),
            (
                two,
                json!({"modalities": ["text"]}),
                json!({"generationConfig": {"responseModalities": ["TEXT"]}}),
                "",
            ),
            (
                two,
                json!({"thinkingConfig": {"thinkingBudget": 3}, "reasoning_effort": "low"}),
                json!({"generationConfig": {"thinkingConfig": {"thinkingBudget": 3}}}),
                "",
            ),
            (
                two,
                json!({"thinking": {"type": "enabled", "budget_tokens": 5}}),
                json!({"generationConfig": {"thinkingConfig": {"includeThoughts": true, "thinkingBudget": 5}}}),
                "",
            ),
            (
                two,
                json!({"thinking": {"type": "disabled"}}),
                json!({"generationConfig": {"thinkingConfig": {"includeThoughts": false, "thinkingBudget": 0}}}),
                "",
            ),
            (
                three,
                json!({"thinking": {"type": "enabled", "budget_tokens": 5}}),
                json!({"generationConfig": {"thinkingConfig": {"includeThoughts": true}}}),
                "",
            ),
            (
                two,
                json!({"verbosity": "low", "user": "u", "parallel_tool_calls": false, "zzz": null}),
                json!({}),
                "parallel_tool_calls",
            ),
            (
                two,
                json!({"drop_params": true, "stream": false, "extra_body": {"zzz": 3}}),
                json!({}),
                "",
            ),
        ];
        for (model, kwargs, expected, words) in vectors {
            let (body, report) = fitted(model, kwargs.clone());
            assert_eq!(body, expected, "{kwargs}");
            assert!(report.contains(words), "{kwargs}: {report}");
        }
    }

    #[test]
    fn efforts_become_budgets_or_levels() {
        let budget =
            |budget: u32, shown: bool| json!({"thinkingBudget": budget, "includeThoughts": shown});
        let level =
            |level: &str, shown: bool| json!({"thinkingLevel": level, "includeThoughts": shown});
        for (model, effort, expected) in [
            ("gemini-2.5-pro", "none", budget(0, false)),
            ("gemini-2.5-pro", "disable", budget(0, false)),
            ("gemini-2.5-pro", "minimal", budget(128, true)),
            ("gemini-2.5-pro", "low", budget(1024, true)),
            ("gemini-2.5-pro", "medium", budget(2048, true)),
            ("gemini-2.5-pro", "high", budget(4096, true)),
            ("gemini-2.5-pro", "xhigh", budget(4096, true)),
            ("gemini-2.5-flash", "minimal", budget(1, true)),
            ("gemini-2.5-flash-lite", "minimal", budget(512, true)),
            ("gemini-3-pro-preview", "none", level("low", false)),
            ("gemini-3-pro-preview", "minimal", level("low", true)),
            ("gemini-3-flash-preview", "minimal", level("minimal", true)),
            ("gemini-3-pro-preview", "low", level("low", true)),
            ("gemini-3-pro-preview", "medium", level("medium", true)),
            ("gemini-3-pro-preview", "high", level("high", true)),
        ] {
            let (body, report) = fitted(model, json!({"reasoning_effort": effort}));
            assert_eq!(
                body["generationConfig"]["thinkingConfig"], expected,
                "{model} {effort}"
            );
            assert_eq!(report.contains("effort: high"), effort == "xhigh");
        }
    }

    #[test]
    fn generations_are_told_by_name() {
        for (model, expected) in [
            ("gemini-3-pro-preview", true),
            ("gemini-3.1-flash", true),
            ("x/gemini-10-pro", true),
            ("gemini-2.5-pro", false),
            ("gemini-flash-latest", false),
            ("gemma-3-27b", false),
        ] {
            assert_eq!(is_third(model), expected, "{model}");
        }
    }
}
