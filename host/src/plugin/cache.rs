//! Compiled code of plugins that the binary does not carry, kept below the user's cache
//! folder. The key is the plugin's content together with everything that the code depends on
//! (wasmtime's version, the engine's options, the machine), so nothing ever goes stale.

use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

/// A folder of compiled plugins.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
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
    /// Of the machine code. It guards against a damaged disk; against forgers the folder's
    /// permissions do.
    pub crc32: u32,
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
        Some(Self::at(base.join("mswea-host").join("wasm")))
    }

    /// A cache in `folder`.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The compiled code of the plugin with this digest, if it is here and fits the engine.
    pub fn get(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let path = self.path(engine, digest);
        if !path.exists() || !self.trusted() {
            return None;
        }
        if !is_whole(&path) {
            tracing::debug!(path = %path.display(), "compiled plugin damaged, compiling again");
            return None;
        }
        // SAFETY: the file is what `put` wrote: only this user can write to the folder
        // (`trusted`) and to the file, its checksum holds (`is_whole`: a disk or a crash may
        // damage a file), files are replaced and never changed, and wasmtime checks version and
        // options itself. What this can't exclude is the user (or root) forging the file;
        // whoever can do that can replace this program too.
        match unsafe { Component::deserialize_file(engine, &path) } {
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
    pub fn put(
        &self,
        engine: &Engine,
        plugin: &str,
        digest: &str,
        component: &Component,
    ) -> Option<String> {
        if let Err(error) = self.try_put(engine, plugin, digest, component) {
            tracing::debug!(%error, folder = %self.folder.display(), "compiled plugin not cached");
            return None;
        }
        if !Path::new(plugin).is_absolute() {
            return None;
        }
        let files = std::fs::read_dir(&self.folder).ok()?;
        let mut before: Option<(std::time::SystemTime, String)> = None;
        for path in files.filter_map(|file| Some(file.ok()?.path())) {
            let is_code = path.extension().is_some_and(|ext| ext == "cwasm");
            let entry = entry_of(&path).filter(|entry| is_code && entry.plugin == plugin);
            let Some(entry) = entry.filter(|entry| entry.sha256 != digest) else {
                continue;
            };
            let written = std::fs::metadata(&path)
                .and_then(|meta| meta.modified())
                .ok()?;
            if before.as_ref().is_none_or(|(at, _)| *at < written) {
                before = Some((written, entry.sha256));
            }
            let _ = std::fs::remove_file(path.with_extension("json"));
            let _ = std::fs::remove_file(&path);
        }
        before.map(|(_, digest)| digest)
    }

    fn try_put(
        &self,
        engine: &Engine,
        plugin: &str,
        digest: &str,
        component: &Component,
    ) -> anyhow::Result<()> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        anyhow::ensure!(self.trusted(), "the folder can be written by others");
        let code = component.serialize()?;
        let entry = Entry {
            plugin: plugin.to_owned(),
            sha256: digest.to_owned(),
            size: code.len() as u64,
            crc32: crc32fast::hash(&code),
        };
        let path = self.path(engine, digest);
        // The checksum first: code without one is not used.
        self.write(&path.with_extension("json"), &serde_json::to_vec(&entry)?)?;
        self.write(&path, &code)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(bytes)?;
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

    fn path(&self, engine: &Engine, digest: &str) -> PathBuf {
        // A fixed hash (not the standard library's): the key must be the same in every run.
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
        let key: String = hex(&sink.0.finalize()).chars().take(40).collect();
        self.folder.join(format!("{key}.cwasm"))
    }
}

/// Whether it belongs to this user or to root.
fn is_ours(meta: &std::fs::Metadata) -> bool {
    meta.uid() == 0 || meta.uid() == rustix::process::geteuid().as_raw()
}

/// Whether only its owner, who is this user or root, can write to it.
fn is_private(meta: &std::fs::Metadata) -> bool {
    is_ours(meta) && meta.mode() & 0o022 == 0
}

/// What lies beside a compiled plugin.
fn entry_of(code: &Path) -> Option<Entry> {
    serde_json::from_slice(&std::fs::read(code.with_extension("json")).ok()?).ok()
}

/// Whether the code in a file is what its checksum says. Damaged machine code would not fail, it
/// would run.
fn is_whole(path: &Path) -> bool {
    let is_ours =
        std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && is_private(&meta));
    let sum = || {
        let mut file = File::open(path).ok()?;
        let (mut hasher, mut buffer) = (crc32fast::Hasher::new(), vec![0; 256 << 10]);
        loop {
            match file.read(&mut buffer).ok()? {
                0 => return Some((hasher.clone().finalize(), file.metadata().ok()?.len())),
                read => hasher.update(&buffer[..read]),
            }
        }
    };
    is_ours && entry_of(path).is_some_and(|entry| sum() == Some((entry.crc32, entry.size)))
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
