//! Writes the run in ATIF at its end. Has functions for all exports, too: the secrets to be
//! removed, and writing a file completely.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mswea_config::RunSection;
use mswea_core::Event;
use mswea_export::{Conversation, ConversationReader, SecretValues, to_atif};
use mswea_provider::{Secrets, process_environment};
use mswea_record::RunFiles;
use mswea_record::trajectory::Target;
use mswea_secrecy::looks_secret;
use mswea_session::Earlier;
use serde_json::Value;

use super::output::{self, Failure};

/// The names of standard output.
const STDOUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// The place where the run is written in ATIF at its end, if the config asks for it. It is determined before any
/// command runs, so that no link that a command makes is followed.
pub(super) fn before_the_run(
    section: &RunSection,
    files: &RunFiles,
) -> Result<Option<Target>, Failure> {
    let Some(path) = &section.atif_path else {
        return Ok(None);
    };
    let is_own = |file: &PathBuf| is_same(Path::new(path), file);
    let target = match path.is_empty() {
        true => Err("it is empty".to_owned()),
        false if Path::new(path).is_dir() => Err("it is a folder".to_owned()),
        false => Target::of(Path::new(path)).map_err(|error| error.source.to_string()),
    };
    let why = match [&files.trajectory, &files.journal].into_iter().any(is_own) {
        true => "the run's own record is there".to_owned(),
        false => match target {
            Ok(target) => return Ok(Some(target)),
            Err(why) => why,
        },
    };
    Err(Failure::usage(format!(
        "can't write the run in ATIF to `{path}`: {why}: name another file with `--atif PATH`"
    )))
}

/// Whether two paths name the same file, which may not exist yet.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => {
            one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino())
        }
        _ => real(one) == real(other),
    }
}

/// The path without links, of a file that may not exist yet.
fn real(path: &Path) -> Option<PathBuf> {
    // As many links as the kernel follows.
    const LINKS: usize = 40;
    let mut path = std::path::absolute(path).ok()?;
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(to) => path = path.parent()?.join(to),
            Err(_) => break,
        }
    }
    let folder = fs::canonicalize(path.parent()?).ok()?;
    Some(folder.join(path.file_name()?))
}

/// Writes the run in ATIF if the config asks for it. A failure is only a warning.
pub(super) fn at_the_end(section: &RunSection, target: Option<&Target>, journal: Option<&Path>) {
    let (Some(path), Some(target), Some(journal)) = (&section.atif_path, target, journal) else {
        return;
    };
    let unwritten = |why: &str| output::warning(&format!("`{path}` is not written: {why}"));
    let (run, secrets) = match clean_run(journal) {
        Ok(read) => read,
        // `export` could not read it either.
        Err(failure) => return unwritten(&failure.message),
    };
    let mut value = to_atif(&run);
    drop(run);
    secrets.remove_from_value(&mut value);
    if let Err(error) = target.write(&value) {
        unwritten(&format!(
            "{}; `mswea-host export {} --to atif` makes it",
            error.source,
            journal.display()
        ));
    }
}

/// A recorded run without secrets, including those in the files that its configs name; and these secrets. The
/// journal is read event by event.
pub(super) fn clean_run(journal: &Path) -> Result<(Conversation, SecretValues), Failure> {
    let (mut reader, mut configs) = (ConversationReader::default(), Vec::new());
    let read = Earlier::each(journal, |record| {
        if let Event::RunStarted { config, .. } | Event::RunResumed { config, .. } = &record.event {
            configs.push(config.clone());
        }
        reader.take(record);
    });
    read.map_err(|error| Failure::usage(error.to_string()))?;
    let mut run = reader.end();
    let secrets = secrets();
    let files: BTreeSet<PathBuf> = configs.iter().filter_map(secrets_file).collect();
    secrets.add(files.into_iter().flat_map(secrets_in_file));
    secrets.remove_from(&mut run);
    Ok((run, secrets))
}

/// The values of this process's variables that look like secrets.
pub(super) fn secrets() -> SecretValues {
    SecretValues::new(of_this_process())
}

/// The same secrets, and those in the secrets file that the config of a run names.
pub(super) fn secrets_of(config: &Value) -> SecretValues {
    match secrets_file(config) {
        Some(path) => SecretValues::new(of_this_process().chain(secrets_in_file(path))),
        None => secrets(),
    }
}

fn secrets_file(config: &Value) -> Option<PathBuf> {
    let path = config["model"]["secrets_file"].as_str();
    path.map(PathBuf::from)
}

/// The secrets in a file. Warns about a file that may not be used.
pub(super) fn secrets_in_file(path: PathBuf) -> Vec<String> {
    secrets_read(path).unwrap_or_else(|warning| {
        output::warning(&warning);
        Vec::new()
    })
}

/// The secrets in a file.
///
/// # Errors
/// A warning if the file may not be used.
pub(super) fn secrets_read(path: PathBuf) -> Result<Vec<String>, String> {
    let file = Secrets::new(process_environment(), Some(path));
    let secrets = file.in_file();
    let secrets = secrets.map_err(|error| format!("the secrets in it are not blanked: {error}"))?;
    let secrets = secrets.iter().map(|secret| secret.expose().to_owned());
    Ok(secrets.collect())
}

fn of_this_process() -> impl Iterator<Item = String> {
    let all = mswea_secrecy::vars().into_iter();
    let all = all.chain(mswea_secrecy::supplied());
    let secret = all.filter(|(name, _)| name.to_str().is_some_and(looks_secret));
    secret.filter_map(|(_, value)| value.into_string().ok())
}

/// The folder of the file that a path names, also through a link.
fn folder_of(path: &Path) -> PathBuf {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().filter(|it| !it.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// Replaces the file once it is complete. An existing pipe or terminal is written to, and a link
/// stays a link.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if STDOUT.iter().any(|it| path == Path::new(it)) {
        return output::data(|out| out.write_all(text.as_bytes())).map(drop);
    }
    let put = || {
        if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            // A pipe without a reader is an error; the open does not wait for one.
            let mut open = OpenOptions::new();
            let mut there = open.write(true).custom_flags(libc::O_NONBLOCK).open(path)?;
            rustix::io::ioctl_fionbio(&there, false)?;
            return there.write_all(text.as_bytes());
        }
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut file = tempfile::NamedTempFile::new_in(folder_of(path))?;
        file.write_all(text.as_bytes())?;
        file.persist(target)?;
        Ok::<_, std::io::Error>(())
    };
    put().with_context(|| format!("can't write `{}`", path.display()))?;
    Ok(())
}
