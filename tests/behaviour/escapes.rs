//! Attempts to escape from the sandboxes: through services' sockets, with set-user-id bits, and by
//! killing the host and its guardian. Each attempt is also made outside the sandbox, where it succeeds.

use std::fs;
use std::io::Read as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::host::Host;
use crate::needs::{Need, outside_of_landlock};
use crate::run::Run;
use crate::story::commands;

const LANDLOCK: [&str; 2] = ["-c", "environment.sandbox=landlock"];

/// Connects to a socket and prints whether that succeeded; needs only perl.
const CONNECT: &str = r#"perl -MSocket -e '
    socket(my $s, AF_UNIX, SOCK_STREAM, 0) or do { print "no socket: $!\n"; exit };
    connect($s, pack_sockaddr_un($ARGV[0] =~ s/^@/\0/r)) or do { print "refused: $!\n"; exit };
    print "connected\n"; send($s, "x", 0)' "#;

fn output(run: &Run, index: usize) -> String {
    let outputs = run.events("output");
    outputs[index]["output"]["output"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// A tmux server of this test, which ends with it.
struct Tmux(PathBuf);

impl Tmux {
    /// None without tmux.
    fn start(folder: &Path) -> Option<Self> {
        let this = Self(folder.join("s"));
        let started = this.call(&["-f", "/dev/null", "new-session", "-d", "sleep 100"]);
        started.then_some(this)
    }

    fn call(&self, args: &[&str]) -> bool {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.0).args(args);
        let done = command.stdin(Stdio::null()).output();
        done.is_ok_and(|done| done.status.success())
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.call(&["kill-server"]);
    }
}

/// Whether the file appears within some seconds.
fn appears(file: &Path) -> bool {
    let end = Instant::now() + Duration::from_secs(5);
    while !file.exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    file.exists()
}

#[test]
fn landlock_hides_sockets_of_services() {
    if !Need::Tmux.is_met() {
        return;
    }
    let Some(outside) = outside_of_landlock() else {
        return;
    };
    // A socket's path has to be short.
    let short = tempfile::Builder::new()
        .prefix("m")
        .tempdir_in("/tmp")
        .unwrap();
    let tmux = Tmux::start(short.path());
    let touch = |name: &str| format!("touch \"{}/{name}\"", outside.path().display());
    if let Some(tmux) = &tmux {
        assert!(tmux.call(&["run-shell", &touch("by-test")]));
        assert!(appears(&outside.path().join("by-test")));
    }
    let docker = Path::new("/var/run/docker.sock");
    let listener = UnixListener::bind(short.path().join("l")).unwrap();
    let name = format!("mswea-escapes-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let hidden = UnixListener::bind_addr(&address).unwrap();
    let attempts = [
        format!("{CONNECT} {}/l", short.path().display()),
        format!("{CONNECT} @{name}"),
        format!("{CONNECT} {}", docker.display()),
        format!("tmux -S {}/s run-shell '{}'; echo $?", short.path().display(), touch("by-command")),
        // Sockets without a path are still possible.
        "perl -MSocket -e 'socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) and print \"pair\\n\"'".into(),
    ];
    let attempts: Vec<&str> = attempts.iter().map(String::as_str).collect();
    for network in ["true", "false"] {
        let server = commands(&attempts);
        let run = Host::new()
            .server(&server)
            .task("x")
            .args(LANDLOCK)
            .args(["-c", &format!("environment.sandbox_network={network}")])
            .run()
            .expect(0);
        for index in 0..3 {
            if index == 2 && !docker.exists() {
                continue;
            }
            let said = output(&run, index);
            assert!(
                said.contains("ermission denied") || said.contains("not permitted"),
                "{said}\n{run}"
            );
        }
        assert!(
            !output(&run, 3).ends_with("\n0\n") && output(&run, 3) != "0\n",
            "{run}"
        );
        assert_eq!(output(&run, 4), "pair\n");
    }
    assert!(!outside.path().join("by-command").exists());
    drop(hidden);

    // With `sandbox_sockets`, sockets can be used.
    let server = commands(&attempts[..1]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .args(LANDLOCK)
        .args(["-c", "environment.sandbox_sockets=true"])
        .run()
        .expect(0);
    assert_eq!(output(&run, 0), "connected\n", "{run}");
    let mut said = String::new();
    listener
        .accept()
        .unwrap()
        .0
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(said, "x");
}

#[test]
fn landlock_allows_no_set_user_id_bits() {
    let Some(outside) = outside_of_landlock() else {
        return;
    };
    let file = outside.path().join("file");
    fs::write(&file, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let shown = file.display();
    let server = commands(&[
        &format!("chmod 4777 '{shown}'; echo $?"),
        &format!("perl -e 'chmod(04755, \"{shown}\") or print \"$!\\n\"'"),
        "echo x > mine && chmod 755 mine && chmod g+s . && stat -c %a mine",
    ]);
    let run = Host::new().server(&server).task("x").args(LANDLOCK).run();
    let run = run.expect(0);
    assert!(output(&run, 0).ends_with("1\n"), "{run}");
    assert_eq!(output(&run, 1), "Operation not permitted\n", "{run}");
    assert_eq!(output(&run, 2), "755\n", "{run}");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

/// Kills the guardian and the host of its own run if it can see them.
const KILL_THE_HOST: &str = r#"
    for folder in /proc/[0-9]*; do
        if tr '\0' ' ' < $folder/cmdline 2>/dev/null | grep -q "__guard.*$MSWEA_RUN_ID"; then
            host=$(sed -n 's/^PPid:[[:space:]]*//p' $folder/status)
            kill -9 ${folder#/proc/} && echo guardian
            kill -9 $host && echo host
        fi
    done
    echo tried"#;

#[test]
fn bubblewrap_keeps_the_host_and_its_services_out() {
    if !Need::Bubblewrap.is_met() {
        return;
    }
    let name = format!("mswea-bubblewrap-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let attempts = [
        KILL_THE_HOST.to_owned(),
        "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c mswea-hos[t]; :".to_owned(),
        format!("{CONNECT} /run/docker.sock"),
        format!("{CONNECT} /tmp/.X11-unix/X0"),
        format!("{CONNECT} @{name}"),
    ];
    let attempts: Vec<&str> = attempts.iter().map(String::as_str).collect();
    let server = commands(&attempts);
    let run = Host::new()
        .server(&server)
        .task("x")
        .args(["--environment-class", "bubblewrap"])
        .run()
        .expect(0)
        .nothing_left();
    assert_eq!(output(&run, 0), "tried\n", "{run}");
    assert_eq!(output(&run, 1), "0\n", "{run}");
    for index in [2, 3] {
        assert!(output(&run, index).contains("No such file"), "{run}");
    }
    if abi() >= 6 {
        let said = output(&run, 4);
        assert!(said.contains("not permitted"), "{said}\n{run}");
    }
}

/// The version of the kernel's Landlock.
fn abi() -> i64 {
    // SAFETY: only asks for a number; nothing is passed by pointer.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, 1) }
}

#[test]
fn bubblewrap_covers_services_in_the_home() {
    if !Need::Bubblewrap.is_met() {
        return;
    }
    let server = commands(&[
        &format!("{CONNECT} .gnupg/S; {CONNECT} .docker/run/docker.sock; {CONNECT} mine"),
        "ls -A .gnupg .docker/run | grep -c S",
    ]);
    let host = Host::new().server(&server).task("x");
    let home = host.home();
    let mut listeners = Vec::new();
    for name in [".gnupg/S", ".docker/run/docker.sock", "mine"] {
        let path = home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        listeners.push(UnixListener::bind(path).unwrap());
    }
    let run = host
        .args(["--environment-class", "bubblewrap", "--cwd"])
        .arg(&home)
        .run()
        .expect(0);
    let said = output(&run, 0);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].contains("No such file"), "{said}");
    assert!(lines[1].contains("No such file"), "{said}");
    assert_eq!(lines[2], "connected", "{said}");
    assert_eq!(output(&run, 1), "0\n");
}

#[test]
fn values_of_variables_are_in_nobodys_arguments() {
    if !Need::Bubblewrap.is_met() {
        return;
    }
    // Searches the arguments of every process.
    let me = std::process::id();
    let look = format!(
        r#"echo "[$A]"; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -c 'value-o[f]-{me}'; :"#
    );
    let server = commands(&[&look]);
    let host = Host::new().server(&server).task("x");
    // Without a process namespace, so that `bwrap` itself is visible.
    let config = format!(
        r#"
[environment]
environment_class = "bubblewrap"
env = {{ A = "value-of-{me}" }}
wrapper_args = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
"#
    );
    let run = host
        .file("c.toml", config)
        .args(["-c", "./c.toml"])
        .run()
        .expect(0);
    assert_eq!(output(&run, 0), format!("[value-of-{me}]\n0\n"), "{run}");
}
