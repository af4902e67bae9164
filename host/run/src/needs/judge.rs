//! The policies judge an action before it runs. Their verdicts are recorded and shown, so that a
//! policy's command can be told from the model's.

use super::patience::unless_over;
use crate::agent::Agent;
use mswea_core::{Action, Answer, End, Event, Progress, Question, Verdict};

/// How the reason begins if the person has denied an action.
pub(crate) const NOT_ALLOWED: &str = "the user did not allow it: ";

/// The name under which a command that the user has edited is recorded.
const THE_USER: &str = "user";

impl Agent {
    /// Calls the policies in order, up to the first one that denies the action.
    pub(crate) async fn judge(&mut self, index: usize) -> Result<(), End> {
        for position in 0..self.parts.policies.len() {
            let action = self.judged(index);
            let time_left = self.time_left();
            let policy = &mut self.parts.policies[position];
            let name = policy.name().to_owned();
            let judging = policy.judge(&action);
            let denied = match unless_over(&self.context, time_left, judging).await? {
                Ok(Verdict::Allow) => None,
                Ok(Verdict::Rewrite(rewritten)) => {
                    self.rewrite(index, &name, action.clone(), rewritten)?;
                    None
                }
                Ok(Verdict::Deny(feedback)) => Some(feedback),
                Ok(Verdict::Ask(reason)) => self.confirm(index, &name, &action, reason).await?,
                Err(fault) => {
                    self.fault(&name, &fault.message)?;
                    Some(format!(
                        "the policy `{name}` failed, so the action is denied"
                    ))
                }
            };
            if let Some(reason) = denied {
                return self.deny(index, &name, reason, action);
            }
        }
        self.record(Event::Allowed { index })
    }

    /// The action with the changes of the policies so far.
    fn judged(&self, index: usize) -> Action {
        let state = self.recorder.state();
        let slot = state.step().and_then(|step| step.slots.get(index));
        slot.map(|slot| slot.judged().clone()).unwrap_or_default()
    }

    /// Asks the user, who may also edit the command. Returns the reason if the action may not run.
    async fn confirm(
        &mut self,
        index: usize,
        policy: &str,
        action: &Action,
        reason: String,
    ) -> Result<Option<String>, End> {
        let question = Question::Confirm {
            policy: policy.to_owned(),
            action: action.clone(),
            reason: reason.clone(),
        };
        let answer = match self.confirmed(index, policy, action) {
            Some(answer) => answer,
            None => match self.answer_to(&question).await? {
                Some(answer) => {
                    self.record(Event::Confirmed {
                        index,
                        policy: policy.to_owned(),
                        answer: answer.clone(),
                    })?;
                    answer
                }
                None => {
                    return Ok(Some(format!(
                        "it needs a confirmation, and no user can be asked: {reason}"
                    )));
                }
            },
        };
        match answer {
            Answer::Yes | Answer::Raise { .. } | Answer::EditAll { .. } | Answer::Act { .. } => {
                Ok(None)
            }
            Answer::TakeOver => Ok(Some(format!("{NOT_ALLOWED}{reason}"))),
            Answer::Edit { command } => {
                let edited = Action {
                    command,
                    ..action.clone()
                };
                self.rewrite(index, THE_USER, action.clone(), edited)?;
                Ok(None)
            }
            Answer::No { reason: said } | Answer::Say { text: said } => {
                Ok(Some(match said.is_empty() {
                    true => format!("{NOT_ALLOWED}{reason}"),
                    false => format!("{NOT_ALLOWED}{said}"),
                }))
            }
        }
    }

    /// The user's answer to this question before the host was killed.
    fn confirmed(&self, index: usize, policy: &str, action: &Action) -> Option<Answer> {
        let state = self.recorder.state();
        let slot = state.step()?.slots.get(index)?;
        slot.confirmation(policy, action).cloned()
    }

    fn deny(&self, index: usize, policy: &str, reason: String, action: Action) -> Result<(), End> {
        self.show(&Progress::Denied {
            policy,
            action: &action,
            reason: &reason,
        });
        self.record(Event::Denied {
            index,
            policy: policy.to_owned(),
            reason,
            action: Some(action),
        })
    }

    fn rewrite(
        &self,
        index: usize,
        policy: &str,
        original: Action,
        action: Action,
    ) -> Result<(), End> {
        if original == action {
            return Ok(());
        }
        self.show(&Progress::Rewritten {
            policy,
            original: &original,
            action: &action,
            index,
        });
        self.record(Event::Rewritten {
            index,
            policy: policy.to_owned(),
            original,
            action,
        })
    }
}
