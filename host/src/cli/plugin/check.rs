//! `plugin check`: the conformance kit on a plugin.

use serde_json::Value;

use super::super::args::CheckArgs;
use super::super::exit::ExitCode;
use super::super::output::{self, Failure};
use super::{config, load_from};
use mswea_files as regular_file;
use mswea_laboratory::conformance::{Effort, ExaminationOptions, Samples, examine};
use mswea_session::outside;

/// Checks a plugin, and prints the report; the exit code is 7 if it breaks a law.
pub fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let plugin = load_from(&args.plugin, args.source.as_deref())?;
    let configs: Result<Vec<Value>, Failure> = args
        .configs
        .iter()
        .map(|given| config(Some(given)))
        .collect();
    let options = ExaminationOptions {
        configs: configs?,
        samples: samples(args)?,
        seed: args.seed,
        effort: match args.quick {
            true => Effort::Quick,
            false => Effort::Full,
        },
        ..ExaminationOptions::default()
    };
    let maker = outside::maker(plugin);
    let report = output::runtime()?.block_on(examine(&maker, &options));
    if args.json {
        output::json(&report.json())?;
    } else {
        output::text(&report.text())?;
    }
    Ok(match report.passed() {
        true => ExitCode::Submitted,
        false => ExitCode::Plugin,
    })
}

/// Reads the author's own inputs.
fn samples(args: &CheckArgs) -> Result<Samples, Failure> {
    let Some(path) = &args.samples else {
        return Ok(Samples::default());
    };
    let shown = path.display();
    let text = regular_file::read_text(path, regular_file::SETTINGS)
        .map_err(|error| Failure::usage(format!("can't read the samples `{shown}`: {error}")))?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!(
            "the samples `{shown}` are invalid: {error}: write an object with any of `replies`, `actions`, `steps`, `histories`, `responses`, `invalid_configs`"
        ))
    })
}
