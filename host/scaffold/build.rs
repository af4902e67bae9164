//! Packs the SDKs, their templates and the contract into one archive, which the crate embeds. The
//! Rust SDK's manifest is changed so that it no longer depends on the workspace.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a build script talks to Cargo by printing

use std::env;
use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Folders that tools create in those of the SDKs.
const LEFT_BEHIND: [&str; 5] = ["target", "build", "node_modules", "__pycache__", "dist"];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let root = here
        .ancestors()
        .nth(2)
        .ok_or("host/scaffold has no workspace above it")?;
    for input in ["sdk", "wit", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    let mut files = Vec::new();
    for folder in ["sdk/c", "sdk/js", "sdk/python", "sdk/rust", "wit"] {
        if root.join(folder).is_dir() {
            collect(root, Path::new(folder), &mut files)?;
        }
    }
    files.sort();
    let workspace = fs::read_to_string(root.join("Cargo.toml"))?;
    let mut archive = tar::Builder::new(Vec::new());
    for path in files {
        let source = root.join(&path);
        let bytes = alone(&path, fs::read(&source)?, &workspace)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let executable = fs::metadata(&source)?.permissions().mode() & 0o100 != 0;
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(if executable { 0o755 } else { 0o644 });
        archive.append_data(&mut header, &path, &*bytes)?;
    }
    let packed = miniz_oxide::deflate::compress_to_vec(&archive.into_inner()?, 10);
    fs::write(
        Path::new(&env::var("OUT_DIR")?).join("sdk.tar.deflate"),
        packed,
    )?;
    Ok(())
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().ok_or("a file name that is no UTF-8")?;
        let path = folder.join(name);
        let kind = entry.file_type()?;
        // Folders that only this repository needs.
        let is_ours = ["test", "tests", "generate.sh"].contains(&name)
            && folder.parent() == Some(Path::new("sdk"));
        if is_ours {
            continue;
        }
        if kind.is_dir() && !LEFT_BEHIND.contains(&name) && !name.starts_with('.') {
            collect(root, &path, files)?;
        } else if kind.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

/// A file as it has to be outside this repository.
fn alone(path: &Path, bytes: Vec<u8>, workspace: &str) -> Result<Vec<u8>> {
    match path.to_str() {
        Some("sdk/rust/Cargo.toml") => {
            let mut text = String::new();
            for line in String::from_utf8(bytes)?.lines() {
                match line.strip_suffix(".workspace = true") {
                    Some(key) => text.push_str(workspace_line(workspace, key)?),
                    None => text.push_str(line),
                }
                text.push('\n');
            }
            Ok(text.into_bytes())
        }
        Some(
            "sdk/rust/src/bindings.rs"
            | "sdk/rust/README.md"
            | "sdk/js/README.md"
            | "sdk/c/README.md",
        ) => {
            let text = String::from_utf8(bytes)?;
            if !text.contains("../../wit") {
                return Err(
                    "it has no path to `../../wit` any more, which is to be rewritten \
                            for projects; correct host/scaffold/build.rs"
                        .into(),
                );
            }
            Ok(text.replace("../../wit", "../wit").into_bytes())
        }
        _ => Ok(bytes),
    }
}

/// The line of `[workspace.package]` that gives a key.
fn workspace_line<'a>(workspace: &'a str, key: &str) -> Result<&'a str> {
    let section = workspace
        .split_once("[workspace.package]\n")
        .and_then(|(_, rest)| rest.split("\n[").next())
        .ok_or("the workspace has no `[workspace.package]`")?;
    section
        .lines()
        .find(|line| {
            line.split_once('=')
                .is_some_and(|(name, _)| name.trim() == key)
        })
        .ok_or_else(|| format!("`[workspace.package]` has no `{key}`").into())
}
