//! The paths of a run's files: `trajectories/USER/CONFIG__MODEL___ID/ID/`.

use std::path::{Path, PathBuf};

use crate::tree::GivenTree;

/// The folder of a run's files if none is given: below `SWE_AGENT_TRAJECTORY_DIR`, else
/// `trajectories`.
pub fn standard_folder(
    tree: &GivenTree,
    configs: &[String],
    id: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> PathBuf {
    let config = configs.last().map_or("no_config", String::as_str);
    let model = model_id(tree);
    of_user(variable).join(format!("{config}__{model}___{id}"))
}

/// The folder of a replay, if none is given. `stem` is the trajectory's name.
pub fn replay_folder(stem: &str, variable: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    of_user(variable).join(format!("replay___{stem}"))
}

fn of_user(variable: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    let root = set("SWE_AGENT_TRAJECTORY_DIR").unwrap_or_else(|| "trajectories".to_owned());
    let user = ["USER", "LOGNAME"].into_iter().find_map(set);
    let user = user.unwrap_or_else(|| "unknown".to_owned());
    Path::new(&root).join(user)
}

/// The model and its main settings, as a part of a name.
pub fn model_id(tree: &GivenTree) -> String {
    // Attempts may have several models.
    if tree.given("agent.retry_loop").is_some() {
        return "unknown".to_owned();
    }
    let text = |key: &str| {
        tree.given(key)
            .and_then(GivenTree::text)
            .unwrap_or_default()
    };
    let number = |key: &str, default: f64| {
        let given = tree.given(key).and_then(|it| it.value().as_f64());
        format!("{:.2}", given.unwrap_or(default))
    };
    let is_null = tree
        .get(&["agent", "model", "top_p"])
        .is_some_and(GivenTree::is_null);
    let top_p = match is_null {
        true => "None".to_owned(),
        false => number("agent.model.top_p", 1.0),
    };
    format!(
        "{}__t-{}__p-{top_p}__c-{}",
        text("agent.model.name").replace('/', "--"),
        number("agent.model.temperature", 0.0),
        number("agent.model.per_instance_cost_limit", 3.0),
    )
}

/// The longest id. File systems take names of 255 bytes, and the names of an instance's files are
/// longer than its id.
const LONGEST_ID: usize = 200;

/// Why an id can't be the name of a folder; none if it can.
pub(crate) fn unusable_id(id: &str) -> Option<&'static str> {
    match id {
        "" => Some("is empty"),
        it if it.contains(['/', '\\']) => Some("has a slash in it"),
        it if it.starts_with('.') => Some("begins with a dot"),
        it if it.chars().any(char::is_control) => Some("has a control character in it"),
        it if it.len() > LONGEST_ID => Some("is longer than 200 bytes"),
        _ => None,
    }
}

/// The files of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweFiles {
    /// The folder of the run.
    pub run: PathBuf,
    /// The instance.
    pub id: String,
}

impl SweFiles {
    /// The folder of the instance.
    pub fn folder(&self) -> PathBuf {
        self.run.join(&self.id)
    }

    /// A file named after the instance: `traj`, `pred`, `patch`.
    pub fn named(&self, suffix: &str) -> PathBuf {
        self.folder().join(format!("{}.{suffix}", self.id))
    }

    /// The file of the configuration.
    pub fn config(&self) -> PathBuf {
        self.folder().join("config.yaml")
    }

    /// The folder with the files of a challenge.
    pub fn challenge(&self) -> PathBuf {
        self.folder().join("challenge")
    }

    /// The name of the run, which predictions contain as the name of their model.
    pub fn run_name(&self) -> String {
        let name = self.run.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}
