//! Compiled code of plugins that the binary does not carry, kept below the user's cache
//! folder. The name is made of the plugin's content and everything that the code depends on
//! (wasmtime's version, the engine's options, the machine), so nothing ever goes stale.
//!
//! Code from here is run by the host as its own, and the model's commands may be able to write to
//! the folder. So it is only used when it carries the code of a key that they do not have
//! ([`key`]), and from memory: a file that is mapped can still be changed while it runs.

mod key;

use std::hash::{Hash, Hasher};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::regular_file;
pub use key::{Key, Use, VARIABLE, found, withdraw};

/// In front of the code, before its authentication.
const MAGIC: &[u8; 16] = b"mswea-compiled-1";
const TAG: usize = 32;
/// Compiled code that is larger is not kept.
const LARGEST: u64 = 1 << 30;
/// So many logins' code of the same plugin is kept.
const KEYS: usize = 4;

/// A folder of compiled plugins.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    /// Without one, nothing is taken from here and nothing is put here.
    key: Option<Key>,
}

/// What lies beside a compiled plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What it was loaded as: a file, or a built-in plugin's name.
    pub plugin: String,
    /// SHA-256 of the component, in hex.
    pub sha256: String,
    /// Bytes of machine code.
    pub size: u64,
}

impl Cache {
    /// The cache of this user: `$XDG_CACHE_HOME/mswea-host/wasm`, else below `$HOME/.cache`.
    /// `None` when there is no place for it.
    pub fn of_user() -> Option<Self> {
        let base = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| {
                let home = PathBuf::from(std::env::var_os("HOME")?);
                home.is_absolute().then(|| home.join(".cache"))
            })?;
        let key = match found() {
            Use::Keyed(key) => Some(key),
            Use::Trusting => Some(Key::public()),
            Use::None(_) => None,
        };
        let folder = base.join("mswea-host").join("wasm");
        Some(Self { folder, key })
    }

    /// A cache in `folder` that nobody who might forge it can write to.
    pub fn at(folder: PathBuf) -> Self {
        Self {
            folder,
            key: Some(Key::public()),
        }
    }

    /// Whether what is compiled is kept here.
    pub fn keeps(&self) -> bool {
        self.key.is_some()
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The compiled code of the plugin with this digest, if it is here, authentic, and fits the
    /// engine.
    pub fn get(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let key = self.key.as_ref()?;
        let name = name(engine, digest);
        let path = self.path(key, &name);
        if !path.exists() || !self.trusted() {
            return None;
        }
        // All of it is read before anything is believed: who can write to the file may do so at any
        // time.
        let file = regular_file::read(&path, LARGEST).ok()?;
        let Some(code) = authentic(key, &name, &file) else {
            tracing::debug!(path = %path.display(), "compiled plugin damaged or not ours, compiling again");
            return None;
        };
        // SAFETY: the bytes are what `put` was given by this very engine: their authentication
        // holds, for this plugin and this engine, with a key that only programs of this user's
        // login have and that is taken from whatever the host starts (see `key`). They are in our
        // memory, where nobody changes them any more. wasmtime checks version and options itself.
        // With `MSWEA_PLUGIN_CACHE=trust` the user vouches for the folder instead.
        match unsafe { Component::deserialize(engine, code) } {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::debug!(%error, path = %path.display(), "compiled plugin not usable, compiling again");
                None
            }
        }
    }

    /// Keeps compiled code. Failing to is no error: the next run compiles again.
    ///
    /// Of a file, the code of what it was before is removed: authors build often, and some
    /// languages' code is large. Answers the digest that the file had, if it was another.
    pub fn put(&self, engine: &Engine, plugin: &str, digest: &str, code: &[u8]) -> Option<String> {
        let key = self.key.as_ref()?;
        let name = name(engine, digest);
        let path = self.path(key, &name);
        if let Err(error) = self.try_put(key, &name, &path, plugin, digest, code) {
            tracing::debug!(%error, folder = %self.folder.display(), "compiled plugin not cached");
            return None;
        }
        self.tidy(plugin, digest, &path)
    }

    /// Removes what the plugin's file was before, and its code for logins long ago.
    fn tidy(&self, plugin: &str, digest: &str, written: &Path) -> Option<String> {
        let files = std::fs::read_dir(&self.folder).ok()?;
        let mut others = Vec::new();
        for path in files.filter_map(|file| Some(file.ok()?.path())) {
            let is_code = path.extension().is_some_and(|ext| ext == "cwasm");
            let entry = entry_of(&path).filter(|entry| is_code && entry.plugin == plugin);
            let modified = std::fs::metadata(&path).and_then(|meta| meta.modified());
            if let (Some(entry), Ok(modified)) = (entry, modified)
                && path != written
            {
                others.push((modified, path, entry.sha256));
            }
        }
        // The newest first.
        others.sort_by_key(|(modified, ..)| std::cmp::Reverse(*modified));
        let is_file = Path::new(plugin).is_absolute();
        let (mut before, mut kept) = (None, 1);
        for (_, path, sha256) in others {
            let is_other = is_file && sha256 != digest;
            kept += usize::from(!is_other && sha256 == digest);
            if is_other && before.is_none() {
                before = Some(sha256.clone());
            }
            if is_other || (sha256 == digest && kept > KEYS) {
                let _ = std::fs::remove_file(path.with_extension("json"));
                let _ = std::fs::remove_file(&path);
            }
        }
        before
    }

    fn try_put(
        &self,
        key: &Key,
        name: &str,
        path: &Path,
        plugin: &str,
        digest: &str,
        code: &[u8],
    ) -> anyhow::Result<()> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        anyhow::ensure!(self.trusted(), "the folder can be written by others");
        let entry = Entry {
            plugin: plugin.to_owned(),
            sha256: digest.to_owned(),
            size: code.len() as u64,
        };
        self.write(
            &path.with_extension("json"),
            &[&serde_json::to_vec(&entry)?],
        )?;
        let tag = key.code(&[MAGIC, name.as_bytes(), code]);
        self.write(path, &[MAGIC, &tag, code])
    }

    fn write(&self, path: &Path, parts: &[&[u8]]) -> anyhow::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        for part in parts {
            file.write_all(part)?;
        }
        file.persist(path)?;
        Ok(())
    }

    /// What is here, whatever engine it was compiled for; the second of each is when it was
    /// written.
    ///
    /// # Errors
    /// When the folder can't be read.
    pub fn entries(&self) -> std::io::Result<Vec<(Entry, std::time::SystemTime)>> {
        let files = match std::fs::read_dir(&self.folder) {
            Ok(files) => files,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut entries = Vec::new();
        for file in files {
            let path = file?.path();
            let is_code = path.extension().is_some_and(|ext| ext == "cwasm");
            if let Some(entry) = entry_of(&path).filter(|_| is_code) {
                entries.push((entry, std::fs::metadata(&path)?.modified()?));
            }
        }
        entries.sort_by(|a, b| (&a.0.plugin, a.1).cmp(&(&b.0.plugin, b.1)));
        Ok(entries)
    }

    /// Removes everything; returns how many compiled plugins there were.
    ///
    /// # Errors
    /// When a file can't be removed, or the folder is not one that this program made.
    pub fn clear(&self) -> std::io::Result<usize> {
        if std::fs::symlink_metadata(&self.folder).is_ok_and(|meta| !meta.is_dir()) {
            return Err(std::io::Error::other(
                "it is no folder but a link or a file: remove that by hand",
            ));
        }
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        let mut count = 0;
        for entry in entries {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let is_code = name.ends_with(".cwasm");
            // What else lies here is not ours.
            if !(is_code || name.ends_with(".json") || name.starts_with(".tmp")) || path.is_dir() {
                continue;
            }
            std::fs::remove_file(&path).map_err(|error| {
                std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?;
            count += usize::from(is_code);
        }
        Ok(count)
    }

    /// Whether nobody but this user (and root) can have written to the folder, or put another
    /// in its place.
    fn trusted(&self) -> bool {
        let parent_is_safe = self.folder.parent().is_some_and(|parent| {
            std::fs::metadata(parent).is_ok_and(|meta| {
                let sticky = meta.mode() & 0o1000 != 0;
                is_ours(&meta) && (meta.mode() & 0o022 == 0 || sticky)
            })
        });
        parent_is_safe
            && std::fs::symlink_metadata(&self.folder)
                .is_ok_and(|meta| meta.is_dir() && is_private(&meta))
    }

    fn path(&self, key: &Key, name: &str) -> PathBuf {
        self.folder.join(format!("{name}-{}.cwasm", key.id()))
    }
}

/// What names the code of a plugin for an engine.
fn name(engine: &Engine, digest: &str) -> String {
    // A fixed hash (not the standard library's): the name must be the same in every run.
    struct Sink(Sha256);
    impl Hasher for Sink {
        fn finish(&self) -> u64 {
            0
        }
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
    }
    let mut sink = Sink(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut sink);
    sink.0.update(digest.as_bytes());
    hex(&sink.0.finalize()).chars().take(40).collect()
}

/// Whether it belongs to this user or to root.
fn is_ours(meta: &std::fs::Metadata) -> bool {
    meta.uid() == 0 || meta.uid() == rustix::process::geteuid().as_raw()
}

/// Whether only its owner, who is this user or root, can write to it.
fn is_private(meta: &std::fs::Metadata) -> bool {
    is_ours(meta) && meta.mode() & 0o022 == 0
}

/// What lies beside a compiled plugin. Nothing but lists and tidying go by it.
fn entry_of(code: &Path) -> Option<Entry> {
    let text = regular_file::read(&code.with_extension("json"), 64 << 10).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The code in a file of this name, if it is what `put` wrote.
fn authentic<'a>(key: &Key, name: &str, file: &'a [u8]) -> Option<&'a [u8]> {
    let (tag, code) = file.strip_prefix(MAGIC.as_slice())?.split_at_checked(TAG)?;
    let wanted = key.code(&[MAGIC, name.as_bytes(), code]);
    // Whoever forges must not learn from the time how far it is right.
    let differs = wanted.iter().zip(tag).fold(0, |all, (a, b)| all | (a ^ b));
    (differs == 0).then_some(code)
}

/// SHA-256 of a plugin, in hex.
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}
