//! Computes where the history is cut, as a pure function of the history and of the model's answers.
//!
//! The host may discard the plugin's instance at any time and pass the whole history to a new one.
//! So decisions are not stored but made again: at every point at which all tool calls are answered,
//! from the messages before it alone. A question that was asked there is asked again with the same
//! text, and the host answers from its record.
//!
//! The state after the messages up to a point is kept as a checkpoint, so that a step processes
//! only new messages, and a history that loses its end continues from the last checkpoint that is
//! still valid.

use std::rc::Rc;

use mswea_sdk::host::{self, Level};
use mswea_sdk::types::{Change, Message};
use serde_json::Value;

use crate::measure::{self, Report, tokens, weight};
use crate::question::Subject;
use crate::template::Template;

/// The settings of the config.
pub struct CompactionSettings {
    /// The budget of the context, in tokens.
    pub budget: u64,
    /// With more tokens than this, the older part is summarised.
    pub limit: u64,
    /// How many messages at the end are never summarised.
    pub keep_last: usize,
    /// The instructions for the model.
    pub instructions: String,
    /// The message that holds the summary.
    pub template: Template,
}

impl CompactionSettings {
    /// The fewest tokens for which a question is worth its price. A saving of less counts as no
    /// progress, and after a question without progress the context has to grow by this much before
    /// the next one.
    fn stride(&self) -> u64 {
        (self.budget / 10).max(1)
    }
}

/// The replacement of an older part of the history.
#[derive(Debug)]
pub struct Compaction {
    /// How many messages at the beginning stay.
    pub head: usize,
    /// The index of the first message after the replaced part.
    pub cut: usize,
    /// The message that replaces them.
    pub message: Message,
    /// The summary itself.
    notes: String,
}

/// The state after the messages up to some point.
#[derive(Clone, Default)]
struct State {
    task: Option<usize>,
    compaction: Option<Rc<Compaction>>,
    report: Option<Report>,
    /// With fewer tokens than this, no question is asked.
    floor: Option<u64>,
    /// Whether the next report is the first one since the compaction.
    is_fresh: bool,
}

/// A decision to ask, until the answer comes.
struct Pending {
    point: usize,
    state: State,
    head: usize,
    cut: usize,
    /// The bytes that are to be replaced.
    old: u64,
    context: u64,
}

/// The history and the states that follow from it.
pub struct Fold {
    settings: CompactionSettings,
    history: Vec<Message>,
    /// The sum of the bytes of all messages before each message.
    weights: Vec<u64>,
    /// The states after the decision at some points, in order.
    checkpoints: Vec<(usize, State)>,
    pending: Option<Pending>,
}

impl Fold {
    /// A fold over an empty history.
    pub fn new(settings: CompactionSettings) -> Self {
        Self {
            settings,
            history: Vec::new(),
            weights: vec![0],
            checkpoints: Vec::new(),
            pending: None,
        }
    }

    /// The history.
    pub fn history(&self) -> &[Message] {
        &self.history
    }

    /// The current replacement of the older part, as of the last [`advance`](Self::advance).
    pub fn compaction(&self) -> Option<&Rc<Compaction>> {
        self.checkpoints.last()?.1.compaction.as_ref()
    }

    /// Applies a change, which begins inside the history or at its end.
    pub fn take(&mut self, change: Change) {
        self.pending = None;
        let start = change.start as usize;
        change.apply(&mut self.history);
        self.weights.truncate(start + 1);
        let mut sum = self.weights.last().copied().unwrap_or_default();
        for message in &self.history[start..] {
            sum = sum.saturating_add(weight(message));
            self.weights.push(sum);
        }
        // A decision right before the change is still valid if its place is still a point.
        let holds = |point: usize| point < start || (point == start && self.is_point(point));
        let known = self
            .checkpoints
            .iter()
            .rposition(|(point, _)| holds(*point));
        self.checkpoints
            .truncate(known.map_or(0, |known| known + 1));
    }

    /// Processes the history up to its end or to the next question. If no question may be asked, it
    /// stops before the point of that question, and continues there after the next change.
    pub fn advance(&mut self, may_ask: bool) -> Option<Message> {
        let (from, mut state) = self.checkpoints.last().cloned().unwrap_or_default();
        for index in from..self.history.len() {
            self.see(&mut state, index);
            let point = index + 1;
            if !self.is_point(point) {
                continue;
            }
            if let Some(pending) = self.decide(&mut state, point) {
                if !may_ask {
                    let text = format!(
                        "no further question in this step; messages from {point} on stay until \
                         the next one"
                    );
                    host::log(Level::Info, &text);
                    return None;
                }
                let question = self.question(&pending);
                // Not kept as a checkpoint: without an answer, nothing was decided.
                self.pending = Some(pending);
                return Some(question);
            }
            self.checkpoints.push((point, state.clone()));
        }
        None
    }

    /// Takes the answer to the question; false if no question is open.
    pub fn answer(&mut self, summary: &str) -> bool {
        let Some(pending) = self.pending.take() else {
            return false;
        };
        let mut state = pending.state;
        let notes = summary.trim();
        let message = Message::new("user", self.settings.template.fill(notes));
        let new = weight(&message);
        if notes.is_empty() || new >= pending.old {
            let text = format!(
                "the summary of messages {} to {} saves nothing ({new} bytes for {}); they stay",
                pending.head, pending.cut, pending.old
            );
            host::log(Level::Warn, &text);
            state.floor = Some(pending.context.saturating_add(self.settings.stride()));
        } else {
            state.compaction = Some(Rc::new(Compaction {
                head: pending.head,
                cut: pending.cut,
                message,
                notes: notes.to_owned(),
            }));
            state.report = None;
            state.is_fresh = true;
            let context = self.context(&state, pending.point);
            state.floor = self.floor(context);
        }
        self.checkpoints.push((pending.point, state));
        true
    }

    /// Whether all calls before a message are answered, so that a query is possible there.
    fn is_point(&self, index: usize) -> bool {
        self.history
            .get(index)
            .is_none_or(|message| message.role != "tool")
    }

    /// Adds a message to the state.
    fn see(&self, state: &mut State, index: usize) {
        let message = &self.history[index];
        if state.task.is_none() && message.role == "user" && !is_demo(message) {
            state.task = Some(index);
        }
        let Some(report) = measure::report(message, index) else {
            return;
        };
        state.report = Some(report);
        if std::mem::take(&mut state.is_fresh) {
            state.floor = self.floor(report.tokens);
        }
    }

    /// After a compaction that left the context as large as before: the size that it has to reach
    /// before the next one.
    fn floor(&self, context: u64) -> Option<u64> {
        let is_large = context > self.settings.limit;
        is_large.then(|| context.saturating_add(self.settings.stride()))
    }

    /// The bytes of some messages.
    fn bytes(&self, from: usize, to: usize) -> u64 {
        self.weights[to].saturating_sub(self.weights[from])
    }

    /// The tokens of a query at a point.
    fn context(&self, state: &State, point: usize) -> u64 {
        if let Some(report) = state.report {
            let since = tokens(self.bytes(report.from, point));
            return report.tokens.saturating_add(since);
        }
        tokens(match &state.compaction {
            Some(compaction) => {
                self.bytes(0, compaction.head)
                    + weight(&compaction.message)
                    + self.bytes(compaction.cut, point)
            }
            None => self.bytes(0, point),
        })
    }

    /// Decides whether to ask at a point.
    fn decide(&self, state: &mut State, point: usize) -> Option<Pending> {
        let context = self.context(state, point);
        if context <= self.settings.limit {
            state.floor = None;
            return None;
        }
        if state.floor.is_some_and(|floor| context < floor) {
            return None;
        }
        let head = self.head(state, point);
        let compaction = state.compaction.as_deref();
        let low = compaction.map_or(head, |compaction| compaction.cut);
        let cut = self.cut(low, point);
        let new = self.bytes(low, cut);
        // Earlier notes do not count, because writing them again saves nothing.
        if cut == low || tokens(new) < self.settings.stride() {
            state.floor = Some(context.saturating_add(self.settings.stride()));
            return None;
        }
        let notes = compaction.map_or(0, |compaction| weight(&compaction.message));
        Some(Pending {
            point,
            state: state.clone(),
            head,
            cut,
            old: notes.saturating_add(new),
            context,
        })
    }

    /// How many messages at the beginning stay: those up to the task, or without a task, the
    /// system's.
    fn head(&self, state: &State, point: usize) -> usize {
        let systems = || {
            let mut messages = self.history[..point].iter();
            messages.position(|message| message.role != "system")
        };
        match (&state.compaction, state.task) {
            (Some(compaction), _) => compaction.head,
            (None, Some(task)) => task + 1,
            (None, None) => systems().unwrap_or(point),
        }
    }

    /// Where the kept end begins: with the last messages, but not with an answer to a message that
    /// is cut off; later, if these alone take more than half of the budget. `low` if nothing can be
    /// cut off.
    fn cut(&self, low: usize, point: usize) -> usize {
        let is_clean = |index: &usize| !is_answer(&self.history[*index]);
        let last = point.saturating_sub(self.settings.keep_last);
        let mut cut = (low + 1..=last).rev().find(is_clean).unwrap_or(low);
        while tokens(self.bytes(cut, point)) > self.settings.budget / 2 {
            match (cut + 1..point).find(is_clean) {
                Some(later) => cut = later,
                None => break,
            }
        }
        cut
    }

    fn question(&self, pending: &Pending) -> Message {
        let state = &pending.state;
        let compaction = state.compaction.as_deref();
        let low = compaction.map_or(pending.head, |compaction| compaction.cut);
        let subject = Subject {
            task: state.task.map(|task| &self.history[task]),
            notes: compaction.map(|compaction| compaction.notes.as_str()),
            messages: &self.history[low..pending.cut],
        };
        // Three bytes for each token of the budget: by the estimate, three quarters of it.
        let room = usize::try_from(self.settings.budget.saturating_mul(3)).unwrap_or(usize::MAX);
        subject.ask(&self.settings.instructions, room)
    }
}

fn is_demo(message: &Message) -> bool {
    let mentions = |extra: &str| extra.contains("is_demo");
    message.extra.as_deref().is_some_and(mentions)
        && message.extra_value().get("is_demo") == Some(&Value::Bool(true))
}

/// Whether a message has a meaning only after the one before it: the result of a tool call, or the
/// output of an action in plain text.
fn is_answer(message: &Message) -> bool {
    let mentions = |extra: &str| extra.contains("returncode");
    match message.role.as_str() {
        "tool" => true,
        "user" => {
            message.extra.as_deref().is_some_and(mentions)
                && message.extra_value().get("returncode").is_some()
        }
        _ => false,
    }
}
