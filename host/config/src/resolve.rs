//! From layers to the resolved [`Config`].

use serde_json::{Map, Value};

use super::error::{ConfigError, ConfigProblem, ProblemKind};
use super::keys::{ConfigKey, KEYS, Type};
use super::layers::Layers;
use super::model_class;
use super::node::Node;
use super::redact;
use super::request_time;
use super::sections::Config;
use super::set_by::{self, SetBy};
use super::{litellm, logins};

/// The regular expression with which mini-swe-agent finds the command in a text.
const TEXT_REGEX: &str = r"```mswea_bash_command\s*\n(.*?)\n```";

/// What the model is told about an unusable reply where commands stand in the text, unless a config
/// says so; mini-swe-agent's model classes have a default of the same content.
const TEXT_FEEDBACK: &str = "Each reply has to hold EXACTLY ONE action in triple backticks; this one holds {{ actions | length }}.";

/// Parts of the names of models whose provider caches only the parts of a request that are marked.
const CLAUDE: [&str; 4] = ["anthropic", "sonnet", "opus", "claude"];

/// Whether the end of the history is marked for the cache by default, as in mini-swe-agent.
fn is_claude(config: &Config) -> bool {
    let name = config.model.model_name.as_deref().unwrap_or_default();
    let name = name.to_lowercase();
    !name.starts_with("replay/") && CLAUDE.iter().any(|word| name.contains(word))
}

impl Layers {
    /// Fills in the defaults and checks what depends on several layers.
    ///
    /// # Errors
    /// [`ConfigError`] if a required value is missing or values contradict each other.
    pub fn resolve(&self) -> Result<Config, ConfigError> {
        let mut problems = self.missing();
        problems.extend(self.bad_price());
        problems.extend(self.environment_problems());
        problems.extend(logins::credentials(self));
        problems.extend(request_time::problems(self));
        problems.extend(self.bad_digests());
        problems.extend(self.bad_variables());
        ConfigError::check(problems)?;
        let mut config: Config = serde_json::from_value(self.complete()).map_err(|error| {
            // This can't happen: every layer was checked against the table of keys, and the
            // sections have the same fields as that table.
            ConfigProblem::new(
                ProblemKind::WrongValue,
                format!("the configuration is inconsistent: {error}"),
            )
            .hint("this is a bug in mswea-host: please report it with your configuration")
        })?;
        // mini-swe-agent selects the parser by the model class; an explicit parser takes
        // precedence.
        let class = config.model.model_class.as_deref();
        if class
            .and_then(model_class::find)
            .is_some_and(|class| class.text)
            && self.merged.get(&["pipeline", "parser"]).is_none()
        {
            "text_regex".clone_into(&mut config.pipeline.parser);
            // mini-swe-agent's trajectories contain this expression; it is also the parser's
            // default.
            if self.mini {
                let regex = &mut config.model.action_regex;
                regex.get_or_insert_with(|| TEXT_REGEX.to_owned());
            }
        }
        let feedback = self.merged.get(&["model", "format_error_template"]);
        if feedback.is_none() && config.pipeline.parser == "text_regex" {
            TEXT_FEEDBACK.clone_into(&mut config.model.format_error_template);
        }
        if self.merged.get(&["model", "set_cache_control"]).is_none() && is_claude(&config) {
            config.model.set_cache_control = Some("default_end".to_owned());
        }
        litellm::translate(&mut config.model, self.given_key.is_some());
        config.mini = self.mini;
        config.given_key.clone_from(&self.given_key);
        config.set_by = SetBy {
            address: self.ledger.first(&set_by::ADDRESSES, &self.merged),
            key: self.ledger.first(&set_by::KEYS, &self.merged),
        };
        Ok(config)
    }

    /// The merged value with every default filled in.
    pub(super) fn complete(&self) -> Value {
        let mut root = Map::new();
        for key in KEYS {
            let segments: Vec<&str> = key.segments().collect();
            // Keeps the sections in the table's order, also the empty ones.
            section(&mut root, segments[0]);
            match segments.iter().position(|segment| *segment == "*") {
                None => {
                    let value = self.effective(key, &segments);
                    insert(&mut root, &segments, value);
                }
                Some(star) => {
                    for name in self.names_under(&segments[..star]) {
                        let mut path = segments.clone();
                        path[star] = &name;
                        let value = self.effective(key, &path);
                        insert(&mut root, &path, value);
                    }
                }
            }
        }
        if let Some(model) = root.get_mut("model").and_then(Value::as_object_mut) {
            let unset = |price: &Value| {
                price
                    .as_object()
                    .is_some_and(|price| price.values().all(Value::is_null))
            };
            if model.get("price").is_some_and(unset) {
                model.insert("price".to_owned(), Value::Null);
            }
        }
        self.complete_environment(&mut root);
        Value::Object(root)
    }

    /// The names that the user chose under a group.
    pub(super) fn names_under(&self, path: &[&str]) -> Vec<String> {
        match self.merged.get(path).map(Node::to_value) {
            Some(Value::Object(map)) => map.into_iter().map(|(name, _)| name).collect(),
            _ => Vec::new(),
        }
    }

    fn effective(&self, key: &ConfigKey, path: &[&str]) -> Value {
        let given = self.merged.get(path).map(Node::to_value);
        let value = given.unwrap_or_else(|| key.default_value());
        match (key.kind, value) {
            (Type::TextMap, Value::Object(mut map)) => {
                map.retain(|_, value| !value.is_null());
                Value::Object(map)
            }
            (_, value) => value,
        }
    }

    fn missing(&self) -> Vec<ConfigProblem> {
        let missing: Vec<_> = KEYS
            .iter()
            .filter(|key| key.default.is_none())
            .filter(|key| {
                self.merged
                    .get(&key.segments().collect::<Vec<_>>())
                    .is_none()
            })
            .map(|key| format!("`{}`", key.path))
            .collect();
        if missing.is_empty() {
            return Vec::new();
        }
        let missing = missing.join(" and ");
        let problem = match &self.displaced_by {
            Some(path) => ConfigProblem::new(
                ProblemKind::Missing,
                format!(
                    "no value for {missing}: `{path}` is a YAML file, and with one the preset \
                     `default` is left out, as in mini-swe-agent"
                ),
            )
            .hint(format!(
                "add {missing} to it, or lay it over the preset: `-c default -c {path}`"
            )),
            None => ConfigProblem::new(
                ProblemKind::Missing,
                format!("no value for {missing}: the preset `default` is left out"),
            )
            .hint(format!("set {missing}, or drop `--no-default-config`")),
        };
        vec![problem]
    }

    fn bad_price(&self) -> Option<ConfigProblem> {
        let price = self.merged.get(&["model", "price"])?;
        let set = |name: &str| {
            price
                .get(&[name])
                .is_some_and(|node| !node.to_value().is_null())
        };
        let any = ["input", "output", "cache_read", "cache_write"]
            .into_iter()
            .any(set);
        if !any || (set("input") && set("output")) {
            return None;
        }
        let name = if set("input") { "output" } else { "input" };
        let problem = ConfigProblem::new(
            ProblemKind::Missing,
            format!("`model.price` has no `{name}`"),
        )
        .key("model.price")
        .hint("give both `input` and `output`, in dollars per million tokens");
        Some(match self.merged.origin_of(&["model", "price"]) {
            Some(origin) => problem.at(origin, "price".len(), &self.files),
            None => problem,
        })
    }

    fn bad_digests(&self) -> Vec<ConfigProblem> {
        let names = self.names_under(&["plugins"]);
        let digests = names.iter().filter_map(|name| {
            let path = ["plugins", name, "sha256"];
            let digest = self.merged.get(&path)?.to_value();
            let digest = digest.as_str()?;
            let digits = digest.chars().all(|digit| digit.is_ascii_hexdigit());
            if digest.len() == 64 && digits {
                return None;
            }
            let key = path.join(".");
            let message = format!("`{key}` must be 64 hexadecimal digits, not `{digest}`");
            let problem = ConfigProblem::new(ProblemKind::WrongValue, message)
                .hint("`mswea-host plugin inspect FILE` prints the digest of a plugin");
            let origin = self.merged.origin_of(&path)?;
            Some(problem.key(key).at(origin, "sha256".len(), &self.files))
        });
        digests.collect()
    }

    /// Variables whose name or value the system does not accept; the error would otherwise come in
    /// the middle of a run.
    fn bad_variables(&self) -> Vec<ConfigProblem> {
        let names = self.names_under(&["environment", "env"]);
        let bad = names.iter().filter_map(|name| {
            let path = ["environment", "env", name.as_str()];
            let value = self.merged.get(&path)?.to_value();
            let nul = value.as_str().is_some_and(|value| value.contains('\0'));
            let what = if name.is_empty() || name.contains(['=', '\0']) {
                "is not a name of a variable"
            } else if nul {
                "has a NUL character in its value"
            } else {
                return None;
            };
            let problem = ConfigProblem::new(
                ProblemKind::WrongValue,
                format!("`{}` in `environment.env` {what}", name.escape_debug()),
            )
            .hint("a name is not empty and has no `=`; neither name nor value has NUL characters");
            let origin = self.merged.origin_of(&path)?;
            Some(
                problem
                    .key("environment.env")
                    .at(origin, name.chars().count(), &self.files),
            )
        });
        bad.collect()
    }
}

impl Config {
    /// The config as JSON for the journal and the trajectory, with each text that looks like a
    /// secret replaced by `[redacted]`.
    pub fn redacted(&self) -> Value {
        // Keys are texts and values are JSON: this can't fail to serialise.
        redact::redacted(&serde_json::to_value(self).unwrap_or_default())
    }
}

fn section<'a>(root: &'a mut Map<String, Value>, name: &str) -> &'a mut Value {
    root.entry(name)
        .or_insert_with(|| Value::Object(Map::new()))
}

fn insert(root: &mut Map<String, Value>, path: &[&str], value: Value) {
    let Some((last, groups)) = path.split_last() else {
        return;
    };
    let mut map = root;
    for group in groups {
        let entry = section(map, group);
        match entry {
            Value::Object(inner) => map = inner,
            _ => return,
        }
    }
    map.insert((*last).to_owned(), value);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::model_choice::ModelChoice;
    use super::super::testing::{Memory, sources};
    use super::super::wire_kwargs::WireKwargs;
    use super::*;

    #[test]
    fn the_table_of_keys_and_the_sections_have_the_same_fields() {
        let layers = Memory::new()
            .load(&[
                "plugins.p.path=x",
                "providers.q.base_url=y",
                "model.price={\"input\": 1, \"output\": 2}",
            ])
            .unwrap();
        let config = serde_json::to_value(layers.resolve().unwrap()).unwrap();
        let mut fields = Vec::new();
        for (section, keys) in config.as_object().unwrap() {
            for (key, value) in keys.as_object().unwrap() {
                match (section.as_str(), key.as_str()) {
                    ("plugins" | "providers", _) => {
                        fields.extend(
                            value
                                .as_object()
                                .unwrap()
                                .keys()
                                .map(|name| format!("{section}.*.{name}")),
                        );
                    }
                    ("model", "price") => {
                        fields.extend(
                            value
                                .as_object()
                                .unwrap()
                                .keys()
                                .map(|name| format!("model.price.{name}")),
                        );
                    }
                    _ => fields.push(format!("{section}.{key}")),
                }
            }
        }
        let mut keys: Vec<_> = KEYS.iter().map(|key| key.path.to_owned()).collect();
        keys.sort();
        fields.sort();
        assert_eq!(fields, keys);
    }

    #[test]
    fn the_presets_resolve() {
        let default = Memory::new().resolve(&[]).unwrap();
        assert_eq!(
            (default.agent.step_limit, default.agent.cost_limit),
            (0, 3.0)
        );
        assert_eq!(default.pipeline.parser, "toolcall");
        assert_eq!(default.pipeline.formatter, "jinja");
        assert_eq!(default.model.observation_template, None);
        assert_eq!(default.environment.env["PAGER"], "cat");
        assert_eq!(default.environment.interpreter, Vec::<String>::new());
        assert_eq!(default.environment.env.len(), 6);
        assert_eq!(default.model.rate_limit_retries, 10);
        let text = Memory::new().resolve(&["text"]).unwrap();
        assert_eq!(text.pipeline.parser, "text_regex");
        assert!(text.model.observation_template.is_some());
        assert_eq!(text.environment, default.environment);
        assert_eq!(text.agent.salvage_command, default.agent.salvage_command);
        assert_ne!(text.agent.system_template, default.agent.system_template);
    }

    #[test]
    fn what_only_the_whole_can_show_is_checked() {
        let env = Memory::new()
            .file("/work/mini.yaml", "agent:\n  system_template: x\n")
            .file(
                "/work/p.toml",
                "[model.price]\ninput = 1\n[plugins.x]\nsha256 = \"abc\"\n",
            );
        for (configs, parts) in [
            (
                &["mini.yaml"][..],
                &[
                    "no value for `agent.instance_template`: `mini.yaml` is a YAML file",
                    "-c default -c mini.yaml",
                ][..],
            ),
            (
                &["p.toml"],
                &[
                    "`model.price` has no `output`",
                    "p.toml:1:8",
                    "`plugins.x.sha256` must be 64 hexadecimal digits, not `abc`",
                    "p.toml:4:1",
                ],
            ),
            (
                &["model.price.cache_read=1"],
                &["`model.price` has no `input`"],
            ),
            (
                &["environment.env={\"A=B\": \"x\"}"],
                &["`A=B` in `environment.env` is not a name"],
            ),
            (
                &["environment.env={\"A\": \"x\\u0000\"}"],
                &["has a NUL character"],
            ),
        ] {
            let text = env.resolve(configs).unwrap_err().to_string();
            for part in parts {
                assert!(text.contains(part), "{configs:?}: {text}");
            }
        }
        let mut bare = sources(&[]);
        bare.no_default_config = true;
        let text = Layers::load(&bare, &env)
            .unwrap()
            .resolve()
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("`agent.system_template` and `agent.instance_template`"),
            "{text}"
        );
        assert!(text.contains("drop `--no-default-config`"), "{text}");
    }

    #[test]
    fn null_and_mini_s_ways_are_resolved() {
        let env = Memory::new();
        let config = env
            .resolve(&[
                "environment.env.PAGER=null",
                "agent.salvage_command=null",
                "model.price=null",
                "model.model_kwargs={\"drop_params\": true, \"temperature\": 0.5}",
                "model.model_class=litellm_textbased",
            ])
            .unwrap();
        assert!(!config.environment.env.contains_key("PAGER"));
        assert_eq!(config.agent.salvage_command, None);
        assert_eq!(config.model.price, None);
        assert_eq!(
            Value::Object(WireKwargs::of(&config, &ModelChoice::default(), false).parameters),
            json!({"temperature": 0.5})
        );
        assert_eq!(config.pipeline.parser, "text_regex");
        let explicit = env
            .resolve(&[
                "model.model_class=litellm_textbased",
                "pipeline.parser=mine",
            ])
            .unwrap();
        assert_eq!(explicit.pipeline.parser, "mine");
    }

    #[test]
    fn secrets_stay_out_of_the_journal() {
        let config = Memory::new()
            .resolve(&[
                "model.model_kwargs.extra_headers.Authorization=sk-1",
                "environment.env.GITHUB_TOKEN=ghp",
                "environment.env.DEPLOY_KEY=deep-secret",
                "model.base_url=https://h/v1?api_key=deep-secret",
                "model.api_key_env=NAME",
            ])
            .unwrap();
        let text = config.redacted().to_string();
        for secret in ["sk-1", "ghp", "deep-secret"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        assert_eq!(config.redacted()["model"]["api_key_env"], "NAME");
        assert_eq!(config.redacted()["agent"]["step_limit"], 0);
    }

    #[test]
    fn variables_keep_the_order_in_which_they_are_written() {
        let toml = "[environment.env]\nZ = \"x\"\nA = \"x\"\n";
        let yaml = "agent: {system_template: s, instance_template: i}\nenvironment:\n  env: {Z: x, A: x}\n";
        let env = Memory::new();
        let env = env.file("/work/c.toml", toml).file("/work/c.yaml", yaml);
        for configs in [
            &["c.toml"][..],
            &["c.yaml"],
            &["environment.env.Z=x", "environment.env.A=x"],
        ] {
            let config = env.resolve(configs).unwrap();
            let again = config.redacted().to_string();
            let mut names = config.environment.env.keys().filter(|it| it.len() == 1);
            assert!(names.by_ref().eq(["Z", "A"]), "{configs:?}");
            assert!(
                again.find("\"Z\":\"x\"") < again.find("\"A\":\"x\""),
                "{again}"
            );
        }
    }
}
