//! The first-party tool bundles, in SWE-agent's layout, and the static program that is all of their tools.
//!
//! A bundle is a folder with `config.yaml` and `bin/`. The files of `bin/` are scripts of two lines for any
//! `sh`, which start the program; it is installed once, beside the folders of the bundles, at
//! [`PROGRAM_PATH`]. The manifests are in `host/toolbox/bundles`, the program is built of `host/toolbox` by
//! this crate's build script.
//!
//! ```text
//! TOOLS/.mswea/toolbox            bytes(), mode 755
//! TOOLS/windowed/config.yaml      bundle("windowed")
//! TOOLS/windowed/bin/open
//! ```

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::{fmt, fs, io};

/// The architecture that the program is built for, by Go's name, which container engines use: `amd64`,
/// `arm64`.
pub const ARCHITECTURE: &str = env!("MSWEA_TOOLBOX_ARCHITECTURE");

/// The path of the program, relative to the folder that has the bundles' folders.
pub const PROGRAM_PATH: &str = ".mswea/toolbox";

/// The mode of the program and of the files in `bin/`.
pub const EXECUTABLE: u32 = 0o755;

/// The program. It is kept packed (deflate) in the binary.
pub fn bytes() -> Vec<u8> {
    let packed = include_bytes!(concat!(env!("OUT_DIR"), "/toolbox.deflate"));
    miniz_oxide::inflate::decompress_to_vec(packed).expect("invariant: the build script packed it")
}

/// The size of the program as packed in the binary, in bytes.
pub fn packed_size() -> usize {
    include_bytes!(concat!(env!("OUT_DIR"), "/toolbox.deflate")).len()
}

/// A file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundledFile {
    /// The path from the bundle's folder.
    pub path: String,
    /// The content.
    pub bytes: Vec<u8>,
    /// The permissions.
    pub mode: u32,
}

/// A first-party bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstPartyBundle {
    /// The name of its folder.
    pub name: &'static str,
    /// The bundle's files, `config.yaml` first.
    pub files: Vec<BundledFile>,
}

impl FirstPartyBundle {
    /// The text of `config.yaml`.
    pub fn manifest(&self) -> &[u8] {
        &self.files[0].bytes
    }
}

/// The error if a bundle of SWE-agent has no first-party form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchBundle {
    /// The name that was asked for.
    pub name: String,
}

impl fmt::Display for NoSuchBundle {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        if name == "web_browser" {
            return write!(
                to,
                "there is no first-party bundle `web_browser`, because it needs a browser and a service in the environment; name the folder of SWE-agent's own bundle, in an image that has both"
            );
        }
        let names: Vec<&str> = names().collect();
        write!(
            to,
            "there is no first-party bundle `{name}`; there are {}",
            names.join(", ")
        )
    }
}

impl std::error::Error for NoSuchBundle {}

/// The files in `bin/` of a bundle, each with the program's name for the tool.
struct BundleSource {
    name: &'static str,
    manifest: &'static str,
    tools: &'static [(&'static str, &'static str)],
}

/// Each bundle by its name, with its manifest.
macro_rules! bundles {
    ($($name:literal: [$($file:literal = $tool:literal),*];)*) => {
        const BUNDLES: &[BundleSource] = &[$(BundleSource {
            name: $name,
            manifest: include_str!(concat!("../../bundles/", $name, "/config.yaml")),
            tools: &[$(($file, $tool)),*],
        }),*];
    };
}

bundles! {
    "debug": [
        "debug_add_breakpoint" = "debug_add_breakpoint", "debug_continue" = "debug_continue",
        "debug_exec" = "debug_exec", "debug_start" = "debug_start", "debug_step" = "debug_step",
        "debug_stop" = "debug_stop"
    ];
    "diff_state": ["_state_diff_state" = "_state_diff_state"];
    "edit_anthropic": ["_state_anthropic" = "_state_anthropic", "str_replace_editor" = "str_replace_editor"];
    "filemap": ["filemap" = "filemap"];
    "forfeit": ["exit_forfeit" = "exit_forfeit"];
    "image_tools": ["view_image" = "view_image"];
    "registry": ["_read_env" = "_read_env", "_write_env" = "_write_env"];
    "review_on_submit_m": ["submit" = "submit_with_reviews"];
    "search": ["find_file" = "find_file", "search_dir" = "search_dir", "search_file" = "search_file"];
    "server_connection": [
        "_connect" = "_connect", "connect_exec" = "connect_exec", "connect_sendline" = "connect_sendline",
        "connect_start" = "connect_start", "connect_stop" = "connect_stop"
    ];
    "static_analysis": ["decompile" = "decompile", "disassemble" = "disassemble"];
    "submit": ["submit" = "submit"];
    "submit_ctf": ["submit" = "submit_flag"];
    "windowed": [
        "_state" = "_state", "create" = "create", "goto" = "goto", "open" = "open",
        "scroll_down" = "scroll_down", "scroll_up" = "scroll_up"
    ];
    "windowed_edit_linting": ["edit" = "edit_linting"];
    "windowed_edit_replace": ["edit" = "edit_replace", "insert" = "insert"];
    "windowed_edit_rewrite": ["edit" = "edit_rewrite"];
}

/// The bundle with a module for bundles in Python, the module's path in it, and the module.
const REGISTRY: (&str, &str, &[u8]) = (
    "registry",
    "lib/registry.py",
    include_bytes!("../../bundles/registry/lib/registry.py"),
);

/// The names of all bundles, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUNDLES.iter().map(|bundle| bundle.name)
}

/// The bundle of this name. It has the tools of SWE-agent's bundle of the same name.
///
/// # Errors
///
/// [`NoSuchBundle`] if there is none; its text says what to do.
pub fn bundle(name: &str) -> Result<FirstPartyBundle, NoSuchBundle> {
    let source = BUNDLES.iter().find(|bundle| bundle.name == name);
    let source = source.ok_or_else(|| NoSuchBundle {
        name: name.to_owned(),
    })?;
    let mut files = vec![BundledFile {
        path: "config.yaml".to_owned(),
        bytes: source.manifest.as_bytes().to_owned(),
        mode: 0o644,
    }];
    files.extend(source.tools.iter().map(|(file, tool)| BundledFile {
        path: format!("bin/{file}"),
        bytes: script(tool).into_bytes(),
        mode: EXECUTABLE,
    }));
    if source.name == REGISTRY.0 {
        files.push(BundledFile {
            path: REGISTRY.1.to_owned(),
            bytes: REGISTRY.2.to_vec(),
            mode: 0o644,
        });
    }
    Ok(FirstPartyBundle {
        name: source.name,
        files,
    })
}

/// Writes bundles and the program into a folder on this machine, which has the layout of the one in an
/// environment: each bundle in a folder of its name, the program at [`PROGRAM_PATH`].
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`] with the text of [`NoSuchBundle`] if a name is unknown;
/// [`io::Error`] if the folder can't be written.
pub fn write(names: &[&str], folder: &Path) -> io::Result<()> {
    let unknown = |error| io::Error::new(io::ErrorKind::NotFound, error);
    let bundles: Result<Vec<_>, _> = names.iter().map(|name| bundle(name)).collect();
    for bundle in bundles.map_err(unknown)? {
        for file in &bundle.files {
            let path = folder.join(bundle.name).join(&file.path);
            write_file(&path, &file.bytes, file.mode)?;
        }
    }
    write_file(&folder.join(PROGRAM_PATH), &bytes(), EXECUTABLE)
}

fn write_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// A script that starts the program as this tool. The folder of all bundles is two folders above
/// the script's.
fn script(tool: &str) -> String {
    format!("#!/bin/sh\nexec \"${{0%/*}}/../../{PROGRAM_PATH}\" {tool} \"$@\"\n")
}

#[cfg(test)]
mod tests;
