//! Compiled code of plugins that the binary does not carry, kept below the user's cache
//! folder. The key is the plugin's content together with everything that the code depends on
//! (wasmtime's version, the engine's options, the machine), so nothing ever goes stale.

use std::hash::{Hash, Hasher};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

/// A folder of compiled plugins.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
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
        let Some(code) = checked(&path) else {
            tracing::debug!(path = %path.display(), "compiled plugin damaged, compiling again");
            return None;
        };
        // SAFETY: the bytes are what `put` wrote: only this user can write to the folder
        // (`trusted`), the checksum holds (`checked`: a disk or a crash may damage a file),
        // and wasmtime checks version and options itself. What this can't exclude is the user
        // (or root) forging the file; whoever can do that can replace this program too.
        match unsafe { Component::deserialize(engine, &code) } {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::debug!(%error, path = %path.display(), "compiled plugin not usable, compiling again");
                None
            }
        }
    }

    /// Keeps compiled code. Failing to is no error: the next run compiles again.
    pub fn put(&self, engine: &Engine, digest: &str, component: &Component) {
        if let Err(error) = self.try_put(engine, digest, component) {
            tracing::debug!(%error, folder = %self.folder.display(), "compiled plugin not cached");
        }
    }

    fn try_put(&self, engine: &Engine, digest: &str, component: &Component) -> anyhow::Result<()> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        anyhow::ensure!(self.trusted(), "the folder can be written by others");
        let code = component.serialize()?;
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(&code)?;
        file.write_all(&Sha256::digest(&code))?;
        file.persist(self.path(engine, digest))?;
        Ok(())
    }

    /// Removes everything; returns how many files there were.
    ///
    /// # Errors
    /// When a file can't be removed.
    pub fn clear(&self) -> std::io::Result<usize> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        let mut count = 0;
        for entry in entries {
            std::fs::remove_file(entry?.path())?;
            count += 1;
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

/// The code in a file, if the checksum at its end holds. Damaged machine code would not fail,
/// it would run.
fn checked(path: &Path) -> Option<Vec<u8>> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    if !meta.is_file() || !is_private(&meta) {
        return None;
    }
    let mut code = std::fs::read(path).ok()?;
    let sum = code.split_off(code.len().checked_sub(32)?);
    (Sha256::digest(&code)[..] == sum[..]).then_some(code)
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
