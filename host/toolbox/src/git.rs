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
        let mut command = Command::new("git");
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

    /// Stages all changes and returns them.
    pub fn stage(&self) -> Result<Vec<u8>, ToolRefusal> {
        ended("git add -A", self.git(&["add", "-A"]).output())?;
        ended("git diff --cached", self.diff().output())
    }

    /// The changes, without staging them: git works on a copy of the index.
    pub fn changes(&self) -> Result<Vec<u8>, ToolRefusal> {
        let index = self.git(&["rev-parse", "--git-path", "index"]).output();
        let index = ended("git rev-parse", index)?;
        let index = self
            .root
            .join(String::from_utf8_lossy(index.trim_ascii_end()).as_ref());
        let copy = places::beside_registry(&format!("index-{}", std::process::id()));
        // A repository may have no index yet.
        let _ = fs::copy(&index, &copy);
        let mut add = self.git(&["add", "-A"]);
        let made = ended("git add -A", add.env("GIT_INDEX_FILE", &copy).output()).and_then(|_| {
            let mut diff = self.diff();
            ended(
                "git diff --cached",
                diff.env("GIT_INDEX_FILE", &copy).output(),
            )
        });
        let _ = fs::remove_file(&copy);
        made
    }

    fn diff(&self) -> Command {
        // A diff program in the user's settings would not make a patch.
        self.git(&["diff", "--cached", "--no-color", "--no-ext-diff"])
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
