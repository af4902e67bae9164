//! The lines that a run prints before it begins: the model, where commands run, and the paths of
//! the run's files.

use std::path::Path;

use super::shorten::cut_to;
use mswea_config::{Config, EnvironmentKind, Layers, environment_class, resolve_model};

/// The settings that the header shows.
#[derive(Clone, Debug, Default)]
pub struct RunHeader {
    model: String,
    layers: String,
    place: String,
    trajectory: String,
    /// A remark if a name means something other than a user may expect.
    pub(super) notices: Vec<String>,
    /// How a variable of this machine is passed on to commands.
    pub(super) passing: &'static str,
}

/// The most characters of a layer's name, which may be a whole value.
const LONGEST_LAYER: usize = 60;

/// How a variable is passed on to commands.
pub(super) const PASSING: &str = "`-c 'environment.env_allow=[\"NAME\"]'` lets one through";

impl RunHeader {
    /// The header of a run. `folder` is the folder of an earlier run's commands, in which this run
    /// continues; none: the configured folder. `home` is the folder that is shown as `~`.
    pub fn new(
        config: &Config,
        layers: &Layers,
        trajectory: &Path,
        folder: Option<&Path>,
        home: Option<&Path>,
    ) -> Self {
        let name = config.model.model_name.as_deref().unwrap_or("no model");
        let address = resolve_model(config)
            .ok()
            .and_then(|choice| choice.base_url);
        let model = match address {
            Some(address) => format!("{name} at {address}"),
            None => name.to_owned(),
        };
        // Flags are left out, because the user has just typed them.
        let named = layers
            .names()
            .iter()
            .filter(|name| !name.starts_with("flag "));
        let named: Vec<String> = named.map(|name| cut_to(name, LONGEST_LAYER)).collect();
        let here = std::env::current_dir().unwrap_or_default();
        let environment = &config.environment;
        let kind = environment_class(&environment.environment_class).map(|class| class.kind);
        let place = match kind {
            None | Some(EnvironmentKind::Local) => {
                short(folder.unwrap_or(&here.join(&environment.cwd)), home)
            }
            Some(kind) => {
                let mut parts = vec![environment.environment_class.clone()];
                match kind {
                    EnvironmentKind::Remote | EnvironmentKind::Swerex => {
                        parts.extend(environment.url.clone());
                    }
                    EnvironmentKind::Command => {
                        parts.push(cut_to(&environment.connect.join(" "), LONGEST_LAYER));
                    }
                    _ => parts.extend(environment.image.clone()),
                }
                parts.push(environment.cwd.clone());
                parts.retain(|part| !part.is_empty());
                parts.join(" ")
            }
        };
        Self {
            model,
            layers: named.join(" < "),
            place,
            trajectory: short(&here.join(trajectory), home),
            notices: layers.notices().to_vec(),
            passing: match config.agent.rules.as_str() {
                "swe-agent" => "`--agent.tools.propagate_env_variables=NAME` lets one through",
                _ => PASSING,
            },
        }
    }

    /// The two lines of the header.
    pub(super) fn lines(&self) -> [String; 2] {
        let Self {
            model,
            layers,
            place,
            trajectory,
            ..
        } = self;
        let config = match &**layers {
            "" => String::new(),
            layers => format!(" · config: {layers}"),
        };
        [
            format!("model: {model}{config}"),
            format!("in: {place} · trajectory: {trajectory}"),
        ]
    }
}

/// `~/a` in place of `/home/NAME/a`.
fn short(path: &Path, home: Option<&Path>) -> String {
    // `a/.` is `a`.
    let path: std::path::PathBuf = path.components().collect();
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_config::{ProcessEnvironment, Sources};

    fn header(configs: &[&str]) -> [String; 2] {
        let sources = Sources {
            configs: configs.iter().map(|&spec| spec.to_owned()).collect(),
            flags: vec![("agent.step_limit".into(), 3.into(), "--step-limit".into())],
            ..Sources::default()
        };
        let layers = Layers::load(&sources, &ProcessEnvironment).unwrap();
        let config = layers.resolve().unwrap();
        let home = Path::new("/home/u");
        RunHeader::new(
            &config,
            &layers,
            Path::new("/home/u/x/fix.traj.json"),
            None,
            Some(home),
        )
        .lines()
    }

    #[test]
    fn two_lines() {
        let [model, place] = header(&[
            "text",
            "model.model_name=local/qwen",
            "model.base_url=http://127.0.0.1:8000/v1",
            "environment.cwd=/home/u/proj",
        ]);
        assert_eq!(
            model,
            "model: local/qwen at http://127.0.0.1:8000/v1 · config: preset default < preset text < \
             -c model.model_name=local/qwen < -c model.base_url=http://127.0.0.1:8000/v1 < -c \
             environment.cwd=/home/u/proj"
        );
        assert_eq!(place, "in: ~/proj · trajectory: ~/x/fix.traj.json");

        let [model, place] = header(&[
            "model.model_name=gpt-5",
            "swebench",
            "environment.image=a/b",
        ]);
        assert!(
            model.starts_with("model: anthropic/claude-sonnet-4-5-20250929 at https://api.ant")
        );
        assert!(place.starts_with("in: docker a/b /testbed · "), "{place}");
        for (settings, wanted) in [
            (
                [
                    "environment_class=remote",
                    "url=https://h:8443",
                    "token_env=TOKEN",
                ],
                "in: remote https://h:8443 · ",
            ),
            (
                [
                    "environment_class=swerex",
                    "url=http://h:8000",
                    "token_env=T",
                ],
                "in: swerex http://h:8000 · ",
            ),
            (
                [
                    "environment_class=command",
                    "connect=[\"ssh\", \"-T\", \"h\"]",
                    "timeout=9",
                ],
                "in: command ssh -T h · ",
            ),
        ] {
            let settings = settings.map(|setting| format!("environment.{setting}"));
            let place = &header(&[
                "model.model_name=gpt-5",
                &settings[0],
                &settings[1],
                &settings[2],
            ])[1];
            assert!(place.starts_with(wanted), "{place}");
        }
        let here = std::env::current_dir().unwrap();
        let place = &header(&["model.model_name=gpt-5"])[1];
        assert!(place.contains(&*here.to_string_lossy()), "{place}");
    }
}
