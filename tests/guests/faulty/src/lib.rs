//! A small plugin of every kind for the tests of the conformance kit. Its config switches on faults that
//! authors make; without them, the plugin keeps every law.

mod kinds;
mod model;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use mswea_sdk::types::{Message, PluginError};
use mswea_sdk::{Descriptor, Plugin, from_config};
use serde::Deserialize;
use serde_json::{Value, json};

/// The largest number of anything that a cramped plugin accepts.
const ROOM: usize = 150;
/// The placeholder of the output in a template.
const OUTPUT: &str = "{{output}}";

/// Whether the instance was configured. `describe` must not depend on it.
static CONFIGURED: AtomicBool = AtomicBool::new(false);

/// The faults.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
enum Fault {
    /// Every answer has the number of the instance's call.
    Counts,
    /// Every answer depends on the instance's first call.
    Remembers,
    /// A call with more than [`ROOM`] of something traps.
    Cramped,
    /// Tool calls are separated from their results.
    Unpairs,
    /// Changed messages lose their `extra`.
    ForgetsExtra,
    /// The processor's change starts behind the end of its view.
    Overreaches,
    /// The processor asks again after every answer.
    Nags,
    /// Each piece of a response is decoded on its own.
    DecodesPieces,
    /// Bytes of a response that broke off are left in front of the next one.
    Stale,
    /// Requests go to a host that neither the descriptor nor the config names.
    Strays,
    /// A body in pieces keeps the last body also after the history has changed.
    KeepsWrong,
    /// A config that the schema accepts is refused.
    Refuses,
    /// A template with errors is accepted.
    Lax,
    /// `describe` returns another summary after `configure`.
    TellsConfig,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    faults: BTreeSet<Fault>,
    asks: bool,
    observation: String,
}

/// The plugin.
struct Faulty {
    config: Config,
    /// For the faults alone: the number of calls, and the first message.
    calls: usize,
    first: Option<Message>,
    /// The history, as the host has passed it to a processor or an adapter.
    history: Vec<Message>,
    view: Vec<Message>,
    status: u16,
    body: Vec<u8>,
    /// How many bytes of the last body the host holds, if it takes the next one in pieces.
    held: Option<u64>,
    /// The body of the last request, and that of the request before it.
    sent: Vec<u8>,
    sent_before: Vec<u8>,
}

impl Faulty {
    fn has(&self, fault: Fault) -> bool {
        self.config.faults.contains(&fault)
    }

    /// Traps if a cramped plugin gets more than [`ROOM`].
    fn make_room(&self, count: usize) {
        assert!(
            !self.has(Fault::Cramped) || count <= ROOM,
            "no room for {count}"
        );
    }

    /// The text that a fault adds to the answer to a call with `text`; empty without such a fault.
    fn mark(&mut self, text: &str) -> String {
        if self.has(Fault::Counts) {
            self.calls += 1;
            return format!(" (call {})", self.calls);
        }
        if self.has(Fault::Remembers) {
            let first = self.first.get_or_insert_with(|| Message::new("", text));
            return format!(" (at first {} bytes)", first.text().len());
        }
        String::new()
    }

    /// The history; with [`Fault::Remembers`], with the first message of the instance's first call.
    fn remembered(&mut self, mut history: Vec<Message>) -> Vec<Message> {
        if self.has(Fault::Remembers)
            && let Some(now) = history.first_mut()
        {
            *now = self.first.get_or_insert_with(|| now.clone()).clone();
        }
        history
    }
}

impl Plugin for Faulty {
    fn describe() -> Descriptor {
        let summary = match CONFIGURED.load(Ordering::Relaxed) {
            true => "Has been configured",
            false => "Has the faults that its config plants",
        };
        Descriptor::new("faulty", "0.1.0", summary)
            .config_schema(&json!({
                "type": "object",
                "additionalProperties": false,
                // Required, so that the kit never examines the plugin without the planted faults.
                "required": ["faults"],
                "properties": {
                    "faults": {"type": "array", "items": {"type": "string"}},
                    "asks": {"type": "boolean", "default": false},
                    "observation": {"type": "string", "format": "template", "default": OUTPUT},
                },
            }))
            .secret("FAULTY_API_KEY")
            .host("api.faulty.example")
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let config: Config = from_config(config)?;
        let plugin = Self {
            config,
            calls: 0,
            first: None,
            history: Vec::new(),
            view: Vec::new(),
            status: 0,
            body: Vec::new(),
            held: None,
            sent: Vec::new(),
            sent_before: Vec::new(),
        };
        let rest = plugin.config.observation.replace(OUTPUT, "");
        plugin.make_room(rest.lines().count());
        if !plugin.has(Fault::Lax) && (rest.contains("{{") || rest.contains("{%")) {
            let message = format!("`observation` may have no other tag than `{OUTPUT}`");
            return Err(PluginError::invalid_config(message).at("/observation"));
        }
        if plugin.has(Fault::Refuses) && plugin.config.asks {
            return Err(PluginError::invalid_config("`asks` is refused").at("/asks"));
        }
        CONFIGURED.store(plugin.has(Fault::TellsConfig), Ordering::Relaxed);
        Ok(plugin)
    }
}

mswea_sdk::export!(
    adapter: Faulty,
    body_pieces: Faulty,
    parser: Faulty,
    formatter: Faulty,
    processor: Faulty,
    policy: Faulty
);
