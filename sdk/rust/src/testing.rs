//! For a plugin's unit tests: replacements of the host's functions, input values, and drivers that
//! call a plugin as the host does. Native builds only.
//!
//! These functions panic if a test should fail.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::{Map, Value};

use crate::host::Level;
use crate::parser::{Outcome, Parser, Problem};
use crate::plugin::Plugin;
use crate::processor::{Next, Processor, Query};
use crate::types::{Action, Change, Message, PluginError, Reply, ToolCall, extra_value};

type Render = Box<dyn Fn(&str, &Value) -> Result<String, PluginError>>;

thread_local! {
    static RENDER: RefCell<Option<Render>> = const { RefCell::new(None) };
    static LOG: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
}

/// Sets the function that [`host::render`](crate::host::render) calls in this thread.
pub fn set_render(render: impl Fn(&str, &Value) -> Result<String, PluginError> + 'static) {
    RENDER.set(Some(Box::new(render)));
}

/// Returns and removes the log lines of this thread so far.
pub fn take_log() -> Vec<(Level, String)> {
    LOG.take()
}

/// The native half of [`host::log`](crate::host::log).
pub(crate) fn record_log(level: Level, text: &str) {
    // Printed with the macro, because the test runner captures only that.
    eprintln!("[{level:?}] {text}");
    LOG.with_borrow_mut(|log| log.push((level, text.to_owned())));
}

/// The native half of [`host::render`](crate::host::render).
pub(crate) fn call_render(template: &str, vars: &str) -> Result<String, PluginError> {
    RENDER.with_borrow(|render| match render {
        Some(render) => render(template, &json(vars)),
        None => Err(PluginError::internal(
            "there is no host in a native build; call `mswea_sdk::testing::set_render` first",
        )),
    })
}

/// A reply of plain text.
pub fn reply_text(text: &str) -> Reply {
    Reply {
        message: Message::new("assistant", text),
        finish_reason: "stop".to_owned(),
        ..Reply::default()
    }
}

/// A reply of tool calls, each as `(id, name, arguments)`.
pub fn reply_calls(calls: &[(&str, &str, &str)]) -> Reply {
    let tool_calls = calls
        .iter()
        .map(|(id, name, arguments)| ToolCall {
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
            extra: None,
        })
        .collect();
    Reply {
        message: Message {
            role: "assistant".to_owned(),
            tool_calls,
            ..Message::default()
        },
        finish_reason: "tool_calls".to_owned(),
        ..Reply::default()
    }
}

/// Configures a plugin as the host does: with the `default`s of the schema filled in, which must be
/// valid JSON.
///
/// # Errors
///
/// The error of the plugin's `configure`.
pub fn configure<P: Plugin>(mut config: Value) -> Result<P, PluginError> {
    let schema = json(&P::describe().config_schema);
    let properties = schema.get("properties").and_then(Value::as_object);
    if let (Some(properties), Some(config)) = (properties, config.as_object_mut()) {
        for (name, property) in properties {
            if let Some(default) = property.get("default") {
                config.entry(name).or_insert_with(|| default.clone());
            }
        }
    }
    P::configure(config)
}

/// Parses a reply with a parser that must not fail.
pub fn parse(parser: &mut impl Parser, reply: Reply) -> Result<Vec<Action>, Problem> {
    match parser.parse(reply) {
        Ok(Outcome::Actions(actions)) => Ok(actions),
        Ok(Outcome::Malformed(problem)) => Err(problem),
        Err(error) => panic!("the parser failed: {error:?}"),
    }
}

/// As [`parse`], but returns only the commands, or the problem's message.
pub fn parse_commands(parser: &mut impl Parser, reply: Reply) -> Result<Vec<String>, String> {
    match parse(parser, reply) {
        Ok(actions) => Ok(actions.into_iter().map(|action| action.command).collect()),
        Err(problem) => Err(problem.message),
    }
}

type Answer = Box<dyn FnMut(&Query) -> Reply>;

/// A question, and its answer.
type Question = (Vec<Message>, Reply);

/// A processor together with the host's view of it.
pub struct Driver<P> {
    processor: P,
    view: Vec<Message>,
    last_start: usize,
    last_len: usize,
    questions: usize,
    answer: Answer,
}

impl<P: Processor> Driver<P> {
    /// Configures a processor; see [`configure`].
    pub fn new(config: Value) -> Self {
        match configure(config) {
            Ok(processor) => Self {
                processor,
                view: Vec::new(),
                last_start: 0,
                last_len: 0,
                questions: 0,
                answer: Box::new(|query| panic!("the processor asked for `{}`", query.purpose)),
            },
            Err(error) => panic!("the config was refused: {error:?}"),
        }
    }

    /// Sets the function that answers the processor's questions to the model.
    #[must_use]
    pub fn answering(mut self, answer: impl FnMut(&Query) -> Reply + 'static) -> Self {
        self.answer = Box::new(answer);
        self
    }

    /// Passes a change, applies the answer to the view, and returns the view.
    pub fn apply(&mut self, change: Change) -> &[Message] {
        let mut next = self.processor.apply(change);
        self.questions = 0;
        let change = loop {
            match next {
                Ok(Next::Done(change)) => break change,
                Ok(Next::Ask(query)) => {
                    self.questions += 1;
                    next = self.processor.resume((self.answer)(&query));
                }
                Err(error) => panic!("the processor failed: {error:?}"),
            }
        };
        self.last_start = change.start as usize;
        self.last_len = change.messages.len();
        assert!(
            self.last_start <= self.view.len(),
            "the view has {} messages, but its change starts at {}",
            self.view.len(),
            self.last_start
        );
        change.apply(&mut self.view);
        &self.view
    }

    /// The view.
    pub fn view(&self) -> &[Message] {
        &self.view
    }

    /// Where the last change of the view began; earlier messages were not sent again.
    pub fn last_start(&self) -> usize {
        self.last_start
    }

    /// How many messages the last change of the view contained.
    pub fn last_len(&self) -> usize {
        self.last_len
    }

    /// How many questions the processor asked during the last change.
    pub fn questions(&self) -> usize {
        self.questions
    }
}

/// Runs a processor over a sequence of changes twice, once with one instance and once with a new
/// instance per change, and panics unless the views are equal. Returns the views.
pub fn check_fresh_instances<P: Processor>(
    config: &Value,
    changes: &[Change],
) -> Vec<Vec<Message>> {
    check_fresh_instances_answering::<P>(config, changes, |query| {
        panic!("the processor asked for `{}`", query.purpose)
    })
}

/// The reply with the host's mark of a recorded reply.
fn remembered(mut reply: Reply) -> Reply {
    let mut extra = match extra_value(reply.extra.as_deref()) {
        Value::Object(extra) => extra,
        _ => Map::new(),
    };
    extra.insert("remembered".to_owned(), Value::Bool(true));
    reply.extra = Some(Value::Object(extra).to_string());
    reply
}

/// As [`check_fresh_instances`], for a processor that asks. A question that was asked before gets
/// the same answer, marked as `remembered`, as from the host; a new instance must not ask anything
/// else.
pub fn check_fresh_instances_answering<P: Processor>(
    config: &Value,
    changes: &[Change],
    mut answer: impl FnMut(&Query) -> Reply + 'static,
) -> Vec<Vec<Message>> {
    let asked: Rc<RefCell<Vec<Question>>> = Rc::default();
    let recorded = |asked: &[Question], query: &Query| {
        let mut known = asked.iter();
        let found = known.find(|(messages, _)| *messages == query.messages);
        found.map(|(_, reply)| remembered(reply.clone()))
    };
    let kept = Rc::clone(&asked);
    let mut warm = Driver::<P>::new(config.clone()).answering(move |query| {
        let known = recorded(&kept.borrow(), query);
        known.unwrap_or_else(|| {
            let reply = answer(query);
            let question = (query.messages.clone(), reply.clone());
            kept.borrow_mut().push(question);
            reply
        })
    });
    let mut history = Vec::new();
    let mut views = Vec::new();
    for (number, change) in changes.iter().enumerate() {
        change.clone().apply(&mut history);
        let view = warm.apply(change.clone()).to_vec();
        let asked = Rc::clone(&asked);
        let mut fresh = Driver::<P>::new(config.clone()).answering(move |query| {
            let known = recorded(&asked.borrow(), query);
            known.unwrap_or_else(|| {
                panic!(
                    "after change {number} a fresh instance asked a question for `{}` which the warm \
                     one has not asked",
                    query.purpose
                )
            })
        });
        assert_eq!(
            view,
            fresh.apply(Change::all(history.clone())),
            "after change {number} a warm and a fresh instance differ"
        );
        views.push(view);
    }
    views
}

/// Parses JSON that the contract guarantees to be valid.
fn json(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => panic!("`{text}` is not valid JSON: {error}"),
    }
}
