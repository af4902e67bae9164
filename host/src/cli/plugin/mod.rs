//! `plugin ...`: one file for each subcommand.

mod author;
mod bench;
mod cache;
mod call;
mod check;
mod diff;
mod look;
mod pin;

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::args::{CacheCommand, PluginCommand};
use super::exit::ExitCode;
use super::output::{self, Failure};
use mswea_core::Refused;
use mswea_files as regular_file;
use mswea_plugin_host::{Cache, LoadError, Loader, Plugin};

/// Runs the subcommand.
pub fn run(command: &PluginCommand) -> Result<ExitCode, Failure> {
    match command {
        PluginCommand::List { json } => look::list(*json),
        PluginCommand::Inspect { plugin, wit, json } => look::inspect(plugin, *wit, *json),
        PluginCommand::New(args) => author::new(args),
        PluginCommand::Build(args) => author::build(args),
        PluginCommand::Call(args) => call::run(args),
        PluginCommand::Bench(args) => bench::run(args),
        PluginCommand::Diff(args) => diff::run(args),
        PluginCommand::Check(args) => check::run(args),
        PluginCommand::Cache(CacheCommand::List { json }) => cache::list(*json),
        PluginCommand::Cache(CacheCommand::Clear) => cache::clear(),
        PluginCommand::Pin(args) => pin::run(args),
    }
}

/// Loads a plugin by name or file.
async fn load_with(loader: &Loader, spec: &str) -> Result<Arc<Plugin>, Failure> {
    let plugin = loader
        .load(spec)
        .await
        .map_err(|error: LoadError| Failure::new(ExitCode::Plugin, error.to_string()))?;
    Ok(plugin)
}

/// Loads the plugin with the user's cache; shows how long it took if that was long.
fn load(spec: &str) -> Result<Arc<Plugin>, Failure> {
    load_from(spec, None)
}

/// The same for a plugin that may read this folder.
fn load_from(spec: &str, source: Option<&Path>) -> Result<Arc<Plugin>, Failure> {
    let mut loader = Loader::new(Cache::of_user());
    if let Some(folder) = source {
        if !folder.is_dir() {
            return Err(Failure::usage(format!(
                "`--source {}` is not a folder: name the project's",
                folder.display()
            )));
        }
        loader = loader.lending(folder);
    }
    let plugin = output::runtime()?.block_on(load_with(&loader, spec))?;
    if let Some(text) = loader.compiled() {
        output::note(&text);
    }
    Ok(plugin)
}

/// A config from the command line: JSON, or a file with JSON.
fn config(given: Option<&str>) -> Result<Value, Failure> {
    let Some(given) = given else {
        return Ok(Value::Object(Map::new()));
    };
    let (text, from) = if given.trim_start().starts_with('{') {
        (given.to_owned(), "the config".to_owned())
    } else {
        let path = given.strip_prefix('@').unwrap_or(given);
        let text = regular_file::read_text(Path::new(path), regular_file::SETTINGS).map_err(|error| {
            Failure::usage(format!(
                "can't read the config `{path}`: {error}: give a JSON object, or a file that holds one"
            ))
        })?;
        (text, format!("`{path}`"))
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok(Value::Object(object)),
        Ok(_) => Err(Failure::usage(format!("{from} is not a JSON object"))),
        Err(error) => Err(Failure::usage(format!("{from} is not JSON: {error}"))),
    }
}

/// The remedy for a config that is refused.
fn hint(refused: &Refused) -> &'static str {
    match refused {
        Refused::Config { .. } => ": give a config with `--config JSON`",
        Refused::Failed(_) => "",
    }
}
