//! Actions in one shell that lives on from action to action, in a helper of its own process.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use mswea_helper::processes::{self, ACTION_VARIABLE, ProcessTarget, Session};
use mswea_helper::protocol::TerminalSize;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::pipe::PipeFlags;
use tokio::net::unix::pipe;

use super::attend::{DYING, LOOK, end_at_once};
use super::launch::{HELPER_DESCRIPTOR, Task, c_path, entry, readable};
use super::settings::{fresh_id, nested};
use super::{LocalExecutor, Presence, SHORTAGE, note_elided};
use crate::aside::aside;
use crate::environment;
use crate::failure::ActionFailure;
use crate::helper::{ANSWERING, HelperEnd, HelperError, HelperSession, ShellAction};
use crate::interactive::{
    HelperGuard, OpenPrograms, OpensPrograms, ProgramHelper, TERMINAL_VARIABLE, with_terminal,
};
use crate::programs::in_path;
use crate::shell::{BEGUN, bash_of, is_login, no_bash, with_notes};
use crate::spawn::{ChildProcess, ProgramCall, null, spawn};
use crate::wrap::Wrap;
use mswea_core::{Command, Output, Stop};

/// How long a helper that is no longer needed may take to end, with all that it started.
const FAREWELL: Duration = Duration::from_secs(1);

/// What is told of a shell that was ended because nobody waited for its command any more.
const ABANDONED: &str = "the shell before was ended with a command that was given up: this command \
                         ran in a new one, with the directory and the variables of the beginning";

/// The session of a local environment.
#[derive(Debug, Default)]
pub(super) struct LocalShell {
    helper: Option<LocalHelper>,
    /// Told with the output of the next action.
    notice: Option<&'static str>,
}

/// A helper on this machine. Dropped, it is killed with all that it started.
pub(super) struct LocalHelper {
    /// None while it is being ended.
    session: Option<HelperSession>,
    child: ChildProcess,
    target: ProcessTarget,
    /// The number of the last action before it.
    before: u64,
}

impl std::fmt::Debug for LocalHelper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LocalHelper({})", self.child.pid())
    }
}

impl LocalHelper {
    /// All processes of its actions, up to the action with this number, also without the helper.
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
    /// Has it end by itself, with the shell and all that it started.
    async fn dismiss(&mut self) {
        // The end of its input.
        self.session = None;
        let asked = Instant::now();
        while asked.elapsed() < FAREWELL && matches!(self.child.try_wait(), Ok(None)) {
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Drop for LocalHelper {
    fn drop(&mut self) {
        end_at_once(&mut self.child, &self.target);
    }
}

impl LocalExecutor {
    /// The bash of the session; where another program makes the sandbox, its name.
    pub(super) fn bash(&self) -> Result<PathBuf, ActionFailure> {
        let named = bash_of(&self.settings.interpreter)?;
        if self.has_other_folders() {
            return Ok(PathBuf::from(named.unwrap_or("bash")));
        }
        if named.is_some() {
            return self.interpreter();
        }
        let env = self.env.as_deref().unwrap_or_default();
        let path = environment::get(env, "PATH").unwrap_or(b"/usr/local/bin:/usr/bin:/bin");
        in_path("bash", OsStr::from_bytes(path)).ok_or_else(|| {
            ActionFailure::value(
                "`environment.session` needs bash, which is in no folder of `PATH`: install it (`apt-get install bash`), or set `environment.session` to false",
            )
        })
    }

    /// Has the next action's output say that the shell of an earlier process of the run is gone, if
    /// there is one shell for all actions.
    pub(crate) fn announce_shell(&mut self) {
        if self.settings.session {
            self.shared.notice = Some(BEGUN);
        }
    }

    /// Whether the sandbox has folders and programs of its own, because another program makes it.
    fn has_other_folders(&self) -> bool {
        self.wrap.as_ref().is_some_and(|wrap| wrap.after.is_empty())
    }

    /// Ends the shell of the session, if there is one, and all that runs in it, and the programs that
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
        let (mut helper, bash) = match self.helper(timeout, stop).await {
            Ok(found) => found,
            Err(failure) => {
                let gone = self.folder_is_gone().filter(|_| self.presence.is_some());
                return gone.unwrap_or_else(|| failure.output(String::new()));
            }
        };
        let before = self.shared.notice.take();
        // In case this is dropped before the end, which ends the shell.
        self.shared.notice = Some(ABANDONED);
        self.actions += 1;
        self.guard();
        let mark = format!("{}.{}", self.settings.run_id, self.actions);
        // By its path, in case the folder was made anew.
        let cwd = self.settings.cwd.as_deref();
        let cwd = cwd.filter(|cwd| cwd.is_absolute() && !self.has_other_folders());
        let cwd = cwd.map(|cwd| cwd.to_string_lossy().into_owned());
        let has_terminal = self.settings.pty;
        let action = ShellAction {
            bash: &bash.to_string_lossy(),
            login: is_login(&self.settings.interpreter),
            env: &self.with_terminal(has_terminal),
            cwd: cwd.as_deref(),
            grace: self.settings.grace,
            mark: &nested(ACTION_VARIABLE, &mark),
            command: command.text,
            terminal: has_terminal.then(TerminalSize::default),
        };
        let mut capture = self.new_capture(command);
        let asked = match &mut helper.session {
            Some(session) => session.ask(&action, &mut capture, timeout, stop).await,
            None => Err(HelperError::Unusable),
        };
        self.look_for_orphans();
        let (end, notes) = match asked {
            Ok(found) => {
                self.shared.notice = None;
                self.shared.helper = Some(helper);
                found
            }
            Err(error) => {
                helper.dismiss().await;
                // A helper that was killed has not ended what it has started.
                let target = helper.all_of(&self.settings.run_id, self.actions);
                let hunt = move || processes::kill_until_gone(&target, DYING);
                let _ = aside("hunt", hunt).await;
                self.shared.notice = Some(BEGUN);
                let lost = ActionFailure::lost(&io::Error::other(error.to_string()));
                return lost.output(capture.finish(false).text);
            }
        };
        if let HelperEnd::Failed { .. } = end
            && let Some(gone) = self.folder_is_gone()
        {
            return gone;
        }
        let captured = capture.finish(end == HelperEnd::Exited(0));
        let notes = before.map(str::to_owned).into_iter().chain(notes);
        let text = match self.is_submission(&end, &captured.text) {
            // Nothing is added to a patch.
            true => captured.text,
            false => with_notes(captured.text, notes),
        };
        let mut output = match end {
            HelperEnd::Exited(returncode) => Output {
                output: text,
                returncode,
                ..Output::default()
            },
            HelperEnd::TimedOut => ActionFailure::timed_out(command.text, timeout).output(text),
            HelperEnd::Stopped => ActionFailure::interrupted(command.text).output(text),
            HelperEnd::Failed { errno, text: told } if errno == libc::ENOENT => {
                no_bash(&told).output(text)
            }
            HelperEnd::Failed { errno, text: told } => {
                ActionFailure::told(&io::Error::from_raw_os_error(errno), &told).output(text)
            }
        };
        note_elided(&mut output, captured.elided);
        output
    }

    fn is_submission(&self, end: &HelperEnd, text: &str) -> bool {
        let marker = self.settings.whole_after.as_deref();
        *end == HelperEnd::Exited(0)
            && marker.is_some_and(|marker| text.trim_start().starts_with(marker))
    }

    /// The helper with the session's shell, and the bash: the living one, or a new one.
    async fn helper(
        &mut self,
        timeout: Duration,
        stop: &Stop,
    ) -> Result<(LocalHelper, PathBuf), ActionFailure> {
        let bash = self.bash()?;
        if let Some(helper) = self.shared.helper.take() {
            return Ok((helper, bash));
        }
        Ok((self.new_helper(timeout, stop).await?, bash))
    }

    async fn new_helper(
        &mut self,
        timeout: Duration,
        stop: &Stop,
    ) -> Result<LocalHelper, ActionFailure> {
        let asked = Instant::now();
        let (mut helper, output, input) = loop {
            match self.launch_helper() {
                Err(failure)
                    if failure.is_passing() && asked.elapsed() < timeout && !stop.is_stopped() =>
                {
                    tokio::time::sleep(SHORTAGE).await;
                }
                result => break result?,
            }
        };
        let said = ActionFailure::environment;
        let broken = |error: io::Error| ActionFailure::system(&error, None);
        let output = pipe::Receiver::from_owned_fd(output).map_err(broken)?;
        let input = pipe::Sender::from_owned_fd(input).map_err(broken)?;
        let session = HelperSession::start(Box::new(output), Box::new(input), ANSWERING).await;
        let session = session.map_err(|error| said("EnvironmentError", error.to_string()))?;
        helper.session = Some(session);
        Ok(helper)
    }

    /// The variable of the terminal, if it is configured or there is a terminal; all others are those of
    /// the helper.
    fn with_terminal(&self, has_terminal: bool) -> Vec<(String, String)> {
        let configured = self.settings.env.get_key_value(TERMINAL_VARIABLE);
        let configured = configured.map(|(name, value)| (name.clone(), value.clone()));
        with_terminal(configured.into_iter().collect(), has_terminal)
    }

    pub(super) fn launch_helper(
        &mut self,
    ) -> Result<(LocalHelper, OwnedFd, OwnedFd), ActionFailure> {
        // No action has this mark.
        let mark = format!("{}.{}", self.settings.run_id, fresh_id());
        let (program, args) = self.argv(Task::Helper, &mark)?;
        let args: Vec<CString> = args
            .into_iter()
            .map(|arg| CString::new(arg.into_vec()).map_err(|_| ActionFailure::null_byte()))
            .collect::<Result<_, _>>()?;
        self.guard();
        let system = |error: io::Error| ActionFailure::system(&error, None);
        let third = match &self.wrap {
            Some(Wrap { third, .. }) => third.as_deref().map(readable).transpose(),
            None => Ok(None),
        };
        let third = third.map_err(system)?;
        let env = self.env.as_mut().map_err(|why| ActionFailure::value(why))?;
        env.push(entry(ACTION_VARIABLE, &nested(ACTION_VARIABLE, &mark))?);
        let cwd = self.settings.cwd.as_deref();
        let started = start(&program, &args, env, cwd, third.as_ref());
        env.pop();
        let (child, output, input) = started?;
        self.presence
            .get_or_insert_with(|| Presence::new(self.since));
        let session = Session::of(child.pid());
        self.sessions.push(session);
        if let Some(lease) = &self.lease {
            lease.tell_session(session);
        }
        let target = ProcessTarget {
            sessions: vec![session],
            since: self.since,
            ..ProcessTarget::marked(ACTION_VARIABLE, [mark])
        };
        let helper = LocalHelper {
            session: None,
            child,
            target,
            before: self.actions,
        };
        Ok((helper, output, input))
    }
}

#[async_trait]
impl OpensPrograms for LocalExecutor {
    fn open_programs(&mut self) -> &mut OpenPrograms {
        &mut self.programs
    }

    async fn start_helper(&mut self, stop: &Stop) -> Result<ProgramHelper, String> {
        let helper = self.new_helper(ANSWERING, stop).await;
        let mut helper = helper.map_err(ActionFailure::text)?;
        // There is something to clean up.
        self.actions += 1;
        let session = helper.session.take();
        Ok(ProgramHelper {
            session: session.ok_or_else(|| HelperError::Unusable.to_string())?,
            mark: helper.target.values.concat(),
            guard: Box::new(helper),
            interpreter: self.settings.interpreter.clone(),
            env: self.with_terminal(false),
            cwd: None,
        })
    }

    async fn kill_marked(&mut self, mark: &str) {
        let target = ProcessTarget {
            since: self.since,
            ..ProcessTarget::marked(ACTION_VARIABLE, [mark.to_owned()])
        };
        let hunt = move || processes::kill_until_gone(&target, DYING);
        let _ = aside("hunt", hunt).await;
    }
}

/// Starts the helper; returns its output and its input.
fn start(
    program: &Path,
    args: &[CString],
    env: &[CString],
    cwd: Option<&Path>,
    third: Option<&File>,
) -> Result<(ChildProcess, OwnedFd, OwnedFd), ActionFailure> {
    let system = |error: io::Error| ActionFailure::system(&error, None);
    let program_text = c_path(program)?;
    let args: Vec<_> = args.iter().map(CString::as_c_str).collect();
    let folder = cwd.map(c_path).transpose()?;
    let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| system(error.into()));
    let ((stdin, input), (output, stdout)) = (pipe()?, pipe()?);
    let mut descriptors = vec![
        (stdin.as_fd(), 0),
        (stdout.as_fd(), 1),
        (null().map_err(system)?, 2),
        (program_file().map_err(no_file)?.as_fd(), HELPER_DESCRIPTOR),
    ];
    descriptors.extend(third.map(|third| (third.as_fd(), 3)));
    let call = ProgramCall {
        path: &program_text,
        args: &args,
        env,
        cwd: folder.as_deref(),
    };
    let child = spawn(call, &descriptors, false)
        .map_err(|failed| ActionFailure::start(&failed, program, cwd, 0))?;
    Ok((child, output, input))
}

/// The failure of a machine that has no executable files in memory.
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

/// The helper as a file in memory, which can't be changed any more.
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
