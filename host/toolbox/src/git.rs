//! The changes of the repository as a patch, made with the image's own git.

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::answer::{Readable, ToolRefusal};
use crate::places;
use crate::registry::Values;

/// The work tree of a repository.
pub struct WorkTree {
    root: PathBuf,
}

impl WorkTree {
    /// The repository of the run: `ROOT`, else the working directory. None if there is no
    /// repository, which is no error: some tasks have none.
    pub fn of(values: &Values) -> Option<Self> {
        let root = values.text("ROOT").map(PathBuf::from);
        let root = root.or_else(|| env::current_dir().ok())?;
        // Without git, because git also fails for other reasons, which are reported.
        let inside = root
            .ancestors()
            .any(|folder| fs::symlink_metadata(folder.join(".git")).is_ok());
        inside.then_some(Self { root })
    }

    fn git(&self, arguments: &[&str]) -> Command {
        let mut command = mswea_git::command();
        command.current_dir(&self.root).args(arguments);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Reverts a patch, if the patch file is not empty.
    pub fn take_back(&self, patch: &Path) -> Result<(), ToolRefusal> {
        let content = fs::read(patch).unwrap_or_default();
        if content.is_empty() {
            return Ok(());
        }
        let mut command = self.git(&["apply", "-R"]);
        let child = command.stdin(Stdio::piped()).spawn();
        let output = child.and_then(|mut child| {
            if let Some(mut input) = child.stdin.take() {
                // git may have ended already; its message then says why.
                let _ = input.write_all(&content);
            }
            child.wait_with_output()
        });
        ended("git apply -R", output).map(drop)
    }

    /// Stages all changes and returns them as a patch.
    pub fn stage(&self) -> Result<Vec<u8>, ToolRefusal> {
        // The patch does not need the index, so that a repository of another user or a filter that fails costs no work. It
        // is made first, because filters of the repository may leave files.
        let patch = self.changes();
        let staged = ended("git add -A", self.git(&["add", "-A"]).output());
        patch.or_else(|refusal| {
            staged.map_or(Err(refusal), |_| {
                ended(
                    "git diff --cached",
                    self.git(&["diff", "--cached"]).output(),
                )
            })
        })
    }

    /// The changes as a patch, without staging them: since the start of the run, which the host has noted in the script that
    /// it has left beside the registry; else since the last commit.
    pub fn changes(&self) -> Result<Vec<u8>, ToolRefusal> {
        let script = fs::read_to_string(places::beside_registry("changes"))
            .unwrap_or_else(|_| mswea_git::changes("", None, mswea_git::Since::Files));
        let mut command = mswea_git::shell(&script);
        let printed = ended("git diff", command.current_dir(&self.root).output())?;
        let printed = String::from_utf8_lossy(&printed);
        match mswea_git::SavedChanges::of(&printed) {
            Some(saved) if saved.archive.is_none() => Ok(saved.patch.into_bytes()),
            Some(saved) => Err(ToolRefusal::one(format!(
                "Error: {}",
                saved.notes.join("; ")
            ))),
            None => Err(ToolRefusal::one(
                "Error: the changes can't be found".to_owned(),
            )),
        }
    }
}

/// The output of a command of git.
fn ended(what: &str, output: std::io::Result<Output>) -> Result<Vec<u8>, ToolRefusal> {
    let problem = match output {
        Ok(output) if output.status.success() => return Ok(output.stdout),
        Ok(output) => Readable(output.stderr.trim_ascii()).to_string(),
        Err(error) => format!("git can't be run: {error}"),
    };
    Err(ToolRefusal::one(format!(
        "Error: `{what}` failed: {problem}"
    )))
}
