//! `actions.open_pr`: pushes the patch of a run as a branch, and opens a pull request for its issue.

use std::io::Write as _;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

use rustix::io::FdFlags;
use rustix::pipe::PipeFlags;
use serde_json::Value;

use super::push_remote::PushRemote;
use crate::cli::output::{self, Failure};
use mswea_secrecy as secrecy;
use mswea_sweagent::{
    GivenTree, IssueSource, OpenPullRequest, SweAgentProblem, github_server, github_token,
    pull_request_for,
};

/// The pull request of a configuration.
pub(super) struct PlannedPullRequest {
    issue: IssueSource,
    /// The remote to which the branch is pushed.
    remote: PushRemote,
    /// The commit or branch to which the patch applies.
    base: Option<String>,
    /// The commit id of `base` in the local repository.
    commit: Option<String>,
    skip_if_fixed: bool,
}

impl PlannedPullRequest {
    /// The pull request of `actions.open_pr`, if that is set. `repo`: the folder of the local
    /// repository.
    pub(super) fn of(tree: &GivenTree, repo: Option<&str>) -> Result<Option<Self>, Failure> {
        let Some(given) = tree
            .given("actions.open_pr")
            .filter(|it| it.value() == true)
        else {
            return Ok(None);
        };
        let url = tree
            .given("problem_statement.github_url")
            .and_then(GivenTree::text);
        let Some(issue) = url.and_then(IssueSource::of_url) else {
            let message = "`actions.open_pr` needs an issue of GitHub";
            let problem = SweAgentProblem::at(&given.at, message);
            let hint = "give the problem as `--problem_statement.github_url=https://github.com/OWNER/REPO/issues/NUMBER`";
            return Err(problem.hint(hint).into());
        };
        let text = |key: &str| tree.given(key).and_then(GivenTree::text);
        let remote = match (text("env.repo.github_url"), repo) {
            (Some(url), _) if url.contains("://") || url.starts_with("git@") => url.to_owned(),
            (Some(name), _) => format!("https://github.com/{name}"),
            (None, Some(folder)) => origin(folder).ok_or_else(|| {
                let message =
                    format!("the repository `{folder}` has no remote `origin` to push to");
                SweAgentProblem::at(&given.at, message)
                    .hint("add it with `git remote add origin URL`")
            })?,
            (None, None) => {
                let problem =
                    SweAgentProblem::at(&given.at, "`actions.open_pr` needs a repository");
                return Err(problem
                    .hint("give `--env.repo.github_url` or `--env.repo.path`")
                    .into());
            }
        };
        let base = text("env.repo.base_commit").filter(|it| *it != "HEAD");
        let is_option = |it: &str| it.starts_with('-');
        if is_option(&remote) || base.is_some_and(is_option) {
            let problem =
                SweAgentProblem::at(&given.at, "a repository or a commit can't begin with `-`");
            return Err(problem.hint("write its whole address or name").into());
        }
        let server = github_server(&secrecy::var);
        let is_issues = |found: &PushRemote| {
            let (host, port) = server
                .as_ref()
                .map_or(("", None), |(host, port)| (host, *port));
            found.is_of((host, port), &issue.repository_name())
        };
        let Some(remote_of_issue) = PushRemote::of(&remote).filter(is_issues) else {
            let plain = remote.split(['?', '#']).next().unwrap_or_default();
            let shown = plain.rsplit('@').next().unwrap_or_default();
            let message = format!("`{shown}` is not the repository of the issue");
            let wanted = server.map_or_else(String::new, |(host, _)| format!(" on `{host}`"));
            let hint = format!(
                "the branch is pushed to the repository of the issue: name `{}`{wanted}",
                issue.repository_name()
            );
            return Err(SweAgentProblem::at(&given.at, message).hint(hint).into());
        };
        let commit = repo.zip(base).and_then(|(folder, base)| {
            let commit = format!("{base}^{{commit}}");
            mswea_git::commit_of(Path::new(folder), &commit)
        });
        let skip = tree.given("actions.pr_config.skip_if_commits_reference_issue");
        Ok(Some(Self {
            issue,
            remote: remote_of_issue,
            base: base.map(str::to_owned),
            commit,
            skip_if_fixed: skip.is_none_or(|it| it.value() != false),
        }))
    }

    /// Opens the pull request of a run that has submitted a patch. An error is only a warning,
    /// because the run itself is complete.
    pub(super) fn open(&self, made: &Value, patch: &Path) {
        let status = made["info"]["exit_status"].as_str().unwrap_or_default();
        let has_patch = made["info"]["submission"].is_string();
        let done = match (status, has_patch) {
            ("submitted", true) => self.pushed(made, patch),
            ("submitted", false) => Err("nothing was submitted".to_owned()),
            (status, _) => Err(format!("the run has ended with `{status}`")),
        };
        match done {
            Ok(url) => output::note(&format!("pull request: {url}")),
            Err(why) => output::warning(&format!("no pull request is opened: {why}")),
        }
    }

    fn pushed(&self, made: &Value, patch: &Path) -> Result<String, String> {
        let variable = |name: &str| secrecy::var(name);
        let runtime = output::runtime().map_err(|failure| failure.message)?;
        let found = runtime.block_on(pull_request_for(&self.issue, self.skip_if_fixed, &variable));
        let request = found?;
        let branch = request.branch(&mswea_session::new_run_id());
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let git = GitFolder {
            folder: folder.path(),
            token: github_token(&variable),
            remote: &self.remote,
        };
        git.run(&["init", "-q"])?;
        git.run(&["remote", "add", "origin", &self.remote.url])?;
        // A question or a silent server would make the host wait for ever. The user's own setting
        // takes precedence.
        let key = "core.sshCommand";
        if std::env::var_os("GIT_SSH").is_none() && git.run(&["config", key]).is_err() {
            let ssh = "ssh -oBatchMode=yes -oConnectTimeout=30";
            git.run(&["config", key, ssh])?;
        }
        let start = self.fetched(&git, &request)?;
        git.run(&["checkout", "-q", "--no-track", "-b", &branch, start])?;
        let patch = std::path::absolute(patch).map_err(|error| error.to_string())?;
        git.run(&["apply", "--index", &patch.to_string_lossy()])?;
        git.run(&["commit", "-q", "-m", &request.commit_message()])?;
        git.run(&["push", "-q", "origin", &format!("HEAD:refs/heads/{branch}")])?;
        let opened = runtime.block_on(request.open(&branch, made, &variable));
        opened.map_err(|why| format!("{why}; the branch `{branch}` is pushed"))
    }

    /// Fetches the base of the patch, and returns its name in the new repository.
    fn fetched(&self, git: &GitFolder<'_>, request: &OpenPullRequest) -> Result<&str, String> {
        let fetch = |what: &str| git.run(&["fetch", "-q", "--depth=1", "origin", what]);
        let Some(base) = &self.base else {
            fetch(&format!("refs/heads/{}", request.base))?;
            return Ok("FETCH_HEAD");
        };
        // A server knows branches, tags and complete commit ids.
        match (fetch(base), &self.commit) {
            (Ok(()), _) => Ok("FETCH_HEAD"),
            (Err(_), Some(commit)) => fetch(commit).map(|()| "FETCH_HEAD"),
            (Err(_), None) => git.run(&["fetch", "-q", "origin"]).map(|()| &**base),
        }
    }
}

/// The URL of a local repository's remote.
fn origin(folder: &str) -> Option<String> {
    mswea_git::origin_of(Path::new(folder))
}

/// A new repository from which a branch is pushed.
struct GitFolder<'g> {
    folder: &'g Path,
    token: Option<String>,
    remote: &'g PushRemote,
}

impl GitFolder<'_> {
    fn run(&self, words: &[&str]) -> Result<(), String> {
        let mut command = mswea_git::command();
        command
            .current_dir(self.folder)
            .args([
                "-c",
                "user.name=mswea-host",
                "-c",
                "user.email=mswea-host@localhost",
            ])
            .args([
                "-c",
                "core.hooksPath=/dev/null",
                "-c",
                "commit.gpgSign=false",
            ])
            // A question or a silent server would make the host wait for ever.
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_HTTP_LOW_SPEED_LIMIT", "1")
            .env("GIT_HTTP_LOW_SPEED_TIME", "60");
        let name = words.first().copied().unwrap_or_default();
        let login = self.remote.login(self.token.as_deref());
        let done = match login.filter(|_| ["fetch", "push"].contains(&name)) {
            Some((web, answer)) => with_login(&mut command, web, &answer, words),
            None => command.args(words).output(),
        };
        let done = done.map_err(|error| format!("git can't be started: {error}"))?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        // The user's settings may put a login into the URL, which is in git's error messages.
        let said = mswea_config::redacted(&said.trim().into());
        let said = said.as_str().unwrap_or_default();
        Err(format!("`git {name}` failed: {said}"))
    }
}

/// Runs git with a login for one server, in place of what the user's credential helpers know about it. It is in a pipe:
/// other users can see arguments. Processes of this user can read it, as they could a variable, until git has.
fn with_login(
    command: &mut Command,
    web: &str,
    answer: &str,
    words: &[&str],
) -> std::io::Result<Output> {
    let (login, to) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    std::fs::File::from(to).write_all(answer.as_bytes())?;
    let number = login.as_raw_fd();
    command
        .arg("-c")
        .arg(format!("credential.{web}.helper="))
        .arg("-c")
        .arg(format!(
            "credential.{web}.helper=!f() {{ cat /proc/self/fd/{number}; }}; f"
        ))
        .args(words);
    // SAFETY: between fork and exec, this only makes one system call, on a descriptor that lives until git has ended.
    unsafe {
        command.pre_exec(move || {
            let login = BorrowedFd::borrow_raw(number);
            Ok(rustix::io::fcntl_setfd(login, FdFlags::empty())?)
        });
    }
    let done = command.output();
    drop(login);
    done
}
