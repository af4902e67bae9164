//! The user at the terminal in the role [`Person`]: answers the questions of the loop, and may type
//! at any time.
//!
//! [`console`] reads the input, [`editor`] has the typed text, and the front's
//! [`Desk`](super::front::Desk) shows it. The prompts and the meaning of the answers are those of
//! mini-swe-agent's interactive agent.

mod approval;
mod commands;
mod console;
mod editor;
mod history;
pub(super) mod keys;
mod outside;
mod questions;
mod seat;
mod terminal;
mod work_tree;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;

use self::approval::Approval;
use self::console::{KeyConsole, Prompt, Typed};
use self::seat::Seat;
use super::args::PersonArgs;
use super::front::CliFront;
use mswea_config::{Config, whose_model};
use mswea_core::{Answer, Errand, FileMemory, Person, PersonMode, Question, Stop, StopSource};

pub(super) use seat::NextRun;
pub(super) use terminal::give_back;

/// A user at a terminal.
pub(super) struct Attendant {
    seat: Arc<Seat>,
    stop: Stop,
    console: OnceLock<Option<KeyConsole>>,
    approval: Mutex<Approval>,
    confirms_exit: bool,
    /// How many tokens a request to the model may have.
    window: Option<u64>,
    notifies: bool,
    /// Whether the run is about to end: then each Ctrl-C stops the run.
    is_ending: AtomicBool,
    /// Whether the user is asked what to do after an interruption: then Ctrl-C ends the run.
    at_last_question: AtomicBool,
}

impl Attendant {
    /// The user of a run with this config; none if there is no terminal, or if the front or the
    /// config excludes questions.
    ///
    /// # Errors
    /// A message with the mistake in the config.
    pub fn of(
        config: &Config,
        front: &dyn CliFront,
        args: &PersonArgs,
    ) -> Result<Option<Arc<Self>>, String> {
        let is_interactive = config.agent.agent_class.as_deref() != Some("default");
        let has_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let Some(desk) = front.desk().filter(|_| is_interactive && has_terminal) else {
            return Ok(None);
        };
        let named = config.agent.mode.as_deref();
        let mode = PersonMode::ALL.into_iter();
        let mode = mode.into_iter().find(|mode| Some(mode.name()) == named);
        let mut approval =
            Approval::of(&config.agent.whitelist_actions).map_err(|(pattern, why)| {
                format!("`agent.whitelist_actions` has `{pattern}`, which is no regular expression: {why}")
            })?;
        if let Some(file) = approval::file() {
            approval.read(&file)?;
        }
        for prefix in &args.approved {
            approval.approve(prefix);
        }
        let (source, stop) = StopSource::new();
        let mode = mode.unwrap_or(PersonMode::Confirm);
        let folder = folder(config);
        let seat = Seat::new(desk, Arc::new(source), mode, folder, config);
        if let Some(text) = &args.said {
            seat.tell(text.clone());
        }
        Ok(Some(Arc::new(Self {
            seat: Arc::new(seat),
            stop,
            console: OnceLock::new(),
            approval: Mutex::new(approval),
            confirms_exit: config.agent.confirm_exit,
            window: window(config),
            notifies: args.notify,
            is_ending: AtomicBool::new(false),
            at_last_question: AtomicBool::new(false),
        })))
    }

    /// The stops of the run.
    pub fn stops(&self) -> (Arc<StopSource>, Stop) {
        (self.seat.source.clone(), self.stop.clone())
    }

    /// The user's wish to continue after the run, if any.
    pub fn next(&self) -> Option<NextRun> {
        self.seat.next()
    }

    /// Takes the messages that the model did not get before the end of the run.
    pub fn unsent(&self) -> Option<String> {
        self.seat.said()
    }

    /// The flags with which a further run continues this one.
    pub fn flags(&self) -> PersonArgs {
        PersonArgs {
            mode: Some(self.seat.mode().name().to_owned()),
            notify: self.notifies,
            approved: self.approval().of_run().to_vec(),
            said: self.unsent(),
            ..PersonArgs::default()
        }
    }

    /// Handles Ctrl-C: the first one ends the step, a further one the run.
    pub fn interrupt(&self) {
        let ends = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if self.stop.is_stopped() || ends(&self.is_ending) || ends(&self.at_last_question) {
            self.seat.source.stop();
        } else {
            self.seat.source.stop_step();
        }
    }

    /// Begins to read input. Must be called once signals are handled: a signal that ends the
    /// program without a handler would not restore the terminal.
    pub fn begin(&self) {
        terminal::begin();
        self.console();
    }

    /// Ends the reading, and restores the terminal.
    pub fn end(&self) {
        if let Some(Some(console)) = self.console.get() {
            console.end();
        }
        if let Ok(tree) = &self.seat.work_tree {
            tree.end();
        }
        give_back();
    }

    fn console(&self) -> Option<&KeyConsole> {
        let start = || {
            self.seat.desk.attend(self.seat.mode().name());
            self.seat.desk.learn_window(self.window);
            let console = KeyConsole::start(self.seat.desk.clone(), history::load()).ok()?;
            let seat = self.seat.clone();
            console.on_unasked(move |line| seat.hear(line));
            Some(console)
        };
        self.console.get_or_init(start).as_ref()
    }

    /// Asks for a task; none if the user has ended the input.
    pub async fn task(&self) -> Option<String> {
        let held = self.console()?.hold();
        let end = if self.seat.desk.is_live() {
            "Esc Enter or Ctrl-D"
        } else {
            "Ctrl-D"
        };
        loop {
            let prompt = Prompt {
                hint: format!("What is to be done? (several lines; {end} sends it)"),
                mark: "> ",
                is_multiline: true,
                ..Prompt::default()
            };
            match held.ask(prompt).await {
                Typed::Eof => return None,
                Typed::Text(text) if text.trim().is_empty() => {}
                Typed::Text(text) => {
                    history::add(&text);
                    return Some(text);
                }
            }
        }
    }

    fn ring(&self) {
        if self.notifies {
            self.seat.desk.ring();
        }
    }

    fn approval(&self) -> std::sync::MutexGuard<'_, Approval> {
        self.approval.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many tokens a request to the model may have, if the table of prices knows it.
fn window(config: &Config) -> Option<u64> {
    let choice = whose_model(config).ok()?;
    mswea_session::prices(config, &choice).ok()?.0.quote?.window
}

/// The folder of the commands, if it is on this machine.
fn folder(config: &Config) -> Option<PathBuf> {
    let environment = &config.environment;
    let is_here = match environment.environment_class.as_str() {
        "local" => true,
        "bubblewrap" => environment.image.is_none(),
        _ => false,
    };
    let named = &environment.cwd;
    is_here.then(|| PathBuf::from(named))
}

#[async_trait]
impl Person for Attendant {
    fn is_present(&self) -> bool {
        true
    }

    fn mode(&self) -> PersonMode {
        self.seat.mode()
    }

    fn has_message(&self) -> bool {
        self.seat.has_message()
    }

    fn said(&self) -> Option<String> {
        self.seat.said()
    }

    fn memory(&self) -> Option<FileMemory> {
        let tree = self.seat.work_tree.as_ref().ok()?;
        Some(tree.memory())
    }

    async fn errand(&self) -> Errand {
        self.seat.errand().await
    }

    fn leave(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    async fn answer(&self, question: &Question) -> Option<Answer> {
        if matches!(question, Question::Submission { .. }) && !self.confirms_exit {
            return Some(Answer::Yes);
        }
        if let Question::Actions { actions } = question {
            let approval = self.approval();
            if actions
                .iter()
                .all(|action| approval.covers(&action.command))
            {
                return Some(Answer::Yes);
            }
        }
        let held = self.console()?.hold();
        self.ring();
        match question {
            Question::Actions { actions } => self.actions(&held, actions).await,
            Question::Confirm {
                policy,
                action,
                reason,
            } => self.policy(&held, policy, action, reason).await,
            Question::Turn => self.turn(&held).await,
            Question::Interrupted => {
                self.at_last_question.store(true, Ordering::Relaxed);
                let _over = Over(&self.at_last_question);
                self.interrupted(&held).await
            }
            Question::Submission { submission } => self.submission(&held, submission).await,
            Question::Limit { account } => self.limit(&held, *account).await,
        }
    }
}

/// Marks that a question is over, even if it was withdrawn.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
