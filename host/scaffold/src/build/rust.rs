//! Rust, by Cargo.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::tools::Tools;
use crate::error::Error;
use crate::project::Project;

pub(super) const TARGET: &str = "wasm32-wasip2";

const RUSTUP: &str = "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y";

/// The part of Cargo's messages that is used here.
#[derive(Deserialize)]
struct CargoMessage {
    reason: String,
    #[serde(default)]
    filenames: Vec<PathBuf>,
    manifest_path: Option<PathBuf>,
}

pub(super) fn build(
    project: &Project,
    made: &Path,
    tools: &mut Tools<'_>,
) -> Result<String, Error> {
    let cargo = find(tools, "cargo", "which builds plugins in Rust")?;
    target(tools)?;
    let mut command = tools.command(
        &cargo,
        &[
            "build",
            "--release",
            "--target",
            TARGET,
            "--message-format=json-render-diagnostics",
        ],
    );
    // Flags for the machine's own target, and those of a cargo that runs this program.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        command.env_remove(name);
    }
    let words = super::tools::words(&command);
    let output = tools.run(command)?;
    // For any target directory.
    let manifest = project.folder.join("Cargo.toml");
    let component = output
        .lines()
        .filter_map(|line| serde_json::from_str::<CargoMessage>(line).ok())
        .filter(|message| {
            message.reason == "compiler-artifact"
                && message.manifest_path.as_deref() == Some(&*manifest)
        })
        .flat_map(|message| message.filenames)
        .rfind(|file| file.extension().is_some_and(|end| end == "wasm"))
        .ok_or_else(|| Error::NoComponent {
            command: words.clone(),
            why: "`Cargo.toml` needs `crate-type = [\"cdylib\", \"rlib\"]` under `[lib]`"
                .to_owned(),
        })?;
    fs::copy(&component, made).map_err(Error::io("copy the component to", made))?;
    Ok(words)
}

/// A program of rustup's, whose folder is not always in `PATH`.
pub(super) fn find(tools: &Tools<'_>, name: &str, what_for: &str) -> Result<PathBuf, Error> {
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    // If the caller gives a path, only that is searched.
    let elsewhere: Vec<_> = match tools.options.path {
        Some(_) => Vec::new(),
        None => home.into_iter().map(|home| home.join("bin")).collect(),
    };
    tools.find(name, &elsewhere).ok_or_else(|| Error::Missing {
        what: format!("there is no `{name}`, {what_for}"),
        install: vec![RUSTUP.to_owned(), format!("rustup target add {TARGET}")],
    })
}

/// The folder with the target's libraries. A missing target is added if installing is allowed.
pub(super) fn target(tools: &mut Tools<'_>) -> Result<PathBuf, Error> {
    let rustc = find(tools, "rustc", "which comes with Cargo")?;
    let print = |tools: &mut Tools<'_>| -> Result<PathBuf, Error> {
        let command = tools.command(&rustc, &["--print", "target-libdir", "--target", TARGET]);
        Ok(PathBuf::from(tools.ask(command)?.trim()))
    };
    let folder = print(tools)?;
    if folder.is_dir() {
        return Ok(folder);
    }
    let Ok(rustup) = find(tools, "rustup", "which brings targets") else {
        return Err(Error::Missing {
            what: format!("this Rust has no target {TARGET}, and there is no `rustup` to add it"),
            install: vec![RUSTUP.to_owned(), format!("rustup target add {TARGET}")],
        });
    };
    if !tools.options.install {
        return Err(Error::Missing {
            what: format!("this Rust has no target {TARGET}"),
            install: vec![format!("rustup target add {TARGET}")],
        });
    }
    let command = tools.command(&rustup, &["target", "add", TARGET]);
    tools.run(command)?;
    let folder = print(tools)?;
    if folder.is_dir() {
        Ok(folder)
    } else {
        Err(Error::Missing {
            what: format!("the Rust in the path has no target {TARGET}, and is not rustup's"),
            install: vec![format!("rustup target add {TARGET}")],
        })
    }
}
