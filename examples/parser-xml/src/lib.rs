//! A parser for mswea-host: the command stands between `<run>` and `</run>`.
use mswea_sdk::parser::{Outcome, Problem};
use mswea_sdk::types::{Action, PluginError, Reply};
use mswea_sdk::{Descriptor, Parser, Plugin};

struct Xml;

impl Plugin for Xml {
    fn describe() -> Descriptor {
        Descriptor::new("xml", "0.1.0", "Takes the command from `<run>...</run>`")
    }
    fn configure(_config: serde_json::Value) -> Result<Self, PluginError> {
        Ok(Self)
    }
}

impl Parser for Xml {
    fn parse(&mut self, reply: Reply) -> Result<Outcome, PluginError> {
        let text = reply.message.text();
        let rest = text.split_once("<run>").map_or("", |(_, rest)| rest);
        Ok(match rest.split_once("</run>") {
            Some((command, _)) => Outcome::Actions(vec![Action::new(command.trim())]),
            None => Problem::new("no-command", "Put one command into <run>...</run>.").into(),
        })
    }
}

mswea_sdk::export!(parser: Xml);
