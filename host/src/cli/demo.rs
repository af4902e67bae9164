//! The files of the demo: a small repository with a real bug, and a script of a model's replies
//! that fix it.
//!
//! Only the model's replies are scripted (written by hand, so they have no token counts). The loop,
//! the plugins, the executor and the commands are real, so each demo makes the patch itself:
//! [`prepare`] checks that the test fails before, [`verify`] that it passes after.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

const TASK: &str = include_str!("../../../examples/demo/task.md");
const REPLIES: &str = include_str!("../../../examples/demo/replies.json");
const FILES: [(&str, &str); 3] = [
    (
        "README.md",
        include_str!("../../../examples/demo/repo/README.md"),
    ),
    (
        "slugify.sh",
        include_str!("../../../examples/demo/repo/slugify.sh"),
    ),
    (TEST, include_str!("../../../examples/demo/repo/test.sh")),
];
const TEST: &str = "test.sh";

/// The files and paths of a run of the demo.
#[derive(Clone, Debug)]
pub struct Demo {
    /// The repository: the run's working directory.
    pub repo: PathBuf,
    /// The task.
    pub task: String,
    /// The model's replies, in the form of the `replay` adapter's config.
    pub replies: Value,
}

/// Writes the repository into `dir` (which exists and is the caller's to remove), commits it,
/// and checks that its test fails.
///
/// # Errors
/// [`anyhow::Error`] if git or a shell is missing, or `dir` can't be written.
pub fn prepare(dir: &Path) -> anyhow::Result<Demo> {
    let repo = dir.join("slugify");
    fs::create_dir(&repo).with_context(|| format!("can't create `{}`", repo.display()))?;
    for (name, text) in FILES {
        let path = repo.join(name);
        fs::write(&path, text).with_context(|| format!("can't write `{}`", path.display()))?;
    }
    // An empty template, without the user's hooks.
    git(&repo, &["init", "--quiet", "--template="])?;
    git(&repo, &["add", "--all"])?;
    git(&repo, &["commit", "--quiet", "--message=First version"])?;

    let before = run_test(&repo)?;
    ensure!(
        before.status.code() == Some(1),
        "the demo's test should fail before the fix, but it ended with {}: this is a bug of \
         the demo, or of `sh` on this machine; it printed:\n{}",
        before.status,
        text_of(&before)
    );
    let replies = serde_json::from_str(REPLIES).context("the demo's replies are not JSON")?;
    Ok(Demo {
        repo,
        task: TASK.trim_end().to_owned(),
        replies,
    })
}

/// Checks that the demo's test passes, and that the test is the one that failed before.
///
/// # Errors
/// A message if the test fails or was changed.
pub fn verify(demo: &Demo) -> anyhow::Result<()> {
    let path = demo.repo.join(TEST);
    let test = fs::read_to_string(&path)
        .with_context(|| format!("can't read `{}`: the run has removed it", path.display()))?;
    ensure!(
        FILES.contains(&(TEST, test.as_str())),
        "the run has changed `{TEST}`: only the code should change"
    );
    let after = run_test(&demo.repo)?;
    ensure!(
        after.status.success(),
        "the demo's test still fails after the run; it printed:\n{}",
        text_of(&after)
    );
    Ok(())
}

/// Suggestions for the user after the demo.
pub fn epilogue() -> String {
    "\
The model's replies came from a script; the loop, the plugins, the shell commands and the
patch were real. Next, with a real model, in a repository of yours:

  export OPENAI_API_KEY=...
  mswea-host -m openai/gpt-5 -t \"fix the failing test\"

with a server of your own (vLLM, llama.cpp, Ollama, ...):

  mswea-host -m local/qwen --base-url http://127.0.0.1:8000/v1 -t \"fix the failing test\"

with another plugin, built-in or yours:

  mswea-host plugin list
  mswea-host -m local/qwen --plugin ./my_parser.wasm -t \"fix the failing test\"

The model's commands run on your machine. At a terminal each step waits for Enter; elsewhere nothing
is asked.
"
    .to_owned()
}

/// Runs git without the settings of the machine and its user, which may ask for signatures, hooks
/// or another editor, or name another repository.
fn git(repo: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if starts_with_git(&name) {
            command.env_remove(&name);
        }
    }
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        // Git before 2.32 does not know `GIT_CONFIG_GLOBAL`, and reads its settings from these two
        // folders.
        .env("HOME", "/dev/null")
        .env("XDG_CONFIG_HOME", "/dev/null")
        .args(["-c", "init.defaultBranch=main"])
        .args(["-c", "user.name=demo", "-c", "user.email=demo@localhost"])
        .args(["-c", "commit.gpgsign=false"])
        .args(arguments)
        .current_dir(repo)
        .stdin(Stdio::null());
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("the demo needs `git`, which is not in PATH: install it and try again")
        }
        Err(error) => return Err(error).context("can't start `git`"),
    };
    ensure!(
        output.status.success(),
        "`git {}` ended with {} while the demo was set up: {}",
        arguments.join(" "),
        output.status,
        text_of(&output).trim_end()
    );
    Ok(())
}

fn starts_with_git(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"GIT_")
}

fn run_test(repo: &Path) -> anyhow::Result<Output> {
    Command::new("sh")
        .arg(TEST)
        .current_dir(repo)
        .stdin(Stdio::null())
        .output()
        .context("the demo needs a POSIX shell, but `sh` can't be started")
}

fn text_of(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(demo: &Demo) -> Vec<(i32, String)> {
        let replies = demo.replies["replies"].as_array().unwrap();
        let mut outputs = Vec::new();
        for reply in replies {
            assert!(!reply["content"].as_str().unwrap().is_empty());
            assert_eq!(reply["usage"]["cost"], 0.0);
            for call in reply["tool_calls"].as_array().unwrap() {
                let command = call["command"].as_str().unwrap();
                let output = Command::new("/bin/sh")
                    .args(["-c", command])
                    .current_dir(&demo.repo)
                    .stdin(Stdio::null())
                    .output()
                    .unwrap();
                outputs.push((output.status.code().unwrap(), text_of(&output)));
            }
        }
        outputs
    }

    #[test]
    fn the_scripted_replies_fix_the_bug() {
        let dir = tempfile::tempdir().unwrap();
        let demo = prepare(dir.path()).unwrap();
        let error = verify(&demo).unwrap_err().to_string();
        assert!(error.contains("still fails"), "{error}");

        let outputs = play(&demo);
        let codes: Vec<_> = outputs.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, [0, 1, 0, 0, 0, 0, 0]);
        assert!(outputs[1].1.contains("3 of 6 tests failed"));
        assert!(outputs[5].1.contains("all 6 tests passed"));
        let submission = &outputs[6].1;
        let (marker, patch) = submission.split_once('\n').unwrap();
        assert_eq!(marker, "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT");
        assert!(
            patch.starts_with("diff --git a/slugify.sh b/slugify.sh\n"),
            "{patch}"
        );
        assert_eq!(patch.matches("diff --git").count(), 1);
        verify(&demo).unwrap();
    }

    #[test]
    fn a_changed_test_is_no_success() {
        let dir = tempfile::tempdir().unwrap();
        let demo = prepare(dir.path()).unwrap();
        fs::write(demo.repo.join(TEST), "exit 0\n").unwrap();
        let error = verify(&demo).unwrap_err().to_string();
        assert!(error.contains("changed `test.sh`"), "{error}");
        fs::remove_file(demo.repo.join(TEST)).unwrap();
        let error = verify(&demo).unwrap_err().to_string();
        assert!(error.contains("removed"), "{error}");
    }

    #[test]
    fn an_occupied_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path()).unwrap();
        let error = prepare(dir.path()).unwrap_err().to_string();
        assert!(error.contains("can't create"), "{error}");
    }

    #[test]
    fn the_task_names_what_is_there() {
        for name in ["slugify.sh", "test.sh"] {
            assert!(TASK.contains(name));
        }
        assert!(epilogue().lines().all(|line| line.len() <= 100));
    }
}
