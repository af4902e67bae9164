//! A small, honest plugin of every kind, and the faults that its config plants in it: the tests
//! of the conformance kit load it. Each fault is one that authors make; without any, the plugin
//! keeps every law.

mod kinds;
mod model;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use mswea_sdk::types::{Message, PluginError};
use mswea_sdk::{Descriptor, Plugin, from_config};
use serde::Deserialize;
use serde_json::{Value, json};

/// How many of anything a cramped plugin has room for.
const ROOM: usize = 150;
/// What stands for the output in a template.
const OUTPUT: &str = "{{output}}";

/// Whether the instance was configured: what `describe` may not know.
static CONFIGURED: AtomicBool = AtomicBool::new(false);

/// What is wrong with it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
enum Fault {
    /// Every answer says which call of the instance it is.
    Counts,
    /// Something of an instance's first call is in all of its answers.
    Remembers,
    /// It traps where there is more than [`ROOM`] of something.
    Cramped,
    /// Tool calls and what belongs to them are torn apart.
    Unpairs,
    /// Messages that were changed have lost their `extra`.
    ForgetsExtra,
    /// The processor's change starts behind the end of its view.
    Overreaches,
    /// The processor asks until it likes the answer, and it never does.
    Nags,
    /// Each piece of a response is decoded on its own.
    DecodesPieces,
    /// A response begins where the last one broke off.
    Stale,
    /// Requests go to a host that nobody named.
    Strays,
    /// A config that the schema takes is refused.
    Refuses,
    /// A template that is none is taken.
    Lax,
    /// `describe` says something else of a configured instance.
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
    /// For the faults alone: how many calls there were, and what was first.
    calls: usize,
    first: Option<Message>,
    /// What a processor and an adapter know of the history.
    history: Vec<Message>,
    view: Vec<Message>,
    status: u16,
    body: Vec<u8>,
}

impl Faulty {
    fn has(&self, fault: Fault) -> bool {
        self.config.faults.contains(&fault)
    }

    /// Traps if there is no room for so many.
    fn make_room(&self, count: usize) {
        assert!(
            !self.has(Fault::Cramped) || count <= ROOM,
            "no room for {count}"
        );
    }

    /// What a faulty instance adds to its answer to a call with this text; nothing for an honest
    /// one.
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

    /// A history whose first message may be the one that this instance saw first.
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
                // Required, so that nothing is examined without the faults that are wanted.
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
        };
        let rest = plugin.config.observation.replace(OUTPUT, "");
        plugin.make_room(rest.lines().count());
        if !plugin.has(Fault::Lax) && (rest.contains("{{") || rest.contains("{%")) {
            let message = format!("`observation` may have no other tag than `{OUTPUT}`");
            return Err(PluginError::invalid_config(message).at("/observation"));
        }
        if plugin.has(Fault::Refuses) && plugin.config.asks {
            return Err(PluginError::invalid_config("`asks` is not liked").at("/asks"));
        }
        CONFIGURED.store(plugin.has(Fault::TellsConfig), Ordering::Relaxed);
        Ok(plugin)
    }
}

mswea_sdk::export!(
    adapter: Faulty,
    parser: Faulty,
    formatter: Faulty,
    processor: Faulty,
    policy: Faulty
);
