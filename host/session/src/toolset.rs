//! The tools that the config's section `[tools]` describes.

use mswea_config::Config;
use mswea_core::Object;
use mswea_run::AgentRules;
use mswea_tools::{LongOutputs, ToolsError, ToolsPlace, Toolset, ToolsetSettings};

use crate::wiring::seconds;
use crate::{Job, SetupError};

/// Reads the bundles; none if there are none.
///
/// # Errors
/// [`SetupError::Tools`] if a bundle can't be used.
pub(super) fn read(job: &Job<'_>) -> Result<Option<Toolset>, SetupError> {
    let config = &job.config.tools;
    // Without bundles, the executor of the tools checks the syntax of commands.
    let is_checked = job.config.environment.session && rules(job.config) == AgentRules::SweAgent;
    if config.bundles.is_empty() && !is_checked {
        return Ok(None);
    }
    let settings = ToolsetSettings {
        bundles: config.bundles.iter().map(Into::into).collect(),
        hidden: config.hidden.clone(),
        variables: config.env_variables.clone(),
        bash: config.bash_tool,
    };
    let read = Toolset::read(&settings).map_err(|error| SetupError::Tools {
        error,
        origin: job.origin("tools.bundles"),
    })?;
    let key = "tools.long_outputs";
    if config.long_outputs != "keep" && !read.has_command("open") {
        let message = format!(
            "`{}` needs the command `open`: add the bundle `windowed`",
            config.long_outputs
        );
        let error = ToolsError::Setting { key, message };
        let origin = job.origin(key);
        return Err(SetupError::Tools { error, origin });
    }
    Ok(Some(read))
}

/// The agent whose rules the run follows.
pub(super) fn rules(config: &Config) -> AgentRules {
    match config.agent.rules.as_str() {
        "swe-agent" => AgentRules::SweAgent,
        _ => AgentRules::Mini,
    }
}

/// The place of the tools in the environment.
pub(super) fn place(config: &Config, task: &str, run_id: &str) -> ToolsPlace {
    let tools = &config.tools;
    ToolsPlace {
        root: tools.root.trim_end_matches('/').to_owned(),
        variables: tools.env_variables.clone(),
        registry: tools.registry_variables.clone(),
        task: task.to_owned(),
        run_id: run_id.to_owned(),
        install_timeout: seconds(tools.install_timeout),
        state_timeout: seconds(tools.state_timeout),
        checks_syntax: rules(config) == AgentRules::SweAgent,
        reads_edited: rules(config) == AgentRules::SweAgent,
        command_timeout: seconds(config.environment.timeout),
        flag: tools.flag.clone(),
        long_outputs: (tools.long_outputs != "keep").then(|| LongOutputs {
            lines: tools.longest_output,
            is_summarised: tools.long_outputs == "summary",
        }),
    }
}

/// The variables that the tools add to templates: their documentation, and the tools' own
/// variables.
pub(super) fn variables(config: &Config, tools: Option<&Toolset>) -> Object {
    let Some(tools) = tools else {
        return Object::new();
    };
    let mut variables = Object::new();
    for (name, value) in &config.tools.env_variables {
        variables.insert(name.clone(), value.as_str().into());
    }
    variables.insert("command_docs".to_owned(), tools.documentation().into());
    variables
}
