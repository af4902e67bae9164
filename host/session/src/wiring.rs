//! Small conversions from config values to the settings of the roles.

use std::time::Duration;

use serde_json::Value;

use super::shell;
use mswea_config::{Config, ModelChoice, RequestTimes, TimeLimit};
use mswea_core::Object;
use mswea_provider::price::{self, PriceError, PriceSources, UnknownPrice};
use mswea_provider::{PriceQuery, Prices, Rates};
use mswea_secrecy as secrecy;

/// Seconds of the config as a duration; the config was checked, so the number is valid.
pub fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// The prices of the run's model, and warnings for the user.
///
/// # Errors
/// [`PriceError`] if a price file that the user named or wrote can't be used.
pub fn prices(config: &Config, choice: &ModelChoice) -> Result<(Prices, Vec<String>), PriceError> {
    let model = &config.model;
    let sources = PriceSources {
        rates: model.price.map(|price| Rates {
            input: Some(price.input),
            output: Some(price.output),
            cache_read: price.cache_read,
            cache_write: price.cache_write,
        }),
        registry: model.litellm_model_registry.as_ref().map(Into::into),
        table: price::updated_table(|name| secrecy::var(name).map(Into::into)),
    };
    let listed_as = choice.listed_as.as_deref();
    let typed = model.model_name.as_deref().unwrap_or_default();
    let wanted = match &model.litellm_model_name_override {
        Some(name) if !name.is_empty() => PriceQuery::new(None, name),
        _ => PriceQuery::new(listed_as, &choice.model).also(typed),
    };
    let found = sources.find(&wanted)?;
    let quote = found.quote;
    Ok((Prices { quote }, found.warnings))
}

/// Checks, before anything is paid, that the cost limit can be enforced.
///
/// # Errors
/// [`UnknownPrice`] if there is a limit and no price, unless the config allows this.
pub fn check_price(
    config: &Config,
    choice: &ModelChoice,
    prices: &Prices,
) -> Result<(), UnknownPrice> {
    let limit = config.agent.cost_limit;
    let ignored = config.model.cost_tracking == "ignore_errors";
    if prices.quote.is_some() || limit <= 0.0 || ignored {
        return Ok(());
    }
    // For these models the replies have the price, or they cost nothing. The loop warns if a reply
    // has no price.
    if choice.reports_cost || choice.self_hosted {
        return Ok(());
    }
    Err(UnknownPrice {
        model: config.model.model_name.clone().unwrap_or_default(),
        limit,
    })
}

/// Whether the config is for a class of mini-swe-agent that uses the Responses API.
pub fn speaks_responses(config: &Config) -> bool {
    let class = config.model.model_class.as_deref();
    class
        .and_then(mswea_config::model_class)
        .is_some_and(|class| class.responses)
}

/// The variables of this process, which templates get as in mini-swe-agent, except secrets: those
/// in `secrets`, and those that look like secrets by their name or their value.
pub fn process_variables(secrets: &[String]) -> Object {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    variables
        .filter(|(name, value)| {
            !secrets.contains(name) && !mswea_config::is_secret_entry(name, value)
        })
        .map(|(name, value)| (name, value.into()))
        .collect()
}

/// The settings of the provider layer. `is_patient` is true if the user has set the number of
/// retries.
pub fn provider_settings(config: &Config, is_patient: bool) -> mswea_provider::RequestSettings {
    let model = &config.model;
    let times = RequestTimes::of(model);
    let limit = |limit: TimeLimit| mswea_provider::Limit {
        time: seconds(limit.seconds),
        key: limit.key,
    };
    mswea_provider::RequestSettings {
        connect_timeout: seconds(model.connect_timeout),
        first_byte_timeout: times.first_byte.map(limit),
        idle_timeout: times.idle.map(limit),
        total_timeout: limit(times.total),
        rate_limit_retries: model.rate_limit_retries,
        network_retries: model.network_retries,
        is_patient,
        retry_wait: seconds(model.retry_wait),
        max_response_bytes: model.max_response_bytes,
        ..mswea_provider::RequestSettings::standard()
    }
}

/// The first variables of templates: the settings of the agent and the model in a config without
/// secrets.
pub fn config_variables(redacted: &Value) -> Object {
    let sections = ["agent", "model"].into_iter();
    let values = sections.filter_map(|section| redacted.get(section)?.as_object());
    values
        .flatten()
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// The variables that take precedence over those of the config: the task, the name of the `shell`
/// of commands, and whether all commands share one (`shared_shell`). The environment adds its own
/// variables, and the loop its counters.
pub fn base_variables(config: &Config, task: &str) -> Object {
    let mut base = Object::new();
    base.insert("task".into(), task.into());
    if config.mini {
        // mini-swe-agent takes the folder from the config, also if it is empty.
        base.insert("cwd".into(), config.environment.cwd.as_str().into());
    }
    let interpreter = shell::interpreter(&config.environment);
    base.insert("shell".into(), shell::name(&interpreter).into());
    base.insert("shared_shell".into(), config.environment.session.into());
    base
}

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_config::{Layers, ProcessEnvironment, Sources, resolve_model};

    fn config(specs: &[&str]) -> Config {
        let sources = Sources {
            configs: specs.iter().map(|spec| (*spec).to_owned()).collect(),
            ..Sources::default()
        };
        let layers = Layers::load(&sources, &ProcessEnvironment).unwrap();
        layers.resolve().unwrap()
    }

    /// The settings of the executor and of requests have defaults for programs that use these crates.
    #[test]
    fn a_default_that_stands_twice_is_the_same() {
        let config = config(&[]);
        let (environment, model) = (&config.environment, &config.model);
        let container = mswea_executor::ContainerSettings::default();
        let stream = mswea_executor::StreamSettings::default();
        let local = mswea_executor::LocalSettings::default();
        let request = mswea_provider::RequestSettings::standard();
        let pairs: [(f64, f64); 8] = [
            (local.timeout.as_secs_f64(), environment.timeout),
            (container.timeout.as_secs_f64(), environment.timeout),
            (stream.timeout.as_secs_f64(), environment.timeout),
            (
                container.pull_timeout.as_secs_f64(),
                environment.pull_timeout,
            ),
            (
                container.start_timeout.as_secs_f64(),
                environment.start_timeout,
            ),
            (request.connect_timeout.as_secs_f64(), model.connect_timeout),
            (
                request.rate_limit_retries.into(),
                model.rate_limit_retries.into(),
            ),
            (request.network_retries.into(), model.network_retries.into()),
        ];
        for (ours, configured) in pairs {
            assert!((ours - configured).abs() < 1e-9, "{ours} and {configured}");
        }
        let captures = [
            local.capture_bytes,
            container.capture_bytes,
            stream.capture_bytes,
        ];
        let configured = usize::try_from(environment.capture_bytes).unwrap();
        assert_eq!(captures, [configured; 3]);
        assert_eq!(container.run_args, environment.run_args);
        assert_eq!(container.container_timeout, environment.container_timeout);
    }

    #[test]
    fn a_limit_that_cannot_be_kept_is_told_before_anything_is_paid() {
        let unknown = "model.model_name=openai/no-such-model";
        for (specs, known, refused) in [
            (&["model.model_name=openai/gpt-5"][..], true, false),
            (
                &["model.model_name=claude-sonnet-4-5-20250929"],
                true,
                false,
            ),
            (&[unknown], false, true),
            (&[unknown, "agent.cost_limit=0"], false, false),
            (
                &[unknown, "model.cost_tracking=ignore_errors"],
                false,
                false,
            ),
            (
                &[unknown, "model.price={\"input\": 1, \"output\": 2}"],
                true,
                false,
            ),
            (
                &[unknown, "model.price={\"input\": 0, \"output\": 0}"],
                true,
                false,
            ),
            (
                &[unknown, "model.litellm_model_name_override=gpt-5"],
                true,
                false,
            ),
            (
                &["model.model_name=azure/mine", "model.base_url=http://h"],
                false,
                true,
            ),
            // replies with a price, and models without cost
            (&["model.model_name=openrouter/a/b"], false, false),
            (
                &["model.model_name=local/m", "model.base_url=http://h"],
                false,
                false,
            ),
            (&["model.model_name=replay/a.json"], false, false),
        ] {
            let config = config(specs);
            let choice = resolve_model(&config).unwrap();
            let (prices, warnings) = prices(&config, &choice).unwrap();
            assert_eq!(prices.quote.is_some(), known, "{specs:?}");
            assert_eq!(warnings, Vec::<String>::new());
            let checked = check_price(&config, &choice, &prices);
            assert_eq!(checked.is_err(), refused, "{specs:?}");
            if let Err(error) = checked {
                let text = error.to_string();
                for part in [
                    "is unknown",
                    "limit of $3 ",
                    "--price",
                    "`ignore_errors`",
                    "-l 0",
                ] {
                    assert!(text.contains(part), "{text}");
                }
            }
        }
    }
}
