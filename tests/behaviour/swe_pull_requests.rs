//! `actions.open_pr`: to where a branch is pushed, from which commit, and what is kept from others there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::host::Host;
use crate::run::Run;
use crate::swe_github::{Answers, ISSUE, api, git, host, model, words};

/// A run with `open_pr` whose remote is `remote`, with `URL` in place of the API's host and port.
struct Pushing {
    host: Host,
    api: Answers,
    remote: String,
}

impl Pushing {
    fn to(remote: &str, branch: &str) -> Self {
        let api = api(&json!({"title": "t", "state": "open"}), &json!([]), branch);
        let remote = remote.replace("URL", api.url.trim_start_matches("http://"));
        let host = host().env("GITHUB_API_URL", &api.url);
        let repo = host.dir().join("repo");
        git(&repo, &["remote", "set-url", "origin", &remote]);
        Self { host, api, remote }
    }

    /// A program of this name goes first.
    fn with_program(mut self, name: &str, script: &str) -> Self {
        let folder = self.host.root.path().join("programs");
        fs::create_dir_all(&folder).unwrap();
        let program = folder.join(name);
        let path = std::env::var("PATH").unwrap();
        let log = self.host.root.path().join("log");
        let script = script.replace("LOG", &log.display().to_string());
        fs::write(&program, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{path}", folder.display());
        self.host = self.host.env("PATH", path);
        self
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.host = self.host.env(name, value);
        self
    }

    /// The run, how often the model was asked, and the log of the programs.
    fn run(self, more: &[&str]) -> (Run, usize, String) {
        let server = model(&["echo two >>a.txt"]);
        let more = [&[ISSUE, "--actions.open_pr=true"], more].concat();
        let mut words = words(&server, &more);
        if words
            .iter()
            .any(|it| it.starts_with("--env.repo.github_url"))
        {
            words.retain(|it| !it.starts_with("--env.repo.path"));
        }
        let run = self.host.args(words).run();
        let log = fs::read_to_string(run.root.path().join("log")).unwrap_or_default();
        (run, server.requests().len(), log)
    }
}

#[test]
fn a_branch_is_only_pushed_to_the_repository_of_the_issue() {
    for (remote, shown) in [
        ("https://localhost:1/z/z.git", "localhost:1/z/z.git"),
        ("https://URL/o/other", "/o/other"),
        ("https://127.0.0.1:1/o/r", "127.0.0.1:1/o/r"),
        (
            "https://me:sesame@github.com/o/r?a=sesame",
            "github.com/o/r",
        ),
        ("git@github.com:o/r.git", "github.com:o/r.git"),
        ("me:sesame@github.com/o/r", "github.com/o/r"),
    ] {
        let pushing = Pushing::to(remote, "main").env("GITHUB_TOKEN", "some-secret-token");
        let (run, asked, _) = pushing.run(&[]);
        let run = run.expect(2);
        let part = format!("{shown}` is not the repository of the issue");
        assert!(run.stderr.contains(&part), "{remote}: {}", run.stderr);
        assert!(!run.stderr.contains("sesame"), "{}", run.stderr);
        assert_eq!(asked, 0, "{remote}");
    }
}

/// Git that writes down its arguments, its variables and the login that it has for a push, and takes the bare repository
/// for the server's.
const LOGGED_GIT: &str = "{ echo \"$*\"; env; } >>'LOG'
PATH=${PATH#*:}
case $1 in
-C) exec git \"$@\" ;;
esac
case \" $* \" in
*' push '*) (
  for _ in $(seq $(($# - 4))); do set -- \"$@\" \"$1\"; shift; done
  shift 4
  printf 'url=%s\\n\\n' \"$REMOTE\" | git \"$@\" credential fill | sed 's/^/filled: /' >>'LOG'
) ;;
esac
exec git -c \"url.$ORIGIN.insteadOf=$REMOTE\" \"$@\"
";

#[test]
fn a_login_of_the_remote_is_no_argument_and_no_variable() {
    for (remote, token, login) in [
        ("https://me:ses%61me@URL/o/r.git", "", ["me", "sesame"]),
        (
            "https://URL/o/r.git",
            "some-token\n",
            ["x-access-token", "some-token"],
        ),
    ] {
        let pushing = Pushing::to(remote, "main").with_program("git", LOGGED_GIT);
        let origin = pushing.host.dir().join("origin.git").display().to_string();
        let (_, place) = pushing
            .remote
            .rsplit_once('@')
            .unwrap_or(("", &pushing.remote[8..]));
        let plain = format!("https://{place}");
        let pushing = pushing
            .env("ORIGIN", &origin)
            .env("REMOTE", &plain)
            .env("GITHUB_TOKEN", token);
        let (run, _, log) = pushing.run(&[]);
        let run = run.expect(0);
        assert!(
            run.stderr.contains("pull request: http://pull/7"),
            "{}",
            run.stderr
        );
        assert!(
            log.contains(&format!(" remote add origin {plain}\n")),
            "{log}"
        );
        let (filled, log): (Vec<&str>, Vec<&str>) =
            log.lines().partition(|line| line.starts_with("filled: "));
        for (name, value) in ["username", "password"].iter().zip(login) {
            let line = format!("filled: {name}={value}");
            assert!(filled.contains(&&*line), "{line}: {filled:?}");
        }
        let log = log.join("\n");
        // The user's helpers still answer for other servers.
        assert!(!log.contains("-c credential.helper="), "{log}");
        for secret in [
            "ses%61me",
            "sesame",
            "some-token",
            "c29tZS10b2tlb",
            "bWU6c2VzYW1l",
        ] {
            assert!(!log.contains(secret), "{secret}: {log}");
        }
    }
}

#[test]
fn a_failed_push_tells_no_login() {
    let pushing = Pushing::to("http://URL/o/r.git", "main");
    let server = pushing.api.url.trim_start_matches("http://").to_owned();
    // Settings of the user add the login.
    let settings = format!("[url \"http://sesame@{server}/\"]\n insteadOf = http://{server}/\n");
    fs::write(pushing.host.home().join(".gitconfig"), settings).unwrap();
    let (run, _, _) = pushing.run(&[]);
    let run = run.expect(0);
    let part = format!(
        "`git fetch` failed: fatal: could not read Password for 'http://[redacted]@{server}'"
    );
    assert!(run.stderr.contains(&part), "{}", run.stderr);
    assert!(!run.stderr.contains("sesame"), "{}", run.stderr);
}

#[test]
fn a_patch_is_for_the_commit_that_was_named() {
    for (base, by_url) in [
        ("HEAD~1", false),
        ("SHORT", false),
        ("main", false),
        ("SHORT", true),
    ] {
        let pushing = Pushing::to("ORIGIN", "no");
        let dir = pushing.host.dir();
        let (repo, origin) = (dir.join("repo"), dir.join("origin.git"));
        let origin_url = origin.display().to_string();
        git(&repo, &["remote", "set-url", "origin", &origin_url]);
        fs::write(repo.join("b.txt"), "b\n").unwrap();
        git(&repo, &["add", "."]);
        let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
        git(
            &repo,
            &[&who[..], &["commit", "-q", "-m", "second"]].concat(),
        );
        git(&repo, &["push", "-q", "origin", "main"]);
        let short = git(&repo, &["rev-parse", "--short", "HEAD~1"]);
        let flag = format!(
            "--env.repo.base_commit={}",
            base.replace("SHORT", short.trim())
        );
        // Variables that git sets for its hooks.
        let pushing = pushing
            .env("GIT_DIR", "/nowhere")
            .env("GIT_INDEX_FILE", "/nowhere/index");
        let url = format!("--env.repo.github_url=file://{origin_url}");
        let flags = [&*flag, &*url];
        let (run, _, _) = pushing.run(&flags[..1 + usize::from(by_url)]);
        let run = run.expect(0);
        assert!(
            run.stderr.contains("pull request: "),
            "{base}: {}",
            run.stderr
        );
        let branch = git(
            &origin,
            &["branch", "--list", "swe*", "--format=%(refname)"],
        );
        let log = git(&origin, &["log", "--format=%s", branch.trim()]);
        let expected: &[&str] = match base {
            "main" => &["Fix: t", "second", "first"],
            _ => &["Fix: t", "first"],
        };
        assert_eq!(log.lines().collect::<Vec<_>>(), expected, "{base}");
    }
}

#[test]
fn the_name_of_a_branch_is_no_option_of_git() {
    let pushing = Pushing::to("ORIGIN", "--upload-pack=touch pwned; false");
    let origin = pushing.host.dir().join("origin.git").display().to_string();
    git(
        &pushing.host.dir().join("repo"),
        &["remote", "set-url", "origin", &origin],
    );
    let pushing = pushing.with_program(
        "git",
        "echo \"$*\" >>'LOG'\nPATH=${PATH#*:}\nexec git \"$@\"",
    );
    let (run, _, log) = pushing.run(&[]);
    let run = run.expect(0);
    assert!(run.stderr.contains("`git fetch` failed"), "{}", run.stderr);
    assert!(
        log.contains(" refs/heads/--upload-pack=touch pwned; false\n"),
        "{log}"
    );
}

#[test]
fn ssh_asks_nothing_and_does_not_wait_for_ever() {
    let options = "-oBatchMode=yes -oConnectTimeout=30";
    for (name, value, program, expected) in [
        ("OTHER", "", "ssh", true),
        ("GIT_SSH_COMMAND", "mine", "mine", false),
        ("GIT_SSH", "mine", "mine", false),
    ] {
        let pushing = Pushing::to("git@127.0.0.1:o/r.git", "main");
        let pushing = pushing.with_program(program, "echo \"$*\" >>'LOG'\nexit 1");
        let (run, _, log) = pushing.env(name, value).run(&[]);
        let run = run.expect(0);
        assert!(run.stderr.contains("`git fetch` failed"), "{}", run.stderr);
        assert!(log.contains("git-upload-pack 'o/r.git'"), "{name}: {log}");
        assert_eq!(log.contains(options), expected, "{name}: {log}");
    }
}
