//! Hints for keys that do not exist: misspelt, in another section, or of another kind.

use mswea_text::nearest;

use super::keys::{Found, KEYS, find};

/// Parameters that users put beside `model_kwargs` instead of into it.
const REQUEST_PARAMETERS: &[&str] = &[
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "seed",
    "stop",
    "reasoning_effort",
    "parallel_tool_calls",
    "drop_params",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "service_tier",
    "thinking",
    "verbosity",
];

/// The hint for an unknown key.
pub(super) fn for_key(path: &[&str]) -> Option<String> {
    let (last, parents) = path.split_last()?;
    if parents.first().is_none_or(|section| *section == "model")
        && REQUEST_PARAMETERS.contains(last)
    {
        return Some(format!(
            "parameters of the request belong under `model.model_kwargs`: `model.model_kwargs.{last}`"
        ));
    }
    if *last == "api_key" {
        return Some(
            "a config must not hold API keys: put the key into an environment variable or \
             `model.secrets_file`, and its name into `model.api_key_env`"
                .to_owned(),
        );
    }
    // Names that the user chose stay in the suggestion.
    let named = |segments: Vec<&str>| -> String {
        segments
            .iter()
            .enumerate()
            .map(|(index, segment)| match path.get(index) {
                Some(own) if *segment == "*" => own,
                _ => *segment,
            })
            .collect::<Vec<_>>()
            .join(".")
    };
    let siblings = siblings(parents);
    if let Some(sibling) = nearest(last, siblings.iter().copied()) {
        let mut segments = parents.to_vec();
        segments.push(sibling);
        return Some(format!("did you mean `{}`?", segments.join(".")));
    }
    let elsewhere = KEYS
        .iter()
        .find(|key| key.path.rsplit('.').next() == Some(*last) && !key.path.contains('*'));
    if let Some(key) = elsewhere {
        return Some(format!("did you mean `{}`?", key.path));
    }
    let dotted = path.join(".");
    let all: Vec<String> = KEYS
        .iter()
        .map(|key| named(key.segments().collect()))
        .collect();
    if let Some(key) = nearest(&dotted, all.iter().map(String::as_str)) {
        return Some(format!("did you mean `{key}`?"));
    }
    if siblings.is_empty() || siblings.contains(&"*") {
        return None;
    }
    let list: Vec<_> = siblings.iter().map(|name| format!("`{name}`")).collect();
    let place = match parents {
        [] => "the sections are".to_owned(),
        _ => format!("`{}` has", parents.join(".")),
    };
    Some(format!("{place} {}", list.join(", ")))
}

/// The names that are possible under `parents`, in the table's order.
fn siblings(parents: &[&str]) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    if !matches!(find(parents), Found::Group { .. }) {
        return names;
    }
    for key in KEYS {
        let mut segments = key.segments();
        let under = parents.iter().all(|parent| {
            segments
                .next()
                .is_some_and(|segment| segment == "*" || segment == *parent)
        });
        if let (true, Some(name)) = (under, segments.next())
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_for_keys() {
        for (path, expected) in [
            ("agent.step_limt", "did you mean `agent.step_limit`?"),
            ("agents", "did you mean `agent`?"),
            ("step_limit", "did you mean `agent.step_limit`?"),
            ("model.step_limit", "did you mean `agent.step_limit`?"),
            ("agnet.step_limit", "did you mean `agent.step_limit`?"),
            ("model.price.imput", "did you mean `model.price.input`?"),
            ("plugins.mine.cofig", "did you mean `plugins.mine.config`?"),
            (
                "model.temperature",
                "parameters of the request belong under `model.model_kwargs`: `model.model_kwargs.temperature`",
            ),
            (
                "run.zzz",
                "`run` has `task`, `env_startup_command`, `on_end`, `atif_path`, `on_end_timeout`",
            ),
            (
                "nonsense",
                "the sections are `agent`, `model`, `environment`, `workspace`, `tools`, `run`, `pipeline`, `plugins`, `providers`",
            ),
        ] {
            let segments: Vec<_> = path.split('.').collect();
            assert_eq!(for_key(&segments).as_deref(), Some(expected), "{path}");
        }
        assert!(
            for_key(&["model", "api_key"])
                .unwrap()
                .contains("model.api_key_env")
        );
    }
}
