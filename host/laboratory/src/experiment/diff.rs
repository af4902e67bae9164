//! Two plugins of one kind on the same recorded runs. The runs are spread over as many threads as
//! there are cores; each run is followed by instances of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::Value;

use super::answer::{self, RoleAnswer};
use super::comparison::{Comparison, Side};
use super::instance::{Instance, Recall, RoleInput, other_tools};
use super::recorded::{RecordedRuns, RecordedVerdict, Run, Step};
use super::text::missed;
use mswea_core::{Maker, Message, Outcome, Part, Refused, RoleKind, Tool, Verdict};

/// The options of a comparison.
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// How many disagreements are kept; the others are only counted.
    pub keep: usize,
    /// How many bytes of a text are kept in a disagreement.
    pub text: usize,
    /// How many threads; 0: one for each core.
    pub threads: usize,
    /// The tools that adapters offer to the model: records do not contain them.
    pub tools: Vec<Tool>,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            keep: 2_000,
            text: 8 << 10,
            threads: 0,
            tools: Vec::new(),
        }
    }
}

/// Why nothing was compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DiffError {
    /// One of the plugins can't take the role with this config.
    #[error(
        "the {label} plugin `{plugin}` can't be compared: {refused}{}",
        remedy(refused)
    )]
    Refused {
        /// `old` or `new`.
        label: &'static str,
        /// Its name.
        plugin: String,
        /// The reason.
        refused: Refused,
    },
    /// The runs contain nothing for this kind.
    #[error(
        "nothing to compare for the kind `{kind}` in {steps} steps of {runs} runs: looked for {wanted}{found}"
    )]
    Nothing {
        /// The kind.
        kind: RoleKind,
        /// The number of steps.
        steps: usize,
        /// The number of runs.
        runs: usize,
        /// The input of this kind.
        wanted: &'static str,
        /// The inputs that the runs contain instead.
        found: String,
    },
    /// No runtime could be started.
    #[error("can't start a worker: {0}; free some memory or processes, and try again")]
    Worker(String),
}

/// The remedy for a refusal, if there is a known one.
fn remedy(refused: &Refused) -> &'static str {
    match refused {
        Refused::Config { .. } => "; give the config with `-c`, `--old-config` or `--new-config`",
        Refused::Failed(_) => "",
    }
}

/// Compares both plugins on the recorded runs. It blocks, and uses threads of its own.
///
/// # Errors
/// [`DiffError`] if a plugin can't take the role, the runs contain nothing for it, or no thread can
/// be started.
pub fn diff(
    old: Arc<dyn Maker>,
    new: Arc<dyn Maker>,
    old_config: &Value,
    new_config: &Value,
    kind: RoleKind,
    runs: &RecordedRuns,
    options: &DiffOptions,
) -> Result<Comparison, DiffError> {
    let started = Instant::now();
    let mut total = Comparison {
        kind: kind.to_string(),
        old: Side::of("old", old.identity(), old_config),
        new: Side::of("new", new.identity(), new_config),
        runs: runs.runs.len() as u64,
        steps: runs.steps() as u64,
        threads: super::threads(options.threads, runs.runs.len()),
        ..Comparison::default()
    };
    let is_full = AtomicBool::new(options.keep == 0);
    let mut error = None;
    let work = |run: &Run| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| DiffError::Worker(error.to_string()))?;
        runtime.block_on(async {
            let make = async |label, maker: &dyn Maker, config| {
                let made = maker.make(kind, config, false).await;
                let plugin = maker.identity().name.clone();
                let made = made.map_err(|refused| DiffError::Refused {
                    label,
                    plugin,
                    refused,
                })?;
                Ok::<_, DiffError>(Instance::of(made, options.tools.clone()))
            };
            let pair = [
                make("old", &*old, old_config).await?,
                make("new", &*new, new_config).await?,
            ];
            // Further disagreements would be dropped.
            let most = if is_full.load(Ordering::Relaxed) {
                0
            } else {
                options.text
            };
            Ok(compare(kind, run, pair, most).await)
        })
    };
    super::spread(&runs.runs, options.threads, work, |found| match found {
        Ok(found) => {
            total.merge(found, options.keep);
            is_full.fetch_or(total.cases.len() >= options.keep, Ordering::Relaxed);
        }
        Err(why) => error = error.take().or(Some(why)),
    });
    match error {
        Some(error) => return Err(error),
        None if total.counts.compared() == 0 => return Err(nothing(kind, runs, &total)),
        None => {}
    }
    total.warnings.splice(0..0, runs.warnings.iter().cloned());
    total.sum_up();
    total.seconds = started.elapsed().as_secs_f64();
    Ok(total)
}

fn nothing(kind: RoleKind, runs: &RecordedRuns, found: &Comparison) -> DiffError {
    let reasons = missed(found);
    DiffError::Nothing {
        kind,
        steps: runs.steps(),
        runs: runs.runs.len(),
        wanted: match kind {
            RoleKind::ActionParser => "replies of the model",
            RoleKind::ObservationFormatter => {
                "outputs of actions (in a trajectory: `raw_output` in the `extra` of each observation)"
            }
            RoleKind::ActionPolicy => "actions",
            RoleKind::HistoryProcessor | RoleKind::ModelAdapter => "queries",
        },
        found: match reasons.is_empty() {
            true => String::new(),
            false => format!("; found {}", reasons.join("; ")),
        },
    }
}

/// Compares two instances on a run, and keeps `most` bytes of each text of a disagreement.
async fn compare(kind: RoleKind, run: &Run, pair: [Instance; 2], most: usize) -> Comparison {
    let mut found = Comparison::default();
    let [mut old, mut new] = pair;
    if old.tools() != new.tools() {
        found.warnings.push(format!(
            "the new plugin offers {}; the recorded model was offered the tools of its own run",
            other_tools(new.tools(), old.tools())
        ));
    }
    let asker = || Recall {
        questions: Some(&*run.questions),
        ..Recall::default()
    };
    let mut askers = [asker(), asker()];
    for step in &run.steps {
        let inputs = match inputs(kind, run, step) {
            Ok(inputs) => inputs,
            Err(why) => {
                found.skip(why);
                continue;
            }
        };
        for (index, input) in inputs.into_iter().enumerate() {
            let [of_old, of_new] = &mut askers;
            // The second call finds the input in the CPU's cache, so the order of the two plugins
            // alternates from call to call.
            let (first, second) = match found.old.latency.calls % 2 {
                0 => (
                    old.answer(&input, of_old).await,
                    new.answer(&input, of_new).await,
                ),
                _ => {
                    let second = new.answer(&input, of_new).await;
                    (old.answer(&input, of_old).await, second)
                }
            };
            let names = [&old, &new].map(policy);
            let repeats = |answer| repeats(run, step, (index, &input), &names, answer);
            if let (Some(first), Some(second)) = (repeats(&first.0), repeats(&second.0)) {
                found.recorded += 1;
                found.old.as_recorded += u64::from(first);
                found.new.as_recorded += u64::from(second);
            }
            let is_action = matches!(input, RoleInput::Judge(_));
            let index = u32::try_from(index).ok().filter(|_| is_action);
            let place = (&*run.name, step.number, index);
            found.judge(place, &input, first, second, most);
        }
    }
    let [of_old, of_new] = askers;
    for (side, asker) in [(&mut found.old, of_old), (&mut found.new, of_new)] {
        side.asked = asker.asked;
        side.unanswered = asker.unanswered;
    }
    found
}

/// The inputs that a step has for a role, or why it has none.
fn inputs(kind: RoleKind, run: &Run, step: &Step) -> Result<Vec<RoleInput>, &'static str> {
    let seen = || run.history[..step.seen].to_vec();
    let reply = step.reply.clone().map(Box::new);
    let one = match kind {
        RoleKind::ActionParser => RoleInput::Parse(reply.ok_or("a query without a reply")?),
        RoleKind::ObservationFormatter if !step.outputs.is_empty() => {
            let (actions, outputs) = step.outputs.iter().cloned().unzip();
            RoleInput::Format(actions, outputs)
        }
        RoleKind::ObservationFormatter | RoleKind::ActionPolicy if step.actions().is_empty() => {
            return Err("a step without an action");
        }
        RoleKind::ObservationFormatter => return Err("a step whose outputs are not recorded"),
        RoleKind::ActionPolicy => {
            let actions = step.actions().iter().cloned();
            return Ok(actions.map(RoleInput::Judge).collect());
        }
        RoleKind::HistoryProcessor => RoleInput::View(seen()),
        RoleKind::ModelAdapter => RoleInput::Query(seen()),
    };
    Ok(vec![one])
}

/// The name of a policy, as in the record.
fn policy(instance: &Instance) -> String {
    match instance {
        Instance::Policy(policy) => policy.name().to_owned(),
        _ => String::new(),
    }
}

/// Whether an answer is the recorded one; none if the record does not tell.
fn repeats(
    run: &Run,
    step: &Step,
    (index, input): (usize, &RoleInput),
    names: &[String; 2],
    answer: &RoleAnswer,
) -> Option<bool> {
    match input {
        RoleInput::Parse(_) => Some(match (step.outcome.as_ref()?, answer) {
            (Outcome::Malformed(problem), RoleAnswer::Outcome(Outcome::Malformed(own))) => {
                problem.code.is_empty() || problem.code == own.code
            }
            (recorded, RoleAnswer::Outcome(own)) => answer::outcomes_agree(recorded, own),
            // The loop treats a failure of the parser as a malformed reply with a code of its own.
            (Outcome::Malformed(problem), _) => {
                problem.code.is_empty() || problem.code == "parser-failed"
            }
            (Outcome::Actions(_), _) => false,
        }),
        RoleInput::Format(..) => {
            let observed = run.history.get(step.observed.clone())?;
            let is_image = |part: &Part| matches!(part, Part::Image { .. });
            // The loop looks for images in the formatter's messages.
            if observed.is_empty() || observed.iter().any(|it| it.content.iter().any(is_image)) {
                return None;
            }
            // A trajectory does not keep how a text was divided into parts.
            let said = |it: &Message| (it.role.clone(), it.tool_call_id.clone(), it.text());
            Some(match answer {
                RoleAnswer::Messages(own) => {
                    own.iter().map(said).eq(observed.iter().map(|it| said(it)))
                }
                _ => false,
            })
        }
        RoleInput::Judge(action) => {
            let (_, recorded) = step.verdicts.iter().find(|(of, _)| *of == index)?;
            let command = match answer {
                RoleAnswer::Verdict(Verdict::Ask(_)) => return None,
                RoleAnswer::Verdict(Verdict::Allow) => Some(&action.command),
                RoleAnswer::Verdict(Verdict::Rewrite(own)) => Some(&own.command),
                _ => None,
            };
            match (recorded, answer) {
                (RecordedVerdict::Ran(ran), _) => Some(command == Some(&ran.command)),
                (RecordedVerdict::Denied { policy, .. }, _) if !names.contains(policy) => None,
                (
                    RecordedVerdict::Denied { reason, .. },
                    RoleAnswer::Verdict(Verdict::Deny(own)),
                ) => Some(reason == own),
                // The loop denies the action if a policy fails.
                (RecordedVerdict::Denied { .. }, answer) => Some(answer.failed()),
            }
        }
        RoleInput::View(_) | RoleInput::Query(_) => None,
    }
}

#[cfg(test)]
mod tests;
