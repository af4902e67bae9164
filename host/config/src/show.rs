//! `config show`: the configuration as a readable list, or as TOML that loads again.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::environment_class;
use super::keys::{self, Found};
use super::layers::Layers;
use super::origin::Origin;
use super::redact;
use super::secret_name::MARK;

impl Layers {
    /// With `origin`: a line for every value, `key = value # origin`, long texts shortened.
    /// Without: TOML that yields the same configuration again with `--no-default-config`. Neither
    /// contains anything that looks like a secret, because users share this output.
    pub fn show(&self, origin: bool) -> String {
        if origin {
            self.listing()
        } else {
            self.document()
        }
    }

    fn document(&self) -> String {
        let mut text = String::from(
            "# The whole configuration. It loads again with `--no-default-config -c FILE`.\n",
        );
        let whole = self.complete();
        let clean = redact::redacted(&whole);
        if clean != whole {
            let _ = writeln!(
                text,
                "# Values that look like secrets are left out: each `{}` has to be filled in first.",
                MARK
            );
        }
        let mut left_out = Vec::new();
        let mut clean = self.without_idle(clean);
        // TOML has no null, and a missing key has its default.
        if let Some(Value::Object(agent)) = clean.get_mut("agent")
            && let Some(command @ Value::Null) = agent.get_mut("salvage_command")
        {
            *command = Value::String(String::new());
        }
        let table = match clean {
            Value::Object(map) => table(&map, &mut Vec::new(), &mut left_out),
            _ => toml::Table::new(),
        };
        for (path, value) in left_out {
            // A key that is unset needs no line.
            let segments: Vec<&str> = path.iter().map(String::as_str).collect();
            if matches!(keys::find(&segments), Found::Inside(_)) {
                let _ = writeln!(
                    text,
                    "# TOML can't express this: -c '{}={value}'",
                    path.join(".")
                );
            }
        }
        text.push('\n');
        // Tables of texts, numbers and lists always serialise. If that ever changes, a comment in
        // the output is better than a panic.
        match toml::to_string_pretty(&table) {
            Ok(body) => text.push_str(&body),
            Err(error) => {
                let _ = writeln!(text, "# can't be shown as TOML: {error}");
            }
        }
        text
    }

    /// `whole` without the keys that have no effect in the environment's class: in a file, each of
    /// them would cause a warning.
    fn without_idle(&self, mut whole: Value) -> Value {
        let class = self.environment_class();
        if let Some(environment) = whole.get_mut("environment").and_then(Value::as_object_mut) {
            environment.retain(|key, _| {
                environment_class::classes_of(key)
                    .is_none_or(|classes| classes.contains(&class.as_str()))
                    && (key != "writable" || self.is_sandboxed())
            });
        }
        whole
    }

    fn listing(&self) -> String {
        let mut text = String::new();
        lines(
            &redact::redacted(&self.complete()),
            &mut Vec::new(),
            &mut |path, value| {
                let segments: Vec<&str> = path.iter().map(String::as_str).collect();
                let origin = match self.merged.get(&segments) {
                    Some(_) => self.merged.origin_of(&segments).unwrap_or(&Origin::BuiltIn),
                    None => &Origin::BuiltIn,
                };
                let key: Vec<String> = path.iter().map(|segment| bare_or_quoted(segment)).collect();
                let _ = writeln!(text, "{} = {}  # {origin}", key.join("."), one_line(value));
            },
        );
        text
    }
}

/// Calls `line` for every value that is no map, and for empty maps.
fn lines(value: &Value, path: &mut Vec<String>, line: &mut impl FnMut(&[String], &Value)) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                path.push(key.clone());
                lines(value, path, line);
                path.pop();
            }
        }
        // A section without keys needs no line.
        Value::Object(_) if path.len() <= 1 => {}
        value => line(path, value),
    }
}

fn one_line(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    match value {
        Value::String(whole) => {
            let start: String = whole.chars().take(LONGEST - 20).collect();
            let start = Value::String(start).to_string();
            format!(
                "{}...\" ({} characters)",
                &start[..start.len() - 1],
                whole.chars().count()
            )
        }
        _ => {
            let start: String = text.chars().take(LONGEST).collect();
            format!("{start}...")
        }
    }
}

fn bare_or_quoted(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(bare) {
        key.to_owned()
    } else {
        Value::String(key.to_owned()).to_string()
    }
}

/// A TOML table without the values that TOML can't express, which go to `left_out`.
fn table(
    map: &Map<String, Value>,
    path: &mut Vec<String>,
    left_out: &mut Vec<(Vec<String>, Value)>,
) -> toml::Table {
    let mut table = toml::Table::new();
    for (key, value) in map {
        path.push(key.clone());
        match value {
            Value::Object(inner) => {
                table.insert(
                    key.clone(),
                    toml::Value::Table(self::table(inner, path, left_out)),
                );
            }
            value => match plain(value) {
                Some(value) => {
                    table.insert(key.clone(), value);
                }
                None => left_out.push((path.clone(), value.clone())),
            },
        }
        path.pop();
    }
    table
}

fn plain(value: &Value) -> Option<toml::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => toml::Value::Boolean(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => toml::Value::Integer(integer),
            // Larger than TOML's integers: possible only in free-form values.
            None if number.is_u64() => return None,
            None => toml::Value::Float(number.as_f64()?),
        },
        Value::String(text) => toml::Value::String(text.clone()),
        Value::Array(items) => toml::Value::Array(items.iter().map(plain).collect::<Option<_>>()?),
        Value::Object(map) => toml::Value::Table(
            map.iter()
                .map(|(key, value)| Some((key.clone(), plain(value)?)))
                .collect::<Option<_>>()?,
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::layers::Sources;
    use super::super::testing::Memory;
    use super::*;

    const WILD: &[&str] = &[
        "text",
        "agent.cost_limit=3",
        "agent.system_template=\"'''quotes''' \\\"\\\"\\\" \\\\ \\n\\n  {{ x }}\\t\\u0001\\r\\n\"",
        "agent.salvage_command=null",
        "model.model_kwargs={\"temperature\": 1e-7, \"stop\": [\"a\", {\"b\": []}], \"key with.dot\": {}}",
        "environment.env.PAGER=null",
        "environment.env={\"ODD NAME\": \"\"}",
        "plugins.a.config={\"deep\": {\"er\": [[1], [2.0]]}}",
        "model.price={\"input\": 1, \"output\": 2.5}",
    ];

    #[test]
    fn what_is_shown_loads_again_to_the_same() {
        let env = Memory::new();
        for configs in [&[][..], &["text"], WILD] {
            let layers = env.load(configs).unwrap();
            let again = Memory::new().file("/work/shown.toml", &layers.show(false));
            let sources = Sources {
                configs: vec!["shown.toml".into()],
                no_default_config: true,
                ..Sources::default()
            };
            let again = Layers::load(&sources, &again)
                .unwrap_or_else(|e| panic!("{e}\n{}", layers.show(false)));
            assert_eq!(
                again.resolve().unwrap(),
                layers.resolve().unwrap(),
                "{configs:?}"
            );
            assert_eq!(again.show(false), layers.show(false));
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let layers = Memory::new()
            .load(&[
                "environment.env.DEPLOY_KEY=secret-1",
                "model.base_url=https://u:secret-2@h/v1?api_key=secret-3",
                "model.model_kwargs={\"extra_headers\": {\"X-Mine\": \"secret-4\", \"X-Null\": null}}",
                "agent.salvage_command=curl -H sk-abcdefgh12345678secret-5",
            ])
            .unwrap();
        for origin in [false, true] {
            let text = layers.show(origin);
            assert!(!text.contains("secret-"), "{text}");
            assert!(text.contains("[redacted]"), "{text}");
        }
        assert!(layers.show(false).contains("has to be filled in first"));
        let plain = Memory::new().load(&[]).unwrap().show(false);
        assert!(!plain.contains("filled in"), "{plain}");
    }

    #[test]
    fn what_toml_cannot_say_is_told() {
        let configs =
            ["model.model_kwargs={\"a\": null, \"b\": [1, null], \"c\": 18446744073709551615}"];
        let text = Memory::new().load(&configs).unwrap().show(false);
        for line in [
            "-c 'model.model_kwargs.a=null'\n",
            "-c 'model.model_kwargs.b=[1,null]'\n",
            "-c 'model.model_kwargs.c=18446744073709551615'\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let plain = Memory::new().load(&[]).unwrap().show(false);
        assert!(!plain.contains("express this"), "{plain}");
    }

    #[test]
    fn every_line_says_who_set_it() {
        let env = Memory::new()
            .file(
                "/work/c.toml",
                "[agent]\nstep_limit = 7\n[plugins.\"a b\"]\nconfig = {x = 1}\n",
            )
            .var("MSWEA_COST_TRACKING", "ignore_errors");
        let sources = Sources {
            configs: vec![
                "c.toml".into(),
                "model.model_kwargs.api_key=sk-1".into(),
                "agent.cost_limit=1".into(),
            ],
            flags: vec![(
                "model.model_name".into(),
                "openai/x".into(),
                "--model".into(),
            )],
            ..Sources::default()
        };
        let text = Layers::load(&sources, &env).unwrap().show(true);
        for line in [
            "agent.step_limit = 7  # c.toml:2",
            "agent.cost_limit = 1  # -c agent.cost_limit=1",
            "agent.confirm_exit = true  # built-in default",
            "model.model_name = \"openai/x\"  # flag --model",
            "model.cost_tracking = \"ignore_errors\"  # environment variable MSWEA_COST_TRACKING",
            "model.model_kwargs.api_key = \"[redacted]\"  # -c model.model_kwargs.api_key=[redacted]",
            "environment.env.PAGER = \"cat\"  # preset default",
            "plugins.\"a b\".config.x = 1  # c.toml:4",
            "plugins.\"a b\".memory_mb = 256  # built-in default",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(!text.contains("sk-1"));
        let template = text
            .lines()
            .find(|l| l.starts_with("agent.instance_template"))
            .unwrap();
        assert!(
            template.ends_with("characters)  # preset default"),
            "{template}"
        );
        assert!(
            text.lines()
                .all(|l| l.contains(" = ") && l.contains("  # ")),
            "{text}"
        );
    }
}
