//! What the questions to the user and the lines that are typed without a question share: the mode of
//! the run, the messages that wait for the next step, and the commands that need no question.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::commands::{HELP, SlashCommand};
use crate::cli::front::Desk;
use mswea_core::{PersonMode, StopSource};

/// The user's place at a run.
pub(super) struct Seat {
    pub desk: Desk,
    pub source: Arc<StopSource>,
    mode: Mutex<PersonMode>,
    queue: Mutex<Vec<String>>,
    /// The folder of the commands, if it is on this machine.
    folder: Option<PathBuf>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seat {
    pub fn new(
        desk: Desk,
        source: Arc<StopSource>,
        mode: PersonMode,
        folder: Option<PathBuf>,
    ) -> Self {
        Self {
            desk,
            source,
            mode: Mutex::new(mode),
            queue: Mutex::default(),
            folder,
        }
    }

    pub fn mode(&self) -> PersonMode {
        *lock(&self.mode)
    }

    /// Changes the mode. Returns whether it is another one than before.
    pub fn switch(&self, mode: PersonMode) -> bool {
        let name = mode.name();
        if std::mem::replace(&mut *lock(&self.mode), mode) == mode {
            self.desk.note(&format!("already in {name} mode"));
            return false;
        }
        self.desk.attend(name);
        self.desk.note(&format!("{name} mode"));
        true
    }

    /// The messages that wait, as one text.
    pub fn said(&self) -> Option<String> {
        let said = std::mem::take(&mut *lock(&self.queue));
        (!said.is_empty()).then(|| said.join("\n\n"))
    }

    /// Handles a line that was typed without a question.
    pub fn hear(&self, line: String) {
        match SlashCommand::of(&line) {
            _ if line.trim().is_empty() => {}
            Some(command) => self.obey(&command),
            None => {
                lock(&self.queue).push(line);
                self.desk
                    .note("the model gets this before its next step (Ctrl-C interrupts what runs)");
            }
        }
    }

    /// Obeys a command that is the same everywhere.
    pub fn obey(&self, command: &SlashCommand) {
        match command {
            SlashCommand::Help => self.desk.note(HELP),
            SlashCommand::Status => self.status(),
            SlashCommand::Diff => self.diff(),
            SlashCommand::Expand(number) => self.desk.expand(*number),
            SlashCommand::Quit => drop(self.source.stop()),
            SlashCommand::Unknown(name) => self.desk.note(&format!(
                "there is no command /{name}: /h names all; a text that begins so needs a word before it"
            )),
            SlashCommand::Always | SlashCommand::Edit { .. } => {
                self.desk.note("no command waits for an answer");
            }
            SlashCommand::Multiline => {
                self.desk
                    .note("several lines can be entered at a question: Ctrl-C interrupts what runs and asks");
            }
            SlashCommand::Mode(mode) => drop(self.switch(*mode)),
        }
    }

    fn status(&self) {
        let account = self.desk.account();
        let text = match lock(&self.queue).len() {
            0 => account,
            1 => format!("{account} · 1 message waits for the next step"),
            count => format!("{account} · {count} messages wait for the next step"),
        };
        self.desk.note(&text);
    }

    /// Prints the changes in the working folder.
    fn diff(&self) {
        let Some(folder) = &self.folder else {
            self.desk
                .note("/diff works only where commands run in a folder of this machine");
            return;
        };
        let git = |args: &[&str]| {
            let mut command = Command::new("git");
            command
                .arg("-C")
                .arg(folder)
                .args(["--no-pager"])
                .args(args);
            let done = command.stdin(Stdio::null()).output();
            done.map_or_else(
                |error| format!("git can't be started: {error}"),
                |done| match done.status.success() {
                    true => String::from_utf8_lossy(&done.stdout).into_owned(),
                    false => String::from_utf8_lossy(&done.stderr).into_owned(),
                },
            )
        };
        let changes = git(&["diff", "--no-ext-diff", "--no-color", "HEAD"]);
        let new = git(&["ls-files", "--others", "--exclude-standard"]);
        let mut text = changes;
        for file in new.lines() {
            text.push_str(&format!("new file: {file}\n"));
        }
        match text.trim_end() {
            "" => self.desk.note("no changes"),
            text => self.desk.note(text),
        }
    }
}
