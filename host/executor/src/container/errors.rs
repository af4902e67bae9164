//! The meaning of an engine's error messages, and their remedies.
//!
//! The daemon's messages are the same over its socket and from its command line client, so both are
//! handled here.

mod causes;

use std::time::Duration;

use tokio::time::sleep;

use super::daemon::{Address, DaemonFault};
use super::engine::{ContainerSpec, EngineError, EngineErrorKind as Kind, ExecSpec};
use super::run_args::name_of;
use crate::failure::{MORE_FILES, lacks_files};

/// The operation that the engine refused.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doing<'a> {
    /// An operation without a container.
    Asking,
    Pulling(&'a str),
    /// A container of this image.
    Running(&'a str),
    /// Making this container.
    Making(&'a ContainerSpec),
    /// An operation with this container.
    Using(&'a str),
    /// Starting a process in a container: the program and the container.
    Starting(&'a str),
    /// Copying from or to this path of a container.
    Copying(&'a str),
    Removing(&'a str),
}

impl Doing<'_> {
    fn failed(&self) -> String {
        match self {
            Self::Asking => "the container engine refused".to_owned(),
            Self::Pulling(image) => format!("image `{image}` can't be pulled"),
            Self::Running(image) => no_container(image),
            Self::Making(spec) => no_container(&spec.image),
            Self::Using(id) => format!("container `{}` can't be used", short(id)),
            Self::Starting(what) => format!("{what} can't be started in the container"),
            Self::Copying(path) => format!("`{path}` of the container can't be copied"),
            Self::Removing(id) => format!("container `{}` can't be removed", short(id)),
        }
    }

    fn is_pulling(&self) -> bool {
        matches!(self, Self::Pulling(_))
    }

    fn is_about_image(&self) -> bool {
        matches!(
            self,
            Self::Pulling(_) | Self::Running(_) | Self::Making(_) | Self::Asking
        )
    }
}

fn no_container(image: &str) -> String {
    format!("no container can be started from image `{image}`")
}

/// An id as messages show it; names stay whole.
pub(super) fn short(id: &str) -> &str {
    match id.get(..12) {
        Some(short) if id.len() == 64 => short,
        _ => id,
    }
}

/// The error for an engine's message.
pub(super) fn explain(doing: Doing<'_>, product: &str, text: &str) -> EngineError {
    let (kind, remedy) = match causes::find(doing, text) {
        Some(cause) => (cause.kind, filled(cause.remedy, doing, product, text)),
        None => (
            Kind::Other,
            match doing {
                Doing::Running(_) => "see `environment.image`".to_owned(),
                Doing::Making(spec) => format!("see {}", keys(spec)),
                Doing::Copying(_) => "check both paths".to_owned(),
                _ => format!("see `{product} info` and the engine's log"),
            },
        ),
    };
    let said = match text {
        "" => "the engine gave no reason".to_owned(),
        text => without_prefix(text),
    };
    EngineError {
        kind,
        message: format!("{}: {said}; {remedy}", doing.failed()),
    }
}

/// A remedy with its placeholders filled in.
fn filled(remedy: &str, doing: Doing<'_>, product: &str, text: &str) -> String {
    let mut remedy = remedy
        .replace("{p}", product)
        .replace("{start}", start(product));
    for (name, key, letter) in [
        ("volume", "environment.mounts", "-v"),
        ("platform", "environment.platform", "--platform"),
        ("network", "environment.network", "--net"),
        ("user", "environment.user", "-u"),
        ("memory", "environment.memory", "-m"),
        ("cpus", "environment.cpus", "--cpus"),
    ] {
        let place = format!("{{{name}}}");
        if remedy.contains(&place) {
            let flag = format!("--{name}");
            remedy = remedy.replace(&place, &origin(doing, key, &flag, letter));
        }
    }
    let args = match doing {
        Doing::Making(spec) => spec
            .typed
            .iter()
            .find(|typed| text.contains(&format!("--{}", typed.arg)))
            .map(|typed| typed.key),
        _ => None,
    };
    let args = args.unwrap_or("environment.run_args");
    remedy.replace("{args}", &format!("`{args}`"))
}

/// The key in which the user set an argument: its own, unless only `environment.run_args` has it.
fn origin(doing: Doing<'_>, key: &str, flag: &str, letter: &str) -> String {
    if let Doing::Making(spec) = doing
        && !spec.typed.iter().any(|typed| typed.key == key)
    {
        let mut names = spec.run_args.iter().map(|arg| name_of(arg));
        let is_mount = |name: &str| flag == "--volume" && name == "--mount";
        if let Some(name) = names.find(|&name| name == flag || name == letter || is_mount(name)) {
            return format!("`{name}` in `environment.run_args`");
        }
    }
    format!("`{key}`")
}

/// The keys from which a container was made.
fn keys(spec: &ContainerSpec) -> String {
    let mut keys = vec!["environment.image"];
    keys.extend(spec.platform.iter().map(|_| "environment.platform"));
    keys.extend(spec.typed.iter().map(|typed| typed.key));
    keys.dedup();
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    format!("{} and `environment.run_args`", keys.join(", "))
}

/// The command that starts a daemon.
fn start(product: &str) -> &'static str {
    match product {
        "podman" => {
            "`systemctl --user start podman.socket`, for root `systemctl start podman.socket`"
        }
        _ => "`sudo systemctl start docker`",
    }
}

/// The engine's message on one line, without the program's name.
fn without_prefix(text: &str) -> String {
    let is_noise = |line: &&str| {
        let beginnings = ["See '", "Run '", "Usage:", "time=\""];
        line.is_empty() || beginnings.iter().any(|words| line.starts_with(words))
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let telling: Vec<&str> = lines
        .iter()
        .copied()
        .filter(|line| !is_noise(line))
        .collect();
    let mut text = match telling.as_slice() {
        [] => lines.join(" "),
        telling => telling.join(" "),
    };
    for prefix in [
        "docker: ",
        "podman: ",
        "Error: ",
        "Error response from daemon: ",
    ] {
        if let Some(rest) = text.strip_prefix(prefix) {
            text = rest.to_owned();
        }
    }
    text.trim_end_matches(['.', ' ']).to_owned()
}

/// The error for a fault of the connection, or a refusal over it.
pub(super) fn fault(
    doing: Doing<'_>,
    product: &str,
    address: &Address,
    fault: DaemonFault,
) -> EngineError {
    let unavailable = |message| EngineError {
        kind: Kind::Unavailable,
        message,
    };
    match fault {
        DaemonFault::Refused { text, .. } => explain(doing, product, &text),
        DaemonFault::Unreachable(error) => unavailable(unreachable(product, address, &error)),
        DaemonFault::Broken(why) => unavailable(format!(
            "{}: the daemon at `{address}` closed the connection or sent an invalid answer: {why}; see whether it runs (`{product} info`) and its log",
            doing.failed()
        )),
        DaemonFault::TimedOut(limit) => timed_out(doing, product, limit),
    }
}

/// The error for an operation that exceeded its time limit.
pub(super) fn timed_out(doing: Doing<'_>, product: &str, limit: Duration) -> EngineError {
    EngineError {
        kind: Kind::TimedOut,
        message: format!(
            "{}: the engine has not answered within {} s; the machine may be overloaded: see `{product} info` and the engine's log",
            doing.failed(),
            limit.as_secs()
        ),
    }
}

fn unreachable(product: &str, address: &Address, error: &std::io::Error) -> String {
    let remedy = match (error.kind(), address) {
        _ if lacks_files(error) => MORE_FILES.to_owned(),
        (std::io::ErrorKind::PermissionDenied, Address::Unix(path)) => match group(path) {
            Some(group) => format!(
                "this user may not use it: join the group `{group}` (`sudo usermod -aG {group} $USER`, then log in again), or run as root"
            ),
            None => "this user may not use it: ask who runs the daemon, or run as root".to_owned(),
        },
        (std::io::ErrorKind::NotFound, _) => format!(
            "there is no such socket: start the daemon ({}), or set its address with `{}`",
            start(product),
            host_variable(product)
        ),
        _ => format!(
            "the daemon is down: start it ({}), or set its address with `{}`",
            start(product),
            host_variable(product)
        ),
    };
    format!("no {product} daemon at `{address}`: {error}; {remedy}")
}

pub(super) fn host_variable(product: &str) -> &'static str {
    match product {
        "podman" => "CONTAINER_HOST",
        _ => "DOCKER_HOST",
    }
}

/// The name of a file's group, if it is not root's.
fn group(path: &std::path::Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let id = std::fs::metadata(path).ok()?.gid();
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    let found = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id.to_string()).then(|| name.to_owned())
    });
    found.filter(|_| id != 0)
}

/// A process for messages: its program, and its working directory if one was given. Arguments are
/// left out, as they may be long.
pub(super) fn described(spec: &ExecSpec) -> String {
    let program = spec.argv.first().map_or("", String::as_str);
    match &spec.cwd {
        Some(cwd) => format!("`{program}` in `{cwd}`"),
        None => format!("`{program}`"),
    }
}

/// The error for an archive on this machine that could not be read.
pub(super) fn packed(path: &str, tar: &std::path::Path, error: &std::io::Error) -> EngineError {
    EngineError {
        kind: Kind::Other,
        message: format!(
            "`{path}` of the container can't be written: its archive `{}` can't be read: {error}; check the folder that `TMPDIR` names",
            tar.display()
        ),
    }
}

/// The error for a copy that could not be written on this machine.
pub(super) fn local(path: &str, to: &std::path::Path, error: &std::io::Error) -> EngineError {
    EngineError {
        kind: Kind::Other,
        message: format!(
            "`{path}` of the container can't be copied to `{}`: {error}; check the folder, its permissions and the room on the disk",
            to.display()
        ),
    }
}

/// How often podman is asked again when it fails because of a container that is being removed.
const STUMBLES: u32 = 10;
/// The pause before it is asked again.
const STUMBLE: Duration = Duration::from_millis(150);

/// The answer of `ask`, which is asked again while podman fails because of a container that is being
/// removed.
///
/// # Errors
/// The last error of `ask`.
pub(super) async fn steadily<T, A: Future<Output = Result<T, EngineError>>>(
    ask: impl Fn() -> A,
) -> Result<T, EngineError> {
    const WORDS: [&str; 3] = [
        "container not known",
        "no such container",
        "no container with",
    ];
    for _ in 0..STUMBLES {
        match ask().await {
            Err(error) if WORDS.iter().any(|words| error.message.contains(words)) => {
                sleep(STUMBLE).await;
            }
            found => return found,
        }
    }
    ask().await
}

#[cfg(test)]
mod tests;
