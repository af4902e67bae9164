//! `runs repair`: makes the trajectory of a run whose host was killed, from its journal.

use std::collections::BTreeSet;
use std::fs::{OpenOptions, TryLockError};
use std::io::{self, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::Value;

use super::find::journals_of;
use crate::cli::args::RepairArgs;
use crate::cli::exit::ExitCode;
use crate::cli::output::{self, Failure};
use mswea_files as regular_file;
use mswea_record::journal::{self, Log};
use mswea_record::trajectory;
use mswea_record::{RunFiles, trajectory_of};
use mswea_run::fold;

/// Repairs the named runs, and prints the result of each.
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

fn mend(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let log = read(path)?;
    if log.records.is_empty() {
        return Err(format!(
            "nothing was recorded in the journal `{shown}`: its run never began"
        ));
    }
    let state = fold(&log.records);
    if state.run_id.is_empty() {
        return Err(format!(
            "`{shown}` is not a journal of mswea-host: it does not begin with `run_started`"
        ));
    }
    let target = trajectory_of(path, &state.config);
    RunFiles {
        trajectory: target.clone(),
        journal: path.to_owned(),
    }
    .remove_temporary();
    let mut value = fold(&log.records).into_trajectory();
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
            state.account.queries
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
                "; the file of another run that was there is now `{}`",
                aside.display()
            )
        }
    };
    trajectory::write(&target, &value).map_err(|error| error.to_string())?;
    Ok(told("wrote") + &kept)
}

/// Reads a journal that no process writes to.
fn read(path: &Path) -> Result<Log, String> {
    let shown = path.display().to_string();
    let cant = |error: io::Error| format!("can't read the journal `{shown}`: {error}");
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(cant)?;
    if !file.metadata().map_err(cant)?.is_file() {
        return Err(format!("`{shown}` is not a plain file"));
    }
    if let Err(TryLockError::WouldBlock) = file.try_lock_shared() {
        return Err(format!(
            "the run of the journal `{shown}` is still running: wait for its end, or stop it"
        ));
    }
    journal::read_from(BufReader::new(&file), &shown).map_err(|error| match error {
        error @ journal::JournalError::Io { .. } => error.to_string(),
        error => format!("`{shown}`: {error}"),
    })
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
