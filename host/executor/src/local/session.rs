//! Actions in one shell that lives on from action to action.

use std::ffi::{CString, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use mswea_helper::dialogue::{self, CommandEnding, Dialogue, Pressure, Report};
use rustix::pipe::PipeFlags;
use rustix::process::Signal;

use super::attend::{DYING, kill_until_gone};
use super::launch::{Task, c_path, entry};
use super::living::{Ends, LivingShell, Wake, above, nameless};
use super::settings::{fresh_id, nested};
use super::{LocalExecutor, ORPHANS, Presence, SHORTAGE, note_elided};
use crate::aside::aside;
use crate::capture::Capture;
use crate::environment;
use crate::failure::ActionFailure;
use crate::orphans;
use crate::processes::{self, ACTION_VARIABLE, ProcessTarget, Session};
use crate::programs::in_path;
use crate::spawn::{ProcessSpec, spawn};
use mswea_core::{Command, Output, Stop};

/// What is told of a shell that was ended because nobody waited for its command any more.
const ABANDONED: &str = "the shell before was ended with a command that was given up: this command \
                         ran in a new one, with the same directory and exported variables";

/// The session of a local environment.
#[derive(Debug, Default)]
pub(super) struct SharedShell {
    shell: Option<LivingShell>,
    /// Where the next shell begins.
    folder: Option<PathBuf>,
    /// The exported variables that the next shell takes over.
    exported: Vec<u8>,
    /// Told with the output of the next action.
    notice: Option<String>,
}

impl SharedShell {
    /// Has the next action's output say that the shell of an earlier process of the run is gone.
    pub(super) fn announce(&mut self) {
        self.notice = Some(
            "a new shell was begun with this command: the directory is the first one again, and \
             variables, functions and background jobs of the shell before are gone"
                .to_owned(),
        );
    }

    /// Keeps what the next shell takes over, and says that there will be one.
    fn replace(&mut self, shell: &mut LivingShell, why: &str) -> String {
        self.exported = shell.exported();
        self.folder = shell.folder.take().or(self.folder.take());
        let place = match &self.folder {
            Some(folder) => format!(" in `{}`", folder.display()),
            None => String::new(),
        };
        format!(
            "{why}: the next command runs in a new shell{place} with the same exported variables; \
             functions, other variables and settings of the shell are gone"
        )
    }
}

impl LocalExecutor {
    /// The bash of the session.
    pub(super) fn bash(&self) -> Result<PathBuf, ActionFailure> {
        let name = self.settings.interpreter.first();
        let name = name.map_or("bash", String::as_str);
        match name.rsplit('/').next() {
            Some("bash") => return self.interpreter(),
            Some("sh") => {}
            _ => {
                return Err(ActionFailure::value(&format!(
                    "`environment.session` needs bash, and `environment.interpreter` names `{name}`: leave out one of them"
                )));
            }
        }
        let env = self.env.as_deref().unwrap_or_default();
        let path = environment::get(env, "PATH").unwrap_or(b"/usr/local/bin:/usr/bin:/bin");
        in_path("bash", OsStr::from_bytes(path)).ok_or_else(|| {
            ActionFailure::value(
                "`environment.session` needs bash, which is in no folder of `PATH`: install it (`apt-get install bash`), or set `environment.session` to false",
            )
        })
    }

    /// Ends the shell of the session, if there is one.
    pub(super) async fn end_session(&mut self) {
        if let Some(mut shell) = self.shared.shell.take() {
            shell.dismiss().await;
            // The others of its session are ended with all of the run.
            shell.kill().await;
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
        let mut shell = match self.shell(timeout, stop).await {
            Ok(shell) => shell,
            Err(failure) => {
                let gone = self.folder_is_gone().filter(|_| self.presence.is_some());
                return gone.unwrap_or_else(|| failure.output(String::new()));
            }
        };
        let before = self.shared.notice.take();
        // In case this is dropped before the end, which ends the shell.
        self.shared.notice = Some(ABANDONED.to_owned());
        self.shared.exported = shell.exported();
        self.shared.folder = shell.folder.clone().or(self.shared.folder.take());
        self.actions += 1;
        self.guard();
        let action = format!("{}.{}", self.settings.run_id, self.actions);
        let mut capture = self.new_capture(command);
        let asked = shell
            .ask(command.text, &nested(ACTION_VARIABLE, &action))
            .await;
        let wake = match asked {
            Ok(()) => {
                self.wait_in_session(&mut shell, &mut capture, timeout, stop)
                    .await
            }
            Err(error) => Wake::Lost(error),
        };
        let (end, note) = self
            .end_in_session(&mut shell, &mut capture, &action, wake)
            .await;
        self.look_for_orphans();
        self.shared.notice = None;
        let is_ended = shell.has_ended();
        if is_ended {
            let drain = shell.read_on_without_it();
            self.drains.push(drain.abort_handle());
            self.drains.retain(|drain| !drain.is_finished());
        } else {
            shell.read_on();
            self.shared.shell = Some(shell);
        }
        let succeeded = matches!(
            end,
            Wake::Reported(Report { status: 0, .. }) | Wake::Exited(0)
        );
        let captured = capture.finish(succeeded);
        let notes = [before, note].into_iter().flatten().collect::<Vec<_>>();
        let is_submission = succeeded
            && self
                .settings
                .whole_after
                .as_deref()
                .is_some_and(|marker| captured.text.trim_start().starts_with(marker));
        let text = match is_submission {
            // Nothing is added to a patch.
            true => captured.text,
            false => with_notes(captured.text, &notes),
        };
        let mut output = match end {
            Wake::Reported(Report { status, .. }) | Wake::Exited(status) => Output {
                output: text,
                returncode: status,
                ..Output::default()
            },
            Wake::TimedOut => ActionFailure::timed_out(command.text, timeout).output(text),
            Wake::Stopped => ActionFailure::interrupted(command.text).output(text),
            Wake::Lost(error) => ActionFailure::lost(&error).output(text),
        };
        note_elided(&mut output, captured.elided);
        output
    }

    async fn wait_in_session(
        &mut self,
        shell: &mut LivingShell,
        capture: &mut Capture,
        timeout: Duration,
        stop: &Stop,
    ) -> Wake {
        let mut work = pin!(shell.wait(capture, timeout, stop));
        loop {
            tokio::select! {
                biased;
                wake = &mut work => return wake,
                () = tokio::time::sleep(ORPHANS), if orphans::is_adopting() => {
                    self.look_for_orphans();
                }
            }
        }
    }

    /// Ends what has to be ended and reads the rest of the output; returns the end, and what the
    /// model is told about the shell.
    async fn end_in_session(
        &mut self,
        shell: &mut LivingShell,
        capture: &mut Capture,
        action: &str,
        wake: Wake,
    ) -> (Wake, Option<String>) {
        let mut wake = wake;
        let note = match &mut wake {
            Wake::Reported(report) => {
                shell.note_report(report);
                match report.was_read {
                    true => None,
                    false => {
                        // What it reports is the status of something else.
                        report.status = -1;
                        shell.kill().await;
                        let why = "this command was not run, because the shell could no longer read commands";
                        Some(self.shared.replace(shell, why))
                    }
                }
            }
            Wake::Exited(code) => {
                let why = match *code {
                    code if code < 0 => format!("the shell was ended by signal {}", -code),
                    code => format!("the shell has ended (exit code {code})"),
                };
                Some(self.shared.replace(shell, &why))
            }
            Wake::TimedOut | Wake::Stopped => Some(self.interrupt(shell, capture, action).await),
            Wake::Lost(_) => {
                shell.note_folder();
                kill_until_gone(&shell.action(action), DYING).await;
                shell.kill().await;
                Some(self.shared.replace(shell, "the shell was lost"))
            }
        };
        let grace = match wake {
            Wake::TimedOut | Wake::Stopped => Duration::ZERO,
            _ => self.settings.grace,
        };
        shell.settle(capture, grace).await;
        (wake, note)
    }

    /// Ends the running command, and the shell only if that is needed.
    async fn interrupt(
        &mut self,
        shell: &mut LivingShell,
        capture: &mut Capture,
        action: &str,
    ) -> String {
        const KEPT: &str =
            "the command was ended; the shell lives on, with its directory and variables";
        let target = shell.action(action);
        let mut ending = CommandEnding::default();
        while let Pressure::Interrupt(limit) = ending.step() {
            // First the shell, so that it does not go on when its child has ended.
            shell.signal(Signal::INT);
            let target = target.clone();
            let send = move || {
                processes::signal(&target, Signal::INT);
                processes::signal(&target, Signal::CONT);
            };
            let _ = aside("interruption", send).await;
            shell.signal(Signal::CONT);
            shell.ask_again();
            let wake = shell.wait(capture, limit, &Stop::never()).await;
            if let Wake::Reported(report) = wake {
                shell.note_report(&report);
                // Also what the command left in the background.
                kill_until_gone(&shell.action(action), DYING).await;
                return KEPT.to_owned();
            }
            if matches!(wake, Wake::Exited(_)) {
                break;
            }
        }
        shell.note_folder();
        // So that it does not go on. Its children can be told from others only while it is there.
        shell.signal(Signal::STOP);
        kill_until_gone(&target, DYING).await;
        shell.kill().await;
        self.shared
            .replace(shell, "the command and its shell were ended")
    }

    /// The shell of the session: the living one, or a new one.
    async fn shell(
        &mut self,
        timeout: Duration,
        stop: &Stop,
    ) -> Result<LivingShell, ActionFailure> {
        if let Some(mut shell) = self.shared.shell.take() {
            if !shell.has_ended() {
                return Ok(shell);
            }
            let note = self
                .shared
                .replace(&mut shell, "the shell had ended since the last command");
            let note = note.replace("the next command runs", "this command ran");
            self.shared.notice.get_or_insert(note);
        }
        let asked = Instant::now();
        loop {
            match self.launch_shell() {
                Err(failure)
                    if failure.is_passing() && asked.elapsed() < timeout && !stop.is_stopped() =>
                {
                    tokio::time::sleep(SHORTAGE).await;
                }
                result => return result,
            }
        }
    }

    fn launch_shell(&mut self) -> Result<LivingShell, ActionFailure> {
        let id = fresh_id();
        // No action has this mark: what bash forks has it in its environment whatever the action.
        let mark = format!("{}.{id}", self.settings.run_id);
        let (program, args) = self.argv(Task::Shell, &mark)?;
        let args: Vec<CString> = args
            .into_iter()
            .map(|arg| CString::new(arg.into_vec()).map_err(|_| ActionFailure::null_byte()))
            .collect::<Result<_, _>>()?;
        self.guard();
        let folder = self.shared.folder.clone().filter(|folder| folder.is_dir());
        let cwd = folder.or_else(|| self.settings.cwd.clone());
        let env = self.env.as_mut().map_err(|why| ActionFailure::value(why))?;
        env.push(entry(ACTION_VARIABLE, &nested(ACTION_VARIABLE, &mark))?);
        let started = start(&program, &args, env, cwd.as_deref(), &self.shared.exported);
        env.pop();
        let (child, ends) = started?;
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
        let nonce: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
        let mut shell = LivingShell::new(child, ends, target, Dialogue::new(&nonce))
            .map_err(|error| ActionFailure::system(&error, None))?;
        shell.folder = cwd;
        Ok(shell)
    }
}

fn start(
    program: &Path,
    args: &[CString],
    env: &[CString],
    cwd: Option<&Path>,
    exported: &[u8],
) -> Result<(crate::spawn::ChildProcess, Ends), ActionFailure> {
    let system = |error: std::io::Error| ActionFailure::system(&error, None);
    let program_text = c_path(program)?;
    let args: Vec<_> = args.iter().map(CString::as_c_str).collect();
    let folder = cwd.map(c_path).transpose()?;
    let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(std::io::Error::from);
    let (input, control) = pipe().map_err(system)?;
    let (output, writing) = pipe().map_err(system)?;
    let (reports, errors) = pipe().map_err(system)?;
    // The ends have separate flags: those of the shell stay blocking.
    for fd in [&control, &output, &reports] {
        rustix::io::ioctl_fionbio(fd, true).map_err(|error| system(error.into()))?;
    }
    let text = nameless(b"").map_err(system)?;
    let state = nameless(exported).map_err(system)?;
    let proof = nameless(dialogue::PROOF_TEXT).map_err(system)?;
    let copies = [
        (above(&proof).map_err(system)?, dialogue::PROOF),
        (above(&writing).map_err(system)?, dialogue::OUTPUT),
        (above(&state).map_err(system)?, dialogue::STATE),
        (above(&text).map_err(system)?, dialogue::TEXT),
    ];
    let further: Vec<_> = copies
        .iter()
        .map(|(fd, number)| (fd.as_fd(), *number))
        .collect();
    let [input, writing, errors] = [&input, &writing, &errors].map(above);
    let (input, writing) = (input.map_err(system)?, writing.map_err(system)?);
    let errors = errors.map_err(system)?;
    let child = spawn(&ProcessSpec {
        program: &program_text,
        args: &args,
        env,
        cwd: folder.as_deref(),
        stdin: Some(input.as_fd()),
        output: Some(writing.as_fd()),
        errors: Some(errors.as_fd()),
        third: None,
        fourth: None,
        further: &further,
        interruptible: true,
        deaf: false,
    })
    .map_err(|error| ActionFailure::start(&error, program, cwd, 0))?;
    let ends = Ends {
        control,
        output,
        reports,
        text,
        state,
    };
    Ok((child, ends))
}

fn with_notes(mut text: String, notes: &[String]) -> String {
    for note in notes {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[{note}]\n"));
    }
    text
}
