//! The roles of a run as traits, and the values that they exchange.
//!
//! The loop in `mswea-run` depends only on this crate; the plugin host, the provider layer and the
//! executors implement its traits. This crate does no I/O.

mod clock;
mod end;
mod error;
mod event;
mod interactive;
mod maker;
mod person;
mod request_body;
mod stop;
mod values;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

pub use clock::Clock;
pub use end::{End, exit_message};
pub use error::{ErrorClass, ExecutorError, Manner, ModelError, ModelFailure, PluginFault};
pub use event::{Event, Parent, Requery, View};
pub use interactive::{
    ExpectEnd, Expectation, InteractivePrograms, ProgramEnd, ProgramError, ProgramOutput,
    ProgramStart,
};
pub use maker::{ConfiguredRole, Identity, Maker, Refused, RoleKind};
pub use person::{Answer, Errand, FileMemory, Nobody, Person, PersonMode, Question, SpentOfLimits};
pub use request_body::{RequestBody, RequestBodyBuilder};
pub use stop::{Stop, StopSource};
pub use values::ViewChange;
pub use values::{
    Action, AdapterNext, BAD_SYNTAX, CONTENT_LIST, Change, Delta, EDITED_FILES, ENVIRONMENT_GONE,
    HeaderValue, HttpRequest, MARK, Message, Object, Outcome, Output, PROGRAM_ANSWER, Part,
    Problem, REMEMBERED, Reply, SUBMISSION, TOOL_STATE, Tool, ToolCall, Usage, Verdict, is_bulky,
};

/// Shared objects that every role may use during a call.
#[derive(Clone)]
pub struct Context {
    /// Shows progress to the user or writes it for programs.
    pub front: Arc<dyn Front>,
    /// Records events before they take effect.
    pub journal: Arc<dyn Journal>,
    /// Says when the run, or its step, has to end.
    pub stop: Stop,
    /// Tells the time.
    pub clock: Clock,
}

impl Context {
    /// A context of these, with the system's clock.
    pub fn new(front: Arc<dyn Front>, journal: Arc<dyn Journal>, stop: Stop) -> Self {
        Self {
            front,
            journal,
            stop,
            clock: Clock::default(),
        }
    }
}

/// Answers queries with the model's replies. The implementations are an adapter with the provider
/// layer, and fakes in tests.
#[async_trait]
pub trait Model: Send {
    /// Sends the history, which has changed by `change` since the last query.
    ///
    /// # Errors
    /// [`ModelError`] if there is no reply after all retries.
    async fn query(
        &mut self,
        change: Change,
        tools: &[Tool],
        context: &Context,
    ) -> Result<Reply, ModelError>;

    /// Sends one query whose messages are independent of the history, and does not change the state
    /// of `query`.
    ///
    /// # Errors
    /// As [`Model::query`].
    async fn ask(
        &mut self,
        messages: Vec<Message>,
        tools: &[Tool],
        context: &Context,
    ) -> Result<Reply, ModelError>;

    /// The request that a query of this history would begin with, for a record of it; nothing is sent. None if
    /// nothing would be.
    ///
    /// # Errors
    /// [`ModelError`] if no request can be made.
    async fn draft(
        &mut self,
        view: Vec<Arc<Message>>,
        tools: &[Tool],
    ) -> Result<Option<HttpRequest>, ModelError> {
        let _ = (view, tools);
        Ok(None)
    }

    /// Tokens and cost that were billed for queries whose futures were dropped before they had a
    /// reply or an error. Each bill is returned once. A bill that is not taken is part of the usage
    /// of the next reply.
    fn take_unreported_usage(&mut self) -> Option<Usage> {
        None
    }
}

/// The wire format of a model's API, without the network; see `wit/model-adapter.wit`. Without
/// history processors, an implementation in the host gets messages with all keys of `extra`; a plugin never does.
#[async_trait]
pub trait Adapter: Send {
    /// Starts a query.
    async fn query(&mut self, change: &Change, tools: &[Tool]) -> Result<AdapterNext, ModelError>;
    /// Passes the status and the headers of a response; the headers' names are in lower case.
    async fn head(&mut self, status: u16, headers: &[(String, String)]) -> Result<(), ModelError>;
    /// Passes the next bytes of the body. After [`Delta::END`] no more are passed.
    async fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, ModelError>;
    /// Ends the response: its body, or the reply in it, is complete.
    async fn finish(&mut self) -> Result<AdapterNext, ModelError>;
    /// Drops the instance after a failure. The next `query` uses a fresh instance, so the caller
    /// has to pass the whole history.
    fn discard(&mut self);
    /// Switches off bodies in pieces for the following queries, for the comparison of both forms.
    /// Returns whether the adapter can pass bodies in pieces.
    fn say_whole(&mut self) -> bool {
        false
    }
}

/// Finds the actions in a reply.
#[async_trait]
pub trait Parser: Send {
    /// The plugin's name, for messages.
    fn name(&self) -> &str;
    /// The tools that are offered to the model.
    fn tools(&self) -> &[Tool];
    /// Parses one reply.
    ///
    /// # Errors
    /// [`PluginFault`] if the parser itself fails; the loop then treats the reply as malformed.
    async fn parse(&mut self, reply: &Reply) -> Result<Outcome, PluginFault>;
}

/// Makes messages for the model from the outputs of actions.
#[async_trait]
pub trait Formatter: Send {
    /// The plugin's name, for messages.
    fn name(&self) -> &str;
    /// Formats the outputs of one step.
    ///
    /// # Errors
    /// [`PluginFault`] if the formatter itself fails; the loop then uses its built-in form.
    async fn format(
        &mut self,
        actions: &[Action],
        outputs: &[Output],
    ) -> Result<Vec<Message>, PluginFault>;
}

/// Computes the view: the messages that the model gets in place of the history.
#[async_trait]
pub trait Processor: Send {
    /// The plugin's name, for messages.
    fn name(&self) -> &str;
    /// Whether the next change must contain the whole input (`start = 0`), because the instance is
    /// fresh.
    fn needs_all(&self) -> bool;
    /// Applies a change of the input, and returns the change of the view.
    ///
    /// # Errors
    /// [`PluginFault`] if the processor itself fails; in this step its input is then its view.
    async fn apply(
        &mut self,
        change: Change,
        asker: &mut dyn Asker,
    ) -> Result<ViewChange, PluginFault>;
    /// Drops the state after a failure or an invalid view.
    fn discard(&mut self);
}

/// How many new queries a processor may send in one step.
pub const QUESTIONS: usize = 8;

/// How many queries a processor may repeat in one step: a fresh instance repeats those of all steps
/// before. The number is limited because repeated queries cost nothing, so no other limit would end
/// a processor that repeats them forever.
pub const QUESTIONS_AGAIN: usize = 1_000;

/// Sends the query of a processor to the model; the implementation charges and records it.
#[async_trait]
pub trait Asker: Send {
    /// Sends the query; `purpose` is for logs and accounting.
    ///
    /// # Errors
    /// As [`Model::ask`].
    async fn ask(
        &mut self,
        processor: &str,
        purpose: &str,
        messages: Vec<Message>,
    ) -> Result<Reply, ModelError>;

    /// Whether this query was sent before in this run: then the recorded reply is returned at no
    /// cost.
    fn remembers(&self, processor: &str, messages: &[Message]) -> bool {
        let _ = (processor, messages);
        false
    }
}

/// Judges an action before it runs.
#[async_trait]
pub trait Policy: Send {
    /// The plugin's name, for messages.
    fn name(&self) -> &str;
    /// Judges one action.
    ///
    /// # Errors
    /// [`PluginFault`] if the policy itself fails; the loop then denies the action.
    async fn judge(&mut self, action: &Action) -> Result<Verdict, PluginFault>;
}

/// A command and how to run it.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// The text for the interpreter.
    pub text: &'a str,
    /// The time limit; with none or zero, the configured one.
    pub timeout: Option<Duration>,
    /// Whether the output is data: it is then kept whole (up to 64 MiB) and with its own line ends,
    /// and not shortened.
    pub whole: bool,
    /// Whether it is not an action of the agent: it then has a process of its own also where the
    /// actions share a shell.
    pub apart: bool,
}

impl<'a> Command<'a> {
    /// A command with the configured time limit, whose output may be shortened.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            timeout: None,
            whole: false,
            apart: false,
        }
    }
}

/// An environment that can run commands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvironmentReady {
    /// The handle by which [`Executor::start`] finds this environment again.
    pub handle: Value,
    /// Why a new environment was made although the handle of an earlier one was given.
    pub replaced: Option<String>,
    /// The files of the earlier environment, as far as they were recorded, are in the new one.
    pub is_restored: bool,
}

/// The environment in which actions run.
#[async_trait]
pub trait Executor: Send {
    /// Makes the environment ready for commands. It shows on the front what takes long, and ends
    /// early if the run has to stop. `known` is the handle of an environment that an earlier
    /// process of this run has used. This environment is used again if it still exists, else a new
    /// one is made and [`EnvironmentReady::replaced`] says why.
    ///
    /// # Errors
    /// [`ExecutorError`] if the environment can't be used.
    async fn start(
        &mut self,
        context: &Context,
        known: Option<&Value>,
    ) -> Result<EnvironmentReady, ExecutorError>;
    /// Does, after `start`, what must be done once in every new environment: puts the repository
    /// there and runs the start-up commands. It is not called for an environment that was found
    /// again, if the set-up had ended there. Returns the handle of the environment after the
    /// set-up, which replaces the handle that `start` returned; with `Null`, that handle stays.
    ///
    /// # Errors
    /// [`ExecutorError`] if a part of the set-up fails.
    async fn set_up(&mut self, context: &Context) -> Result<Value, ExecutorError> {
        let _ = context;
        Ok(Value::Null)
    }
    /// Whether `restore` can be called, as far as that is known before `start`.
    ///
    /// # Errors
    /// [`ExecutorError`] if the environment has no repository whose files could be restored.
    fn check_restore(&self) -> Result<(), ExecutorError> {
        Err(ExecutorError {
            message: "the environment has no repository of its own (`workspace`), and only the files of one can be restored".to_owned(),
        })
    }
    /// Restores the files of the repository to their state when `salvage_command`, after the shell
    /// text `prologue`, printed `patch`. It is called after `set_up`, and changes only files in the
    /// state that `set_up` has left or found.
    ///
    /// # Errors
    /// [`ExecutorError`] if the files have other changes, if the patch can't be applied, or if
    /// there is no repository.
    async fn restore(
        &mut self,
        patch: &str,
        prologue: &str,
        stop: &Stop,
    ) -> Result<(), ExecutorError> {
        let _ = (patch, prologue, stop);
        self.check_restore()
    }
    /// Runs one command and waits for its end: in a fresh process, unless the environment has one
    /// shell for all actions. If `stop` fires, the process tree
    /// is killed and the partial output returned.
    async fn execute(&mut self, command: &Command<'_>, stop: &Stop) -> Output;
    /// Copies a local file or folder into the environment.
    ///
    /// # Errors
    /// [`ExecutorError`] if it can't be read or written.
    async fn upload(&mut self, from: &Path, to: &str) -> Result<(), ExecutorError>;
    /// Copies a file or folder of the environment to the local disk.
    ///
    /// # Errors
    /// [`ExecutorError`] if it can't be read or written.
    async fn download(&mut self, from: &str, to: &Path) -> Result<(), ExecutorError>;
    /// Programs that stay open between commands; none if this environment can't keep any.
    fn programs(&mut self) -> Option<Box<dyn InteractivePrograms + '_>> {
        None
    }
    /// Ends all processes and removes what was started; may be called twice.
    async fn cleanup(&mut self);
    /// The command that prints the changes since the start as a patch, if the executor knows the
    /// state at the start.
    fn salvage_command(&self) -> Option<String> {
        None
    }
    /// The command that prints, in the same form, the changes that a tool submits.
    fn submission_command(&self) -> Option<String> {
        self.salvage_command()
    }
    /// Variables that templates may use (`cwd`, `timeout`, `system`, ...).
    fn template_vars(&self) -> Object;
    /// The state of the tools after the set-up, if the environment has tools.
    fn tool_state(&self) -> Object {
        Object::new()
    }
}

/// Gets a copy of a run's events without taking part in the run: a plugin of `--shadow`.
#[async_trait]
pub trait Onlooker: Send {
    /// Ends the observation after the run, and returns a report of one or two lines for the user.
    /// It takes at most the time that was set when the onlooker was made.
    async fn finish(self: Box<Self>) -> String;
}

/// Records events before they take effect.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Appends one event and hands it to the kernel; returns the time that it was recorded with, in
    /// Unix seconds.
    ///
    /// # Errors
    /// When it can't be written: the run must not go on.
    fn record(&self, event: &Event) -> std::io::Result<f64>;

    /// Waits until the events that mark the end of a part of a step are on the disk, if the journal
    /// promises that.
    ///
    /// # Errors
    /// When the disk reports a failure: the run must not go on.
    async fn synced(&self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Shows progress. Never blocks.
pub trait Front: Send + Sync {
    /// Shows one piece of progress.
    fn show(&self, progress: &Progress<'_>);
}

/// A piece of progress.
#[derive(Debug)]
#[allow(missing_docs)] // the fields are named after what they hold
pub enum Progress<'a> {
    /// The paths of the run's files are known. This comes first.
    Recording {
        trajectory: &'a Path,
        journal: &'a Path,
    },
    /// The environment is being made ready, which takes a while; the text says what is being done.
    Preparing(&'a str),
    /// A step begins: its number from 1, and what the run has used so far: dollars (`None` if they are
    /// unknown), and tokens of requests and replies.
    StepStarted {
        step: u32,
        cost: Option<f64>,
        tokens: u64,
    },
    /// New text of the reply, while it arrives.
    Delta(&'a Delta),
    /// The text that was shown of the current reply is invalid: the request is sent again.
    DeltaReset,
    /// The model has replied.
    Replied { reply: &'a Reply, cost: Option<f64> },
    /// A request failed and is sent again after `wait`.
    Retrying {
        class: &'a ModelFailure,
        message: &'a str,
        attempt: u32,
        of: u32,
        wait: Duration,
    },
    /// A request waits for so long before it is sent, because the provider has asked for a pause.
    HeldBack { wait: Duration },
    /// A message joined the history.
    Message(&'a Message),
    /// An action is about to run; `index` counts from 0, `of` is the number of actions.
    ActionStarted {
        action: &'a Action,
        index: usize,
        of: usize,
    },
    /// An action has ended.
    ActionEnded { output: &'a Output, index: usize },
    /// A history processor sends a query to the model.
    Asked {
        processor: &'a str,
        purpose: &'a str,
    },
    /// The model has replied to the query of a history processor.
    Answered {
        processor: &'a str,
        reply: &'a Reply,
        cost: Option<f64>,
    },
    /// A policy replaced an action.
    Rewritten {
        policy: &'a str,
        original: &'a Action,
        action: &'a Action,
        index: usize,
    },
    /// A policy denied an action.
    Denied {
        policy: &'a str,
        action: &'a Action,
        reason: &'a str,
    },
    /// A warning for the user.
    Warning(&'a str),
    /// Names of the host's variables that commands do not get. They are shown when a command fails.
    Withheld(&'a [String]),
    /// The report of an onlooker.
    Seen(&'a str),
    /// The run has ended.
    Ended {
        end: &'a End,
        exit_status: &'a str,
        submission: &'a str,
        cost: Option<f64>,
        steps: u32,
        usage: &'a Usage,
    },
}

/// Computes the cost of a reply.
pub trait Pricing: Send + Sync {
    /// The cost of `usage` in dollars; `None` if the price is unknown.
    fn cost(&self, usage: &Usage) -> Option<f64>;
}
