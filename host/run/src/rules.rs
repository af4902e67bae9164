//! SWE-agent's rules as settings of the loop: the signals in an output, when the model is asked
//! again, and the names of the exit statuses. All functions are pure.

use mswea_core::{BAD_SYNTAX, End, ErrorClass, ModelFailure, Output, PROGRAM_ANSWER};

use crate::state::{OpenStep, Slot, Stage, State, is_filtered};

const RETRY_WITH_OUTPUT: &str = "###SWE-AGENT-RETRY-WITH-OUTPUT###";
const RETRY_WITHOUT_OUTPUT: &str = "###SWE-AGENT-RETRY-WITHOUT-OUTPUT###";
const FORFEIT: &str = "###SWE-AGENT-EXIT-FORFEIT###";

/// The agent whose rules a run follows where they differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentRules {
    /// mini-swe-agent's: the feedback on a malformed reply stays in the history.
    #[default]
    Mini,
    /// SWE-agent's: the feedback is a temporary question, some ends submit the work so far, and
    /// tools control the loop by lines that they print.
    SweAgent,
}

/// A signal of an output to the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ask the model again, and show it the output.
    RetryWithOutput,
    /// Ask the model again.
    RetryWithoutOutput,
    /// End the run: the model has given up.
    Forfeit,
    /// Ask the model again: bash can't read the command.
    BadSyntax,
}

/// The signal of an output: a line that a tool has printed, or a report of the executor.
pub fn signal(output: &Output) -> Option<Signal> {
    if output
        .extra
        .get("exception_type")
        .is_some_and(|it| it == BAD_SYNTAX)
    {
        return Some(Signal::BadSyntax);
    }
    if output.extra.contains_key(PROGRAM_ANSWER) || !output.output.contains("###SWE-AGENT-") {
        return None;
    }
    let has = |mark: &str| output.output.lines().any(|line| line.trim() == mark);
    if has(RETRY_WITH_OUTPUT) {
        Some(Signal::RetryWithOutput)
    } else if has(RETRY_WITHOUT_OUTPUT) {
        Some(Signal::RetryWithoutOutput)
    } else if has(FORFEIT) {
        Some(Signal::Forfeit)
    } else {
        None
    }
}

/// The output without the line that asks to show it.
pub fn without_mark(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines
        .filter(|line| line.trim() != RETRY_WITH_OUTPUT)
        .collect()
}

/// The requirement of SWE-agent's rules after the single action of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepRule {
    /// The reply is taken back, and the model is asked again.
    Requery(usize),
    /// The run ends.
    Finish(End),
}

impl AgentRules {
    /// The requirement of these rules for a step, if there is one; `will_run` is true if its action
    /// would run now.
    pub fn of_step(self, step: &OpenStep, will_run: bool) -> Option<StepRule> {
        let (Self::SweAgent, [slot]) = (self, &step.slots[..]) else {
            return None;
        };
        if step.is_cut {
            return None;
        }
        match &slot.stage {
            Stage::Denied(_) => Some(StepRule::Requery(0)),
            Stage::Done(done) => match signal(&done.0)? {
                Signal::Forfeit => Some(StepRule::Finish(End::Forfeited)),
                _ => Some(StepRule::Requery(0)),
            },
            Stage::Proposed | Stage::Allowed => {
                let is_exit = will_run && slot.judged().command.trim() == "exit";
                is_exit.then_some(StepRule::Finish(End::ExitCommand))
            }
            Stage::Running => None,
        }
    }

    /// Whether a query that failed for this reason is sent again, and counted as an unusable reply.
    pub fn resamples(self, class: &ModelFailure) -> bool {
        self == Self::SweAgent && is_filtered(class)
    }

    /// Whether a run that ends in this way submits the output of the salvage command.
    pub fn submits_at(self, end: &End) -> bool {
        match end {
            End::Submitted
            | End::ExitCommand
            | End::Interrupted
            | End::GlobalLimit { .. }
            | End::Journal { .. } => false,
            End::LimitsExceeded
            | End::TimeExceeded
            | End::RepeatedFormatError
            | End::Forfeited
            | End::RepeatedTimeouts
            | End::ExecutionTimeExceeded
            | End::Environment { .. }
            | End::Template { .. }
            | End::Plugin { .. }
            | End::Query { .. }
            | End::Crashed { .. } => self == Self::SweAgent,
        }
    }

    /// The submission that results from the salvage of a run, if its end submits it.
    pub fn saved(self, state: &State, end: &End) -> Option<String> {
        let saved = state.salvage.as_ref().filter(|_| self.submits_at(end))?;
        let is_whole = saved.returncode == 0 && saved.exception_info.is_empty();
        let is_text = !saved.output.trim().is_empty() && !saved.extra.contains_key("elided_bytes");
        (is_whole && is_text && state.submission.is_none()).then(|| saved.output.clone())
    }

    /// The exit status; `is_saved` is true if the end has submitted the output of the salvage
    /// command.
    pub fn exit_status(self, end: &End, is_saved: bool) -> String {
        if self == Self::Mini {
            return end.exit_status().to_owned();
        }
        let status = match end {
            End::Submitted => "submitted",
            End::LimitsExceeded | End::GlobalLimit { .. } => "exit_cost",
            End::TimeExceeded | End::ExecutionTimeExceeded => "exit_total_execution_time",
            End::RepeatedFormatError => "exit_format",
            End::Forfeited => "exit_forfeit",
            End::ExitCommand => "exit_command",
            End::RepeatedTimeouts => "exit_command_timeout",
            End::Environment { .. } => "exit_environment_error",
            End::Query {
                class: ModelFailure::Reported(ErrorClass::ContextWindowExceeded),
                ..
            } => "exit_context",
            End::Query {
                class: ModelFailure::Limit,
                ..
            } => "exit_cost",
            End::Query { .. }
            | End::Template { .. }
            | End::Plugin { .. }
            | End::Journal { .. }
            | End::Crashed { .. } => "exit_error",
            // SWE-agent has no name for it.
            End::Interrupted => "Interrupted",
        };
        match is_saved {
            true => format!("submitted ({status})"),
            false => status.to_owned(),
        }
    }
}

/// The text of the last verdict that has denied an action, as the policy wrote it.
pub(crate) fn denial(slot: &Slot) -> String {
    let reasons = slot.verdicts.iter().rev();
    let mut reasons = reasons.filter_map(|verdict| verdict.get("reason")?.as_str());
    reasons.next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(text: &str) -> Output {
        Output {
            output: text.to_owned(),
            ..Output::default()
        }
    }

    #[test]
    fn what_outputs_ask_for() {
        for (text, expected) in [
            (
                "x\n###SWE-AGENT-RETRY-WITH-OUTPUT###\ny",
                Some(Signal::RetryWithOutput),
            ),
            (
                "###SWE-AGENT-RETRY-WITHOUT-OUTPUT###",
                Some(Signal::RetryWithoutOutput),
            ),
            ("###SWE-AGENT-EXIT-FORFEIT###\n", Some(Signal::Forfeit)),
            // The text of a script that prints the line.
            ("echo '###SWE-AGENT-EXIT-FORFEIT###'\n", None),
            ("", None),
        ] {
            assert_eq!(signal(&output(text)), expected, "{text}");
        }
        assert_eq!(
            without_mark("a\n###SWE-AGENT-RETRY-WITH-OUTPUT###\nb\n"),
            "a\nb\n"
        );
    }

    #[test]
    fn exit_statuses_are_those_of_swe_agent() {
        let message = String::new;
        let query = |class| End::Query {
            class: ModelFailure::Reported(class),
            status: None,
            message: message(),
        };
        for (end, status, submits) in [
            (End::Submitted, "submitted", false),
            (End::LimitsExceeded, "exit_cost", true),
            (End::RepeatedFormatError, "exit_format", true),
            (End::Forfeited, "exit_forfeit", true),
            (End::ExitCommand, "exit_command", false),
            (End::RepeatedTimeouts, "exit_command_timeout", true),
            (
                End::ExecutionTimeExceeded,
                "exit_total_execution_time",
                true,
            ),
            (
                End::Environment { message: message() },
                "exit_environment_error",
                true,
            ),
            (
                query(ErrorClass::ContextWindowExceeded),
                "exit_context",
                true,
            ),
            (query(ErrorClass::Authentication), "exit_error", true),
            (End::Plugin { message: message() }, "exit_error", true),
        ] {
            let rules = AgentRules::SweAgent;
            assert_eq!(rules.exit_status(&end, false), status);
            assert_eq!(rules.submits_at(&end), submits, "{status}");
            assert_eq!(
                rules.exit_status(&end, true),
                format!("submitted ({status})")
            );
            assert!(!AgentRules::Mini.submits_at(&end));
            assert_eq!(AgentRules::Mini.exit_status(&end, false), end.exit_status());
        }
    }

    #[test]
    fn what_was_saved_is_submitted_if_it_is_a_text() {
        let state = |salvage: Option<Output>| State {
            salvage,
            ..State::default()
        };
        let failed = Output {
            returncode: 1,
            ..output("diff")
        };
        for (salvage, end, expected) in [
            (Some(output("diff")), End::LimitsExceeded, Some("diff")),
            (Some(output(" \n")), End::LimitsExceeded, None),
            (Some(failed), End::LimitsExceeded, None),
            (None, End::LimitsExceeded, None),
            (Some(output("diff")), End::ExitCommand, None),
        ] {
            let saved = AgentRules::SweAgent.saved(&state(salvage), &end);
            assert_eq!(saved.as_deref(), expected);
        }
    }
}
