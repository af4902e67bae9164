//! SWE-agent's eleven action parsers in one component: the config's `type` selects one.
//!
//! They were written from test vectors of SWE-agent's parsers. Where those behave unexpectedly,
//! these do what is obviously intended, and `compat` restores SWE-agent's behaviour.

mod arguments;
mod calls;
mod commands;
mod fences;
mod format;
mod guard;
mod heredoc;
mod manifest;
mod parsed;
mod problem;
mod python;
mod signature;
mod tags;
mod text;

use commands::Table;
use manifest::Command;
use mswea_sdk::parser::Outcome;
use mswea_sdk::types::{Action, PluginError, Reply, Tool};
use mswea_sdk::{Descriptor, Parser, Plugin, from_config};
use parsed::Parsed;
use problem::{Code, Fault};
use serde::Deserialize;
use serde_json::{Value, json};

/// The JSON Schema of the config.
const SCHEMA: &str = include_str!("../schema.json");

/// The parsers, by SWE-agent's names.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Kind {
    #[default]
    FunctionCalling,
    ThoughtAction,
    EditFormat,
    XmlThoughtAction,
    XmlFunctionCalling,
    Json,
    Action,
    ActionOnly,
    Identity,
    AllBashCodeBlocks,
    SingleBashCodeBlock,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    #[serde(rename = "type")]
    kind: Kind,
    commands: Vec<Command>,
    bash_tool: bool,
    compat: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            kind: Kind::default(),
            commands: Vec::new(),
            bash_tool: true,
            compat: false,
        }
    }
}

/// The plugin: one of the parsers, and its commands.
pub struct SweAgentParser {
    kind: Kind,
    table: Table,
    compat: bool,
}

impl Plugin for SweAgentParser {
    fn describe() -> Descriptor {
        let mut descriptor = Descriptor::new(
            "swe_agent_parsers",
            env!("CARGO_PKG_VERSION"),
            "Finds the command of a reply as one of SWE-agent's eleven parsers does",
        );
        // As a text it is a tenth of the size of code that builds it.
        descriptor.config_schema = SCHEMA.to_owned();
        descriptor
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let config: Config = from_config(config)?;
        let Config {
            kind,
            commands,
            bash_tool,
            compat,
        } = config;
        // The other parsers run any text that they find, which needs the shell.
        let may_lack_bash = match kind {
            Kind::FunctionCalling | Kind::Json => true,
            Kind::XmlFunctionCalling | Kind::Action => !compat,
            _ => false,
        };
        if !bash_tool && !may_lack_bash {
            return Err(PluginError::invalid_config(
                "`bash_tool` can't be false here: this parser hands text to the shell; leave it \
                 out, or take `function_calling` or `json`",
            )
            .at("/bash_tool"));
        }
        Ok(Self {
            kind,
            table: Table::new(commands, bash_tool, compat)?,
            compat,
        })
    }
}

impl SweAgentParser {
    fn find(&self, reply: &Reply) -> Result<Parsed, Fault> {
        let text = || reply.message.text();
        let (table, compat) = (&self.table, self.compat);
        match self.kind {
            Kind::FunctionCalling => calls::function(reply, table, compat),
            Kind::ThoughtAction => text::fenced(&text(), "the command", compat),
            Kind::EditFormat => text::fenced(&text(), "the new text", compat),
            Kind::XmlThoughtAction => text::tagged(&text(), compat),
            Kind::XmlFunctionCalling => calls::xml_function(&text(), table, compat),
            Kind::Json => calls::json(&text(), table, compat),
            Kind::Action => text::known_action(&text(), table, compat),
            Kind::ActionOnly => Ok(Parsed::new("", text())),
            Kind::Identity => Ok(Parsed::new(text(), text())),
            Kind::AllBashCodeBlocks => text::bash(&text(), false, compat),
            Kind::SingleBashCodeBlock => text::bash(&text(), true, compat),
        }
    }
}

impl Parser for SweAgentParser {
    fn tools(&self) -> Vec<Tool> {
        match self.kind {
            Kind::FunctionCalling => self.table.tools(),
            _ => Vec::new(),
        }
    }

    fn parse(&mut self, reply: Reply) -> Result<Outcome, PluginError> {
        let found = self.find(&reply).and_then(|parsed| {
            match guard::unended(&parsed.command, &self.table) {
                Some((name, end)) if !self.compat => Err(Fault::new(
                    Code::MissingArg,
                    format!(
                        "The text of `{name}` has no end, so nothing was changed: write the text in the lines after \
                         `{name}`, and `{end}` in a line of its own behind it."
                    ),
                )),
                _ => Ok(parsed),
            }
        });
        match found {
            Ok(parsed) => {
                let command = match self.compat {
                    true => guard::guard_as_they_do(&parsed.command, &self.table),
                    false => guard::guard(&parsed.command, &self.table),
                };
                let thought = json!({ "thought": parsed.thought }).to_string();
                Ok(Outcome::Actions(vec![Action {
                    command,
                    tool_call_id: parsed.call,
                    extra: Some(thought),
                }]))
            }
            Err(fault) => {
                let hide_code = self.compat && self.kind != Kind::FunctionCalling;
                fault.outcome(&reply, hide_code)
            }
        }
    }
}

mswea_sdk::export!(parser: SweAgentParser);

#[cfg(test)]
mod tests;
