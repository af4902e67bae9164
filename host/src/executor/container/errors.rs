//! What an engine's refusals mean, and what can be done about them.
//!
//! The daemon's words are the same whether they come over its socket or out of the mouth of its
//! command line client; so both are explained here.

use std::time::Duration;

use super::daemon::{Address, Fault};
use super::engine::{ContainerSpec, EngineError, EngineErrorKind as Kind, ExecSpec};

/// What was tried when the engine refused.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doing<'a> {
    /// Anything that concerns no container.
    Asking,
    Pulling(&'a str),
    /// A container of this image.
    Running(&'a str),
    /// Making this container.
    Making(&'a ContainerSpec),
    /// Something with this container.
    Using(&'a str),
    /// Starting a process in a container: what, and where.
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

/// An id as people see it; names stay whole.
pub(super) fn short(id: &str) -> &str {
    match id.get(..12) {
        Some(short) if id.len() == 64 => short,
        _ => id,
    }
}

/// A cause: the words by which it is known (all in lower case, one of them has to be there),
/// what callers act upon, and the remedy.
struct Cause {
    words: &'static [&'static str],
    kind: Kind,
    remedy: &'static str,
}

const fn cause(words: &'static [&'static str], kind: Kind, remedy: &'static str) -> Cause {
    Cause {
        words,
        kind,
        remedy,
    }
}

/// In this order: the first that fits. `{p}` stands for the engine's program, `{start}` for how
/// its daemon is started, `{args}` for where its arguments come from, and the name of an argument
/// (`{network}`) for where that one does.
const CAUSES: &[Cause] = &[
    cause(
        &["no space left on device", "disk quota exceeded"],
        Kind::Other,
        "the engine's disk is full: see `{p} system df`, remove images and containers that nobody needs, or move the engine's folder to another disk",
    ),
    cause(
        &[
            "cannot connect to the docker daemon",
            "unable to connect to podman",
            "is the docker daemon running",
            "cannot connect to podman",
        ],
        Kind::Unavailable,
        "the daemon is not running: start it ({start}), or say where it is with `DOCKER_HOST` (podman: `CONTAINER_HOST`)",
    ),
    cause(
        &["permission denied while trying to connect"],
        Kind::Unavailable,
        "this user may not use the daemon's socket: join its group (`sudo usermod -aG docker $USER`, then log in again), or run as root",
    ),
];

/// Of images and registries.
const IMAGE_CAUSES: &[Cause] = &[
    cause(
        &[
            "no matching manifest",
            "does not match the specified platform",
            "no image found in image index for architecture",
            "no image found in manifest list",
        ],
        Kind::NoImage,
        "there is none for this architecture: name another image, or another platform ({platform})",
    ),
    cause(
        &["toomanyrequests", "too many requests", "rate limit"],
        Kind::Denied,
        "the registry limits how much is pulled: wait, or log in (`{p} login`)",
    ),
    cause(
        &[
            "pull access denied",
            "unauthorized",
            "authentication required",
            "denied:",
            "access denied",
            "no basic auth",
            "forbidden",
            "incorrect username or password",
        ],
        Kind::Denied,
        "check its name, and log in if it is not public (`{p} login REGISTRY`)",
    ),
    cause(
        &[
            "manifest unknown",
            "manifest for",
            "name unknown",
            "no such image",
            "image not known",
            "repository does not exist",
            "not found: manifest",
            "repository name not known",
        ],
        Kind::NoImage,
        "check its name and tag, pull it (`{p} pull`), or build it",
    ),
    cause(
        &[
            "invalid reference format",
            "repository name must be lowercase",
        ],
        Kind::NoImage,
        "an image's name is written `[REGISTRY/]NAME[:TAG]`, in lower case",
    ),
    cause(
        &["did not resolve to an alias", "short-name"],
        Kind::NoImage,
        "write the name with its registry, such as `docker.io/library/debian`",
    ),
    cause(
        &["server gave http response to https client"],
        Kind::Other,
        "that registry has no TLS: list it in `insecure-registries` of the daemon's configuration",
    ),
    cause(
        &[
            "no such host",
            "i/o timeout",
            "connection refused",
            "network is unreachable",
            "tls handshake timeout",
            "client.timeout exceeded",
            "context deadline exceeded",
            "connection reset",
            "server misbehaving",
            "no route to host",
            "x509:",
        ],
        Kind::Other,
        "the engine does not reach the registry: check the machine's network, and the proxy and certificates of the daemon, which are not those of your shell",
    ),
];

/// Of containers.
const CONTAINER_CAUSES: &[Cause] = &[
    cause(
        &["setting rlimit", "setrlimit"],
        Kind::Other,
        "the engine asks for higher limits than it may have here: set `environment.run_args` to `[\"--rm\", \"--ulimit\", \"nofile=1024:1024\", \"--ulimit\", \"nproc=1024:1024\"]`",
    ),
    cause(
        &["memory limit", "memory size", "memory reservation"],
        Kind::Other,
        "set {memory} to an amount that the engine takes, such as `512m` or `4g`",
    ),
    cause(
        &["range of cpus", "nanocpus", "cpu cfs quota"],
        Kind::Other,
        "set {cpus} to a number between 0.01 and the number of processors of this machine",
    ),
    cause(
        &["exec format error"],
        Kind::Other,
        "the image is made for another architecture than this machine's: name one for this machine, or install emulation (qemu-user-static)",
    ),
    cause(
        &["container not known"],
        Kind::Other,
        "its records are at odds with what is there: remove what they still name (`{p} rm -f ID`)",
    ),
    cause(
        &[
            "no such container",
            "no container with ",
            "no such exec",
            "is not running",
            "is restarting",
            "can only create exec sessions on running",
            "container state improper",
            "is paused",
            "is dead or marked for removal",
            "marked for removal",
            "not been created",
            "has already been removed",
        ],
        Kind::ContainerGone,
        "the container has stopped, or was paused or removed from outside; start the run again (its messages are kept), and see `{p} ps -a` and the engine's log for why",
    ),
    cause(
        &[
            "could not select device driver",
            "unresolvable cdi devices",
            "nvidia",
        ],
        Kind::Other,
        "the engine can't hand out that device: install its container toolkit (for NVIDIA `nvidia-container-toolkit`), or take `--gpus` out of `environment.run_args`",
    ),
    cause(
        &[
            "cwd must be",
            "working directory",
            "workdir",
            "chdir to",
            "cannot mkdir",
        ],
        Kind::NotStarted,
        "set `environment.cwd` to an absolute path of a folder that is there",
    ),
    cause(
        &[
            "invalid mount config",
            "bind source path does not exist",
            "invalid volume specification",
            "error mounting",
            "error while creating mount source path",
            "invalid mount",
            "mounts denied",
            "duplicate mount point",
            "invalid mode",
            "are not shared from the host",
            "statfs ",
        ],
        Kind::Other,
        "a mount is wrong, see {volume}: both sides have to be absolute paths, and the first has to be there on the daemon's machine",
    ),
    cause(
        &["unable to find user", "no matching entries in passwd"],
        Kind::NotStarted,
        "the image has no such user: set {user} to one that it has, or to a number",
    ),
    cause(
        &["executable file", "exec: \"", "oci runtime exec failed"],
        Kind::NotStarted,
        "the image does not have that program, or it can't be run: name another image, or another program in `environment.interpreter`",
    ),
    cause(
        &[
            "unknown flag",
            "unknown shorthand",
            "invalid argument",
            "unknown runtime",
            "oci runtime \"",
        ],
        Kind::Other,
        "`{p} run` does not take that from {args}: see `{p} run --help`",
    ),
    cause(
        &[
            "conflict. the container name",
            "name is already in use",
            "is already in use by",
        ],
        Kind::Other,
        "take `--name` out of `environment.run_args`, or remove the other container",
    ),
    cause(
        &["network", "endpoint"],
        Kind::Other,
        "see `{p} network ls`, and {network}",
    ),
];

/// The error for what the engine said.
pub(super) fn explain(doing: Doing<'_>, product: &str, text: &str) -> EngineError {
    let lower = text.to_lowercase();
    let fits = |cause: &&Cause| cause.words.iter().any(|words| lower.contains(words));
    let images = IMAGE_CAUSES.iter().filter(|_| doing.is_about_image());
    let containers = CONTAINER_CAUSES.iter().filter(|_| !doing.is_pulling());
    let found = CAUSES.iter().chain(images).chain(containers).find(fits);
    let (kind, remedy) = match found {
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

/// A remedy with what stands for something else in it.
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
            .find(|(_, arg)| text.contains(arg.split('=').next().unwrap_or(arg)))
            .map(|(key, _)| *key),
        _ => None,
    };
    let args = args.unwrap_or("environment.run_args");
    remedy.replace("{args}", &format!("`{args}`"))
}

/// Where people find what an argument says: in its own key, unless only the arguments have it.
fn origin(doing: Doing<'_>, key: &str, flag: &str, letter: &str) -> String {
    if let Doing::Making(spec) = doing {
        let is_it = |arg: &&String| {
            let name = arg.split('=').next().unwrap_or(arg);
            let is_mount = flag == "--volume" && name == "--mount";
            (name == flag || name == letter || is_mount) && !spec.is_typed(arg)
        };
        let is_typed = spec.typed.iter().any(|(typed, _)| *typed == key);
        if let Some(arg) = spec.run_args.iter().find(is_it).filter(|_| !is_typed) {
            return spec.origin(arg);
        }
    }
    format!("`{key}`")
}

/// The keys that a container was made from.
fn keys(spec: &ContainerSpec) -> String {
    let mut keys = vec!["environment.image"];
    keys.extend(spec.platform.iter().map(|_| "environment.platform"));
    keys.extend(spec.typed.iter().map(|(key, _)| *key));
    keys.dedup();
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    format!("{} and `environment.run_args`", keys.join(", "))
}

/// How a daemon is started.
fn start(product: &str) -> &'static str {
    match product {
        "podman" => {
            "`systemctl --user start podman.socket`, for root `systemctl start podman.socket`"
        }
        _ => "`sudo systemctl start docker`",
    }
}

/// The engine's words on one line, without what says only who speaks.
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
    fault: Fault,
) -> EngineError {
    let unavailable = |message| EngineError {
        kind: Kind::Unavailable,
        message,
    };
    match fault {
        Fault::Refused { text, .. } => explain(doing, product, &text),
        Fault::Unreachable(error) => unavailable(unreachable(product, address, &error)),
        Fault::Broken(why) => unavailable(format!(
            "{}: the daemon at `{address}` broke off: {why}; see whether it runs (`{product} info`) and its log",
            doing.failed()
        )),
        Fault::TimedOut(limit) => timed_out(doing, product, limit),
    }
}

/// The error for what took too long.
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
        (std::io::ErrorKind::PermissionDenied, Address::Unix(path)) => match group(path) {
            Some(group) => format!(
                "this user may not use it: join the group `{group}` (`sudo usermod -aG {group} $USER`, then log in again), or run as root"
            ),
            None => "this user may not use it: ask who runs the daemon, or run as root".to_owned(),
        },
        (std::io::ErrorKind::NotFound, _) => format!(
            "there is no such socket: start the daemon ({}), or say where it is with `{}`",
            start(product),
            host_variable(product)
        ),
        _ => format!(
            "the daemon is down: start it ({}), or say where it is with `{}`",
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

/// The name of a file's group, when that is not root's.
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

/// A process in messages: its program, and the folder if one was given. Arguments may be long.
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

/// How often a list is asked for again when podman stumbles.
pub(super) const STUMBLES: u32 = 10;
/// And after which pause.
pub(super) const STUMBLE: Duration = Duration::from_millis(150);

/// Whether podman has stumbled over a container that went while it was looking.
pub(super) fn stumbles(error: &EngineError) -> bool {
    [
        "container not known",
        "no such container",
        "no container with",
    ]
    .iter()
    .any(|words| error.message.contains(words))
}

#[cfg(test)]
mod tests;
