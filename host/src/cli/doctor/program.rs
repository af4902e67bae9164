//! The checks of `self check` that `doctor` does not have: they are about the installed program.

use std::path::Path;

use rustix::fs::Access;
use tokio::runtime::Runtime;

use mswea_executor::probe::{Probe, ProbeState};
use mswea_files::state_folder;
use mswea_plugin_host::{Cache, Loader, builtin};

/// The name of the check of the plugins inside.
pub(super) const PLUGINS: &str = "plugins";

/// Checks the file of the program, the plugins in it, and the folder for its runs.
pub(super) fn probes(runtime: &Runtime) -> Vec<Probe> {
    vec![file(), plugins(runtime), state(&state_folder("runs"))]
}

fn probe(name: &'static str, found: Result<String, (String, &str)>) -> Probe {
    let (state, detail, remedy) = match found {
        Ok(detail) => (ProbeState::Works, detail, ""),
        Err((detail, remedy)) => (ProbeState::Missing, detail, remedy),
    };
    Probe {
        name,
        state,
        detail,
        remedy: remedy.to_owned(),
    }
}

fn file() -> Probe {
    let code = match builtin::is_shipped() {
        true => "with its plugins as machine code",
        false => "without machine code: plugins are compiled at their first use",
    };
    let size = |path: &Path| path.metadata().map(|found| found.len() >> 20);
    let found = std::env::current_exe().and_then(|path| Ok((size(&path)?, path)));
    probe(
        "file",
        match found {
            Ok((size, path)) => Ok(format!("{}, {size} MB, {code}", path.display())),
            Err(error) => Err((
                format!("the program's own file can't be found: {error}"),
                "mount `/proc`",
            )),
        },
    )
}

/// Loads each built-in plugin, which calls its `describe`.
fn plugins(runtime: &Runtime) -> Probe {
    let loader = Loader::new(Cache::of_user());
    let all = builtin::all();
    let broken: Vec<String> = all
        .iter()
        .filter_map(|plugin| {
            let spec = format!("{}/{}", plugin.folder, plugin.name);
            let loaded = runtime.block_on(loader.load(&spec));
            loaded.err().map(|error| error.to_string())
        })
        .collect();
    let remedy =
        "install the program again: its file is damaged, or this machine can't run its plugins";
    probe(
        PLUGINS,
        match broken.first() {
            None => Ok(format!(
                "all {} inside load and describe themselves",
                all.len()
            )),
            Some(first) => Err((
                format!("{} of {} can't be used: {first}", broken.len(), all.len()),
                remedy,
            )),
        },
    )
}

/// Whether runs can be recorded. The check does not make the folder.
fn state(folder: &Path) -> Probe {
    let there = folder.ancestors().find(|above| above.exists());
    let there = there.unwrap_or(Path::new("/"));
    let why = match rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) if there.is_dir() => None,
        Ok(()) => Some("it is no folder".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    probe(
        "state",
        match why {
            None => Ok(format!("{}, for the records of runs", folder.display())),
            Some(why) => Err((
                format!(
                    "{} can't be written: `{}`: {why}",
                    folder.display(),
                    there.display()
                ),
                "make it writable, or set `XDG_STATE_HOME` to a folder that is",
            )),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_folder_is_there_or_can_be_made() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        for (folder, expected) in [
            (root.path().join("a/b"), ProbeState::Works),
            (file.join("runs"), ProbeState::Missing),
        ] {
            assert_eq!(state(&folder).state, expected, "{}", folder.display());
            assert!(!root.path().join("a").exists());
        }
    }
}
