//! Arguments of `bwrap`: the default sandbox, and those that hide the sockets of services in the
//! working directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The default sandbox: the system, read-only, and a temporary folder of its own.
pub const DEFAULT_WRAPPER_ARGS: &[&str] = &[
    "--unshare-user-try",
    "--ro-bind",
    "/usr",
    "/usr",
    "--ro-bind",
    "/bin",
    "/bin",
    "--ro-bind",
    "/lib",
    "/lib",
    "--ro-bind",
    "/lib64",
    "/lib64",
    "--ro-bind",
    "/etc",
    "/etc",
    "--tmpfs",
    "/tmp",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--new-session",
    "--unshare-pid",
    "--unshare-ipc",
    "--setenv",
    "PATH",
    "/usr/local/bin:/usr/sbin:/usr/bin:/bin",
];
/// Where services of this machine have sockets, or folders of sockets, through which a command
/// could act outside its sandbox; below `~` for those of a user.
const SERVICES: &[&str] = &[
    "/run/docker.sock",
    "/run/podman",
    "/run/containerd",
    "/run/crio",
    "/run/dbus",
    "/run/systemd",
    "/run/snapd.socket",
    "/run/libvirt",
    "/run/screen",
    "/run/tmux",
    "/run/user",
    "/tmp/.X11-unix",
    "~/.docker/run",
    "~/.docker/desktop",
    "~/.colima",
    "~/.rd",
    "~/.screen",
    "~/.ssh/agent",
    "~/.gnupg",
    "~/.1password",
];
/// The arguments that set a variable inside the sandbox.
pub(super) fn setenv(name: &str, value: &str) -> [String; 3] {
    ["--setenv".to_owned(), name.to_owned(), value.to_owned()]
}

/// The arguments that hide the services' sockets below `cwd`, except for those that `wrapper_args`
/// name.
pub(super) fn covers(cwd: &Path, wrapper_args: &[String]) -> Vec<OsString> {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    let places = SERVICES
        .iter()
        .filter_map(|place| match place.strip_prefix("~/") {
            Some(rest) => Some(home.as_ref()?.join(rest)),
            None => Some(PathBuf::from(place)),
        });
    let user = rustix::process::geteuid().as_raw();
    let tmux = std::env::var_os("TMUX_TMPDIR").map_or_else(|| "/tmp".into(), PathBuf::from);
    let named = ["SSH_AUTH_SOCK", "XDG_RUNTIME_DIR"].map(std::env::var_os);
    let named = named.into_iter().flatten().map(PathBuf::from);
    let mut args = Vec::new();
    let Ok(here) = cwd.canonicalize() else {
        return args;
    };
    for path in places
        .chain(named)
        .chain([tmux.join(format!("tmux-{user}"))])
    {
        let is_wanted = wrapper_args
            .iter()
            .any(|arg| Path::new(arg).starts_with(&path));
        let (Ok(found), Ok(real)) = (path.metadata(), path.canonicalize()) else {
            continue;
        };
        let Ok(below) = real.strip_prefix(&here) else {
            continue;
        };
        // A working directory inside such a folder was chosen by the user.
        if is_wanted || below.as_os_str().is_empty() {
            continue;
        }
        let inside = cwd.join(below);
        if found.is_dir() {
            args.extend(["--tmpfs".into(), inside.into()]);
        } else {
            args.extend(["--ro-bind".into(), "/dev/null".into(), inside.into()]);
        }
    }
    args
}

/// The default arguments without the folders that this machine does not have, such as `/lib64`.
pub(super) fn present(args: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg == "--ro-bind" {
            let both = [rest.next(), rest.next()];
            if both[0].is_some_and(|source| Path::new(source).exists()) {
                kept.push(arg.clone());
                kept.extend(both.into_iter().flatten().cloned());
            }
        } else {
            kept.push(arg.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_folders_are_left_out() {
        let args = [
            "--a",
            "--ro-bind",
            "/usr",
            "/usr",
            "--ro-bind",
            "/none",
            "/none",
            "--b",
            "c",
        ];
        let args = args.map(str::to_owned);
        assert_eq!(
            present(&args),
            ["--a", "--ro-bind", "/usr", "/usr", "--b", "c"]
        );
    }
}
