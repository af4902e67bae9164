//! The small commands on files.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use crate::cli::args::DemoFileArgs;
use crate::cli::exit::ExitCode;
use crate::cli::output::{self, Failure};
use mswea_sweagent::tidy;

pub(super) fn merge(folders: &[PathBuf], output: Option<&Path>) -> Result<ExitCode, Failure> {
    let (merged, notes) = tidy::merge_predictions(folders)?;
    for note in notes {
        output::warning(&note);
    }
    if merged.is_empty() {
        output::warning("there are no predictions (`*.pred`) in these folders; nothing is written");
        return Ok(ExitCode::Submitted);
    }
    let file = match (output, folders) {
        (Some(file), _) => file.to_owned(),
        (None, [first, ..]) => first.join("preds.json"),
        (None, []) => "preds.json".into(),
    };
    let count = merged.len();
    write_json(&file, &Value::Object(merged))?;
    output::note(&format!("{count} predictions: {}", file.display()));
    Ok(ExitCode::Submitted)
}

pub(super) fn extract(path: &Path) -> Result<ExitCode, Failure> {
    let (file, prediction) = tidy::extract_prediction(path)?;
    write(&file, &prediction.to_string())?;
    output::note(&format!("prediction: {}", file.display()));
    Ok(ExitCode::Submitted)
}

pub(super) fn statistics(folder: &Path) -> Result<ExitCode, Failure> {
    let stats = tidy::quick_stats(folder)?;
    for note in &stats.notes {
        output::warning(note);
    }
    let Some(average) = stats.average_calls else {
        return output::text("There are no trajectories (`*.traj`) with statistics.\n");
    };
    output::note(&format!("queries on average: {average:.1}"));
    let mut text = String::new();
    for status in &stats.statuses {
        output::note(&format!("{}: {}", status.name, status.count));
        let places = status.places.join(" ");
        text.push_str(&format!("\n## `{}`\n\n{places}\n", status.name));
    }
    output::text(&text)
}

pub(super) fn compare(paths: &[PathBuf], show_same: bool) -> Result<ExitCode, Failure> {
    let runs: Result<Vec<_>, _> = paths.iter().map(|path| tidy::evaluated(path)).collect();
    output::text(&tidy::comparison(&runs?, show_same))
}

pub(super) fn remove_unfinished(base: &Path, remove: bool) -> Result<ExitCode, Failure> {
    let (folders, notes) = tidy::unfinished(base)?;
    for note in &notes {
        output::warning(note);
    }
    let mut text = String::new();
    for folder in &folders {
        text.push_str(&format!("{}\n", folder.display()));
        if remove {
            mswea_executor::remove_tree(folder)
                .with_context(|| format!("can't remove `{}`", folder.display()))?;
        }
    }
    let count = folders.len();
    output::note(&match remove {
        true => format!("removed: {count}"),
        false => format!("unfinished: {count}; `--remove` removes them"),
    });
    output::text(&text)
}

pub(super) fn demonstrate(args: &DemoFileArgs) -> Result<ExitCode, Failure> {
    let demo = tidy::demonstration(
        &args.traj_path,
        &args.output_dir,
        &args.suffix,
        args.include_user,
    );
    let (file, demo) = demo?;
    if file.exists() && !args.overwrite {
        return Err(Failure::usage(format!(
            "the file `{}` is there already\nhint: `--overwrite` replaces it",
            file.display()
        )));
    }
    let head = format!(
        "# A demonstration, made of the trajectory {}.\n# It is JSON, which is YAML, too. Only the replies (role `assistant`) are used again.\n",
        mswea_text::one_line(&args.traj_path.display().to_string())
    );
    let body = serde_json::to_string_pretty(&demo).context("can't write JSON")?;
    write(&file, &format!("{head}{body}\n"))?;
    output::note(&format!("demonstration: {}", file.display()));
    Ok(ExitCode::Submitted)
}

/// Writes indented JSON.
pub(super) fn write_json(file: &Path, value: &Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).context("can't write JSON")?;
    write(file, &text)
}

/// Writes a file, and makes its folder.
pub(super) fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(file, text));
    written.with_context(|| format!("can't write `{}`", file.display()))?;
    Ok(())
}
