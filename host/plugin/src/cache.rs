//! Compiled code of plugins that the binary does not carry, kept below the user's cache folder, or
//! beside the program ([`beside`]). The name is made of the plugin's content and everything that
//! the code depends on (wasmtime's version, the engine's options, the machine), so an entry is
//! never out of date.
//!
//! The host runs this code as its own, and the model's commands may be able to write to the folder.
//! So a file is used only if it carries a message authentication code made with a key that commands
//! do not have ([`key`]), and it is read into memory first, because a mapped file can still be
//! changed while its code runs.

mod beside;
mod key;

use std::hash::{Hash, Hasher};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

pub use key::{AuthenticationKey, CacheUse, VARIABLE, found, withdraw};
use mswea_files as regular_file;

/// The first bytes of a file, before the authentication code.
const MAGIC: &[u8; 16] = b"mswea-compiled-1";
const TAG: usize = 32;
/// Larger compiled code is not kept.
const LARGEST: u64 = 1 << 30;
/// The code of a plugin is kept for this many logins.
const KEYS: usize = 4;

/// A folder of compiled plugins.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    /// Without a key, the cache is neither read nor written.
    key: Option<AuthenticationKey>,
    /// Whether the folder is beside the program, so that files and owners are all that protects it.
    is_beside: bool,
}

/// The record beside a compiled plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheEntry {
    /// The path of the plugin's file, or the name of a built-in plugin.
    pub plugin: String,
    /// SHA-256 of the component, in hex.
    pub sha256: String,
    /// Bytes of machine code.
    pub size: u64,
}

/// The folder for this user's cached files, which may be removed at any time; none without an
/// absolute `XDG_CACHE_HOME` or `HOME`.
#[must_use]
pub fn user_cache_folder() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| {
            let home = PathBuf::from(std::env::var_os("HOME")?);
            home.is_absolute().then(|| home.join(".cache"))
        })?;
    Some(base.join("mswea-host"))
}

impl Cache {
    /// The user's cache: `$XDG_CACHE_HOME/mswea-host/wasm`, else below `$HOME/.cache`; `None`
    /// without either. Without a key it is the folder beside the program, if that is safe.
    pub fn of_user() -> Option<Self> {
        let key = match found() {
            CacheUse::Keyed(key) => Some(key),
            CacheUse::Trusting => Some(AuthenticationKey::public()),
            CacheUse::Beside(folder, key) => {
                return Some(Self {
                    folder,
                    key: Some(key),
                    is_beside: true,
                });
            }
            CacheUse::None(_) => None,
        };
        Some(Self {
            folder: user_cache_folder()?.join("wasm"),
            key,
            is_beside: false,
        })
    }

    /// A cache in `folder`, for tests and callers who know that nobody else can write to it.
    pub fn at(folder: PathBuf) -> Self {
        Self {
            folder,
            key: Some(AuthenticationKey::public()),
            is_beside: false,
        }
    }

    /// Whether this process's code is kept: there is a key, and a folder to write to.
    pub fn keeps(&self) -> bool {
        let there = self.folder.ancestors().find(|above| above.exists());
        let access = Access::WRITE_OK | Access::EXEC_OK;
        self.key.is_some() && there.is_some_and(|it| rustix::fs::access(it, access).is_ok())
    }

    /// The permissions of the folder and of a file in it. Beside the program, other users may use the code
    /// that, for example, root has made.
    fn modes(&self) -> (u32, u32) {
        match self.is_beside {
            true => (0o755, 0o644),
            false => (0o700, 0o600),
        }
    }

    /// The cache's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The compiled code of the plugin with this digest, if it is here, authentic, and made for
    /// this engine.
    pub fn get(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let key = self.key.as_ref()?;
        let name = name(engine, digest);
        let path = self.path(key, &name);
        if !path.exists() || !self.trusted() {
            return None;
        }
        // All of the file is read before it is checked, since it may be changed at any time.
        let file = match self.is_beside {
            true => beside::read(&path),
            false => regular_file::read(&path, LARGEST),
        };
        let file = file.ok()?;
        let Some(code) = authentic(key, &name, &file) else {
            tracing::debug!(path = %path.display(), "the compiled plugin in the cache is damaged or was not written by this host: compiling it again");
            return None;
        };
        // SAFETY: the bytes are what `put` got from an engine with the same options. Their
        // authentication code is right for this plugin and these options. It was made with a key
        // that only programs of this user's login have; processes that the host starts do not have
        // it (see `key`). They are in this process's memory, where nothing changes them. wasmtime
        // checks version and options itself. With `MSWEA_PLUGIN_CACHE=trust` the user takes
        // responsibility for the folder instead. Beside the program, only those who can change the
        // program itself can have written the file (see `beside`).
        match unsafe { Component::deserialize(engine, code) } {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::debug!(%error, path = %path.display(), "the compiled plugin in the cache can't be used: compiling it again");
                None
            }
        }
    }

    /// Keeps compiled code. A failure is ignored: the next run compiles again.
    ///
    /// The code of a file's earlier content is removed, because authors build often and some
    /// languages' code is large. Returns the digest of the earlier content, if there was another.
    pub fn put(&self, engine: &Engine, plugin: &str, digest: &str, code: &[u8]) -> Option<String> {
        let key = self.key.as_ref()?;
        let name = name(engine, digest);
        let path = self.path(key, &name);
        if let Err(error) = self.try_put(key, &name, &path, plugin, digest, code) {
            tracing::debug!(%error, folder = %self.folder.display(), "compiled plugin not cached");
            return None;
        }
        self.tidy(key, plugin, digest, &path)
    }

    /// Removes the code of the file's earlier content, and code that was authenticated in old
    /// logins.
    fn tidy(
        &self,
        key: &AuthenticationKey,
        plugin: &str,
        digest: &str,
        written: &Path,
    ) -> Option<String> {
        let files = std::fs::read_dir(&self.folder).ok()?;
        let own = format!("-{}", key.id());
        let mut others = Vec::new();
        for path in files.filter_map(|file| Some(file.ok()?.path())) {
            let is_code = path.extension().is_some_and(|ext| ext == "cwasm");
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            // An earlier state of the program does not come back.
            if self.is_beside && is_code && !stem.ends_with(&own) {
                remove(&path);
                continue;
            }
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
                remove(&path);
            }
        }
        before
    }

    fn try_put(
        &self,
        key: &AuthenticationKey,
        name: &str,
        path: &Path,
        plugin: &str,
        digest: &str,
        code: &[u8],
    ) -> anyhow::Result<()> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(self.modes().0)
            .create(&self.folder)?;
        anyhow::ensure!(self.trusted(), "the folder can be written by others");
        let entry = CacheEntry {
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
        let mode = std::fs::Permissions::from_mode(self.modes().1);
        let mut file = tempfile::Builder::new()
            .permissions(mode)
            .tempfile_in(&self.folder)?;
        for part in parts {
            file.write_all(part)?;
        }
        file.persist(path)?;
        Ok(())
    }

    /// All entries, for any engine, each with the time when it was written.
    ///
    /// # Errors
    /// If the folder can't be read.
    pub fn entries(&self) -> std::io::Result<Vec<(CacheEntry, std::time::SystemTime)>> {
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

    /// Removes all entries and returns their number.
    ///
    /// # Errors
    /// If the folder can't be read, others can write to it, or a file can't be removed.
    pub fn clear(&self) -> std::io::Result<usize> {
        if std::fs::symlink_metadata(&self.folder).is_ok_and(|meta| !meta.is_dir()) {
            return Err(std::io::Error::other(
                "it is not a folder but a link or a file: remove that by hand",
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
            // Files with other names are not the cache's.
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

    /// Whether only this user (and root) can have written to the folder or replaced it.
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

    fn path(&self, key: &AuthenticationKey, name: &str) -> PathBuf {
        self.folder.join(format!("{name}-{}.cwasm", key.id()))
    }
}

/// Removes a plugin's code and its record.
fn remove(code: &Path) {
    let _ = std::fs::remove_file(code.with_extension("json"));
    let _ = std::fs::remove_file(code);
}

/// The file name of a plugin's code for an engine.
fn name(engine: &Engine, digest: &str) -> String {
    // A fixed hash (unlike the standard library's): the name must be the same in every run.
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

/// Whether the file belongs to this user or to root.
fn is_ours(meta: &std::fs::Metadata) -> bool {
    meta.uid() == 0 || meta.uid() == rustix::process::geteuid().as_raw()
}

/// Whether only its owner, who is this user or root, can write to it.
fn is_private(meta: &std::fs::Metadata) -> bool {
    is_ours(meta) && meta.mode() & 0o022 == 0
}

/// The record beside a compiled plugin. It is used for lists and for tidying only.
fn entry_of(code: &Path) -> Option<CacheEntry> {
    let text = regular_file::read(&code.with_extension("json"), 64 << 10).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The code in a file of this name, if its authentication code is right.
fn authentic<'a>(key: &AuthenticationKey, name: &str, file: &'a [u8]) -> Option<&'a [u8]> {
    let (tag, code) = file.strip_prefix(MAGIC.as_slice())?.split_at_checked(TAG)?;
    let wanted = key.code(&[MAGIC, name.as_bytes(), code]);
    // The comparison takes the same time for every difference, so that a forger can't find the
    // right bytes one by one.
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
