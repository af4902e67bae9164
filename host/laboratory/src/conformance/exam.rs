//! The state of an examination: cases, findings, and when a law has enough of them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::law::Law;
use super::options::{ExaminationOptions, Scale};
use super::report::{Finding, LawOutcome, LawReport, bounded, cut};
use super::shrink::shrink;
use mswea_core::{Maker, Manner, Refused, RoleKind};

/// How many findings of one law are kept; further ones would repeat them.
const FINDINGS: usize = 3;
/// After this many crashes the plugin is no longer called.
const CRASHES: usize = 300;
/// A crash that took at least this long was probably a deadline.
const SLOW: Duration = Duration::from_millis(700);
/// After this many slow crashes the plugin is no longer called, because each costs seconds.
const SLOW_CRASHES: usize = 4;

/// The expected result of every call.
const ANSWERED: &str = "a value, or an error that the plugin reports itself";

/// The state of an examination.
pub(super) struct Exam<'a> {
    pub maker: &'a dyn Maker,
    pub options: &'a ExaminationOptions,
    pub scale: Scale,
    kind: Option<RoleKind>,
    sheets: BTreeMap<(Option<RoleKind>, Law), Sheet>,
    /// When the current group of laws began, and how long it may take.
    since: Instant,
    time: Duration,
    crashes: usize,
    slow_crashes: usize,
    stopped: Option<String>,
    ordinary: Ordinary,
}

/// The results of a kind's ordinary inputs.
#[derive(Default)]
struct Ordinary {
    inputs: usize,
    values: usize,
    reported: usize,
    /// The first error: its case, config and input, and its message.
    first: Option<(String, Value, Value, String)>,
}

#[derive(Default)]
struct Sheet {
    cases: usize,
    findings: Vec<Finding>,
    not_applicable: Option<String>,
    note: Option<String>,
    /// Whether at least one config was examined to the end.
    finished: bool,
}

/// How a call failed.
#[derive(Clone, Debug)]
pub(super) struct Crash {
    pub manner: Manner,
    pub message: String,
    pub took: Duration,
}

impl Crash {
    /// Whether it took so long that another attempt is too expensive.
    pub fn is_slow(&self) -> bool {
        self.took >= SLOW
    }

    fn came(&self) -> String {
        let message = cut(&self.message, 500);
        match self.manner {
            Manner::Broke => format!("an answer against the contract: {message}"),
            _ => format!("a crash: {message}"),
        }
    }
}

/// A text without its parts between backticks.
fn unquoted(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

impl<'a> Exam<'a> {
    pub fn new(maker: &'a dyn Maker, options: &'a ExaminationOptions) -> Self {
        Self {
            maker,
            options,
            scale: options.scale(),
            kind: None,
            sheets: BTreeMap::new(),
            since: Instant::now(),
            time: options.scale().time,
            crashes: 0,
            slow_crashes: 0,
            stopped: None,
            ordinary: Ordinary::default(),
        }
    }

    /// Begins the part about this kind, or about the plugin as a whole.
    pub fn section(&mut self, kind: Option<RoleKind>) {
        self.kind = kind;
        self.since = Instant::now();
        // A kind that crashes must not prevent the examination of the others.
        (self.crashes, self.slow_crashes, self.stopped) = (0, 0, None);
        self.ordinary = Ordinary::default();
        for law in Law::of(kind) {
            self.sheets.entry((kind, *law)).or_default();
        }
    }

    /// Records that these laws were examined to the end, unless the plugin is no longer called.
    /// Later cases can still break them.
    pub fn finish(&mut self, laws: &[Law]) {
        for law in laws {
            if self.stopped.is_none() && self.cases(*law) > 0 {
                self.sheet(*law).finished = true;
            }
        }
    }

    /// Records the result of an ordinary input: a value, a reported error, or neither.
    pub fn ordinary(
        &mut self,
        case: &str,
        config: &Value,
        input: &impl Serialize,
        came: Result<(), Option<&str>>,
    ) {
        self.ordinary.inputs += 1;
        match came {
            Ok(()) => self.ordinary.values += 1,
            Err(None) => {}
            Err(Some(message)) => {
                self.ordinary.reported += 1;
                if self.ordinary.first.is_none() {
                    let input = serde_json::to_value(input).unwrap_or_default();
                    let message = format!("the error: {}", cut(message, 500));
                    self.ordinary.first = Some((case.to_owned(), config.clone(), input, message));
                }
            }
        }
    }

    /// Ends the part about a kind: laws without a case are reported as not applicable.
    pub fn end_of_kind(&mut self) {
        let kind = self.kind;
        if let Some(reason) = self.stopped.clone() {
            for law in Law::of(kind) {
                if self.cases(*law) == 0 {
                    self.not_applicable(*law, &reason);
                }
            }
        }
        let Ordinary {
            inputs,
            values,
            reported,
            first,
        } = std::mem::take(&mut self.ordinary);
        if inputs == 0 || values > 0 {
            return;
        }
        let reason = if reported == inputs {
            format!("it reported an error for each of {inputs} ordinary inputs")
        } else {
            format!("it gave no value for any of {inputs} ordinary inputs")
        };
        for law in Law::of(kind) {
            let is_of_requests = *law == Law::Requests
                || kind == Some(RoleKind::ModelAdapter)
                    && self.cases(Law::Requests) > 0
                    && matches!(law, Law::Deterministic | Law::Disposable | Law::Coherent);
            if !matches!(law, Law::Total | Law::Asking) && !is_of_requests {
                self.not_applicable(*law, &reason);
            }
        }
        // Too many questions also lead to no value, but the law `asking` reports those.
        if let Some((case, config, input, came)) = first
            && !self.is_broken(Law::Asking)
        {
            let expected = match kind {
                Some(RoleKind::ModelAdapter) => {
                    "a reply to at least one of the kit's responses or of the samples; if the \
                     provider has a format of its own, give one of its responses as a sample"
                }
                _ => "a value for at least one ordinary input",
            };
            let came = format!("{came}; {reason}");
            self.find(Law::Total, &case, &config, &input, expected, came);
        }
    }

    /// Begins the part with one of the configs; all but the first get less time.
    pub fn share(&mut self, is_first: bool) {
        self.time = self.scale.time / if is_first { 1 } else { 4 };
    }

    /// Begins a group of laws, whose time starts now.
    pub fn begin(&mut self) {
        self.since = Instant::now();
    }

    /// The smallest input found for which `breaks` still holds. The time for this is not taken from
    /// the law's time limit.
    pub async fn shrink<T, F>(&mut self, input: T, breaks: F) -> T
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnMut(&T) -> bool,
    {
        let began = Instant::now();
        let smallest = shrink(input, self.scale.shrinking, breaks).await;
        self.since += began.elapsed();
        smallest
    }

    /// Random numbers for one purpose; the same ones for the same seed.
    pub fn random(&self, purpose: &str) -> fastrand::Rng {
        let mut hasher = DefaultHasher::new();
        (self.options.seed, self.kind, purpose).hash(&mut hasher);
        fastrand::Rng::with_seed(hasher.finish())
    }

    fn sheet(&mut self, law: Law) -> &mut Sheet {
        self.sheets.entry((self.kind, law)).or_default()
    }

    /// Counts a case of this law.
    pub fn case(&mut self, law: Law) {
        self.sheet(law).cases += 1;
    }

    /// The number of cases of this law.
    pub fn cases(&self, law: Law) -> usize {
        let sheet = self.sheets.get(&(self.kind, law));
        sheet.map_or(0, |sheet| sheet.cases)
    }

    /// Whether no further case of these laws is needed: all have enough findings, the time is used
    /// up, or the plugin is no longer called.
    pub fn enough(&mut self, laws: &[Law]) -> bool {
        if let Some(reason) = self.stopped.clone() {
            for law in laws {
                let sheet = self.sheet(*law);
                match sheet.finished {
                    true => drop(sheet.note.get_or_insert_with(|| reason.clone())),
                    false => self.not_applicable(*law, &reason),
                }
            }
            return true;
        }
        if self.since.elapsed() > self.time {
            let seconds = self.time.as_secs();
            for law in laws {
                let sheet = self.sheet(*law);
                let note = format!("it was slow: only what fitted into {seconds} s was tried");
                sheet.note.get_or_insert(note);
            }
            return true;
        }
        laws.iter().all(|law| self.is_full(*law))
    }

    /// Whether a law has enough findings.
    pub fn is_full(&self, law: Law) -> bool {
        let sheet = self.sheets.get(&(self.kind, law));
        sheet.is_some_and(|sheet| sheet.findings.len() >= FINDINGS)
    }

    /// Whether there is a finding against a law.
    pub fn is_broken(&self, law: Law) -> bool {
        let sheet = self.sheets.get(&(self.kind, law));
        sheet.is_some_and(|sheet| !sheet.findings.is_empty())
    }

    /// Whether the plugin is no longer called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Whether no finding of this law differs from this one only in ids or texts.
    pub fn is_news(&self, law: Law, expected: &str, came: &str) -> bool {
        let gist = (unquoted(expected), unquoted(came));
        let findings = self.sheets.get(&(self.kind, law)).map(|s| &s.findings);
        let mut known = findings.into_iter().flatten();
        !self.is_full(law) && known.all(|f| gist != (unquoted(&f.expected), unquoted(&f.came)))
    }

    /// Records a breach, unless it is recorded already.
    pub fn find(
        &mut self,
        law: Law,
        case: &str,
        config: &Value,
        input: &impl Serialize,
        expected: impl Into<String>,
        came: impl Into<String>,
    ) {
        let (expected, came) = (expected.into(), came.into());
        if self.is_news(law, &expected, &came) {
            let input = serde_json::to_value(input).unwrap_or_default();
            self.sheet(law).findings.push(Finding {
                case: case.to_owned(),
                config: bounded(config),
                input: bounded(&input),
                expected,
                came,
            });
        }
    }

    /// Counts a crash; returns whether it is to be recorded.
    pub fn count_crash(&mut self, crash: &Crash) -> bool {
        self.crashes += 1;
        self.slow_crashes += usize::from(crash.is_slow());
        if self.slow_crashes >= SLOW_CRASHES {
            let seconds = crash.took.as_secs_f64();
            self.stopped = Some(format!(
                "not examined to the end: {SLOW_CRASHES} calls ran into the deadline ({seconds:.1} s)"
            ));
        } else if self.crashes >= CRASHES {
            self.stopped = Some(format!(
                "not examined to the end: the plugin crashed {CRASHES} times"
            ));
        }
        self.is_news(Law::Total, ANSWERED, &crash.came())
    }

    /// Records a crash: a breach of [`Law::Total`], whatever law was being examined.
    pub fn find_crash(
        &mut self,
        case: &str,
        config: &Value,
        input: &impl Serialize,
        crash: &Crash,
    ) {
        self.find(Law::Total, case, config, input, ANSWERED, crash.came());
    }

    /// Records that an instance could not be made, although one was made before with this config.
    pub fn unmade(&mut self, config: &Value, refused: &Refused) {
        let crash = Crash {
            manner: Manner::Crashed,
            message: format!("it accepted this config before, and refuses it now: {refused}"),
            took: Duration::ZERO,
        };
        self.count_crash(&crash);
        self.find_crash("another instance", config, &Value::Null, &crash);
    }

    /// Records that this law can't be examined, with the reason.
    pub fn not_applicable(&mut self, law: Law, reason: &str) {
        let known = &mut self.sheet(law).not_applicable;
        known.get_or_insert_with(|| reason.to_owned());
    }

    /// The results, in order.
    pub fn reports(self) -> Vec<LawReport> {
        let sheets = self.sheets.into_iter();
        let reports = sheets.map(|((kind, law), sheet)| {
            let none = || "there was no input for it".to_owned();
            let outcome = match (sheet.findings.is_empty(), sheet.not_applicable) {
                (false, _) => LawOutcome::Failed,
                (true, Some(reason)) => LawOutcome::NotApplicable(reason),
                (true, None) if sheet.cases == 0 => LawOutcome::NotApplicable(none()),
                (true, None) => LawOutcome::Passed,
            };
            LawReport {
                kind,
                law,
                outcome,
                cases: sheet.cases,
                findings: sheet.findings,
                note: sheet.note,
            }
        });
        reports.collect()
    }
}
