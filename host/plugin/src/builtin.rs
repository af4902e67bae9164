//! The first-party plugins inside this binary, and their ahead-of-time code where it carries any.
//!
//! `cargo build` embeds the components; `mswea-host ship OUTPUT` writes a copy of the running
//! binary with their compiled code appended (`payload`). That needs no second build and no relink, and
//! the program that compiles is the one that loads. Without a payload (a plain build) plugins are
//! compiled at their first use.

mod packing;
mod payload;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use wasmtime::Engine;
use wasmtime::component::Component;

use payload::Payload;

pub use mswea_plugins::Builtin;

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

/// All built-in plugins.
pub fn all() -> &'static [Builtin] {
    mswea_plugins::BUILTIN
}

/// The ahead-of-time code of the plugin with this digest, if this binary has it.
pub fn ahead_of_time(engine: &Engine, digest: &str, name: &str) -> Option<Component> {
    let code = match Payload::own()?.code(digest) {
        Ok(code) => code?,
        Err(error) => {
            tracing::warn!(%error, plugin = name, "the ahead-of-time code is damaged: compiling the plugin");
            return None;
        }
    };
    // SAFETY: the bytes come from this program's own file, where `ship` put code that an engine
    // with the same options compiled; wasmtime checks its version and the options itself. A process
    // that can change these bytes can also change the program.
    match unsafe { Component::deserialize(engine, &code) } {
        Ok(component) => Some(component),
        Err(error) => {
            tracing::warn!(%error, plugin = name, "the ahead-of-time code can't be used on this machine: compiling the plugin");
            None
        }
    }
}

/// Whether this binary has ahead-of-time code.
pub fn is_shipped() -> bool {
    Payload::own().is_some()
}

/// Writes a copy of the running binary that carries the ahead-of-time code of all built-in
/// plugins, and of these files. Returns its size.
///
/// # Errors
/// If the running binary can't be read, the output can't be written, or a plugin can't be compiled.
pub fn ship(output: &Path, files: &[PathBuf]) -> anyhow::Result<u64> {
    let folder = output
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .with_context(|| format!("can't create `{}`", folder.display()))?;
    let beside = || {
        tempfile::NamedTempFile::new_in(folder)
            .with_context(|| format!("can't write to `{}`", folder.display()))
    };
    // An impossible place is reported before the plugins are compiled.
    drop(beside()?);
    let engine = super::engine::portable()?;
    let compiled = |name: &str, digest: &str, component: &[u8]| {
        let code = engine
            .precompile_component(component)
            .map_err(anyhow::Error::from)
            .with_context(|| format!("can't compile plugin `{name}`"))?;
        anyhow::Ok((digest.to_owned(), code))
    };
    let base = find(payload::BASE).context("invariant: the base is a built-in plugin")?;
    let mut others = Vec::new();
    for path in files {
        let name = path.display().to_string();
        let bytes = mswea_files::read(path, super::recognise::LARGEST)
            .with_context(|| format!("can't read plugin `{name}`"))?;
        super::recognise::check_bytes(&name, &bytes)?;
        others.push(compiled(&name, &super::digest(&bytes), &bytes)?);
    }
    // A variant has the code of its base plugin.
    let all = all().iter().chain([&mswea_plugins::TEMPLATE_ENGINE]);
    for builtin in all.filter(|builtin| builtin.variant.is_none()) {
        if builtin.name != base.name {
            others.push(compiled(builtin.name, builtin.sha256, &builtin.wasm())?);
        }
    }
    let base = compiled(base.name, base.sha256, &base.wasm())?;
    let mut program = payload::own_program()?;
    payload::append(&mut program, &base, &others)?;

    let mut file = beside()?;
    file.write_all(&program)?;
    file.as_file()
        .set_permissions(std::fs::Permissions::from_mode(0o755))?;
    file.persist(output)
        .with_context(|| format!("can't write `{}`", output.display()))?;
    Ok(program.len() as u64)
}
