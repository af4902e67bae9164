//! The config of an earlier run as a layer: what its journal has recorded, without the secrets.
//!
//! A journal holds the resolved config, which does not tell set values from defaults. The
//! difference matters: a value that the user set stays, whatever a later preset says. So the layer holds only what differs from the
//! presets below it.

use serde_json::Value;

use super::environment_class;
use super::error::{ConfigProblem, ProblemKind};
use super::import_paths;
use super::keys::{ConfigKey, KEYS, Type};
use super::node::{Content, Node};
use super::origin::Origin;
use super::secret_name::MARK;
use super::set_by::ADDRESSES;
use super::version_1::{self, OldTemplates};

/// Keys for which a set value has another effect than an equal default: these are always in the
/// layer.
const ALWAYS: [&str; 3] = [
    "pipeline.parser",
    "pipeline.formatter",
    "model.set_cache_control",
];

/// The config of an earlier run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedConfig {
    /// As [`Config::redacted`](super::Config::redacted) gave it.
    pub config: Value,
    /// The journal's path, for messages.
    pub journal: String,
    /// Whether a file of mini-swe-agent was among its layers.
    pub mini: bool,
    /// Nothing will be sent or run with it, so the secrets that it leaves out are not needed.
    pub is_only_read: bool,
}

impl RecordedConfig {
    /// The class of environment.
    pub(super) fn environment_class(&self) -> Option<&str> {
        at(&self.config, &["environment", "environment_class"])?.as_str()
    }

    /// The place of all its keys.
    pub(super) fn origin(&self) -> Origin {
        Origin::File {
            path: self.journal.clone(),
            line: 1,
            column: 1,
        }
    }

    /// The layer; `below` is the config that the presets alone result in.
    pub(super) fn layer(&self, below: &Value) -> Node {
        let origin = self.origin();
        let mut layer = Node::empty(origin.clone());
        for key in KEYS {
            for path in self.paths(key) {
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                let Some(value) = at(&self.config, &path) else {
                    continue;
                };
                if self.is_unknown_class(key, value) {
                    continue;
                }
                let below = at(below, &path);
                let is_default =
                    below.map_or_else(|| key.default_value() == *value, |it| it == value);
                if is_default && !ALWAYS.contains(&key.path) {
                    continue;
                }
                let value = match key.kind {
                    Type::TextMap => without_missing(value, below),
                    _ => value.clone(),
                };
                layer.merge(Node::nested(&path, value, &origin));
            }
        }
        layer
    }

    /// The same config with the keys of version 2, if it is of mini-swe-agent 1.
    pub(super) fn of_version_1(&self, texts: &mut OldTemplates) -> Option<Self> {
        let mut node = Node::uniform(self.config.clone(), &self.origin());
        let is_of_version_1 = self.mini && version_1::translate(&mut node, texts).is_some();
        is_of_version_1.then(|| Self {
            config: node.to_value(),
            ..self.clone()
        })
    }

    /// Warnings about classes of Python that were recorded and do not exist here.
    pub(super) fn unknown_classes(&self) -> Vec<String> {
        let unknown = KEYS.iter().filter_map(|key| {
            let path: Vec<&str> = key.segments().collect();
            let value = at(&self.config, &path)?;
            self.is_unknown_class(key, value).then(|| {
                format!(
                    "`{}` = `{}` of the record `{}` is no class of this host, and has no effect",
                    key.path,
                    value.as_str().unwrap_or_default(),
                    self.journal
                )
            })
        });
        unknown.collect()
    }

    /// Whether a recorded value names a class that this host can't have: one of Python, or an environment that
    /// a run which is only read does not need.
    fn is_unknown_class(&self, key: &ConfigKey, value: &Value) -> bool {
        let (Type::OneOf(words), Some(text)) = (key.kind, value.as_str()) else {
            return false;
        };
        let name = import_paths::short_name(key.path, text);
        match key.path {
            "agent.agent_class" | "model.model_class" | "environment.environment_class" => {}
            _ => return false,
        }
        let is_foreign = self.mini && name.is_none() && !words.contains(&text);
        let is_absent = self.is_only_read
            && key.path == "environment.environment_class"
            && environment_class::find(name.unwrap_or(text)).is_none();
        is_foreign || is_absent
    }

    /// The paths of a key: one for each name that the user chose in place of its `*`.
    fn paths(&self, key: &ConfigKey) -> Vec<Vec<String>> {
        let segments: Vec<String> = key.segments().map(str::to_owned).collect();
        let Some(star) = segments.iter().position(|segment| segment == "*") else {
            return vec![segments];
        };
        let above: Vec<&str> = segments[..star].iter().map(String::as_str).collect();
        let names = at(&self.config, &above).and_then(Value::as_object);
        let names = names.into_iter().flatten().map(|(name, _)| {
            let mut path = segments.clone();
            path[star].clone_from(name);
            path
        });
        names.collect()
    }

    /// Takes the recorded address of the model away if another layer sets one, under whichever of its keys.
    pub(super) fn give_way(&self, merged: &mut Node) {
        let origin = self.origin();
        let is_text = |node: &Node| matches!(&node.content, Content::Scalar(Value::String(it)) if !it.is_empty());
        let set = ADDRESSES.iter().filter_map(|path| {
            let node = merged.get(path).filter(|node| is_text(node))?;
            Some((*path, node.origin == origin))
        });
        let (recorded, anew): (Vec<_>, Vec<_>) = set.partition(|(_, is_recorded)| *is_recorded);
        for (path, _) in recorded.iter().filter(|_| !anew.is_empty()) {
            if let Some((key, above)) = path.split_last() {
                merged.remove(above, key);
            }
        }
    }

    /// An error for each secret that the record leaves out and no other layer sets.
    pub(super) fn missing(&self, merged: &Node) -> Vec<ConfigProblem> {
        let mut found = Vec::new();
        if self.is_only_read {
            return Vec::new();
        }
        marks(merged, &self.origin(), &mut Vec::new(), &mut found);
        let problem = |key: String| {
            ConfigProblem::new(
                ProblemKind::Missing,
                format!(
                    "`{key}` holds a secret, which the record `{}` leaves out",
                    self.journal
                ),
            )
            .hint(format!(
                "give it again: `-c {key}=...`, or in a file with `-c FILE`"
            ))
            .key(key)
        };
        found.into_iter().map(problem).collect()
    }
}

fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// `value` with null for each name that the presets have and the run did not: null removes it.
fn without_missing(value: &Value, below: Option<&Value>) -> Value {
    let mut value = value.clone();
    if let (Some(map), Some(below)) = (value.as_object_mut(), below.and_then(Value::as_object)) {
        for name in below.keys() {
            map.entry(name).or_insert(Value::Null);
        }
    }
    value
}

fn marks(node: &Node, origin: &Origin, path: &mut Vec<String>, found: &mut Vec<String>) {
    match &node.content {
        Content::Map(entries) => {
            for entry in entries {
                path.push(entry.key.clone());
                marks(&entry.node, origin, path, found);
                path.pop();
            }
        }
        Content::List(items) => {
            let is_marked = |item: &Node| item.to_value().to_string().contains(MARK);
            if node.origin == *origin && items.iter().any(is_marked) {
                found.push(path.join("."));
            }
        }
        Content::Scalar(Value::String(text)) if node.origin == *origin && text.contains(MARK) => {
            found.push(path.join("."));
        }
        Content::Scalar(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::layers::{Layers, Sources};
    use super::super::testing::Memory;
    use super::super::{Config, ConfigError};
    use super::*;

    fn again(config: &Config, configs: &[&str]) -> Result<(Layers, Config), ConfigError> {
        let sources = Sources {
            configs: configs.iter().map(|spec| (*spec).to_owned()).collect(),
            recorded: Some(RecordedConfig {
                config: config.redacted(),
                journal: "j.events.jsonl".into(),
                mini: config.mini,
                is_only_read: false,
            }),
            ..Sources::default()
        };
        // A variable that was set after the recorded run, so it must not have an effect.
        let env = Memory::new().var("MSWEA_MODEL_NAME", "another/model");
        let layers = Layers::load(&sources, &env)?;
        let config = layers.resolve()?;
        Ok((layers, config))
    }

    #[test]
    fn a_recorded_config_means_the_same_again() {
        let mini = "agent:\n  system_template: s\n  instance_template: '{{task}}'\n  mode: yolo\n\
                    model:\n  model_name: anthropic/claude-sonnet-4-5\n  model_kwargs:\n    temperature: 0.5\n    timeout: 7\n    drop_params: true\n\
                    environment:\n  cwd: /x\n  env:\n    A: b\n";
        let env = Memory::new().file("/work/mini.yaml", mini).file(
            "/work/text.yaml",
            &mini.replace(
                "model_kwargs",
                "model_class: litellm_textbased\n  model_kwargs",
            ),
        );
        for configs in [
            &[][..],
            &["model.model_name=openai/gpt-5"],
            &["text"],
            &["mini.yaml"],
            &["text.yaml"],
            &["text.yaml", "pipeline.parser=toolcall"],
            &[
                "model.model_class=litellm_textbased",
                "pipeline.parser=toolcall",
            ],
            &[
                "model.model_name=anthropic/claude-x",
                "model.set_cache_control=null",
            ],
            &["environment.env={\"PAGER\": null, \"X\": \"y\"}"],
            &[
                "environment.image=python:3.12",
                "environment.cwd=/w",
                "agent.salvage_command=null",
            ],
            &[
                "agent.salvage_command=echo x",
                "agent.step_limit=7",
                "agent.cost_limit=0",
            ],
            &[
                "plugins.p.path=./p.wasm",
                "plugins.p.config.a.b=[1, 2]",
                "pipeline.processors=[\"p\"]",
            ],
            &["providers.q.base_url=http://q", "model.model_name=q/m"],
            &[
                "model.price={\"input\": 1, \"output\": 2}",
                "model.model_kwargs.top_p=0.1",
            ],
            &[
                "workspace.repo=.",
                "workspace.startup_commands=[\"a\", \"b\"]",
            ],
        ] {
            let config = env.resolve(configs).unwrap();
            let (layers, found) = again(&config, &[]).unwrap();
            // The places where the address and the key were set are not recorded.
            let found = Config {
                set_by: config.set_by.clone(),
                ..found
            };
            assert_eq!(found, config, "{configs:?}");
            assert_eq!(layers.warnings(), Vec::<String>::new(), "{configs:?}");
        }
        // A key that was not set is still not set.
        let config = env.resolve(&[]).unwrap();
        let (layers, _) = again(&config, &[]).unwrap();
        let origin = layers.origin_of("agent.system_template");
        assert!(matches!(origin, Some(Origin::Preset { .. })), "{origin:?}");
    }

    #[test]
    fn flags_win_over_what_is_recorded() {
        let env = Memory::new();
        let config = env.resolve(&["agent.step_limit=5", "text"]).unwrap();
        let (layers, changed) = again(&config, &["agent.step_limit=9"]).unwrap();
        assert_eq!(changed.agent.step_limit, 9);
        assert_eq!(changed.agent.system_template, config.agent.system_template);
        let origin = layers.origin_of("agent.system_template").unwrap();
        assert_eq!(origin.to_string(), "j.events.jsonl:1");
    }

    #[test]
    fn an_address_that_is_given_anew_takes_the_place_of_the_recorded_one() {
        let kwargs =
            "model.model_kwargs={\"api_base\": \"http://old/v1\", \"base_url\": \"http://old/v1\"}";
        let of_kwargs = "model.model_kwargs.api_base=http://new/v1";
        for (recorded, anew) in [
            (kwargs, "model.base_url=http://new/v1"),
            ("model.base_url=http://old/v1", of_kwargs),
            (kwargs, of_kwargs),
        ] {
            let config = Memory::new().resolve(&[recorded]).unwrap();
            let (layers, found) = again(&config, &[anew]).unwrap();
            assert_eq!(found.model.base_url.as_deref(), Some("http://new/v1"));
            assert!(!layers.merged().to_string().contains("//old"), "{recorded}");
            assert!(
                !layers
                    .recorded_authority("j.events.jsonl")
                    .iter()
                    .any(|it| it.key.starts_with("model.")),
                "{recorded}"
            );
        }
    }

    #[test]
    fn secrets_that_are_left_out_are_asked_for_by_their_keys() {
        let secrets = [
            "environment.env.MY_TOKEN=abc",
            "environment.env.URL=https://a:b@host/",
            "plugins.p.config={\"headers\": {\"x-key\": \"v\"}}",
        ];
        let config = Memory::new().resolve(&secrets).unwrap();
        let text = again(&config, &[]).unwrap_err().to_string();
        for part in [
            "`environment.env.MY_TOKEN` holds a secret",
            "`-c environment.env.MY_TOKEN=...`",
            "`environment.env.URL`",
            "`plugins.p.config.headers.x-key`",
            "`j.events.jsonl`",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let (_, found) = again(&config, &secrets).unwrap();
        assert_eq!(found.environment.env, config.environment.env);
        assert_eq!(found.plugins, config.plugins);
    }

    #[test]
    fn a_secret_that_is_left_out_is_needed_only_by_who_sends_it() {
        let load = |is_only_read| {
            let sources = Sources {
                recorded: Some(RecordedConfig {
                    config: json!({"model": {"model_kwargs": {"api_key": MARK}}}),
                    journal: "t.traj.json".into(),
                    is_only_read,
                    ..RecordedConfig::default()
                }),
                ..Sources::default()
            };
            Layers::load(&sources, &Memory::new())
        };
        load(true).unwrap();
        let refused = load(false).unwrap_err().to_string();
        assert!(refused.contains("the record `t.traj.json`"), "{refused}");
    }

    #[test]
    fn what_no_config_can_be_is_an_error_and_no_more() {
        for config in [
            json!(null),
            json!([]),
            json!({ "agent": 5 }),
            json!({ "agent": { "step_limit": "many" } }),
            json!({ "plugins": { "x": [] }, "nothing": { "of": "ours" } }),
        ] {
            let sources = Sources {
                recorded: Some(RecordedConfig {
                    config,
                    ..RecordedConfig::default()
                }),
                ..Sources::default()
            };
            if let Ok(layers) = Layers::load(&sources, &Memory::new()) {
                let _ = layers.resolve();
            }
        }
    }
}
