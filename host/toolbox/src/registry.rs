//! The registry: a JSON file with values that are kept from one call to the next. If the file lacks
//! a value, the variable of the environment with its name is used.
//!
//! Changes are made under a lock, so that two tools at once lose nothing. Readers need no lock,
//! because a new file replaces the old one as a whole.

use std::env;
use std::fs::{self, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::answer::ToolRefusal;
use crate::places;
use crate::storage::{self, FileTrouble};

/// The time limit for getting the lock, if another tool holds it.
const LOCK_TIME_LIMIT: Duration = Duration::from_secs(20);

/// A file with one JSON object.
pub struct ObjectFile {
    path: PathBuf,
    /// The name of the file in messages.
    what: &'static str,
}

impl ObjectFile {
    /// The file of the registry.
    pub fn registry() -> Self {
        Self {
            path: places::registry(),
            what: "registry",
        }
    }

    /// The file of the state.
    pub fn state() -> Self {
        Self {
            path: places::state(),
            what: "state",
        }
    }

    /// The values; none if there is no file.
    pub fn read(&self) -> Result<Map<String, Value>, ToolRefusal> {
        let content = match storage::bytes(&self.path) {
            Ok(content) => content,
            Err(FileTrouble::Missing) => return Ok(Map::new()),
            Err(trouble) => return Err(trouble.about(&self.path)),
        };
        if content.trim_ascii().is_empty() {
            return Ok(Map::new());
        }
        serde_json::from_slice(&content).map_err(|error| {
            ToolRefusal::one(format!(
                "Error: The {} of the tools, {}, is not a JSON object ({error}). Remove that file to begin with an empty one.",
                self.what,
                self.path.display()
            ))
        })
    }

    /// Changes the values, under the lock.
    pub fn change(&self, change: impl FnOnce(&mut Map<String, Value>)) -> Result<(), ToolRefusal> {
        let refused = |trouble: FileTrouble| trouble.about(&self.path);
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).map_err(|error| refused(error.into()))?;
        }
        let _lock = lock(&self.path)?;
        let before = self.read()?;
        let mut values = before.clone();
        change(&mut values);
        if values == before && self.path.exists() {
            return Ok(());
        }
        let text = Value::Object(values).to_string();
        storage::replace(&self.path, text.as_bytes()).map_err(refused)
    }
}

/// Locks `path` by a file beside it, because `path` itself is replaced.
fn lock(path: &Path) -> Result<fs::File, ToolRefusal> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(&name);
    let file = file.map_err(|error| FileTrouble::from(error).about(&name))?;
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begin.elapsed() < LOCK_TIME_LIMIT => {
                thread::sleep(Duration::from_millis(2));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(ToolRefusal::one(format!(
                    "Error: Another tool has been using {} for {} s; try again.",
                    path.display(),
                    LOCK_TIME_LIMIT.as_secs()
                )));
            }
            Err(TryLockError::Error(error)) => {
                return Err(FileTrouble::Other(error).about(&name));
            }
        }
    }
}

/// The values of the registry at the start of the tool.
pub struct Values(Map<String, Value>);

impl Values {
    /// Reads the registry.
    pub fn read() -> Result<Self, ToolRefusal> {
        ObjectFile::registry().read().map(Self)
    }

    /// The value in the registry, else that of the variable of the environment.
    pub fn get(&self, name: &str) -> Option<Value> {
        let value = self.0.get(name).cloned();
        value.or_else(|| Some(env::var_os(name)?.to_string_lossy().into_owned().into()))
    }

    /// A value as text; none if it is empty or null.
    pub fn text(&self, name: &str) -> Option<String> {
        let text = plain(&self.get(name)?);
        (!text.is_empty()).then_some(text)
    }

    /// A whole number, at least `least`.
    pub fn number(&self, name: &str, least: usize, default: usize) -> Result<usize, ToolRefusal> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        let number = text.trim().parse().ok().filter(|number| *number >= least);
        number.ok_or_else(|| {
            ToolRefusal::one(format!(
                "Error: {name} is `{text}` in the registry or the environment: it must be a whole number, at least {least}."
            ))
        })
    }

    /// Whether a value is set to true.
    pub fn switch(&self, name: &str) -> bool {
        self.text(name)
            .is_some_and(|text| text.eq_ignore_ascii_case("true") || text == "1")
    }
}

/// A value in the form in which a person writes it: a text without quotes, the empty text for null.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
