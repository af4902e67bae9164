//! What the environment's class changes in a configuration: which class is chosen, its defaults for
//! keys that are not set, and the settings that contradict it.

use serde_json::{Map, Value};

use super::environment_class::{self, EnvironmentKind};
use super::error::{ConfigProblem, ProblemKind};
use super::host_env::HostEnvironment;
use super::keys::KEYS;
use super::layers::Layers;
use super::node::Node;
use super::origin::Origin;
use super::recorded::RecordedConfig;

/// The class if the config names none.
const LOCAL: &str = "local";

impl Layers {
    /// Every setting that contradicts the environment's class.
    pub(super) fn environment_problems(&self) -> impl Iterator<Item = ConfigProblem> {
        [
            self.absent_environment(),
            self.no_image(),
            self.useless_image(),
            self.open_network(),
            self.no_way(),
            self.no_terminal(),
            self.no_shell_for_tools(),
        ]
        .into_iter()
        .flatten()
    }

    /// The class of environment.
    pub(super) fn environment_class(&self) -> String {
        let node = self.merged.get(&["environment", "environment_class"]);
        let class = node.map(Node::to_value);
        let class = class.as_ref().and_then(Value::as_str);
        class.unwrap_or(LOCAL).to_owned()
    }

    /// Sets what the layers imply: an image without a class selects docker, and the environment
    /// variable of a class (`MSWEA_DOCKER_EXECUTABLE`, ...) names its program.
    pub(super) fn settle_environment(&mut self, env: &dyn HostEnvironment) {
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

    /// In mini-swe-agent the class `local` has no interpreter: an interpreter in its files, which
    /// are often written for containers, has no effect on local commands.
    pub(super) fn drop_interpreter(&mut self) -> Option<String> {
        let path = ["environment", "interpreter"];
        let origin = self
            .merged
            .origin_of(&path)
            .filter(|at| is_yaml(at))?
            .clone();
        self.merged.get(&path)?;
        if self.environment_class() != LOCAL {
            return None;
        }
        self.merged.remove(&path[..1], path[1]);
        Some(format!(
            "`environment.interpreter` is ignored in the class `local`, as mini-swe-agent does (set \
             at {origin}): `-c 'environment.interpreter=[\"bash\", \"-c\"]'` sets one"
        ))
    }

    /// The origin of the image if the image selects docker: no class is named, or `--image` ranks
    /// above the layer that names one. In mini-swe-agent's files an image alone selects nothing.
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
                let takes_none = kind.is_some_and(|class| class.kind == EnvironmentKind::Local);
                takes_none && by_flag(image) && !by_flag(class)
            }
        };
        meant.then(|| image.origin.clone())
    }

    /// A network setting that this class can't enforce is an error, so that no user relies on it.
    fn open_network(&self) -> Option<ConfigProblem> {
        let path = ["environment", "sandbox_network"];
        let node = self.merged.get(&path)?;
        let class = self.environment_class();
        if node.to_value() != false || self.is_sandboxed() && class == LOCAL {
            return None;
        }
        let message = format!(
            "`environment.sandbox_network` = false does not switch off the network in the class `{class}` without Landlock"
        );
        let problem = ConfigProblem::new(ProblemKind::WrongValue, message)
            .key(path.join("."))
            .at(&node.origin, "false".len(), &self.files);
        Some(problem.hint(
            "local commands: `environment.sandbox=landlock`; a container: `environment.network=none`; \
             bubblewrap: `--unshare-net` in `environment.wrapper_args`",
        ))
    }

    /// A terminal for commands that have a process each: it is that of a shell.
    fn no_terminal(&self) -> Option<ConfigProblem> {
        let is_on = |path: &[&str; 2]| {
            self.merged
                .get(path)
                .is_some_and(|it| it.to_value() == true)
        };
        let path = ["environment", "pty"];
        if !is_on(&path) || is_on(&["environment", "session"]) {
            return None;
        }
        let node = self.merged.get(&path)?;
        let message = "`environment.pty` = true has no effect without `environment.session` = true: the terminal is that of the shell in which all commands run";
        let problem = ConfigProblem::new(ProblemKind::WrongValue, message.to_owned())
            .key(path.join("."))
            .at(&node.origin, "true".len(), &self.files);
        Some(problem.hint("add `environment.session=true`, or leave out `environment.pty`"))
    }

    /// Tools whose variables would be gone with the shell of the command that has set them.
    fn no_shell_for_tools(&self) -> Option<ConfigProblem> {
        let session = self.merged.get(&["environment", "session"]);
        if session.is_some_and(|it| it.to_value() == true) {
            return None;
        }
        let path = ["tools", "bundles"];
        let node = self.merged.get(&path)?;
        if node.to_value() == Value::Array(Vec::new()) {
            return None;
        }
        let message = "`tools.bundles` needs `environment.session` = true: what an installation sets is gone with its shell".to_owned();
        let problem = ConfigProblem::new(ProblemKind::WrongValue, message)
            .key(path.join("."))
            .at(&node.origin, "bundles".len(), &self.files);
        Some(problem.hint("add `environment.session=true`, or leave out `tools.bundles`"))
    }

    /// The error for `--image` together with a class that takes no image.
    fn useless_image(&self) -> Option<ConfigProblem> {
        let class = self.environment_class();
        let takes = environment_class::classes_of("image")?;
        let image = self.merged.get(&["environment", "image"])?;
        let flag = matches!(image.origin, Origin::Flag { .. });
        if !flag || takes.contains(&class.as_str()) || image.to_value().is_null() {
            return None;
        }
        let message = format!("`--image` has no effect in the class `{class}`");
        Some(
            ConfigProblem::new(ProblemKind::WrongValue, message).hint(format!(
                "name a class that runs images: `{}`",
                takes.join("`, `")
            )),
        )
    }

    fn absent_environment(&self) -> Option<ConfigProblem> {
        let class = self.environment_class();
        let path = ["environment", "environment_class"];
        let node = self.merged.get(&path)?;
        if environment_class::find(&class).is_some() {
            return None;
        }
        let key = path.join(".");
        let message = format!("`{key}` is `{class}`, which this version does not have");
        let problem = ConfigProblem::new(ProblemKind::WrongValue, message)
            .key(&key)
            .at(&node.origin, class.len(), &self.files);
        Some(problem.hint(environment_class::hint(&class)))
    }

    fn no_image(&self) -> Option<ConfigProblem> {
        let class = environment_class::find(&self.environment_class())?;
        let needs = matches!(
            class.kind,
            EnvironmentKind::Container | EnvironmentKind::Singularity
        );
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
            ConfigProblem::new(ProblemKind::Missing, message)
                .key("environment.image")
                .hint("set `environment.image`, or pass `--image IMAGE`"),
        )
    }

    /// A class that reaches another place, without what it reaches it by: a server with one token, or a
    /// program.
    fn no_way(&self) -> Option<ConfigProblem> {
        let class = environment_class::find(&self.environment_class())?;
        let is_set = |key: &str| {
            let node = self.merged.get(&["environment", key]);
            let value = node.map(Node::to_value).unwrap_or_default();
            value.as_str().is_some_and(|text| !text.trim().is_empty())
        };
        let missing = |key: &str, what: &str, hint: &str| {
            let message = format!("the environment class `{}` needs {what}", class.name);
            let problem = ConfigProblem::new(ProblemKind::Missing, message);
            Some(problem.key(format!("environment.{key}")).hint(hint))
        };
        if class.kind == EnvironmentKind::Command {
            let node = self.merged.get(&["environment", "connect"]);
            let value = node.map(Node::to_value).unwrap_or_default();
            let is_set = value.as_array().is_some_and(|list| !list.is_empty());
            return (!is_set).then_some(()).and_then(|()| {
                missing(
                    "connect",
                    "the program that reaches its place",
                    "set `environment.connect` to a program and its arguments, such as \
                     `[\"ssh\", \"-T\", \"HOST\"]`",
                )
            });
        }
        let start = match class.kind {
            EnvironmentKind::Remote => "mswea-host runtime serve",
            EnvironmentKind::Swerex => "swerex-remote",
            _ => return None,
        };
        match (is_set("url"), is_set("token_file"), is_set("token_env")) {
            (false, _, _) => missing(
                "url",
                "the address of a server",
                &format!(
                    "start `{start}` on the machine where commands run, and set `environment.url` \
                     to `https://HOST:PORT`"
                ),
            ),
            (true, false, false) => missing(
                "token_file",
                "the token of its server",
                "set `environment.token_file` to a file with the server's token, or \
                 `environment.token_env` to the name of a variable that holds it",
            ),
            (true, true, true) => {
                let message = "`environment.token_file` and `environment.token_env` are both set";
                let problem = ConfigProblem::new(ProblemKind::WrongValue, message);
                Some(
                    problem
                        .key("environment.token_env")
                        .hint("leave out one of them"),
                )
            }
            (true, _, _) => None,
        }
    }

    /// Whether local commands run in a sandbox.
    pub(super) fn is_sandboxed(&self) -> bool {
        let node = self.merged.get(&["environment", "sandbox"]);
        node.is_some_and(|node| node.to_value() == "landlock")
    }

    /// The warnings about keys that are set and have no effect in the environment's class.
    ///
    /// `recorded`: the config of an earlier run, whose keys were warned about when that run began, and
    /// hold defaults of its class.
    pub(super) fn idle_keys(&self, recorded: Option<&RecordedConfig>) -> Vec<String> {
        let class = self.environment_class();
        let recorded = recorded.filter(|it| it.environment_class() == Some(&class));
        if environment_class::find(&class).is_none() {
            return Vec::new();
        }
        let keys = KEYS
            .iter()
            .filter_map(|key| key.path.strip_prefix("environment."));
        let idle = keys.filter_map(|key| {
            let classes = environment_class::classes_of(key)?;
            let node = self.merged.get(&["environment", key])?;
            let preset = matches!(node.origin, Origin::BuiltIn | Origin::Preset { .. });
            let is_recorded = recorded.is_some_and(|it| it.origin() == node.origin);
            if preset || is_recorded || node.to_value().is_null() {
                return None;
            }
            if classes.contains(&class.as_str()) {
                let idle = ["writable", "sandbox_sockets"].contains(&key) && !self.is_sandboxed();
                return idle.then(|| {
                    format!(
                        "`environment.{key}` has no effect without \
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

    /// Fills in the class's defaults for keys that are not set.
    pub(super) fn complete_environment(&self, root: &mut Map<String, Value>) {
        let Some(class) = environment_class::find(&self.environment_class()) else {
            return;
        };
        let Some(environment) = root.get_mut("environment").and_then(Value::as_object_mut) else {
            return;
        };
        let unset = self.merged.get(&["environment", "interpreter"]).is_none();
        // The presets set an empty interpreter. For local commands, the interpreter is then chosen
        // when the run is set up.
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
        let image = environment.get("image").and_then(Value::as_str);
        let has_image = image.is_some_and(|it| !it.is_empty());
        let is_here = match class.kind {
            EnvironmentKind::Local => true,
            EnvironmentKind::Bubblewrap => !has_image,
            _ => false,
        };
        // A preset's is a file of the image. On this machine it is the user's own, which bash would read before each
        // command, and whose output would stand before that of the command.
        let file = ["environment", "env", "BASH_ENV"];
        let of_preset = |node: &Node| matches!(node.origin, Origin::Preset { .. });
        if is_here
            && self.merged.get(&file).is_some_and(of_preset)
            && let Some(Value::Object(variables)) = environment.get_mut("env")
        {
            variables.remove("BASH_ENV");
        }
        if environment.get("cwd").and_then(Value::as_str) == Some("") {
            environment.insert("cwd".to_owned(), class.kind.cwd(has_image).into());
        }
    }
}

/// Whether a YAML file (mini-swe-agent's format) set it.
fn is_yaml(origin: &Origin) -> bool {
    matches!(origin, Origin::File { path, .. } if path.ends_with(".yaml") || path.ends_with(".yml"))
}

#[cfg(test)]
mod tests;
