//! The result of a comparison, on recorded runs or beside a live one.
//!
//! Its JSON is that of [`Comparison`]'s fields, in which an `action` is its index in the step, from 0,
//! long texts are shortened, and durations are in seconds. `plugin diff --json` adds `compared`,
//! `agreeing`, `agreement` (0 to 1, null if nothing was compared), `alike` (a list of `degree`, `what`
//! and places in `disagreements`, the worst and largest first), and has `by_step` as a list of
//! `step` with the counts of that step number. The summary of a shadow has no `disagreements`,
//! because they have been recorded before.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::{self, Degree, RoleAnswer};
use super::excerpt;
use super::instance::RoleInput;
use super::latency::Latency;
use mswea_core::Event;
use mswea_core::Identity;
use mswea_record::journal::Record;

/// The number of answers of each degree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    same: u64,
    wording: u64,
    different: u64,
    one_failed: u64,
    both_failed: u64,
}

impl Counts {
    fn at(&mut self, degree: Degree) -> &mut u64 {
        match degree {
            Degree::Same => &mut self.same,
            Degree::Wording => &mut self.wording,
            Degree::Different => &mut self.different,
            Degree::OneFailed => &mut self.one_failed,
            Degree::BothFailed => &mut self.both_failed,
        }
    }

    /// The number of answers of this degree.
    pub fn of(mut self, degree: Degree) -> u64 {
        *self.at(degree)
    }

    /// The number of answers that were compared.
    pub fn compared(self) -> u64 {
        Degree::ALL.into_iter().map(|degree| self.of(degree)).sum()
    }

    /// The number of answers with which a run would continue alike.
    pub fn agreeing(self) -> u64 {
        self.same + self.wording
    }

    pub(super) fn merge(&mut self, other: Self) {
        for degree in Degree::ALL {
            *self.at(degree) += other.of(degree);
        }
    }
}

/// The share of `part` in `whole`; 1 if `whole` is 0.
#[expect(clippy::cast_precision_loss, reason = "the counts stay far below 2^53")]
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        1.0
    } else {
        part as f64 / whole as f64
    }
}

/// One of the two plugins that are compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Side {
    /// Its name in the report: `old` and `new`, or `real` and `candidate`.
    pub label: String,
    /// The plugin.
    pub name: String,
    /// Its version; empty if unknown.
    pub version: String,
    /// Its file's SHA-256; empty if unknown.
    #[serde(rename = "sha256")]
    pub digest: String,
    /// Its config.
    pub config: Value,
    /// How many of the recorded answers it repeats.
    pub as_recorded: u64,
    /// How many questions it asked the model.
    pub asked: u64,
    /// How many of these had no recorded answer.
    pub unanswered: u64,
    /// How long its calls took.
    pub latency: Latency,
}

impl Side {
    pub(super) fn named(label: &str, name: &str) -> Self {
        Self {
            label: label.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn of(label: &str, identity: &Identity, config: &Value) -> Self {
        Self {
            version: identity.version.clone(),
            digest: identity.digest.clone(),
            config: config.clone(),
            ..Self::named(label, &identity.name)
        }
    }
}

/// One disagreement; long texts are shortened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// The run's name.
    pub run: String,
    /// The query's number.
    pub step: u32,
    /// The action's index in the step, if it is about an action.
    #[serde(rename = "action")]
    pub index: Option<u32>,
    /// How much the answers differ.
    pub degree: Degree,
    /// The input of both.
    pub input: Value,
    /// The first plugin's answer.
    pub old: Value,
    /// The second plugin's answer.
    pub new: Value,
}

/// A comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Comparison {
    /// The role.
    pub kind: String,
    /// The plugin in use.
    pub old: Side,
    /// The plugin that may replace it.
    pub new: Side,
    /// The number of runs.
    pub runs: u64,
    /// The number of their queries.
    pub steps: u64,
    /// All counts.
    pub counts: Counts,
    /// The counts by the number of the step.
    pub by_step: BTreeMap<u32, Counts>,
    /// How many inputs could not be compared, by reason.
    pub not_compared: BTreeMap<String, u64>,
    /// For how many answers the record has the run's own.
    pub recorded: u64,
    /// The disagreements, in the order of runs and steps; only the first ones if there are many.
    #[serde(skip)]
    pub cases: Vec<Case>,
    /// The number of disagreements that are not kept.
    #[serde(rename = "disagreements_left_out")]
    pub cases_left_out: u64,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The number of threads.
    pub threads: usize,
    /// The duration, in seconds.
    pub seconds: f64,
}

/// Which input an answer belongs to: the run, the step, and the action's index in it.
pub(super) type InputPlace<'a> = (&'a str, u32, Option<u32>);

/// An answer, and how long it took.
type Timed = (RoleAnswer, Duration);

impl Comparison {
    /// Counts a pair of answers; keeps `most` bytes of each text of a disagreement, or no
    /// disagreement if that is zero.
    pub(super) fn judge(
        &mut self,
        (run, step, index): InputPlace<'_>,
        input: &RoleInput,
        (old, old_took): Timed,
        (new, new_took): Timed,
        most: usize,
    ) {
        self.old.latency.add(old_took);
        self.new.latency.add(new_took);
        let degree = answer::degree(&old, &new);
        self.count(step, degree);
        if degree == Degree::Same {
            return;
        }
        if most == 0 {
            self.cases_left_out += 1;
            return;
        }
        let (old, new) = answer::show(&old, &new);
        self.cases.push(Case {
            run: run.to_owned(),
            step,
            index,
            degree,
            input: excerpt::shortened(&input.shown(), &Value::Null, most / 2),
            old: excerpt::shortened(&old, &new, most),
            new: excerpt::shortened(&new, &old, most),
        });
    }

    fn count(&mut self, step: u32, degree: Degree) {
        *self.counts.at(degree) += 1;
        *self.by_step.entry(step).or_default().at(degree) += 1;
    }

    /// Counts an input that could not be compared.
    pub(super) fn skip(&mut self, why: &str) {
        *self.not_compared.entry(why.to_owned()).or_default() += 1;
    }

    /// Adds the result of later inputs.
    pub(super) fn merge(&mut self, other: Self, keep: usize) {
        self.runs += other.runs;
        self.steps += other.steps;
        self.counts.merge(other.counts);
        for (step, counts) in other.by_step {
            self.by_step.entry(step).or_default().merge(counts);
        }
        for (why, count) in other.not_compared {
            *self.not_compared.entry(why).or_default() += count;
        }
        for warning in other.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        self.recorded += other.recorded;
        for (own, other) in [(&mut self.old, other.old), (&mut self.new, other.new)] {
            own.latency.merge(other.latency);
            own.as_recorded += other.as_recorded;
            own.asked += other.asked;
            own.unanswered += other.unanswered;
        }
        let room = keep.saturating_sub(self.cases.len());
        self.cases_left_out += other.cases_left_out + other.cases.len().saturating_sub(room) as u64;
        self.cases.extend(other.cases.into_iter().take(room));
    }

    /// Computes the figures, when all answers are in it.
    pub(super) fn sum_up(&mut self) {
        self.old.latency.sum_up();
        self.new.latency.sum_up();
    }

    /// Whether the two plugins never disagreed.
    pub fn agrees(&self) -> bool {
        self.counts.agreeing() == self.counts.compared()
    }

    /// The number of answers that are not equal.
    pub(super) fn disagreements(&self) -> u64 {
        self.cases.len() as u64 + self.cases_left_out
    }

    /// All of the comparison; the keys are in this module's documentation.
    pub fn to_json(&self) -> Value {
        let compared = self.counts.compared();
        let by_step = self.by_step.iter().map(|(step, counts)| {
            let mut one = json!(counts);
            one["step"] = (*step).into();
            one
        });
        let mut all = json!(self);
        all["compared"] = compared.into();
        all["agreeing"] = self.counts.agreeing().into();
        all["agreement"] = json!((compared > 0).then(|| share(self.counts.agreeing(), compared)));
        all["by_step"] = by_step.collect();
        all["alike"] = json!(self.groups());
        all["disagreements"] = json!(self.cases);
        all
    }

    /// The comparisons that a live run's shadows recorded in its journal, one for each shadow. For
    /// a shadow without a summary, the divergences recorded until then.
    pub fn from_journal(records: &[Record], run: &str) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for record in records {
            match &record.event {
                Event::ShadowDiverged {
                    plugin,
                    kind,
                    beside,
                    step,
                    index,
                    degree,
                    input,
                    real,
                    candidate,
                } => {
                    let own = shadow(&mut found, plugin, kind, beside);
                    let degree = Degree::of_word(degree);
                    own.count(*step, degree);
                    own.cases.push(Case {
                        run: run.to_owned(),
                        step: *step,
                        index: *index,
                        degree,
                        input: input.clone(),
                        old: real.clone(),
                        new: candidate.clone(),
                    });
                }
                Event::ShadowEnded {
                    plugin,
                    kind,
                    beside,
                    summary,
                } => {
                    let own = shadow(&mut found, plugin, kind, beside);
                    let before = std::mem::take(own);
                    let ended = Self::deserialize(summary).unwrap_or_default();
                    let side = |before: Side, ended| Side {
                        label: before.label,
                        name: before.name,
                        ..ended
                    };
                    *own = Self {
                        kind: before.kind,
                        old: side(before.old, ended.old),
                        new: side(before.new, ended.new),
                        cases: before.cases,
                        ..ended
                    };
                }
                _ => {}
            }
        }
        found
    }
}

/// The warning for a shadow without a summary.
const UNENDED: &str = "the shadow's run did not get to its end: the journal has their differences, but not how often they agreed";

fn shadow<'a>(
    found: &'a mut Vec<Comparison>,
    plugin: &str,
    kind: &str,
    beside: &str,
) -> &'a mut Comparison {
    let is_it =
        |own: &Comparison| own.new.name == plugin && own.kind == kind && own.old.name == beside;
    let index = found.iter().position(is_it).unwrap_or_else(|| {
        found.push(Comparison {
            kind: kind.to_owned(),
            old: Side::named("real", beside),
            new: Side::named("candidate", plugin),
            runs: 1,
            threads: 1,
            // Removed when the summary is read.
            warnings: vec![UNENDED.to_owned()],
            ..Comparison::default()
        });
        found.len() - 1
    });
    &mut found[index]
}
