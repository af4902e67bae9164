//! The layers of a configuration: every source with its origin, in order.

use std::path::Path;

use serde_json::Value;

use super::check;
use super::error::{ConfigError, ConfigProblem, Files, ProblemKind};
use super::files::{self, Format, Named};
use super::given_key::{self, GivenKey, KeyChange};
use super::host_env::HostEnvironment;
use super::keys::KEYS;
use super::litellm::unverified;
use super::node::Node;
use super::origin::Origin;
use super::presets;
use super::recorded::RecordedConfig;
use super::redact;
use super::set_by::Ledger;
use super::spec::{self, Spec};
use super::version_1::{self, OldTemplates};

/// The sources of a configuration, as the command line gives them.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The `-c` arguments, in order.
    pub configs: Vec<String>,
    /// Whether to leave out the preset `default`.
    pub no_default_config: bool,
    /// Values of other flags: dotted key, value, name of the flag.
    pub flags: Vec<(String, Value, String)>,
    /// Values that were translated from the configuration of another program, below `flags`: dotted key,
    /// value, the place of the value that it was made of.
    pub translated: Vec<(String, Value, Origin)>,
    /// The config of an earlier run. It replaces the environment variables, because it already
    /// contains the values that these had when that run began.
    pub recorded: Option<RecordedConfig>,
}

/// All layers, lowest first, and what they merge to.
#[derive(Clone, Debug)]
pub struct Layers {
    names: Vec<String>,
    pub(super) merged: Node,
    pub(super) files: Files,
    /// The YAML file because of which the preset `default` was left out.
    pub(super) displaced_by: Option<String>,
    warnings: Vec<String>,
    notices: Vec<String>,
    /// Whether one of them is a file in mini-swe-agent's format.
    pub(super) mini: bool,
    /// The places at which the model's address and its key were set.
    pub(super) ledger: Ledger,
    /// The key itself, if a file of mini-swe-agent holds it.
    pub(super) given_key: Option<GivenKey>,
}

impl Layers {
    /// Reads every source and checks every layer against the table of keys.
    ///
    /// The order is: preset `default`, environment variables, the file that
    /// `MSWEA_MINI_CONFIG_PATH` names if no `-c` names one, the `-c` in their order, flags. So a
    /// variable never overrides a `-c` or a flag. The preset is left out with
    /// `--no-default-config`, and when a `-c` names a YAML file: such files come from
    /// mini-swe-agent, where `-c` replaces the default.
    ///
    /// # Errors
    /// [`ConfigError`] if a source can't be read, does not parse, or holds an unknown key or a
    /// wrong value; it lists all errors of all layers.
    pub fn load(sources: &Sources, env: &dyn HostEnvironment) -> Result<Self, ConfigError> {
        let mut files = Files::default();
        let mut given = Vec::new();
        let mut notices = Vec::new();
        let mut displaced_by = None;
        let specs = sources
            .configs
            .iter()
            .map(|config| Ok((spec::parse(config)?, format!("-c {config}"))))
            .collect::<Result<Vec<_>, ConfigProblem>>()?;
        let names_one = specs.iter().any(|(spec, _)| matches!(spec, Spec::Name(_)));
        let standard = (!sources.no_default_config && !names_one)
            .then(|| env.var(DEFAULT_FILE).filter(|path| !path.is_empty()))
            .flatten()
            .map(|path| (Spec::Name(path.clone()), format!("{DEFAULT_FILE}={path}")));
        for (spec, asked) in standard.into_iter().chain(specs) {
            let item = match spec {
                Spec::Set(node) => Given::Set(node),
                Spec::Name(name) => Given::Named(files::load(&name, &asked, env, &mut files)?),
            };
            match &item {
                Given::Named(Named::File {
                    path,
                    format: Format::Yaml,
                    ..
                }) => {
                    displaced_by.get_or_insert_with(|| path.clone());
                }
                Given::Named(Named::Preset { notice, .. }) => notices.extend(notice.clone()),
                _ => {}
            }
            given.push(item);
        }
        let mut texts = OldTemplates::default();
        let recorded_1 = sources.recorded.as_ref();
        let recorded_1 = recorded_1.and_then(|it| it.of_version_1(&mut texts));
        let is_of_version_1 = given.iter().any(|item| {
            matches!(item, Given::Named(Named::File { format: Format::Yaml, node, .. })
                if version_1::moved_keys(node).is_some())
        });
        for item in &mut given {
            match item {
                Given::Named(Named::File {
                    path,
                    format: Format::Yaml,
                    node,
                    ..
                }) => {
                    let moved = version_1::translate(node, &mut texts);
                    notices.extend(moved.map(|moved| version_1::notice(path, &moved)));
                }
                // An assignment has the keys of the files beside it.
                Given::Set(node) if is_of_version_1 || recorded_1.is_some() => {
                    version_1::translate(node, &mut texts);
                }
                _ => {}
            }
        }
        let mut builder = Builder {
            mini: displaced_by.is_some() || sources.recorded.as_ref().is_some_and(|it| it.mini),
            names: Vec::new(),
            merged: Node::empty(Origin::BuiltIn),
            files,
            problems: Vec::new(),
            warnings: Vec::new(),
            ledger: Ledger::default(),
            given_key: None,
        };
        let implicit =
            !sources.no_default_config && displaced_by.is_none() && sources.recorded.is_none();
        if implicit {
            builder.preset(presets::DEFAULT);
        } else if builder.mini {
            builder.preset(presets::MINI);
        }
        if is_of_version_1 {
            builder.preset(presets::MINI_1);
        }
        match &sources.recorded {
            Some(recorded) => builder.recorded(recorded, recorded_1.as_ref()),
            None => builder.environment(env)?,
        }
        // `-c default` as the first `-c` names the preset that is there already; later it means
        // "back to the default".
        let mut at_default = implicit;
        let mut has_default = implicit || sources.recorded.is_some();
        for item in given {
            match item {
                Given::Named(Named::Preset { name, .. }) if name == presets::DEFAULT => {
                    if !at_default {
                        builder.preset(&name);
                    }
                    has_default = true;
                }
                Given::Named(Named::Preset { name, .. }) => {
                    // Other presets hold only what differs from the default one.
                    if !has_default {
                        builder.preset(presets::DEFAULT);
                        has_default = true;
                    }
                    builder.preset(&name);
                }
                Given::Named(Named::File {
                    path,
                    format,
                    node,
                    warnings,
                    ..
                }) => {
                    builder.warnings.extend(warnings);
                    builder.ledger.note(&node, Some(&path));
                    builder.layer(path, node, format == Format::Yaml);
                }
                Given::Set(node) => {
                    let name = node_spec(&node);
                    let mini = builder.mini;
                    builder.ledger.note(&node, None);
                    builder.layer(name, node, mini);
                }
            }
            at_default = false;
        }
        for (dotted, value, origin) in &sources.translated {
            let path: Vec<&str> = dotted.split('.').collect();
            let node = Node::nested(&path, value.clone(), origin);
            builder.ledger.note(&node, None);
            builder.layer(TRANSLATED.to_owned(), node, false);
        }
        for (dotted, value, flag) in &sources.flags {
            let path: Vec<&str> = dotted.split('.').collect();
            let origin = Origin::Flag { name: flag.clone() };
            let node = Node::nested(&path, value.clone(), &origin);
            builder.ledger.note(&node, None);
            builder.layer(origin.to_string(), node, false);
        }
        if let Some(recorded) = &sources.recorded {
            recorded.give_way(&mut builder.merged);
            builder.problems.extend(recorded.missing(&builder.merged));
        }
        ConfigError::check(builder.problems)?;
        if has_default {
            displaced_by = None;
        }
        let mut layers = Self {
            names: builder.names,
            merged: builder.merged,
            files: builder.files,
            displaced_by,
            warnings: builder.warnings,
            notices,
            mini: builder.mini,
            ledger: builder.ledger,
            given_key: builder.given_key,
        };
        layers.settle_environment(env);
        let dropped = layers.drop_interpreter();
        layers.warnings.extend(dropped);
        layers
            .warnings
            .extend(layers.idle_keys(sources.recorded.as_ref()));
        let kwargs = layers.merged.get(&["model", "model_kwargs"]);
        if let Some(Value::Object(kwargs)) = kwargs.map(Node::to_value) {
            layers.warnings.extend(unverified(&kwargs));
        }
        Ok(layers)
    }

    /// Layers that are presets only.
    fn of_presets(merged: Node, mini: bool) -> Self {
        Self {
            names: Vec::new(),
            merged,
            files: Files::default(),
            displaced_by: None,
            warnings: Vec::new(),
            notices: Vec::new(),
            mini,
            ledger: Ledger::default(),
            given_key: None,
        }
    }

    /// The names of the layers, lowest first, for the line that is shown at the start.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The folders of the config files.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        let files = self.files.names().map(Path::new);
        files
            .filter(|path| path.is_file())
            .filter_map(|path| path.parent())
    }

    /// Warnings for the user.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Remarks about names that mean something else here than the user may expect.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// The origin of the value at `path`, a dotted key or a JSON pointer (which can also name keys
    /// with dots in them). If the value is not set, the origin of the nearest parent that is: the
    /// place to show when a value is missing.
    pub fn origin_of(&self, path: &str) -> Option<Origin> {
        let owned = segments(path);
        let segments: Vec<&str> = owned.iter().map(String::as_str).collect();
        self.merged.origin_of(&segments).cloned()
    }

    /// Whether the value at exactly this path was set, by a preset or the user.
    pub fn has(&self, path: &str) -> bool {
        let owned = segments(path);
        let segments: Vec<&str> = owned.iter().map(String::as_str).collect();
        self.merged.get(&segments).is_some()
    }

    /// The merged layers, without the built-in defaults.
    pub fn merged(&self) -> Value {
        self.merged.to_value()
    }
}

enum Given {
    Set(Node),
    Named(Named),
}

fn node_spec(node: &Node) -> String {
    match &node.origin {
        Origin::Set { spec } => format!(
            "-c {}",
            redact::spec(spec).lines().next().unwrap_or_default()
        ),
        other => other.to_string(),
    }
}

struct Builder {
    /// Whether `-c key=value` accepts mini-swe-agent's keys.
    mini: bool,
    names: Vec<String>,
    merged: Node,
    files: Files,
    problems: Vec<ConfigProblem>,
    warnings: Vec<String>,
    ledger: Ledger,
    given_key: Option<GivenKey>,
}

impl Builder {
    fn layer(&mut self, name: String, mut node: Node, mini: bool) {
        match given_key::take_key(&mut node, mini) {
            KeyChange::None => {}
            KeyChange::Gone => self.given_key = None,
            KeyChange::Taken(key) => self.given_key = Some(key),
        }
        let (problems, warnings) = check::layer(&mut node, mini, &self.files);
        self.problems.extend(problems);
        self.warnings.extend(warnings);
        self.merged.merge(node);
        // One flag may set several keys.
        if self.names.last() != Some(&name) {
            self.names.push(name);
        }
    }

    fn preset(&mut self, name: &str) {
        self.layer(format!("preset {name}"), presets::tree(name), false);
    }

    fn recorded(&mut self, recorded: &RecordedConfig, of_version_1: Option<&RecordedConfig>) {
        if !recorded.mini {
            self.preset(presets::DEFAULT);
        }
        if of_version_1.is_some() {
            self.preset(presets::MINI_1);
        }
        let recorded = of_version_1.unwrap_or(recorded);
        let below = Layers::of_presets(self.merged.clone(), self.mini).complete();
        let layer = recorded.layer(&below);
        let name = recorded.journal.clone();
        self.ledger.note(&layer, Some(&name));
        // Warnings about this layer were printed when the earlier run began.
        let warnings = std::mem::take(&mut self.warnings);
        self.layer(name, layer, recorded.mini);
        self.names = vec!["as recorded".to_owned()];
        self.warnings = warnings;
        self.warnings.extend(recorded.unknown_classes());
    }

    fn environment(&mut self, env: &dyn HostEnvironment) -> Result<(), ConfigError> {
        let mut used = Vec::new();
        for key in KEYS {
            let Some(name) = key.variable else { continue };
            // As in mini-swe-agent, an empty variable counts as unset.
            let Some(text) = env.var(name).filter(|text| !text.is_empty()) else {
                continue;
            };
            let origin = Origin::Variable {
                name: name.to_owned(),
            };
            let value = match name {
                ATTEMPTS => Value::from(retries(&text)?),
                _ => Value::String(text),
            };
            let path: Vec<&str> = key.segments().collect();
            let mut node = Node::nested(&path, value, &origin);
            let (problems, _) = check::layer(&mut node, false, &self.files);
            self.problems.extend(problems);
            self.merged.merge(node);
            if !used.contains(&name) {
                used.push(name);
            }
        }
        if !used.is_empty() {
            self.names
                .push(format!("environment ({})", used.join(", ")));
        }
        Ok(())
    }
}

/// The segments of a path that is dotted or a JSON pointer.
fn segments(path: &str) -> Vec<String> {
    match path.strip_prefix('/') {
        Some(pointer) => pointer
            .split('/')
            .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
            .collect(),
        None => path.split('.').map(str::to_owned).collect(),
    }
}

/// mini-swe-agent's variable for the config file of a run without `-c`.
const DEFAULT_FILE: &str = "MSWEA_MINI_CONFIG_PATH";
/// The name of the layer of translated values.
const TRANSLATED: &str = "translated";
const ATTEMPTS: &str = "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT";

/// The variable counts all attempts, the keys count the retries after the first.
fn retries(text: &str) -> Result<u32, ConfigProblem> {
    match text.trim().parse::<u32>() {
        Ok(attempts) if attempts > 0 => Ok(attempts - 1),
        _ => Err(ConfigProblem::new(
            ProblemKind::WrongValue,
            format!("`{ATTEMPTS}` must be an integer of at least 1, not `{text}`"),
        )
        .hint("it counts attempts: with 1 a request is not sent again")),
    }
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
