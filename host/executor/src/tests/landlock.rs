//! Tests of Landlock, with the test program in the role of the host's binary.

use std::io::Read;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::PathBuf;

use super::contract::{self, run, text};
use super::*;
use crate::{Sandbox, SandboxKind, landlock};

/// The kernel's version, found in another way than by the tested code.
fn abi() -> i64 {
    // SAFETY: only asks for a number; nothing is passed by pointer.
    unsafe { libc::syscall(444, 0, 0, 1) }
}

/// Whether the kernel has it.
fn has_landlock(name: &str) -> bool {
    let abi = abi();
    let found = if abi >= 3 {
        Ok(())
    } else {
        Err(format!("version {abi}"))
    };
    needs::has("landlock", name, found)
}

/// Whether it can confine signals, which is the part around bubblewrap.
pub(super) fn has_scopes(name: &str) -> bool {
    let abi = abi();
    let found = if abi >= 6 {
        Ok(())
    } else {
        Err(format!("version {abi}"))
    };
    needs::has("landlock", name, found)
}

fn sandboxed(network: bool) -> LocalSettings {
    LocalSettings {
        sandbox: Sandbox {
            kind: SandboxKind::Landlock,
            network,
            ..Sandbox::default()
        },
        ..contract::local()
    }
}

#[path = "../../../../tests/behaviour/outside.rs"]
mod elsewhere;

/// A folder outside the temporary ones that this user may write to.
fn outside() -> tempfile::TempDir {
    elsewhere::outside().expect("`MSWEA_TEST_OUTSIDE` is to name a folder outside of `/tmp`")
}

async fn started(settings: LocalSettings) -> LocalExecutor {
    let mut executor = LocalExecutor::new(settings);
    executor.start(&context(), None).await.unwrap();
    executor
}

/// Run as root and as an unprivileged user.
pub(super) async fn everything(networks: &[bool]) {
    for &network in networks {
        let folder = tempfile::tempdir().unwrap();
        let mut executor = started(LocalSettings {
            cwd: Some(folder.path().to_owned()),
            ..sandboxed(network)
        })
        .await;
        contract::all(&mut executor).await;
        contract::cleanup_leaves_nothing(&mut executor).await;
    }
    writes_stay_in().await;
    without_network_there_is_none().await;
    services_are_out_of_reach(networks).await;
}

#[tokio::test]
async fn it_is_the_local_executor_in_a_sandbox() {
    if has_landlock("it_is_the_local_executor_in_a_sandbox") {
        everything(&[true, false]).await;
    }
}

/// Commands that change or examine the process `host` by other calls than signals. What they would set, it
/// has already, or does no harm.
pub(super) fn changes_of(host: u32) -> Vec<String> {
    let programs = [
        "prlimit --core=0:0 --pid",
        "prlimit --pid",
        "renice -n 0 -p",
        "ionice -c 2 -n 4 -p",
        "taskset -a -p ffffffff",
        "chrt -a -o -p 0",
    ];
    let programs = programs.map(|program| format!("{program} {host}"));
    // Calls by the numbers of this machine, for root and without harm if they succeed; they are to fail for
    // want of the right, or because this kernel does not have them.
    let call = |numbers: &str| {
        format!(
            "! perl -e 'use Errno; my $p = {host}; my $x = \"\\0\" x 200; my $i = pack(\"PQ\", $x, 8); \
             my $d = syscall(434, $p, 0); \
             exit(syscall({numbers}) >= 0 || !($!{{EPERM}} || $!{{EACCES}} || $!{{ENOSYS}}))'"
        )
    };
    let calls = [
        // `setpriority`, `sched_setparam`, `sched_setattr`, `ioprio_set`, `perf_event_open`.
        "141, 0, $p, 0",
        "142, $p, $x",
        "314, $p, $x, 0",
        "251, 1, $p, 0",
        "298, $x, $p, -1, -1, 0",
        // `ptrace`, `process_vm_readv`, `kcmp`, `move_pages`, `migrate_pages`.
        "101, 16, $p, 0, 0",
        "310, $p, $i, 1, $i, 1, 0",
        "312, $$ + 0, $p, 1, 0, 0",
        "279, $p, 0, 0, 0, 0, 0",
        "256, $p, 0, 0, 0",
        // `pidfd_getfd`, `pidfd_send_signal`, `process_madvise`.
        "438, $d, 0, 0",
        "424, $d, 0, 0, 0",
        "440, $d, 0, 0, 20, 0",
    ];
    let calls = calls.iter().filter(|_| cfg!(target_arch = "x86_64"));
    let calls = calls.map(|numbers| call(numbers));
    programs.into_iter().chain(calls).collect()
}

async fn writes_stay_in() {
    let root = outside();
    let at = |name: &str| root.path().join(name);
    for folder in ["cwd", "more", "forbidden"] {
        std::fs::create_dir(at(folder)).unwrap();
    }
    std::fs::write(at("forbidden/file"), "x").unwrap();
    std::fs::write(at("allowed"), "x").unwrap();
    let mut settings = LocalSettings {
        cwd: Some(at("cwd")),
        ..sandboxed(true)
    };
    settings.sandbox.writable = vec![at("more"), "../allowed".into()];
    let mut executor = started(settings).await;
    let host = std::process::id();
    for command in [
        "echo x >../forbidden/new",
        "echo x >../new",
        "echo x >>../forbidden/file",
        ": >../forbidden/file",
        "truncate -s 0 ../forbidden/file",
        "rm ../forbidden/file",
        "mv ../forbidden/file .",
        "mv ../forbidden/file ../forbidden/other",
        "ln ../forbidden/file .",
        "ln -s x ../forbidden/link",
        "mkdir ../forbidden/folder",
        "mkfifo ../forbidden/pipe",
        "rmdir ../forbidden",
        "rm ../allowed",
        "ln -s ../forbidden here && echo x >here/new",
        "cd /; sh -c \"bash -c 'echo x >$OLDPWD/../forbidden/new'\"",
        "mknod device c 1 3",
        "mount -t tmpfs none .",
        "chmod 4755 ../forbidden/file",
        "chmod u+s,g+s ../forbidden/file",
        &format!("kill -0 {host}"),
        &format!("kill -9 {host}"),
        &format!("head -c 1 /proc/{host}/mem"),
        &format!("echo 0 >/proc/{host}/oom_score_adj"),
    ]
    .into_iter()
    .chain(changes_of(host).iter().map(String::as_str))
    {
        let output = run(&mut executor, command).await;
        assert_ne!(output.returncode, 0, "{command}: {}", output.output);
    }
    assert_eq!(std::fs::read_to_string(at("forbidden/file")).unwrap(), "x");
    assert_eq!(std::fs::read_dir(at("forbidden")).unwrap().count(), 1);
    let mode = std::fs::metadata(at("forbidden/file"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o6000, 0);
    assert!(!at("new").exists());
    for command in [
        "cat ../forbidden/file",
        "mkdir -p a/b && echo x >a/b/c && mv a/b/c d && ln d e && ln -s d f && rm -r a",
        "echo x >../more/x && mv ../more/x . && mv d ../more/",
        "echo y >../allowed",
        "echo x >/dev/null; echo x >/dev/zero; echo x >/dev/full 2>&1 || true",
        "script -qec 'stty size' /dev/null >/dev/null",
        "sleep 60 & kill $!",
        "ulimit -n 100 && ulimit -c 0 && prlimit --core=0 true",
        "nice -n 1 ionice -c 3 taskset -c 0 chrt -b 0 true",
        "t=$(mktemp -d) && echo x >$t/x && mv $t/x moved && rm -r $t",
    ] {
        text(&mut executor, command).await;
    }
    assert_eq!(std::fs::read_to_string(at("allowed")).unwrap(), "y\n");
    // Without a folder of its own, it is that of the host.
    let mut executor = started(sandboxed(true)).await;
    let here = std::env::current_dir().unwrap();
    assert_eq!(
        text(&mut executor, "pwd").await.trim(),
        here.to_str().unwrap()
    );
    let output = run(&mut executor, &format!("echo x >'{}'", at("new").display())).await;
    assert!(
        output.output.contains("Permission denied"),
        "{}",
        output.output
    );
}

/// Every use of UNIX sockets that a command can make, by all calls for it.
async fn services_are_out_of_reach(networks: &[bool]) {
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let at = |name: &str| folder.path().join(name);
    let stream = UnixListener::bind(at("stream")).unwrap();
    let datagrams = UnixDatagram::bind(at("datagrams")).unwrap();
    let name = format!("mswea-test-{}", contract::nap());
    let hidden = SocketAddr::from_abstract_name(&name).unwrap();
    let _hidden = UnixListener::bind_addr(&hidden).unwrap();
    let perl = |code: &str| {
        format!(
            "perl -MSocket -e '{code}' '{}' {name}",
            folder.path().display()
        )
    };
    let stream_to = |path: &str| {
        perl(&format!(
            "socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die $!; \
             connect($s, pack_sockaddr_un(\"{path}\")) or die $!; print \"done\\n\""
        ))
    };
    let datagram_by = |call: &str| {
        perl(&format!(
            "{call} or die $!; send($s, \"x\", 0, pack_sockaddr_un(\"$ARGV[0]/datagrams\")) \
             or die $!; print \"done\\n\""
        ))
    };
    let attempts = [
        stream_to("$ARGV[0]/stream"),
        stream_to("\\0$ARGV[1]"),
        datagram_by("socket(my $s, AF_UNIX, SOCK_DGRAM, 0)"),
        datagram_by("socketpair(my $s, my $t, AF_UNIX, SOCK_DGRAM, 0)"),
        // The call `io_uring_setup`.
        perl("my $x = \"\\0\" x 120; syscall(425, 8, $x) >= 0 or die $!; print \"done\\n\""),
    ];
    for &network in networks {
        for sockets in [false, true] {
            let mut settings = sandboxed(network);
            settings.sandbox.sockets = sockets;
            let mut executor = started(settings).await;
            for (place, attempt) in attempts.iter().enumerate() {
                let output = run(&mut executor, attempt).await;
                // Landlock itself controls sockets without a path; the last case is not available
                // to everyone, and is refused only if Landlock does not control sockets.
                if !sockets && (place < 4 || abi() < 9) {
                    assert_ne!(output.returncode, 0, "{attempt}: {}", output.output);
                } else if sockets && place != 1 && place < 4 {
                    assert_eq!(output.output, "done\n", "{attempt}");
                }
            }
            let pair = perl("socketpair(my $s, my $t, AF_UNIX, SOCK_STREAM, 0) or die $!");
            text(&mut executor, &pair).await;
            text(
                &mut executor,
                &perl("socket(my $s, AF_INET, SOCK_STREAM, 0) or die $!"),
            )
            .await;
        }
    }
    stream.set_nonblocking(true).unwrap();
    datagrams.set_nonblocking(true).unwrap();
    // Only the allowed ones have connected.
    let came = std::iter::from_fn(|| stream.accept().ok()).count();
    let sent = std::iter::from_fn(|| datagrams.recv(&mut [0]).ok()).count();
    assert_eq!((came, sent), (networks.len(), 2 * networks.len()));
}

async fn without_network_there_is_none() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let call = format!("echo hello >/dev/tcp/127.0.0.1/{port}");
    let mut executor = started(sandboxed(true)).await;
    text(&mut executor, &call).await;
    let mut said = String::new();
    listener
        .accept()
        .unwrap()
        .0
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(said, "hello\n");

    let mut executor = started(sandboxed(false)).await;
    let host = std::process::id();
    for command in [
        &call,
        "echo x >/dev/udp/192.0.2.1/9",
        "echo x >/dev/tcp/192.0.2.1/9",
        &format!("nsenter -t {host} -n true"),
        "unshare -rm mount -t tmpfs none /mnt",
        // Sockets that are in no network namespace: `AF_VSOCK`, `AF_QIPCRTR`.
        "perl -MSocket -e 'use Errno; exit(socket(my $s, 40, SOCK_STREAM, 0) || !$!{EAFNOSUPPORT} ? 0 : 1)'",
        "perl -MSocket -e 'use Errno; exit(socket(my $s, 42, SOCK_DGRAM, 0) || !$!{EAFNOSUPPORT} ? 0 : 1)'",
    ] {
        let output = run(&mut executor, command).await;
        assert_ne!(output.returncode, 0, "{command}: {}", output.output);
    }
    let devices = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '";
    assert_eq!(text(&mut executor, devices).await, "lo\n");
    // The loopback device inside works, and users keep their numbers.
    text(&mut executor, "echo x >/dev/udp/127.0.0.1/9").await;
    let user = rustix::process::geteuid().as_raw();
    assert_eq!(text(&mut executor, "id -u").await, format!("{user}\n"));
    if user == 0 {
        let owner = "f=$(mktemp) && chown 12345:54321 $f && stat -c %u:%g $f; rm $f";
        assert_eq!(text(&mut executor, owner).await, "12345:54321\n");
    }
}

#[tokio::test]
async fn nothing_runs_if_the_rules_can_not_be_enforced() {
    if !has_landlock("nothing_runs_if_the_rules_can_not_be_enforced") {
        return;
    }
    let with = |program: Option<&str>, writable: &[&str]| {
        let mut settings = sandboxed(true);
        settings.guard_program = program.map(PathBuf::from);
        settings.sandbox.writable = writable.iter().map(PathBuf::from).collect();
        settings
    };
    let me = std::env::current_exe().unwrap();
    let me = me.to_str();
    let vectors = [
        (with(None, &[]), "`guard_program`"),
        // A program without the subcommand, and one that reports success without a sandbox.
        (
            with(Some("/bin/false"), &[]),
            "`/bin/false __landlock` says",
        ),
        (with(Some("/bin/true"), &[]), "`/bin/true __landlock` says"),
        (with(Some("/bin/echo"), &[]), "`/bin/echo __landlock` says"),
        (
            LocalSettings {
                cwd: Some("/usr/..".into()),
                ..with(me, &[])
            },
            "set `cwd`",
        ),
        (with(me, &["/no/folder"]), "`/no/folder` is to be writable"),
    ];
    for (settings, wanted) in vectors {
        let mut executor = LocalExecutor::new(settings);
        let error = executor.start(&context(), None).await.unwrap_err().message;
        assert!(error.contains(wanted), "{error}");
        assert!(error.contains("set the sandbox to `none`"), "{error}");
        // If the caller continues regardless, no command is run.
        let output = run(&mut executor, "echo run").await;
        assert_eq!((output.output.as_str(), output.returncode), ("", -1));
        assert!(
            output.exception_info.contains("sandbox"),
            "{}",
            output.exception_info
        );
    }
}

/// As on a machine on which user namespaces are forbidden.
#[test]
fn a_network_that_can_not_be_taken_away_is_told() {
    let name = "a_network_that_can_not_be_taken_away_is_told";
    let limited = |command: &[&str]| {
        let limit = "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$@\"";
        std::process::Command::new("unshare")
            .args(["--user", "--map-root-user", "sh", "-c", limit, "sh"])
            .args(command)
            .output()
    };
    let found = match limited(&["true"]) {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(error.to_string()),
    };
    if !has_landlock(name) || !needs::has("unshare", name, found) {
        return;
    }
    let program = std::env::current_exe().unwrap();
    let program = [program.to_str().unwrap(), landlock::SUBCOMMAND];
    let run = ["--", "/bin/echo", "echo", "run"];
    let output = limited(&[&program[..], &["--no-network"], &run].concat()).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(126), &b""[..]),
        "{said}"
    );
    assert!(
        said.contains("`sudo sysctl user.max_user_namespaces="),
        "{said}"
    );
    assert!(said.contains("or allow the network"), "{said}");
    let output = limited(&[&program[..], &run].concat()).unwrap();
    assert_eq!(output.stdout, b"run\n");
}

#[tokio::test]
#[ignore = "a role in another test"]
async fn hidden_body() {
    if plays("hidden_body") {
        // A program may have done this before it calls the subcommand.
        mswea_secrecy::protect();
        crate::adopt_orphans();
        let command = "echo $MY_TOKEN; (setsid sh -c 'sleep 0.1; grep PPid /proc/$$/status' &); \
                       sleep 0.4; echo adopted by $$";
        landlock::run(["--", "/bin/sh", "sh", "-c", command].map(Into::into));
    }
}

#[test]
fn earlier_settings_of_the_process_do_not_change_the_subcommand() {
    if !has_landlock("earlier_settings_of_the_process_do_not_change_the_subcommand") {
        return;
    }
    let output = in_its_own_process(module_path!(), "hidden_body")
        .env("MY_TOKEN", "whole")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let number = |before: &str| said.lines().find_map(|line| line.strip_prefix(before));
    let (parent, shell) = (
        number("PPid:").unwrap().trim(),
        number("adopted by ").unwrap(),
    );
    assert!(said.contains("whole\n") && parent != shell, "{said}");
}

#[test]
fn the_subcommand_runs_nothing_without_its_rules() {
    let vectors: [&[&str]; 5] = [
        &["--write", "/no/folder", "--", "/bin/echo", "echo", "run"],
        &["--bad", "--", "/bin/echo", "echo", "run"],
        &["--", "/no/program", "x"],
        &["--"],
        &[],
    ];
    for args in vectors {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .arg(landlock::SUBCOMMAND)
            .args(args)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(126), "{args:?}");
        assert_eq!(output.stdout, b"", "{args:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("nothing was run"), "{said}");
    }
}

#[tokio::test]
async fn programs_that_stay_open_are_confined() {
    if !has_landlock("programs_that_stay_open_are_confined") {
        return;
    }
    let folder = outside();
    let mut executor = started(sandboxed(true)).await;
    interactive::shells(&mut executor).await;
    interactive::loses_a_helper(&mut executor, true).await;
    let file = folder.path().join("file").display().to_string();
    let command = format!("echo x >'{file}'; echo \"status $?\"");
    interactive::open(&mut executor, "p", &command, Some((24, 80)))
        .await
        .unwrap();
    let said = interactive::expect(&mut executor, "p", "status [0-9]+\n").await;
    assert!(
        said.contains("Permission denied") && said.ends_with("status 1\n"),
        "{said}"
    );
    executor.cleanup().await;
}

#[tokio::test]
async fn a_shell_with_a_terminal_is_confined() {
    if !has_landlock("a_shell_with_a_terminal_is_confined") {
        return;
    }
    let mut executor = started(LocalSettings {
        session: true,
        pty: true,
        ..sandboxed(true)
    })
    .await;
    terminal::commands(&mut executor).await;
    executor.cleanup().await;
}
