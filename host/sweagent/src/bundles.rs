//! Which folder a bundle or a demonstration of a configuration is in.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::configs;
use crate::fault::SweAgentProblem;
use crate::flags::expand;
use crate::given_at::GivenAt;
use crate::tree::{GivenContent, GivenTree};

/// The variable with the folder to which SWE-agent's paths are relative.
const ROOT: &str = "SWE_AGENT_CONFIG_ROOT";
/// The files and folders that make a folder the root of a repository.
const REPOSITORY: &str = ".git";
/// The bits of a mode with which everybody may write.
const WRITABLE_BY_ALL: u32 = 0o002;

/// The folder of a bundle, if there is one; else the name of the first-party bundle that replaces it.
///
/// # Errors
/// [`SweAgentProblem`] if there is neither.
pub(crate) fn located(
    path: &str,
    at: &GivenAt,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String, SweAgentProblem> {
    let path = expand(path, variable)?;
    if configs::is_shipped(at) {
        // A bundle of this host's own, whatever the current folder contains.
        return Ok(first_party(&path).unwrap_or(&path).to_owned());
    }
    let is_bundle = |place: &Path| place.join("config.yaml").is_file();
    if let Some(folder) = found(&path, at, variable, &is_bundle) {
        return Ok(folder.to_string_lossy().into_owned());
    }
    match first_party(&path) {
        Some(name) => Ok(name.to_owned()),
        None => {
            let message = format!("there is no bundle `{path}`: a folder with `config.yaml`");
            Err(SweAgentProblem::at(at, message).hint(searched(at)))
        }
    }
}

/// The path of a file that a configuration names, if it is there; else as it was given.
pub(crate) fn located_file(
    path: &str,
    at: &GivenAt,
    variable: &dyn Fn(&str) -> Option<String>,
) -> PathBuf {
    found(path, at, variable, &Path::is_file).unwrap_or_else(|| path.into())
}

/// The hint about a path that was not found.
pub(crate) fn searched(at: &GivenAt) -> String {
    let places = match at {
        GivenAt::Record(_) => "a path of a recorded run",
        GivenAt::File { .. } => {
            "a path in a config belongs to the nearest folder above the config that has it, up to the root of its repository"
        }
        GivenAt::Flag(_) | GivenAt::Variable(_) => "a path in a flag belongs to the current folder",
    };
    format!("{places}; `{ROOT}` names another folder, as that of a clone of SWE-agent")
}

/// The same configuration with the whole paths of its bundles, so that its record means them anywhere.
#[must_use]
pub fn with_located_bundles(
    tree: &GivenTree,
    variable: &dyn Fn(&str) -> Option<String>,
) -> GivenTree {
    let locate = |agent: &mut GivenTree| {
        if let Some(bundles) = agent.get_mut(&["tools", "bundles"]) {
            bundles.each_item(|bundle| {
                let at = bundle.at.clone();
                if let Some(path) = bundle.get_mut(&["path"])
                    && let Some(text) = path.text()
                    && let Ok(folder) = located(text, &at, variable)
                    && folder.starts_with('/')
                {
                    path.content = GivenContent::Leaf(folder.into());
                }
            });
        }
    };
    let mut tree = tree.clone();
    if let Some(agent) = tree.get_mut(&["agent"]) {
        locate(agent);
        if let Some(agents) = agent.get_mut(&["agent_configs"]) {
            agents.each_item(locate);
        }
    }
    tree
}

/// What a relative path leads to, in the folders that the place of the value allows.
fn found(
    path: &str,
    at: &GivenAt,
    variable: &dyn Fn(&str) -> Option<String>,
    fits: &dyn Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let root = variable(ROOT).filter(|root| !root.is_empty());
    let mut places: Vec<PathBuf> = root.into_iter().map(PathBuf::from).collect();
    let here = std::env::current_dir().unwrap_or_default();
    match at {
        GivenAt::File { path: config, .. } => {
            let config = std::path::absolute(config).unwrap_or_else(|_| config.into());
            places.extend(above(&config, &here));
        }
        // A record does not choose among the folders of this machine.
        GivenAt::Record(_) => {}
        GivenAt::Flag(_) | GivenAt::Variable(_) => places.push(here.clone()),
    }
    if Path::new(path).is_absolute() {
        places = vec![here];
    }
    let joined = places.iter().map(|place| place.join(path));
    let whole = joined.map(|path| std::path::absolute(&path).unwrap_or(path));
    whole.into_iter().find(|path| fits(path))
}

/// The folders above a config to which its paths may be relative, the nearest first: up to the root of its
/// repository, or to the current folder; else as far as they belong to the config's owner alone, because
/// somebody else may put bundles into a folder that all users share.
fn above(config: &Path, here: &Path) -> Vec<PathBuf> {
    let owner = std::fs::metadata(config).map(|it| it.uid()).ok();
    let is_own = |folder: &Path| {
        std::fs::metadata(folder)
            .is_ok_and(|it| Some(it.uid()) == owner && it.mode() & WRITABLE_BY_ALL == 0)
    };
    let folders = config.ancestors().skip(1);
    let has_repository = folders.clone().any(|it| it.join(REPOSITORY).exists());
    let is_below = config.starts_with(here);
    let mut places = Vec::new();
    for (depth, folder) in folders.enumerate() {
        if depth > 0 && !(has_repository || is_below || is_own(folder)) {
            break;
        }
        places.push(folder.to_owned());
        if folder.join(REPOSITORY).exists() || (!has_repository && folder == here) {
            break;
        }
    }
    places
}

/// The name of the first-party bundle that replaces SWE-agent's.
fn first_party(path: &str) -> Option<&str> {
    let name = path.trim_end_matches('/').strip_prefix("tools/");
    name.filter(|name| !name.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_bundle_is_found_however_deep_its_config_lies() {
        for has_repository in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap().join("mine");
            fs::create_dir_all(root.join("tools/ask")).unwrap();
            fs::write(root.join("tools/ask/config.yaml"), "tools: {}").unwrap();
            if has_repository {
                fs::create_dir(root.join(".git")).unwrap();
            }
            for deep in ["", "config", "config/exotic", "a/b/c/d/e"] {
                let config = root.join(deep).join("c.yaml");
                fs::create_dir_all(root.join(deep)).unwrap();
                fs::write(&config, "").unwrap();
                let at = GivenAt::File {
                    path: config.display().to_string(),
                    line: 1,
                    column: 1,
                };
                let nothing = |_: &str| None;
                let path = located("tools/ask", &at, &nothing).unwrap();
                assert_eq!(path, root.join("tools/ask").display().to_string(), "{deep}");
                // A nearer folder with `tools/` and without this bundle does not hide it.
                let nearer = root.join(deep).join("tools/other");
                fs::create_dir_all(nearer).unwrap();
                let path = located("tools/ask", &at, &nothing).unwrap();
                assert!(path.ends_with("mine/tools/ask"), "{deep}: {path}");
                assert_eq!(located("tools/submit", &at, &nothing).unwrap(), "submit");
                let told = located("own/none", &at, &nothing).unwrap_err().to_string();
                assert!(told.contains("`SWE_AGENT_CONFIG_ROOT`"), "{told}");
                // A record means what its user has, or this host's own.
                let record = GivenAt::Record("c.traj".to_owned());
                assert_eq!(located("tools/ask", &record, &nothing).unwrap(), "ask");
                let named = root.display().to_string();
                let variable = |name: &str| (name == ROOT).then(|| named.clone());
                let path = located("tools/ask", &record, &variable).unwrap();
                assert!(path.ends_with("mine/tools/ask"), "{path}");
            }
        }
    }

    #[test]
    fn the_search_ends_at_the_root_of_the_repository() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("tools/ask");
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("config.yaml"), "tools: {}").unwrap();
        let repository = folder.path().join("repository");
        fs::create_dir_all(repository.join(".git")).unwrap();
        fs::write(repository.join("c.yaml"), "").unwrap();
        let at = GivenAt::File {
            path: repository.join("c.yaml").display().to_string(),
            line: 1,
            column: 1,
        };
        assert_eq!(located("tools/ask", &at, &|_| None).unwrap(), "ask");
    }
}
