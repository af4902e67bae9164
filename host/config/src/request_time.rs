//! How long a request may take: from the keys of `[model]`, else from litellm's parameters in
//! `model_kwargs`, else the defaults.

use serde_json::Value;

use super::error::{ConfigProblem, ProblemKind};
use super::keys::MAX_SECONDS;
use super::layers::Layers;
use super::node::Node;
use super::sections::ModelConfig;

/// A limit in seconds, and the key that sets it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeLimit {
    /// The limit.
    pub seconds: f64,
    /// The whole path of the key.
    pub key: &'static str,
}

/// The limits of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestTimes {
    /// Until the response begins; none: limited only by `total`.
    pub first_byte: Option<TimeLimit>,
    /// A pause within the response; none: limited only by `total`.
    pub idle: Option<TimeLimit>,
    /// The whole request.
    pub total: TimeLimit,
}

/// The limit of a request if none is set, as in litellm.
const USUAL: TimeLimit = TimeLimit {
    seconds: 600.0,
    key: "model.total_timeout",
};

/// litellm's parameters for the whole request, each with the path that messages name. The first one
/// that is set counts.
const WHOLE: [(&str, &str); 2] = [
    ("timeout", "model.model_kwargs.timeout"),
    ("request_timeout", "model.model_kwargs.request_timeout"),
];
const STREAM: (&str, &str) = ("stream_timeout", "model.model_kwargs.stream_timeout");

impl RequestTimes {
    /// The limits of a model.
    #[must_use]
    pub fn of(model: &ModelConfig) -> Self {
        let given = |(name, key): (&str, &'static str)| {
            let seconds = seconds(model.model_kwargs.get(name)?).ok().flatten()?;
            Some(TimeLimit { seconds, key })
        };
        let own = |seconds: Option<f64>, key| {
            Some(TimeLimit {
                seconds: seconds?,
                key,
            })
        };
        let whole = WHOLE.into_iter().find_map(given);
        // litellm limits the pauses before and within a response: a response without long pauses
        // may take any time.
        let silence = given(STREAM).filter(|_| model.stream).or(whole);
        let longest = whole.filter(|whole| whole.seconds > USUAL.seconds);
        Self {
            first_byte: own(model.first_byte_timeout, "model.first_byte_timeout").or(silence),
            idle: own(model.idle_timeout, "model.idle_timeout").or(silence),
            total: own(model.total_timeout, USUAL.key)
                .or(longest)
                .unwrap_or(USUAL),
        }
    }
}

/// A time as litellm reads it: a number, or a text that is a number; none for null and 0, which
/// mean "not set".
fn seconds(value: &Value) -> Result<Option<f64>, ()> {
    let seconds = match value {
        Value::Null => return Ok(None),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    match seconds {
        Some(0.0) => Ok(None),
        Some(seconds) if seconds > 0.0 => Ok(Some(seconds.min(MAX_SECONDS))),
        _ => Err(()),
    }
}

/// The errors for litellm's parameters whose values are no times.
pub(super) fn problems(layers: &Layers) -> Vec<ConfigProblem> {
    let problems = WHOLE.into_iter().chain([STREAM]).filter_map(|(name, key)| {
        let path = ["model", "model_kwargs", name];
        let value = layers.merged.get(&path).map(Node::to_value)?;
        seconds(&value).err()?;
        let problem = ConfigProblem::new(
            ProblemKind::WrongValue,
            format!("`{key}` must be a time in seconds, not `{value}`"),
        )
        .key(key)
        .hint("write a number: `3600` for an hour");
        Some(match layers.merged.origin_of(&path) {
            Some(origin) => problem.at(origin, name.len(), &layers.files),
            None => problem,
        })
    });
    problems.collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::Memory;
    use super::*;

    fn limit(seconds: f64, key: &'static str) -> TimeLimit {
        TimeLimit { seconds, key }
    }

    #[test]
    fn litellm_s_parameters_set_the_limits_and_ours_win() {
        let kwarg = |name: &str| format!("model.model_kwargs.{name}");
        let timeout = "model.model_kwargs.timeout";
        let request = "model.model_kwargs.request_timeout";
        let stream = "model.model_kwargs.stream_timeout";
        for (specs, first_byte, idle, total) in [
            (vec![], None, None, USUAL),
            (
                vec![format!("{}=3600", kwarg("timeout"))],
                Some(limit(3600.0, timeout)),
                Some(limit(3600.0, timeout)),
                limit(3600.0, timeout),
            ),
            (
                vec![format!("{}=\"60\"", kwarg("timeout"))],
                Some(limit(60.0, timeout)),
                Some(limit(60.0, timeout)),
                USUAL,
            ),
            (
                vec![
                    format!("{}=null", kwarg("timeout")),
                    format!("{}=900", kwarg("request_timeout")),
                ],
                Some(limit(900.0, request)),
                Some(limit(900.0, request)),
                limit(900.0, request),
            ),
            (
                vec![
                    format!("{}=20", kwarg("timeout")),
                    format!("{}=900", kwarg("request_timeout")),
                ],
                Some(limit(20.0, timeout)),
                Some(limit(20.0, timeout)),
                USUAL,
            ),
            (
                vec![
                    format!("{}=1e30", kwarg("timeout")),
                    format!("{}=30", kwarg("stream_timeout")),
                ],
                Some(limit(30.0, stream)),
                Some(limit(30.0, stream)),
                limit(MAX_SECONDS, timeout),
            ),
            (
                vec![
                    "model.stream=false".to_owned(),
                    format!("{}=30", kwarg("stream_timeout")),
                ],
                None,
                None,
                USUAL,
            ),
            (
                vec![
                    format!("{}=3600", kwarg("timeout")),
                    "model.total_timeout=100".to_owned(),
                    "model.first_byte_timeout=7".to_owned(),
                    "model.idle_timeout=8".to_owned(),
                ],
                Some(limit(7.0, "model.first_byte_timeout")),
                Some(limit(8.0, "model.idle_timeout")),
                limit(100.0, "model.total_timeout"),
            ),
            (
                vec!["model.total_timeout=3600".to_owned()],
                None,
                None,
                limit(3600.0, "model.total_timeout"),
            ),
        ] {
            let refs: Vec<&str> = specs.iter().map(String::as_str).collect();
            let config = Memory::new().resolve(&refs).unwrap();
            let expected = RequestTimes {
                first_byte,
                idle,
                total,
            };
            assert_eq!(RequestTimes::of(&config.model), expected, "{specs:?}");
        }
    }

    #[test]
    fn what_is_no_time_is_told() {
        for (name, value) in [
            ("timeout", "\"soon\""),
            ("timeout", "-1"),
            ("request_timeout", "[1]"),
            ("stream_timeout", "true"),
        ] {
            let spec = format!("model.model_kwargs.{name}={value}");
            let text = Memory::new().resolve(&[&spec]).unwrap_err().to_string();
            for part in [
                &*format!("`model.model_kwargs.{name}`"),
                "seconds",
                "-c model",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }
}
