//! `batch compare`, `batch merge` and `batch export`: commands for batches that have ended.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::cli::args::{BatchCompareArgs, BatchExportArgs, BatchMergeArgs};
use crate::cli::atif::secrets_of;
use crate::cli::exit::ExitCode;
use crate::cli::front::{CostSum, dollars_text};
use crate::cli::output::{self, Failure};
use mswea_batch::{
    BatchComparison, TrainingExport, export_training, merge as merged, resolved_ids,
};
use mswea_export::SecretValues;
use serde_json::Value;

use super::look::state;
use super::run::failure;

/// Compares two batches instance by instance.
pub fn compare(args: &BatchCompareArgs) -> Result<ExitCode, Failure> {
    let first = state(&args.first)?;
    let second = state(&args.second)?;
    let resolved = [&args.resolved_first, &args.resolved_second].map(ids);
    let [one, other] = resolved;
    let (one, other) = (one?, other?);
    if one.is_some() != other.is_some() {
        return Err(Failure::usage(
            "one batch has an evaluation and the other one has none: give both `--resolved-first` and `--resolved-second`",
        ));
    }
    let made = BatchComparison::of([&first, &second], [one.as_ref(), other.as_ref()]);
    if made.compared == 0 {
        return Err(Failure::usage(format!(
            "no instance has a result in both `{}` and `{}`",
            args.first.display(),
            args.second.display()
        )));
    }
    if args.json {
        let value = serde_json::to_value(&made)
            .map_err(|error| Failure::new(ExitCode::Failed, error.to_string()))?;
        return output::json(&value);
    }
    let word = if one.is_some() {
        "resolved"
    } else {
        "with a submission"
    };
    let mut text = format!(
        "{} instances have a result in both ({} only in the first, {} only in the second)\n\n",
        made.compared, made.only_in_first, made.only_in_second
    );
    let _ = writeln!(text, "{word:<28} FIRST  SECOND");
    let solved = [made.first.len(), made.second.len()].map(|own| own + made.both);
    let _ = writeln!(text, "{:<28} {:>5} {:>7}", "in all", solved[0], solved[1]);
    let _ = writeln!(
        text,
        "{:<28} {:>5} {:>7}",
        "alone",
        made.first.len(),
        made.second.len()
    );
    let _ = writeln!(text, "{:<28} {:>5} {:>7}", "both", made.both, made.both);
    let _ = writeln!(
        text,
        "{:<28} {:>5} {:>7}",
        "neither", made.neither, made.neither
    );
    let costs = [0, 1].map(|place| {
        let sum = CostSum {
            dollars: made.cost[place],
            count: made.compared,
            unknown: made.cost_unknown[place],
        };
        sum.known().map_or_else(|| "?".to_owned(), dollars_text)
    });
    let _ = writeln!(text, "{:<28} {:>5} {:>7}", "cost", costs[0], costs[1]);
    let _ = writeln!(
        text,
        "{:<28} {:>5} {:>7}",
        "steps", made.steps[0], made.steps[1]
    );
    if made.cost_unknown != [0, 0] {
        let [one, other] = made.cost_unknown;
        let _ = writeln!(
            text,
            "costs that are unknown, and not in the sums: {one} of the first, {other} of the second"
        );
    }
    let _ = writeln!(
        text,
        "\nexact sign test over the {} that differ: p = {:.4}",
        made.first.len() + made.second.len(),
        made.p_value
    );
    for (name, ids) in [("the first", &made.first), ("the second", &made.second)] {
        if !ids.is_empty() {
            let _ = writeln!(text, "\nonly {name}:\n  {}", ids.join("\n  "));
        }
    }
    output::text(&text)
}

fn ids(file: &Option<PathBuf>) -> Result<Option<HashSet<String>>, Failure> {
    let ids = file.as_deref().map(resolved_ids).transpose();
    ids.map_err(failure)
}

/// Merges batches.
pub fn merge(args: &BatchMergeArgs) -> Result<ExitCode, Failure> {
    let copied = merged(&args.into, &args.parts, args.config_changed).map_err(failure)?;
    output::text(&format!(
        "results copied: {copied}; `mswea-host batch report {}` shows all\n",
        args.into.display()
    ))
}

/// Writes the runs as training data.
pub fn export(args: &BatchExportArgs) -> Result<ExitCode, Failure> {
    let state = state(&args.dir)?;
    let resolved = ids(&args.resolved)?;
    if args.only_resolved && resolved.is_none() {
        return Err(Failure::usage(
            "`--only-resolved` needs `--resolved FILE`, which says which those are",
        ));
    }
    let mut bytes = Vec::new();
    let is_wanted = |result: &mswea_batch::BatchResult| {
        let is_resolved = || {
            resolved
                .as_ref()
                .is_some_and(|ids| ids.contains(&result.instance_id))
        };
        let has_status = args.status.is_empty() || args.status.contains(&result.exit_status);
        has_status && (!args.only_resolved || is_resolved())
    };
    // Nearly always, all runs of a batch have one config.
    let mut known: Option<(Value, SecretValues)> = None;
    let clean = |line: &mut Value, config: &Value| {
        let file = &config["model"]["secrets_file"];
        let secrets = match known.take() {
            Some(known) if known.0 == *file => known,
            _ => (file.clone(), secrets_of(config)),
        };
        secrets.1.remove_from_value(line);
        known = Some(secrets);
    };
    let resolved_ids = resolved.as_ref();
    let made = export_training(
        &args.dir,
        &state,
        resolved_ids,
        is_wanted,
        clean,
        &mut bytes,
    );
    let made: TrainingExport = made.map_err(failure)?;
    if made.without_trajectory > 0 {
        output::warning(&format!(
            "results without a trajectory, which are left out: {}",
            made.without_trajectory
        ));
    }
    output::data(|out| out.write_all(&bytes))
}
