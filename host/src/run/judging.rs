//! What the policies make of an action before it runs: recorded and shown, so that nobody takes a
//! policy's command for the model's.

use serde_json::{Value, json};

use super::Interrupt;
use super::agent::Agent;
use super::patience::unless_over;
use crate::journal::Event;
use crate::roles::{Action, Progress, Verdict};

/// An action after the policies.
pub(super) struct Judged {
    /// The model's, or what the policies made of it.
    pub(super) action: Action,
    /// The feedback for the model, if it is not to run.
    pub(super) denied: Option<String>,
    /// Every verdict but `allow`, as the trajectory has it: `policy`, `verdict`, `original`, and
    /// `executed` or `reason`.
    pub(super) verdicts: Vec<Value>,
}

impl Agent {
    /// Asks the policies in order. The first that denies the action is the last one asked.
    pub(super) async fn judge(
        &mut self,
        index: usize,
        action: &Action,
    ) -> Result<Judged, Interrupt> {
        let mut judged = Judged {
            action: action.clone(),
            denied: None,
            verdicts: Vec::new(),
        };
        for position in 0..self.parts.policies.len() {
            let time_left = self.time_left();
            let policy = &mut self.parts.policies[position];
            let name = policy.name().to_owned();
            let judging = policy.judge(&judged.action);
            let reason = match unless_over(&self.context, time_left, judging).await? {
                Ok(Verdict::Allow) => continue,
                Ok(Verdict::Rewrite(rewritten)) => {
                    self.rewrite(index, name, rewritten, &mut judged)?;
                    continue;
                }
                Ok(Verdict::Deny(feedback)) => feedback,
                Ok(Verdict::Ask(reason)) => {
                    match self.context.front.confirm(&judged.action, &reason).await {
                        Some(true) => continue,
                        Some(false) => format!("the user did not allow it: {reason}"),
                        None => format!(
                            "it needs a confirmation and nobody is there to give it: {reason}"
                        ),
                    }
                }
                Err(fault) => {
                    self.fault(&name, &fault.message)?;
                    format!("the policy `{name}` failed, so nothing is allowed")
                }
            };
            self.deny(index, &name, &reason, &mut judged)?;
            break;
        }
        Ok(judged)
    }

    fn deny(
        &self,
        index: usize,
        policy: &str,
        reason: &str,
        judged: &mut Judged,
    ) -> Result<(), Interrupt> {
        self.record(&Event::Denied {
            index,
            policy: policy.to_owned(),
            reason: reason.to_owned(),
            action: Some(judged.action.clone()),
        })?;
        self.show(&Progress::Denied {
            policy,
            action: &judged.action,
            reason,
        });
        judged.verdicts.push(json!({
            "policy": policy,
            "verdict": "denied",
            "original": judged.action.command,
            "reason": reason,
        }));
        judged.denied = Some(format!("action was not executed: {reason}"));
        Ok(())
    }

    fn rewrite(
        &self,
        index: usize,
        policy: String,
        rewritten: Action,
        judged: &mut Judged,
    ) -> Result<(), Interrupt> {
        if rewritten == judged.action {
            return Ok(());
        }
        judged.verdicts.push(json!({
            "policy": policy,
            "verdict": "rewritten",
            "original": judged.action.command,
            "executed": rewritten.command,
        }));
        let original = std::mem::replace(&mut judged.action, rewritten);
        self.record(&Event::Rewritten {
            index,
            policy: policy.clone(),
            original: original.clone(),
            action: judged.action.clone(),
        })?;
        self.show(&Progress::Rewritten {
            policy: &policy,
            original: &original,
            action: &judged.action,
            index,
        });
        Ok(())
    }
}
