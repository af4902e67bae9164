//! What the list needs of a trajectory without a journal: what is beside its messages or steps, and what
//! these amount to. It is read as a stream, which passes over long values.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read as _};

use mswea_core::Usage;
use mswea_export::from_iso;
use mswea_record::trajectory::usage_of;
use mswea_text::MendedJson;
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::foreign_value::{KeptText, KeptValue, pass_over_scalars};
use crate::indexed::{ONCE, has_twice};

/// A file with at most so many bytes is read at once, which is faster.
const AT_ONCE: u64 = 16 << 20;

/// The head of a trajectory.
#[derive(Default)]
pub(crate) struct ForeignHead {
    pub(crate) is_atif: bool,
    pub(crate) is_sweagent: bool,
    pub(crate) has_messages: bool,
    pub(crate) has_history: bool,
    pub(crate) info: Value,
    pub(crate) agent: Value,
    pub(crate) metrics: Value,
    pub(crate) extra: Value,
    /// SWE-agent's config.
    pub(crate) replay_config: Value,
    /// The run's id in ATIF, as this host writes it.
    pub(crate) trajectory_id: String,
    /// The steps of SWE-agent's `trajectory`.
    pub(crate) steps: u32,
    /// The first message of the user.
    pub(crate) task: String,
    /// The first and the last time that a message or a step has, in Unix seconds.
    pub(crate) times: Option<(f64, f64)>,
    /// Queries that were answered.
    pub(crate) replies: u32,
    /// Their tokens, where the messages have them.
    pub(crate) usage: Usage,
    /// Their dollars.
    pub(crate) cost: f64,
    /// A reply has no cost.
    pub(crate) lacks_costs: bool,
    /// A reply has cost nothing.
    pub(crate) has_free: bool,
    /// How it ended, by its last message.
    pub(crate) exit_status: String,
    /// The keys that a file has at most once.
    once: Vec<&'static str>,
    /// Why it is not read.
    refusal: Option<String>,
    /// Whether the rest was not needed.
    is_done: bool,
}

impl ForeignHead {
    /// Reads a file: one of this host up to its messages, another one whole.
    ///
    /// # Errors
    /// A message if it is no JSON up to where it is needed.
    pub(crate) fn read(mut file: File, bytes: u64) -> Result<Self, String> {
        if bytes > AT_ONCE {
            let input = BufReader::with_capacity(1 << 16, file);
            return Self::of(serde_json::Deserializer::from_reader(input)).finished();
        }
        let mut text = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
        let read = file.read_to_end(&mut text);
        read.map_err(|error| error.to_string())?;
        let read = Self::of(serde_json::Deserializer::from_slice(&text));
        let mended = read.is_broken().then(|| MendedJson::of(&text)).flatten();
        match mended {
            Some(mended) => Self::of(serde_json::Deserializer::from_slice(&mended.text)).finished(),
            None => read.finished(),
        }
    }

    fn of<'de, R: serde_json::de::Read<'de>>(mut input: serde_json::Deserializer<R>) -> ReadHead {
        let mut head = Self::default();
        let error = input.deserialize_any(HeadVisitor(&mut head)).err();
        ReadHead { head, error }
    }

    fn is_enough(&self) -> bool {
        !self.is_atif && !self.info.is_null() && self.has_messages
    }

    /// The sum of the costs of all replies, if each has one.
    pub(crate) fn known_cost(&self) -> Option<f64> {
        (!self.lacks_costs).then_some(self.cost)
    }

    /// Whether `info` says all that the messages amount to.
    fn is_own(&self) -> bool {
        self.info.pointer("/mswea/run_id").is_some()
    }

    fn take(&mut self, seen: SeenStep) {
        if seen.is_demo {
            return;
        }
        if self.task.is_empty() && (seen.role == "user" || seen.source == "user") {
            self.task = seen.text;
        }
        let time = seen.time.filter(|it| it.is_finite() && *it > 0.0);
        if let Some(time) = time {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
        }
        let is_reply = seen.role == "assistant"
            || seen.object == "response"
            || seen.interrupt == "FormatError"
            || seen.source == "agent" && seen.calls != Some(0);
        if is_reply {
            self.replies = self.replies.saturating_add(1);
            self.cost += seen.cost.unwrap_or_default();
            self.lacks_costs |= seen.cost.is_none();
            self.has_free |= seen.cost == Some(0.0);
            if let Some(usage) = &seen.usage {
                self.usage.add(usage);
            }
        }
        if seen.role == "exit" {
            self.exit_status = seen.exit_status;
        }
    }
}

/// A head as far as it was read.
struct ReadHead {
    head: ForeignHead,
    error: Option<serde_json::Error>,
}

impl ReadHead {
    fn is_broken(&self) -> bool {
        self.error.is_some() && !self.head.is_done && self.head.refusal.is_none()
    }

    fn finished(self) -> Result<ForeignHead, String> {
        let Self { head, error } = self;
        match (&head.refusal, error) {
            (Some(why), _) => Err(format!("it {why}")),
            (None, Some(error)) if !head.is_enough() => {
                Err(format!("it is no trajectory: {error}"))
            }
            _ => Ok(head),
        }
    }
}

struct HeadVisitor<'f>(&'f mut ForeignHead);

impl<'de> Visitor<'de> for HeadVisitor<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a trajectory")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, entries: A) -> Result<(), A::Error> {
        self.0.has_messages = true;
        ForeignSteps(self.0).visit_seq(entries)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let head = self.0;
        while let Some(name) = entries.next_key::<String>()? {
            if let Some(key) = ONCE.iter().find(|it| **it == name) {
                if head.once.contains(key) {
                    head.refusal = Some(has_twice(key));
                    return Err(serde::de::Error::custom("a key is there twice"));
                }
                head.once.push(key);
            }
            match name.as_str() {
                "schema_version" => {
                    head.is_atif = word(&mut entries)?.starts_with("ATIF");
                }
                "session_id" | "trajectory_id" => {
                    let id = word(&mut entries)?;
                    if name == "trajectory_id" || head.trajectory_id.is_empty() {
                        head.trajectory_id = id;
                    }
                }
                "info" => head.info = entries.next_value_seed(KeptValue::of_head())?,
                "agent" => head.agent = entries.next_value_seed(KeptValue::of_head())?,
                "final_metrics" => head.metrics = entries.next_value_seed(KeptValue::of_head())?,
                "extra" => head.extra = entries.next_value_seed(KeptValue::of_head())?,
                "replay_config" => {
                    head.replay_config = entries.next_value_seed(KeptValue::of_head())?;
                }
                "messages" => {
                    head.has_messages = true;
                    if head.is_own() {
                        head.is_done = true;
                        return Err(serde::de::Error::custom("the rest is not needed"));
                    }
                    entries.next_value_seed(ForeignSteps(head))?;
                }
                "trajectory" => {
                    head.is_sweagent = true;
                    entries.next_value_seed(CountedSteps(&mut head.steps))?;
                }
                "history" | "steps" => {
                    head.has_history |= name == "history";
                    entries.next_value_seed(ForeignSteps(head))?;
                }
                _ => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The messages or steps.
struct ForeignSteps<'f>(&'f mut ForeignHead);

impl<'de> DeserializeSeed<'de> for ForeignSteps<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ForeignSteps<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        loop {
            let mut seen = SeenStep::default();
            let seed = SeenPart {
                level: SeenLevel::Step,
                wants_text: self.0.task.is_empty(),
                seen: &mut seen,
            };
            if entries.next_element_seed(seed)?.is_none() {
                return Ok(());
            }
            self.0.take(seen);
        }
    }
}

/// The number of elements of a list.
struct CountedSteps<'n>(&'n mut u32);

impl<'de> DeserializeSeed<'de> for CountedSteps<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for CountedSteps<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of steps")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while entries.next_element::<IgnoredAny>()?.is_some() {
            *self.0 = self.0.saturating_add(1);
        }
        Ok(())
    }
}

/// What is read of a message or a step.
#[derive(Default)]
struct SeenStep {
    role: String,
    source: String,
    object: String,
    interrupt: String,
    exit_status: String,
    text: String,
    time: Option<f64>,
    cost: Option<f64>,
    calls: Option<u64>,
    is_demo: bool,
    usage: Option<Usage>,
}

/// Where in a message or a step a value is.
#[derive(Clone, Copy)]
enum SeenLevel {
    Step,
    Extra,
    Response,
    Metrics,
}

/// A part of a message or a step; one of another type is passed over.
struct SeenPart<'s> {
    level: SeenLevel,
    wants_text: bool,
    seen: &'s mut SeenStep,
}

impl<'de> DeserializeSeed<'de> for SeenPart<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for SeenPart<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        use SeenLevel::{Extra, Metrics, Response, Step};
        let Self {
            level,
            wants_text,
            seen,
        } = self;
        while let Some(name) = entries.next_key::<String>()? {
            match (level, name.as_str()) {
                (Step, "content" | "message") if wants_text => {
                    let found = entries.next_value_seed(KeptText)?;
                    if !found.is_empty() {
                        seen.text = found;
                    }
                }
                (Step, "role") => seen.role = word(&mut entries)?,
                (Step, "source") => seen.source = word(&mut entries)?,
                (Step, "is_demo") => seen.is_demo = small(&mut entries)? == true,
                (Step, "object") => seen.object = word(&mut entries)?,
                (Step, "timestamp") => seen.time = from_iso(&word(&mut entries)?),
                (Step, "llm_call_count") => seen.calls = small(&mut entries)?.as_u64(),
                (Step | Response, "usage") => {
                    let usage = small(&mut entries)?;
                    seen.usage = usage_of(&serde_json::json!({ "usage": usage }));
                }
                (Step, "extra" | "metrics") => entries.next_value_seed(SeenPart {
                    level: if name == "extra" { Extra } else { Metrics },
                    wants_text,
                    seen,
                })?,
                (Metrics, "prompt_tokens" | "completion_tokens") => {
                    let count = small(&mut entries)?.as_u64().unwrap_or_default();
                    let usage = seen.usage.get_or_insert_default();
                    match name.as_str() {
                        "prompt_tokens" => usage.input_tokens = count,
                        _ => usage.output_tokens = count,
                    }
                }
                (Metrics, "cost_usd") => seen.cost = small(&mut entries)?.as_f64(),
                (Extra, "timestamp") => seen.time = small(&mut entries)?.as_f64(),
                (Extra, "cost") => seen.cost = small(&mut entries)?.as_f64(),
                (Extra, "interrupt_type") => seen.interrupt = word(&mut entries)?,
                (Extra, "exit_status") => seen.exit_status = word(&mut entries)?,
                (Extra, "response") => entries.next_value_seed(SeenPart {
                    level: Response,
                    wants_text,
                    seen,
                })?,
                _ => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while entries.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    pass_over_scalars!();

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

/// A short text; empty if it is something else.
fn word<'de, A: MapAccess<'de>>(entries: &mut A) -> Result<String, A::Error> {
    match small(entries)? {
        Value::String(text) => Ok(text),
        _ => Ok(String::new()),
    }
}

/// A short value; a long one is cut.
fn small<'de, A: MapAccess<'de>>(entries: &mut A) -> Result<Value, A::Error> {
    entries.next_value_seed(KeptValue::of_step())
}
