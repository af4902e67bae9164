//! The settings of a workspace, and values that follow from them before the start.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::source::RepositorySource;
use mswea_core::ExecutorError;

/// A shell command that runs before the first action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartupCommand {
    /// The rendered command.
    pub text: String,
    /// The config key that it came from, for messages.
    pub key: &'static str,
}

/// The settings of a workspace.
#[derive(Clone, Default)]
pub struct WorkspaceSettings {
    /// The repository to work on: a URL, which git clones inside the environment, or a folder of
    /// the host, which is copied unchanged. A relative path is relative to the current folder of
    /// this process. None: an existing repository.
    pub repo: Option<String>,
    /// The place of the working copy, which may not exist yet; see [`WorkspaceSettings::settle`].
    pub repo_path: String,
    /// The commit, tag or branch to check out.
    pub base_commit: Option<String>,
    /// Whether to discard changes since the last commit, and files that git does not track.
    pub reset: bool,
    /// Shell commands that run in order after that.
    pub startup_commands: Vec<StartupCommand>,
    /// The time limit of each of them, and of each step of git; zero: 300 seconds.
    pub startup_timeout: Duration,
    /// Whether the environment has the host's own disk (`local`, `bubblewrap`, `landlock`): the
    /// folder is then made before the environment starts, and removed if that fails.
    pub on_host: bool,
    /// The run's id, for the message to another run that needs the same folder.
    pub run_id: String,
    /// The program of the guardian; see [`LocalSettings`](crate::LocalSettings).
    pub guard_program: Option<PathBuf>,
    /// The working directory of commands; [`WorkspaceSettings::settle`] finds out.
    pub cwd: String,
    /// Whether a tool submits all that differs from the commit at the start, also what the set-up has
    /// changed, as SWE-agent's does.
    pub submits_set_up: bool,
    /// Whether the user set `repo_path`; [`WorkspaceSettings::settle`] finds out. Uncommitted work
    /// in a folder of the host that the user did not name is not discarded.
    pub path_is_chosen: bool,
}

/// A derived one would print the secrets of `repo`.
impl std::fmt::Debug for WorkspaceSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkspaceSettings")
            .field("repo_path", &self.repo_path)
            .field("base_commit", &self.base_commit)
            .field("reset", &self.reset)
            .finish_non_exhaustive()
    }
}

impl WorkspaceSettings {
    /// Whether there is no workspace, and only the state of the files at the start is noted, which the patch at the end is
    /// counted from.
    pub fn is_only_noted(&self) -> bool {
        !self.has_repository()
    }

    /// Whether there is a repository.
    pub fn has_repository(&self) -> bool {
        self.repo.is_some()
            || !self.repo_path.is_empty()
            || self.base_commit.is_some()
            || self.reset
    }

    /// Decides where the repository goes, and returns the working directory of commands, for the
    /// inner executor's `cwd`. `cwd` is the configured one, or empty.
    ///
    /// - `repo_path`, if it is set; a relative one is relative to `cwd`.
    /// - Without it `cwd`, if that is set to anything but `/`; it has to be empty or absent.
    /// - Otherwise a folder of the repository's name, below `/`, or on the host below the current
    ///   folder, as `git clone` does it.
    ///
    /// Commands start in the repository unless `cwd` is set to anything but `/`.
    ///
    /// # Errors
    /// [`ExecutorError`] if `repo` or `base_commit` can't be used.
    pub fn settle(&mut self, cwd: &str) -> Result<String, ExecutorError> {
        if let Some(commit) = &self.base_commit {
            check_commit(commit)?;
        }
        if !self.has_repository() {
            self.cwd = cwd.to_owned();
            return Ok(cwd.to_owned());
        }
        self.path_is_chosen = !self.repo_path.is_empty();
        let source = self.source()?;
        let chosen = !cwd.is_empty() && cwd != "/";
        let base = match (self.on_host, cwd) {
            (true, cwd) => {
                std::path::absolute(if cwd.is_empty() { "." } else { cwd }).map_err(|error| {
                    ExecutorError::from(format!(
                        "the current folder is gone: {error}; set `environment.cwd`"
                    ))
                })?
            }
            (false, cwd) => Path::new("/").join(cwd),
        };
        let path = match (self.repo_path.as_str(), &source) {
            ("", Some(source)) if !chosen => base.join(source.name()),
            ("", _) => base.clone(),
            (path, _) => base.join(path),
        };
        let Some(path) = path.to_str().filter(|path| !path.contains(['\0', '\n'])) else {
            return Err(ExecutorError::from(
                "`workspace.path` has a line break, a NUL or bytes that are no UTF-8: choose another"
                    .to_owned(),
            ));
        };
        self.repo_path = path.to_owned();
        if let Some(RepositorySource::Folder(folder)) = &source {
            self.check_folder(folder)?;
        }
        self.cwd = if chosen { cwd } else { path }.to_owned();
        Ok(self.cwd.clone())
    }

    /// The origin of the repository.
    pub(super) fn source(&self) -> Result<Option<RepositorySource>, ExecutorError> {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        self.repo
            .as_deref()
            .map(|repo| RepositorySource::parse(repo, home.as_deref()).map_err(ExecutorError::from))
            .transpose()
    }

    /// The time limit of a step.
    pub(super) fn limit(&self) -> Duration {
        match self.startup_timeout {
            Duration::ZERO => Duration::from_secs(300),
            limit => limit,
        }
    }

    /// Refuses a folder whose copy would be incomplete or could not be used.
    fn check_folder(&self, folder: &Path) -> Result<(), ExecutorError> {
        let shown = folder.display();
        let fail = |text: String| Err(ExecutorError::from(text));
        match std::fs::metadata(folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                return fail(format!(
                    "`workspace.repo` `{shown}` is not a folder: name one, or a URL"
                ));
            }
            Err(error) => {
                return fail(format!(
                    "`workspace.repo` `{shown}` can't be read: {error}; name a folder that is there, or a URL"
                ));
            }
        }
        let target = Path::new(&self.repo_path);
        let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        if self.on_host
            && target.ancestors().any(|above| {
                above
                    .canonicalize()
                    .is_ok_and(|above| above.starts_with(&real))
            })
        {
            return fail(format!(
                "the copy of `{shown}` would go into itself, to `{}`: set `workspace.path` to a folder \
                 outside, or leave out `workspace.repo` to work in the folder itself",
                self.repo_path
            ));
        }
        let git = folder.join(".git");
        if git.is_file() {
            return fail(format!(
                "`workspace.repo` `{shown}` is a linked work tree or a submodule, whose repository is \
                 elsewhere: clone it (`git clone {shown} COPY`) and name the clone"
            ));
        }
        if !self.on_host && git.join("objects/info/alternates").exists() {
            return fail(format!(
                "`workspace.repo` `{shown}` uses objects of another repository, which the environment does not have: run `git repack -a -d` in it and remove \
                 `.git/objects/info/alternates`"
            ));
        }
        Ok(())
    }
}

/// Checks a commit's name, which becomes an argument of git and part of a revision expression.
fn check_commit(commit: &str) -> Result<(), ExecutorError> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || ":*?[\\".contains(c);
    if !commit.is_empty() && !commit.contains(odd) && !commit.starts_with(['-', '+', '^']) {
        return Ok(());
    }
    Err(ExecutorError::from(format!(
        "`workspace.base_commit` `{}` is not a name of a commit: give its hash, a tag or a branch",
        commit.escape_debug()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(repo: &str, repo_path: &str, cwd: &str, on_host: bool) -> (String, String) {
        let mut settings = WorkspaceSettings {
            repo: (!repo.is_empty()).then(|| repo.to_owned()),
            repo_path: repo_path.to_owned(),
            reset: true,
            on_host,
            ..WorkspaceSettings::default()
        };
        let start = settings.settle(cwd).unwrap();
        (settings.repo_path, start)
    }

    #[test]
    fn places() {
        let url = "https://h/a/name.git";
        let here = std::env::current_dir().unwrap();
        let below = |name: &str| here.join(name).to_str().unwrap().to_owned();
        // repo, repo_path, cwd, whether on the host; expected path of the repository and of
        // commands
        for (repo, repo_path, cwd, on_host, path, start) in [
            (url, "", "", false, "/name", "/name"),
            (url, "", "/", false, "/name", "/name"),
            (url, "", "/work", false, "/work", "/work"),
            (url, "/r", "", false, "/r", "/r"),
            (url, "/r", "/", false, "/r", "/r"),
            (url, "/r", "/r/sub", false, "/r", "/r/sub"),
            (url, "sub", "/work", false, "/work/sub", "/work"),
            ("", "", "/testbed", false, "/testbed", "/testbed"),
            ("", "/testbed", "/", false, "/testbed", "/testbed"),
            ("", "", "", false, "/", "/"),
            (url, "", "", true, &below("name"), &below("name")),
            (url, "", "/work", true, "/work", "/work"),
            (url, "/r", "", true, "/r", "/r"),
            (url, "r", "", true, &below("r"), &below("r")),
            (url, "", "sub", true, &below("sub"), "sub"),
        ] {
            let got = settled(repo, repo_path, cwd, on_host);
            let wanted = (path.to_owned(), start.to_owned());
            assert_eq!(got, wanted, "{repo} {repo_path} {cwd} {on_host}");
        }
        let mut nothing = WorkspaceSettings {
            startup_commands: vec![StartupCommand {
                text: "x".into(),
                key: "workspace.startup_commands",
            }],
            ..WorkspaceSettings::default()
        };
        assert_eq!(nothing.settle("/w").unwrap(), "/w");
        assert_eq!(nothing.repo_path, "");
        assert!(!nothing.has_repository());
    }

    #[test]
    fn repositories_that_cannot_work_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for made in ["tree", "borrower/.git/objects/info", "good"] {
            std::fs::create_dir_all(at(made)).unwrap();
        }
        std::fs::write(at("tree/.git"), "gitdir: /x").unwrap();
        std::fs::write(at("borrower/.git/objects/info/alternates"), "/x").unwrap();
        std::fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink(at("good"), at("link")).unwrap();
        // repo, repo_path, commit, whether on the host; an expected part of the message, or none
        for (repo, path, commit, on_host, wanted) in [
            (at("good"), "/r", "main", true, ""),
            (at("good"), "/r", "v1.0~3^{commit}", false, ""),
            (at("missing"), "/r", "", true, "can't be read"),
            (at("file"), "/r", "", true, "is not a folder"),
            (at("tree"), "/r", "", true, "linked work tree"),
            (at("borrower"), "/r", "", false, "git repack -a -d"),
            (at("borrower"), "/r", "", true, ""),
            (at("good"), &at("good"), "", true, "into itself"),
            (at("good"), &at("good/new/x"), "", true, "into itself"),
            (at("good"), &at("link/x"), "", true, "into itself"),
            (at("good"), &at("good"), "", false, ""),
            (
                at("good"),
                "/r",
                "--upload-pack=x",
                true,
                "not a name of a commit",
            ),
            (at("good"), "/r", "a b", true, "not a name of a commit"),
            (at("good"), "/r", "a:b", true, "not a name of a commit"),
            (at("good"), "/r", "$(x)'#é", true, ""),
            (at("good"), "/r", "^x", true, "not a name of a commit"),
            ("ext::x".into(), "/r", "", true, "helper program of git"),
        ] {
            let mut settings = WorkspaceSettings {
                repo: Some(repo.clone()),
                repo_path: path.to_owned(),
                base_commit: Some(commit.to_owned()).filter(|commit| !commit.is_empty()),
                on_host,
                ..WorkspaceSettings::default()
            };
            let error = settings.settle("").err().map(|error| error.message);
            let error = error.unwrap_or_default();
            assert_eq!(
                error.is_empty(),
                wanted.is_empty(),
                "{repo} {path}: {error}"
            );
            assert!(error.contains(wanted), "{error}");
        }
    }
}
