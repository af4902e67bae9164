//! From the name of a data set to its files: a file, a folder, or a repository of the Hub.

use std::path::{Path, PathBuf};

use crate::error::DatasetError;
use crate::hub::Hub;
use crate::listing::FORMATS;

/// The names of data sets on the Hub, by the short names that mini-swe-agent and SWE-agent use.
const SUBSETS: &[(&str, &str)] = &[
    ("full", "princeton-nlp/SWE-Bench"),
    ("verified", "princeton-nlp/SWE-Bench_Verified"),
    ("lite", "princeton-nlp/SWE-Bench_Lite"),
    ("multimodal", "princeton-nlp/SWE-Bench_Multimodal"),
    ("multilingual", "swe-bench/SWE-Bench_Multilingual"),
    ("smith", "SWE-bench/SWE-smith"),
    ("rebench", "nebius/SWE-rebench"),
    ("_test", "klieret/swe-bench-dummy-test-dataset"),
];

/// The place of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatasetAt {
    /// In these files.
    Files(Vec<PathBuf>),
    /// On the Hub.
    Hub {
        /// The repository: `OWNER/NAME`, or `NAME`.
        repo: String,
        /// The configuration, if one is named.
        config: Option<String>,
    },
}

/// The full name of a data set with a short name; any other name unchanged.
pub fn full_name(subset: &str) -> &str {
    let known = SUBSETS.iter().find(|(name, _)| *name == subset);
    known.map_or(subset, |(_, repo)| repo)
}

/// Finds the `split` of the data set `subset`: in the file of this name, in a folder of this name
/// (files `SPLIT.*` or `SPLIT-*.parquet`, in it or in its `data/`), or on the Hub (`NAME`,
/// `NAME:CONFIGURATION`).
///
/// # Errors
/// [`DatasetError::Refused`] if the folder has no such file, or if `subset` is not a valid name of
/// a data set.
pub fn locate(subset: &str, split: &str) -> Result<DatasetAt, DatasetError> {
    let path = Path::new(subset);
    if path.is_file() {
        return Ok(DatasetAt::Files(vec![path.to_owned()]));
    }
    if path.is_dir() {
        let found = [path.to_owned(), path.join("data")]
            .iter()
            .map(|folder| in_folder(folder, split))
            .find(|found| !found.is_empty());
        return found.map(DatasetAt::Files).ok_or_else(|| {
            DatasetError::Refused(format!(
                "the folder `{subset}` has no file of the split `{split}`: `{split}.parquet`, `{split}-*.parquet`, `{split}.jsonl`, `{split}.json` or `{split}.csv`, there or in `data/`"
            ))
        });
    }
    let (name, config) = match subset.split_once(':') {
        Some((name, config)) => (name, Some(config)),
        None => (subset, None),
    };
    let repo = full_name(name);
    let is_name = |part: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(is_plain)
    };
    let is_empty = config.is_some_and(str::is_empty);
    let parts = repo.split('/').count();
    if parts > 2 || !repo.split('/').all(is_name) || looks_like_a_file(repo) || is_empty {
        let names: Vec<&str> = SUBSETS.iter().map(|(name, _)| *name).collect();
        return Err(DatasetError::Refused(format!(
            "the data set `{subset}`: there is no file or folder of this name, and no data set of the Hub has such a name (`OWNER/NAME`); the short names are `{}`",
            names[..names.len() - 1].join("`, `")
        )));
    }
    Ok(DatasetAt::Hub {
        repo: repo.to_owned(),
        config: config.map(str::to_owned),
    })
}

fn looks_like_a_file(name: &str) -> bool {
    let suffix = name.rsplit_once('.').map_or("", |(_, suffix)| suffix);
    FORMATS.contains(&suffix.to_ascii_lowercase().as_str())
}

/// The files of a split in a folder, all of one format.
fn in_folder(folder: &Path, split: &str) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| {
            let rest = name.strip_prefix(split);
            rest.is_some_and(|it| it.starts_with('-') && it.ends_with(".parquet"))
        })
        .map(|name| folder.join(name))
        .collect();
    parts.sort();
    let files = FORMATS
        .iter()
        .map(|suffix| folder.join(format!("{split}.{suffix}")));
    match files.into_iter().find(|file| file.is_file()) {
        Some(file) => vec![file],
        None => parts,
    }
}

/// The files of the `split` of the data set `subset`; files on the Hub are fetched. `said` gets
/// messages about the progress.
///
/// # Errors
/// [`DatasetError`] if there is no such data set, or if it can't be fetched.
pub async fn split_files(
    subset: &str,
    split: &str,
    hub: &Hub,
    said: &(dyn Fn(&str) + Sync),
) -> Result<Vec<PathBuf>, DatasetError> {
    match locate(subset, split)? {
        DatasetAt::Files(files) => Ok(files),
        DatasetAt::Hub { repo, config } => hub.fetch(&repo, config.as_deref(), split, said).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(name: &str) -> Result<DatasetAt, String> {
        locate(name, "test").map_err(|error| error.to_string())
    }

    #[test]
    fn names_of_the_hub() {
        for (name, repo, config) in [
            ("verified", "princeton-nlp/SWE-Bench_Verified", None),
            ("smith", "SWE-bench/SWE-smith", None),
            ("me/my-set_1.0", "me/my-set_1.0", None),
            ("me/my-set:en.v2", "me/my-set", Some("en.v2")),
            ("squad", "squad", None),
        ] {
            let (repo, config) = (repo.to_owned(), config.map(str::to_owned));
            assert_eq!(hub(name), Ok(DatasetAt::Hub { repo, config }), "{name}");
        }
        for name in [
            "a/b/c",
            "/nowhere",
            "../x",
            "there/is none",
            "mine.jsonl",
            "me/my-set:",
            "a/b.parquet",
            "",
        ] {
            let error = hub(name).unwrap_err();
            assert!(
                error.contains("there is no file or folder"),
                "{name}: {error}"
            );
        }
    }

    #[test]
    fn files_of_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().to_str().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let error = hub(name).unwrap_err();
        assert!(error.contains("no file of the split `test`"), "{error}");
        for (file, expected) in [
            ("data/test-1.parquet", &["data/test-1.parquet"][..]),
            (
                "data/test-0.parquet",
                &["data/test-0.parquet", "data/test-1.parquet"],
            ),
            ("data/test.json", &["data/test.json"]),
            ("test.csv", &["test.csv"]),
        ] {
            std::fs::write(folder.path().join(file), "[]").unwrap();
            let expected = expected.iter().map(|it| folder.path().join(it));
            assert_eq!(
                hub(name),
                Ok(DatasetAt::Files(expected.collect())),
                "{file}"
            );
        }
        let file = folder.path().join("test.csv");
        let found = locate(file.to_str().unwrap(), "dev").unwrap();
        assert_eq!(found, DatasetAt::Files(vec![file]));
    }
}
