//! The result of a comparison, on recorded runs or beside a live one.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::answer::{self, Degree, RoleAnswer};
use super::excerpt;
use super::latency::Latency;
use mswea_core::Event;
use mswea_core::Identity;
use mswea_record::journal::Record;

/// The number of answers of each degree, in the order of [`Degree::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub [u64; 5]);

impl Counts {
    /// The number of answers of this degree.
    pub fn of(&self, degree: Degree) -> u64 {
        self.0[degree.index()]
    }

    /// The number of answers that were compared.
    pub fn compared(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The number of answers with which a run would continue alike.
    pub fn agreeing(&self) -> u64 {
        let agree = Degree::ALL.into_iter().filter(|degree| degree.agrees());
        agree.map(|degree| self.of(degree)).sum()
    }

    /// Their share, from 0 to 1; none if nothing was compared.
    pub fn agreement(&self) -> Option<f64> {
        let compared = self.compared();
        (compared > 0).then(|| share(self.agreeing(), compared))
    }

    fn add(&mut self, degree: Degree) {
        self.0[degree.index()] += 1;
    }

    fn merge(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own += other;
        }
    }

    /// Each degree's word with its count.
    pub(super) fn to_json(self) -> Value {
        let counts = Degree::ALL.map(|degree| (degree.as_str().to_owned(), self.of(degree).into()));
        Value::Object(counts.into_iter().collect())
    }

    fn from_json(value: &Value) -> Self {
        let of = |degree: Degree| value.get(degree.as_str()).and_then(Value::as_u64);
        Self(Degree::ALL.map(|degree| of(degree).unwrap_or_default()))
    }
}

/// The share of `part` in `whole`; 1 if `whole` is 0.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 1.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "the counts stay far below 2^53")]
    let share = part as f64 / whole as f64;
    share
}

/// One of the two plugins that are compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// Its name in the report: `old` and `new`, or `real` and `candidate`.
    pub label: &'static str,
    /// The plugin.
    pub name: String,
    /// Its version; empty if unknown.
    pub version: String,
    /// Its file's SHA-256; empty if unknown.
    pub digest: String,
    /// Its config.
    pub config: Value,
    /// How long its calls took.
    pub latency: Latency,
    /// How many of the recorded answers it repeats.
    pub as_recorded: u64,
    /// How many questions it asked the model.
    pub asked: u64,
    /// How many of these had no recorded answer.
    pub unanswered: u64,
}

impl Side {
    pub(super) fn of(label: &'static str, identity: &Identity, config: &Value) -> Self {
        Self {
            label,
            name: identity.name.clone(),
            version: identity.version.clone(),
            digest: identity.digest.clone(),
            config: config.clone(),
            ..Self::default()
        }
    }
}

/// One disagreement; long texts are shortened.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The run's name.
    pub run: String,
    /// The query's number.
    pub step: u32,
    /// The action's index in the step, if it is about an action.
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
#[derive(Clone, Debug, Default, PartialEq)]
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
    pub cases: Vec<Case>,
    /// The number of disagreements that are not kept.
    pub cases_left_out: u64,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The number of threads.
    pub threads: usize,
    /// The duration.
    pub elapsed: Duration,
}

/// Which input an answer belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct InputPlace<'a> {
    pub run: &'a str,
    pub step: u32,
    pub index: Option<u32>,
}

impl Comparison {
    /// Counts a pair of answers; keeps `most` bytes of each text of a disagreement, or no
    /// disagreement if that is zero.
    pub(super) fn judge(
        &mut self,
        place: InputPlace<'_>,
        old: &RoleAnswer<'_>,
        new: &RoleAnswer<'_>,
        most: usize,
        input: impl FnOnce() -> Value,
    ) -> Degree {
        let degree = answer::degree(old, new);
        self.count(place, degree);
        if degree != Degree::Same {
            self.keep(place, degree, old, new, most, input);
        }
        degree
    }

    pub(super) fn count(&mut self, place: InputPlace<'_>, degree: Degree) {
        self.counts.add(degree);
        self.by_step.entry(place.step).or_default().add(degree);
    }

    pub(super) fn keep(
        &mut self,
        place: InputPlace<'_>,
        degree: Degree,
        old: &RoleAnswer<'_>,
        new: &RoleAnswer<'_>,
        most: usize,
        input: impl FnOnce() -> Value,
    ) {
        if most == 0 {
            self.cases_left_out += 1;
            return;
        }
        self.cases.push(case(place, degree, old, new, most, input));
    }

    /// Counts an input that could not be compared.
    pub(super) fn skip(&mut self, why: &str) {
        *self.not_compared.entry(why.to_owned()).or_default() += 1;
    }

    /// Adds the result of later inputs.
    pub(super) fn merge(&mut self, other: Self, keep: usize) {
        self.runs += other.runs;
        self.steps += other.steps;
        self.counts.merge(&other.counts);
        for (step, counts) in &other.by_step {
            self.by_step.entry(*step).or_default().merge(counts);
        }
        for (why, count) in other.not_compared {
            *self.not_compared.entry(why).or_default() += count;
        }
        self.recorded += other.recorded;
        for (own, other) in [(&mut self.old, &other.old), (&mut self.new, &other.new)] {
            own.latency.merge(&other.latency);
            own.as_recorded += other.as_recorded;
            own.asked += other.asked;
            own.unanswered += other.unanswered;
        }
        let room = keep.saturating_sub(self.cases.len());
        self.cases_left_out += other.cases_left_out + other.cases.len().saturating_sub(room) as u64;
        self.cases.extend(other.cases.into_iter().take(room));
    }

    /// Whether the two plugins never disagreed.
    pub fn agrees(&self) -> bool {
        self.counts.agreeing() == self.counts.compared()
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
                    let place = InputPlace {
                        run,
                        step: *step,
                        index: *index,
                    };
                    own.count(place, degree);
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
                } => shadow(&mut found, plugin, kind, beside).summed_up(summary),
                _ => {}
            }
        }
        found
    }

    fn summed_up(&mut self, summary: &Value) {
        let text = |key: &str| {
            let text = summary.get(key).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let list = |key: &str| summary.get(key).cloned().unwrap_or_default();
        self.counts = Counts::from_json(&list("counts"));
        let by_step: Vec<(u32, [u64; 5])> =
            serde_json::from_value(list("by_step")).unwrap_or_default();
        self.by_step = by_step
            .into_iter()
            .map(|(step, counts)| (step, Counts(counts)))
            .collect();
        self.not_compared = serde_json::from_value(list("not_compared")).unwrap_or_default();
        self.warnings = serde_json::from_value(list("warnings")).unwrap_or_default();
        self.cases_left_out = list("left_out").as_u64().unwrap_or_default();
        self.steps = list("steps").as_u64().unwrap_or_default();
        self.old.latency = Latency::from_json(&list("real_latency"));
        self.new.latency = Latency::from_json(&list("latency"));
        self.new.asked = list("asked").as_u64().unwrap_or_default();
        self.new.unanswered = self.new.asked;
        self.new.version = text("version");
        self.new.digest = text("sha256");
        self.new.config = list("config");
    }

    /// The summary that a shadow records at its end, which [`Self::from_journal`] reads.
    pub(super) fn summary(&self) -> Value {
        let by_step = self.by_step.iter();
        let by_step: Vec<_> = by_step.map(|(step, counts)| (step, counts.0)).collect();
        json!({
            "version": self.new.version,
            "sha256": self.new.digest,
            "config": self.new.config,
            "steps": self.steps,
            "counts": self.counts.to_json(),
            "by_step": by_step,
            "not_compared": self.not_compared,
            "left_out": self.cases_left_out,
            "asked": self.new.asked,
            "latency": self.new.latency.to_json(),
            "real_latency": self.old.latency.to_json(),
            "warnings": self.warnings,
        })
    }
}

/// A disagreement, shortened.
pub(super) fn case(
    place: InputPlace<'_>,
    degree: Degree,
    old: &RoleAnswer<'_>,
    new: &RoleAnswer<'_>,
    most: usize,
    input: impl FnOnce() -> Value,
) -> Case {
    let (mut left, mut right) = answer::show(old, new);
    excerpt::pair(&mut left, &mut right, most);
    let mut input = input();
    excerpt::one(&mut input, most / 2);
    Case {
        run: place.run.to_owned(),
        step: place.step,
        index: place.index,
        degree,
        input,
        old: left,
        new: right,
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
    let index = match found.iter().position(is_it) {
        Some(index) => index,
        None => {
            let side = |label, name: &str| Side {
                label,
                name: name.to_owned(),
                ..Side::default()
            };
            found.push(Comparison {
                kind: kind.to_owned(),
                old: side("real", beside),
                new: side("candidate", plugin),
                runs: 1,
                threads: 1,
                // Removed when the summary is read.
                warnings: vec![UNENDED.to_owned()],
                ..Comparison::default()
            });
            found.len() - 1
        }
    };
    &mut found[index]
}
