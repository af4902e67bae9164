//! Keys of models: where they are looked up, and how they are kept out of all other output.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value;

use super::EnvironmentLookup;
use super::masking::{KnownSecrets, SHORTEST_REDACTED};
use mswea_files as regular_file;

/// A secret's text. `Debug` hides it and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text; only for the code that puts it into a request.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is one of the words that users set when a client requires a key and the server
    /// does not.
    #[must_use]
    pub fn is_placeholder(&self) -> bool {
        is_placeholder(&self.0)
    }
}

const PLACEHOLDERS: [&str; 11] = [
    "dummy",
    "empty",
    "fake",
    "fake-api-key",
    "lm-studio",
    "no-key",
    "none",
    "not-needed",
    "null",
    "ollama",
    "sk-no-key-required",
];

/// Whether a text is a placeholder and no key.
#[must_use]
pub fn is_placeholder(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    text.is_empty() || PLACEHOLDERS.contains(&text.as_str())
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Why the secrets file can't be used.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields
pub enum SecretsError {
    /// Other users may read it.
    #[error(
        "the secrets file `{path}` can be read by others (mode {mode:04o}): run `chmod 600 {path}`"
    )]
    Mode { path: String, mode: u32 },
    /// It can't be read.
    #[error("the secrets file `{path}` can't be read: {reason}")]
    Unreadable { path: String, reason: String },
    /// A line is not an assignment. Its text is left out, because it may be a key.
    #[error("the secrets file `{path}` is invalid in line {line}: write `NAME=value`")]
    Malformed { path: String, line: usize },
}

/// Finds secrets by name: in the environment, then in the secrets file.
pub struct Secrets {
    environment: EnvironmentLookup,
    path: Option<PathBuf>,
    file: OnceLock<Result<BTreeMap<String, Secret>, SecretsError>>,
    /// Secrets in the config, which come before all others.
    given: BTreeMap<String, Secret>,
    /// The secrets that were returned so far, for redaction.
    used: Mutex<BTreeMap<String, Secret>>,
    /// All of them as they were searched last.
    known: Mutex<Arc<KnownSecrets>>,
}

impl Secrets {
    /// Secrets from `environment`, then from the file at `path`. The file is read when a name is
    /// not in the environment; it need not exist.
    #[must_use]
    pub fn new(environment: EnvironmentLookup, path: Option<PathBuf>) -> Self {
        Self {
            environment,
            path,
            file: OnceLock::new(),
            given: BTreeMap::new(),
            used: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// Adds a secret that the config itself holds.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.given.insert(name.to_owned(), Secret(value.to_owned()));
        self
    }

    /// The secret of that name, if it is set. An empty value counts as unset.
    ///
    /// # Errors
    /// [`SecretsError`] if the secrets file is needed and can't be read, can be read by others, or
    /// is malformed.
    pub fn get(&self, name: &str) -> Result<Option<Secret>, SecretsError> {
        if let Some(secret) = self.given.get(name) {
            return Ok(Some(secret.clone()));
        }
        let found = match (self.environment)(name).as_deref().map(str::trim) {
            Some(value) if !value.is_empty() => Some(Secret(value.to_owned())),
            _ => self.file_entries()?.get(name).cloned(),
        };
        if let Some(secret) = &found {
            self.used
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(name.to_owned(), secret.clone());
        }
        Ok(found)
    }

    /// The names in the secrets file; empty if it can't be used, which [`Secrets::get`] reports.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let entries = self.file_entries();
        entries.map_or_else(|_| Vec::new(), |entries| entries.keys().cloned().collect())
    }

    /// All secrets in the secrets file.
    ///
    /// # Errors
    /// [`SecretsError`] as of [`Secrets::get`].
    pub fn in_file(&self) -> Result<Vec<Secret>, SecretsError> {
        Ok(self.file_entries()?.values().cloned().collect())
    }

    /// The file in which a missing secret can be set, for messages.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The secrets that are known so far.
    pub(super) fn known(&self) -> Arc<KnownSecrets> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let in_file = self.file.get().and_then(|file| file.as_ref().ok());
        let mut all: Vec<(String, String)> = in_file
            .into_iter()
            .flatten()
            .chain(used.iter())
            .chain(&self.given)
            .filter(|(_, secret)| secret.0.chars().count() >= SHORTEST_REDACTED)
            .filter(|(_, secret)| !secret.is_placeholder())
            .map(|(name, secret)| (secret.0.clone(), name.clone()))
            .collect();
        all.sort_unstable();
        all.dedup();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.are(&all) {
            *known = Arc::new(KnownSecrets::new(all));
        }
        known.clone()
    }

    /// `text` with every known secret, in whatever spelling, or the beginning of one that a cut has left,
    /// replaced by `[NAME]`.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        self.known().redact(text)
    }

    /// Replaces every known secret by `[NAME]`, in whatever spelling, in what a server has made for the model's
    /// user. Only whole ones, and no ordinary word that somebody has as a key: the text may be a command.
    pub fn mask(&self, text: &mut String) {
        self.known().mask(text);
    }

    /// The same in all texts of a value, also in the names of fields. Returns whether one was found.
    pub fn mask_value(&self, value: &mut Value) -> bool {
        self.known().mask_value(value)
    }

    fn file_entries(&self) -> Result<&BTreeMap<String, Secret>, SecretsError> {
        self.file
            .get_or_init(|| match &self.path {
                Some(path) => read(path),
                None => Ok(BTreeMap::new()),
            })
            .as_ref()
            .map_err(Clone::clone)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

fn read(path: &Path) -> Result<BTreeMap<String, Secret>, SecretsError> {
    let unreadable = |error: std::io::Error| SecretsError::Unreadable {
        path: path.display().to_string(),
        reason: error.to_string(),
    };
    let file = match regular_file::open(path, regular_file::SETTINGS) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(unreadable(error)),
    };
    // The mode of the opened file and not of the path, which could be replaced in between.
    check_mode(path, &file.metadata().map_err(unreadable)?)?;
    let text = regular_file::read_opened(&file, regular_file::SETTINGS)
        .and_then(regular_file::text)
        .map_err(unreadable)?;
    parse(&text).map_err(|line| SecretsError::Malformed {
        path: path.display().to_string(),
        line,
    })
}

#[cfg(unix)]
fn check_mode(path: &Path, metadata: &std::fs::Metadata) -> Result<(), SecretsError> {
    use std::os::unix::fs::PermissionsExt;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(SecretsError::Mode {
        path: path.display().to_string(),
        mode,
    })
}

#[cfg(not(unix))]
fn check_mode(_: &Path, _: &std::fs::Metadata) -> Result<(), SecretsError> {
    Ok(())
}

/// Reads `NAME=value` lines. The error is the number of the first malformed line.
fn parse(text: &str) -> Result<BTreeMap<String, Secret>, usize> {
    let mut found = BTreeMap::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").map_or(line, str::trim_start);
        let (name, value) = line.split_once('=').ok_or(index + 1)?;
        let name = name.trim();
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(index + 1);
        }
        let value = unquote(value.trim()).ok_or(index + 1)?;
        if !value.is_empty() {
            found.insert(name.to_owned(), Secret(value.to_owned()));
        }
    }
    Ok(found)
}

/// Removes quotes from a value, or a comment from an unquoted one (` #...`, as in dotenv files). No
/// escapes: no provider's key needs them.
fn unquote(value: &str) -> Option<&str> {
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            let (inner, after) = rest.split_once(quote)?;
            let after = after.trim();
            return (after.is_empty() || after.starts_with('#')).then_some(inner);
        }
    }
    if value.starts_with('#') {
        return Some("");
    }
    Some(
        value
            .find(" #")
            .map_or(value, |end| value[..end].trim_end()),
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use super::*;

    fn environment(pairs: &'static [(&'static str, &'static str)]) -> EnvironmentLookup {
        Arc::new(move |name| {
            pairs
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    fn file(text: &str, mode: u32) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.as_file()
            .set_permissions(std::fs::Permissions::from_mode(mode))
            .unwrap();
        file
    }

    #[test]
    fn lines() {
        for (text, expected) in [
            ("A=b", Some(vec![("A", "b")])),
            (
                "export A=b\n\n# c\n B = d \r\n",
                Some(vec![("A", "b"), ("B", "d")]),
            ),
            (
                "A=\"b # c\" # d\nB='e'",
                Some(vec![("A", "b # c"), ("B", "e")]),
            ),
            ("A=b#c", Some(vec![("A", "b#c")])),
            ("A=b #c", Some(vec![("A", "b")])),
            ("A=x=y==", Some(vec![("A", "x=y==")])),
            ("A=\nB=\"\"\nC= # none", Some(vec![])),
            ("\u{feff}A=b", Some(vec![("A", "b")])),
            ("sk-123", None),
            ("=b", None),
            ("A B=c", None),
            ("A=\"b", None),
            ("A=\"b\"c", None),
        ] {
            let found = parse(text).ok().map(|map| {
                map.iter()
                    .map(|(name, value)| (name.clone(), value.expose().to_owned()))
                    .collect::<Vec<_>>()
            });
            let expected = expected.map(|pairs| {
                pairs
                    .into_iter()
                    .map(|(a, b)| (a.to_owned(), b.to_owned()))
                    .collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{text:?}");
        }
        assert_eq!(parse("A=b\n\nsk-secret").unwrap_err(), 3);
    }

    #[test]
    fn the_environment_wins_and_an_empty_value_is_none() {
        let file = file("A=from-file\nB=from-file\n", 0o600);
        let secrets = Secrets::new(
            environment(&[("A", " from-env\n"), ("B", " ")]),
            Some(file.path().to_owned()),
        );
        let get = |name| secrets.get(name).unwrap().map(|s| s.expose().to_owned());
        assert_eq!(get("A").as_deref(), Some("from-env"));
        assert_eq!(get("B").as_deref(), Some("from-file"));
        assert_eq!(get("C"), None);
        assert_eq!(secrets.names(), ["A", "B"]);
    }

    #[test]
    fn the_file_must_be_private() {
        for mode in [0o644, 0o640, 0o604, 0o660] {
            let file = file("A=abcdef", mode);
            let path = file.path().display().to_string();
            let secrets = Secrets::new(environment(&[("B", "x")]), Some(file.path().to_owned()));
            let message = secrets.get("A").unwrap_err().to_string();
            assert!(
                message.contains(&format!("`chmod 600 {path}`")),
                "{message}"
            );
            // a name in the environment does not need the file
            assert!(secrets.get("B").unwrap().is_some());
        }
        for mode in [0o600, 0o400] {
            let file = file("A=abcdef", mode);
            let secrets = Secrets::new(environment(&[]), Some(file.path().to_owned()));
            assert!(secrets.get("A").unwrap().is_some());
        }
    }

    #[test]
    fn a_missing_file_is_an_empty_one_and_a_broken_one_tells_no_secret() {
        let secrets = Secrets::new(environment(&[]), Some("/nonexistent/secrets".into()));
        assert_eq!(secrets.get("A").unwrap(), None);
        assert!(secrets.names().is_empty());
        let file = file("A=b\nsk-verysecret\n", 0o600);
        let secrets = Secrets::new(environment(&[]), Some(file.path().to_owned()));
        let error = secrets.get("A").unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
        assert!(!format!("{error} {error:?}").contains("verysecret"));
    }

    #[test]
    fn what_the_config_brings_comes_first_and_is_redacted_at_once() {
        let secrets =
            Secrets::new(environment(&[("A", "from-env")]), None).with("A", "from-config");
        assert_eq!(secrets.redact("x from-config"), "x [A]");
        assert_eq!(secrets.get("A").unwrap().unwrap().expose(), "from-config");
        assert!(!format!("{secrets:?}").contains("from-config"));
    }

    #[test]
    fn placeholders_are_no_secrets() {
        for text in [
            "EMPTY",
            "dummy",
            "None",
            "sk-no-key-required",
            "",
            " ",
            "ollama",
        ] {
            assert!(is_placeholder(text), "{text}");
            let secrets = Secrets::new(environment(&[]), None).with("A", text);
            let line = format!("model {text} not found");
            assert_eq!(secrets.redact(&line), line);
        }
        for text in ["sk-1234", "dummy-1", "token-abc123", "emptyish"] {
            assert!(!is_placeholder(text), "{text}");
        }
    }

    #[test]
    fn replies_are_masked_where_a_secret_is_whole() {
        let names = [
            ("A", "sk-a/b+c&1234567"),
            ("B", "password"),
            ("C", "short1"),
        ];
        let secrets = names
            .iter()
            .fold(Secrets::new(environment(&[]), None), |all, it| {
                all.with(it.0, it.1)
            });
        let base64 = |text: &str| {
            use base64::Engine as _;
            base64::prelude::BASE64_STANDARD.encode(text)
        };
        let inside = |text: &str| {
            let mut text = text.to_owned();
            secrets.mask(&mut text);
            text
        };
        for before in ["", "a", "ab", "Bearer "] {
            let text = inside(&base64(&format!("{before}sk-a/b+c&1234567!")));
            assert!(text.contains("[A]"), "{before}: {text}");
        }
        for text in [
            "sk-a/b+c&1234567",
            "sk-a%2Fb%2Bc%261234567",
            "sk-a\\/b+c\\u00261234567",
            "sk-a/b+c&amp;1234567",
            "736b2d612f622b632631323334353637",
        ] {
            assert_eq!(inside(&format!("<{text}>")), "<[A]>", "{text}");
        }
        for text in ["sk-a/b+c&", "cat password", "short1", "", "é"] {
            assert_eq!(inside(text), text);
        }
        let mut value = serde_json::json!({"sk-a/b+c&1234567": [1, {"x": "sk-a/b+c&1234567"}]});
        secrets.mask_value(&mut value);
        assert_eq!(value, serde_json::json!({"[A]": [1, {"x": "[A]"}]}));
    }

    #[test]
    fn redaction() {
        let file = file("FROM_FILE=file-secret\nSHORT=abc\n", 0o600);
        let secrets = Secrets::new(
            environment(&[("KEY", "sk-12345"), ("LONG", "sk-12345-and-more")]),
            Some(file.path().to_owned()),
        );
        assert_eq!(secrets.redact("sk-12345"), "sk-12345", "not known yet");
        for name in ["KEY", "LONG", "SHORT"] {
            secrets.get(name).unwrap();
        }
        for (text, expected) in [
            ("bad key sk-12345!", "bad key [KEY]!"),
            ("sk-12345-and-more, sk-12345", "[LONG], [KEY]"),
            ("abc", "abc"),
            ("a file-secret", "a [FROM_FILE]"),
            ("nothing", "nothing"),
            // the text was cut within the secret
            ("your sk-12345-and-m…", "your [LONG]…"),
            ("your sk-12345-and-m...", "your [LONG]..."),
            ("your `sk-12345-a` is", "your `[LONG]` is"),
            ("your sk-12345-****", "your [LONG]****"),
            ("sk-123", "[LONG]"),
            ("sk-123…", "[LONG]…"),
            ("sk-123 and sk-12...", "sk-123 and sk-12..."),
            (
                "a file-secre, file-sec; file-se",
                "a [FROM_FILE], [FROM_FILE]; [FROM_FILE]",
            ),
            ("a file-set", "a file-set"),
            ("é€ sk-12345é", "é€ [KEY]é"),
            ("é", "é"),
            ("", ""),
            // Every spelling.
            ("a Basic OnNrLTEyMzQ1 b", "a Basic On[KEY] b"),
            ("736b2d3132333435", "[KEY]"),
            ("u=sk%2D12345&", "u=[KEY]&"),
            ("\"\\u0073k-12345\"", "\"[KEY]\""),
        ] {
            assert_eq!(secrets.redact(text), expected, "{text}");
        }
        let debug = format!("{secrets:?} {:?}", secrets.get("KEY").unwrap());
        assert!(!debug.contains("12345"), "{debug}");
    }
}
