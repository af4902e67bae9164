//! What some tests need on the machine: a container engine, a sandbox, a language's tools.
//!
//! If it is missing, such a test prints that it is skipped; if `MSWEA_TEST_REQUIRE` names it (as
//! `.ci/run` does), the test fails.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

#[path = "outside.rs"]
mod outside;

use tempfile::TempDir;

/// Something that a test needs on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Docker,
    /// Permission to start a second daemon of docker.
    OwnDaemon,
    Podman,
    Bubblewrap,
    Landlock,
    /// The compiler for plugins in C.
    Clang,
    /// The tools for plugins in Python, from the registry.
    Python,
    /// The tools for plugins in JavaScript, from the registry.
    Npm,
    /// A real terminal; a server of the user's that a sandbox must hide.
    Tmux,
    /// Permission to make a small file system.
    Mounts,
    /// Makes certificates.
    Openssl,
    /// The real SWE-ReX, from the registry of Python.
    SweRex,
    /// The daemons and commands of Slurm.
    Slurm,
    /// The real Ray, from the registry of Python.
    Ray,
    /// A browser without a window.
    Chromium,
    /// The debugger.
    Gdb,
    /// A folder that this user may write to and a sandboxed command may not.
    Outside,
    /// Reads JSON in shells.
    Jq,
    /// Harbor's validator of ATIF, from the registry of Python.
    Harbor,
    /// The whole of the real Harbor, which needs Python 3.12 or later.
    HarborRun,
}

impl Need {
    fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::OwnDaemon => "dockerd",
            Self::Podman => "podman",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
            Self::Clang => "clang",
            Self::Python => "python3",
            Self::Npm => "npm",
            Self::Tmux => "tmux",
            Self::Mounts => "mounts",
            Self::Openssl => "openssl",
            Self::SweRex => "swe-rex",
            Self::Slurm => "slurm",
            Self::Ray => "ray",
            Self::Chromium => "chromium",
            Self::Gdb => "gdb",
            Self::Outside => "outside",
            Self::Jq => "jq",
            Self::Harbor => "harbor",
            Self::HarborRun => "harbor-run",
        }
    }

    fn missing(self) -> &'static Option<String> {
        static FOUND: [OnceLock<Option<String>>; 20] = [const { OnceLock::new() }; 20];
        FOUND[self as usize].get_or_init(|| match self {
            Self::Docker | Self::Podman => engine(self.name()),
            Self::OwnDaemon => Self::Docker
                .missing()
                .clone()
                .or_else(|| works("dockerd", &["--version"]))
                .or_else(|| {
                    works(
                        "unshare",
                        &["-m", "-n", "mount", "-t", "tmpfs", "none", "/mnt"],
                    )
                }),
            Self::Bubblewrap => works("bwrap", &["--ro-bind", "/", "/", "true"]),
            Self::Landlock => landlock(),
            Self::Clang => works("clang", &["--version"])
                .or_else(|| works("make", &["--version"]))
                .or_else(|| works("test", &["-f", "/usr/include/wasm32-wasi/stdlib.h"]))
                .map(|why| format!("{why}; wanted are clang, make and wasi-libc")),
            Self::Python => works("python3", &["-m", "venv", "--help"]),
            Self::Npm => works("npm", &["--version"]),
            Self::Tmux => works("tmux", &["-V"]),
            Self::Openssl => works("openssl", &["version"]),
            Self::Chromium => works("chromium", &["--version"]),
            Self::Gdb => works("gdb", &["--version"]).or_else(|| works("cc", &["--version"])),
            Self::Outside => outside::outside().is_none().then(|| {
                "all folders that can be written to are temporary; `MSWEA_TEST_OUTSIDE` names another".to_owned()
            }),
            Self::Jq => works("jq", &["--version"]),
            Self::Slurm => works(
                "sh",
                &[
                    "-c",
                    "PATH=$PATH:/usr/sbin; command -v slurmctld slurmd munged sbatch",
                ],
            ),
            Self::SweRex => {
                let script = tooling().join("swerex.sh");
                works("sh", &[&script.to_string_lossy(), SWE_REX])
            }
            Self::Ray => {
                let script = tooling().join("ray.sh");
                works("sh", &[&script.to_string_lossy(), RAY])
            }
            Self::Harbor => {
                let script = tooling().join("harbor.sh");
                works("sh", &[&script.to_string_lossy(), HARBOR])
            }
            Self::HarborRun => Self::Harbor.missing().clone().or_else(|| {
                let only = Path::new(HARBOR).join("validator-only");
                only.exists().then(|| "no Python 3.12 or later".to_owned())
            }),
            Self::Mounts => works(
                "unshare",
                &[
                    namespaces(),
                    "sh",
                    "-c",
                    "mount -t tmpfs -o size=256k none /mnt",
                ],
            ),
        })
    }

    /// Whether it is available.
    ///
    /// # Panics
    /// If it is missing and required.
    pub fn is_met(self) -> bool {
        let Some(why) = self.missing() else {
            return true;
        };
        let required = std::env::var("MSWEA_TEST_REQUIRE").unwrap_or_default();
        assert!(
            !required.split_whitespace().any(|name| name == self.name()),
            "this test needs {}: {why}",
            self.name()
        );
        // Written to the descriptor itself, because the test runner captures `eprintln!`.
        let name = std::thread::current().name().unwrap_or("?").to_owned();
        let line = format!("SKIPPED (no {}: {why}): {name}\n", self.name());
        let written = std::fs::OpenOptions::new()
            .append(true)
            .open("/proc/self/fd/2")
            .and_then(|mut file| file.write_all(line.as_bytes()));
        drop(written);
        false
    }
}

/// A folder that this user may write to and a command in the sandbox `landlock` may not; none without either.
pub fn outside_of_landlock() -> Option<TempDir> {
    let met = Need::Landlock.is_met() && Need::Outside.is_met();
    met.then(outside::outside).flatten()
}

/// Where the real Ray is installed.
pub const RAY: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/ray-2.60.0");

/// Where the real Harbor is installed.
pub const HARBOR: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/harbor-0.25.0-whole");

/// Where the real SWE-ReX is installed.
pub const SWE_REX: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/swe-rex-1.4.0");

/// The folder with the scripts of tests.
pub fn tooling() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tooling")
}

/// The options of `unshare` for a mount namespace.
pub fn namespaces() -> &'static str {
    match rustix::process::geteuid().is_root() {
        true => "-m",
        false => "-rm",
    }
}

/// Why a program can't be used; none if it can.
fn works(program: &str, args: &[&str]) -> Option<String> {
    let run = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output();
    match run {
        Err(error) => Some(format!("`{program}`: {error}")),
        Ok(run) if run.status.success() => None,
        Ok(run) => {
            let text = String::from_utf8_lossy(&run.stderr).trim().to_owned();
            Some(text.lines().last().unwrap_or_default().to_owned())
        }
    }
}

/// Why an engine, or the images that the tests use, can't be used; none if they can.
fn engine(program: &str) -> Option<String> {
    let script = tooling().join("images.sh");
    works(program, &["info"]).or_else(|| works("sh", &[&script.to_string_lossy(), program]))
}

fn landlock() -> Option<String> {
    // SAFETY: only asks for the version; no memory is passed.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            1_u32,
        )
    };
    (version < 1).then(|| "the kernel has none".to_owned())
}
