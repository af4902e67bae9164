//! `sweagent shell`: an agent that works in a repository of the user, who can take over at a
//! terminal. The model continues without questions; Ctrl-C interrupts it and asks.

use std::io::IsTerminal as _;
use std::path::Path;

use super::single::{SingleRun, read_variables};
use crate::cli::args::ShellArgs;
use crate::cli::exit::ExitCode;
use crate::cli::output::{self, Failure};
use mswea_secrecy as secrecy;
use mswea_sweagent::{
    GivenAt, GivenTree, SweAgentProblem, SweCommand, check_tree, read_command_line, short_hash,
};

/// The folder of the repository in the container.
const REPO: &str = "repo";

/// Runs the agent.
pub(super) fn run(args: &ShellArgs) -> Result<ExitCode, Failure> {
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        let problem = SweAgentProblem::new("`sweagent shell` needs a terminal, and there is none");
        let hint = "use `mswea-host sweagent run`, which asks nobody";
        return Err(problem.hint(hint).into());
    }
    let words = words(args)?;
    read_trusted_variables(args, &words)?;
    let variable = |name: &str| secrecy::var(name);
    let request = read_command_line(SweCommand::Run, &words, &variable)?;
    let mut tree = request.tree;
    let (key, text) = problem(args)?;
    let at = GivenAt::Flag("-p".to_owned());
    // Not as a flag, in which `null` would mean none.
    tree.merge(GivenTree::of_value(text.into(), &at).below(&["problem_statement", key]));
    // SWE-agent's configs for this command have the agent `shell`, which is the default one with a
    // user.
    match tree.given("agent.type").map(|it| (it.text(), &it.at)) {
        Some((Some("shell"), _)) => {
            tree.remove(&["agent", "type"]);
            check_tree(SweCommand::Run, &tree)?;
        }
        Some((Some("retry"), at)) => {
            let problem = SweAgentProblem::at(at, "several attempts have no person".to_owned());
            let hint = "use `mswea-host sweagent run`, or an agent of the type `shell`";
            return Err(problem.hint(hint).into());
        }
        _ => {}
    }
    let home = std::env::home_dir().unwrap_or_default();
    let of_repo = args.repo.as_deref().map(name_of).unwrap_or_default();
    let folder = |_: &str| home.join("sweagent_shell").join(&of_repo);
    let by = || "sweagent shell".to_owned();
    let single = SingleRun {
        tree: &tree,
        folder: &folder,
        over: vec![
            ("agent.mode".to_owned(), "yolo".into(), by()),
            ("agent.confirm_exit".to_owned(), true.into(), by()),
        ],
        has_person: true,
    };
    single.make()
}

/// Reads the file of variables. A repository may come from somebody else, and its `.env` could send
/// the user's key elsewhere: so it is read only if it is named.
fn read_trusted_variables(args: &ShellArgs, words: &[String]) -> Result<(), Failure> {
    let is_named = words.iter().any(|it| it.starts_with("--env_var_path"));
    let here = std::fs::canonicalize(".").ok();
    let repo = args.repo.as_ref().and_then(|it| it.canonicalize().ok());
    let is_inside = here
        .zip(repo)
        .is_none_or(|(here, repo)| here.starts_with(repo));
    if is_named || !is_inside {
        return read_variables(words);
    }
    if Path::new(".env").exists() {
        output::warning(
            "`.env` is a file of the repository and is not read, because it could have your key sent elsewhere: if it is \
             yours, add `-- --env_var_path=.env`",
        );
    }
    Ok(())
}

/// The flags of `run` with the same effect.
fn words(args: &ShellArgs) -> Result<Vec<String>, Failure> {
    let Some(repo) = &args.repo else {
        return Err(missing("-r FOLDER", "repository").into());
    };
    let folder = std::fs::canonicalize(repo).ok();
    let Some(folder) = folder.filter(|it| it.is_dir()) else {
        let problem = SweAgentProblem::new(format!("`{}` is no folder", repo.display()));
        return Err(problem
            .hint("name the folder of the repository with `-r`")
            .into());
    };
    // Docker splits a mount at colons, and makes a missing folder.
    let Some(folder) = folder.to_str().filter(|it| !it.contains(':')) else {
        let shown = folder.display();
        let problem = SweAgentProblem::new(format!("the folder `{shown}` can't be mounted"));
        let hint = "use a folder whose whole path is UTF-8 and has no colon";
        return Err(problem.hint(hint).into());
    };
    let mut words = Vec::new();
    for config in &args.config {
        words.push(format!("--config={}", config.display()));
    }
    let mount = serde_json::Value::from(format!("{folder}:/{REPO}"));
    words.extend([
        "--env.deployment.type=docker".to_owned(),
        "--env.deployment.image=python:3.11".to_owned(),
        format!("--env.deployment.docker_args=[\"-v\",{mount}]"),
        "--env.repo.type=preexisting".to_owned(),
        format!("--env.repo.repo_name={REPO}"),
        "--env.repo.reset=false".to_owned(),
    ]);
    words.extend(args.keys.iter().cloned());
    Ok(words)
}

/// The key of the problem statement, and its text.
fn problem(args: &ShellArgs) -> Result<(&'static str, &str), Failure> {
    let given = args.problem.as_deref().filter(|it| !it.trim().is_empty());
    match given {
        Some(address) if is_issue(address) => Ok(("github_url", address)),
        Some(text) => Ok(("text", text)),
        None => Err(missing("-p TEXT", "problem statement").into()),
    }
}

fn missing(flag: &str, what: &str) -> SweAgentProblem {
    SweAgentProblem::new(format!("no {what} was given")).hint(format!("write `{flag}`"))
}

/// The name of the folder of a repository's runs: several repositories may have the same problem.
fn name_of(repo: &Path) -> String {
    let path = repo.canonicalize().unwrap_or_else(|_| repo.to_owned());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{name}-{}", short_hash(&path.to_string_lossy()))
}

/// Whether a problem is the address of an issue.
fn is_issue(problem: &str) -> bool {
    let path = problem.trim().strip_prefix("https://github.com/");
    path.is_some_and(|path| path.split('/').nth(2) == Some("issues"))
}
