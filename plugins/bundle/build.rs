//! Builds the first-party plugins in one nested cargo call and embeds them.
//!
//! - own target directory: no dead-lock with the cargo that runs this script;
//! - cleaned environment, remapped paths: the components are bit-identical everywhere;
//! - the wasm target is added through rustup where it is missing;
//! - `MSWEA_BUNDLED_PLUGINS=DIR` takes prebuilt ones instead (`DIR/parsers/text_regex.wasm`).
#![allow(clippy::print_stdout, clippy::print_stderr)] // how a build script speaks

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use sha2::{Digest as _, Sha256};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const TARGET: &str = "wasm32-wasip2";
const FOLDERS: [&str; 5] = ["models", "parsers", "formatters", "history", "policies"];

struct Plugin {
    folder: &'static str,
    name: String,
    package: String,
}

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
    println!("cargo::rerun-if-env-changed=MSWEA_BUNDLED_PLUGINS");
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let root = here
        .ancestors()
        .nth(2)
        .ok_or("plugins/bundle has no workspace above it")?
        .to_owned();
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let plugins = find_plugins(&root)?;
    let built = match env::var_os("MSWEA_BUNDLED_PLUGINS") {
        Some(folder) if !folder.is_empty() => take_prebuilt(Path::new(&folder), &plugins)?,
        _ => build(&root, &target_dir(&out)?, &plugins)?,
    };
    embed(&out, &target_dir(&out)?, &plugins, &built)
}

/// Every crate in the plugin folders, in a fixed order.
fn find_plugins(root: &Path) -> Result<Vec<Plugin>> {
    let mut plugins = Vec::new();
    for folder in FOLDERS {
        let path = root.join("plugins").join(folder);
        println!("cargo::rerun-if-changed={}", path.display());
        let mut names: Vec<OsString> = fs::read_dir(&path)?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<Result<_>>()?;
        names.sort();
        for name in names {
            let manifest = path.join(&name).join("Cargo.toml");
            let Ok(text) = fs::read_to_string(&manifest) else {
                continue;
            };
            let package = text
                .lines()
                .find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
                .ok_or_else(|| format!("{}: no `name = \"...\"` line", manifest.display()))?;
            plugins.push(Plugin {
                folder,
                name: name.to_string_lossy().into_owned(),
                package: package.to_owned(),
            });
        }
    }
    // The root manifest holds the guests' profile.
    for input in [
        "plugins/wire",
        "sdk/rust/src",
        "sdk/rust/Cargo.toml",
        "wit",
        "Cargo.lock",
        "Cargo.toml",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    Ok(plugins)
}

/// The target directory of the build that runs this script: above `PROFILE/build/CRATE/out`.
fn target_dir(out: &Path) -> Result<PathBuf> {
    let build = out
        .ancestors()
        .find(|path| path.file_name().is_some_and(|name| name == "build"))
        .ok_or("OUT_DIR is not below a `build` folder")?;
    let profile = build.parent().ok_or("`build` has no parent")?;
    let mut target = profile
        .parent()
        .ok_or("the profile's folder has no parent")?;
    // With `--target TRIPLE` there is one more level.
    if !target.join("CACHEDIR.TAG").exists()
        && let Some(parent) = target.parent()
        && parent.join("CACHEDIR.TAG").exists()
    {
        target = parent;
    }
    Ok(target.to_owned())
}

fn take_prebuilt(folder: &Path, plugins: &[Plugin]) -> Result<Vec<PathBuf>> {
    plugins
        .iter()
        .map(|plugin| {
            let path = folder
                .join(plugin.folder)
                .join(format!("{}.wasm", plugin.name));
            println!("cargo::rerun-if-changed={}", path.display());
            if !path.is_file() {
                return Err(format!(
                    "MSWEA_BUNDLED_PLUGINS={}: there is no `{}/{}.wasm` in it",
                    folder.display(),
                    plugin.folder,
                    plugin.name
                )
                .into());
            }
            Ok(path)
        })
        .collect()
}

fn build(root: &Path, target: &Path, plugins: &[Plugin]) -> Result<Vec<PathBuf>> {
    add_wasm_target()?;
    let nested = target.join("plugins-build");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(root)
        .args([
            "build",
            "--locked",
            "--profile",
            "plugin",
            "--target",
            TARGET,
        ])
        .arg("--target-dir")
        .arg(&nested);
    for plugin in plugins {
        cargo.args(["-p", &plugin.package]);
    }
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let keep = ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR"]
            .iter()
            .any(|kept| text.starts_with(kept));
        let drop = (text.starts_with("CARGO") && !keep)
            || text.starts_with("RUSTC")
            || text.starts_with("DEP_")
            || [
                "RUSTFLAGS",
                "RUSTDOCFLAGS",
                "TARGET",
                "HOST",
                "PROFILE",
                "OPT_LEVEL",
                "DEBUG",
            ]
            .contains(&&*text)
            || [
                "OUT_DIR",
                "NUM_JOBS",
                "MAKEFLAGS",
                "MFLAGS",
                "LD_LIBRARY_PATH",
            ]
            .contains(&&*text);
        if drop {
            cargo.env_remove(name);
        }
    }
    // The compiler that the target was checked with, which need not be the one in the path.
    if let Some(rustc) = env::var_os("RUSTC") {
        cargo.env("RUSTC", rustc);
    }
    // Only the registry's path shows in a component (panic locations); workspace members are
    // compiled with relative ones. Both are remapped, in case that changes.
    let flags = [
        format!("--remap-path-prefix={}=/mswea", root.display()),
        format!("--remap-path-prefix={}=/cargo", cargo_home()?.display()),
        "-Ctarget-feature=+simd128".to_owned(),
    ];
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    let output = cargo.output()?;
    if !output.status.success() {
        return Err(format!(
            "the plugins could not be built ({}):\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    Ok(plugins
        .iter()
        .map(|plugin| {
            nested
                .join(TARGET)
                .join("plugin")
                .join(format!("{}.wasm", plugin.name))
        })
        .collect())
}

fn cargo_home() -> Result<PathBuf> {
    if let Some(home) = env::var_os("CARGO_HOME") {
        return Ok(home.into());
    }
    let home = env::var_os("HOME").ok_or("neither CARGO_HOME nor HOME is set")?;
    Ok(Path::new(&home).join(".cargo"))
}

/// Makes sure that the toolchain has the guests' standard library.
fn add_wasm_target() -> Result<()> {
    if has_wasm_target()? {
        return Ok(());
    }
    let added = Command::new("rustup")
        .args(["target", "add", TARGET])
        .output();
    if has_wasm_target()? {
        return Ok(());
    }
    let reason = match added {
        Ok(output) => String::from_utf8_lossy(&output.stderr)
            .lines()
            .last()
            .unwrap_or("no reason given")
            .to_owned(),
        Err(error) => format!("rustup can't be run: {error}"),
    };
    Err(format!(
        "the plugins need the target {TARGET}, which this toolchain lacks: run `rustup target add {TARGET}`, or set MSWEA_BUNDLED_PLUGINS=DIR to use prebuilt plugins ({reason})"
    )
    .into())
}

fn has_wasm_target() -> Result<bool> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()?;
    let folder = String::from_utf8(output.stdout)?;
    Ok(fs::read_dir(folder.trim()).is_ok_and(|mut entries| entries.next().is_some()))
}

fn embed(out: &Path, target: &Path, plugins: &[Plugin], built: &[PathBuf]) -> Result<()> {
    let mut code = String::from(
        "/// The first-party plugins, by folder and name.\npub static BUILTIN: &[Builtin] = &[\n",
    );
    for (plugin, path) in plugins.iter().zip(built) {
        let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let file = format!("{}.wasm", plugin.name);
        // What is embedded and what lies beside it are the same bytes.
        let packed = miniz_oxide::deflate::compress_to_vec(&bytes, 9);
        let packed_file = format!("{}.deflate", plugin.name);
        write_if_changed(
            &target.join("plugins").join(plugin.folder).join(&file),
            &bytes,
        )?;
        write_if_changed(&out.join(plugin.folder).join(&packed_file), &packed)?;
        let digest = Sha256::digest(&bytes)
            .iter()
            .fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
        writeln!(
            code,
            "    Builtin {{ folder: {:?}, name: {:?}, size: {}, packed: include_bytes!(concat!(env!(\"OUT_DIR\"), {:?})), sha256: {digest:?} }},",
            plugin.folder,
            plugin.name,
            bytes.len(),
            format!("/{}/{packed_file}", plugin.folder),
        )?;
    }
    code.push_str("];\n");
    fs::write(out.join("bundle.rs"), code)?;
    Ok(())
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if fs::read(path).ok().as_deref() != Some(bytes) {
        fs::write(path, bytes)?;
    }
    Ok(())
}
