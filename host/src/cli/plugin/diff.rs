//! `plugin diff`: two plugins on recorded runs.

use std::io::IsTerminal as _;
use std::sync::Arc;

use serde_json::Value;

use super::super::args::DiffArgs;
use super::super::exit::ExitCode;
use super::super::output::{self, Failure};
use super::{config, load};
use mswea_core::{ConfiguredRole, Maker as _, Tool};
use mswea_laboratory::experiment::{self, Comparison, DiffOptions, RecordedRuns, TextOptions};
use mswea_plugin_host::{Plugin, RoleKind};
use mswea_session::outside;

/// The number of columns if it is unknown.
const WIDTH: usize = 120;

/// Compares two plugins, or reads what shadows have found, and prints the report.
pub fn run(args: &DiffArgs) -> Result<ExitCode, Failure> {
    let found = match args.shadowed.is_empty() {
        true => vec![compare(args)?],
        false => Comparison::of_journals(&args.shadowed)
            .map_err(|error| Failure::usage(error.to_string()))?,
    };
    if let Some(path) = &args.html {
        std::fs::write(path, Comparison::page(&found)).map_err(|error| {
            let path = path.display();
            let message = format!("can't write the report `{path}`: {error}");
            Failure::new(ExitCode::Failed, message)
        })?;
        output::note(&format!("wrote the report to `{}`", path.display()));
    }
    if args.json {
        // The comparison of two plugins is one, of shadows there are several.
        let all: Value = found.iter().map(Comparison::to_json).collect();
        output::json(if args.shadowed.is_empty() {
            &all[0]
        } else {
            &all
        })?;
    } else {
        let options = TextOptions {
            width: width(),
            max_shown: args.max_shown,
        };
        let texts: Vec<String> = found.iter().map(|one| one.to_text(options)).collect();
        output::text(&texts.join("\n"))?;
    }
    // The exit code for scripts.
    Ok(
        match args.exit_code && !found.iter().all(Comparison::agrees) {
            true => ExitCode::Failed,
            false => ExitCode::Submitted,
        },
    )
}

/// Compares two plugins on recorded runs.
fn compare(args: &DiffArgs) -> Result<Comparison, Failure> {
    // Without `--shadowed`, clap requires both.
    let [old, new] = [&args.old, &args.new].map(|name| load(name.as_deref().unwrap_or_default()));
    let (old, new) = (old?, new?);
    let kind = kind(args, &old, &new)?;
    let both = args.config.as_deref();
    let old_config = config(args.old_config.as_deref().or(both))?;
    let new_config = config(args.new_config.as_deref().or(both))?;
    let runs = RecordedRuns::load(&args.trajectories)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let options = DiffOptions {
        tools: match kind {
            RoleKind::ModelAdapter => tools()?,
            _ => Vec::new(),
        },
        ..DiffOptions::default()
    };
    experiment::diff(
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
    })
}

/// The tools that adapters offer: those of the default parser.
fn tools() -> Result<Vec<Tool>, Failure> {
    let maker = outside::maker(load("toolcall")?);
    let made = output::runtime()?.block_on(maker.make(
        RoleKind::ActionParser,
        &Value::Object(serde_json::Map::new()),
        false,
    ));
    Ok(match made {
        Ok(ConfiguredRole::Parser(parser)) => parser.tools().to_vec(),
        _ => Vec::new(),
    })
}

/// The kind that both have.
fn kind(args: &DiffArgs, old: &Arc<Plugin>, new: &Arc<Plugin>) -> Result<RoleKind, Failure> {
    let words = |kinds: &[RoleKind]| {
        let words: Vec<String> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
        words.join(" and ")
    };
    let common: Vec<RoleKind> = old
        .kinds
        .iter()
        .copied()
        .filter(|kind| new.kinds.contains(kind))
        .collect();
    if let Some(word) = &args.kind {
        // The short names of `plugin new` are accepted, too.
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
            "both have several kinds: choose one with `--kind`: {}",
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
