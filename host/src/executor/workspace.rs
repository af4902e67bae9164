//! Sets a workspace up around any other executor: a repository is cloned or copied into its
//! environment, brought to a commit, and start-up commands run there, before the first action.
//!
//! All of it goes through the other executor, so that it works wherever commands do.

mod failures;
mod host_folder;
mod scripts;
mod settings;
mod source;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use host_folder::{Hold, HostFolder};
use scripts::Since;
pub use settings::{StartupCommand, WorkspaceSettings};
use source::{Remote, Source, without_credentials};

use super::folders::TempFolder;
use super::guard::Lease;
use crate::roles::{Command, Context, Executor, ExecutorError, Object, Output, Progress, Stop};

/// How much of a command stands in progress and messages.
const SHOWN: usize = 200;

/// A repository has come to where nothing can tell what is changed in it.
const NO_GIT: &str = "`git` is not in the environment: what is changed can't be saved as a diff; \
                      install it in the image or fetch the files yourself";

/// An executor whose environment has a workspace.
pub struct WorkspaceExecutor {
    inner: Box<dyn Executor>,
    settings: WorkspaceSettings,
    /// What the work is compared with, once it has started.
    base: Option<Base>,
    /// Keeps other runs out of the folder on the host's own disk.
    hold: Option<Hold>,
}

/// What the diff is made against: names of objects of the repository, if it had them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Base {
    /// What was checked out.
    commit: Option<String>,
    /// The files after the set-up, with what was not committed.
    tree: Option<String>,
    /// Whether the patch has to apply to the commit: git has cloned it, so there is nothing
    /// that was not committed but what the set-up has made. In a folder that was there before,
    /// the commit may be long past.
    cloned: bool,
}

/// How a step of the set-up ended.
struct Done {
    /// What it printed, without secrets.
    text: String,
    /// What it answered.
    answers: Vec<String>,
}

impl Done {
    fn answer(&self, name: &str) -> Option<&str> {
        self.answers.iter().find_map(|answer| {
            let (key, value) = answer.split_once(' ').unwrap_or((answer, ""));
            (key == name).then_some(value)
        })
    }
}

impl WorkspaceExecutor {
    /// Puts a workspace into the environment of `inner`, which starts its commands where
    /// [`WorkspaceSettings::settle`] said.
    pub fn new(inner: Box<dyn Executor>, settings: WorkspaceSettings) -> Self {
        Self {
            inner,
            settings,
            base: None,
            hold: None,
        }
    }

    async fn set_up(
        &mut self,
        source: Option<&Source>,
        context: &Context,
    ) -> Result<(), ExecutorError> {
        match source {
            Some(Source::Remote(remote)) => self.clone_it(remote, source, context).await?,
            Some(Source::Folder(folder)) => self.copy_it(folder, source, context).await?,
            None => self.position(source, context).await?,
        }
        let commands = self.settings.startup_commands.clone();
        let cloned = matches!(source, Some(Source::Remote(_)));
        // A start-up command may move it. What was asked for by name stays what the work is
        // compared with.
        let pinned = if cloned && self.settings.base_commit.is_some() && !commands.is_empty() {
            let head = scripts::head(&self.settings.repo_path);
            let done = self.run(&head, source, context).await?;
            done.answer("head").map(str::to_owned)
        } else {
            None
        };
        for (index, command) in commands.iter().enumerate() {
            let number = format!("{} of {}", index + 1, commands.len());
            self.start_up(command, &number, source, context).await?;
        }
        if !self.settings.has_repository() {
            return Ok(());
        }
        let state = scripts::state(&self.settings.repo_path);
        let done = self.run(&state, source, context).await?;
        if done.answer("no-git").is_some() {
            context.front.show(&Progress::Warning(NO_GIT));
        }
        let told = |name| done.answer(name).map(str::to_owned);
        self.base = told("repository").map(|_| Base {
            commit: pinned.or_else(|| told("head")),
            tree: told("tree"),
            cloned,
        });
        Ok(())
    }

    async fn clone_it(
        &mut self,
        remote: &Remote,
        source: Option<&Source>,
        context: &Context,
    ) -> Result<(), ExecutorError> {
        let path = self.settings.repo_path.clone();
        let commit = self.settings.base_commit.clone();
        show(context, &format!("cloning `{}` into `{path}`", remote.url));
        self.step(
            &scripts::make_room(&path, self.settings.on_host),
            source,
            context,
        )
        .await?;
        let init = scripts::init(&path, &remote.url);
        self.step(&init, source, context).await?;
        let Some(credentials) = &remote.credentials else {
            let script = scripts::fetch(&path, false, commit.as_deref());
            return self.step(&script, source, context).await.map(drop);
        };
        let scratch = format!("{path}/{}", scripts::SCRATCH);
        // A host that is killed meanwhile leaves them in the repository.
        let _guarded = match self.settings.on_host {
            true => {
                let lease = self.guard();
                let run = &self.settings.run_id;
                let along = TempFolder::with(run, "clone", Some(Path::new(&scratch)))?;
                Some((along, lease))
            }
            false => None,
        };
        let to = format!("{scratch}/credentials");
        let mut done = self.upload_text(credentials, &to, context).await;
        if done.is_ok() {
            let script = scripts::fetch(&path, true, commit.as_deref());
            done = self.step(&script, source, context).await.map(drop);
        }
        if done.is_err() {
            // A shell that was killed did not do so.
            let forget = scripts::forget(&path);
            self.inner
                .execute(&Command::new(&forget), &Stop::never())
                .await;
        }
        done
    }

    /// Has the guardian look for folders of a host that is gone.
    fn guard(&self) -> Option<Lease> {
        let program = self.settings.guard_program.as_deref()?;
        // Beside the executor's own lease of the run.
        let lease = Lease::new(program, &format!("{}-setup", self.settings.run_id));
        match lease {
            Ok(lease) => {
                lease.tell_engine("");
                Some(lease)
            }
            Err(error) => {
                tracing::debug!(%error, "no guardian for the credentials of a repository");
                None
            }
        }
    }

    async fn copy_it(
        &mut self,
        folder: &Path,
        source: Option<&Source>,
        context: &Context,
    ) -> Result<(), ExecutorError> {
        let path = self.settings.repo_path.clone();
        show(
            context,
            &format!("copying `{}` to `{path}`", folder.display()),
        );
        self.step(
            &scripts::make_room(&path, self.settings.on_host),
            source,
            context,
        )
        .await?;
        self.upload_or_stop(folder, &path, context).await?;
        let adopt = scripts::adopt(&path, self.settings.on_host);
        self.step(&adopt, source, context).await?;
        self.position(source, context).await
    }

    /// Brings a repository that is there to its commit.
    async fn position(
        &mut self,
        source: Option<&Source>,
        context: &Context,
    ) -> Result<(), ExecutorError> {
        let WorkspaceSettings {
            repo_path,
            base_commit,
            reset,
            ..
        } = &self.settings;
        let what = match (reset, base_commit) {
            (false, None) => return Ok(()),
            (true, None) => format!("resetting `{repo_path}`"),
            (true, Some(commit)) => {
                format!("resetting `{repo_path}`, then checking out `{commit}`")
            }
            (false, Some(commit)) => format!("checking out `{commit}` in `{repo_path}`"),
        };
        show(context, &what);
        // It may be the only copy of somebody's work.
        let own = self.settings.on_host && source.is_none();
        let careful = own && !self.settings.path_is_chosen;
        let script = scripts::position(repo_path, *reset, careful, base_commit.as_deref());
        self.step(&script, source, context).await.map(drop)
    }

    async fn start_up(
        &mut self,
        command: &StartupCommand,
        number: &str,
        source: Option<&Source>,
        context: &Context,
    ) -> Result<(), ExecutorError> {
        let shown = beginning(&redact(source, &command.text));
        show(context, &format!("start-up command {number}: {shown}"));
        let output = self.execute_limited(&command.text, context).await;
        if exception(&output).is_none() && output.returncode == 0 {
            return Ok(());
        }
        let limit = self.settings.limit();
        fail(failures::of_command(
            command.key,
            &shown,
            limit,
            &output,
            &|text| redact(source, text),
        ))
    }

    /// Runs a script that has to say that it is done.
    async fn step(
        &mut self,
        script: &str,
        source: Option<&Source>,
        context: &Context,
    ) -> Result<Done, ExecutorError> {
        let done = self.run(script, source, context).await?;
        if done.answer("done").is_some() {
            return Ok(done);
        }
        let reason = done.answer("fail").unwrap_or_default();
        fail(failures::of_step(
            reason,
            &self.settings,
            source,
            &done.text,
        ))
    }

    /// Runs a script of the set-up.
    async fn run(
        &mut self,
        script: &str,
        source: Option<&Source>,
        context: &Context,
    ) -> Result<Done, ExecutorError> {
        let output = self.execute_limited(script, context).await;
        let answers = scripts::answers(&output.output).map(str::to_owned);
        let done = Done {
            answers: answers.collect(),
            text: redact(source, &scripts::rest(&output.output)),
        };
        if exception(&output).is_none() {
            return Ok(done);
        }
        let what = source.map_or_else(|| self.settings.repo_path.clone(), Source::shown);
        let limit = self.settings.limit();
        fail(failures::of_script(
            &what,
            limit,
            &output,
            &done.text,
            &|text| redact(source, text),
        ))
    }

    async fn execute_limited(&mut self, text: &str, context: &Context) -> Output {
        let command = Command {
            timeout: Some(self.settings.limit()),
            ..Command::new(text)
        };
        self.inner.execute(&command, &context.stop).await
    }

    async fn upload_or_stop(
        &mut self,
        from: &Path,
        to: &str,
        context: &Context,
    ) -> Result<(), ExecutorError> {
        tokio::select! {
            biased;
            () = context.stop.stopped() => {
                fail(format!("stopped while copying `{}`", from.display()))
            }
            done = self.inner.upload(from, to) => done,
        }
    }

    /// Uploads a text that nobody else on this machine can read meanwhile.
    async fn upload_text(
        &mut self,
        text: &str,
        to: &str,
        context: &Context,
    ) -> Result<(), ExecutorError> {
        // Only its owner can enter the folder, and whose it is is known: a host that is killed now
        // leaves a secret behind, which has to go. In the file's own way stands nothing: in the
        // environment it may belong to another user than the one who has to read it.
        let folder = TempFolder::new(&self.settings.run_id, "upload")?;
        let write = || -> io::Result<PathBuf> {
            let file = folder.path().join("credentials");
            std::fs::write(&file, format!("{text}\n"))?;
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            std::fs::set_permissions(&file, mode)?;
            Ok(file)
        };
        let done = match write() {
            Ok(file) => self.upload_or_stop(&file, to, context).await,
            Err(error) => fail(format!(
                "no temporary file can be written: {error}; let `TMPDIR` name a folder that can"
            )),
        };
        folder.remove().await;
        done
    }
}

#[async_trait]
impl Executor for WorkspaceExecutor {
    async fn start(&mut self, context: &Context) -> Result<(), ExecutorError> {
        let source = self.settings.source()?;
        let room = match &source {
            Some(_) if self.settings.on_host => {
                self.hold = None;
                let WorkspaceSettings {
                    repo_path, run_id, ..
                } = &self.settings;
                Some(HostFolder::make(repo_path, run_id)?)
            }
            _ => None,
        };
        let mut done = self.inner.start(context).await;
        if done.is_ok() {
            done = self.set_up(source.as_ref(), context).await;
        }
        match room {
            Some(room) if done.is_err() => {
                // What was started may still write into it.
                self.inner.cleanup().await;
                room.undo().await;
            }
            Some(room) => self.hold = Some(room.keep()),
            None => {}
        }
        done
    }

    async fn execute(&mut self, command: &Command<'_>, stop: &Stop) -> Output {
        self.inner.execute(command, stop).await
    }

    async fn upload(&mut self, from: &Path, to: &str) -> Result<(), ExecutorError> {
        self.inner.upload(from, to).await
    }

    async fn download(&mut self, from: &str, to: &Path) -> Result<(), ExecutorError> {
        self.inner.download(from, to).await
    }

    async fn cleanup(&mut self) {
        self.inner.cleanup().await;
        self.hold = None;
    }

    /// The command that prints what was changed in the repository since the start, as a patch;
    /// none before the start, and where there is no repository.
    fn salvage_command(&self) -> Option<String> {
        let base = self.base.as_ref()?;
        let (commit, tree) = (base.commit.as_deref(), base.tree.as_deref());
        let since = match commit {
            Some(commit) if base.cloned => Since::Commit(commit, tree),
            _ => Since::Tree(tree, commit),
        };
        Some(scripts::diff(&self.settings.repo_path, since))
    }

    fn template_vars(&self) -> Object {
        self.inner.template_vars()
    }
}

fn fail<T>(message: String) -> Result<T, ExecutorError> {
    Err(ExecutorError { message })
}

fn show(context: &Context, what: &str) {
    context.front.show(&Progress::Preparing(what));
}

fn redact(source: Option<&Source>, text: &str) -> String {
    match source {
        Some(source) => source.redact(text),
        None => without_credentials(text),
    }
}

/// The kind of what kept a command from ending by itself.
fn exception(output: &Output) -> Option<&str> {
    if output.exception_info.is_empty() {
        return None;
    }
    let kind = output.extra.get("exception_type");
    Some(kind.and_then(|kind| kind.as_str()).unwrap_or("Exception"))
}

/// The beginning of a command, on one line.
fn beginning(command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}
