//! `config show` and `config schema`, and how every command reads the configuration.

use super::args::RunArgs;
use super::exit::ExitCode;
use super::output::{self, Failure};
use mswea_config::{Config, Layers, ProcessEnvironment, Sources};

/// The layers of the config, according to the flags.
pub fn layers(args: &RunArgs) -> Result<Layers, Failure> {
    let sources = Sources {
        configs: args.configs.clone(),
        no_default_config: args.no_default_config,
        flags: args
            .overrides()
            .into_iter()
            .map(|entry| (entry.key.to_owned(), entry.value, entry.flag.to_owned()))
            .collect(),
        ..Sources::default()
    };
    Layers::load(&sources, &ProcessEnvironment).map_err(|error| Failure::usage(error.to_string()))
}

/// Resolves the layers. If this fails, their warnings are shown too, because they may name the
/// cause.
pub fn resolve(layers: &Layers) -> Result<Config, Failure> {
    layers.resolve().map_err(|error| {
        for warning in layers.warnings() {
            output::warning(warning);
        }
        Failure::usage(error.to_string())
    })
}

/// Prints the configuration that a run with these flags would have.
pub fn show(args: &RunArgs, origin: bool) -> Result<ExitCode, Failure> {
    let layers = layers(args)?;
    resolve(&layers)?;
    if origin {
        output::note(&format!("layers: {}", layers.names().join(" < ")));
    }
    for notice in layers.notices() {
        output::note(&format!("note: {notice}"));
    }
    for warning in layers.warnings() {
        output::warning(warning);
    }
    let text = layers.show(origin);
    output::data(|out| out.write_all(text.as_bytes()))
}

/// Prints the JSON Schema of the configuration.
pub fn schema() -> Result<ExitCode, Failure> {
    let text = serde_json::to_string_pretty(&mswea_config::schema())
        .map_err(|error| Failure::new(ExitCode::Failed, error.to_string()))?;
    output::data(|out| writeln!(out, "{text}"))
}
