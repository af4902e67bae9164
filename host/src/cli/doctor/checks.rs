//! The checks of `doctor` that are not those of executors. Each check tries the operation that it
//! reports on.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Access, MemfdFlags};
use rustix::process::PidfdFlags;

use crate::cli::front::Look;
use mswea_core::{Executor, Stop};
use mswea_executor::guard::SUBCOMMAND;
use mswea_executor::probe::{Probe, ProbeState};
use mswea_executor::{LocalExecutor, LocalSettings};
use mswea_plugin_host::{CACHE_VARIABLE, CacheUse};

/// The name of the executor that needs no other program.
pub(super) const LOCAL: &str = "local";

/// How long one try may take.
const LIMIT: Duration = Duration::from_secs(10);
/// If less is free, a warning is shown.
const ROOM: u64 = 100 << 20;

fn probe(name: &'static str, state: ProbeState, detail: impl Into<String>, remedy: &str) -> Probe {
    Probe {
        name,
        state,
        detail: detail.into(),
        remedy: remedy.to_owned(),
    }
}

/// Runs a command in the same way as a run does.
pub(super) async fn local(guard: Option<&Path>) -> Probe {
    let missing = |detail: String| {
        let remedy = "make room for processes and files (`ulimit -a`, `df`), and check that `/bin/sh` exists";
        probe(LOCAL, ProbeState::Missing, detail, remedy)
    };
    let mut executor = LocalExecutor::new(LocalSettings {
        timeout: LIMIT,
        guard_program: guard.map(Path::to_owned),
        ..LocalSettings::default()
    });
    let command = mswea_core::Command::new("echo works; sleep 100 >/dev/null 2>&1 &");
    let output = executor.execute(&command, &Stop::never()).await;
    executor.cleanup().await;
    if output.returncode != 0 || output.output != "works\n" {
        let why = format!("{} {}", output.exception_info, output.output);
        return missing(format!("a command could not be run: {}", why.trim()));
    }
    let root = rustix::process::geteuid().is_root();
    let user = if root { "root" } else { "this user" };
    let detail = format!("commands run on this machine as {user}, without a sandbox");
    probe(LOCAL, ProbeState::Works, detail, "")
}

/// The shell for which commands are written.
pub(super) fn interpreter(path: &OsStr) -> Probe {
    const NAME: &str = "interpreter";
    let sh = Path::new("/bin/sh");
    if let Some(bash) = on_path("bash", path) {
        let shown = bash.display();
        return match first_line(&bash, "--version") {
            Ok(version) => probe(NAME, ProbeState::Works, format!("{shown}: {version}"), ""),
            Err(error) => probe(
                NAME,
                ProbeState::Limited,
                format!("`{shown}` does not work: {error}"),
                "reinstall bash, or set `environment.interpreter`",
            ),
        };
    }
    if is_program(sh) {
        return probe(
            NAME,
            ProbeState::Limited,
            "/bin/sh; there is no bash on `PATH`, and models often write commands for bash",
            "install bash",
        );
    }
    probe(
        NAME,
        ProbeState::Missing,
        "there is neither bash on `PATH` nor `/bin/sh`",
        "install bash, or set `environment.interpreter` to a shell that is there",
    )
}

/// Checks git, which diffs and clones need.
pub(super) fn git(path: &OsStr) -> Probe {
    const NAME: &str = "git";
    let remedy = "install git: without it, no diff is saved when a run ends early, and no repository is cloned";
    let Some(git) = on_path("git", path) else {
        return probe(NAME, ProbeState::Missing, "not on `PATH`", remedy);
    };
    match first_line(&git, "--version") {
        Ok(version) => probe(
            NAME,
            ProbeState::Works,
            format!("{}: {version}", git.display()),
            "",
        ),
        Err(error) => {
            let detail = format!("`{}` does not work: {error}", git.display());
            probe(NAME, ProbeState::Missing, detail, remedy)
        }
    }
}

/// Checks the guardian, which ends the commands of a killed host.
pub(super) fn guardian(program: Option<&Path>) -> Probe {
    const NAME: &str = "guardian";
    let missing = |detail: String, remedy: &str| {
        let detail = format!("{detail}: commands of a host that is killed with -9 live on");
        probe(NAME, ProbeState::Missing, detail, remedy)
    };
    let by_hand = "run `mswea-host gc` after a crash";
    let Some(program) = program else {
        return missing(
            "the path of the program is unknown".to_owned(),
            "mount `/proc`",
        );
    };
    if let Err(error) = rustix::fs::memfd_create("mswea-doctor", MemfdFlags::CLOEXEC) {
        return missing(
            format!("this kernel has no anonymous files ({error})"),
            by_hand,
        );
    }
    // The process ends at once, because its input is closed.
    if let Err(error) = run(program, &[SUBCOMMAND, "doctor"]) {
        let detail = format!("`{}` can't be started: {error}", program.display());
        return missing(detail, "install the program where this user may run it");
    }
    match rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()) {
        Ok(_) => probe(
            NAME,
            ProbeState::Works,
            "it ends the commands of a host that is killed",
            "",
        ),
        Err(error) => probe(
            NAME,
            ProbeState::Limited,
            format!(
                "this kernel has no descriptors of processes ({error}): they are ended by number"
            ),
            "use Linux 5.3 or newer, or a container runtime that allows `pidfd_open`",
        ),
    }
}

/// The version of control groups, which containers with limits need.
pub(super) fn cgroups(root: &Path) -> Probe {
    const NAME: &str = "cgroups";
    let folder = root.join("sys/fs/cgroup");
    let is = |name: &str| folder.join(name).exists();
    if is("cgroup.controllers") {
        let controllers = std::fs::read_to_string(folder.join("cgroup.controllers"));
        let controllers = controllers.unwrap_or_default();
        return match controllers.split_whitespace().any(|name| name == "memory") {
            true => probe(NAME, ProbeState::Works, "version 2", ""),
            false => probe(
                NAME,
                ProbeState::Limited,
                "version 2, but memory can't be limited",
                "boot with `cgroup_enable=memory`, or delegate the controller to this user",
            ),
        };
    }
    if is("memory") || is("unified") || is("cpu") {
        return probe(
            NAME,
            ProbeState::Limited,
            "version 1: limits of containers work for root only",
            "boot with `systemd.unified_cgroup_hierarchy=1` for version 2",
        );
    }
    probe(
        NAME,
        ProbeState::Limited,
        format!(
            "none at `{}`: containers can't be limited",
            folder.display()
        ),
        "mount them, if containers are to have limits",
    )
}

/// The folder of compiled plugins, and whether its use is safe.
pub(super) fn cache(folder: Option<&Path>, kept: &CacheUse) -> Probe {
    const NAME: &str = "cache";
    if let CacheUse::None(why) = kept {
        return probe(
            NAME,
            ProbeState::Limited,
            format!(
                "{why}: plugins of your own are compiled in every run, because commands of the model could change the cache"
            ),
            "start it in a login session whose PAM has `pam_keyinit`; or put their code into the program (`mswea-host ship OUTPUT --plugin FILE`); or, where you trust all commands, set `MSWEA_PLUGIN_CACHE=trust`",
        );
    }
    if let CacheUse::Beside(folder, _) = kept {
        return probe(
            NAME,
            ProbeState::Works,
            format!(
                "{}, beside the program: whoever can write there can change the program as well. Plugins of a program that is installed elsewhere are compiled in every run, unless it has their code (`mswea-host ship OUTPUT --plugin FILE`)",
                folder.display()
            ),
            "",
        );
    }
    let Some(folder) = folder else {
        return probe(
            NAME,
            ProbeState::Limited,
            "there is no place for it: plugins of your own are compiled in every run",
            "set `XDG_CACHE_HOME` or `HOME`",
        );
    };
    let shown = folder.display();
    // The check must not make the folder.
    let there = folder.ancestors().find(|above| above.exists());
    let there = there.unwrap_or(Path::new("/"));
    match rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) if there.is_dir() => match kept {
            CacheUse::Trusting => probe(
                NAME,
                ProbeState::Works,
                format!("{shown}, trusted as it is (`{CACHE_VARIABLE}`)"),
                "",
            ),
            _ => probe(NAME, ProbeState::Works, format!("{shown}"), ""),
        },
        done => {
            let why = match done {
                Ok(()) => format!("`{}` is no folder", there.display()),
                Err(error) => format!("`{}`: {error}", there.display()),
            };
            probe(
                NAME,
                ProbeState::Limited,
                format!(
                    "{shown} can't be written ({why}): plugins of your own are compiled in every run"
                ),
                "make it writable, or set `XDG_CACHE_HOME` to a folder that is",
            )
        }
    }
}

/// The folder of temporary files.
pub(super) fn temporary(folder: &Path) -> Probe {
    const NAME: &str = "temporary";
    let shown = folder.display();
    let written = tempfile::NamedTempFile::new_in(folder)
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"x"));
    if let Err(error) = written {
        return probe(
            NAME,
            ProbeState::Missing,
            format!("{shown} can't be written: {error}"),
            "make it writable, or set `TMPDIR` to a folder that is",
        );
    }
    let free = rustix::fs::statvfs(folder).map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    match free {
        Ok(free) if free < ROOM => probe(
            NAME,
            ProbeState::Limited,
            format!("{shown}, with {} MB left", free >> 20),
            "make room, or set `TMPDIR` to a folder with more",
        ),
        Ok(free) => probe(
            NAME,
            ProbeState::Works,
            format!("{shown}, {} MB free", free >> 20),
            "",
        ),
        Err(_) => probe(NAME, ProbeState::Works, format!("{shown}"), ""),
    }
}

/// The abilities of the terminal. A missing terminal is no problem, because the program never asks
/// the user.
pub(super) fn terminal(look: Look) -> Probe {
    let yes = |what: bool, text: &'static str| what.then_some(text);
    let can: Vec<&str> = [
        yes(look.colour, "colours"),
        yes(look.redraw, "live progress"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let detail = match (look.live, can.as_slice()) {
        (false, _) => "none: progress is printed plainly, line by line".to_owned(),
        (true, []) => "yes, without colours".to_owned(),
        (true, can) => format!("yes: {}", can.join(", ")),
    };
    probe("terminal", ProbeState::Works, detail, "")
}

/// Which keys are set, by name.
pub(super) fn keys(names: impl Iterator<Item = &'static str>) -> Probe {
    const NAME: &str = "keys";
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [] => probe(
            NAME,
            ProbeState::Limited,
            "no key of a known provider is set",
            "set one (`export OPENAI_API_KEY=..`), use a server of your own (`-m local/NAME \
             --base-url URL`), or try `mswea-host demo`, which needs none",
        ),
        names => probe(NAME, ProbeState::Works, names.join(", "), ""),
    }
}

/// The leftovers of killed runs; `found` is empty if there are none.
pub(super) fn leftovers(found: &str) -> Probe {
    const NAME: &str = "leftovers";
    match found {
        "" => probe(NAME, ProbeState::Works, "none", ""),
        found => probe(
            NAME,
            ProbeState::Limited,
            format!("{found} of runs that were killed"),
            "run `mswea-host gc`",
        ),
    }
}

fn on_path(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn first_line(program: &Path, flag: &str) -> Result<String, String> {
    let printed = run(program, &[flag])?;
    Ok(printed.lines().next().unwrap_or_default().trim().to_owned())
}

/// Runs a program without input, for not longer than [`LIMIT`]; returns what it printed.
fn run(program: &Path, args: &[&str]) -> Result<String, String> {
    let output = tempfile::tempfile().map_err(|error| error.to_string())?;
    let mut read = output.try_clone().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let started = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if started.elapsed() < LIMIT => {
                std::thread::sleep(Duration::from_millis(2));
            }
            waited => {
                // The process may have ended in the meantime.
                let _ = child.kill();
                let _ = child.wait();
                return Err(match waited {
                    Err(error) => error.to_string(),
                    Ok(_) => "it does not end".to_owned(),
                });
            }
        }
    };
    if !status.success() {
        return Err(format!("it ended with {status}"));
    }
    let mut text = Vec::new();
    std::io::Seek::rewind(&mut read)
        .and_then(|()| std::io::Read::read_to_end(&mut read, &mut text))
        .map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests;
