//! From layers to the resolved [`Config`].

use serde_json::{Map, Value};

use super::environment_class::{self, Kind as EnvironmentKind};
use super::error::{ConfigError, Kind, Problem};
use super::host_env::Environment;
use super::keys::{KEYS, Key, Type};
use super::layers::Layers;
use super::litellm;
use super::model_class;
use super::node::Node;
use super::origin::Origin;
use super::redact;
use super::sections::Config;

/// How mini-swe-agent finds the command in a text.
const TEXT_REGEX: &str = r"```mswea_bash_command\s*\n(.*?)\n```";

/// The class that is meant where nothing is said.
const LOCAL: &str = "local";

/// Parts of names of models whose provider wants to be told what it may cache.
const CLAUDE: [&str; 4] = ["anthropic", "sonnet", "opus", "claude"];

/// Whether the end of the history is marked for the cache if nobody says anything about it, as
/// mini-swe-agent does.
fn is_claude(config: &Config) -> bool {
    let name = config.model.model_name.as_deref().unwrap_or_default();
    let name = name.to_lowercase();
    !name.starts_with("replay/") && CLAUDE.iter().any(|word| name.contains(word))
}

impl Layers {
    /// Fills the defaults in and checks what only the whole can show.
    ///
    /// # Errors
    /// When a required value is missing or values do not go together.
    pub fn resolve(&self) -> Result<Config, ConfigError> {
        let mut problems = self.missing();
        problems.extend(self.bad_price());
        problems.extend(self.absent_environment());
        problems.extend(self.no_image());
        problems.extend(self.image_for_nobody());
        problems.extend(self.open_network());
        problems.extend(litellm::credentials(self));
        problems.extend(self.bad_digests());
        problems.extend(self.bad_variables());
        ConfigError::check(problems)?;
        let mut config: Config = serde_json::from_value(self.complete()).map_err(|error| {
            // Every layer was checked against the same table that the sections mirror.
            Problem::new(
                Kind::WrongValue,
                format!("the configuration does not fit together: {error}"),
            )
            .hint("this is a fault of mswea-host: please report it with your configuration")
        })?;
        // mini-swe-agent selects the parser by the model class; an explicit choice wins.
        let class = config.model.model_class.as_deref();
        if class
            .and_then(model_class::find)
            .is_some_and(|class| class.text)
            && self.merged.get(&["pipeline", "parser"]).is_none()
        {
            "text_regex".clone_into(&mut config.pipeline.parser);
            // As its trajectories show it; what the parser takes anyway.
            if self.mini {
                let regex = &mut config.model.action_regex;
                regex.get_or_insert_with(|| TEXT_REGEX.to_owned());
            }
        }
        if self.merged.get(&["model", "set_cache_control"]).is_none() && is_claude(&config) {
            config.model.set_cache_control = Some("default_end".to_owned());
        }
        litellm::translate(&mut config.model);
        config.mini = self.mini;
        Ok(config)
    }

    /// What the class of environment has for what was left out.
    fn complete_environment(&self, root: &mut Map<String, Value>) {
        let Some(class) = environment_class::find(&self.environment_class()) else {
            return;
        };
        let Some(environment) = root.get_mut("environment").and_then(Value::as_object_mut) else {
            return;
        };
        let unset = self.merged.get(&["environment", "interpreter"]).is_none();
        // The presets leave it open, which for this machine is settled when the run is made.
        let open = unset || environment.get("interpreter") == Some(&Value::Array(Vec::new()));
        if class.kind != EnvironmentKind::Local && open {
            let words: Vec<Value> = class
                .kind
                .interpreter()
                .iter()
                .map(|&word| word.into())
                .collect();
            environment.insert("interpreter".to_owned(), Value::Array(words));
        }
        if environment.get("cwd").and_then(Value::as_str) == Some("") {
            environment.insert("cwd".to_owned(), class.kind.cwd().into());
        }
    }

    /// The merged value with every default filled in.
    pub(super) fn complete(&self) -> Value {
        let mut root = Map::new();
        for key in KEYS {
            let segments: Vec<&str> = key.segments().collect();
            // Keep the sections in the table's order even if they stay empty.
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

    fn effective(&self, key: &Key, path: &[&str]) -> Value {
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

    fn missing(&self) -> Vec<Problem> {
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
            Some(path) => Problem::new(
                Kind::Missing,
                format!(
                    "no value for {missing}: `{path}` is a YAML file, and with one the preset \
                     `default` is left out, as in mini-swe-agent"
                ),
            )
            .hint(format!(
                "add {missing} to it, or lay it over the preset: `-c default -c {path}`"
            )),
            None => Problem::new(
                Kind::Missing,
                format!("no value for {missing}: the preset `default` is left out"),
            )
            .hint(format!("set {missing}, or drop `--no-default-config`")),
        };
        vec![problem]
    }

    fn bad_price(&self) -> Option<Problem> {
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
        let problem = Problem::new(Kind::Missing, format!("`model.price` has no `{name}`"))
            .key("model.price")
            .hint("give both `input` and `output`, in dollars per million tokens");
        Some(match self.merged.origin_of(&["model", "price"]) {
            Some(origin) => problem.at(origin, "price".len(), &self.files),
            None => problem,
        })
    }

    /// The class of environment.
    pub(super) fn environment_class(&self) -> String {
        let node = self.merged.get(&["environment", "environment_class"]);
        let class = node.map(Node::to_value);
        let class = class.as_ref().and_then(Value::as_str);
        class.unwrap_or(LOCAL).to_owned()
    }

    /// Lays what follows from the layers over them: an image without a class means docker, and
    /// the class says which variable names its program.
    pub(super) fn settle_environment(&mut self, env: &dyn Environment) {
        if let Some(origin) = self.meant_by_image() {
            let path = ["environment", "environment_class"];
            let node = Node::nested(&path, "docker".into(), &origin);
            self.merged.merge(node);
        }
        let class = environment_class::find(&self.environment_class());
        let path = ["environment", "executable"];
        let given = self.merged.get(&path);
        if given.is_some_and(|node| !node.to_value().is_null()) {
            return;
        }
        let Some(name) = class.and_then(|class| class.variable) else {
            return;
        };
        if let Some(program) = env.var(name).filter(|program| !program.is_empty()) {
            let name = name.to_owned();
            let node = Node::nested(&path, program.into(), &Origin::Variable { name });
            self.merged.merge(node);
        }
    }

    /// Who gave the image, if it means docker: nobody named a class, or `--image` stands above
    /// whoever did. In the files of mini-swe-agent an image alone means nothing.
    fn meant_by_image(&self) -> Option<Origin> {
        let class = self.merged.get(&["environment", "environment_class"]);
        let image = self.merged.get(&["environment", "image"])?;
        if image.to_value().is_null() {
            return None;
        }
        let by_flag = |node: &Node| matches!(node.origin, Origin::Flag { .. });
        let meant = match class {
            None => !is_yaml(&image.origin),
            Some(class) => {
                let name = class.to_value();
                let kind = name.as_str().and_then(environment_class::find);
                let takes_none = kind.is_some_and(|class| {
                    matches!(
                        class.kind,
                        EnvironmentKind::Local | EnvironmentKind::Bubblewrap
                    )
                });
                takes_none && by_flag(image) && !by_flag(class)
            }
        };
        meant.then(|| image.origin.clone())
    }

    /// A wish that would not be kept, and whoever has it must not believe that it is.
    fn open_network(&self) -> Option<Problem> {
        let path = ["environment", "sandbox_network"];
        let node = self.merged.get(&path)?;
        let class = self.environment_class();
        if node.to_value() != false || self.is_sandboxed() && class == LOCAL {
            return None;
        }
        let message = format!(
            "`environment.sandbox_network` = false takes no network away in the class `{class}` \
             without Landlock"
        );
        let problem = Problem::new(Kind::WrongValue, message)
            .key(path.join("."))
            .at(&node.origin, "false".len(), &self.files);
        Some(problem.hint(
            "local commands: `environment.sandbox=landlock`; a container: `environment.network=none`; \
             bubblewrap: `--unshare-net` in `environment.wrapper_args`",
        ))
    }

    /// `--image` and `--environment-class` of a class that takes none.
    fn image_for_nobody(&self) -> Option<Problem> {
        let class = self.environment_class();
        let takes = environment_class::classes_of("image")?;
        let image = self.merged.get(&["environment", "image"])?;
        let flag = matches!(image.origin, Origin::Flag { .. });
        if !flag || takes.contains(&class.as_str()) || image.to_value().is_null() {
            return None;
        }
        let message = format!("`--image` has no place in the class `{class}`");
        Some(Problem::new(Kind::WrongValue, message).hint(format!(
            "name one that runs images: `{}`",
            takes.join("`, `")
        )))
    }

    fn absent_environment(&self) -> Option<Problem> {
        let class = self.environment_class();
        let path = ["environment", "environment_class"];
        let node = self.merged.get(&path)?;
        if environment_class::find(&class).is_some() {
            return None;
        }
        let key = path.join(".");
        let message = format!("`{key}` is `{class}`, which this version does not have");
        let problem = Problem::new(Kind::WrongValue, message).key(&key).at(
            &node.origin,
            class.len(),
            &self.files,
        );
        Some(problem.hint(environment_class::hint(&class)))
    }

    fn no_image(&self) -> Option<Problem> {
        let class = environment_class::find(&self.environment_class())?;
        let needs = environment_class::classes_of("image")?.contains(&class.name);
        let image = self.merged.get(&["environment", "image"]);
        let given = image.is_some_and(|node| {
            node.to_value()
                .as_str()
                .is_some_and(|name| !name.trim().is_empty())
        });
        if !needs || given {
            return None;
        }
        let message = format!("the environment class `{}` needs an image", class.name);
        Some(
            Problem::new(Kind::Missing, message)
                .key("environment.image")
                .hint("set `environment.image`, or pass `--image IMAGE`"),
        )
    }

    pub(super) fn is_sandboxed(&self) -> bool {
        let node = self.merged.get(&["environment", "sandbox"]);
        node.is_some_and(|node| node.to_value() == "landlock")
    }

    /// What was asked for and has no effect in the class of environment.
    pub(super) fn idle_keys(&self) -> Vec<String> {
        let class = self.environment_class();
        if environment_class::find(&class).is_none() {
            return Vec::new();
        }
        let idle = environment_class::keys().filter_map(|key| {
            let classes = environment_class::classes_of(key)?;
            let node = self.merged.get(&["environment", key])?;
            let preset = matches!(node.origin, Origin::BuiltIn | Origin::Preset { .. });
            if preset || node.to_value().is_null() {
                return None;
            }
            if classes.contains(&class.as_str()) {
                let idle = key == "writable" && !self.is_sandboxed();
                return idle.then(|| {
                    format!(
                        "`environment.writable` has no effect without \
                         `environment.sandbox=landlock` (set at {})",
                        node.origin
                    )
                });
            }
            Some(format!(
                "`environment.{key}` has no effect in the class `{class}`: it is for `{}` (set at {})",
                classes.join("`, `"),
                node.origin
            ))
        });
        idle.collect()
    }

    fn bad_digests(&self) -> Vec<Problem> {
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
            let problem = Problem::new(Kind::WrongValue, message)
                .hint("`mswea-host plugin inspect FILE` prints the digest of a plugin");
            let origin = self.merged.origin_of(&path)?;
            Some(problem.key(key).at(origin, "sha256".len(), &self.files))
        });
        digests.collect()
    }

    /// The system takes neither such names nor such values, and would say so only in the
    /// middle of a run.
    fn bad_variables(&self) -> Vec<Problem> {
        let names = self.names_under(&["environment", "env"]);
        let bad = names.iter().filter_map(|name| {
            let path = ["environment", "env", name.as_str()];
            let value = self.merged.get(&path)?.to_value();
            let nul = value.as_str().is_some_and(|value| value.contains('\0'));
            let what = if name.is_empty() || name.contains(['=', '\0']) {
                "is no name of a variable"
            } else if nul {
                "has a NUL character in its value"
            } else {
                return None;
            };
            let problem = Problem::new(
                Kind::WrongValue,
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
    /// The whole as JSON for the journal and the trajectory, with what looks like a secret
    /// replaced by `[redacted]`.
    pub fn redacted(&self) -> Value {
        // Text keys and JSON values only: nothing in here can fail to serialise.
        redact::redacted(&serde_json::to_value(self).unwrap_or_default())
    }
}

/// Whether a file of mini-swe-agent set it.
fn is_yaml(origin: &Origin) -> bool {
    matches!(origin, Origin::File { path, .. } if path.ends_with(".yaml") || path.ends_with(".yml"))
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

    use super::super::litellm::WireKwargs;
    use super::super::testing::{Memory, sources};
    use super::*;

    #[test]
    fn an_environment_that_is_not_here_may_be_covered_by_a_later_layer() {
        let env = Memory::new().file(
            "/work/b.yaml",
            "agent: {system_template: s, instance_template: i}\n\
             environment:\n  image: x\n  environment_class: contree\n",
        );
        let text = env.resolve(&["b.yaml"]).unwrap_err().to_string();
        for part in [
            "`environment.environment_class` is `contree`, which this version does not have",
            "b.yaml:4:22",
            "-c environment.environment_class=local",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let local = "environment.environment_class=local";
        let config = env.resolve(&["b.yaml", local]).unwrap();
        assert_eq!(config.environment.environment_class, "local");
    }

    #[test]
    fn classes_of_environments_have_their_own_defaults() {
        let yaml = "agent: {system_template: s, instance_template: i}\nenvironment: {image: x}\n";
        let mini = "agent: {system_template: s, instance_template: i}\n\
                    environment: {image: x, environment_class: docker, wrapper_args: []}\n";
        let env = Memory::new()
            .file("/work/a.yaml", yaml)
            .file("/work/b.yaml", mini);
        let class = "environment.environment_class";
        let idle = |key: &str, class: &str, of: &str, at: &str| {
            vec![format!(
                "`environment.{key}` has no effect in the class `{class}`: it is for `{of}` (set at {at})"
            )]
        };
        let none = Vec::new();
        let (bash, sh) = (&["bash", "-lc"][..], &["/bin/sh", "-c"][..]);
        for (configs, class, cwd, interpreter, warnings) in [
            (&[][..], "local", "", &[][..], none.clone()),
            (&["environment.image=x"], "docker", "/", bash, none.clone()),
            (
                &["environment.image=x", &format!("{class}=podman")],
                "podman",
                "/",
                bash,
                none.clone(),
            ),
            (
                &["environment.image=x", &format!("{class}=local")],
                "local",
                "",
                &[],
                idle(
                    "image",
                    "local",
                    "docker`, `podman`, `singularity`, `apptainer",
                    "-c environment.image=x",
                ),
            ),
            (
                &[
                    "environment.image=x",
                    "environment.interpreter=[\"sh\", \"-c\"]",
                    "environment.cwd=/w",
                ],
                "docker",
                "/w",
                &["sh", "-c"],
                none.clone(),
            ),
            (
                &[&format!("{class}=bubblewrap")],
                "bubblewrap",
                "",
                &["bash", "-c"],
                none.clone(),
            ),
            // What mini-swe-agent makes of it: its own class is `local`.
            (
                &["a.yaml"],
                "local",
                "",
                sh,
                idle(
                    "image",
                    "local",
                    "docker`, `podman`, `singularity`, `apptainer",
                    "a.yaml:2",
                ),
            ),
            (
                &["b.yaml"],
                "docker",
                "/",
                bash,
                idle("wrapper_args", "docker", "bubblewrap", "b.yaml:2"),
            ),
        ] {
            let layers = env.load(configs).unwrap();
            let environment = layers.resolve().unwrap().environment;
            assert_eq!(environment.environment_class, class, "{configs:?}");
            assert_eq!(environment.cwd, cwd, "{configs:?}");
            assert_eq!(environment.interpreter, interpreter, "{configs:?}");
            assert_eq!(layers.warnings(), warnings, "{configs:?}");
        }
        // `--image` stands above whoever named the class.
        let with_image = |configs: &[&str], class: Option<&str>| {
            let flag = |key: &str, value: &str, flag: &str| {
                (key.to_owned(), value.into(), flag.to_owned())
            };
            let mut sources = sources(configs);
            sources
                .flags
                .push(flag("environment.image", "y", "--image"));
            if let Some(class) = class {
                let key = "environment.environment_class";
                sources.flags.push(flag(key, class, "--environment-class"));
            }
            let layers = Layers::load(&sources, &env).unwrap();
            let shown = layers.show(true);
            let config = layers.resolve().map_err(|error| error.to_string())?;
            assert!(
                shown.contains("environment.image = \"y\"  # flag --image"),
                "{shown}"
            );
            let class = config.environment.environment_class;
            assert!(
                shown.contains(&format!("environment_class = \"{class}\"")),
                "{shown}"
            );
            Ok::<_, String>(class)
        };
        let local = format!("{class}=local");
        assert_eq!(with_image(&["a.yaml"], None).unwrap(), "docker");
        assert_eq!(with_image(&[&local], None).unwrap(), "docker");
        assert_eq!(with_image(&[], Some("podman")).unwrap(), "podman");
        let refused = with_image(&[], Some("bubblewrap")).unwrap_err();
        assert!(
            refused.contains("`--image` has no place in the class `bubblewrap`"),
            "{refused}"
        );
        // What is shown loads again, and means the same.
        let given = env
            .load(&["environment.image=x", "environment.cpus=2"])
            .unwrap();
        let again = env.file("/work/shown.toml", &given.show(false));
        let again = again.load(&["shown.toml"]).unwrap();
        assert_eq!(again.warnings(), Vec::<String>::new());
        assert_eq!(again.resolve().unwrap(), given.resolve().unwrap());
        let env = Memory::new();
        for wish in [
            &["environment.sandbox_network=false"][..],
            &["environment.sandbox_network=false", "environment.image=x"],
        ] {
            let text = env.resolve(wish).unwrap_err().to_string();
            assert!(text.contains("takes no network away"), "{text}");
        }
        let landlock = [
            "environment.sandbox_network=false",
            "environment.sandbox=landlock",
        ];
        env.resolve(&landlock).unwrap();
        let text = env
            .resolve(&[&format!("{class}=docker")])
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("needs an image") && text.contains("--image"),
            "{text}"
        );
    }

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
                &["`A=B` in `environment.env` is no name"],
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
            Value::Object(WireKwargs::of(&config, false).parameters),
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
}
