//! `export`: a recorded run in the formats of other programs, and as a page.

use std::io::Write as _;
use std::path::Path;

use serde_json::Value;

use super::again::{recorded, refused};
use super::args::{ExportArgs, ExportFormat};
use super::exit::ExitCode;
use super::output::{self, Failure};
use anyhow::Context as _;
use mswea_config::RunSection;
use mswea_export::{
    Conversation, SecretValues, from_atif, from_records, is_atif, to_atif, to_html, to_jsonl,
    to_markdown,
};
use mswea_secrecy::looks_secret;
use mswea_session::Earlier;

/// Exports a run.
pub fn export(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let mut run = conversation(&args.run)?;
    secrets().remove_from(&mut run);
    let text = match args.to {
        ExportFormat::Html => to_html(&run, args.focused),
        ExportFormat::Md => to_markdown(&run, args.focused),
        ExportFormat::Jsonl => to_jsonl(&run),
        ExportFormat::Atif => {
            let value = to_atif(&run).map_err(|error| Failure::new(ExitCode::Failed, error))?;
            format!("{value:#}\n")
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

/// Writes the run in ATIF where the config wants it. A failure is none of the run.
pub(super) fn at_the_end(section: &RunSection, journal: Option<&Path>) {
    let (Some(path), Some(journal)) = (&section.atif_path, journal) else {
        return;
    };
    let written = conversation(journal).and_then(|mut run| {
        secrets().remove_from(&mut run);
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

/// The run, of whichever file it is.
fn conversation(named: &Path) -> Result<Conversation, Failure> {
    if let Some(value) = atif(named) {
        let shown = named.display();
        return from_atif(&value).map_err(|error| Failure::usage(format!("`{shown}`: {error}")));
    }
    let earlier = Earlier::to_read(&recorded(named)?).map_err(refused)?;
    Ok(from_records(earlier.records()))
}

/// A trajectory of ATIF; none if the file is something else.
fn atif(path: &Path) -> Option<Value> {
    // The name of a journal. It may be large, and is not read twice.
    if path.extension()? != "json" {
        return None;
    }
    let bytes = mswea_files::read(path, mswea_files::RECORDS).ok()?;
    serde_json::from_slice(&bytes).ok().filter(is_atif)
}

/// The values of this process's variables that look like secrets.
fn secrets() -> SecretValues {
    let all = mswea_secrecy::vars().into_iter();
    let secret = all.filter(|(name, _)| name.to_str().is_some_and(looks_secret));
    SecretValues::new(secret.filter_map(|(_, value)| value.into_string().ok()))
}

/// Puts the file in place when it is whole.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
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
