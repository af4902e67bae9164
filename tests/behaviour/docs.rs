//! Runs the examples in the pages for plugin authors, and checks that they print what the pages
//! show.
//!
//! - A block of `sh` is run in a new shell in the same folder; `mswea-host` is in `PATH`.
//! - A block of `text` right after one is its output: each line, except `...`, is part of some line
//!   of the output, in this order.
//! - A block of any kind right after `<!-- file: PATH -->` is written to that file first.
//! - Other blocks, such as `console`, are not run.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::needs::Need;
use crate::story::model;

/// The time limit of one block, in seconds: the first build of a project compiles its dependencies.
const TIMEOUT: &str = "900";

/// The pages whose blocks of `sh` are run here; `site.rs` has the others.
pub const PAGES: [&str; 5] = [
    "sdk/rust/README.md",
    "sdk/ADAPTERS.md",
    "sdk/c/README.md",
    "sdk/python/README.md",
    "sdk/js/README.md",
];

/// A step of a page.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Runs a script; its output has to contain these lines.
    Run {
        line: usize,
        script: String,
        expected: Vec<String>,
    },
    /// Writes a file.
    Write { path: String, content: String },
}

/// Parses a page.
fn steps(markdown: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut lines = markdown.lines().enumerate();
    // The file of the next block, and whether the last block was a script.
    let (mut file, mut after_script) = (None, false);
    while let Some((number, text)) = lines.next() {
        if let Some(path) = text.strip_prefix("<!-- file: ") {
            let path = path.strip_suffix(" -->");
            file = Some(path.ok_or(format!("line {}: no ` -->` at its end", number + 1))?);
            continue;
        }
        let indent = text.len() - text.trim_start().len();
        let Some(tag) = text.trim_start().strip_prefix("```") else {
            if !text.trim().is_empty() {
                (file, after_script) = (None, false);
            }
            continue;
        };
        let mut content = String::new();
        loop {
            let (_, line) = lines
                .next()
                .ok_or(format!("line {}: the block does not end", number + 1))?;
            if line.trim() == "```" {
                break;
            }
            content.push_str(line.get(indent..).unwrap_or_default());
            content.push('\n');
        }
        let was_script = std::mem::take(&mut after_script);
        match (file.take(), tag) {
            (Some(path), _) => steps.push(Step::Write {
                path: path.to_owned(),
                content,
            }),
            (None, "sh") => {
                after_script = true;
                steps.push(Step::Run {
                    line: number + 1,
                    script: content,
                    expected: Vec::new(),
                });
            }
            (None, "text") => {
                if let (true, Some(Step::Run { expected, .. })) = (was_script, steps.last_mut()) {
                    expected.extend(content.lines().map(str::to_owned));
                }
            }
            (None, _) => {}
        }
    }
    Ok(steps)
}

/// Runs a page with this program as `mswea-host`, in this folder; returns how many scripts it has.
fn run_page(
    markdown: &str,
    host: &Path,
    folder: &Path,
    variables: &[(&str, OsString)],
) -> Result<usize, String> {
    let mut scripts = 0;
    let mut folder = folder.to_owned();
    let home = host.parent().ok_or("the program has no folder")?;
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([home.to_owned()].into_iter().chain(env::split_paths(&path)))
        .map_err(|error| error.to_string())?;
    for step in steps(markdown)? {
        let (line, script, expected) = match step {
            Step::Write { path, content } => {
                let path = folder.join(path);
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent).map_err(|error| error.to_string())?;
                }
                fs::write(&path, content)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                continue;
            }
            Step::Run {
                line,
                script,
                expected,
            } => (line, script, expected),
        };
        // A shell that has changed its folder passes it to the next one.
        let place = folder.join(".docs-folder");
        let whole = format!("set -e\nexec 2>&1\n{script}\npwd > '{}'\n", place.display());
        let run = Command::new("timeout")
            .args([TIMEOUT, "sh", "-c", &whole])
            .current_dir(&folder)
            .env("PATH", &path)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("`timeout`: {error}"))?;
        let output = String::from_utf8_lossy(&run.stdout).into_owned();
        if !run.status.success() {
            let mut message = format!("line {line}: {}\n{script}", run.status);
            let _ = write!(message, "--- printed:\n{output}");
            return Err(message);
        }
        let mut printed = output.lines();
        for wanted in expected.iter().filter(|wanted| wanted.trim() != "...") {
            if !printed.any(|text| text.contains(wanted.trim())) {
                return Err(format!(
                    "line {line}: not printed, or not in this order: {wanted}\n{script}--- \
                     printed:\n{output}"
                ));
            }
        }
        let now = fs::read_to_string(&place).map_err(|error| error.to_string())?;
        fs::remove_file(&place).map_err(|error| error.to_string())?;
        folder = PathBuf::from(now.trim_end());
        scripts += 1;
    }
    Ok(scripts)
}

/// Runs a page of this repository with the host under test.
#[track_caller]
fn page(path: &str) {
    assert!(PAGES.contains(&path));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let markdown = fs::read_to_string(root.join(path)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let server = model();
    // These folders are shared by all tests and runs, so that nothing is compiled twice.
    let variables = [
        ("OPENAI_BASE_URL", server.url().into()),
        ("OPENAI_API_KEY", "key-of-the-test".into()),
        ("XDG_CACHE_HOME", scratch.join("cache").into()),
        ("MSWEA_PLUGIN_CACHE", "trust".into()),
        ("CARGO_TARGET_DIR", scratch.join("docs").into()),
    ];
    let host = Path::new(env!("CARGO_BIN_EXE_mswea-host"));
    match run_page(&markdown, host, folder.path(), &variables) {
        Ok(scripts) => assert!(scripts > 0, "{path} has nothing to run"),
        Err(error) => panic!("{path}: {error}"),
    }
}

#[test]
fn a_plugin_in_rust_by_the_page() {
    page("sdk/rust/README.md");
}

#[test]
fn an_adapter_by_the_page() {
    if Need::Python.is_met() {
        page("sdk/ADAPTERS.md");
    }
}

#[test]
fn a_plugin_in_c_by_the_page() {
    if Need::Clang.is_met() {
        page("sdk/c/README.md");
    }
}

#[test]
fn a_plugin_in_python_by_the_page() {
    if Need::Python.is_met() {
        page("sdk/python/README.md");
    }
}

#[test]
fn a_plugin_in_javascript_by_the_page() {
    if Need::Npm.is_met() {
        page("sdk/js/README.md");
    }
}

mod tests {
    use super::*;

    const PAGE: &str = "\
Words.

<!-- file: a/b.txt -->
```c
x = 1
```

```sh
cat a/b.txt
cd a; mswea-host
```
```text
x = 1
...
host here
```

```text
not looked at: there is something between
```
more
```console
false
```
1. In a list:

   ```sh
   ls
   ```

   ```text
   b.txt
   ```
";

    fn run(page: &str) -> Result<usize, String> {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let host = root.path().join("bin/mswea-host");
        fs::create_dir(root.path().join("bin")).unwrap();
        fs::create_dir(root.path().join("work")).unwrap();
        fs::write(&host, "#!/bin/sh\necho host $WHERE >&2\n").unwrap();
        fs::set_permissions(&host, fs::Permissions::from_mode(0o755)).unwrap();
        run_page(
            page,
            &host,
            &root.path().join("work"),
            &[("WHERE", "here".into())],
        )
    }

    #[test]
    fn a_page_is_run() {
        assert_eq!(run(PAGE), Ok(2));
    }

    #[test]
    fn a_wrong_statement_is_reported_with_its_line() {
        for (page, expected) in [
            (
                "```sh\necho a\nfalse\necho b\n```\n",
                "line 1: exit status: 1",
            ),
            (
                "\n```sh\necho a\n```\n```text\nb\n```\n",
                "line 2: not printed, or not in this order: b",
            ),
            (
                "```sh\necho a; echo b\n```\n```text\nb\na\n```\n",
                "in this order: a",
            ),
            ("```sh\necho a\n", "line 1: the block does not end"),
            ("<!-- file: a\n", "line 1: no ` -->`"),
        ] {
            let error = run(page).expect_err(page);
            assert!(error.contains(expected), "{page}\n{error}");
        }
    }
}
