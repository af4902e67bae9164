//! Helpers of many tests: scenarios for the scripted server, a repository, and a host with short time
//! limits and few retries.

use std::path::Path;
use std::process::{Command, Stdio};

use scripted_server::{Scenario, Server, Turn};
use serde_json::Value;

use crate::host::Host;

/// The command that ends a run and submits `text`.
pub fn submit(text: &str) -> String {
    format!("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; printf '%s' '{text}'")
}

/// A server whose model calls the tool once for each command, then submits `done`.
pub fn commands(commands: &[&str]) -> Server {
    let end = submit("done");
    let all: Vec<&str> = commands.iter().copied().chain([end.as_str()]).collect();
    Server::start(Scenario::commands(&all))
}

/// A server that answers with these turns, then submits `done`.
pub fn turns(turns: impl IntoIterator<Item = Turn>) -> Server {
    let end = Turn::commands(&[submit("done")]);
    Server::start(Scenario::new(turns.into_iter().chain([end])))
}

/// A server that answers every request with the end of the run, in every form that parsers of the pages read.
pub fn model() -> Server {
    let end = submit("done");
    let text = format!("```mswea_bash_command\n{end}\n```\n<run>{end}</run>");
    Server::start(Scenario::always(Turn::commands(&[end]).with_text(text)))
}

/// A host for this server that tries nothing more than twice and waits no longer than a second.
pub fn impatient(server: &Server) -> Host {
    patience(Host::new().server(server)).task("fix it")
}

/// Sets few retries and short time limits.
pub fn patience(host: Host) -> Host {
    host.args([
        "-c",
        "model.network_retries=1",
        "-c",
        "model.rate_limit_retries=1",
        "-c",
        "model.connect_timeout=1",
        "-c",
        "model.first_byte_timeout=0.4",
        "-c",
        "model.idle_timeout=0.4",
        "-c",
        "model.total_timeout=1",
    ])
}

/// The roles of a request's messages.
pub fn roles(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap();
    messages
        .iter()
        .map(|message| message["role"].as_str().unwrap().to_owned())
        .collect()
}

/// Runs git in `folder`, without the settings of the user.
#[track_caller]
pub fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
        .args([
            "-c",
            "init.defaultBranch=main",
            "-c",
            "commit.gpgsign=false",
        ])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Makes a repository with one commit of `kept.txt`, and `staged.txt`, which is staged.
pub fn repository(folder: &Path) {
    git(folder, &["init", "--quiet", "--template="]);
    std::fs::write(folder.join("kept.txt"), "first\n").unwrap();
    git(folder, &["add", "kept.txt"]);
    git(folder, &["commit", "--quiet", "--message=first"]);
    std::fs::write(folder.join("staged.txt"), "staged by the user\n").unwrap();
    git(folder, &["add", "staged.txt"]);
}
