//! The state that questions share with text which is typed without a question: the mode of the run,
//! the messages that wait for the next step, and the commands that need no question.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::commands::{HELP, SlashCommand};
use super::work_tree::RememberedFiles;
use crate::cli::first_steps;
use crate::cli::front::Desk;
use mswea_config::Config;
use mswea_core::{Errand, Output, PersonMode, StopSource};

/// The wish of a user to continue at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum NextRun {
    /// The same run with another model.
    Model(String),
    /// A new run with the same steps.
    Fork,
}

/// The state of the user's part in a run.
pub(super) struct Seat {
    pub desk: Desk,
    pub source: Arc<StopSource>,
    mode: Mutex<PersonMode>,
    queue: Mutex<Vec<String>>,
    config: Config,
    /// The user's wish to continue.
    next: Mutex<Option<NextRun>>,
    errands: UnboundedSender<Errand>,
    to_do: tokio::sync::Mutex<UnboundedReceiver<Errand>>,
    /// The scripts that remember the files of the commands, or the reason why they can't be
    /// remembered.
    pub work_tree: Result<RememberedFiles, &'static str>,
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
        config: &Config,
    ) -> Self {
        let (errands, to_do) = unbounded_channel();
        Self {
            errands,
            to_do: tokio::sync::Mutex::new(to_do),
            work_tree: RememberedFiles::new(&config.environment.environment_class),
            desk,
            source,
            mode: Mutex::new(mode),
            queue: Mutex::default(),
            config: config.clone(),
            next: Mutex::default(),
            folder,
        }
    }

    pub fn mode(&self) -> PersonMode {
        *lock(&self.mode)
    }

    /// Changes the mode. Returns whether it has changed.
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

    /// Whether messages to the model wait.
    pub fn has_message(&self) -> bool {
        !lock(&self.queue).is_empty()
    }

    /// The waiting messages, as one text.
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
                self.tell(line);
                self.desk
                    .note("the model gets this before its next step (Ctrl-C interrupts what runs)");
            }
        }
    }

    /// Does a command that has the same effect everywhere.
    pub fn obey(&self, command: &SlashCommand) {
        match command {
            SlashCommand::Help => self.desk.note(HELP),
            SlashCommand::Status => self.status(),
            SlashCommand::Diff => self.diff(),
            SlashCommand::Undo => {
                self.desk
                    .note("/undo works at a question: Ctrl-C interrupts what runs and asks");
            }
            SlashCommand::Fork => drop(self.fork()),
            SlashCommand::Expand(number) => self.desk.expand(*number),
            SlashCommand::Quit => self.quit(),
            SlashCommand::Model(name) => drop(self.switch_model(name)),
            SlashCommand::Unknown(name) => self.desk.note(&format!(
                "there is no command /{name}: /h names all; a text that begins so needs a word before it"
            )),
            SlashCommand::Always { .. } | SlashCommand::Edit { .. } => {
                self.desk.note("no command waits for an answer");
            }
            SlashCommand::Multiline => {
                self.desk
                    .note("several lines can be entered at a question: Ctrl-C interrupts what runs and asks");
            }
            SlashCommand::Mode(mode) => drop(self.switch(*mode)),
        }
    }

    fn quit(&self) {
        self.source.stop();
    }

    /// Continues with another model: the run ends, and is resumed with it. Returns whether this is
    /// possible.
    pub fn switch_model(&self, name: &str) -> bool {
        if name.is_empty() {
            let name = self.config.model.model_name.as_deref().unwrap_or_default();
            self.desk.note(&format!(
                "the model is {name}; `/model PREFIX/NAME` goes on with another one"
            ));
            return false;
        }
        if self.folder.is_none() {
            self.desk.note(
                "/model works only where commands run in a folder of this machine: /quit, and then `mswea-host resume -m NAME`",
            );
            return false;
        }
        let mut config = self.config.clone();
        config.model.model_name = Some(name.to_owned());
        if let Err(error) = first_steps::check_model(&config) {
            self.desk.note(&error);
            return false;
        }
        *lock(&self.next) = Some(NextRun::Model(name.to_owned()));
        self.quit();
        true
    }

    /// Continues in a new run: this one ends, and the new one begins with its steps. Returns
    /// whether this is possible.
    pub fn fork(&self) -> bool {
        if self.folder.is_none() {
            self.desk.note(
                "/fork works only where commands run in a folder of this machine: /quit, and then `mswea-host fork RUN --at STEP`",
            );
            return false;
        }
        *lock(&self.next) = Some(NextRun::Fork);
        self.quit();
        true
    }

    /// The user's wish to continue.
    pub fn next(&self) -> Option<NextRun> {
        lock(&self.next).clone()
    }

    /// Adds a message to the model, which gets it before its next step.
    pub fn tell(&self, text: String) {
        lock(&self.queue).push(text);
    }

    /// Waits for the next errand.
    pub async fn errand(&self) -> Errand {
        match self.to_do.lock().await.recv().await {
            Some(errand) => errand,
            None => std::future::pending().await,
        }
    }

    fn send(&self, script: String, done: impl FnOnce(Output) + Send + 'static) {
        let done = Box::new(done);
        // The receiver exists as long as this value.
        drop(self.errands.send(Errand { script, done }));
    }

    /// Runs a script in the environment, while a question is open.
    pub async fn run(&self, script: String) -> Output {
        let (sender, output) = oneshot::channel();
        self.send(script, |output| drop(sender.send(output)));
        let output = output.await;
        output.unwrap_or_else(|_| Output::not_executed("the run has ended"))
    }

    fn status(&self) {
        let (account, context) = self.desk.account();
        let mut text = match lock(&self.queue).len() {
            0 => account,
            1 => format!("{account} · 1 message waits for the next step"),
            count => format!("{account} · {count} messages wait for the next step"),
        };
        if !context.is_empty() {
            text = format!("{text}\n{context}");
        }
        self.desk.note(&text);
    }

    /// Prints the changes in the working folder.
    fn diff(&self) {
        let desk = self.desk.clone();
        self.send(mswea_git::shown_changes(), move |output| {
            let text = format!("{}{}", output.output, output.exception_info);
            match text.trim_end() {
                "" => desk.note("no changes"),
                text => desk.note(text),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    fn sh(folder: &Path, script: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(folder);
        command.env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap());
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn changes_without_a_commit_and_without_a_repository() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            sh(folder.path(), &mswea_git::shown_changes()),
            "the commands run outside of a git work tree\n"
        );
        sh(
            folder.path(),
            "git init -q 2>/dev/null; echo x >added; git add added; echo y >new",
        );
        let changes = sh(folder.path(), &mswea_git::shown_changes());
        assert!(
            changes.starts_with("diff --git a/added b/added\nnew file")
                && changes.ends_with("+x\nnew file: new\n"),
            "{changes}"
        );
    }
}
