//! The next need of a run: a pure function of its state, its settings, and what is outside of both.

use std::sync::Arc;
use std::time::Duration;

use super::rules::StepRule;
use super::settings::{RunLimits, RunSettings};
use super::state::{OpenStep, PaidReply, Phase, Salvaging, Slot, Stage, State};
use mswea_core::{End, PersonMode, Question, SpentOfLimits};

/// The next need of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Need {
    /// The environment is to be made ready, or found again.
    Environment,
    /// The workspace is to be put in place.
    SetUp,
    /// The first messages are to be made.
    Opening,
    /// The run or the step was stopped: the user is to be asked what to do, or the run ends.
    Interrupt,
    /// The user's messages to the model are to be recorded.
    Hear,
    /// The model is to be queried.
    Query,
    /// A reply is to be parsed.
    Parse(Arc<PaidReply>),
    /// An action is to be judged by the policies: its index.
    Judge(usize),
    /// An action is to be run: its index.
    Run(usize),
    /// An action will not run, for this reason.
    Skip(usize, String),
    /// An action was running when the host was killed: its index.
    ReportInterrupted(usize),
    /// The reply is to be taken back, because of the action with this index, and the model asked again.
    Requery(usize),
    /// The outputs of the step are to become messages.
    Observe,
    /// The submission of the last output is to be accepted.
    Submit,
    /// The user is to be asked.
    Ask(Question),
    /// The run has to end.
    Finish(End),
    /// The changes are to be saved before the run ends.
    Salvage(End),
    /// Everything that was started is to be ended, and the end is to be recorded.
    Close(End),
}

/// What the next need of a run depends on, and no event has recorded.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    /// How much the user decides, who may change it at any time.
    pub mode: PersonMode,
    /// Whether the run or the step was stopped.
    pub is_stopped: bool,
    /// Whether the user has written to the model without having been asked.
    pub has_message: bool,
    /// Whether there is work to be saved; needed only for a run that has to end.
    pub has_work: bool,
}

impl Need {
    /// Whether a stop of the run or of the step prevents it. A paid reply and the output of an
    /// action are processed also after a stop.
    fn is_stoppable(&self) -> bool {
        match self {
            Self::Environment
            | Self::SetUp
            | Self::Opening
            | Self::Hear
            | Self::Query
            | Self::Judge(_)
            | Self::Run(_) => true,
            Self::Parse(_)
            | Self::Skip(..)
            | Self::Requery(_)
            | Self::ReportInterrupted(_)
            | Self::Interrupt
            | Self::Observe
            | Self::Submit
            | Self::Ask(_)
            | Self::Finish(_)
            | Self::Salvage(_)
            | Self::Close(_) => false,
        }
    }
}

/// The next need of a run.
pub fn next(state: &State, settings: &RunSettings, outside: &Outside) -> Need {
    match &state.end {
        Some(end) => ending(state, outside, end),
        None => match going_on(state, settings, outside) {
            need if need.is_stoppable() && outside.is_stopped => Need::Interrupt,
            need => need,
        },
    }
}

/// The next need of a run that does not have to end.
fn going_on(state: &State, settings: &RunSettings, outside: &Outside) -> Need {
    if state.is_interrupted && !matches!(state.phase, Phase::Acting(_)) {
        return Need::Ask(Question::Interrupted);
    }
    let environment = &state.environment;
    if !environment.is_ready {
        return Need::Environment;
    }
    if !environment.is_set_up {
        return Need::SetUp;
    }
    if !state.is_opened {
        return Need::Opening;
    }
    match &state.phase {
        Phase::Acting(step) => acting(state, settings, outside, step),
        Phase::Replied(paid) => Need::Parse(paid.clone()),
        Phase::Querying | Phase::Idle => idle(state, settings, outside),
    }
}

fn idle(state: &State, settings: &RunSettings, outside: &Outside) -> Need {
    let limit = settings.limits.consecutive_format_errors;
    if limit > 0 && limit <= i64::from(state.account.format_errors) {
        return Need::Finish(End::RepeatedFormatError);
    }
    let most = settings.limits.execution_seconds;
    if most > 0.0 && most < state.execution_seconds {
        return Need::Finish(End::ExecutionTimeExceeded);
    }
    if settings.has_person && outside.mode == PersonMode::Human {
        return Need::Ask(Question::Turn);
    }
    match exceeded(state, &settings.limits) {
        None if outside.has_message => Need::Hear,
        None => Need::Query,
        Some(End::LimitsExceeded) if settings.has_person => Need::Ask(Question::Limit {
            account: spent(state, &settings.limits),
        }),
        Some(end) => Need::Finish(end),
    }
}

fn acting(state: &State, settings: &RunSettings, outside: &Outside, step: &OpenStep) -> Need {
    let last = step.slots.iter().rev().find_map(|slot| slot.output());
    if let (true, Some(output)) = (state.environment.is_gone, last) {
        // Each further query would be useless.
        let message = output.exception_info.clone();
        return Need::Finish(End::Environment { message });
    }
    let most = settings.limits.consecutive_timeouts;
    if most > 0 && most <= i64::from(state.timeouts) && last.is_some() {
        return Need::Finish(End::RepeatedTimeouts);
    }
    let is_judged = |slot: &&Slot| slot.stage == Stage::Allowed || !settings.has_policies;
    let will_run = step
        .open()
        .map(|open| open.1)
        .is_some_and(|it| is_judged(&it));
    match settings.rules.of_step(step, will_run) {
        Some(StepRule::Requery(index)) => return Need::Requery(index),
        Some(StepRule::Finish(end)) => return Need::Finish(end),
        None => {}
    }
    if state.submission.is_some() {
        return Need::Submit;
    }
    let Some((index, slot)) = step.open() else {
        return Need::Observe;
    };
    match &slot.stage {
        Stage::Running => return Need::ReportInterrupted(index),
        Stage::Denied(reason) => return Need::Skip(index, reason.clone()),
        Stage::Proposed | Stage::Allowed | Stage::Done(_) => {}
    }
    let waits = settings.has_person && outside.mode != PersonMode::Yolo && !step.is_confirmed;
    if waits && slot.stage == Stage::Proposed {
        let actions = step.proposed().map(|slot| slot.action.clone());
        return Need::Ask(Question::Actions {
            actions: actions.collect(),
        });
    }
    // The query before was within the time limit, so the first action runs as well.
    let is_late = index > 0 && time_left(state, &settings.limits).is_some_and(|it| it.is_zero());
    match slot.stage {
        _ if is_late => Need::Finish(End::TimeExceeded),
        Stage::Proposed if settings.has_policies => Need::Judge(index),
        _ => Need::Run(index),
    }
}

/// The next need of a run that has to end: it finishes the begun part of its last step, and then
/// saves its work.
fn ending(state: &State, outside: &Outside, end: &End) -> Need {
    if let (Phase::Acting(step), true) = (&state.phase, keeps_step(end)) {
        match step.open() {
            Some((index, slot)) if slot.stage == Stage::Running => {
                return Need::ReportInterrupted(index);
            }
            _ if step.has_observations() => return Need::Observe,
            _ => {}
        }
    }
    match state.salvaging {
        Salvaging::Due if outside.has_work => Need::Salvage(end.clone()),
        Salvaging::Due | Salvaging::Begun | Salvaging::Over => Need::Close(end.clone()),
    }
}

/// Whether the outputs of the last step are still made into messages.
fn keeps_step(end: &End) -> bool {
    match end {
        End::Submitted
        | End::LimitsExceeded
        | End::TimeExceeded
        | End::RepeatedFormatError
        | End::Forfeited
        | End::ExitCommand
        | End::RepeatedTimeouts
        | End::ExecutionTimeExceeded
        | End::Interrupted
        | End::Environment { .. }
        | End::Query { .. }
        | End::GlobalLimit { .. } => true,
        End::Template { .. } | End::Plugin { .. } | End::Journal { .. } | End::Crashed { .. } => {
            false
        }
    }
}

/// The end for a limit that allows no further query, if one is reached.
pub(crate) fn exceeded(state: &State, limits: &RunLimits) -> Option<End> {
    let account = &state.account;
    // While the replies of a step are sampled, its own query is counted and not yet sent.
    let unsent = i64::from(state.phase == Phase::Querying);
    let asked = i64::from(account.queries) + i64::from(account.questions) - unsent;
    let steps_gone = limits.steps > 0 && limits.steps.saturating_add(state.raised.steps) <= asked;
    let money_gone = limits.cost > 0.0 && limits.cost + state.raised.cost <= account.cost;
    if steps_gone || money_gone {
        return Some(End::LimitsExceeded);
    }
    time_left(state, limits)
        .is_some_and(|left| left.is_zero())
        .then_some(End::TimeExceeded)
}

/// The used part of the limits that a user may raise.
fn spent(state: &State, limits: &RunLimits) -> SpentOfLimits {
    let account = &state.account;
    SpentOfLimits {
        queries: i64::from(account.queries) + i64::from(account.questions),
        query_limit: match limits.steps > 0 {
            true => limits.steps.saturating_add(state.raised.steps),
            false => 0,
        },
        cost: account.cost,
        cost_limit: match limits.cost > 0.0 {
            true => limits.cost + state.raised.cost,
            false => 0.0,
        },
    }
}

/// The time that was left at the last event; `None` without a limit.
fn time_left(state: &State, limits: &RunLimits) -> Option<Duration> {
    time_left_at(state, limits, state.last.unwrap_or_default())
}

/// The time that is left at `now` (Unix seconds); `None` without a limit.
pub(crate) fn time_left_at(state: &State, limits: &RunLimits, now: f64) -> Option<Duration> {
    let limit = u64::try_from(limits.wall_time_seconds)
        .ok()
        .filter(|seconds| *seconds > 0)?;
    let elapsed = Duration::try_from_secs_f64(state.account.elapsed(now)).unwrap_or(Duration::MAX);
    Some(Duration::from_secs(limit).saturating_sub(elapsed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Environment, Salvaging};

    #[test]
    fn what_is_outside_of_the_state_decides_what_comes_next() {
        let idle = State {
            is_opened: true,
            environment: Environment {
                is_ready: true,
                is_set_up: true,
                ..Environment::default()
            },
            ..State::default()
        };
        let replied = State {
            phase: Phase::Replied(Arc::default()),
            ..idle.clone()
        };
        let over = State {
            end: Some(End::TimeExceeded),
            salvaging: Salvaging::Due,
            ..idle.clone()
        };
        let settings = RunSettings {
            has_person: true,
            ..RunSettings::default()
        };
        let stopped = Outside {
            is_stopped: true,
            has_message: true,
            has_work: true,
            ..Outside::default()
        };
        let written = Outside {
            is_stopped: false,
            has_work: false,
            ..stopped.clone()
        };
        let human = Outside {
            mode: PersonMode::Human,
            ..written.clone()
        };
        for (state, outside, expected) in [
            (&idle, &Outside::default(), Need::Query),
            (&idle, &written, Need::Hear),
            (&idle, &stopped, Need::Interrupt),
            (&idle, &human, Need::Ask(Question::Turn)),
            (&replied, &stopped, Need::Parse(Arc::default())),
            (&over, &stopped, Need::Salvage(End::TimeExceeded)),
            (&over, &written, Need::Close(End::TimeExceeded)),
        ] {
            assert_eq!(next(state, &settings, outside), expected, "{outside:?}");
        }
    }
}
