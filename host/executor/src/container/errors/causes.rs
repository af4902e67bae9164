//! The causes of an engine's refusals, recognised by the words of its message, with their remedies.

use super::Doing;
use crate::container::engine::EngineErrorKind as Kind;

/// A cause: the words by which it is recognised (in lower case; the message has to contain those between
/// two `|`), the kind for callers, and the remedy.
pub(super) struct Cause {
    words: &'static str,
    pub(super) kind: Kind,
    pub(super) remedy: &'static str,
}

const fn cause(words: &'static str, kind: Kind, remedy: &'static str) -> Cause {
    Cause {
        words,
        kind,
        remedy,
    }
}

/// Causes for all operations; of several that fit, the first one is used. In a remedy `{p}` stands
/// for the engine's program, `{start}` for the command that starts its daemon, `{args}` for the
/// config key that its arguments come from, and the name of an argument (`{network}`) for the key
/// of that one.
const CAUSES: &[Cause] = &[
    cause(
        "no space left on device|disk quota exceeded",
        Kind::Other,
        "the engine's disk is full: see `{p} system df`, remove images and containers that nobody needs, or move the engine's folder to another disk",
    ),
    cause(
        "cannot connect to the docker daemon|unable to connect to podman|is the docker daemon running|cannot connect to podman",
        Kind::Unavailable,
        "the daemon is not running: start it ({start}), or set its address with `DOCKER_HOST` (podman: `CONTAINER_HOST`)",
    ),
    cause(
        "permission denied while trying to connect",
        Kind::Unavailable,
        "this user may not use the daemon's socket: join its group (`sudo usermod -aG docker $USER`, then log in again), or run as root",
    ),
];

/// Causes for images and registries.
const IMAGE_CAUSES: &[Cause] = &[
    cause(
        "no matching manifest|does not match the specified platform|no image found in image index for architecture|no image found in manifest list",
        Kind::NoImage,
        "the image does not exist for this architecture: name another image, or another platform ({platform})",
    ),
    cause(
        "toomanyrequests|too many requests|rate limit",
        Kind::Denied,
        "the registry limits how much is pulled: wait, or log in (`{p} login`)",
    ),
    cause(
        "pull access denied|unauthorized|authentication required|denied:|access denied|no basic auth|forbidden|incorrect username or password",
        Kind::Denied,
        "check its name, and log in if it is not public (`{p} login REGISTRY`)",
    ),
    cause(
        "manifest unknown|manifest for|name unknown|no such image|image not known|repository does not exist|not found: manifest|repository name not known",
        Kind::NoImage,
        "check its name and tag, pull it (`{p} pull`), or build it",
    ),
    cause(
        "invalid reference format|repository name must be lowercase",
        Kind::NoImage,
        "an image's name is written `[REGISTRY/]NAME[:TAG]`, in lower case",
    ),
    cause(
        "no such host|i/o timeout|connection refused|network is unreachable|tls handshake timeout|client.timeout exceeded|context deadline exceeded|connection reset|server misbehaving|no route to host|x509:",
        Kind::Other,
        "the engine does not reach the registry: check the machine's network, and the proxy and certificates of the daemon, which are not those of your shell",
    ),
];

/// Causes for containers.
const CONTAINER_CAUSES: &[Cause] = &[
    cause(
        "setting rlimit|setrlimit",
        Kind::Other,
        "the engine asks for higher limits than it may have on this machine: set `environment.run_args` to `[\"--rm\", \"--ulimit\", \"nofile=1024:1024\", \"--ulimit\", \"nproc=1024:1024\"]`",
    ),
    cause(
        "memory limit|memory size|memory reservation",
        Kind::Other,
        "set {memory} to an amount that the engine takes, such as `512m` or `4g`",
    ),
    cause(
        "range of cpus|nanocpus|cpu cfs quota",
        Kind::Other,
        "set {cpus} to a number between 0.01 and the number of processors of this machine",
    ),
    cause(
        "exec format error",
        Kind::Other,
        "the image is made for another architecture than this machine's: name one for this machine, or install emulation (qemu-user-static)",
    ),
    cause(
        "container not known",
        Kind::Other,
        "its records name a container that does not exist: remove it (`{p} rm -f ID`)",
    ),
    cause(
        "no such container|no container with |no such exec|is not running|is restarting|can only create exec sessions on running|container state improper|is paused|is dead or marked for removal|marked for removal|not been created|has already been removed",
        Kind::ContainerGone,
        "the container has stopped, or was paused or removed from outside; start the run again (its messages are kept), and see `{p} ps -a` and the engine's log for why",
    ),
    cause(
        "could not select device driver|unresolvable cdi devices|nvidia",
        Kind::Other,
        "the engine can't give that device to a container: install its container toolkit (for NVIDIA `nvidia-container-toolkit`), or take `--gpus` out of `environment.run_args`",
    ),
    cause(
        "cwd must be|working directory|workdir|chdir to|cannot mkdir",
        Kind::NotStarted,
        "set `environment.cwd` to an absolute path of a folder that is there",
    ),
    cause(
        "invalid mount config|bind source path does not exist|invalid volume specification|error mounting|error while creating mount source path|invalid mount|mounts denied|duplicate mount point|invalid mode|are not shared from the host|statfs ",
        Kind::Other,
        "a mount is wrong, see {volume}: both sides have to be absolute paths, and the first has to be there on the daemon's machine",
    ),
    cause(
        "unable to find user|no matching entries in passwd",
        Kind::NotStarted,
        "the image has no such user: set {user} to one that it has, or to a number",
    ),
    cause(
        "executable file|exec: \"|oci runtime exec failed",
        Kind::NotStarted,
        "the image does not have that program, or it can't be run: name another image, or another program in `environment.interpreter`",
    ),
    cause(
        "unknown flag|unknown shorthand|invalid argument|unknown runtime|oci runtime \"",
        Kind::Other,
        "`{p} run` does not accept this argument of {args}: see `{p} run --help`",
    ),
    cause(
        "conflict. the container name|name is already in use|is already in use by",
        Kind::Other,
        "take `--name` out of `environment.run_args`, or remove the other container",
    ),
    cause(
        "network|endpoint",
        Kind::Other,
        "see `{p} network ls`, and {network}",
    ),
];

/// The cause of a refusal; none if no known words are in the engine's message.
pub(super) fn find(doing: Doing<'_>, text: &str) -> Option<&'static Cause> {
    let lower = text.to_lowercase();
    let fits = |cause: &&Cause| cause.words.split('|').any(|words| lower.contains(words));
    let images = IMAGE_CAUSES.iter().filter(|_| doing.is_about_image());
    let containers = CONTAINER_CAUSES.iter().filter(|_| !doing.is_pulling());
    CAUSES.iter().chain(images).chain(containers).find(fits)
}
