//! What the class of environment makes of a configuration: which class is meant, what it has for
//! what was left out, and what contradicts it.

use serde_json::{Map, Value};

use super::environment_class::{self, Kind as EnvironmentKind};
use super::error::{Kind, Problem};
use super::host_env::Environment;
use super::layers::Layers;
use super::node::Node;
use super::origin::Origin;

/// The class that is meant where nothing is said.
const LOCAL: &str = "local";

impl Layers {
    /// Everything that contradicts the class of environment.
    pub(super) fn environment_problems(&self) -> impl Iterator<Item = Problem> {
        [
            self.absent_environment(),
            self.no_image(),
            self.image_for_nobody(),
            self.open_network(),
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

    /// In mini-swe-agent the class `local` has no interpreter: one in its files, which are often
    /// written for containers, means nothing there.
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

    /// Whether local commands are kept in.
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

    /// What the class of environment has for what was left out.
    pub(super) fn complete_environment(&self, root: &mut Map<String, Value>) {
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
}

/// Whether a file of mini-swe-agent set it.
fn is_yaml(origin: &Origin) -> bool {
    matches!(origin, Origin::File { path, .. } if path.ends_with(".yaml") || path.ends_with(".yml"))
}

#[cfg(test)]
mod tests {
    use super::super::layers::Layers;
    use super::super::testing::{Memory, sources};

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
    fn an_interpreter_in_a_file_of_mini_means_nothing_to_local_commands() {
        let yaml = "agent: {system_template: s, instance_template: i}\n\
                    environment: {interpreter: [bash, -lc]}\n";
        let env = Memory::new().file("/work/a.yaml", yaml).file(
            "/work/a.toml",
            "environment.interpreter = [\"zsh\", \"-c\"]\n",
        );
        let docker = "environment.environment_class=docker";
        for (configs, interpreter, told) in [
            (&["a.yaml"][..], &["/bin/sh", "-c"][..], true),
            (
                &["a.yaml", docker, "environment.image=x"],
                &["bash", "-lc"],
                false,
            ),
            // whoever types it means it
            (
                &["a.yaml", "environment.interpreter=[\"x\"]"],
                &["x"],
                false,
            ),
            (&["a.yaml", "a.toml"], &["zsh", "-c"], false),
        ] {
            let layers = env.load(configs).unwrap();
            assert_eq!(
                layers.resolve().unwrap().environment.interpreter,
                interpreter,
                "{configs:?}"
            );
            let warned = layers
                .warnings()
                .iter()
                .any(|text| text.contains("interpreter"));
            assert_eq!(warned, told, "{configs:?}: {:?}", layers.warnings());
        }
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
}
