//! The run in ATIF at its end, and what all exports need: the secrets to blank, and a file that is there whole.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mswea_config::RunSection;
use mswea_export::{SecretValues, from_records, to_atif};
use mswea_provider::{Secrets, process_environment};
use mswea_run::journal::first_line;
use mswea_secrecy::looks_secret;
use mswea_session::Earlier;
use serde_json::Value;

use super::exit::ExitCode;
use super::output::{self, Failure};

/// Writes the run in ATIF where the config wants it. A failure is none of the run.
pub(super) fn at_the_end(section: &RunSection, journal: Option<&Path>) {
    let (Some(path), Some(journal)) = (&section.atif_path, journal) else {
        return;
    };
    let written = Earlier::to_read(journal)
        .map_err(|error| Failure::usage(error.to_string()))
        .and_then(|earlier| {
            let mut run = from_records(earlier.records());
            secrets_of(earlier.config()).remove_from(&mut run);
            let value = to_atif(&run).map_err(|error| Failure::new(ExitCode::Failed, error))?;
            write(Path::new(path), &format!("{value:#}\n"))
        });
    if let Err(failure) = written {
        output::warning(&format!(
            "`{path}` is not written: {}; `mswea-host export {} --to atif` makes it",
            failure.message,
            journal.display()
        ));
    }
}

/// The values of this process's variables that look like secrets.
fn secrets() -> SecretValues {
    SecretValues::new(of_this_process())
}

/// The same, and those in the secrets file that the config of a run names.
pub(super) fn secrets_of(config: &Value) -> SecretValues {
    match secrets_file(config) {
        Some(path) => SecretValues::new(of_this_process().chain(in_file(path))),
        None => secrets(),
    }
}

/// The same for many runs: the secrets in all files that the configs at the beginnings of these journals name.
pub(super) fn secrets_of_runs(journals: &[PathBuf]) -> SecretValues {
    let first = |path: &PathBuf| {
        let file = mswea_files::open(path, u64::MAX).ok()?;
        let line = first_line(&file).ok()?;
        let event: Value = serde_json::from_slice(&line).ok()?;
        secrets_file(&event["config"])
    };
    let files: BTreeSet<PathBuf> = journals.iter().filter_map(first).collect();
    SecretValues::new(of_this_process().chain(files.into_iter().flat_map(in_file)))
}

fn secrets_file(config: &Value) -> Option<PathBuf> {
    let path = config["model"]["secrets_file"].as_str();
    path.map(PathBuf::from)
}

/// The secrets in a file. One that may not be used is named.
fn in_file(path: PathBuf) -> Vec<String> {
    let file = Secrets::new(process_environment(), Some(path));
    let secrets = file.in_file().unwrap_or_else(|error| {
        output::warning(&format!("the secrets in it are not blanked: {error}"));
        Vec::new()
    });
    secrets
        .iter()
        .map(|secret| secret.expose().to_owned())
        .collect()
}

fn of_this_process() -> impl Iterator<Item = String> {
    let all = mswea_secrecy::vars().into_iter();
    let all = all.chain(mswea_secrecy::supplied());
    let secret = all.filter(|(name, _)| name.to_str().is_some_and(looks_secret));
    secret.filter_map(|(_, value)| value.into_string().ok())
}

/// Puts the file in place when it is whole.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let put = || {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.persist(path)?;
        Ok::<_, std::io::Error>(())
    };
    put().with_context(|| format!("can't write `{}`", path.display()))?;
    Ok(())
}
