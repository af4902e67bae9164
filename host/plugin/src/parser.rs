//! `action-parser` plugins as [`roles::Parser`](mswea_core::Parser).

use async_trait::async_trait;

use super::bindings::parser::ParserKind;
use super::bindings::parser::exports::mswea::plugin::action_parser as wit;
use super::convert;
use super::error::LoadError;
use super::instance::{PluginInstance, Recipe};
use super::quoted::bound;
use mswea_core::{Outcome, Parser, PluginFault, Problem, Reply, Tool};

/// The longest `problem.details`, which may quote the commands that were found.
const DETAILS: usize = 1 << 20;

/// An action parser in a WebAssembly component.
pub struct WasmParser {
    instance: PluginInstance<ParserKind>,
    tools: Vec<Tool>,
}

impl WasmParser {
    /// Makes and configures an instance, and reads its tools.
    ///
    /// # Errors
    /// [`LoadError`] if the plugin is no parser, can't be instantiated, or refuses the config.
    pub async fn start(recipe: Recipe) -> Result<Self, LoadError> {
        let mut instance = PluginInstance::new(recipe);
        instance.warm_up().await?;
        let name = instance.name().to_owned();
        let tools = tools(&mut instance)
            .await
            .map_err(|fault| LoadError::Failed {
                plugin: name,
                detail: fault.message,
            })?;
        Ok(Self { instance, tools })
    }
}

async fn tools(instance: &mut PluginInstance<ParserKind>) -> Result<Vec<Tool>, PluginFault> {
    let deadline = instance.deadline();
    let mut live = instance.take().await?;
    let result = PluginInstance::<ParserKind>::bounded(
        deadline,
        live.kind
            .mswea_plugin_action_parser()
            .call_tools(&mut live.store),
    )
    .await;
    instance
        .settle(live, "tools", false, result)?
        .into_iter()
        .map(convert::tool_in)
        .collect::<Result<_, _>>()
        .map_err(|broken| instance.broken(broken, "tools"))
}

#[async_trait]
impl Parser for WasmParser {
    fn name(&self) -> &str {
        self.instance.name()
    }

    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    async fn parse(&mut self, reply: &Reply) -> Result<Outcome, PluginFault> {
        let deadline = self.instance.deadline();
        let reply = convert::reply_out(reply);
        let mut live = self.instance.take().await?;
        let result = PluginInstance::<ParserKind>::bounded(
            deadline,
            live.kind
                .mswea_plugin_action_parser()
                .call_parse(&mut live.store, &reply),
        )
        .await;
        match self.instance.settle(live, "parse", false, result)? {
            Ok(outcome) => {
                outcome_in(outcome).map_err(|broken| self.instance.broken(broken, "parse"))
            }
            Err(error) => Err(self.instance.reported(&error, "parse")),
        }
    }
}

fn outcome_in(outcome: wit::Outcome) -> Result<Outcome, convert::Broken> {
    Ok(match outcome {
        wit::Outcome::Actions(actions) => Outcome::Actions(
            actions
                .into_iter()
                .map(convert::action_in)
                .collect::<Result<_, _>>()?,
        ),
        wit::Outcome::Malformed(problem) => {
            let size = problem.details.as_ref().map_or(0, String::len);
            if size > DETAILS {
                return Err(format!(
                    "`problem.details` has {size} bytes, and {DETAILS} are allowed"
                ));
            }
            Outcome::Malformed(Problem {
                code: bound(&problem.code),
                message: bound(&problem.message),
                details: convert::object_in("problem.details", problem.details)?,
            })
        }
    })
}
