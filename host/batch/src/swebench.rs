//! What mini-swe-agent and SWE-agent know of SWE-bench: the names of its images, and of its data sets.

use std::path::{Path, PathBuf};

use crate::error::BatchError;

/// The names of the data sets on the Hub, by the names of `--subset`.
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

/// The suffixes of the files that are looked for in a folder.
const SUFFIXES: &[&str] = &["jsonl", "json", "csv"];

/// The image of an instance that names none: an id can't have two underscores in an image's name.
pub fn image_name(id: &str) -> String {
    let id = id.replace("__", "_1776_");
    format!("docker.io/swebench/sweb.eval.x86_64.{id}:latest").to_lowercase()
}

/// The file of a `--subset` and a `--split`: the file itself, or `SPLIT.jsonl` (`.json`, `.csv`) in a
/// folder of this name, or in its folder `data`.
///
/// # Errors
/// [`BatchError::Refused`] if there is no such file; data sets are not fetched from the Hub.
pub fn subset_file(subset: &str, split: &str) -> Result<PathBuf, BatchError> {
    let path = Path::new(subset);
    if path.is_file() {
        return Ok(path.to_owned());
    }
    if path.is_dir() {
        let folders = [path.to_owned(), path.join("data")];
        let names = folders.iter().flat_map(|folder| {
            let files = SUFFIXES.iter();
            files.map(move |suffix| folder.join(format!("{split}.{suffix}")))
        });
        return names.into_iter().find(|file| file.is_file()).ok_or_else(|| {
            BatchError::Refused(format!(
                "the folder `{subset}` has no file of the split `{split}`: `{split}.jsonl`, `{split}.json` or `{split}.csv`, there or in `data/`"
            ))
        });
    }
    let known = SUBSETS.iter().find(|(name, _)| *name == subset);
    let name = known.map_or(subset, |(_, name)| name);
    Err(BatchError::Refused(format!(
        "`--subset {subset}`: there is no file or folder of this name, and this version does not fetch data sets: save it as JSON lines, for example with Python's `datasets.load_dataset('{name}', split='{split}').to_json('{split}.jsonl')`, and give `--subset {split}.jsonl`"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images() {
        for (id, image) in [
            ("A__b-1", "a_1776_b-1"),
            ("a___b__c", "a_1776__b_1776_c"),
            ("django__django-11099", "django_1776_django-11099"),
        ] {
            let expected = format!("docker.io/swebench/sweb.eval.x86_64.{image}:latest");
            assert_eq!(image_name(id), expected);
        }
    }

    #[test]
    fn files() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let file = data.join("test.json");
        std::fs::write(&file, "[]").unwrap();
        let name = folder.path().to_str().unwrap();
        assert_eq!(subset_file(name, "test").unwrap(), file);
        assert_eq!(subset_file(file.to_str().unwrap(), "dev").unwrap(), file);
        let error = subset_file(name, "dev").unwrap_err().to_string();
        assert!(error.contains("no file of the split `dev`"), "{error}");
        let error = subset_file("verified", "test").unwrap_err().to_string();
        assert!(
            error.contains("princeton-nlp/SWE-Bench_Verified"),
            "{error}"
        );
    }
}
