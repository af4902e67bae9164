//! The report of an examination, as text and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::law::Law;
use super::options::Effort;
use mswea_core::RoleKind;

/// The result of an examination.
#[derive(Clone, Debug)]
pub struct ConformanceReport {
    /// The plugin's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of the component, in hex.
    pub digest: String,
    /// Seed of the random inputs.
    pub seed: u64,
    /// How thorough it was.
    pub effort: Effort,
    /// The configs that the plugin was examined with.
    pub configs: Vec<Value>,
    /// The result of each law: first those of the plugin as a whole, then kind by kind.
    pub laws: Vec<LawReport>,
}

/// The result of one law.
#[derive(Clone, Debug)]
pub struct LawReport {
    /// The kind; none for the plugin as a whole.
    pub kind: Option<RoleKind>,
    /// The law.
    pub law: Law,
    /// How it ended.
    pub outcome: LawOutcome,
    /// How many cases were tried.
    pub cases: usize,
    /// The breaches, at most a few.
    pub findings: Vec<Finding>,
    /// A remark: what was left out, and why.
    pub note: Option<String>,
}

/// How the examination of a law ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LawOutcome {
    /// No case broke it.
    Passed,
    /// At least one case broke it.
    Failed,
    /// It could not be examined, for this reason.
    NotApplicable(String),
}

/// A breach of a law.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The case, in words.
    pub case: String,
    /// With this config.
    pub config: Value,
    /// The input, made small if possible, and shortened.
    pub input: Value,
    /// The expected result.
    pub expected: String,
    /// The result.
    pub came: String,
}

impl ConformanceReport {
    /// Whether no law is broken.
    pub fn passed(&self) -> bool {
        self.broken() == 0
    }

    fn broken(&self) -> usize {
        let broken = |law: &&LawReport| law.outcome == LawOutcome::Failed;
        self.laws.iter().filter(broken).count()
    }

    /// The outcome of one law.
    pub fn law(&self, kind: Option<RoleKind>, law: Law) -> Option<&LawReport> {
        let mut laws = self.laws.iter();
        laws.find(|report| report.kind == kind && report.law == law)
    }

    /// As text: a line per law, then the findings with their remedies.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing into a string can't fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let configs = match self.configs.len() {
            1 => "1 config".to_owned(),
            count => format!("{count} configs"),
        };
        writeln!(
            out,
            "plugin `{}` {} (sha256 {}), {} examination with {configs}, seed {}",
            self.name,
            self.version,
            self.digest.get(..12).unwrap_or(&self.digest),
            self.effort.word(),
            self.seed,
        )?;
        let mut section = None;
        for law in &self.laws {
            if section != Some(law.kind) {
                section = Some(law.kind);
                writeln!(out, "\n{}", law.section())?;
            }
            law.write_line(out)?;
        }
        let broken: Vec<_> = self
            .laws
            .iter()
            .filter(|l| !l.findings.is_empty())
            .collect();
        let mut number = 0;
        for law in &broken {
            for finding in &law.findings {
                number += 1;
                writeln!(
                    out,
                    "\n{number}. {}, law `{}`: {}",
                    law.section(),
                    law.law,
                    finding.case
                )?;
                // Not wrapped, so that they can be copied.
                for (word, value) in [("config", &finding.config), ("input", &finding.input)] {
                    if !value.is_null() {
                        writeln!(out, "   {word:<9} {}", short(value))?;
                    }
                }
                field(out, "expected", &finding.expected)?;
                field(out, "came", &finding.came)?;
            }
            field(out, "to do", law.law.remedy(law.kind))?;
        }
        let open = |law: &&LawReport| matches!(law.outcome, LawOutcome::NotApplicable(_));
        let open = self.laws.iter().filter(open).count();
        let (all, examined) = (self.laws.len(), self.laws.len() - open);
        let rest = match open {
            0 => String::new(),
            1 => ", 1 was not examined".to_owned(),
            _ => format!(", {open} were not examined"),
        };
        match self.broken() {
            0 => writeln!(
                out,
                "\npassed: all {examined} laws that could be examined hold{rest}"
            ),
            1 => writeln!(out, "\nfailed: 1 of {all} laws is broken{rest}"),
            broken => writeln!(out, "\nfailed: {broken} of {all} laws are broken{rest}"),
        }
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let laws: Vec<Value> = self.laws.iter().map(LawReport::json).collect();
        json!({
            "plugin": {"name": self.name, "version": self.version, "sha256": self.digest},
            "passed": self.passed(),
            "effort": self.effort.word(),
            "seed": self.seed,
            "configs": self.configs,
            "laws": laws,
        })
    }
}

impl LawReport {
    fn section(&self) -> &'static str {
        self.kind.map_or("plugin", RoleKind::interface)
    }

    fn write_line(&self, out: &mut String) -> std::fmt::Result {
        let (word, note) = match &self.outcome {
            LawOutcome::Passed => ("ok", self.note.as_deref()),
            LawOutcome::Failed => ("FAIL", self.note.as_deref()),
            LawOutcome::NotApplicable(reason) => ("--", Some(reason.as_str())),
        };
        let promise = self.law.promise(self.kind);
        write!(out, "  {word:<5}{:<15}{promise:<51}", self.law.word())?;
        if self.cases > 0 {
            let plural = if self.cases == 1 { "" } else { "s" };
            write!(out, "{:>6} case{plural}", self.cases)?;
        }
        let end = out.trim_end().len();
        out.truncate(end);
        out.push('\n');
        match note {
            Some(note) => writeln!(out, "       {note}"),
            None => Ok(()),
        }
    }

    fn json(&self) -> Value {
        let (outcome, reason) = match &self.outcome {
            LawOutcome::Passed => ("passed", None),
            LawOutcome::Failed => ("failed", None),
            LawOutcome::NotApplicable(reason) => ("not-applicable", Some(reason)),
        };
        let findings = self.findings.iter().map(|finding| {
            json!({
                "case": finding.case,
                "config": finding.config,
                "input": finding.input,
                "expected": finding.expected,
                "came": finding.came,
            })
        });
        let findings: Vec<Value> = findings.collect();
        let mut law = json!({
            "kind": self.kind.map(RoleKind::interface),
            "law": self.law.word(),
            "promise": self.law.promise(self.kind),
            "outcome": outcome,
            "cases": self.cases,
            "findings": findings,
        });
        if let Some(reason) = reason {
            law["reason"] = json!(reason);
        }
        if let Some(note) = &self.note {
            law["note"] = json!(note);
        }
        if !self.findings.is_empty() {
            law["remedy"] = json!(self.law.remedy(self.kind));
        }
        law
    }
}

/// The width of lines with findings, in columns.
const WIDTH: usize = 96;

/// A labelled text, wrapped at blanks and indented.
fn field(out: &mut String, word: &str, text: &str) -> std::fmt::Result {
    let mut label = word;
    for line in text.lines() {
        let mut rest = line;
        loop {
            let cut = match rest.char_indices().nth(WIDTH) {
                None => rest.len(),
                Some((end, _)) => rest[..end].rfind(' ').map_or(end, |blank| blank + 1),
            };
            writeln!(out, "   {label:<9} {}", rest[..cut].trim_end())?;
            label = "";
            rest = &rest[cut..];
            if rest.is_empty() {
                break;
            }
        }
    }
    Ok(())
}

/// A value in one line, shortened.
fn short(value: &Value) -> String {
    const MOST: usize = 900;
    cut(&value.to_string(), MOST)
}

/// Shortens a text, and says how much is missing.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}... ({} bytes more)", &text[..end], text.len() - end),
    }
}

/// A value with long texts, long lists and deep nesting shortened.
pub(super) fn bounded(value: &Value) -> Value {
    bounded_at(value, 12)
}

fn bounded_at(value: &Value, depth: usize) -> Value {
    const ITEMS: usize = 12;
    match value {
        Value::String(text) => Value::String(cut(text, 300)),
        Value::Array(_) | Value::Object(_) if depth == 0 => Value::from("... (deeper)"),
        Value::Array(list) => {
            let shown = list.iter().take(ITEMS);
            let mut shown: Vec<Value> = shown.map(|item| bounded_at(item, depth - 1)).collect();
            if list.len() > ITEMS {
                shown.push(Value::from(format!("... ({} more)", list.len() - ITEMS)));
            }
            Value::Array(shown)
        }
        Value::Object(map) => {
            let shown = map.iter().take(4 * ITEMS);
            let shown = shown.map(|(key, item)| (cut(key, 80), bounded_at(item, depth - 1)));
            Value::Object(shown.collect())
        }
        other => other.clone(),
    }
}

/// Where two values first differ, and the values there: a JSON pointer and both sides, shortened.
pub(super) fn difference(left: &Value, right: &Value) -> (String, String, String) {
    let mut pointer = String::new();
    let (mut left, mut right) = (left, right);
    loop {
        let step = match (left, right) {
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                let mut pairs = a.iter().zip(b).enumerate();
                pairs
                    .find(|(_, (a, b))| a != b)
                    .map(|(index, (a, b))| (index.to_string(), a, b))
            }
            (Value::Object(a), Value::Object(b)) if a.len() == b.len() => a
                .iter()
                .filter_map(|(key, a)| Some((key.clone(), a, b.get(key)?)))
                .find(|(_, a, b)| a != b),
            _ => None,
        };
        let Some((key, a, b)) = step else { break };
        let _ = write!(pointer, "/{key}");
        (left, right) = (a, b);
    }
    // Of two long texts that begin alike, the parts from the first difference on.
    let (left, right) = match (left, right) {
        (Value::String(a), Value::String(b)) => {
            let same: usize = a
                .chars()
                .zip(b.chars())
                .take_while(|(a, b)| a == b)
                .map(|(a, _)| a.len_utf8())
                .sum();
            let from = a[..same]
                .char_indices()
                .rev()
                .nth(30)
                .map_or(0, |(at, _)| at);
            let show = |text: &str| {
                let dots = if from > 0 { "..." } else { "" };
                Value::from(format!("{dots}{}", cut(&text[from..], 120))).to_string()
            };
            (show(a), show(b))
        }
        _ => (
            cut(&bounded(left).to_string(), 400),
            cut(&bounded(right).to_string(), 400),
        ),
    };
    (pointer, left, right)
}
