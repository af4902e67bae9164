//! The files of a data set, for the commands that name one; files on the Hub are fetched into the
//! cache.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mswea_core::Object;
use mswea_dataset::{DatasetAt, DatasetError, Hub, RowBudget, locate, split_files};
use mswea_secrecy as secrecy;

use crate::cli::exit::ExitCode;
use crate::cli::output::{self, Failure};
use crate::cli::panics;

/// The rows of the `split` of the data set `subset`.
pub(in crate::cli) fn split_rows(subset: &str, split: &str) -> Result<Vec<Object>, Failure> {
    let mut rows = Vec::new();
    let budget = RowBudget::default();
    for file in files(subset, split)? {
        rows.extend(read(&file, &budget)?);
    }
    match rows.is_empty() {
        true => Err(Failure::usage(format!(
            "the split `{split}` of `{subset}` has no instances"
        ))),
        false => Ok(rows),
    }
}

/// The columns of a data set, which are the same in all its files.
pub(super) fn columns(rows: &[Object]) -> BTreeSet<String> {
    rows.iter().flat_map(|row| row.keys().cloned()).collect()
}

fn files(subset: &str, split: &str) -> Result<Vec<PathBuf>, Failure> {
    if let DatasetAt::Files(files) = locate(subset, split).map_err(failure)? {
        return Ok(files);
    }
    let cache = std::env::var_os("MSWEA_DATASET_CACHE").filter(|it| !it.is_empty());
    let cache = cache.map(PathBuf::from).or_else(|| {
        let folder = mswea_plugin_host::user_cache_folder()?;
        Some(folder.join("datasets"))
    });
    let cache = cache.ok_or_else(|| {
        Failure::usage(
            "the data set has no place to be kept: set `MSWEA_DATASET_CACHE`, or `HOME`".to_owned(),
        )
    })?;
    let hub = Hub::new(&|name| secrecy::var(name), cache).map_err(failure)?;
    let tokio = output::runtime()?;
    let fetching = split_files(subset, split, &hub, &output::note);
    tokio.block_on(fetching).map_err(failure)
}

/// The rows of a file of instances; with `split`, the rows of that split of a data set.
pub(super) fn named_rows(file: &Path, split: Option<&str>) -> Result<Vec<Object>, Failure> {
    let name = file.to_string_lossy();
    match split {
        Some(split) => split_rows(&name, split),
        None if !file.exists() && matches!(locate(&name, ""), Ok(DatasetAt::Hub { .. })) => {
            Err(Failure::usage(format!(
                "there is no file `{name}`; for the data set of this name on the Hub add its split, for example `--split test`"
            )))
        }
        None => file_rows(file),
    }
}

/// The rows of a file of instances.
pub(in crate::cli) fn file_rows(file: &Path) -> Result<Vec<Object>, Failure> {
    let rows = read(file, &RowBudget::default())?;
    match rows.is_empty() {
        true => Err(Failure::usage(format!(
            "`{}` has no instances",
            file.display()
        ))),
        false => Ok(rows),
    }
}

/// Catches panics: the crate that reads parquet panics on some damaged files.
fn read(file: &Path, budget: &RowBudget) -> Result<Vec<Object>, Failure> {
    let told = format!(
        "`{}`: it can't be read: it is damaged, and its reader failed; fetch or write it again",
        file.display()
    );
    panics::blaming(told, || mswea_dataset::rows(file, budget)).map_err(failure)
}

fn failure(error: DatasetError) -> Failure {
    match error {
        DatasetError::Refused(text) => Failure::usage(text),
        error => Failure::new(ExitCode::Failed, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_large_as_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("wide.jsonl");
        let line = |n: u32| format!("{{\"instance_id\": \"i{n}\", \"own_{n}\": 1}}\n");
        std::fs::write(&file, (0..500).map(line).collect::<String>()).unwrap();
        let rows = split_rows(&file.display().to_string(), "test").unwrap();
        let fields: usize = rows.iter().map(Object::len).sum();
        assert_eq!((columns(&rows).len(), fields), (501, 1000));
    }
}
