//! The lock file of plugins: the digests that they must have in every run.
//!
//! A pin belongs to a file (its path is relative to the lock file's folder) or to a built-in plugin
//! (by name). `plugin pin` writes the pins, and each run checks them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use mswea_files as regular_file;
use mswea_plugin_host::{Plugin, Source, builtin};
use mswea_text::harmless;

/// Its name, in the current folder and in the folders of config files.
pub const LOCK_FILE: &str = "mswea-plugins.lock";

const HEAD: &str = "\
# Digests of plugins, written by `mswea-host plugin pin`. A run that finds another digest stops
# before anything is sent. Files count from this folder; a name without a path is a built-in plugin.
";

/// A plugin and the digest that it must have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// A path, or the name of a built-in plugin.
    pub plugin: String,
    /// SHA-256 of the component, in hex.
    pub sha256: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    #[serde(default)]
    plugin: Vec<Pin>,
}

/// Why a plugin or a lock file is refused.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The file can't be read.
    #[error("can't read the lock file `{}`: {source}", path.display())]
    Unreadable {
        /// The lock file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file does not have the form that `plugin pin` writes.
    #[error("the lock file `{}` is invalid: {detail}: correct it, or remove it and pin the plugins again (`mswea-host plugin pin FILE`)", path.display())]
    Damaged {
        /// The lock file.
        path: PathBuf,
        /// The error, with its line.
        detail: String,
    },
    /// The digest differs from the pin.
    #[error("plugin `{plugin}` has changed since it was pinned: `{}` (line {line}) has sha256 {wanted}, now it is {found}; if that is meant, run `mswea-host plugin pin --lock {} {file}`", lock.display(), lock.display())]
    Changed {
        /// The plugin, as it was pinned.
        plugin: String,
        /// The plugin, as it is named on a command line.
        file: String,
        /// The lock file.
        lock: PathBuf,
        /// The line of the pin.
        line: usize,
        /// The pin.
        wanted: String,
        /// The digest now.
        found: String,
    },
}

/// A lock file.
#[derive(Debug, Default)]
pub struct Lock {
    path: PathBuf,
    text: String,
    /// The pins, in the file's order.
    pub pins: Vec<Pin>,
}

impl Lock {
    /// Reads a lock file; without one there are no pins.
    ///
    /// # Errors
    /// [`PinError`] if it can't be read, or does not have the form that `plugin pin` writes.
    pub fn read(path: &Path) -> Result<Self, PinError> {
        let text = match regular_file::read_text(path, regular_file::SETTINGS) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(source) => {
                return Err(PinError::Unreadable {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        let contents: Contents = toml::from_str(&text).map_err(|error| PinError::Damaged {
            path: path.to_owned(),
            detail: error.to_string().trim_end().replace('\n', " "),
        })?;
        let damaged = |detail: String| PinError::Damaged {
            path: path.to_owned(),
            detail,
        };
        for pin in &contents.plugin {
            let name = harmless(&pin.plugin);
            let is_digest =
                pin.sha256.len() == 64 && pin.sha256.bytes().all(|b| b.is_ascii_hexdigit());
            if !is_digest {
                return Err(damaged(format!(
                    "the `sha256` of `{name}` is not a SHA-256 in hex"
                )));
            }
            // A pin for a name that is not a built-in plugin would have no effect.
            if !is_path(&pin.plugin) && builtin::find(&pin.plugin).is_none() {
                return Err(damaged(format!(
                    "`{name}` is not a built-in plugin; a file is written with a slash, `./{name}`"
                )));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            text,
            pins: contents.plugin,
        })
    }

    /// The path of the lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn folder(&self) -> &Path {
        self.path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."))
    }

    /// Whether a pin is for this source, or for the built-in plugin of this name.
    pub fn is_of(&self, pin: &Pin, source: &Source, name: &str) -> bool {
        match source {
            Source::BuiltIn(_) => pin.plugin == name,
            Source::File(file) => {
                is_path(&pin.plugin) && same_file(&self.folder().join(&pin.plugin), file)
            }
        }
    }

    /// Compares a plugin's digest with its pin, if it has one.
    ///
    /// # Errors
    /// [`PinError::Changed`] if they differ.
    pub fn check(&self, source: &Source, name: &str, digest: &str) -> Result<(), PinError> {
        let pin = self.pins.iter().find(|pin| self.is_of(pin, source, name));
        match pin {
            Some(pin) if !pin.sha256.eq_ignore_ascii_case(digest) => {
                let line = self
                    .text
                    .lines()
                    .position(|line| line.contains(&pin.sha256));
                Err(PinError::Changed {
                    plugin: pin.plugin.clone(),
                    file: match source {
                        Source::File(file) => file.display().to_string(),
                        Source::BuiltIn(_) => pin.plugin.clone(),
                    },
                    lock: self.path.clone(),
                    line: line.map_or(1, |line| line + 1),
                    wanted: pin.sha256.clone(),
                    found: digest.to_owned(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Pins the current digest of a plugin; returns its name in the file.
    pub fn pin(&mut self, plugin: &Plugin) -> String {
        let name = match &plugin.source {
            Source::BuiltIn(_) => plugin.name.to_string(),
            Source::File(file) => self.called(file),
        };
        let pin = Pin {
            plugin: name.clone(),
            sha256: plugin.digest.clone(),
        };
        self.pins.retain(|pin| pin.plugin != name);
        self.pins.push(pin);
        self.pins.sort_by(|a, b| a.plugin.cmp(&b.plugin));
        name
    }

    /// A file as the lock file names it: from its own folder, with a slash, so that it is never
    /// taken for a built-in plugin.
    pub fn called(&self, file: &Path) -> String {
        let absolute = |path: &Path| {
            std::fs::canonicalize(path)
                .or_else(|_| std::path::absolute(path))
                .unwrap_or_else(|_| path.to_owned())
        };
        let (file, folder) = (absolute(file), absolute(self.folder()));
        match file.strip_prefix(&folder) {
            Ok(inside) => format!("./{}", inside.display()),
            Err(_) => file.display().to_string(),
        }
    }

    /// Writes the lock file atomically.
    ///
    /// # Errors
    /// The system's error if it can't be written.
    pub fn write(&self) -> std::io::Result<()> {
        let mut text = HEAD.to_owned();
        for pin in &self.pins {
            let _ = write!(
                text,
                "\n[[plugin]]\nplugin = {}\nsha256 = {}\n",
                toml::Value::from(pin.plugin.as_str()),
                toml::Value::from(pin.sha256.as_str())
            );
        }
        let file = tempfile::NamedTempFile::new_in(self.folder())?;
        std::fs::write(file.path(), text)?;
        // The permissions of an ordinary file: those of a temporary file allow only the user.
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(permissions)?;
        file.persist(&self.path)?;
        Ok(())
    }
}

/// Whether the word is a path: built-in plugins have none in a lock file.
fn is_path(word: &str) -> bool {
    word.contains('/')
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// The lock files that a run checks.
#[derive(Debug, Default)]
pub struct Locks(Vec<Lock>);

impl Locks {
    /// Reads the lock files in these folders, each once.
    ///
    /// # Errors
    /// [`PinError`] if one can't be read, or does not have the form that `plugin pin` writes.
    pub fn of<'a>(folders: impl Iterator<Item = &'a Path>) -> Result<Self, PinError> {
        let mut locks: Vec<Lock> = Vec::new();
        for folder in folders {
            let path = folder.join(LOCK_FILE);
            if !path.exists() || locks.iter().any(|lock| same_file(&lock.path, &path)) {
                continue;
            }
            locks.push(Lock::read(&path)?);
        }
        Ok(Self(locks))
    }

    /// Compares a plugin's digest with its pin in each lock file; see [`Lock::check`].
    ///
    /// # Errors
    /// [`PinError::Changed`] if they differ.
    pub fn check(&self, source: &Source, name: &str, digest: &str) -> Result<(), PinError> {
        let mut locks = self.0.iter();
        locks.try_for_each(|lock| lock.check(source, name, digest))
    }
}
