//! Actions in one shell that is kept between actions, in a helper process.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use mswea_helper::processes::{ACTION_VARIABLE, ProcessTarget};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::pipe::PipeFlags;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::attend::{DYING, end_at_once};
use super::launch::{HELPER_DESCRIPTOR, PROGRAM, StartDescriptor, Task};
use super::settings::{fresh_id, nested};
use super::{LocalExecutor, SHORTAGE};
use crate::aside::hunt;
use crate::failure::ActionFailure;
use crate::hanging::StartLimit;
use crate::helper::{ANSWERING, HelperError, HelperSession};
use crate::interactive::{
    HelperGuard, OpenPrograms, OpensPrograms, ProgramHelper, TERMINAL_VARIABLE,
};
use crate::low_descriptors::null;
use crate::placed::{PlacedAction, PlacedEnd, output_of};
use crate::shell::{BEGUN, bash_of};
use crate::spawn::ChildProcess;
use mswea_core::{Command, Output, Stop};

/// How long a helper that is no longer needed may take to end, with all its descendants.
const FAREWELL: Duration = Duration::from_secs(1);

/// The message for a shell that was ended because the run no longer waited for its command.
const ABANDONED: &str = "the shell before was ended with a command that was given up: this command \
                         ran in a new one, with the directory and the variables of the beginning";

/// The session of a local environment.
#[derive(Debug, Default)]
pub(super) struct LocalShell {
    helper: Option<LocalHelper>,
    /// A message for the model, added to the output of the next action.
    notice: Option<&'static str>,
}

/// A helper on this machine. Dropping it kills the helper and all its descendants.
pub(super) struct LocalHelper {
    /// None while it is being ended.
    session: Option<HelperSession>,
    child: ChildProcess,
    target: ProcessTarget,
    /// The number of the last action before the helper was started.
    before: u64,
}

impl std::fmt::Debug for LocalHelper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LocalHelper({})", self.child.pid())
    }
}

impl LocalHelper {
    /// All processes of its actions, up to the action with this number, including those of a helper
    /// that is gone.
    fn all_of(&self, run_id: &str, last: u64) -> ProcessTarget {
        let actions = (self.before + 1..=last).map(|number| format!("{run_id}.{number}"));
        ProcessTarget {
            since: self.target.since,
            ..ProcessTarget::marked(
                ACTION_VARIABLE,
                actions.flat_map(|mark| [format!("{mark}.shell"), mark]),
            )
        }
    }
}

#[async_trait]
impl HelperGuard for LocalHelper {
    /// Waits for the helper to end by itself, with the shell and all its descendants.
    async fn dismiss(&mut self) {
        // This ends the helper's input.
        self.session = None;
        let _ = timeout(FAREWELL, self.child.exited()).await;
    }
}

impl Drop for LocalHelper {
    fn drop(&mut self) {
        end_at_once(&mut self.child, &self.target);
    }
}

impl LocalExecutor {
    /// The path of the session's bash, or only its name where another program makes the sandbox.
    pub(super) fn bash(&self) -> Result<PathBuf, ActionFailure> {
        let named = bash_of(&self.settings.interpreter)?;
        if self.has_other_folders() {
            return Ok(PathBuf::from(named.unwrap_or("bash")));
        }
        if named.is_some() {
            return self.interpreter();
        }
        self.in_path("bash").ok_or_else(|| {
            ActionFailure::value(
                "`environment.session` needs bash, which is in no folder of `PATH`: install it (`apt-get install bash`), or set `environment.session` to false",
            )
        })
    }

    /// If there is one shell for all actions, the output of the next action will say that the shell
    /// of an earlier process of the run is gone.
    pub(crate) fn announce_shell(&mut self) {
        if self.settings.session {
            self.shared.notice = Some(BEGUN);
        }
    }

    /// Whether the sandbox has folders and programs of its own, because another program makes it.
    fn has_other_folders(&self) -> bool {
        self.wrap.as_ref().is_some_and(|wrap| wrap.inside.is_some())
    }

    /// Ends the session's shell, if there is one, and all its descendants, and the programs that
    /// stay open.
    pub(super) async fn end_session(&mut self) {
        self.programs.end_all().await;
        if let Some(mut helper) = self.shared.helper.take() {
            helper.dismiss().await;
        }
    }

    /// Runs an action in the session's shell.
    pub(super) async fn perform_in_session(
        &mut self,
        command: &Command<'_>,
        timeout: Duration,
        stop: &Stop,
    ) -> Output {
        if command.text.contains('\0') {
            return ActionFailure::null_byte().output(String::new());
        }
        let limit = StartLimit::new(command.text, timeout, stop);
        let (mut helper, bash) = match self.helper(&limit).await {
            Ok(found) => found,
            Err(failure) => return self.not_started(failure, &limit).await,
        };
        let before = self.shared.notice.take();
        // The message for the case that this future is dropped before its end, which ends the
        // shell.
        self.shared.notice = Some(ABANDONED);
        self.actions += 1;
        self.guard();
        let mark = format!("{}.{}", self.settings.run_id, self.actions);
        // The path is resolved anew, in case the folder was made anew.
        let cwd = self.settings.cwd.as_deref();
        let cwd = cwd.filter(|cwd| cwd.is_absolute() && !self.has_other_folders());
        let cwd = cwd.map(|cwd| cwd.to_string_lossy().into_owned());
        let options = self.settings.interpreter.iter().skip(1).cloned();
        let bash = [bash.to_string_lossy().into_owned()].into_iter();
        let action = PlacedAction {
            interpreter: &bash.chain(options).collect::<Vec<_>>(),
            cwd: cwd.as_deref(),
            env: &self.configured_terminal(),
            pty: self.settings.pty,
            grace: self.settings.grace,
            mark: &nested(ACTION_VARIABLE, &mark),
            command: command.text,
            timeout,
            stop,
        };
        let mut capture = self.new_capture(command);
        let mut notes: Vec<String> = before.map(str::to_owned).into_iter().collect();
        let end = match &mut helper.session {
            Some(session) => action.in_shell(session, &mut capture, &mut notes).await,
            None => PlacedEnd::Broken(HelperError::Unusable),
        };
        self.look_for_orphans();
        if let PlacedEnd::Broken(error) = end {
            helper.dismiss().await;
            // A helper that was killed has not ended its descendants.
            let target = helper.all_of(&self.settings.run_id, self.actions);
            hunt(&target, DYING).await;
            self.shared.notice = Some(BEGUN);
            let lost = ActionFailure::lost(&io::Error::other(error.to_string()));
            return lost.output(capture.finish(false).text);
        }
        self.shared.notice = None;
        self.shared.helper = Some(helper);
        let ended = match end {
            PlacedEnd::Exited(returncode) => Ok(returncode),
            PlacedEnd::Failed(failure) => Err(failure),
            PlacedEnd::FolderGone | PlacedEnd::Broken(_) => {
                let lost = || ActionFailure::lost(&io::ErrorKind::NotFound.into());
                Err(self.folder_is_gone(&limit).await.unwrap_or_else(lost))
            }
        };
        output_of(capture, notes, ended)
    }

    /// The helper with the session's shell, and the bash: an existing helper, or a new one.
    async fn helper(
        &mut self,
        limit: &StartLimit<'_>,
    ) -> Result<(LocalHelper, PathBuf), ActionFailure> {
        let bash = self.bash()?;
        if let Some(helper) = self.shared.helper.take() {
            return Ok((helper, bash));
        }
        Ok((self.new_helper(limit).await?, bash))
    }

    async fn new_helper(&mut self, limit: &StartLimit<'_>) -> Result<LocalHelper, ActionFailure> {
        let (mut helper, output, input) = loop {
            let launched = tokio::select! {
                biased;
                launched = self.launch_helper() => launched,
                () = limit.reached() => Err(limit.failure()),
            };
            match launched {
                Err(failure) if failure.is_passing() && !limit.is_reached() => {
                    tokio::time::sleep(SHORTAGE).await;
                }
                result => break result?,
            }
        };
        let said = ActionFailure::environment;
        let session = HelperSession::start(Box::new(output), Box::new(input), ANSWERING).await;
        let session = session.map_err(|error| said("EnvironmentError", error.to_string()))?;
        helper.session = Some(session);
        Ok(helper)
    }

    /// The configured variable of the terminal, if there is one; the helper has all other
    /// variables.
    fn configured_terminal(&self) -> Vec<(String, String)> {
        let configured = self.settings.env.get_key_value(TERMINAL_VARIABLE);
        let configured = configured.map(|(name, value)| (name.clone(), value.clone()));
        configured.into_iter().collect()
    }

    pub(super) async fn launch_helper(
        &mut self,
    ) -> Result<(LocalHelper, pipe::Receiver, pipe::Sender), ActionFailure> {
        // A mark that no action has.
        let mark = format!("{}.{}", self.settings.run_id, fresh_id());
        let (program, args) = self.argv(Task::Helper, &mark)?;
        let system = |error: io::Error| ActionFailure::system(&error, None);
        let pipe =
            || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| system(error.into()));
        let ((stdin, input), (output, stdout)) = (pipe()?, pipe()?);
        let file = program_file().map_err(no_file)?.as_fd();
        let ends = vec![
            (StartDescriptor::Own(stdin), 0),
            (StartDescriptor::Own(stdout), 1),
            (StartDescriptor::Shared(null().map_err(system)?), 2),
            (StartDescriptor::Shared(file), HELPER_DESCRIPTOR),
        ];
        let output = pipe::Receiver::from_owned_fd(output).map_err(system)?;
        let input = pipe::Sender::from_owned_fd(input).map_err(system)?;
        let before = self.actions;
        let made = move |child, target| LocalHelper {
            session: None,
            child,
            target,
            before,
        };
        let started = self.start_marked(Task::Helper, program, args, mark, ends, made);
        let helper = started.await?;
        self.sessions.extend(&helper.target.sessions);
        Ok((helper, output, input))
    }
}

#[async_trait]
impl OpensPrograms for LocalExecutor {
    fn open_programs(&mut self) -> &mut OpenPrograms {
        &mut self.programs
    }

    async fn start_helper(&mut self, stop: &Stop) -> Result<ProgramHelper, String> {
        let limit = StartLimit::new(PROGRAM, ANSWERING, stop);
        let helper = self.new_helper(&limit).await;
        let mut helper = helper.map_err(ActionFailure::text)?;
        // A number above zero makes the executor clean up.
        self.actions += 1;
        let session = helper.session.take();
        Ok(ProgramHelper {
            session: session.ok_or_else(|| HelperError::Unusable.to_string())?,
            mark: helper.target.values.concat(),
            guard: Box::new(helper),
            interpreter: self.settings.interpreter.clone(),
            env: self.configured_terminal(),
            cwd: None,
        })
    }

    async fn kill_marked(&mut self, mark: &str) {
        let target = ProcessTarget {
            since: self.since,
            ..ProcessTarget::marked(ACTION_VARIABLE, [mark.to_owned()])
        };
        hunt(&target, DYING).await;
    }
}

/// The failure on a machine that can't have executable files in memory.
fn no_file(error: io::Error) -> ActionFailure {
    let failure = ActionFailure::system(&error, None);
    match failure.is_passing() {
        true => failure,
        false => ActionFailure::environment(
            "EnvironmentError",
            format!(
                "`environment.session` needs an executable file in memory ({error}): set the kernel's `vm.memfd_noexec` to 0 or 1, or `environment.session` to false"
            ),
        ),
    }
}

/// The helper as a sealed file in memory.
fn program_file() -> io::Result<&'static File> {
    static FILE: OnceLock<File> = OnceLock::new();
    if let Some(file) = FILE.get() {
        return Ok(file);
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know the flag, and make every such file executable.
    let fd = rustix::fs::memfd_create("mswea-helper", flags | MemfdFlags::EXEC)
        .or_else(|_| rustix::fs::memfd_create("mswea-helper", flags))?;
    let mut file = File::from(fd);
    file.write_all(&mswea_helper_bundle::bytes())?;
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(FILE.get_or_init(|| file))
}
