//! The first-party plugins inside this binary, and their ahead-of-time code where it carries
//! any.
//!
//! `cargo build` embeds the components; `mswea-host ship OUTPUT` writes a copy of the running
//! binary with their compiled code behind its end. That needs no second build, and no relink:
//! the program that compiles is the program that will load. The payload is found by the mark
//! in the file's last bytes; without it (a plain build) plugins are compiled on first use.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::regular_file;
pub use mswea_plugins::Builtin;

const MARK: &[u8; 16] = b"\0mswea-host-aot1";

/// Bytes that the code of one plugin may have.
const MOST_CODE: usize = 512 << 20;

/// The built-in plugin of this name: `text_regex`, or `parsers/text_regex`, with or without
/// `.wasm`.
pub fn find(name: &str) -> Option<&'static Builtin> {
    let name = name.strip_suffix(".wasm").unwrap_or(name);
    mswea_plugins::BUILTIN.iter().find(|builtin| {
        name == builtin.name
            || name
                .strip_suffix(builtin.name)
                .and_then(|rest| rest.strip_suffix('/'))
                .is_some_and(|folder| folder == builtin.folder)
    })
}

/// All of them.
pub fn all() -> &'static [Builtin] {
    mswea_plugins::BUILTIN
}

#[derive(Serialize, Deserialize)]
struct Entry {
    /// Of the plugin that the code belongs to.
    sha256: String,
    /// Of the packed code: damaged machine code would not fail, it would run.
    code_sha256: String,
    start: u64,
    len: u64,
}

struct Payload {
    file: File,
    entries: Vec<Entry>,
    /// Where the index starts, and with it the code ends.
    end: u64,
}

fn payload() -> Option<&'static Payload> {
    static PAYLOAD: OnceLock<Option<Payload>> = OnceLock::new();
    PAYLOAD
        .get_or_init(|| match read_payload() {
            Ok(payload) => payload,
            Err(error) => {
                tracing::debug!(%error, "no ahead-of-time code");
                None
            }
        })
        .as_ref()
}

fn read_payload() -> anyhow::Result<Option<Payload>> {
    let mut file =
        File::open("/proc/self/exe").or_else(|_| File::open(std::env::current_exe()?))?;
    let end = file.seek(SeekFrom::End(0))?;
    let mut tail = [0; 24];
    let Some(tail_start) = end.checked_sub(24) else {
        return Ok(None);
    };
    file.read_exact_at(&mut tail, tail_start)?;
    if &tail[8..] != MARK {
        return Ok(None);
    }
    let index_len = u64::from_le_bytes(tail[..8].try_into().context("invariant: eight bytes")?);
    let index_start = tail_start
        .checked_sub(index_len)
        .context("the index is longer than the file")?;
    let mut index = vec![0; usize::try_from(index_len)?];
    file.read_exact_at(&mut index, index_start)?;
    Ok(Some(Payload {
        file,
        entries: serde_json::from_slice(&index)?,
        end: index_start,
    }))
}

/// The ahead-of-time code of the plugin with this digest, if this binary carries it.
pub fn ahead_of_time(engine: &Engine, digest: &str, name: &str) -> Option<Component> {
    let payload = payload()?;
    let entry = payload
        .entries
        .iter()
        .find(|entry| entry.sha256 == digest)?;
    let code = match unpack(payload, entry) {
        Ok(code) => code,
        Err(error) => {
            tracing::warn!(%error, plugin = name, "ahead-of-time code is damaged, compiling");
            return None;
        }
    };
    // SAFETY: the bytes come from inside this program's own file, where `ship` put what this
    // very engine had compiled; wasmtime checks version and options itself. Whoever can change
    // them can change the program.
    match unsafe { Component::deserialize(engine, &code) } {
        Ok(component) => Some(component),
        Err(error) => {
            tracing::warn!(%error, plugin = name, "ahead-of-time code not usable on this machine, compiling");
            None
        }
    }
}

fn unpack(payload: &Payload, entry: &Entry) -> anyhow::Result<Vec<u8>> {
    // Bounded before anything is allocated for it.
    let end = entry.start.checked_add(entry.len);
    anyhow::ensure!(
        end.is_some_and(|end| end <= payload.end),
        "it lies outside the file"
    );
    let mut packed = vec![0; usize::try_from(entry.len)?];
    payload.file.read_exact_at(&mut packed, entry.start)?;
    anyhow::ensure!(
        super::digest(&packed) == entry.code_sha256,
        "its checksum differs"
    );
    let unpacked = miniz_oxide::inflate::decompress_to_vec_with_limit(&packed, MOST_CODE);
    unpacked.map_err(|error| anyhow::anyhow!("{error}"))
}

/// Whether this binary carries ahead-of-time code.
pub fn is_shipped() -> bool {
    payload().is_some()
}

/// Writes a copy of the running binary that carries the ahead-of-time code of all built-in
/// plugins, and of these files. Returns its size.
///
/// # Errors
/// When the output can't be written or a plugin can't be compiled.
pub fn ship(output: &Path, files: &[PathBuf]) -> anyhow::Result<u64> {
    let engine = super::engine::portable()?;
    let mut program = Vec::new();
    File::open("/proc/self/exe")
        .or_else(|_| File::open(std::env::current_exe()?))?
        .read_to_end(&mut program)?;
    if let Some(payload) = payload() {
        // A shipped binary ships its own program, not the payload twice.
        let start = payload.entries.iter().map(|entry| entry.start).min();
        if let Some(start) = start {
            program.truncate(usize::try_from(start)?);
        }
    }
    let mut components = Vec::new();
    for path in files {
        let name = path.display().to_string();
        let bytes = regular_file::read(path, super::load::LARGEST)
            .with_context(|| format!("can't read plugin `{name}`"))?;
        super::recognise::check_bytes(&name, &bytes)?;
        components.push((name, super::digest(&bytes), bytes));
    }
    // Variants share the code of what they are variants of.
    for builtin in all().iter().filter(|builtin| builtin.variant.is_none()) {
        let (name, digest) = (builtin.name.to_owned(), builtin.sha256.to_owned());
        components.push((name, digest, builtin.wasm()));
    }
    let mut entries = Vec::new();
    for (name, sha256, bytes) in components {
        let code = engine
            .precompile_component(&bytes)
            .map_err(anyhow::Error::from)
            .with_context(|| format!("can't compile plugin `{name}`"))?;
        // Machine code packs to a third, and a run waits milliseconds for that of its plugins.
        let code = miniz_oxide::deflate::compress_to_vec(&code, 9);
        entries.push(Entry {
            sha256,
            code_sha256: super::digest(&code),
            start: program.len() as u64,
            len: code.len() as u64,
        });
        program.extend_from_slice(&code);
    }
    let index = serde_json::to_vec(&entries)?;
    program.extend_from_slice(&index);
    program.extend_from_slice(&(index.len() as u64).to_le_bytes());
    program.extend_from_slice(MARK);

    let folder = output
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .with_context(|| format!("can't create `{}`", folder.display()))?;
    let mut file = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("can't write to `{}`", folder.display()))?;
    file.write_all(&program)?;
    file.as_file()
        .set_permissions(std::fs::Permissions::from_mode(0o755))?;
    file.persist(output)
        .with_context(|| format!("can't write `{}`", output.display()))?;
    Ok(program.len() as u64)
}
