//! Runs whose commands run at another machine: `runtime serve` and the environment class `remote`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use scripted_server::{Scenario, Server, Turn};

use crate::host::{Host, Running, Signal};
use crate::needs::{Need, outside_of_landlock};
use crate::processes;

pub(crate) const TOKEN: &str = "fedcba9876543210fedcba9876543210";
const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat log";

fn turns(commands: &[&str]) -> Server {
    let turns = commands.iter().map(|command| Turn::commands(&[*command]));
    Server::start(Scenario::new(turns.collect::<Vec<_>>()).by_history())
}

/// A file that only its owner may read.
pub(crate) fn private(path: PathBuf, text: &str) -> PathBuf {
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// A server with these flags, and its URL.
pub(crate) fn serve(flags: &[&str]) -> (Running, String) {
    let host = Host::new();
    let token = private(host.home().join("token"), TOKEN);
    let host = host.args(["runtime", "serve", "--token-file"]).arg(token);
    let mut served = host.args(flags).spawn();
    served.until("the URL", |it| it.stdout().contains('\n'));
    let url = served.stdout().trim().to_owned();
    (served, url)
}

/// A run at a server, with a file of its token.
fn at(url: &str, model: &Server) -> Host {
    let host = Host::new().server(model).task("t");
    let token = private(host.home().join("token"), TOKEN);
    let class = ["-c", "environment.environment_class=remote", "-c"];
    let host = host.args(class).arg(format!("environment.url={url}"));
    let token = format!("environment.token_file={}", token.display());
    host.args(["-c", &token])
}

fn nothing_inside(folder: &Path, limit: Duration) {
    let asked = Instant::now();
    loop {
        let mut left = processes::inside(folder);
        left.retain(|process| !process.contains("mswea-host"));
        if left.is_empty() {
            return;
        }
        assert!(asked.elapsed() < limit, "left behind: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_run_works_at_another_machine_over_tls() {
    if !Need::Openssl.is_met() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("cert"), folder.path().join("key"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ])
        .args([
            "-nodes",
            "-subj",
            "/CN=t",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ])
        .args([
            "-keyout",
            key.to_str().unwrap(),
            "-out",
            cert.to_str().unwrap(),
        ])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let (served, url) = serve(&["--tls-cert", cert, "--tls-key", key]);
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    for session in [false, true] {
        let model = turns(&[
            "x=5; cd /",
            "{ pwd; echo ${x-none}; env; } >~/log",
            "cd; echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; head -n 2 log",
        ]);
        // The token in a variable, which no command sees, here or there.
        let host = Host::new().server(&model).task("t");
        let run = host
            .env("MY_RUNTIME", TOKEN)
            .args(["-c", "environment.environment_class=remote"])
            .args(["-c", &format!("environment.url={url}")])
            .args(["-c", "environment.token_env=MY_RUNTIME"])
            .args(["-c", &format!("environment.ca_file={cert}")])
            .args(["-c", &format!("environment.session={session}")])
            .run()
            .expect(0);
        let there = served.dir().canonicalize().unwrap();
        let wanted = match session {
            true => "/\n5\n".to_owned(),
            false => format!("{}\nnone\n", there.display()),
        };
        assert_eq!(run.stdout, wanted);
        let log = served.dir().parent().unwrap().join("home/log");
        let log = fs::read_to_string(log).unwrap();
        assert!(log.contains("PATH=") && !log.contains(TOKEN), "{log}");
        for file in ["traj.json", "traj.events.jsonl"] {
            let text = fs::read_to_string(run.dir.join(file)).unwrap();
            assert!(!text.contains(TOKEN), "{file}");
        }
        assert!(!run.stderr.contains(TOKEN));
    }
    served.signal(Signal::TERM);
    let ended = served.wait().expect(0);
    assert!(!ended.stderr.contains(TOKEN), "{ended}");
}

#[test]
fn a_server_can_put_commands_into_a_sandbox() {
    let Some(outside) = outside_of_landlock() else {
        return;
    };
    let (_served, url) = serve(&["--landlock"]);
    let file = outside.path().join("x");
    for session in ["false", "true"] {
        let model = turns(&[
            &format!(
                "echo x >'{0}'; echo $? >log; cat '{0}'; true",
                file.display()
            ),
            SUBMIT,
        ]);
        let run = at(&url, &model);
        let run = run.args(["-c", &format!("environment.session={session}")]);
        let run = run.run().expect(0);
        assert_eq!(run.stdout, "1\n", "{run}");
        assert!(!file.exists());
    }
}

#[test]
fn a_repository_is_cloned_there() {
    let (served, url) = serve(&[]);
    let there = served.dir().canonicalize().unwrap();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        let made = command.current_dir(&there).args(args).output().unwrap();
        assert!(made.status.success(), "{made:?}");
    };
    git(&["init", "-q", "origin"]);
    let identity = ["-c", "user.name=t", "-c", "user.email=t@t"];
    let commit = [
        "-C",
        "origin",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "first",
    ];
    git(&[&identity[..], &commit].concat());
    let model = turns(&[
        "echo new >file",
        "pwd >>log; git log --format=%s >>log",
        SUBMIT,
    ]);
    let repo = format!("workspace.repo=file://{}/origin", there.display());
    let path = format!("workspace.path={}/work/clone", there.display());
    let run = at(&url, &model).args(["-c", &repo, "-c", &path]);
    let run = run.run().expect(0);
    assert_eq!(
        run.stdout,
        format!("{}/work/clone\nfirst\n", there.display())
    );
    let saved = run.trajectory()["info"]["mswea"]["salvage"]["output"].to_string();
    assert!(saved.contains("+new"), "{saved}");
}

#[test]
fn a_local_folder_is_copied_there() {
    let (served, url) = serve(&[]);
    let there = served.dir().canonicalize().unwrap().join("copy");
    let model = turns(&["cat here >log; echo new >created", SUBMIT]);
    let path = format!("workspace.path={}", there.display());
    let run = at(&url, &model).args(["-c", "workspace.repo=.", "-c", &path]);
    fs::write(run.dir().join("here"), "mine\n").unwrap();
    let run = run.run().expect(0);
    assert_eq!(run.stdout, "mine\n");
    assert!(!run.dir.join("created").exists());
}

/// Neither in an output nor in a reply of the model.
#[test]
fn the_token_of_a_server_is_recorded_nowhere() {
    let (start, end) = TOKEN.split_at(9);
    for session in [false, true] {
        let (served, url) = serve(&[]);
        let model = turns(&[
            &format!("echo got {start}''{end}; printf {start}''{end} | base64 | tee log"),
            &format!("echo whole {TOKEN}"),
            SUBMIT,
        ]);
        let run = at(&url, &model)
            .args(["-c", &format!("environment.session={session}")])
            .run()
            .expect(0);
        let text = fs::read_to_string(run.dir.join("traj.json")).unwrap();
        for shown in ["got [token]", "whole [environment.token_file]"] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
        let journal = fs::read_to_string(run.dir.join("traj.events.jsonl")).unwrap();
        let base64 = "ZmVkY2JhOTg3NjU0MzIxMG";
        for text in [&run.stdout, &run.stderr, &text, &journal] {
            assert!(!text.contains(TOKEN) && !text.contains(base64), "{text}");
        }
        drop(served);
    }
}

#[test]
fn a_run_is_resumed_where_it_was() {
    let (served, url) = serve(&[]);
    let model = turns(&["echo 1 >>log", "echo 2 >>log", "echo 3 >>log", SUBMIT]);
    let first = at(&url, &model).args(["--step-limit", "2"]).run().expect(3);
    let resumed = Host::after(&first).args(["resume", "traj.json", "--step-limit", "9"]);
    let resumed = resumed.run().expect(0);
    assert_eq!(resumed.stdout, "1\n2\n3\n");
    assert!(!resumed.stderr.contains("commands run at"), "{resumed}");
    drop(served);
}

#[test]
fn a_server_that_is_killed_ends_the_run_in_the_stated_time() {
    let (served, url) = serve(&[]);
    let model = turns(&["echo begun >>log; setsid sleep 321 & sleep 321", SUBMIT]);
    let run = at(&url, &model).args(["-c", "environment.reconnect_seconds=2"]);
    let running = run.spawn();
    let log = served.dir().join("log");
    let folder = served.dir().to_owned();
    let asked = Instant::now();
    while !log.exists() {
        assert!(asked.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(20));
    }
    // The server's word that the command has begun needs a moment.
    std::thread::sleep(Duration::from_millis(300));
    served.signal(Signal::KILL);
    let killed = Instant::now();
    let run = running.wait().expect(6);
    assert!(killed.elapsed() < Duration::from_secs(15), "{run}");
    let run = run.says(&["the command had begun", "can't be reached"]);
    assert_eq!(fs::read_to_string(log).unwrap(), "begun\n", "{run}");
    nothing_inside(&folder, Duration::from_secs(10));
    drop(served);
}

#[test]
fn a_client_that_is_killed_leaves_nothing_there() {
    let (served, url) = serve(&["--keep-seconds", "2"]);
    let model = turns(&["echo begun >>log; setsid sleep 322 & sleep 322"]);
    let running = at(&url, &model).spawn();
    let log = served.dir().join("log");
    let asked = Instant::now();
    while !log.exists() {
        assert!(asked.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(20));
    }
    // It lives for longer than the server waits for one that says nothing.
    std::thread::sleep(Duration::from_secs(3));
    assert!(!processes::inside(served.dir()).is_empty());
    running.signal(Signal::KILL);
    nothing_inside(served.dir(), Duration::from_secs(8));
    assert_eq!(fs::read_to_string(log).unwrap(), "begun\n");
    drop(running);
    served.signal(Signal::INT);
    let ended = served.wait().expect(0);
    assert!(ended.stderr.contains("said nothing for 2 s"), "{ended}");
}

#[test]
fn what_can_not_be_served_or_used_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let good = private(folder.path().join("good"), TOKEN);
    let short = private(folder.path().join("short"), "abc");
    let open = private(folder.path().join("open"), TOKEN);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    for (token, flags, told) in [
        (&short, &[][..], "3 characters"),
        (&open, &[], "chmod 600"),
        (&folder.path().join("none"), &[], "No such file"),
        (&good, &["--listen", "0.0.0.0:0"], "--insecure"),
        (&good, &["--listen", "localhost"], "ADDRESS:PORT"),
        (
            &good,
            &["--listen", "192.0.2.1:80", "--insecure"],
            "can't listen on",
        ),
        (&good, &["--tls-cert", "x"], "--tls-key"),
        (
            &good,
            &["--tls-cert", "x", "--tls-key", "y"],
            "TLS can't be set up",
        ),
        (&good, &["--keep-seconds", "0"], "--keep-seconds"),
    ] {
        let run = Host::new().args(["runtime", "serve", "--token-file"]);
        let run = run.arg(token).args(flags).run().expect(2);
        assert!(run.stderr.contains(told), "{told}\n{run}");
        assert!(!run.stderr.contains(TOKEN), "{run}");
    }
    let (_served, url) = serve(&[]);
    let other = private(folder.path().join("other"), &TOKEN.replace('f', "e"));
    for (url, token, told) in [
        (url.as_str(), &good, "is mswea-host 0."),
        (&url, &other, "refuses the token"),
        (&url, &open, "chmod 600"),
        ("http://127.0.0.1:9", &good, "can't be reached"),
    ] {
        let doctor = Host::new().args(["doctor", "--url", url, "--token-file"]);
        let doctor = doctor.arg(token).run();
        let line = doctor.stdout.lines().find(|line| line.contains("remote"));
        assert!(line.is_some(), "{doctor}");
        assert!(doctor.stdout.contains(told), "{told}\n{doctor}");
    }
    let model = turns(&[SUBMIT]);
    for (settings, status, told) in [
        (&["workspace.repo=."][..], 2, "set `workspace.path`"),
        (&["workspace.repo=https://h/x"], 2, "set `workspace.path`"),
        (
            &["workspace.repo=https://h/x", "workspace.path=/proc/none"],
            6,
            "`/proc/none` can't be made",
        ),
        (&["environment.cwd=/none"], 6, "there is no folder `/none`"),
        (&["environment.url=http://127.0.0.1:9"], 6, "runtime serve"),
        (&["environment.url=here"], 6, "https://HOST:PORT"),
        (&["environment.reconect_seconds=1"], 2, "reconnect_seconds"),
    ] {
        let host = at(&url, &model);
        let wished = settings.iter().flat_map(|setting| ["-c", setting]);
        let run = host.args(wished).run().expect(status);
        assert!(run.stderr.contains(told), "{told}\n{run}");
    }
}

#[test]
fn a_run_is_stopped_soon_although_the_server_is_silent() {
    for session in ["false", "true"] {
        let (served, url) = serve(&[]);
        let model = turns(&["echo begun >>log; sleep 323"]);
        let session = format!("environment.session={session}");
        let mut running = at(&url, &model).args(["-c", &session]).spawn();
        let log = served.dir().join("log");
        running.until("the command", |_| log.exists());
        served.signal(Signal::STOP);
        running.signal(Signal::INT);
        let asked = Instant::now();
        let run = running.wait().expect(130);
        let took = asked.elapsed();
        served.signal(Signal::CONT);
        assert!(took < Duration::from_secs(8), "{took:?}\n{run}");
        drop(served);
    }
}
