//! The embedded archive of SDKs, templates and the contract.

use std::io::Read as _;
use std::path::PathBuf;

use crate::error::Error;

static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sdk.tar.deflate"));

/// A file of the archive.
pub(crate) struct ArchiveFile {
    /// Its path in the repository: `sdk/c/mswea.h`.
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    pub(crate) executable: bool,
}

/// Every file of the archive, in the order of their paths.
pub(crate) fn all() -> Result<Vec<ArchiveFile>, Error> {
    let fault = |why: String| Error::Embedded { why };
    let bytes = miniz_oxide::inflate::decompress_to_vec(PACKED)
        .map_err(|error| fault(error.to_string()))?;
    let read = || -> std::io::Result<Vec<ArchiveFile>> {
        tar::Archive::new(&*bytes)
            .entries()?
            .map(|entry| {
                let mut entry = entry?;
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes)?;
                Ok(ArchiveFile {
                    path: entry.path()?.into_owned(),
                    executable: entry.header().mode()? & 0o100 != 0,
                    bytes,
                })
            })
            .collect()
    };
    read().map_err(|error| fault(error.to_string()))
}

/// The version of the contract in the archive, from its `package` line.
pub(crate) fn contract(sources: &[ArchiveFile]) -> Result<String, Error> {
    sources
        .iter()
        .filter(|source| source.path.starts_with("wit"))
        .find_map(|source| {
            let text = std::str::from_utf8(&source.bytes).ok()?;
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("package mswea:plugin@"))?;
            Some(line.trim_end_matches(';').to_owned())
        })
        .ok_or_else(|| Error::Embedded {
            why: "no file of the contract has a `package` line".to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_archive_has_what_projects_need_and_is_small() {
        let sources = all().unwrap();
        for path in ["wit/types.wit", "wit/README.md", "sdk/rust/src/lib.rs"] {
            assert!(
                sources.iter().any(|source| source.path == Path::new(path)),
                "{path}"
            );
        }
        assert!(sources.is_sorted_by_key(|source| &source.path));
        assert!(PACKED.len() < 150_000, "{} bytes", PACKED.len());
        assert_eq!(contract(&sources).unwrap(), "0.1.0");
    }

    #[test]
    fn the_rust_sdk_stands_alone() {
        let sources = all().unwrap();
        let text = |path: &str| {
            let source = sources.iter().find(|source| source.path == Path::new(path));
            String::from_utf8(source.expect(path).bytes.clone()).unwrap()
        };
        let manifest: toml::Table = text("sdk/rust/Cargo.toml").parse().unwrap();
        assert_eq!(manifest["package"]["edition"].as_str(), Some("2024"));
        assert!(!text("sdk/rust/Cargo.toml").contains("workspace"));
        assert!(text("sdk/rust/src/bindings.rs").contains("path: \"../wit\""));
        assert!(!text("sdk/rust/src/bindings.rs").contains("../../wit"));
    }
}
