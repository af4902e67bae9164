//! Sets up a workspace in the environment of any other executor: a repository is cloned or copied
//! there, a commit is checked out, and start-up commands run, before the first action.
//!
//! The other executor runs every step, so that the set-up works wherever commands do.

mod again;
mod failures;
mod host_folder;
mod scripts;
mod settings;
mod source;
#[cfg(test)]
mod tests;
mod upload;

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use serde_json::Value;

use again::{Base, WorkspaceHandle};
pub use again::{folder_of_handle, without_claim};
use failures::{beginning, exception};
use host_folder::{Hold, HostFolder};
pub use settings::{StartupCommand, WorkspaceSettings};
use source::{Remote, RepositorySource, without_credentials};

use super::folders::TempFolder;
use super::guard::Lease;
use mswea_core::{
    Command, Context, EnvironmentReady, Executor, ExecutorError, InteractivePrograms, Object,
    Output, Progress, Stop,
};
use mswea_git::{Keep, Since, StartState};

/// The message if git is missing, so that changes can't be found.
const NO_GIT: &str = "`git` is not in the environment, so the changes can't be saved as a diff: install it in the image, or copy the files yourself";

/// The time limit of noting the state of a repository that is no workspace.
const NOTED: Duration = Duration::from_secs(60);

/// An executor whose environment has a workspace.
pub struct WorkspaceExecutor {
    inner: Box<dyn Executor>,
    settings: WorkspaceSettings,
    /// The state that changes are compared with; none before the start.
    base: Option<Base>,
    /// The folder on the host's own disk, until the set-up has ended.
    room: Option<HostFolder>,
    /// Keeps other runs out of the folder on the host's own disk.
    hold: Option<Hold>,
    /// The handle of the environment itself.
    handle: Value,
}

/// The result of a step of the set-up.
struct SetupStepResult {
    /// Its output, without secrets.
    text: String,
    /// The answers of its script, each a name and a value (see [`scripts`]).
    answers: Vec<String>,
}

impl SetupStepResult {
    fn answer(&self, name: &str) -> Option<&str> {
        self.answers.iter().find_map(|answer| {
            let (key, value) = answer.split_once(' ').unwrap_or((answer, ""));
            (key == name).then_some(value)
        })
    }
}

impl WorkspaceExecutor {
    /// Adds a workspace to the environment of `inner`, whose commands start where
    /// [`WorkspaceSettings::settle`] returned.
    pub fn new(inner: Box<dyn Executor>, settings: WorkspaceSettings) -> Self {
        Self {
            inner,
            settings,
            base: None,
            room: None,
            hold: None,
            handle: Value::Null,
        }
    }

    async fn set_up_from(
        &mut self,
        source: Option<&RepositorySource>,
        context: &Context,
    ) -> Result<(), ExecutorError> {
        match source {
            Some(RepositorySource::Remote(remote)) => {
                self.clone_it(remote, source, context).await?;
            }
            Some(RepositorySource::Folder(folder)) => self.copy_it(folder, source, context).await?,
            None => self.position(source, context).await?,
        }
        let commands = self.settings.startup_commands.clone();
        let cloned = matches!(source, Some(RepositorySource::Remote(_)));
        // A start-up command may move `HEAD`. A configured commit stays the base all the same.
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
        let state = self.note_start(source, context).await?;
        if state.lacks_git {
            context.front.show(&Progress::Warning(NO_GIT));
        }
        let noted = Base::of(&state);
        self.base = Some(Base {
            commit: pinned.or(noted.commit.clone()),
            cloned,
            ..noted
        });
        Ok(())
    }

    /// Notes the state of the files, which the patch at the end is counted from.
    async fn note_start(
        &mut self,
        source: Option<&RepositorySource>,
        context: &Context,
    ) -> Result<StartState, ExecutorError> {
        let path = &self.settings.repo_path;
        let is_only_noted = self.settings.is_only_noted();
        if is_only_noted && self.settings.on_host && !is_in_repository(&self.settings.cwd) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            return Ok(StartState {
                time: now.ok().map(|now| now.as_secs()),
                ..StartState::default()
            });
        }
        let script = mswea_git::start(
            path,
            match (is_only_noted, self.settings.on_host) {
                (true, _) => Keep::Names,
                (false, true) => Keep::OwnContents,
                (false, false) => Keep::Contents,
            },
        );
        let limit = self.settings.limit();
        let command = Command {
            timeout: Some(if is_only_noted {
                limit.min(NOTED)
            } else {
                limit
            }),
            apart: true,
            ..Command::new(&script)
        };
        let output = self.inner.execute(&command, &context.stop).await;
        match (StartState::of(&output.output), exception(&output)) {
            (Some(state), None) => Ok(state),
            // Without a time, what was there counts as unknown.
            (state, _) if is_only_noted => Ok(state
                .filter(|state| !state.trees.is_empty())
                .unwrap_or_default()),
            (None, None) => Ok(StartState::default()),
            (_, Some(_)) => {
                let what =
                    source.map_or_else(|| self.settings.repo_path.clone(), RepositorySource::shown);
                let (limit, text) = (self.settings.limit(), redact(source, &output.output));
                fail(failures::of_script(&what, limit, &output, &text, &|text| {
                    redact(source, text)
                }))
            }
        }
    }

    async fn clone_it(
        &mut self,
        remote: &Remote,
        source: Option<&RepositorySource>,
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
        // If the host is killed in between, its guardian or `gc` removes the credentials, which the
        // owner file of this folder names.
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
            // A shell that was killed has not removed the credentials.
            let forget = scripts::forget(&path);
            let command = Command {
                apart: true,
                ..Command::new(&forget)
            };
            self.inner.execute(&command, &Stop::never()).await;
        }
        done
    }

    /// Ends the processes of the set-up, and removes its files from the host's own disk.
    async fn undo(&mut self) {
        if let Some(room) = self.room.take() {
            // A process of the environment may still write into the folder.
            self.inner.cleanup().await;
            room.undo().await;
        }
    }

    /// Makes the guardian responsible for the credentials, if this host is killed.
    fn guard(&self) -> Option<Lease> {
        let program = self.settings.guard_program.as_deref();
        // A lease in addition to the executor's own lease of the run.
        let run = format!("{}-setup", self.settings.run_id);
        let lease = Lease::of(program, &run, "the credentials of a repository may be left")?;
        lease.tell_engine("");
        Some(lease)
    }

    async fn copy_it(
        &mut self,
        folder: &Path,
        source: Option<&RepositorySource>,
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

    /// Checks out the commit in an existing repository.
    async fn position(
        &mut self,
        source: Option<&RepositorySource>,
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
        // The repository may be the only copy of the user's work.
        let own = self.settings.on_host && source.is_none();
        let careful = own && !self.settings.path_is_chosen;
        let script = scripts::position(repo_path, *reset, careful, base_commit.as_deref());
        self.step(&script, source, context).await.map(drop)
    }

    async fn start_up(
        &mut self,
        command: &StartupCommand,
        number: &str,
        source: Option<&RepositorySource>,
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

    /// Runs a script of the set-up.
    ///
    /// # Errors
    /// [`ExecutorError`] if the script could not be run, or did not answer that it is done.
    async fn step(
        &mut self,
        script: &str,
        source: Option<&RepositorySource>,
        context: &Context,
    ) -> Result<SetupStepResult, ExecutorError> {
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

    /// Runs a script and separates its answers from the rest of its output.
    async fn run(
        &mut self,
        script: &str,
        source: Option<&RepositorySource>,
        context: &Context,
    ) -> Result<SetupStepResult, ExecutorError> {
        let output = self.execute_limited(script, context).await;
        let answers = scripts::answers(&output.output).map(str::to_owned);
        let done = SetupStepResult {
            answers: answers.collect(),
            text: redact(source, &scripts::rest(&output.output)),
        };
        if exception(&output).is_none() {
            return Ok(done);
        }
        let what = source.map_or_else(|| self.settings.repo_path.clone(), RepositorySource::shown);
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
            apart: true,
            ..Command::new(text)
        };
        self.inner.execute(&command, &context.stop).await
    }
}

#[async_trait]
impl Executor for WorkspaceExecutor {
    async fn start(
        &mut self,
        context: &Context,
        known: Option<&Value>,
    ) -> Result<EnvironmentReady, ExecutorError> {
        let known = WorkspaceHandle::of(known);
        let source = self.settings.source()?;
        let mut gone = None;
        if source.is_some() && self.settings.on_host {
            self.hold = None;
            let WorkspaceSettings {
                repo_path, run_id, ..
            } = &self.settings;
            let mut room = HostFolder::make(repo_path, run_id, known.taken(repo_path)).await?;
            if room.is_left_over() {
                let what = format!(
                    "emptying `{repo_path}`, where the set-up of the workspace was cut short"
                );
                show(context, &what);
                room.clear(&context.stop).await?;
            }
            gone = known.gone(repo_path, room.was_empty());
            self.room = Some(room);
        }
        // A container in which the set-up did not end can't be set up again.
        let inner = known.inner.as_ref().filter(|_| {
            self.settings.on_host || self.settings.is_only_noted() || known.base.is_some()
        });
        match self.inner.start(context, inner).await {
            Ok(mut ready) => {
                ready.replaced = ready.replaced.or(gone);
                self.base = known.base.filter(|_| ready.replaced.is_none());
                self.handle = std::mem::take(&mut ready.handle);
                ready.handle = self.known();
                if self.base.is_some() {
                    self.hold = self.room.take().map(HostFolder::keep);
                }
                Ok(ready)
            }
            Err(error) => {
                self.undo().await;
                Err(error)
            }
        }
    }

    async fn set_up(&mut self, context: &Context) -> Result<Value, ExecutorError> {
        let source = self.settings.source()?;
        match self.set_up_from(source.as_ref(), context).await {
            Ok(()) => {
                self.hold = self.room.take().map(HostFolder::keep);
                self.base.get_or_insert_default();
                Ok(self.known())
            }
            Err(error) => {
                self.undo().await;
                Err(error)
            }
        }
    }

    fn check_restore(&self) -> Result<(), ExecutorError> {
        match self.settings.is_only_noted() {
            true => fail("the environment has no repository of its own (`workspace`), and only the files of one can be restored".to_owned()),
            false => Ok(()),
        }
    }

    async fn restore(
        &mut self,
        patch: &str,
        prologue: &str,
        stop: &Stop,
    ) -> Result<(), ExecutorError> {
        self.check_restore()?;
        self.bring_back(patch, prologue, stop).await
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

    fn programs(&mut self) -> Option<Box<dyn InteractivePrograms + '_>> {
        self.inner.programs()
    }

    async fn cleanup(&mut self) {
        self.inner.cleanup().await;
        self.hold = None;
        if let Some(room) = self.room.take() {
            room.undo().await;
        }
    }

    /// The command that prints the changes in the repository since the start as a patch, also in one
    /// that was made since; none before the start.
    fn salvage_command(&self) -> Option<String> {
        let path = &self.settings.repo_path;
        let base = self.base.as_ref()?;
        let since = match base.cloned && base.commit.is_some() {
            true => Since::Commit,
            false => Since::Files,
        };
        Some(mswea_git::changes(path, base.start().as_ref(), since))
    }

    fn submission_command(&self) -> Option<String> {
        let start = self.base.as_ref().and_then(Base::start);
        match (start, self.settings.submits_set_up) {
            (Some(mut start), true) => {
                for tree in start.trees.iter_mut().filter(|tree| tree.commit.is_some()) {
                    tree.tree = None;
                }
                // The set-up is meant to be in it.
                start.changed.get_or_insert_default();
                let path = &self.settings.repo_path;
                Some(mswea_git::changes(path, Some(&start), Since::Commit))
            }
            _ => self.salvage_command(),
        }
    }

    fn template_vars(&self) -> Object {
        self.inner.template_vars()
    }
}

/// Whether a folder of this machine (empty: the current one) is in a work tree.
fn is_in_repository(folder: &str) -> bool {
    let folder = match folder {
        "" => ".",
        folder => folder,
    };
    // If the folder can't be read, the script finds out.
    let Ok(folder) = Path::new(folder).canonicalize() else {
        return true;
    };
    folder
        .ancestors()
        .any(|folder| folder.join(".git").symlink_metadata().is_ok())
}

fn fail<T>(message: String) -> Result<T, ExecutorError> {
    Err(ExecutorError::from(message))
}

fn show(context: &Context, what: &str) {
    context.front.show(&Progress::Preparing(what));
}

fn redact(source: Option<&RepositorySource>, text: &str) -> String {
    match source {
        Some(source) => source.redact(text),
        None => without_credentials(text),
    }
}
