//! `runs repair`: makes the trajectory of a run whose host was killed, from its journal.

use std::collections::BTreeSet;
use std::fs::{OpenOptions, TryLockError};
use std::io::{self, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::args::RepairArgs;
use super::exit::ExitCode;
use super::output::{self, Failure};
use super::paths::{journal_beside, trajectory_beside};
use crate::journal::{self, Log, rebuild, trajectory};
use crate::regular_file;

/// Repairs what is named, and says what came of each.
pub fn repair(args: &RepairArgs) -> Result<ExitCode, Failure> {
    let mut journals = BTreeSet::new();
    let mut failed = false;
    for path in &args.paths {
        match journals_of(path) {
            Ok(found) => journals.extend(found),
            Err(error) => {
                output::error(&error);
                failed = true;
            }
        }
    }
    for journal in journals {
        match mend(&journal) {
            Ok(told) => drop(output::text(&format!("{told}\n"))?),
            Err(error) => {
                output::error(&error);
                failed = true;
            }
        }
    }
    Ok(match failed {
        true => ExitCode::Failed,
        false => ExitCode::Submitted,
    })
}

/// The journals that are meant by a path: of a folder, all that are in it.
fn journals_of(path: &Path) -> Result<Vec<PathBuf>, String> {
    let shown = path.display();
    let there = std::fs::metadata(path);
    if there.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
        let entries =
            std::fs::read_dir(path).map_err(|error| format!("can't read `{shown}`: {error}"))?;
        let journals = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| trajectory_beside(path).is_some() && path.is_file());
        let journals: Vec<PathBuf> = journals.collect();
        return match journals.is_empty() {
            true => Err(format!(
                "no journal is in the folder `{shown}`: they are called `*.events.jsonl`"
            )),
            false => Ok(journals),
        };
    }
    if trajectory_beside(path).is_some() {
        return Ok(vec![path.to_owned()]);
    }
    // The trajectory itself may be what is missing.
    let named = named_journal(path).filter(|journal| journal.is_file());
    let journal = named.unwrap_or_else(|| journal_beside(path));
    match journal.is_file() {
        true => Ok(vec![journal]),
        false if there.is_err() => Err(format!(
            "there is neither a file `{shown}` nor its journal `{}`",
            journal.display()
        )),
        false => Err(format!(
            "`{shown}` is no journal (`*.events.jsonl`), and there is none that belongs to it: `{}` does not exist",
            journal.display()
        )),
    }
}

/// The journal that a trajectory names.
fn named_journal(trajectory: &Path) -> Option<PathBuf> {
    let text = regular_file::read(trajectory, regular_file::RECORDS).ok()?;
    let value: Value = serde_json::from_slice(&text).ok()?;
    let name = Path::new(value.pointer("/info/mswea/journal")?.as_str()?);
    // A trajectory that came with a repository may name any path: only what lies beside it counts.
    (name.file_name()? == name.as_os_str()).then(|| trajectory.with_file_name(name))
}

fn mend(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let log = read(path)?;
    if log.records.is_empty() {
        return Err(format!(
            "nothing was recorded in the journal `{shown}`: its run never began"
        ));
    }
    let state = rebuild::state(&log.records);
    if state.run_id.is_empty() {
        return Err(format!(
            "`{shown}` is no journal of mswea-host: it does not begin with `run_started`"
        ));
    }
    let target = trajectory_of(path, &state.config);
    let mut value = trajectory::from_journal(&log.records);
    trajectory::set_journal(&mut value, Path::new(path.file_name().unwrap_or_default()));
    let ended = match &state.ended {
        Some(end) => format!("it ended with `{}`", end.exit_status),
        None => "its host was killed".to_owned(),
    };
    let torn = match &log.torn {
        Some(torn) => format!(
            "; line {} of the journal is cut off after {} bytes and left out",
            torn.line, torn.bytes
        ),
        None => String::new(),
    };
    let told = |what: &str| {
        format!(
            "{what} `{}`: run {}, {} queries, {ended}{torn}",
            target.display(),
            state.run_id,
            state.queries
        )
    };
    let kept = match there(&target) {
        There::Nothing => String::new(),
        There::Trajectory(old) if old == value => return Ok(told("nothing to repair in")),
        There::Trajectory(old)
            if old.pointer("/info/mswea/run_id") == Some(&state.run_id.as_str().into()) =>
        {
            String::new()
        }
        There::Trajectory(_) | There::Other => {
            let aside = journal::free_name(&target);
            std::fs::rename(&target, &aside)
                .map_err(|error| format!("can't move `{}` aside: {error}", target.display()))?;
            format!(
                "; what was there is of another run, and now `{}`",
                aside.display()
            )
        }
    };
    trajectory::write(&target, &value).map_err(|error| error.to_string())?;
    Ok(told("wrote") + &kept)
}

/// Reads a journal that nobody writes to.
fn read(path: &Path) -> Result<Log, String> {
    let shown = path.display().to_string();
    let cant = |error: io::Error| format!("can't read the journal `{shown}`: {error}");
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(cant)?;
    if !file.metadata().map_err(cant)?.is_file() {
        return Err(format!("`{shown}` is no plain file"));
    }
    if let Err(TryLockError::WouldBlock) = file.try_lock_shared() {
        return Err(format!(
            "the run of the journal `{shown}` still goes on: wait for its end, or end it"
        ));
    }
    journal::read_from(BufReader::new(&file), &shown).map_err(|error| match error {
        error @ journal::JournalError::Io { .. } => error.to_string(),
        error => format!("`{shown}`: {error}"),
    })
}

/// Where the run wrote its trajectory, or would have.
fn trajectory_of(journal: &Path, config: &Value) -> PathBuf {
    // What it was called is in the journal, if the names still fit.
    let output = config.pointer("/agent/output_path").and_then(Value::as_str);
    let named = output
        .and_then(|output| Path::new(output).file_name())
        .map(|name| journal.with_file_name(name))
        .filter(|output| journal_beside(output) == journal);
    named
        .or_else(|| trajectory_beside(journal))
        .unwrap_or_else(|| journal.with_extension("traj.json"))
}

enum There {
    Nothing,
    Trajectory(Value),
    Other,
}

fn there(path: &Path) -> There {
    let read = || -> io::Result<Value> {
        let text = regular_file::read(path, regular_file::RECORDS)?;
        Ok(serde_json::from_slice(&text)?)
    };
    match read() {
        Ok(value) => There::Trajectory(value),
        Err(_) if std::fs::symlink_metadata(path).is_err() => There::Nothing,
        Err(_) => There::Other,
    }
}
