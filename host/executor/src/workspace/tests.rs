//! Tests with real repositories and a real git, in the local executor.

mod again;
mod clones;
mod copies;
mod existing;
mod salvage;
mod startup;

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::{LocalExecutor, LocalSettings};
use mswea_core::Event;
use mswea_core::{Front, Journal, StopSource};

/// Records what was shown.
#[derive(Default)]
struct Shown(Mutex<Vec<String>>);

impl Front for Shown {
    fn show(&self, progress: &Progress<'_>) {
        match progress {
            Progress::Preparing(text) => self.0.lock().unwrap().push((*text).to_owned()),
            Progress::Warning(text) => self.0.lock().unwrap().push(format!("warning: {text}")),
            _ => {}
        }
    }
}

impl Journal for Shown {
    fn record(&self, _: &Event) -> io::Result<f64> {
        Ok(0.0)
    }
}

/// Starts and sets up.
async fn begin(executor: &mut WorkspaceExecutor, context: &Context) -> Result<(), ExecutorError> {
    executor.start(context, None).await?;
    executor.set_up(context).await.map(drop)
}

/// A temporary folder with a home of its own, without settings of git.
struct Place {
    root: tempfile::TempDir,
    shown: Arc<Shown>,
    env: Vec<(String, String)>,
    interpreter: Vec<String>,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::Builder::new()
            .prefix("it's \"a\" ")
            .tempdir()
            .unwrap();
        std::fs::create_dir(root.path().join("home")).unwrap();
        let home = root.path().join("home").to_str().unwrap().to_owned();
        let env = [
            ("HOME", home.as_str()),
            ("XDG_CONFIG_HOME", &home),
            ("GIT_CONFIG_NOSYSTEM", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            root,
            shown: Arc::default(),
            env: env.to_vec(),
            interpreter: vec!["/bin/sh".into(), "-c".into()],
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn text(&self, path: &str) -> String {
        self.at(path).to_str().unwrap().to_owned()
    }

    /// Runs a script in a folder; returns its output.
    fn sh(&self, folder: &str, script: &str) -> String {
        let output = Program::new("bash")
            .args(["-euc", script])
            .current_dir(self.at(folder))
            .env("GIT_CONFIG_COUNT", "3")
            .env("GIT_CONFIG_KEY_0", "user.name")
            .env("GIT_CONFIG_VALUE_0", "n")
            .env("GIT_CONFIG_KEY_1", "user.email")
            .env("GIT_CONFIG_VALUE_1", "e")
            .env("GIT_CONFIG_KEY_2", "init.defaultBranch")
            .env("GIT_CONFIG_VALUE_2", "main")
            .envs(self.env.clone())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{script}: {output:?}");
        text.trim_end().to_owned()
    }

    /// A repository with three commits on `main`, a branch `side`, a tag `v1`, a link and a
    /// program.
    fn origin(&self, name: &str) -> String {
        std::fs::create_dir_all(self.at(name)).unwrap();
        self.sh(
            name,
            "git init -q .; echo one >a; git add a; git commit -qm 1; git tag -a v1 -m v1
             git checkout -qb side/way; echo side >side; git add side; git commit -qm s; git checkout -q main
             mkdir -p 'sub dir'; printf '#!/bin/sh\necho hi\n' >'sub dir/run'; chmod +x 'sub dir/run'
             ln -s 'sub dir/run' link; ln -s nowhere dangling; printf '*.ign\n' >.gitignore
             git add .; git commit -qm 2; echo three >>a; git commit -qam 3",
        );
        format!("file://{}", self.text(name))
    }

    fn settings(&self, repo: &str) -> WorkspaceSettings {
        WorkspaceSettings {
            repo: (!repo.is_empty()).then(|| repo.to_owned()),
            repo_path: self.text("work"),
            startup_timeout: Duration::from_secs(60),
            on_host: true,
            ..WorkspaceSettings::default()
        }
    }

    /// An executor that has not started.
    fn made(
        &self,
        mut settings: WorkspaceSettings,
        cwd: &str,
    ) -> Result<WorkspaceExecutor, String> {
        let cwd = settings.settle(cwd).map_err(|error| error.message)?;
        let local = LocalExecutor::new(LocalSettings {
            cwd: Some(PathBuf::from(cwd)),
            env: self.env.clone().into_iter().collect(),
            interpreter: self.interpreter.clone(),
            timeout: Duration::from_secs(20),
            ..LocalSettings::default()
        });
        Ok(WorkspaceExecutor::new(Box::new(local), settings))
    }

    fn context(&self, stop: Stop) -> Context {
        Context::new(self.shown.clone(), self.shown.clone(), stop)
    }

    async fn started(&self, settings: WorkspaceSettings) -> Result<WorkspaceExecutor, String> {
        let mut executor = self.made(settings, "")?;
        match begin(&mut executor, &self.context(Stop::never())).await {
            Ok(()) => Ok(executor),
            Err(error) => {
                executor.cleanup().await;
                Err(error.message)
            }
        }
    }

    /// Why it does not start.
    async fn refused(&self, settings: WorkspaceSettings) -> String {
        match self.started(settings).await {
            Ok(_) => panic!("it started"),
            Err(message) => message,
        }
    }

    fn shown(&self) -> String {
        self.shown.0.lock().unwrap().join("\n")
    }
}

fn startup(text: &str) -> StartupCommand {
    StartupCommand {
        text: text.to_owned(),
        key: "workspace.startup_commands",
    }
}

async fn run(executor: &mut WorkspaceExecutor, command: &str) -> String {
    let output = executor
        .execute(&Command::new(command), &Stop::never())
        .await;
    assert_eq!(output.returncode, 0, "{command}: {}", output.output);
    output.output.trim_end().to_owned()
}

/// The patch of the changes since the start.
async fn salvaged(executor: &mut WorkspaceExecutor) -> String {
    let text = executor.salvage_command().unwrap();
    let command = Command {
        whole: true,
        ..Command::new(&text)
    };
    let output = executor.execute(&command, &Stop::never()).await;
    assert_eq!(output.returncode, 0, "{}", output.output);
    mswea_git::SavedChanges::of(&output.output).unwrap().patch
}

/// Every file below `folder` with its content, mode and target, except git's own.
fn tree(folder: &Path) -> Vec<(String, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in next.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap();
            let name = name.to_str().unwrap().to_owned();
            let meta = path.symlink_metadata().unwrap();
            if name == ".git" {
                continue;
            } else if meta.is_symlink() {
                let target = std::fs::read_link(&path).unwrap();
                found.push((name, 0, target.to_str().unwrap().into()));
            } else if meta.is_dir() {
                folders.push(path);
            } else {
                let mode = meta.permissions().mode() & 0o100;
                found.push((name, mode, std::fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}
