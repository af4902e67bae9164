//! The shell of a session: one bash in which commands run one after the other until it ends.
//! Another one then takes over its directory and its exported variables.

use std::os::fd::RawFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use mswea_helper::processes::{self, ACTION_VARIABLE, Children, NESTED, ProcessTarget, Shell};

use crate::action::{ActionEnd, BackgroundOutput};
use crate::input::ProgramInput;
use crate::living::{LivingShell, ShellCommand};
use crate::spawn::{NotStarted, Starter};
use crate::terminal::Terminal;
use crate::{KILLING, sys};

/// How long an interrupted command may take until the shell reports its end.
const INTERRUPTING: Duration = Duration::from_millis(1000);
/// The pause before an interrupted command is interrupted again.
const AGAIN: Duration = Duration::from_millis(100);
/// The pause between two checks whether an action's background processes have ended.
const LOOK: Duration = Duration::from_millis(5);

const KEPT: &str = "the command was ended; the shell lives on, with its directory and variables";

/// The session's shell, which is started with the first command.
#[derive(Default)]
pub struct SharedShell {
    living: Option<LivingShell>,
    running: Option<RunningCommand>,
    /// The directory in which the next shell begins.
    folder: Option<Vec<u8>>,
    /// The exported variables that the next shell takes over.
    exported: Vec<u8>,
    /// Outputs of shells that have ended, which background processes still hold open.
    left_open: Vec<BackgroundOutput>,
}

struct RunningCommand {
    target: ProcessTarget,
    grace: Duration,
    phase: CommandPhase,
    notes: Vec<String>,
    /// Why the shell ends with the command, if it does.
    lost: Option<String>,
    killed: bool,
    left: usize,
}

enum CommandPhase {
    Runs,
    /// The command was interrupted by SIGINT.
    Interrupted {
        /// The time at which the command is killed with the shell.
        until: Instant,
        /// The time at which processes that have missed SIGINT get it again. The terminal, if there
        /// is one, then also gets the end of the input: a program that asks for the next line (a
        /// `python3` by mistake) ends.
        again: Instant,
    },
    Over {
        status: i32,
        /// How many bytes of the output were written before the end, and are always read.
        pending: usize,
        /// The time until which background processes of the command may add to its output.
        until: Instant,
    },
}

impl SharedShell {
    /// Gives the shell a command.
    pub fn ask(&mut self, starter: &Starter, asked: ShellCommand) -> Result<(), NotStarted> {
        let mut notes = Vec::new();
        if self
            .living
            .as_ref()
            .is_some_and(|shell| shell.end.is_some())
        {
            let note = self.replace("the shell had ended since the last command");
            notes.push(note.replace("the next command runs", "this command ran"));
        }
        let mut shell = match self.living.take() {
            Some(shell) => shell,
            None => LivingShell::start(starter, &asked, self.folder.as_deref(), &self.exported)?,
        };
        let target = ProcessTarget {
            sessions: vec![shell.session],
            since: sys::ticks(),
            shell: Some(Shell {
                pid: shell.session.id,
                before: shell.children(),
            }),
            // As for other actions: orphans without another sign.
            children: Children::Unmarked,
            ..ProcessTarget::marked(
                ACTION_VARIABLE,
                asked.mark.rsplit(NESTED).next().map(str::to_owned),
            )
        };
        let told = shell.ask(&asked.command, &asked.mark);
        if let Err(error) = told {
            shell.kill();
            self.living = Some(shell);
            self.replace("");
            return Err(NotStarted::new("the shell takes no command", &error));
        }
        self.living = Some(shell);
        self.running = Some(RunningCommand {
            target,
            grace: asked.grace,
            phase: CommandPhase::Runs,
            notes,
            lost: None,
            killed: false,
            left: 0,
        });
        Ok(())
    }

    /// Keeps the data that the next shell takes over; returns a message that there will be one.
    fn replace(&mut self, why: &str) -> String {
        if let Some(mut shell) = self.living.take() {
            self.exported = shell.exported();
            self.folder = shell.folder.take().or(self.folder.take());
            self.left_open.extend(shell.output.take());
        }
        let place = match &self.folder {
            Some(folder) => format!(" in `{}`", String::from_utf8_lossy(folder)),
            None => String::new(),
        };
        format!(
            "{why}: the next command runs in a new shell{place} with the same exported variables; \
             functions, other variables and settings of the shell are gone"
        )
    }

    /// Whether a command runs.
    pub fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// The descriptor of the shell's own standard error.
    pub fn reports(&self) -> Option<RawFd> {
        self.living.as_ref()?.reports()
    }

    /// The outputs that background processes of shells that have ended hold open.
    pub fn left_open(&mut self) -> impl Iterator<Item = BackgroundOutput> {
        self.left_open.drain(..)
    }

    /// The time of the next call of [`SharedShell::over`], if no other event happens.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        match self.running.as_ref()?.phase {
            CommandPhase::Runs => None,
            CommandPhase::Interrupted { until, again } => Some(until.min(again)),
            CommandPhase::Over { until, .. } => Some(until.min(now + LOOK)),
        }
    }

    /// The descriptor to read output from, or the time of the next read: between commands the output
    /// of background processes is read slowly and dropped.
    pub fn output(&self, now: Instant) -> Option<Result<RawFd, Instant>> {
        let output = self.living.as_ref()?.output.as_ref()?;
        match self.running {
            Some(_) => Some(Ok(output.fd())),
            None => Some(output.due(now)),
        }
    }

    /// Reads a piece of the output, which is dropped between commands.
    pub fn read(&mut self, buffer: &mut Vec<u8>, limit: usize) {
        let Some(shell) = &mut self.living else {
            return;
        };
        let Some(output) = &mut shell.output else {
            return;
        };
        let Some(running) = &mut self.running else {
            if !output.skip(&mut Vec::new()) {
                shell.output = None;
            }
            return;
        };
        match sys::read(output.fd(), buffer, limit) {
            Ok(None) => {}
            Ok(Some(0)) | Err(_) => shell.output = None,
            Ok(Some(count)) => {
                if let CommandPhase::Over { pending, .. } = &mut running.phase {
                    *pending = pending.saturating_sub(count);
                }
            }
        }
    }

    /// Reads the shell's own standard error, which may report the end of the command.
    pub fn hear(&mut self) {
        let report = self.living.as_mut().and_then(LivingShell::hear);
        let (Some(report), Some(shell)) = (report, &mut self.living) else {
            return;
        };
        shell.note_report(&report);
        let Some(running) = &mut self.running else {
            return;
        };
        match running.phase {
            CommandPhase::Over { .. } => {}
            CommandPhase::Interrupted { .. } => {
                // Includes the command's background processes.
                running.left = processes::kill_until_gone(&running.target, KILLING);
                running.notes.push(KEPT.to_owned());
                running.end(shell, report.status, Duration::ZERO);
            }
            CommandPhase::Runs if report.was_read => {
                running.end(shell, report.status, running.grace);
            }
            CommandPhase::Runs => {
                shell.kill();
                let why =
                    "this command was not run, because the shell could no longer read commands";
                running.lost = Some(why.to_owned());
                // The reported status is not that of the command.
                running.end(shell, -1, running.grace);
            }
        }
    }

    /// Records that a child was reaped, which may be the shell.
    pub fn buried(&mut self, pid: i32, status: ExitStatus) {
        let Some(shell) = self.living.as_mut().filter(|it| it.session.id == pid) else {
            return;
        };
        shell.ended(status);
        // The output before its end is read first.
        self.hear();
        let Some(shell) = &mut self.living else {
            return;
        };
        let Some(running) = &mut self.running else {
            return;
        };
        match running.phase {
            CommandPhase::Runs => {
                let code = sys::exit_code(status);
                running.lost = Some(match status.signal() {
                    Some(signal) => format!("the shell was ended by signal {signal}"),
                    None => format!("the shell has ended (exit code {code})"),
                });
                running.end(shell, code, running.grace);
            }
            CommandPhase::Interrupted { .. } => running.kill(shell),
            CommandPhase::Over { .. } => {}
        }
    }

    /// The input of the running command.
    pub fn input(&mut self) -> Option<&mut ProgramInput> {
        self.running.as_ref()?;
        self.living.as_mut().map(|shell| &mut shell.input)
    }

    /// Sends a signal to the foreground processes of the terminal, or to those of the command. An
    /// interruption is also sent to the shell, which may be executing the command itself.
    pub fn signal(&mut self, number: i32) {
        let (Some(shell), Some(running)) = (&self.living, &self.running) else {
            return;
        };
        let CommandPhase::Runs = running.phase else {
            return;
        };
        match shell.input.as_terminal().and_then(Terminal::foreground) {
            Some(group) => sys::signal_group(group, number),
            None if number == libc::SIGINT => return running.interrupt(shell, false),
            None => drop(processes::signal(&running.target, number)),
        }
        if number == libc::SIGINT {
            shell.ask_again();
        }
    }

    /// Ends the command, and the shell only if that is necessary.
    pub fn interrupt(&mut self) {
        let (Some(shell), Some(running)) = (&mut self.living, &mut self.running) else {
            return;
        };
        match &mut running.phase {
            CommandPhase::Runs => {
                let now = Instant::now();
                running.phase = CommandPhase::Interrupted {
                    until: now + INTERRUPTING,
                    again: now + AGAIN,
                };
                running.killed = true;
                running.interrupt(shell, false);
                shell.input.reset();
            }
            CommandPhase::Interrupted { .. } => {}
            // Only the grace period ends.
            CommandPhase::Over { until, .. } => *until = Instant::now(),
        }
    }

    /// Makes the shell end by itself, which runs its exit trap, unless a command is running.
    pub fn dismiss(&mut self) {
        if let Some(shell) = self.living.take().filter(|_| self.running.is_none()) {
            shell.dismiss();
        }
    }

    /// The end of the command, once its output was read.
    pub fn over(&mut self) -> Option<ActionEnd> {
        let (shell, running) = (self.living.as_mut()?, self.running.as_mut()?);
        let now = Instant::now();
        if let CommandPhase::Interrupted { until, again } = &mut running.phase {
            if now >= *until {
                running.kill(shell);
            } else if now >= *again {
                *again = now + AGAIN;
                running.interrupt(shell, true);
                shell.input.close();
            }
        }
        let CommandPhase::Over {
            status,
            pending,
            until,
        } = running.phase
        else {
            return None;
        };
        if pending.min(shell.pending()) > 0 {
            return None;
        }
        if shell.output.is_some() && now < until {
            if shell.end.is_some() || shell.has_other_children(&running.target) {
                return None;
            }
            // The last output of its background processes, which they may have written just before they ended.
            let pending = shell.pending();
            if pending > 0 {
                running.phase = CommandPhase::Over {
                    status,
                    pending,
                    until,
                };
                return None;
            }
        }
        let mut running = self.running.take()?;
        if let Some(why) = &running.lost {
            running.notes.push(self.replace(why));
        }
        Some(ActionEnd {
            status,
            killed: running.killed,
            left: running.left,
            notes: running.notes.join("\n"),
        })
    }
}

impl RunningCommand {
    fn end(&mut self, shell: &LivingShell, status: i32, grace: Duration) {
        self.phase = CommandPhase::Over {
            status,
            pending: shell.pending(),
            until: Instant::now() + grace,
        };
    }

    /// Interrupts the shell and the processes of the command at the same time.
    fn interrupt(&self, shell: &LivingShell, again: bool) {
        shell.signal(libc::SIGSTOP);
        processes::await_stop(shell.session.id, Instant::now() + processes::STOPPING);
        processes::interrupt(&self.target, again);
        shell.signal(libc::SIGINT);
        shell.signal(libc::SIGCONT);
        shell.ask_again();
    }

    /// Kills the processes of the command, and the shell.
    fn kill(&mut self, shell: &mut LivingShell) {
        shell.note_folder();
        // Stopped so that it does not continue. It must exist until its children were found,
        // because they are recognised by their parent.
        shell.signal(libc::SIGSTOP);
        self.left = processes::kill_until_gone(&self.target, KILLING);
        shell.kill();
        self.lost = Some("the command and its shell were ended".to_owned());
        self.end(shell, 128 + libc::SIGKILL, Duration::ZERO);
    }
}
