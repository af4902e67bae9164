//! `plugin diff`: two plugins on recorded runs.

use std::io::IsTerminal as _;
use std::sync::Arc;

use serde_json::Value;

use super::super::args::DiffArgs;
use super::super::exit::ExitCode;
use super::super::output::{self, Failure};
use super::{config, load};
use crate::experiment::{self, Comparison, Options, Recorded, TextOptions};
use crate::plugin::{Kind, Plugin};
use crate::roles::{Made, Maker as _, Tool};
use crate::session::outside;

/// Columns where nobody says how many there are.
const WIDTH: usize = 120;

/// Compares, and reports.
pub fn run(args: &DiffArgs) -> Result<ExitCode, Failure> {
    if !args.shadowed.is_empty() {
        return shadowed(args);
    }
    // clap wants both where there is no `--shadowed`.
    let (old, new) = (args.old.as_deref(), args.new.as_deref());
    let (old, new) = (
        load(old.unwrap_or_default())?,
        load(new.unwrap_or_default())?,
    );
    let kind = kind(args, &old, &new)?;
    let both = config(args.config.as_deref())?;
    let config_of = |own: Option<&str>| match own {
        Some(own) => config(Some(own)),
        None => Ok(both.clone()),
    };
    let old_config = config_of(args.old_config.as_deref())?;
    let new_config = config_of(args.new_config.as_deref())?;
    let runs =
        Recorded::load(&args.trajectories).map_err(|error| Failure::usage(error.to_string()))?;
    let options = Options {
        tools: match kind {
            Kind::ModelAdapter => tools()?,
            _ => Vec::new(),
        },
        ..Options::default()
    };
    let comparison = experiment::diff(
        Arc::new(outside::maker(old)),
        Arc::new(outside::maker(new)),
        &old_config,
        &new_config,
        kind,
        &runs,
        &options,
    )
    .map_err(|error| {
        let code = match &error {
            experiment::DiffError::Refused { .. } => ExitCode::Plugin,
            experiment::DiffError::Nothing { .. } => ExitCode::Usage,
            experiment::DiffError::Worker(_) => ExitCode::Failed,
        };
        Failure::new(code, error.to_string())
    })?;
    write_page(args, &comparison.to_html())?;
    let code = code(args, comparison.agrees());
    if args.json {
        output::json(&comparison.to_json())?;
        return Ok(code);
    }
    let text = comparison.to_text(TextOptions {
        width: width(),
        max_shown: args.max_shown,
    });
    output::text(&text)?;
    Ok(code)
}

/// For scripts that asked for it.
fn code(args: &DiffArgs, agree: bool) -> ExitCode {
    match args.exit_code && !agree {
        true => ExitCode::Failed,
        false => ExitCode::Submitted,
    }
}

/// What the shadows of recorded runs have found.
fn shadowed(args: &DiffArgs) -> Result<ExitCode, Failure> {
    let found = Comparison::of_journals(&args.shadowed)
        .map_err(|error| Failure::usage(error.to_string()))?;
    write_page(args, &Comparison::page(&found))?;
    let code = code(args, found.iter().all(Comparison::agrees));
    if args.json {
        output::json(&found.iter().map(Comparison::to_json).collect())?;
        return Ok(code);
    }
    let options = TextOptions {
        width: width(),
        max_shown: args.max_shown,
    };
    let texts: Vec<String> = found.iter().map(|one| one.to_text(options)).collect();
    output::text(&texts.join("\n"))?;
    Ok(code)
}

/// Writes the HTML report, if one is wanted.
fn write_page(args: &DiffArgs, page: &str) -> Result<(), Failure> {
    let Some(path) = &args.html else {
        return Ok(());
    };
    std::fs::write(path, page).map_err(|error| {
        Failure::new(
            ExitCode::Failed,
            format!("can't write the report `{}`: {error}", path.display()),
        )
    })?;
    output::note(&format!("wrote the report to `{}`", path.display()));
    Ok(())
}

/// What adapters are told to offer: what the default parser has.
fn tools() -> Result<Vec<Tool>, Failure> {
    let maker = outside::maker(load("toolcall")?);
    let made = output::runtime()?.block_on(maker.make(
        Kind::ActionParser,
        &Value::Object(serde_json::Map::new()),
        false,
    ));
    Ok(match made {
        Ok(Made::Parser(parser)) => parser.tools().to_vec(),
        _ => Vec::new(),
    })
}

/// The kind that both have.
fn kind(args: &DiffArgs, old: &Arc<Plugin>, new: &Arc<Plugin>) -> Result<Kind, Failure> {
    let words = |kinds: &[Kind]| {
        let words: Vec<String> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
        words.join(" and ")
    };
    let common: Vec<Kind> = old
        .kinds
        .iter()
        .copied()
        .filter(|kind| new.kinds.contains(kind))
        .collect();
    if let Some(word) = &args.kind {
        // As `plugin new` has them, too.
        let found = common.iter().find(|kind| {
            let name = kind.interface();
            name == word || name.split('-').any(|part| part == word)
        });
        return found.copied().ok_or_else(|| {
            Failure::usage(format!(
                "`--kind {word}`: `{}` is {}, `{}` is {}",
                old.name,
                words(&old.kinds),
                new.name,
                words(&new.kinds)
            ))
        });
    }
    match common.as_slice() {
        [kind] => Ok(*kind),
        [] => Err(Failure::usage(format!(
            "they can't be compared: `{}` is {}, `{}` is {}",
            old.name,
            words(&old.kinds),
            new.name,
            words(&new.kinds)
        ))),
        several => Err(Failure::usage(format!(
            "both are of several kinds: say with `--kind` which is meant, {}",
            words(several)
        ))),
    }
}

/// Columns of the terminal.
fn width() -> usize {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return WIDTH;
    }
    rustix::termios::tcgetwinsize(&out).map_or(WIDTH, |size| usize::from(size.ws_col).max(40))
}
