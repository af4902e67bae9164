//! The process that confines itself and then becomes the interpreter.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::kernel::{self, Ruleset, right};
use super::network;
use super::seccomp::{self, RefusedCalls};
use mswea_secrecy as secrecy;

/// The beginning of the report of a successful trial.
pub(super) const TRIED: &str = "landlock works:";

/// The exit code of shells for a file that can't be executed.
const NOT_RUN: i32 = 126;

/// The request in the arguments.
#[derive(Debug, Default, PartialEq)]
struct Request {
    writable: Vec<PathBuf>,
    no_network: bool,
    /// Whether UNIX sockets may be used as without a sandbox.
    sockets: bool,
    /// Whether files are left alone, so that only signals and abstract sockets are confined, and what
    /// the next two name.
    scope: bool,
    /// Whether sockets that reach further than a network namespace are refused, which the program makes.
    contained: bool,
    /// Whether other processes can't be changed.
    processes: bool,
    /// A folder in which to try the rules, instead of a program to run.
    trial: Option<PathBuf>,
    /// Path, name and arguments.
    program: Vec<OsString>,
}

/// The body of the subcommand, with what follows it on the command line: applies the rules and
/// becomes the named program, or ends the process.
///
/// A program with the subcommand calls this before it changes its environment
/// ([`mswea_secrecy::protect`]), makes itself a subreaper or starts a thread, because all of that
/// would be inherited by the command.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ! {
    let Err(why) = attempt(args);
    let _ = writeln!(
        io::stderr(),
        "the sandbox can't be set up: {why}; nothing was run"
    );
    std::process::exit(NOT_RUN)
}

fn attempt(args: impl IntoIterator<Item = OsString>) -> Result<Infallible, String> {
    let request = parse(args)?;
    // A program that adopts orphans would still do so as the interpreter, and the host would never
    // see them.
    let _ = rustix::process::set_child_subreaper(None);
    let abi = kernel::abi().map_err(|error| format!("no landlock: {error}"))?;
    if request.no_network {
        network::leave()?;
    }
    if let Some(folder) = &request.trial {
        let report = trial(folder, abi, &request)?;
        let _ = writeln!(io::stdout(), "{TRIED} {report}");
        std::process::exit(0);
    }
    let [path, name, args @ ..] = request.program.as_slice() else {
        return Err("no program was named".to_owned());
    };
    if request.scope {
        let scoped = Ruleset::new(0, true).and_then(Ruleset::enforce);
        scoped.map_err(refused)?;
        let refusals = RefusedCalls {
            modes: false,
            sockets: false,
            networks: request.contained,
            processes: request.processes,
        };
        if refusals.networks || refusals.processes {
            seccomp::enforce(refusals)?;
        }
    } else {
        let mut places = WritablePlaces::usual();
        places.folders.extend(request.writable);
        places.enforce(abi, request.sockets, request.no_network)?;
    }
    let error = Command::new(path)
        .arg0(name)
        .args(args)
        .env_clear()
        // `secrecy` may have hidden some of them in this process.
        .envs(secrecy::vars())
        .exec();
    Err(format!("`{}` can't be started: {error}", path.display()))
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Request, String> {
    let mut request = Request::default();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let mut path = || args.next().map(PathBuf::from).ok_or("a path is missing");
        match arg.to_str() {
            Some("--write") => request.writable.push(path()?),
            Some("--trial") => request.trial = Some(path()?),
            Some("--no-network") => request.no_network = true,
            Some("--sockets") => request.sockets = true,
            Some("--scope") => request.scope = true,
            Some("--contained") => request.contained = true,
            Some("--processes") => request.processes = true,
            Some("--") => request.program = args.by_ref().collect(),
            _ => return Err(format!("unknown argument `{}`", arg.display())),
        }
    }
    Ok(request)
}

/// The places that may be written to.
#[derive(Debug, Default)]
struct WritablePlaces {
    /// Required.
    folders: Vec<PathBuf>,
    /// Used if they exist.
    usual: Vec<PathBuf>,
    /// Files that are not made or removed, and folders of such files; used if they exist.
    devices: Vec<PathBuf>,
}

impl WritablePlaces {
    fn usual() -> Self {
        let temporary = std::env::var_os("TMPDIR").filter(|path| !path.is_empty());
        let folders = ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from);
        Self {
            folders: vec![PathBuf::from(".")],
            usual: temporary
                .map(PathBuf::from)
                .into_iter()
                .chain(folders)
                .collect(),
            devices: [
                "/dev/null",
                "/dev/zero",
                "/dev/full",
                "/dev/tty",
                "/dev/ptmx",
                "/dev/pts",
                // Only this process's own: the rules apply to the folder, not to its name.
                "/proc/self",
            ]
            .map(PathBuf::from)
            .into(),
        }
    }

    /// Confines this process; `sockets`: whether it may use those of services outside; `no_network`: whether
    /// it has left the network.
    fn enforce(&self, abi: i32, sockets: bool, no_network: bool) -> Result<(), String> {
        let with_devices = if abi >= kernel::DEVICES {
            right::IOCTL_DEV
        } else {
            0
        };
        let file = right::WRITE_FILE | right::TRUNCATE | with_devices;
        let folder = file
            | right::REMOVE_DIR
            | right::REMOVE_FILE
            | right::MAKE_DIR
            | right::MAKE_REG
            | right::MAKE_SOCK
            | right::MAKE_FIFO
            | right::MAKE_SYM
            | right::REFER;
        // With a device file that it makes itself, root could write to the disk directly.
        let mut nowhere = right::MAKE_CHAR | right::MAKE_BLOCK;
        // If Landlock controls sockets, sockets made inside stay usable; otherwise all are
        // forbidden.
        let by_landlock = abi >= kernel::SOCKETS;
        if by_landlock && !sockets {
            nowhere |= right::RESOLVE_UNIX;
        }
        let rules = Ruleset::new(folder | nowhere, abi >= kernel::SCOPES).map_err(refused)?;
        let needed = self.folders.iter().map(|path| (path, folder, true));
        let usual = self.usual.iter().map(|path| (path, folder, false));
        let devices = self.devices.iter().map(|path| (path, file, false));
        for (path, rights, is_needed) in needed.chain(usual).chain(devices) {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            match rustix::fs::open(path, flags, Mode::empty()) {
                Ok(place) => {
                    let is_folder = path.is_dir();
                    let rights = if is_folder { rights } else { rights & file };
                    rules.allow(place, rights).map_err(refused)?;
                }
                Err(error) if is_needed => {
                    return Err(format!(
                        "`{}` can't be made writable: {error}",
                        path.display()
                    ));
                }
                Err(_) => {}
            }
        }
        rules.enforce().map_err(refused)?;
        seccomp::enforce(RefusedCalls {
            modes: true,
            sockets: !sockets && !by_landlock,
            networks: no_network,
            processes: true,
        })
    }
}

fn refused(error: Errno) -> String {
    format!("landlock refused: {error}")
}

/// Confines this process, with `folder/in` writable, and tries what is forbidden.
fn trial(folder: &Path, abi: i32, request: &Request) -> Result<String, String> {
    let folder = std::path::absolute(folder)
        .map_err(|error| format!("`{}` can't be used: {error}", folder.display()))?;
    let at = |name: &str| folder.join(name);
    let prepared = fs::create_dir(at("in"))
        .and_then(|()| fs::write(at("in/file"), "x"))
        .and_then(|()| fs::write(at("outside"), "x"));
    prepared.map_err(|error| format!("`{}` can't be used: {error}", folder.display()))?;
    // A short name is used, because a socket's path has to be short. Some file systems have no
    // sockets.
    let service = std::env::set_current_dir(&folder).and_then(|()| UnixListener::bind("service"));
    let places = WritablePlaces {
        folders: vec![at("in")],
        ..WritablePlaces::default()
    };
    places.enforce(abi, request.sockets, request.no_network)?;

    let mut write = OpenOptions::new();
    write.write(true);
    let mut forbidden: Vec<(&str, io::Result<()>)> = vec![
        ("make a file", fs::write(at("new"), "x")),
        ("write to a file", write.open(at("outside")).map(drop)),
        (
            "empty a file",
            rustix::fs::open(at("outside"), OFlags::RDONLY | OFlags::TRUNC, Mode::empty())
                .map(drop)
                .map_err(Into::into),
        ),
        ("remove a file", fs::remove_file(at("outside"))),
        ("move a file", fs::rename(at("in/file"), at("moved"))),
        ("make a link", std::os::unix::fs::symlink("x", at("link"))),
        (
            "set a set-user-id bit",
            fs::set_permissions(at("outside"), fs::Permissions::from_mode(0o4755)),
        ),
    ];
    if !request.sockets && (service.is_ok() || abi < kernel::SOCKETS) {
        let connected = UnixStream::connect("service").map(drop);
        forbidden.push(("connect to a socket", connected));
    }
    for (what, result) in forbidden {
        // `EXDEV` is Landlock's answer to moving a file out.
        match result.map_err(|error| error.kind()) {
            Err(io::ErrorKind::PermissionDenied | io::ErrorKind::CrossesDevices) => {}
            Ok(()) => {
                return Err(format!(
                    "landlock does not work: it let a process {what} outside"
                ));
            }
            Err(error) => {
                return Err(format!(
                    "the attempt to {what} outside failed for another reason: {error}"
                ));
            }
        }
    }
    fs::write(at("in/new"), "x").map_err(|error| format!("writing inside failed: {error}"))?;
    UnixStream::pair().map_err(|error| format!("a pair of sockets was refused: {error}"))?;
    let parent = rustix::process::getppid().ok_or("there is no parent to change")?;
    match limits_of(parent) {
        Err(Errno::PERM) => {}
        other => return Err(format!("other processes can be changed: {other:?}")),
    }
    let mut report = format!("version {abi}");
    if !request.sockets {
        report.push_str(", sockets of services kept out");
    }
    if abi >= kernel::SCOPES {
        match rustix::process::test_kill_process(parent) {
            Err(Errno::PERM) => report.push_str(", signals kept in"),
            other => return Err(format!("landlock does not keep signals in: {other:?}")),
        }
    }
    if request.no_network {
        // Connecting a UDP socket sends nothing; the address is reserved for documentation.
        let sent = UdpSocket::bind("0.0.0.0:0").and_then(|it| it.connect("192.0.2.1:9"));
        match sent {
            Err(error) if error.kind() == io::ErrorKind::NetworkUnreachable => {
                report.push_str(", network can be taken away");
            }
            other => return Err(format!("the network is still there: {other:?}")),
        }
    }
    Ok(report)
}

/// Asks for a limit of a process, by the call that can change it.
fn limits_of(process: rustix::process::Pid) -> Result<(), Errno> {
    let mut limit = std::mem::MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: writes one limit, which exists during the call, and changes nothing.
    let code = unsafe {
        libc::prlimit(
            process.as_raw_nonzero().get(),
            libc::RLIMIT_CORE,
            std::ptr::null(),
            limit.as_mut_ptr(),
        )
    };
    match code {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_arguments() {
        let vectors: [(&[&str], Result<Request, &str>); 7] = [
            (&[], Ok(Request::default())),
            (
                &[
                    "--write", "/a", "--write", "--", "--", "/bin/sh", "sh", "-c", "--write",
                ],
                Ok(Request {
                    writable: vec!["/a".into(), "--".into()],
                    program: ["/bin/sh", "sh", "-c", "--write"]
                        .map(OsString::from)
                        .into(),
                    ..Request::default()
                }),
            ),
            (
                &["--no-network", "--sockets", "--trial", "/f"],
                Ok(Request {
                    no_network: true,
                    sockets: true,
                    trial: Some("/f".into()),
                    ..Request::default()
                }),
            ),
            (
                &["--scope", "--contained", "--processes", "--", "/bin/x"],
                Ok(Request {
                    scope: true,
                    contained: true,
                    processes: true,
                    program: vec!["/bin/x".into()],
                    ..Request::default()
                }),
            ),
            (&["--write"], Err("a path is missing")),
            (&["--wrote", "x"], Err("unknown argument `--wrote`")),
            (&["x"], Err("unknown argument `x`")),
        ];
        for (args, wanted) in vectors {
            let found = parse(args.iter().map(OsString::from));
            assert_eq!(found, wanted.map_err(str::to_owned), "{args:?}");
        }
    }
}
