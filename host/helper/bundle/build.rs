//! Builds the helper as a static program in a nested cargo call and embeds it.
//! `MSWEA_BUNDLED_HELPER=FILE` takes a prebuilt one instead.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a build script talks to Cargo by printing

#[path = "../../../plugins/bundle/nested.rs"]
mod nested;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nested::{Nested, Result, outer_target_dir};

/// The supported architectures: Rust's name, Go's, and ELF's number.
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
        "host/ship.ld",
        "Cargo.lock",
        // The root manifest, which holds the profile.
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
            &outer_target_dir(&out)?,
            &format!("{rust}-unknown-linux-musl"),
        )?,
    };
    let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    check(&bytes, machine)
        .map_err(|why| format!("{} is not a helper for {go}: {why}", path.display()))?;
    let packed = miniz_oxide::deflate::compress_to_vec(&bytes, 9);
    fs::write(out.join("helper.deflate"), packed)?;
    Ok(())
}

/// Checks that the program runs in every container, whatever its image contains.
fn check(bytes: &[u8], machine: u16) -> std::result::Result<(), &'static str> {
    // 64 bits, little-endian.
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return Err("it is not a 64-bit ELF file");
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

fn build(root: &Path, target: &Path, triple: &str) -> Result<PathBuf> {
    let nested = target.join("helper-build");
    Nested {
        root,
        target_dir: &nested,
        triple,
        profile: "helper",
        flags: &[
            "-Ctarget-feature=+crt-static",
            // Without relocations at its start, which happens once per action without a session.
            "-Crelocation-model=static",
            // As for the shipped binary: functions with the same code become one, and the tables for
            // unwinding are left out.
            "-Clinker=rust-lld",
            "-Clink-arg=--icf=all",
            "-Clink-arg=-O2",
            &format!("-Clink-arg=-T{}", root.join("host/ship.ld").display()),
        ],
        what: "the helper for containers",
        instead: "MSWEA_BUNDLED_HELPER=FILE takes a prebuilt one",
    }
    .build(&["mswea-helper"])?;
    Ok(nested.join(triple).join("helper").join("mswea-helper"))
}
