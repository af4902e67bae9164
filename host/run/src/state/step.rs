//! A step whose actions are not all complete.

use std::sync::Arc;

use serde_json::{Value, json};

use mswea_core::{Action, Answer, Message, Output};

/// A step whose observations are not in the history yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenStep {
    /// Empty actions for those tool calls of the reply of which the parser made no action.
    pub unused: Vec<Action>,
    /// The actions, in order.
    pub slots: Vec<Slot>,
    /// Whether the user has interrupted it: its remaining actions do not run.
    pub is_cut: bool,
    /// Whether the user has agreed to its actions.
    pub is_confirmed: bool,
    /// Whether the user did not accept the submission of its last output.
    pub is_withdrawn: bool,
    /// Whether its only action is the user's own.
    pub is_own: bool,
    /// The user's messages to the model; they join the history after the observations.
    pub said: Vec<Message>,
    /// The length of the history before the reply.
    pub base: usize,
    /// The temporary question that the reply has answered.
    pub question: Vec<Arc<Message>>,
    /// The number of unusable replies in a row before the reply.
    pub format_errors: u32,
}

/// One action of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slot {
    /// The action of the model.
    pub action: Action,
    /// The action with which the user has replaced it, before the policies judged it.
    pub edited: Option<Action>,
    /// The action with which the policies have replaced it.
    pub rewritten: Option<Action>,
    /// Every verdict but `allow`, as the trajectory has it: `policy`, `verdict`, `original`, and
    /// `executed` or `reason`.
    pub verdicts: Vec<Value>,
    /// The user's answers to the policies' questions about it.
    pub confirmations: Vec<Confirmation>,
    /// Its stage.
    pub stage: Stage,
}

/// The user's answer to a policy's question about an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmation {
    /// The policy that asked.
    pub policy: String,
    /// The action in question.
    pub action: Action,
    /// The answer.
    pub answer: Answer,
}

/// The stage of an action.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Stage {
    /// It was not judged yet.
    #[default]
    Proposed,
    /// It may run.
    Allowed,
    /// It may not run; the text is the output for the model.
    Denied(String),
    /// It was started; its effects are unknown.
    Running,
    /// It has ended, or will not run: its output and the time in Unix seconds.
    Done(Box<(Output, f64)>),
}

impl OpenStep {
    /// A step with these actions.
    pub fn new(unused: Vec<Action>, actions: Vec<Action>) -> Self {
        let slots = actions.into_iter().map(|action| Slot {
            action,
            ..Slot::default()
        });
        Self {
            unused,
            slots: slots.collect(),
            ..Self::default()
        }
    }

    /// A step with a command of the user, which needs no further consent.
    pub fn own(command: &str) -> Self {
        let action = Action {
            command: command.to_owned(),
            ..Action::default()
        };
        let mut step = Self::new(Vec::new(), vec![action]);
        for slot in &mut step.slots {
            slot.stage = Stage::Allowed;
        }
        step.is_confirmed = true;
        step.is_own = true;
        step
    }

    /// The actions that were not judged yet, if the step is not cut.
    pub fn proposed(&self) -> impl Iterator<Item = &Slot> {
        let is_open = |slot: &&Slot| !self.is_cut && slot.stage == Stage::Proposed;
        self.slots.iter().filter(is_open)
    }

    /// The user agrees to the actions that were not judged yet, with these commands in the place of the
    /// first of them.
    pub(super) fn confirm(&mut self, commands: &[String]) {
        self.is_confirmed = true;
        let proposed = self.slots.iter_mut();
        let proposed = proposed.filter(|slot| slot.stage == Stage::Proposed);
        for (slot, command) in proposed.zip(commands) {
            if slot.action.command != *command {
                slot.edited = Some(Action {
                    command: command.clone(),
                    ..slot.action.clone()
                });
            }
        }
    }

    /// The first action that is not complete, unless the rest of the step is cut.
    pub fn open(&self) -> Option<(usize, &Slot)> {
        let is_done = |slot: &Slot| matches!(slot.stage, Stage::Done(_));
        let found = self.slots.iter().enumerate().find(|(_, it)| !is_done(it));
        // A started action gets an output, also if the rest of the step is cut.
        found.filter(|(_, slot)| !self.is_cut || slot.stage == Stage::Running)
    }

    /// Prepares the step for another process: an action that was not judged by all policies is
    /// judged again. What the user has answered about it stays.
    pub(super) fn reopen(&mut self) {
        for slot in &mut self.slots {
            if slot.stage == Stage::Proposed {
                slot.rewritten = None;
                slot.verdicts.clear();
            }
        }
    }

    /// Whether the step has outputs for the model.
    pub fn has_observations(&self) -> bool {
        let first = self.slots.first();
        let is_done = |slot: &Slot| matches!(slot.stage, Stage::Done(_));
        let is_call = |slot: &Slot| slot.action.tool_call_id.is_some();
        !self.unused.is_empty() || first.is_some_and(is_done) || self.slots.iter().any(is_call)
    }
}

impl Slot {
    /// The action that runs: the model's, or that of the policies.
    pub fn judged(&self) -> &Action {
        let edited = self.edited.as_ref().unwrap_or(&self.action);
        self.rewritten.as_ref().unwrap_or(edited)
    }

    /// The entries of the trajectory about the action: the user's change, and the policies'
    /// verdicts.
    pub fn told_verdicts(&self) -> Vec<Value> {
        let edited = self.edited.iter().map(|edited| {
            json!({
                "policy": "user",
                "verdict": "rewritten",
                "original": self.action.command,
                "executed": edited.command,
            })
        });
        edited.chain(self.verdicts.iter().cloned()).collect()
    }

    /// The user's answer to this policy's question about this action, if it was asked before.
    pub fn confirmation(&self, policy: &str, action: &Action) -> Option<&Answer> {
        let mut known = self.confirmations.iter();
        let known = known.find(|it| it.policy == policy && it.action == *action);
        known.map(|it| &it.answer)
    }

    /// Its output, if it has ended.
    pub fn output(&self) -> Option<&Output> {
        match &self.stage {
            Stage::Done(done) => Some(&done.0),
            _ => None,
        }
    }
}
