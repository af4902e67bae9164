//! C, by clang or zig, with the linker and libc of Rust's target. The project's `Makefile` has the
//! commands; this module finds the tools.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::rust;
use super::tools::{Tools, words};
use crate::error::Error;
use crate::project::Project;

/// The compilers that are tried, the most common first.
const COMPILERS: [&str; 14] = [
    "clang", "clang-22", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16",
    "clang-15", "clang-14", "clang-13", "clang-12", "clang-11", "zig",
];

/// The folders in which systems have the headers of wasi-libc.
const HEADERS: [&str; 4] = [
    "/usr/include/wasm32-wasi",
    "/usr/wasm32-wasi/include",
    "/usr/share/wasi-sysroot/include/wasm32-wasi",
    "/opt/homebrew/opt/wasi-libc/share/wasi-sysroot/include/wasm32-wasi",
];

const VENV: [&str; 4] = ["python3", "-m", "venv", ".venv"];
const ZIG: [&str; 3] = [".venv/bin/pip", "install", "ziglang"];

/// The compiler.
struct Compiler {
    /// Its command, as shell words.
    command: String,
    /// The headers; none if it has its own.
    headers: Option<PathBuf>,
}

pub(super) fn build(project: &Project, tools: &mut Tools<'_>) -> Result<String, Error> {
    let make = tools.find("make", &[]).ok_or_else(|| Error::Missing {
        what: "there is no `make`, which builds plugins in C".to_owned(),
        install: vec!["apt-get install make".to_owned()],
    })?;
    let compiler = match compiler(tools) {
        Err(Error::Missing { .. }) if tools.options.install => {
            install_zig(tools)?;
            compiler(tools)?
        }
        found => found?,
    };
    let libraries = rust::target(tools)?;
    let mut variables = vec![
        format!("NAME={}", project.name),
        "BUILD=build".to_owned(),
        format!("WASM_CC={}", compiler.command),
        format!("RUST_LIBDIR={}", libraries.display()),
    ];
    if let Some(headers) = compiler.headers {
        variables.push(format!("WASI_HEADERS={}", headers.display()));
    }
    let mut args = vec!["plugin"];
    args.extend(variables.iter().map(String::as_str));
    let mut command = tools.command(&make, &args);
    // The variables of a make that runs this program.
    for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL"] {
        command.env_remove(name);
    }
    let words = words(&command);
    tools.run(command)?;
    Ok(words)
}

fn compiler(tools: &Tools<'_>) -> Result<Compiler, Error> {
    let found = COMPILERS
        .iter()
        .find_map(|name| tools.find(name, &[]))
        .or_else(|| own_zig(tools))
        .ok_or_else(|| Error::Missing {
            what: "there is no C compiler for WebAssembly, neither `clang` nor `zig`".to_owned(),
            install: vec![
                "apt-get install clang wasi-libc".to_owned(),
                "# or, without root:".to_owned(),
                format!("{} && {}", VENV.join(" "), ZIG.join(" ")),
            ],
        })?;
    let path = found.to_string_lossy();
    if found.ends_with("zig") {
        return Ok(Compiler {
            command: format!("{path} cc"),
            headers: None,
        });
    }
    let named = env::var_os("WASI_HEADERS").map(PathBuf::from);
    let headers = named
        .into_iter()
        .chain(HEADERS.map(PathBuf::from))
        .find(|folder| folder.join("stdlib.h").is_file())
        .ok_or_else(|| Error::Missing {
            what: format!(
                "there are no headers of a C library for `{path}` to compile for WebAssembly \
                 with, neither in `$WASI_HEADERS` nor where packages of wasi-libc put them"
            ),
            install: vec!["apt-get install wasi-libc".to_owned()],
        })?;
    Ok(Compiler {
        command: path.into_owned(),
        headers: Some(headers),
    })
}

/// The one from Python's package `ziglang` in the project's own environment.
fn own_zig(tools: &Tools<'_>) -> Option<PathBuf> {
    let pythons = fs::read_dir(tools.folder.join(".venv/lib")).ok()?;
    // A relative path, because the project's folder may have a space in its name, which `make` does
    // not accept.
    pythons
        .flatten()
        .map(|python| python.path().join("site-packages/ziglang/zig"))
        .find(|file| file.is_file())?
        .strip_prefix(&tools.folder)
        .map(Path::to_owned)
        .ok()
}

fn install_zig(tools: &mut Tools<'_>) -> Result<(), Error> {
    for words in [&VENV[..], &ZIG[..]] {
        let program = tools
            .find(words[0], &[])
            .or_else(|| tools.own(words[0]))
            .ok_or_else(|| Error::Missing {
                what: format!("there is no `{}`, which brings `zig`", words[0]),
                install: vec!["apt-get install python3 python3-venv".to_owned()],
            })?;
        let command = tools.command(&program, &words[1..]);
        tools.run(command)?;
    }
    Ok(())
}
