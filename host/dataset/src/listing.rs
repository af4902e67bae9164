//! The files of a repository on the Hub, and which of them belong to a split.

use fancy_regex::Regex;
use serde::Deserialize;
use serde_json::Value;

/// The formats that are read, the preferred one first: a repository may hold the same rows in several.
pub(crate) const FORMATS: &[&str] = &["parquet", "jsonl", "ndjson", "json", "csv"];

/// The used part of the Hub's answer to `/api/datasets/REPO/revision/REVISION?blobs=true`.
#[derive(Debug, Deserialize)]
pub(crate) struct RepoListing {
    /// The commit.
    pub(crate) sha: String,
    #[serde(default)]
    pub(crate) siblings: Vec<RepoFile>,
    /// The YAML header of the data set's card.
    #[serde(default, rename = "cardData")]
    card: Value,
}

/// A file of a repository.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct RepoFile {
    /// Its path in the repository.
    #[serde(rename = "rfilename")]
    pub(crate) path: String,
    /// In bytes.
    pub(crate) size: Option<u64>,
    pub(crate) lfs: Option<LargeFile>,
}

/// The Hub's data about a large file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct LargeFile {
    pub(crate) sha256: Option<String>,
}

impl RepoListing {
    /// The files of `split`, sorted by name; else a message that names the splits. `config`: the
    /// configuration of the data set.
    pub(crate) fn files(&self, split: &str, config: Option<&str>) -> Result<Vec<RepoFile>, String> {
        let of_config = self.config(config)?;
        let data_dir = of_config.and_then(|it| it["data_dir"].as_str());
        let folder = data_dir.map(folder_names).unwrap_or_default();
        let declared = of_config.map(declared).unwrap_or_default();
        if let Some(name) = config
            && declared.is_empty()
            && data_dir.is_none()
        {
            return Err(format!(
                "its card does not say which files the configuration `{name}` has: there is no `data_files` and no `data_dir`; name a file of it, which you have fetched"
            ));
        }
        // The path in the configuration's folder.
        let inside = |file: &RepoFile| file.path.strip_prefix(&folder).map(str::to_owned);
        let mut chosen: Vec<RepoFile> = if declared.is_empty() {
            let of_split = |file: &&RepoFile| {
                inside(file).is_some_and(|path| words(&path).any(|word| word == split))
            };
            self.readable().filter(of_split).cloned().collect()
        } else {
            let of_split = declared.iter().filter(|(name, _)| name == split);
            let patterns: Vec<Regex> = of_split.filter_map(|(_, glob)| pattern(glob)).collect();
            let fits = |file: &&RepoFile| {
                let mut patterns = patterns.iter();
                inside(file)
                    .is_some_and(|path| patterns.any(|it| it.is_match(&path).unwrap_or(false)))
            };
            self.readable().filter(fits).cloned().collect()
        };
        let Some(format) = chosen.iter().map(|it| rank(&it.path)).min() else {
            return Err(self.no_split(split, &declared));
        };
        chosen.retain(|file| rank(&file.path) == format);
        chosen.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(chosen)
    }

    fn readable(&self) -> impl Iterator<Item = &RepoFile> {
        let files = self.siblings.iter();
        files.filter(|file| rank(&file.path) < FORMATS.len() && is_inside(&file.path))
    }

    /// The configuration of this name, or the default one; none if the card has no configurations.
    fn config(&self, name: Option<&str>) -> Result<Option<&Value>, String> {
        let configs = self.card["configs"].as_array();
        let configs = configs.map(Vec::as_slice).unwrap_or_default();
        let of = |it: &Value| it["config_name"].as_str().unwrap_or("default").to_owned();
        let is_wanted = |it: &&Value| match name {
            Some(name) => of(it) == name,
            None => configs.len() == 1 || it["default"] == true || of(it) == "default",
        };
        if let Some(config) = configs.iter().find(is_wanted) {
            return Ok(Some(config));
        }
        let names = configs.iter().map(of).collect::<Vec<_>>().join("`, `");
        match (name, configs.is_empty()) {
            (None, true) => Ok(None),
            (Some(name), true) => Err(format!("it has no configurations, so leave `:{name}` out")),
            (Some(name), false) => Err(format!(
                "it has no configuration `{name}`; its configurations are `{names}`"
            )),
            (None, false) => Err(format!(
                "it has the configurations `{names}`, and none of them is the default one: name one after a colon, as `OWNER/NAME:CONFIGURATION`"
            )),
        }
    }

    fn no_split(&self, split: &str, declared: &[(String, String)]) -> String {
        if declared.is_empty() {
            let files: Vec<&str> = self.readable().map(|it| it.path.as_str()).take(8).collect();
            return match files[..] {
                [] => format!("it has no file of {}", FORMATS.join(", ")),
                _ => format!(
                    "it has no files of the split `{split}`; its files are `{}`",
                    files.join("`, `")
                ),
            };
        }
        let mut names: Vec<&str> = declared.iter().map(|(name, _)| name.as_str()).collect();
        names.dedup();
        format!(
            "it has no split `{split}`; its splits are `{}`",
            names.join("`, `")
        )
    }
}

/// The splits and patterns that the card declares for a configuration.
fn declared(config: &Value) -> Vec<(String, String)> {
    let files = &config["data_files"];
    let paths = |it: &Value| -> Vec<String> {
        let many = it.as_array().into_iter().flatten();
        let texts = many.chain(it.is_string().then_some(it));
        texts
            .filter_map(|it| it.as_str().map(str::to_owned))
            .collect()
    };
    let entries = files.as_array().map(Vec::as_slice).unwrap_or_default();
    let of_splits = entries.iter().filter(|it| it.is_object()).flat_map(|it| {
        let split = it["split"].as_str().unwrap_or("train").to_owned();
        let paths = paths(&it["path"]).into_iter();
        paths.map(move |path| (split.clone(), path))
    });
    let mut declared: Vec<_> = of_splits.collect();
    if declared.is_empty() {
        // Without splits, all rows are in the split `train`.
        declared.extend(
            paths(files)
                .into_iter()
                .map(|path| ("train".to_owned(), path)),
        );
    }
    declared
}

/// The folder of a configuration's files, with a trailing slash; empty for the whole repository.
fn folder_names(data_dir: &str) -> String {
    let names = data_dir.split('/').filter(|it| !["", "."].contains(it));
    names.map(|name| format!("{name}/")).collect()
}

/// The rank of a file's format among [`FORMATS`].
fn rank(path: &str) -> usize {
    let suffix = path.rsplit_once('.').map_or("", |(_, suffix)| suffix);
    let suffix = suffix.to_ascii_lowercase();
    let place = FORMATS.iter().position(|format| *format == suffix);
    place.unwrap_or(FORMATS.len())
}

/// Whether the path leads to no place outside of its base folder.
fn is_inside(path: &str) -> bool {
    let names = ["", ".", ".."];
    !path.contains(['\\', '\0']) && !path.split('/').any(|name| names.contains(&name))
}

/// The words of a path, by which splits are recognised: `data/test-00000-of-00001.parquet` has the
/// word `test`.
fn words(path: &str) -> impl Iterator<Item = &str> {
    path.split(|c: char| !c.is_alphanumeric())
}

/// The regular expression for a pattern of a card: `*` and `?` match no slash, `**` does.
fn pattern(glob: &str) -> Option<Regex> {
    let mut regex = String::from(r"\A");
    let mut rest = glob.trim_start_matches("./");
    while let Some(c) = rest.chars().next() {
        let (len, part) = match c {
            '*' if rest.starts_with("**/") => (3, "(?:.*/)?".into()),
            '*' if rest.starts_with("**") => (2, ".*".into()),
            '*' => (1, "[^/]*".into()),
            '?' => (1, "[^/]".into()),
            c => (c.len_utf8(), fancy_regex::escape(&rest[..c.len_utf8()])),
        };
        regex.push_str(&part);
        rest = &rest[len..];
    }
    Regex::new(&(regex + r"\z")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chosen(files: &[&str], card: Value, split: &str) -> Result<Vec<String>, String> {
        let siblings: Vec<Value> = files.iter().map(|it| json!({"rfilename": it})).collect();
        let answer = json!({"sha": "c0ffee", "siblings": siblings, "cardData": card});
        let listing: RepoListing = serde_json::from_value(answer).unwrap();
        let (split, config) = match split.split_once(':') {
            Some((split, config)) => (split, Some(config)),
            None => (split, None),
        };
        let files = listing.files(split, config)?;
        Ok(files.into_iter().map(|it| it.path).collect())
    }

    #[test]
    fn files_of_a_split() {
        let swe = json!({"configs": [{"config_name": "default", "data_files": [
            {"split": "dev", "path": "data/dev-*"}, {"split": "test", "path": "data/test-*"}]}]});
        let two = [
            "README.md",
            "data/test-00001-of-00002.parquet",
            "data/test-00000-of-00002.parquet",
            "data/dev-0.parquet",
        ];
        let several = json!({"configs": [
            {"config_name": "one", "data_files": [{"split": "test", "path": "one/*"}]},
            {"config_name": "two", "default": true, "data_files": [{"split": "test", "path": "two/*"}]}]});
        let of_several = ["one/a.parquet", "two/b.parquet"];
        let both: &[&str] = &[
            "data/test-00000-of-00002.parquet",
            "data/test-00001-of-00002.parquet",
        ];
        for (files, card, split, expected) in [
            (&two[..], swe.clone(), "test", both),
            (&two[..], swe.clone(), "test:default", both),
            (&of_several, several.clone(), "test:one", &["one/a.parquet"]),
            (&of_several, several, "test", &["two/b.parquet"]),
            (&two[..], Value::Null, "test", both),
            (&two[..], swe, "dev", &["data/dev-0.parquet"]),
            (
                &["test.jsonl", "test.csv", "testing.json"],
                Value::Null,
                "test",
                &["test.jsonl"],
            ),
            (
                &["x/y/a.json", "b.json"],
                json!({"configs": [{"config_name": "c", "data_files": "**/*.json"}]}),
                "train",
                &["b.json", "x/y/a.json"],
            ),
            (
                &["x/a.json", "b.json"],
                json!({"configs": [{"data_files": [{"split": "s", "path": ["?.json"]}]}]}),
                "s",
                &["b.json"],
            ),
            (
                &["../test.json", "/test.json", "a/test.json"],
                Value::Null,
                "test",
                &["a/test.json"],
            ),
        ] {
            let expected = expected.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(chosen(files, card, split), Ok(expected), "{files:?}");
        }
    }

    #[test]
    fn the_folder_of_a_configuration() {
        let card = json!({"configs": [
            {"config_name": "en", "data_dir": "en"},
            {"config_name": "de", "data_dir": "./de/", "data_files": [{"split": "test", "path": "t*"}]},
            {"config_name": "none"}, {"config_name": "all", "data_dir": "."}]});
        let files = [
            "de/t.json",
            "de/x/t.json",
            "en/test.json",
            "english/test.json",
            "t.json",
        ];
        for (split, expected) in [
            ("test:en", "en/test.json"),
            ("test:de", "de/t.json"),
            (
                "test:none",
                "its card does not say which files the configuration `none` has",
            ),
            ("en:en", "no files of the split `en`"),
        ] {
            let found = chosen(&files, card.clone(), split);
            let found = found.map_or_else(|error| error, |files| files.join(", "));
            assert!(found.contains(expected), "{split}: {found}");
        }
        assert_eq!(chosen(&files, card, "test:en").map(|it| it.len()), Ok(1));
    }

    #[test]
    fn no_files() {
        let card = json!({"configs": [{"data_files": [{"split": "dev", "path": "d*"}, {"split": "test", "path": "t*"}]}]});
        let several = json!({"configs": [{"config_name": "a"}, {"config_name": "b"}]});
        for (files, card, split, reason) in [
            (
                &["t.json"][..],
                card,
                "train",
                "its splits are `dev`, `test`",
            ),
            (
                &["a.csv", "b.txt"],
                Value::Null,
                "train",
                "its files are `a.csv`",
            ),
            (&["b.txt"], Value::Null, "train", "no file of parquet"),
            (&["b.txt"], Value::Null, "train:a", "leave `:a` out"),
            (&[], several.clone(), "train", "configurations `a`, `b`"),
            (&[], several, "train:c", "no configuration `c`"),
        ] {
            let error = chosen(files, card, split).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
