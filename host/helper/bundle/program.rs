//! Builds a package as a static program in a nested cargo call and packs it, for a crate that
//! embeds it: the helper, or the toolbox.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::nested::{Nested, Result, cargo_home, outer_target_dir};

/// The supported architectures: Rust's name, Go's, and ELF's number.
const ARCHITECTURES: [(&str, &str, u16); 2] = [("x86_64", "amd64", 62), ("aarch64", "arm64", 183)];

/// A static program that runs in every image.
pub struct StaticProgram<'a> {
    /// The package and its binary.
    pub package: &'a str,
    /// Its folder in the repository.
    pub folder: &'a str,
    /// A name for messages.
    pub what: &'a str,
    /// The variable that names a prebuilt one.
    pub variable: &'a str,
    /// Whether parts of it are written in C.
    pub has_c: bool,
}

impl StaticProgram<'_> {
    /// Builds the program, and packs it (deflate) into `OUT_DIR/NAME`. Returns the architecture by
    /// Go's name.
    pub fn embed(&self, name: &str) -> Result<&'static str> {
        let Self {
            folder, variable, ..
        } = self;
        println!("cargo::rerun-if-env-changed={variable}");
        let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
        let root = here
            .ancestors()
            .nth(3)
            .ok_or("the crate is not three folders below the workspace")?
            .to_owned();
        for input in [
            &format!("{folder}/src"),
            &format!("{folder}/Cargo.toml"),
            "host/ship.ld",
            // Included by both programs.
            "host/helper/src/unwinding.rs",
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
            .ok_or_else(|| format!("there is no {} for `{rust}` yet: add it to ARCHITECTURES in host/helper/bundle/program.rs", self.what))?;
        let out = PathBuf::from(env::var("OUT_DIR")?);
        let path = match env::var_os(variable) {
            Some(file) if !file.is_empty() => {
                let file = PathBuf::from(file);
                println!("cargo::rerun-if-changed={}", file.display());
                file
            }
            _ => self.build(
                &root,
                &outer_target_dir(&out)?,
                &format!("{rust}-unknown-linux-musl"),
            )?,
        };
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        check(&bytes, machine)
            .map_err(|why| format!("{} is no {} for {go}: {why}", path.display(), self.what))?;
        let packed = miniz_oxide::deflate::compress_to_vec(&bytes, 9);
        fs::write(out.join(name), packed)?;
        Ok(go)
    }

    fn build(&self, root: &Path, target: &Path, triple: &str) -> Result<PathBuf> {
        let nested = target.join("helper-build");
        Nested {
            root,
            target_dir: &nested,
            triple,
            profile: "helper",
            flags: &[
                "-Ctarget-feature=+crt-static",
                // Relocations at the program's start take time, and without a session it starts
                // once per action.
                "-Crelocation-model=static",
                // As for the shipped binary: identical functions are merged, and the tables for
                // unwinding are left out.
                "-Clinker=rust-lld",
                "-Clink-arg=--icf=all",
                "-Clink-arg=-O2",
                &format!("-Clink-arg=-T{}", root.join("host/ship.ld").display()),
            ],
            variables: &self.c_compiler(root, triple)?,
            what: self.what,
            instead: &format!("{}=FILE takes a prebuilt one", self.variable),
        }
        .build(&[self.package])?;
        Ok(nested.join(triple).join("helper").join(self.package))
    }

    /// The variables of the C compiler. `musl-gcc` is taken where it is installed, or the one that the
    /// user names. Without it the system's own compiler does as well: what is written in C here only uses
    /// functions that have the same form in glibc's headers. Failed assertions name places in the sources, so
    /// their folder is remapped, as it is for Rust.
    fn c_compiler(&self, root: &Path, triple: &str) -> Result<Vec<(String, String)>> {
        if !self.has_c {
            return Ok(Vec::new());
        }
        let [own, flags] = ["CC", "CFLAGS"].map(|it| format!("{it}_{}", triple.replace('-', "_")));
        let path = env::var_os("PATH").unwrap_or_default();
        let installed = env::split_paths(&path).any(|folder| folder.join("musl-gcc").is_file());
        let mut given = env::var(&flags).unwrap_or_default();
        let mut variables = vec![("CC_SHELL_ESCAPED_FLAGS".to_owned(), "1".to_owned())];
        if !installed && env::var_os(&own).is_none() {
            variables.push((own, "cc".to_owned()));
            // Glibc's checked variants of functions are not in musl.
            given.push_str(" -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=0 -fno-stack-protector");
        }
        for (folder, name) in [(root, "/mswea"), (&*cargo_home()?, "/cargo")] {
            given.push_str(&format!(" '-ffile-prefix-map={}={name}'", folder.display()));
        }
        variables.push((flags, given));
        Ok(variables)
    }
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
