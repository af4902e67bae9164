//! Parameters that are not sent as they were written: settings of litellm's client in a config of
//! mini-swe-agent, and parameters that a wire format does not have.

use mswea_sdk::host::{self, Level};
use mswea_sdk::types::PluginError;
use serde_json::{Map, Value, json};

use crate::config::invalid;

/// The parameters that are left out or renamed, for messages to the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    notes: Vec<(Level, String)>,
    dropped: Vec<String>,
}

impl Report {
    /// Reports a parameter that is left out; `remedy` contains the reason and the remedy.
    pub fn dropped(&mut self, key: &str, remedy: &str) {
        let note = format!("`model.model_kwargs.{key}` is not sent: {remedy}");
        self.notes.push((Level::Warn, note));
        self.dropped.push(key.to_owned());
    }

    /// Reports a parameter that is sent under another name or with another value.
    pub fn renamed(&mut self, key: &str, to: &str) {
        let note = format!("`model.model_kwargs.{key}` is sent as `{to}`");
        self.notes.push((Level::Info, note));
    }

    /// One sentence for each parameter.
    pub fn notes(&self) -> Vec<&str> {
        self.notes.iter().map(|(_, note)| &**note).collect()
    }

    /// The report for a reply's `extra`.
    pub fn extra(&self) -> Option<String> {
        let extra = json!({ "dropped_params": self.dropped });
        (!self.dropped.is_empty()).then(|| extra.to_string())
    }

    /// Logs the report: parameters that are left out as warnings, renamed ones not, because they
    /// have their effect.
    pub fn log(&self) {
        for (level, note) in &self.notes {
            host::log(*level, note);
        }
    }
}

/// The parts of litellm's own parameters that are sent outside the body.
#[derive(Debug, Default)]
pub struct Foreign {
    /// Headers: `extra_headers`, `headers`.
    pub headers: Vec<(String, String)>,
    /// Query parameters: `extra_query`, `api_version`.
    pub query: Vec<(String, String)>,
    /// Keys of the body that the format does not check: `extra_body`.
    pub body: Map<String, Value>,
    /// Whether parameters that the model does not accept are left out.
    pub drop_params: bool,
}

/// Settings of litellm's client, and this host's settings in their place.
const CLIENT: [(&str, &str); 11] = [
    ("timeout", "set `model.total_timeout` instead"),
    ("request_timeout", "set `model.total_timeout` instead"),
    ("stream_timeout", "set `model.idle_timeout` instead"),
    ("num_retries", "set `model.network_retries` instead"),
    ("max_retries", "set `model.network_retries` instead"),
    (
        "custom_llm_provider",
        "the prefix of `model.model_name` selects the provider",
    ),
    (
        "allowed_openai_params",
        "write parameters that must be sent in any case into `extra_body`",
    ),
    ("cache", "answers are not cached"),
    ("caching", "answers are not cached"),
    ("fallbacks", "there is one model per run"),
    ("model_info", "set `model.price` for a model's price"),
];

/// Takes litellm's own parameters out of the model's.
///
/// # Errors
/// `invalid-config` if a value that must be a table is none.
pub fn take_foreign(
    kwargs: &mut Map<String, Value>,
    report: &mut Report,
) -> Result<Foreign, PluginError> {
    let mut foreign = Foreign::default();
    if let Some(drop_params) = kwargs.shift_remove("drop_params") {
        foreign.drop_params = drop_params == true;
    }
    for key in ["headers", "extra_headers"] {
        for (name, value) in take_object(kwargs, key)? {
            foreign
                .headers
                .push((name.to_ascii_lowercase(), words(&value)));
        }
    }
    for (name, value) in take_object(kwargs, "extra_query")? {
        foreign.query.push((name, words(&value)));
    }
    if let Some(version) = kwargs.shift_remove("api_version")
        && !version.is_null()
    {
        let version = ("api-version".to_owned(), words(&version));
        foreign.query.push(version);
    }
    foreign.body = take_object(kwargs, "extra_body")?;
    for (key, remedy) in CLIENT {
        if kwargs.shift_remove(key).is_some() {
            report.dropped(key, remedy);
        }
    }
    if let Some(unwanted) = kwargs.shift_remove("additional_drop_params") {
        for key in unwanted.as_array().into_iter().flatten() {
            kwargs.shift_remove(key.as_str().unwrap_or_default());
        }
    }
    Ok(foreign)
}

fn take_object(
    kwargs: &mut Map<String, Value>,
    key: &str,
) -> Result<Map<String, Value>, PluginError> {
    match kwargs.shift_remove(key) {
        Some(Value::Object(keys)) => Ok(keys),
        None | Some(Value::Null) => Ok(Map::new()),
        Some(_) => Err(invalid(
            &format!("/model_kwargs/{key}"),
            format!("`model.model_kwargs.{key}` is no table; write names and values into it"),
        )),
    }
}

/// A value in a header or a query.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn litellms_own_parameters_are_taken_and_the_models_stay() {
        let Value::Object(mut kwargs) = json!({
            "drop_params": true, "temperature": 0, "timeout": 60, "seed": 3,
            "extra_headers": {"X-A": "1"}, "headers": {"X-B": 2}, "extra_query": {"q": "a"},
            "api_version": "2025-01-01", "extra_body": {"top_k": 4},
            "additional_drop_params": ["seed"], "metadata": {"a": "b"},
        }) else {
            unreachable!()
        };
        let mut report = Report::default();
        let foreign = take_foreign(&mut kwargs, &mut report).unwrap();
        assert_eq!(
            Value::Object(kwargs),
            json!({"temperature": 0, "metadata": {"a": "b"}})
        );
        assert!(foreign.drop_params);
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(foreign.headers, [pair("x-b", "2"), pair("x-a", "1")]);
        assert_eq!(
            foreign.query,
            [pair("q", "a"), pair("api-version", "2025-01-01")]
        );
        assert_eq!(Value::Object(foreign.body), json!({"top_k": 4}));
        assert_eq!(
            report.notes(),
            ["`model.model_kwargs.timeout` is not sent: set `model.total_timeout` instead"]
        );
        assert_eq!(
            report.extra().as_deref(),
            Some(r#"{"dropped_params":["timeout"]}"#)
        );
        assert_eq!(Report::default().extra(), None);
        report.log();
        assert_eq!(mswea_sdk::testing::take_log().len(), 1);
    }
}
