//! The source of a plugin: a built-in one or a file, read and not yet inspected.

use std::path::{Path, PathBuf};

use super::builtin::{self, Builtin};
use super::cache;
use super::error::LoadError;
use super::recognise::LARGEST;

/// The source of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Inside this binary: its folder (`parsers`, ...).
    BuiltIn(&'static str),
    /// A file.
    File(PathBuf),
}

/// A plugin that was found and is not compiled or run yet, so that callers can check its digest
/// first.
#[derive(Debug)]
pub struct FoundPlugin {
    /// The plugin's name in messages.
    pub label: String,
    /// The source of the plugin.
    pub source: Source,
    /// SHA-256 of the component, in hex.
    pub digest: String,
    /// The component's bytes, or the built-in plugin.
    pub(super) component: ComponentContent,
}

/// The component of a plugin that was found.
#[derive(Debug)]
pub(super) enum ComponentContent {
    File(Vec<u8>),
    BuiltIn(&'static Builtin),
}

impl FoundPlugin {
    /// Finds what `--plugin` names: a file, or the name of a built-in plugin.
    pub(super) fn find(name: &str) -> Result<Self, LoadError> {
        // A bare name is never a file: a repository that contains a file called `toolcall` must not
        // decide which parser reads the model's replies.
        let path = Path::new(name);
        let is_path = name.contains('/') || path.extension().is_some_and(|ext| ext == "wasm");
        if is_path && path.exists() {
            return Self::file(path);
        }
        if let Some(builtin) = builtin::find(name) {
            return Ok(Self::built_in(builtin));
        }
        if is_path || path.is_dir() {
            return Self::file(path);
        }
        let known: Vec<String> = builtin::all()
            .iter()
            .map(|builtin| format!("`{}`", builtin.name))
            .collect();
        let hint = mswea_text::nearest(name, builtin::all().iter().map(|builtin| builtin.name))
            .map(|near| format!(" (did you mean `{near}`?)"))
            .or_else(|| {
                path.exists()
                    .then(|| format!(" (the file of that name is `./{name}`)"))
            })
            .unwrap_or_default();
        Err(LoadError::Unknown {
            name: name.to_owned(),
            known: known.join(", "),
            hint,
        })
    }

    pub(super) fn file(path: &Path) -> Result<Self, LoadError> {
        let unreadable = |source| LoadError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let bytes = mswea_files::read(path, LARGEST).map_err(unreadable)?;
        Ok(Self {
            label: path.display().to_string(),
            source: Source::File(path.to_owned()),
            digest: cache::digest(&bytes),
            component: ComponentContent::File(bytes),
        })
    }

    pub(super) fn built_in(builtin: &'static Builtin) -> Self {
        Self {
            label: builtin.name.to_owned(),
            source: Source::BuiltIn(builtin.folder),
            digest: builtin.sha256.to_owned(),
            component: ComponentContent::BuiltIn(builtin),
        }
    }

    /// Checks the digest against a pinned one.
    ///
    /// # Errors
    /// [`LoadError`] if they differ.
    pub fn pinned(&self, name: &str, wanted: Option<&str>) -> Result<(), LoadError> {
        pinned(name, wanted, &self.digest)
    }

    /// Its name in the binary, if it is a variant of another plugin's component.
    pub(super) fn variant(&self) -> Option<&'static str> {
        match &self.component {
            ComponentContent::BuiltIn(builtin) => builtin.variant.map(|_| builtin.name),
            ComponentContent::File(_) => None,
        }
    }
}

/// Checks a digest against a pinned one.
pub(super) fn pinned(name: &str, wanted: Option<&str>, digest: &str) -> Result<(), LoadError> {
    match wanted {
        Some(wanted) if !wanted.eq_ignore_ascii_case(digest) => Err(LoadError::Digest {
            plugin: name.to_owned(),
            wanted: wanted.to_owned(),
            found: digest.to_owned(),
        }),
        _ => Ok(()),
    }
}
