//! Finds the config value that a plugin's error is about. Some values of a plugin's config are
//! offered by the host (`model.action_regex` and the like), and these were set elsewhere in the
//! user's config.

use mswea_config::{Config, Layers};

/// The values that the host offers to plugins: the name in the plugin's config, and the place in
/// the user's config.
const OFFERED: &[(&str, &str)] = &[
    ("action_regex", "/model/action_regex"),
    ("observation_template", "/model/observation_template"),
    ("model_kwargs", "/model/model_kwargs"),
    ("base_url", "/model/base_url"),
    ("stream", "/model/stream"),
    ("merge_user_messages", "/model/merge_user_messages"),
    ("model", "/model/model_name"),
    ("api_key", "/model/api_key_env"),
];

/// The origin of the value at `pointer` of the config of `plugin`.
pub fn of_plugin_value(
    layers: &Layers,
    config: &Config,
    plugin: &str,
    pointer: &str,
) -> Option<String> {
    let place = place(config, plugin, pointer);
    Some(layers.origin_of(&place)?.to_string())
}

/// The place in the whole config, as a JSON pointer.
fn place(config: &Config, plugin: &str, pointer: &str) -> String {
    let own = format!("/plugins/{}/config{pointer}", escaped(plugin));
    let inner = pointer.strip_prefix('/').unwrap_or(pointer);
    let (key, rest) = inner.split_at(inner.find('/').unwrap_or(inner.len()));
    let by_user = config
        .plugins
        .get(plugin)
        .is_some_and(|entry| entry.config.contains_key(key));
    let Some((_, offered)) = OFFERED.iter().find(|(name, _)| *name == key && !by_user) else {
        return own;
    };
    // The value belongs to the provider of the model's prefix.
    let model = &config.model;
    let of_provider = match key {
        "base_url" if model.base_url.is_none() => Some("base_url"),
        "api_key" if model.api_key_env.is_none() => Some("api_key_env"),
        _ => None,
    };
    let name = model.model_name.as_deref().unwrap_or_default();
    let provider = name.split('/').next().unwrap_or_default();
    match of_provider {
        Some(key) if config.providers.contains_key(provider) => {
            format!("/providers/{}/{key}{rest}", escaped(provider))
        }
        _ => format!("{offered}{rest}"),
    }
}

/// A key as a segment of a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use mswea_config::{ProcessEnvironment, Sources};

    fn layers(config: &str) -> Layers {
        let sources = Sources {
            configs: vec![config.to_owned()],
            flags: vec![("model.stream".into(), json!(false), "--test".into())],
            ..Sources::default()
        };
        Layers::load(&sources, &ProcessEnvironment).unwrap()
    }

    #[test]
    fn a_complaint_leads_to_who_set_the_value() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        let lines = [
            "[model]",
            "action_regex = '('",
            "model_name = 'r/m'",
            "[model.model_kwargs]",
            "a = 1",
            "[plugins.mine.config]",
            "action_regex = '['",
            "other = 1",
            "[providers.r]",
            "base_url = 'x'",
        ];
        std::fs::write(&file, lines.join("\n")).unwrap();
        let file = file.to_str().unwrap();
        let layers = layers(file);
        let config = layers.resolve().unwrap();
        let at = |line: usize| format!("{file}:{line}");
        for (plugin, pointer, expected) in [
            ("text_regex", "/action_regex", at(2)),
            ("mine", "/action_regex", at(7)),
            ("mine", "/other", at(8)),
            ("openai", "/model_kwargs/a", at(5)),
            ("openai", "/model_kwargs/missing", at(4)),
            ("openai", "/base_url", at(10)),
            ("openai", "/model", at(3)),
            ("openai", "/stream", "flag --test".into()),
        ] {
            assert_eq!(
                of_plugin_value(&layers, &config, plugin, pointer),
                Some(expected),
                "{plugin} {pointer}"
            );
        }
    }

    #[test]
    fn places_are_pointers() {
        let config = layers("model.base_url=y").resolve().unwrap();
        for (plugin, pointer, expected) in [
            ("parsers/mine", "/x", "/plugins/parsers~1mine/config/x"),
            ("mine", "", "/plugins/mine/config"),
            ("openai", "/base_url", "/model/base_url"),
            (
                "openai",
                "/model_kwargs/a~1b/0",
                "/model/model_kwargs/a~1b/0",
            ),
        ] {
            assert_eq!(place(&config, plugin, pointer), expected);
        }
    }
}
