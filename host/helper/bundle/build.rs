//! Builds the helper as a static program in a nested cargo call and embeds it.
//!
//! - own target directory: no dead-lock with the cargo that runs this script;
//! - cleaned environment, remapped paths: the same bytes wherever it is built;
//! - the target is added through rustup where it is missing;
//! - `MSWEA_BUNDLED_HELPER=FILE` takes a prebuilt one instead.
#![allow(clippy::print_stdout, clippy::print_stderr)] // how a build script speaks

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What may be built for: Rust's name, Go's, and ELF's number.
const ARCHITECTURES: [(&str, &str, u16); 2] = [("x86_64", "amd64", 62), ("aarch64", "arm64", 183)];

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
    println!("cargo::rerun-if-env-changed=MSWEA_BUNDLED_HELPER");
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let root = here
        .ancestors()
        .nth(3)
        .ok_or("host/helper/bundle has no workspace above it")?
        .to_owned();
    for input in [
        "host/helper/src",
        "host/helper/Cargo.toml",
        "Cargo.lock",
        // It holds the profile.
        "Cargo.toml",
        "rust-toolchain.toml",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    let rust = env::var("CARGO_CFG_TARGET_ARCH")?;
    let (_, go, machine) = ARCHITECTURES
        .into_iter()
        .find(|(name, ..)| *name == rust)
        .ok_or_else(|| format!("there is no helper for `{rust}` yet: add it to ARCHITECTURES in host/helper/bundle/build.rs"))?;
    println!("cargo::rustc-env=MSWEA_HELPER_ARCHITECTURE={go}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let path = match env::var_os("MSWEA_BUNDLED_HELPER") {
        Some(file) if !file.is_empty() => {
            let file = PathBuf::from(file);
            println!("cargo::rerun-if-changed={}", file.display());
            file
        }
        _ => build(
            &root,
            &target_dir(&out)?,
            &format!("{rust}-unknown-linux-musl"),
        )?,
    };
    let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    check(&bytes, machine)
        .map_err(|why| format!("{} is no helper for {go}: {why}", path.display()))?;
    let packed = miniz_oxide::deflate::compress_to_vec(&bytes, 9);
    fs::write(out.join("helper.deflate"), packed)?;
    Ok(())
}

/// Whether a container can run it, whatever is in its image.
fn check(bytes: &[u8], machine: u16) -> std::result::Result<(), &'static str> {
    // 64 bits, little-endian.
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return Err("it is no 64-bit ELF file");
    }
    let cut = "it is cut off";
    let number = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let table = bytes[..64.min(bytes.len())]
        .get(32..)
        .and_then(<[u8]>::first_chunk);
    let table = u64::from_le_bytes(*table.ok_or(cut)?) as usize;
    if number(18) != Some(machine) {
        return Err("it is for another architecture");
    }
    let (size, count) = number(54).zip(number(56)).ok_or(cut)?;
    for index in 0..usize::from(count) {
        let kind = number(table.saturating_add(index * usize::from(size))).ok_or(cut)?;
        // The segment that names the loader of shared libraries.
        if kind == 3 {
            return Err("it needs shared libraries: link it statically");
        }
    }
    Ok(())
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

fn build(root: &Path, target: &Path, triple: &str) -> Result<PathBuf> {
    add_target(triple)?;
    let nested = target.join("helper-build");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(root)
        .args(["build", "--locked", "--profile", "helper"])
        .args(["-p", "mswea-helper", "--bin", "mswea-helper"])
        .args(["--target", triple, "--target-dir"])
        .arg(&nested);
    clean(&mut cargo);
    // The compiler that the target was checked with, which need not be the one in the path.
    if let Some(rustc) = env::var_os("RUSTC") {
        cargo.env("RUSTC", rustc);
    }
    let flags = [
        format!("--remap-path-prefix={}=/mswea", root.display()),
        format!("--remap-path-prefix={}=/cargo", cargo_home()?.display()),
        "-Ctarget-feature=+crt-static".to_owned(),
        // Nothing to be relocated when it starts, which it does once per action without a
        // session.
        "-Crelocation-model=static".to_owned(),
    ];
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    let output = cargo.output()?;
    if !output.status.success() {
        return Err(format!(
            "the helper for containers could not be built ({}); MSWEA_BUNDLED_HELPER=FILE takes a prebuilt one:\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    Ok(nested.join(triple).join("helper").join("mswea-helper"))
}

/// Takes away what the outer cargo has set for this script.
fn clean(cargo: &mut Command) {
    const SET: [&str; 12] = [
        "RUSTFLAGS",
        "RUSTDOCFLAGS",
        "TARGET",
        "HOST",
        "PROFILE",
        "OPT_LEVEL",
        "DEBUG",
        "OUT_DIR",
        "NUM_JOBS",
        "MAKEFLAGS",
        "MFLAGS",
        "LD_LIBRARY_PATH",
    ];
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let keep = ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR"]
            .iter()
            .any(|kept| text.starts_with(kept));
        let set = ["CARGO", "RUSTC", "DEP_"]
            .iter()
            .any(|prefix| text.starts_with(prefix));
        if set && !keep || SET.contains(&&*text) {
            cargo.env_remove(name);
        }
    }
}

fn cargo_home() -> Result<PathBuf> {
    if let Some(home) = env::var_os("CARGO_HOME") {
        return Ok(home.into());
    }
    let home = env::var_os("HOME").ok_or("neither CARGO_HOME nor HOME is set")?;
    Ok(Path::new(&home).join(".cargo"))
}

/// Makes sure that the toolchain has the standard library for `triple`.
fn add_target(triple: &str) -> Result<()> {
    if has_target(triple)? {
        return Ok(());
    }
    let added = Command::new("rustup")
        .args(["target", "add", triple])
        .output();
    if has_target(triple)? {
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
        "the helper for containers needs the target {triple}, which this toolchain lacks: run `rustup target add {triple}`, or set MSWEA_BUNDLED_HELPER=FILE to use a prebuilt one ({reason})"
    )
    .into())
}

fn has_target(triple: &str) -> Result<bool> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", triple])
        .output()?;
    let folder = String::from_utf8(output.stdout)?;
    Ok(fs::read_dir(folder.trim()).is_ok_and(|mut entries| entries.next().is_some()))
}
