//! `runs rm`: removes the files of runs that are over.

use std::fs;
use std::path::{Path, PathBuf};

use super::card::{Card, open};
use super::find;
use crate::cli::args::RemoveArgs;
use crate::cli::exit::ExitCode;
use crate::cli::gc;
use crate::cli::output::{self, Failure};
use mswea_record::trajectory;
use mswea_record::{RunFiles, index, runs_folder};

/// Removes the named runs, without asking.
pub fn remove(args: &RemoveArgs) -> Result<ExitCode, Failure> {
    let mut failed = false;
    for named in &args.runs {
        match find::one(named).and_then(|journal| remove_run(&journal)) {
            Ok(removed) => drop(output::text(&removed)?),
            Err(error) => {
                output::error(&error);
                failed = true;
            }
        }
    }
    if args.gone {
        let forgotten = forget_gone();
        output::text(&format!(
            "removed {forgotten} entries of runs whose journals no longer exist\n"
        ))?;
    }
    Ok(match failed {
        true => ExitCode::Failed,
        false => ExitCode::Submitted,
    })
}

fn remove_run(journal: &Path) -> Result<String, String> {
    let card = Card::of(journal)?;
    let file = open(journal)?;
    // The lock is held until the end, so that no other process continues the run meanwhile.
    if let Err(fs::TryLockError::WouldBlock) = file.try_lock() {
        return Err(format!(
            "run `{}` is still running: stop it first (its journal `{}` is being written)",
            card.run_id,
            journal.display()
        ));
    }
    let mut removed = format!("removed run {}:", card.run_id);
    let (containers, errors) = gc::remove_containers_of(&card.run_id);
    for container in containers {
        removed.push_str(&format!(" container {container}"));
    }
    for error in errors {
        output::warning(&format!(
            "containers of run {run} may be left: {error}; `mswea-host gc --run {run}` tries again",
            run = card.run_id
        ));
    }
    let mut unlink = |path: &Path| -> Result<(), String> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(format!("can't remove `{}`: {error}", path.display())),
            Ok(()) => {
                removed.push_str(&format!(" {}", path.display()));
                Ok(())
            }
        }
    };
    for trajectory in trajectories(&card) {
        unlink(&trajectory)?;
    }
    RunFiles {
        trajectory: card.trajectory.clone(),
        journal: journal.to_owned(),
    }
    .remove_temporary();
    // The journal is removed last, because it names the other files of the run.
    unlink(journal)?;
    index::forget(&runs_folder(), &card.run_id);
    removed.push('\n');
    Ok(removed)
}

/// Files with this run's trajectory; a file counts only if it has this run's id.
fn trajectories(card: &Card) -> Vec<PathBuf> {
    let mut paths = vec![card.trajectory.clone()];
    if index::is_plain(&card.run_id) {
        // The place of the trajectory if its own folder was removed.
        paths.push(runs_folder().join(format!("{}.traj.json", card.run_id)));
    }
    paths.dedup();
    paths.retain(|path| is_of(path, &card.run_id));
    paths
}

fn is_of(path: &Path, run_id: &str) -> bool {
    let is_link = fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink());
    let owner = trajectory::owner(path).ok().and_then(|it| it.run_id);
    !is_link && owner.is_some_and(|it| it == run_id)
}

/// Removes the entries of runs whose journals no longer exist; returns their number.
fn forget_gone() -> usize {
    let gone = find::all()
        .into_iter()
        .filter(|place| place.journal.symlink_metadata().is_err());
    let ids = gone.filter_map(|place| place.noted);
    ids.map(|id| index::forget(&runs_folder(), &id)).count()
}
