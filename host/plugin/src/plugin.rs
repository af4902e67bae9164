//! A plugin that has been loaded: its component, and what is known about it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use wasmtime::component::InstancePre;

use super::builtin::{self, Builtin};
use super::descriptor::Descriptor;
use super::engine::Shared;
use super::error::LoadError;
use super::found::{Source, pinned};
use super::kind::RoleKind;
use super::recognise::LARGEST;
use super::schema::Schema;
use super::store::Guest;

/// A plugin that has been inspected and can be instantiated.
pub struct Plugin {
    /// The plugin's descriptor.
    pub descriptor: Descriptor,
    /// The plugin's name, shared.
    pub name: Arc<str>,
    /// The source of the plugin.
    pub source: Source,
    /// Its name in the binary, if it is a variant of another plugin's component.
    pub(super) variant: Option<&'static str>,
    /// SHA-256 of the component, in hex.
    pub digest: String,
    /// Size of the component in bytes.
    pub size: usize,
    /// The roles that it can take.
    pub kinds: Vec<RoleKind>,
    /// Version of the contract that it was built for.
    pub contract: String,
    /// The names of all imports.
    pub imports: Vec<String>,
    /// The digest that its file had at its last use, by this process or with this cache, if it was
    /// another.
    pub changed_from: Option<String>,
    /// How long compiling took, if it was done now; taken by the code that tells the user.
    pub(super) compiled_now: Mutex<Option<Duration>>,
    pub(super) schema: Schema,
    /// A folder that it may read.
    pub(super) lent: Option<PathBuf>,
    pub(super) pre: InstancePre<Guest>,
    pub(super) shared: Arc<Shared>,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.name)
            .field("source", &self.source)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

impl Plugin {
    /// Checks that it can take this role.
    ///
    /// # Errors
    /// [`LoadError::WrongKind`] with the kinds that it has.
    pub fn require(&self, kind: RoleKind) -> Result<(), LoadError> {
        if self.kinds.contains(&kind) {
            return Ok(());
        }
        let found: Vec<String> = self.kinds.iter().map(|kind| format!("`{kind}`")).collect();
        Err(LoadError::WrongKind {
            plugin: self.descriptor.name.clone(),
            wanted: kind,
            found: found.join(" and "),
        })
    }

    /// Checks the digest against a pinned one.
    ///
    /// # Errors
    /// [`LoadError`] if they differ.
    pub fn pinned(&self, name: &str, wanted: Option<&str>) -> Result<(), LoadError> {
        pinned(name, wanted, &self.digest)
    }

    /// Checks a config against the plugin's schema and fills in the schema's defaults.
    ///
    /// # Errors
    /// [`LoadError::Config`] with a JSON pointer to the value that does not fit.
    pub fn check_config(&self, name: &str, config: &Value) -> Result<Value, LoadError> {
        self.schema
            .check(config)
            .map_err(|problem| LoadError::Config {
                plugin: name.to_owned(),
                pointer: problem.pointer,
                detail: problem.detail,
            })
    }

    /// The component's bytes, read again.
    ///
    /// # Errors
    /// If its file can't be read any more.
    pub fn bytes(&self) -> std::io::Result<Vec<u8>> {
        match &self.source {
            Source::File(path) => mswea_files::read(path, LARGEST),
            Source::BuiltIn(_) => Ok(builtin::all()
                .iter()
                .find(|builtin| builtin.sha256 == self.digest)
                .map(Builtin::wasm)
                .unwrap_or_default()),
        }
    }

    /// If this plugin is a variant, changes its component's descriptor into the variant's.
    pub(super) fn as_variant(&self, descriptor: &mut Descriptor) {
        let found = self
            .variant
            .and_then(|name| builtin::all().iter().find(|builtin| builtin.name == name));
        if let Some(builtin) = found {
            descriptor.become_variant(builtin);
        }
    }

    /// How long compiling took, if it was done now; only the first call returns it.
    pub fn take_compile_time(&self) -> Option<Duration> {
        self.compiled_now
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}
