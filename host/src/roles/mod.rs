//! The roles that a run is made of, as traits, and the values that they exchange.
//!
//! The loop in [`crate::run`] knows only what is in here; the plugin host, the provider layer
//! and the executors implement it. Nothing in here does I/O.

mod error;
mod maker;
mod stop;
mod values;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use error::{ErrorClass, ExecutorError, Manner, ModelError, PluginFault};
pub use maker::{Identity, Made, Maker, Refused, RoleKind};
pub use stop::{Stop, StopSource};
pub use values::ViewChange;
pub use values::{
    Action, AdapterNext, CONTENT_LIST, Change, Delta, ENVIRONMENT_GONE, HeaderValue, HttpRequest,
    Message, Object, Outcome, Output, Part, Problem, REMEMBERED, Reply, Tool, ToolCall, Usage,
    Verdict, is_bulky,
};

use crate::journal::Event;

/// What every role may use while it works.
#[derive(Clone)]
pub struct Context {
    /// Shows progress to people and machines.
    pub front: Arc<dyn Front>,
    /// Records what happens, before it takes effect.
    pub journal: Arc<dyn Journal>,
    /// Says when the run has to end.
    pub stop: Stop,
}

/// Answers queries: an adapter with the provider layer around it, or a fake.
#[async_trait]
pub trait Model: Send {
    /// Sends the history as changed by `change` since the last query.
    ///
    /// # Errors
    /// When there is no reply after all retries.
    async fn query(
        &mut self,
        change: &Change,
        tools: &[Tool],
        context: &Context,
    ) -> Result<Reply, ModelError>;

    /// Asks one self-contained question (no tools) without touching the state of `query`.
    ///
    /// # Errors
    /// As [`Model::query`].
    async fn ask(&mut self, messages: Vec<Message>, context: &Context)
    -> Result<Reply, ModelError>;

    /// What was billed for a query or question whose future was dropped before it had a reply
    /// or an error to carry the bill. Taken once; whatever is left is in the next reply's bill.
    fn take_unreported_usage(&mut self) -> Option<Usage> {
        None
    }
}

/// A model's wire format without its I/O; see `wit/model-adapter.wit`.
#[async_trait]
pub trait Adapter: Send {
    /// Starts a query.
    async fn query(&mut self, change: &Change, tools: &[Tool]) -> Result<AdapterNext, ModelError>;
    /// A response's status and headers (lower-case names).
    async fn head(&mut self, status: u16, headers: &[(String, String)]) -> Result<(), ModelError>;
    /// The next piece of the body.
    async fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, ModelError>;
    /// The body has ended.
    async fn finish(&mut self) -> Result<AdapterNext, ModelError>;
    /// Throws the instance away after a failure: the next `query` gets a fresh one, and the
    /// caller hands it the full history.
    fn discard(&mut self);
}

/// Finds the actions in a reply.
#[async_trait]
pub trait Parser: Send {
    /// Its name, for messages.
    fn name(&self) -> &str;
    /// The tools that the model is told about.
    fn tools(&self) -> &[Tool];
    /// Parses one reply.
    ///
    /// # Errors
    /// When the parser itself fails; the loop then reports a malformed reply to the model.
    async fn parse(&mut self, reply: &Reply) -> Result<Outcome, PluginFault>;
}

/// Turns outputs into messages.
#[async_trait]
pub trait Formatter: Send {
    /// Its name, for messages.
    fn name(&self) -> &str;
    /// Formats the outputs of one step.
    ///
    /// # Errors
    /// When the formatter itself fails; the loop then formats plainly.
    async fn format(
        &mut self,
        actions: &[Action],
        outputs: &[Output],
    ) -> Result<Vec<Message>, PluginFault>;
}

/// Changes what the model sees of the history.
#[async_trait]
pub trait Processor: Send {
    /// Its name, for messages.
    fn name(&self) -> &str;
    /// Whether the next `apply` must bring everything (`start = 0`): a fresh instance.
    fn needs_all(&self) -> bool;
    /// The input view changed; answers how its own view changed.
    ///
    /// # Errors
    /// When the processor itself fails; its view is then its input, for this step.
    async fn apply(
        &mut self,
        change: Change,
        asker: &mut dyn Asker,
    ) -> Result<ViewChange, PluginFault>;
    /// Throws the state away after a failure or a broken view.
    fn discard(&mut self);
}

/// How many new questions a processor may ask in one step.
pub const QUESTIONS: usize = 8;

/// How many it may ask again that were answered before: a fresh instance repeats what was asked in
/// all the steps before it. A bound all the same, since one that never ends costs nothing.
pub const QUESTIONS_AGAIN: usize = 1_000;

/// Puts a processor's question to the model; charged and recorded by whoever implements it.
#[async_trait]
pub trait Asker: Send {
    /// Asks; `purpose` is for logs and accounts.
    ///
    /// # Errors
    /// As [`Model::ask`].
    async fn ask(
        &mut self,
        processor: &str,
        purpose: &str,
        messages: Vec<Message>,
    ) -> Result<Reply, ModelError>;

    /// Whether this question was answered before in this run: then the answer is the same, and
    /// costs nothing.
    fn remembers(&self, processor: &str, messages: &[Message]) -> bool {
        let _ = (processor, messages);
        false
    }
}

/// Judges an action before it runs.
#[async_trait]
pub trait Policy: Send {
    /// Its name, for messages.
    fn name(&self) -> &str;
    /// Judges one action.
    ///
    /// # Errors
    /// When the policy itself fails; the loop then denies.
    async fn judge(&mut self, action: &Action) -> Result<Verdict, PluginFault>;
}

/// A command as an executor is asked to run it.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// What the interpreter is given.
    pub text: &'a str,
    /// How long it may run; none or zero: as configured.
    pub timeout: Option<Duration>,
    /// Its output is data: it is kept whole (up to 64 MiB) and with its own line ends, and not
    /// shortened to something to look at.
    pub whole: bool,
}

impl<'a> Command<'a> {
    /// A command with the configured timeout, whose output is to be looked at.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            timeout: None,
            whole: false,
        }
    }
}

/// Where actions run.
#[async_trait]
pub trait Executor: Send {
    /// Makes the environment ready; tells the front what takes long, and gives up when the run
    /// has to stop.
    ///
    /// # Errors
    /// When it can't be used.
    async fn start(&mut self, context: &Context) -> Result<(), ExecutorError>;
    /// Runs one command in a fresh process and waits for it. When `stop` fires, the process
    /// tree is killed and the partial output returned.
    async fn execute(&mut self, command: &Command<'_>, stop: &Stop) -> Output;
    /// Copies a local file or folder into the environment.
    ///
    /// # Errors
    /// When it can't be read or written.
    async fn upload(&mut self, from: &Path, to: &str) -> Result<(), ExecutorError>;
    /// Copies a file or folder of the environment to the local disk.
    ///
    /// # Errors
    /// When it can't be read or written.
    async fn download(&mut self, from: &str, to: &Path) -> Result<(), ExecutorError>;
    /// Ends everything that was started; safe to call twice.
    async fn cleanup(&mut self);
    /// The command that prints what was changed since the start, as a patch, if the executor
    /// knows what was there then.
    fn salvage_command(&self) -> Option<String> {
        None
    }
    /// Variables that templates may use (`cwd`, `timeout`, `system`, ...).
    fn template_vars(&self) -> Object;
}

/// Looks on while a run goes by, without a part in it.
#[async_trait]
pub trait Onlooker: Send {
    /// The run is over: what was seen, in a line or two for a person. Takes no longer than was
    /// agreed when it was made.
    async fn finish(self: Box<Self>) -> String;
}

/// Records events before they take effect.
pub trait Journal: Send + Sync {
    /// Appends one event and hands it to the kernel.
    ///
    /// # Errors
    /// When it can't be written: the run must not go on.
    fn record(&self, event: &Event) -> std::io::Result<()>;
}

/// Shows progress. Never blocks without a terminal.
#[async_trait]
pub trait Front: Send + Sync {
    /// Shows one thing that happened.
    fn show(&self, progress: &Progress<'_>);
    /// Asks the person whether `action` may run; `None` when there is nobody to ask.
    async fn confirm(&self, action: &Action, reason: &str) -> Option<bool>;
}

/// What a front is shown.
#[derive(Debug)]
#[allow(missing_docs)] // the fields are named after what they hold
pub enum Progress<'a> {
    /// The environment is being made ready, and this takes a while: what it is doing.
    Preparing(&'a str),
    /// A step begins: number from 1, dollars so far (`None` if unknown).
    StepStarted { step: u32, cost: Option<f64> },
    /// A piece of the answer, as it arrives.
    Delta(&'a Delta),
    /// What was shown of the current answer is void: the request is sent again.
    DeltaReset,
    /// The model has answered.
    Replied { reply: &'a Reply, cost: Option<f64> },
    /// A request failed and is sent again after `wait`.
    Retrying {
        class: &'a ErrorClass,
        message: &'a str,
        attempt: u32,
        of: u32,
        wait: Duration,
    },
    /// A message joined the history.
    Message(&'a Message),
    /// An action is about to run: index from 0, how many there are.
    ActionStarted {
        action: &'a Action,
        index: usize,
        of: usize,
    },
    /// An action has ended.
    ActionEnded { output: &'a Output, index: usize },
    /// A history processor asks the model something.
    Asked {
        processor: &'a str,
        purpose: &'a str,
    },
    /// The model has answered a history processor.
    Answered {
        processor: &'a str,
        reply: &'a Reply,
        cost: Option<f64>,
    },
    /// A policy put another action in the place of an action.
    Rewritten {
        policy: &'a str,
        original: &'a Action,
        action: &'a Action,
        index: usize,
    },
    /// A policy did not allow an action.
    Denied {
        policy: &'a str,
        action: &'a Action,
        reason: &'a str,
    },
    /// Something that the person should know.
    Warning(&'a str),
    /// Names of the host's variables that commands do not see: worth knowing once one fails.
    Withheld(&'a [String]),
    /// What somebody saw who looked on.
    Seen(&'a str),
    /// The run has ended.
    Ended {
        exit_status: &'a str,
        submission: &'a str,
        cost: Option<f64>,
        steps: u32,
        usage: &'a Usage,
    },
}
