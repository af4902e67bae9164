//! `export`: a recorded run in the formats of other programs, and as a page.

use std::path::Path;

use serde_json::Value;

use super::again::recorded;
use super::args::{ExportArgs, ExportFormat};
use super::atif::{clean_run, is_same, secrets, write};
use super::exit::ExitCode;
use super::output::{self, Failure};
use mswea_export::{
    Conversation, SecretValues, from_atif, from_sweagent, is_atif, is_sweagent, to_asciinema,
    to_atif, to_html, to_jsonl, to_markdown, to_sweagent,
};
use mswea_record::trajectory_beside;

/// Exports a run.
pub fn export(args: &ExportArgs) -> Result<ExitCode, Failure> {
    if let Some(output) = &args.output {
        check_output(output, &args.run)?;
    }
    let (run, secrets) = conversation(&args.run)?;
    let page = |mut text: String| {
        secrets.remove_from_text(&mut text);
        text
    };
    let object = |mut value: Value| {
        secrets.remove_from_value(&mut value);
        format!("{value:#}\n")
    };
    let text = match args.to {
        ExportFormat::Html => page(to_html(&run, args.focused)),
        ExportFormat::Md => page(to_markdown(&run, args.focused)),
        ExportFormat::Jsonl => secrets.remove_from_lines(&to_jsonl(&run)),
        ExportFormat::Asciinema => secrets.remove_from_lines(&to_asciinema(&run, args.focused)),
        ExportFormat::SweAgent => object(to_sweagent(&run)),
        ExportFormat::Atif => {
            let value = to_atif(&run);
            drop(run);
            object(value)
        }
    };
    match &args.output {
        None => output::data(|out| out.write_all(text.as_bytes())),
        Some(path) => {
            write(path, &text)?;
            Ok(ExitCode::Submitted)
        }
    }
}

/// Checks that the export does not replace a file of the run.
fn check_output(output: &Path, run: &Path) -> Result<(), Failure> {
    let journal = recorded(run).ok();
    let beside = journal.as_deref().and_then(trajectory_beside);
    let files = [Some(run.to_owned()), journal, beside];
    match files.iter().flatten().any(|file| is_same(output, file)) {
        true => Err(Failure::usage(format!(
            "`{}` is a file of the run itself: name another one with `-o`",
            output.display()
        ))),
        false => Ok(()),
    }
}

/// The run in a file of any supported format, without secrets, and the secrets.
fn conversation(named: &Path) -> Result<(Conversation, SecretValues), Failure> {
    let Some(value) = foreign(named) else {
        return clean_run(&recorded(named)?);
    };
    let mut run = match is_sweagent(&value) {
        true => from_sweagent(&value),
        false => from_atif(&value)
            .map_err(|error| Failure::usage(format!("`{}`: {error}", named.display())))?,
    };
    let secrets = secrets();
    secrets.remove_from(&mut run);
    Ok((run, secrets))
}

/// A trajectory of ATIF or SWE-agent; none for any other file.
fn foreign(path: &Path) -> Option<Value> {
    // A journal's name: the file is not parsed here, because it may be large.
    if path.extension()? != "json" && path.extension()? != "traj" {
        return None;
    }
    let bytes = mswea_files::read(path, mswea_files::RECORDS).ok()?;
    mswea_text::read_json(&bytes)
        .ok()
        .filter(|value| is_atif(value) || is_sweagent(value))
}
