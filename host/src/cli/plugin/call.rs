//! `plugin call`: calls one function of a plugin.

use std::io::Read as _;

use serde_json::{Value, json};

use super::super::args::CallArgs;
use super::super::exit::ExitCode;
use super::super::output::{self, Failure};
use super::{config, hint, load_from};
use mswea_plugin_host::{ByHand, CallError};
use mswea_session::outside;

/// Functions that are called before the plugin is configured.
const BARE: [&str; 2] = ["describe", "configure"];

/// Calls the function, and prints the result as JSON.
pub fn run(args: &CallArgs) -> Result<ExitCode, Failure> {
    let plugin = load_from(&args.plugin, args.source.as_deref())?;
    let mut calls = vec![(args.function.clone(), arguments(args.arguments.as_deref())?)];
    for then in &args.then {
        let (function, text) = then.split_once('=').unwrap_or((then, ""));
        let text = Some(text).filter(|text| !text.is_empty());
        calls.push((function.to_owned(), arguments(text)?));
    }
    let bare = BARE.contains(&args.function.as_str()) && args.config.is_none();
    let config = config(args.config.as_deref())?;
    let maker = outside::maker(plugin);
    let recipe = match bare {
        true => maker.bare_recipe(),
        false => maker.recipe(&config, false).map_err(|refused| {
            Failure::new(
                ExitCode::Plugin,
                format!(
                    "the plugin can't be configured: {refused}{}",
                    hint(&refused)
                ),
            )
        })?,
    };
    output::runtime()?.block_on(async {
        let mut by_hand = ByHand::start(recipe, bare).await.map_err(failed)?;
        let mut code = ExitCode::Submitted;
        for (function, arguments) in &calls {
            match by_hand.call(function, arguments).await {
                Ok(value) => {
                    output::json(&value)?;
                }
                // An error that the function returns is a result, too, and is printed as data.
                Err(CallError::Answered { error, .. }) => {
                    output::json(&json!({ "err": error }))?;
                    code = ExitCode::Plugin;
                }
                Err(error) => {
                    told(&by_hand);
                    return Err(failed(error));
                }
            }
            told(&by_hand);
        }
        Ok(code)
    })
}

/// Prints the plugin's output, which users of `plugin call` need, especially after a failure.
fn told(by_hand: &ByHand) {
    let written = by_hand.written();
    if !written.is_empty() {
        output::note(&format!("the plugin wrote:\n{written}"));
    }
}

fn failed(error: CallError) -> Failure {
    let code = match &error {
        CallError::Unknown { .. } | CallError::Input { .. } => ExitCode::Usage,
        _ => ExitCode::Plugin,
    };
    Failure::new(code, error.to_string())
}

/// The arguments as JSON, from the command line or from stdin.
fn arguments(given: Option<&str>) -> Result<Value, Failure> {
    let text = match given {
        None => return Ok(Value::Null),
        Some("-") => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::usage(format!("can't read stdin: {error}")))?;
            text
        }
        Some(text) => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!(
            "the arguments are not JSON: {error}: quote the whole for the shell, as in '{{\"message\": {{\"content\": \"...\"}}}}'"
        ))
    })
}
