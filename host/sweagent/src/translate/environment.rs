//! `env`: the environment of the commands, and its repository.

use serde_json::{Value, json};

use super::TranslationWork;
use crate::challenge::Challenge;
use crate::flags::expand;
use crate::given_at::GivenAt;
use crate::keys::shortened;
use crate::problem::repo_name;

/// The variable with the token of a SWE-ReX server.
const TOKEN: &str = "SWE_REX_AUTH_TOKEN";

/// The default image of SWE-agent.
pub(crate) const IMAGE: &str = "python:3.11";

/// The class of environment for a deployment.
pub(super) fn class(work: &TranslationWork<'_>) -> &'static str {
    let image = work.given("env.deployment.image").is_some();
    let kind = work.text("env.deployment.type");
    let kind = kind.unwrap_or(match work.input.tree.get(&["env", "deployment"]) {
        Some(tree) if !image && !tree.is_null() => "local",
        _ => "docker",
    });
    match (kind, work.text("env.deployment.container_runtime")) {
        ("docker", Some("podman")) => "podman",
        ("docker", _) => "docker",
        ("remote", _) => "swerex",
        _ => "local",
    }
}

pub(super) fn deployment(work: &mut TranslationWork<'_>) {
    if let Some(tree) = work.given("env.deployment.type") {
        let instead = match tree.text().unwrap_or_default() {
            "local" | "docker" | "remote" => None,
            "dummy" => Some(
                "use `local`, which runs the commands, or a scripted model in place of scripted outputs",
            ),
            "modal" | "fargate" | "daytona" => Some(
                "start `mswea-host runtime serve` or `swerex-remote` there, and use the deployment `remote`",
            ),
            _ => Some("the types are `local`, `docker` and `remote`"),
        };
        if let Some(instead) = instead {
            let message = format!(
                "there is no deployment of the type `{}`",
                tree.text().unwrap_or_default()
            );
            work.refuse(&tree.at, message, instead);
            return;
        }
    }
    let class = class(work);
    work.put_fixed("environment.environment_class", class);
    work.put_fixed("environment.session", true);
    let own = |class: &str| -> &[&str] {
        match class {
            "local" => &["type"],
            "swerex" => &["type", "auth_token", "host", "port", "timeout"],
            _ => &[
                "type",
                "image",
                "port",
                "docker_args",
                "startup_timeout",
                "pull",
                "remove_images",
                "python_standalone_dir",
                "platform",
                "remove_container",
                "container_runtime",
                "exec_shell",
                "docker_internal_host",
            ],
        }
    };
    if let Some(deployment) = work.given("env.deployment") {
        for (key, tree) in deployment.entries() {
            if !own(class).contains(&key.as_str()) && !tree.is_null() {
                let kind = if class == "swerex" { "remote" } else { class };
                let message = format!("a deployment of the type `{kind}` has no `{key}`");
                let hint = format!("it has `{}`", own(class).join("`, `"));
                work.refuse(&tree.at, message, &hint);
            }
        }
    }
    match class {
        "local" => {
            let cwd = format!("{}/work", work.input.folder);
            work.put_fixed("environment.cwd", cwd);
        }
        "swerex" => remote(work),
        _ => container(work),
    }
}

fn container(work: &mut TranslationWork<'_>) {
    work.copy("env.deployment.image", "environment.image", IMAGE);
    work.put_fixed("environment.cwd", "/");
    let mut arguments = vec!["--rm".to_owned()];
    arguments.extend(work.texts("env.deployment.docker_args"));
    work.put_fixed("environment.run_args", arguments);
    work.copy_number(
        "env.deployment.startup_timeout",
        "environment.start_timeout",
        180.0,
    );
    if let Some(tree) = work.given("env.deployment.platform") {
        work.put("environment.platform", tree.value(), &tree.at);
    }
    if let Some(tree) = work.given("env.deployment.remove_container") {
        work.put(
            "environment.keep_container",
            tree.value() == false,
            &tree.at,
        );
    }
    let pull =
        "an image that is not there is pulled; call `docker pull` before the run for a newer one";
    work.warn_unless("env.deployment.pull", &[json!("missing")], pull);
    work.warn_unless(
        "env.deployment.remove_images",
        &[json!(false)],
        "remove images with `docker rmi`",
    );
    work.refuse_unless(
        "env.deployment.container_runtime",
        &[json!("docker"), json!("podman")],
        "write `docker` or `podman`",
    );
    let shell = "leave it out: the container is started without a shell";
    work.refuse_unless(
        "env.deployment.exec_shell",
        &[json!(["/bin/sh", "-c"])],
        shell,
    );
}

fn remote(work: &mut TranslationWork<'_>) {
    let host = work
        .text("env.deployment.host")
        .unwrap_or("http://127.0.0.1");
    let host = match host.contains("://") {
        true => host.to_owned(),
        false => format!("http://{host}"),
    };
    let url = match work.given("env.deployment.port") {
        Some(port) => format!("{}:{}", host.trim_end_matches('/'), port.value()),
        None => host,
    };
    work.put_fixed("environment.url", url);
    work.put_fixed("environment.cwd", "/");
    if let Some(tree) = work.given("env.deployment.auth_token") {
        let token = tree.text().unwrap_or_default().to_owned();
        work.done.secrets.push((TOKEN.to_owned(), token));
        work.put("environment.token_env", TOKEN, &tree.at);
    }
}

pub(super) fn repository(work: &mut TranslationWork<'_>) {
    work.copy_number(
        "env.post_startup_command_timeout",
        "workspace.startup_timeout",
        500.0,
    );
    let commands = work.texts("env.post_startup_commands");
    let commands: Vec<Value> = commands
        .iter()
        .map(|command| super::templates::verbatim(command).into())
        .collect();
    work.put_fixed("workspace.startup_commands", commands);
    if let Some(files) = &work.input.problem.challenge {
        challenge(work, files);
        return;
    }
    let Some(repo) = work.given("env.repo") else {
        return;
    };
    let at = &repo.at;
    let is_local = class(work) == "local";
    let sources = ["path", "github_url", "repo_name"];
    let mut named = sources.iter().filter(|key| repo.given(key).is_some());
    let (source, second) = (named.next().copied(), named.next());
    if let (Some(source), Some(second)) = (source, second) {
        let message = format!("`env.repo` has `{source}` and `{second}`");
        work.refuse(at, message, "keep one of them");
        return;
    }
    let kind = repo.given("type").and_then(|it| it.text());
    let source = match (kind, source) {
        (Some("local"), Some("path")) | (None, Some("path")) => "path",
        (Some("github"), Some("github_url")) | (None, Some("github_url")) => "github_url",
        (Some("preexisting"), Some("repo_name")) | (None, Some("repo_name")) => "repo_name",
        (Some("ctf"), _) => {
            let hint = "give its `challenge.json` as `problem_statement.path`";
            work.refuse(at, "`env.repo` of the type `ctf` is for a challenge", hint);
            return;
        }
        (Some("swesmith_preexisting"), _) => {
            let hint = "use a `preexisting` repository, and fetch the commit with `env.post_startup_commands`";
            work.refuse(
                at,
                "repositories of the type `swesmith_preexisting` can't be used",
                hint,
            );
            return;
        }
        (None, None) if repo.entries().iter().all(|(_, tree)| tree.is_null()) => return,
        _ => {
            let hint = "`local` has a `path`, `github` a `github_url`, `preexisting` a `repo_name`";
            let kind = kind.unwrap_or("none");
            work.refuse(
                at,
                format!("`env.repo` of the type `{kind}` lacks its source, or has another one's"),
                hint,
            );
            return;
        }
    };
    let value = repo
        .given(source)
        .and_then(|it| it.text())
        .unwrap_or_default();
    let name = match repo_name(source, value) {
        Ok(name) => name,
        Err(problem) => {
            work.problems.push(problem);
            return;
        }
    };
    match source {
        "path" => match expand(value, work.input.variable) {
            Ok(path) => {
                work.put("workspace.repo", path, at);
                // The agent gets what is committed.
                work.put("workspace.reset", true, at);
            }
            Err(problem) => work.problems.push(problem),
        },
        "github_url" => {
            let url = match value.contains("://") || value.starts_with("git@") {
                true => value.to_owned(),
                false => format!("https://github.com/{value}"),
            };
            work.put("workspace.repo", url, at);
        }
        _ => {
            if is_local {
                preexisting_here(work, at, &name);
            }
            let reset = repo.given("reset").is_none_or(|it| it.value() == true);
            work.put("workspace.reset", reset, at);
        }
    }
    // A folder at this machine's root is only used if it already exists.
    if !is_local || source == "repo_name" {
        work.put("workspace.path", format!("/{name}"), at);
    }
    let commit = repo.given("base_commit").and_then(|it| it.text());
    match (commit, source) {
        // The current state of the folder or of the branch.
        (None | Some("HEAD"), _) => {}
        (Some(commit), _) => work.put("workspace.base_commit", commit, at),
    }
    if let Some(tree) = repo.given("reset").filter(|_| source != "repo_name") {
        let message = format!(
            "`env.repo.reset` = `{}` is for `preexisting` repositories",
            shortened(&tree.value())
        );
        work.refuse(&tree.at, message, "leave it out");
    }
}

/// A repository at this machine's root, in which commands start, as in a container.
fn preexisting_here(work: &mut TranslationWork<'_>, at: &GivenAt, name: &str) {
    let folder = format!("/{name}");
    if !std::path::Path::new(&folder).is_dir() {
        let message = format!(
            "`env.repo.repo_name` = `{name}` is the folder `{folder}` of this machine with a `local` deployment, and it does not exist"
        );
        let hint =
            "give a repository anywhere on this machine as `--env.repo.path=FOLDER`; it is copied";
        work.refuse(at, message, hint);
    }
    work.put_fixed("environment.cwd", folder);
}

/// The files of a challenge, in place of a repository, with its flag and its services.
fn challenge(work: &mut TranslationWork<'_>, challenge: &Challenge) {
    for key in ["github_url", "repo_name", "base_commit", "reset"] {
        let hint = "the agent gets the files that `challenge.json` lists: leave it out";
        work.refuse_unless(&format!("env.repo.{key}"), &[json!("HEAD")], hint);
    }
    let hint = "write `ctf`, or leave it out";
    work.refuse_unless("env.repo.type", &[json!("ctf"), json!("local")], hint);
    let staged = challenge.staged().to_string_lossy().into_owned();
    work.put_fixed("workspace.repo", staged);
    if class(work) != "local" {
        let name = work.input.problem.repo.clone();
        work.put_fixed("workspace.path", format!("/{name}"));
    }
    work.put_fixed("tools.flag", challenge.flag.as_str());
    // A patch of the changed files is not a flag.
    work.put_fixed("agent.salvage_command", "");
    if let Some(compose) = &challenge.compose {
        let compose = compose.display();
        work.done.warnings.push(format!(
            "the services in `{compose}` are not started: `docker compose -f {compose} up -d` does it, and \
             `env.deployment.docker_args=[--network,ctfnet]` lets the agent reach them"
        ));
    }
}
