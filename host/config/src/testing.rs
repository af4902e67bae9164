//! An environment in memory, for this crate's tests.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::host_env::HostEnvironment;
use super::layers::{Layers, Sources};
use super::{Config, ConfigError};

/// Files and variables; the working directory is `/work`.
#[derive(Clone, Default)]
pub(super) struct Memory {
    files: BTreeMap<PathBuf, Result<Vec<u8>, io::ErrorKind>>,
    vars: BTreeMap<String, String>,
}

impl Memory {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn file(self, path: &str, text: &str) -> Self {
        self.raw(path, text.as_bytes())
    }

    pub(super) fn raw(mut self, path: &str, bytes: &[u8]) -> Self {
        self.files.insert(path.into(), Ok(bytes.to_vec()));
        self
    }

    pub(super) fn folder(mut self, path: &str) -> Self {
        self.files
            .insert(path.into(), Err(io::ErrorKind::IsADirectory));
        self
    }

    pub(super) fn deny(mut self, path: &str) -> Self {
        self.files
            .insert(path.into(), Err(io::ErrorKind::PermissionDenied));
        self
    }

    pub(super) fn var(mut self, name: &str, value: &str) -> Self {
        self.vars.insert(name.into(), value.into());
        self
    }

    /// Loads with these `-c`.
    pub(super) fn load(&self, configs: &[&str]) -> Result<Layers, ConfigError> {
        Layers::load(&sources(configs), self)
    }

    /// Loads and resolves with these `-c`.
    pub(super) fn resolve(&self, configs: &[&str]) -> Result<Config, ConfigError> {
        self.load(configs)?.resolve()
    }
}

/// Only `-c`.
pub(super) fn sources(configs: &[&str]) -> Sources {
    Sources {
        configs: configs.iter().map(|spec| (*spec).to_owned()).collect(),
        ..Sources::default()
    }
}

impl HostEnvironment for Memory {
    fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).cloned()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let path: PathBuf = path.components().collect();
        match self.files.get(&path) {
            Some(Ok(bytes)) => Ok(bytes.clone()),
            Some(Err(kind)) => Err((*kind).into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn cwd(&self) -> PathBuf {
        "/work".into()
    }
}
