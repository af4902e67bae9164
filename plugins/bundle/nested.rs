//! Runs Cargo from a build script; shared by those of the plugins, the helper and the toolbox.
//!
//! - a target directory of its own, so that it does not wait for the cargo that runs the script;
//! - a cleaned environment and remapped paths, so that the bytes are the same wherever it is built;
//! - the target is added with rustup if it is missing.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A build for another target than that of the outer build.
pub struct Nested<'a> {
    /// The workspace.
    pub root: &'a Path,
    /// The target directory.
    pub target_dir: &'a Path,
    pub triple: &'a str,
    pub profile: &'a str,
    /// Flags of the compiler, in addition to those for paths.
    pub flags: &'a [&'a str],
    /// Variables of the environment, in addition to those that are there.
    pub variables: &'a [(String, String)],
    /// The name of the built packages in messages, for example `the plugins`.
    pub what: &'a str,
    /// The way to avoid the build, for messages.
    pub instead: &'a str,
}

impl Nested<'_> {
    /// Builds these packages.
    pub fn build(&self, packages: &[&str]) -> Result<()> {
        self.add_target()?;
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .current_dir(self.root)
            .args(["build", "--locked", "--profile", self.profile])
            .args(["--target", self.triple, "--target-dir"])
            .arg(self.target_dir);
        for package in packages {
            cargo.args(["-p", package]);
        }
        clean(&mut cargo);
        cargo.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // The target was checked for this compiler, which need not be the one in `PATH`.
        if let Some(rustc) = env::var_os("RUSTC") {
            cargo.env("RUSTC", rustc);
        }
        // Only the registry's path is visible in the result (panic locations); workspace members
        // are compiled with relative paths. Both are remapped, in case that changes.
        let mut flags = vec![
            format!("--remap-path-prefix={}=/mswea", self.root.display()),
            format!("--remap-path-prefix={}=/cargo", cargo_home()?.display()),
        ];
        flags.extend(self.flags.iter().map(|&flag| flag.to_owned()));
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        let output = cargo.output()?;
        if !output.status.success() {
            return Err(format!(
                "{} could not be built ({}); {}:\n{}",
                self.what,
                output.status,
                self.instead,
                String::from_utf8_lossy(&output.stderr)
            )
            .into());
        }
        Ok(())
    }

    /// Makes sure that the toolchain has the target's standard library.
    fn add_target(&self) -> Result<()> {
        let triple = self.triple;
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
            "{} can't be built without the target {triple}, which this toolchain lacks: run `rustup target add {triple}`; or {} ({reason})",
            self.what, self.instead
        )
        .into())
    }
}

/// The target directory of the build that runs this script: above `PROFILE/build/CRATE/out`.
pub fn outer_target_dir(out: &Path) -> Result<PathBuf> {
    let build = out
        .ancestors()
        .find(|path| path.file_name().is_some_and(|name| name == "build"))
        .ok_or("OUT_DIR is not below a `build` folder")?;
    let profile = build.parent().ok_or("`build` has no parent")?;
    let mut target = profile
        .parent()
        .ok_or("the profile's folder has no parent")?;
    // With `--target TRIPLE` there is one level more.
    if !target.join("CACHEDIR.TAG").exists()
        && let Some(parent) = target.parent()
        && parent.join("CACHEDIR.TAG").exists()
    {
        target = parent;
    }
    Ok(target.to_owned())
}

/// Removes the variables that the outer cargo has set for this script.
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
        let begins = |with: &[&str]| with.iter().any(|prefix| text.starts_with(prefix));
        let keep = begins(&["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR"]);
        if begins(&["CARGO", "RUSTC", "DEP_"]) && !keep || SET.contains(&&*text) {
            cargo.env_remove(name);
        }
    }
}

/// Where Cargo keeps the sources of the registry.
pub fn cargo_home() -> Result<PathBuf> {
    if let Some(home) = env::var_os("CARGO_HOME") {
        return Ok(home.into());
    }
    let home = env::var_os("HOME").ok_or("neither CARGO_HOME nor HOME is set")?;
    Ok(Path::new(&home).join(".cargo"))
}

fn has_target(triple: &str) -> Result<bool> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", triple])
        .output()?;
    let folder = String::from_utf8(output.stdout)?;
    Ok(fs::read_dir(folder.trim()).is_ok_and(|mut entries| entries.next().is_some()))
}
