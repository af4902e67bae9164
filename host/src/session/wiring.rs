//! Small translations from config values to what the roles take.

use std::time::Duration;

use serde_json::Value;

use super::shell;
use crate::config::{self, Config};
use crate::provider::{self, Rates};
use crate::roles::{Object, Usage};
use crate::run::Pricing;

/// Seconds of the config as a duration; config checks have made sure that they are sane.
pub fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// The prices of the run's model.
pub struct Prices(Rates);

impl Prices {
    /// As the config has them.
    pub fn of(config: &Config) -> Self {
        Self(
            config
                .model
                .price
                .map_or_else(Rates::default, |price| Rates {
                    input: Some(price.input),
                    output: Some(price.output),
                    cache_read: price.cache_read,
                    cache_write: price.cache_write,
                }),
        )
    }
}

impl Pricing for Prices {
    fn cost(&self, usage: &Usage) -> Option<f64> {
        self.0.cost(usage)
    }
}

/// The variables of this process, which templates see as they do in mini-swe-agent, but for those
/// that hold secrets: those of `secrets`, and by their names or their look.
pub fn process_variables(secrets: &[String]) -> Object {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    variables
        .filter(|(name, value)| !secrets.contains(name) && !config::is_secret_entry(name, value))
        .map(|(name, value)| (name, value.into()))
        .collect()
}

/// The provider layer's settings.
pub fn provider_settings(config: &Config) -> provider::Settings {
    let model = &config.model;
    provider::Settings {
        connect_timeout: seconds(model.connect_timeout),
        first_byte_timeout: seconds(model.first_byte_timeout),
        idle_timeout: seconds(model.idle_timeout),
        total_timeout: seconds(model.total_timeout),
        rate_limit_retries: model.rate_limit_retries,
        network_retries: model.network_retries,
        max_response_bytes: model.max_response_bytes,
        ..provider::Settings::standard()
    }
}

/// What templates see from the start: the agent's and the model's settings, the task, and
/// the name of the `shell` that commands are written for. The environment adds its own, and
/// the loop its counters.
pub fn base_variables(config: &Config, task: &str) -> Object {
    let mut base = Object::new();
    let whole = config.redacted();
    for section in ["agent", "model"] {
        if let Some(Value::Object(values)) = whole.get(section) {
            base.extend(values.clone());
        }
    }
    base.insert("task".into(), task.into());
    if config.mini {
        // There the folder is what the config says, also if it says nothing.
        base.insert("cwd".into(), config.environment.cwd.as_str().into());
    }
    let interpreter = shell::interpreter(&config.environment);
    base.insert("shell".into(), shell::name(&interpreter).into());
    base
}
