//! SWE-ReX in both directions: the environment class `swerex` at our own server, at SWE-ReX's and at
//! servers that answer nonsense, and SWE-ReX's client at `runtime serve --swerex`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use scripted_server::{Scenario, Server, Turn};

use crate::host::{Host, Running, Signal};
use crate::needs::{Need, SWE_REX, outside_of_landlock, tooling};
use crate::run::Run;

const KEY: &str = "fedcba9876543210fedcba9876543210";
const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat log";

fn turns(commands: &[&str]) -> Server {
    let turns = commands.iter().map(|command| Turn::commands(&[*command]));
    Server::start(Scenario::new(turns.collect::<Vec<_>>()).by_history())
}

fn private(path: PathBuf, text: &str) -> PathBuf {
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// Our own server, and its URL.
fn serve(flags: &[&str]) -> (Running, String) {
    let host = Host::new();
    let token = private(host.home().join("token"), KEY);
    let host = host.args(["runtime", "serve", "--swerex", "--token-file"]);
    let mut served = host.arg(token).args(flags).spawn();
    served.until("the URL", |it| it.stdout().contains('\n'));
    let url = served.stdout().trim().to_owned();
    (served, url)
}

/// SWE-ReX's own server. Dropped, it is killed.
struct RealServer {
    child: Child,
    url: String,
    folder: tempfile::TempDir,
}

impl RealServer {
    fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port().to_string();
        drop(free);
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new(Path::new(SWE_REX).join("bin/swerex-remote"))
            .args(["--auth-token", KEY, "--host", "127.0.0.1", "--port", &port])
            .env("TERM", "dumb")
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let asked = Instant::now();
        while std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
            assert!(asked.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(50));
        }
        Self {
            child,
            url: format!("http://127.0.0.1:{port}"),
            folder,
        }
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run at a server, with a file of its key.
fn at(url: &str, model: &Server) -> Host {
    let host = Host::new().server(model).task("t");
    let token = private(host.home().join("token"), KEY);
    let class = ["-c", "environment.environment_class=swerex", "-c"];
    let host = host.args(class).arg(format!("environment.url={url}"));
    let token = format!("environment.token_file={}", token.display());
    host.args(["-c", &token])
}

/// What the model was told.
fn told(run: &Run) -> String {
    run.trajectory()["messages"].to_string()
}

/// Commands of all kinds, one shell for all of them or not.
fn works_at(url: &str, there: &Path, session: bool) -> Run {
    let model = turns(&[
        "x=5; cd /tmp; echo $MINE",
        &format!(
            "pwd >>'{0}/log'; echo ${{x-none}} $MINE >>'{0}/log'; printf 'a\\377b'",
            there.display()
        ),
        "echo out; sleep 30",
        "exit 3",
        "echo a; (",
        "head -c 300000 /dev/zero | tr '\\0' y",
        &format!(
            "cd '{}'; echo after ${{x-none}} $MINE >>log; {SUBMIT}",
            there.display()
        ),
    ]);
    let run = at(url, &model)
        .args(["-c", &format!("environment.session={session}")])
        .args([
            "-c",
            "environment.timeout=4",
            "-c",
            "environment.capture_bytes=20000",
        ])
        .args(["-c", "environment.env.MINE=it's mine"])
        .run()
        .expect(0);
    let first = match session {
        true => "/tmp\n5".to_owned(),
        false => format!("{}\nnone", there.canonicalize().unwrap().display()),
    };
    assert_eq!(
        run.stdout,
        format!("{first} it's mine\nafter none it's mine\n"),
        "{run}"
    );
    let messages = told(&run);
    for text in [
        "timed out after 4 seconds",
        "it's mine\\n",
        "unexpected",
        "280000 bytes of output elided",
    ] {
        assert!(messages.contains(text), "{text}: {messages}");
    }
    assert!(
        messages.contains("a\\\\xffb") || messages.contains("a\u{fffd}b"),
        "{messages}"
    );
    assert_eq!(messages.contains("shell has ended"), session, "{messages}");
    for file in ["traj.json", "traj.events.jsonl"] {
        let text = fs::read_to_string(run.dir.join(file)).unwrap();
        assert!(!text.contains(KEY), "{file}");
    }
    assert!(!run.stderr.contains(KEY));
    fs::remove_file(there.join("log")).unwrap();
    run
}

/// A folder of this machine is copied there, whole.
fn copies_to(url: &str, there: &Path) {
    let model = turns(&[
        "ls -l run | cut -c 1-10 >log; ./link >>log; echo new >created",
        SUBMIT,
    ]);
    let path = format!("workspace.path={}/copy", there.display());
    let run = at(url, &model).args(["-c", "workspace.repo=.", "-c", &path]);
    let script = run.dir().join("run");
    fs::write(&script, "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("run", run.dir().join("link")).unwrap();
    let run = run.run().expect(0);
    assert_eq!(run.stdout, "-rwxr-xr-x\nran\n");
    assert!(!run.dir.join("created").exists());
    assert!(there.join("copy/created").exists());
}

/// Neither in an output nor in a reply of the model.
#[test]
fn the_key_of_a_server_is_recorded_nowhere() {
    let (start, end) = KEY.split_at(9);
    for session in [false, true] {
        let (served, url) = serve(&[]);
        let model = turns(&[
            &format!("echo got {start}''{end}; printf {start}''{end} | base64 | tee log"),
            &format!("echo whole {KEY}"),
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
            assert!(!text.contains(KEY) && !text.contains(base64), "{text}");
        }
        drop(served);
    }
}

#[test]
fn a_run_works_at_our_own_server() {
    let (served, url) = serve(&[]);
    for session in [false, true] {
        let run = works_at(&url, served.dir(), session);
        assert!(!run.stderr.contains("can't do all"), "{run}");
    }
    copies_to(&url, served.dir());
    served.signal(Signal::TERM);
    let ended = served.wait().expect(0);
    assert!(!ended.stderr.contains(KEY), "{ended}");
}

#[test]
fn a_run_works_at_the_real_server() {
    if !Need::SweRex.is_met() {
        return;
    }
    let server = RealServer::start();
    for session in [false, true] {
        let run = works_at(&server.url, server.folder.path(), session);
        run.says(&["a server of SWE-ReX can't do all"]);
    }
    copies_to(&server.url, server.folder.path());
}

#[test]
fn the_real_client_works_at_our_server() {
    if !Need::SweRex.is_met() {
        return;
    }
    let (served, url) = serve(&[]);
    let run = Command::new(Path::new(SWE_REX).join("bin/python"))
        .arg(tooling().join("swerex_client.py"))
        .args([&url, KEY])
        .arg(served.dir())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&run.stdout);
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success() && stdout.contains("all as it should be\n"),
        "{stdout}\n{stderr}"
    );
    drop(served);
}

#[test]
fn a_server_that_is_killed_ends_the_run_with_what_is_known() {
    for session in ["false", "true"] {
        let (served, url) = serve(&[]);
        let model = turns(&["echo begun >>log; sleep 321", "echo two >>log"]);
        let run = at(&url, &model).args(["-c", &format!("environment.session={session}")]);
        let running = run.spawn();
        let log = served.dir().join("log");
        let asked = Instant::now();
        while !log.exists() {
            assert!(asked.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(20));
        }
        served.signal(Signal::KILL);
        let run = running.wait().expect(6);
        let run = run.says(&["can't be reached"]);
        assert!(told(&run).contains("may still run there"), "{run}");
        assert_eq!(fs::read_to_string(log).unwrap(), "begun\n");
        drop(served);
    }
}

/// A server that gives these answers, one for each connection.
fn answers(answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut piece = [0; 4096];
            loop {
                let text = String::from_utf8_lossy(&request).into_owned();
                let length = text
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
                if let Some((_, body)) = text.split_once("\r\n\r\n")
                    && body.len() >= length.unwrap_or(0)
                {
                    break;
                }
                match stream.read(&mut piece).unwrap() {
                    0 => break,
                    count => request.extend(&piece[..count]),
                }
            }
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

fn http(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
}

#[test]
fn what_answers_nonsense_is_told() {
    let (_served, own) = serve(&[]);
    let ok = |body: &str| http("200 OK", body);
    let alive = || ok("{\"is_alive\": true, \"message\": \"\"}");
    let root = || ok("{\"message\": \"hello world\"}");
    let done = |text: &str| {
        ok(&format!(
            "{{\"stdout\": {text:?}, \"stderr\": \"\", \"exit_code\": 0}}"
        ))
    };
    let other = KEY.replace('f', "e");
    for (url, key, status, said) in [
        (
            "http://127.0.0.1:9".to_owned(),
            KEY,
            6,
            "is `swerex-remote` running there",
        ),
        (own, other.as_str(), 6, "refuses the key"),
        (answers(vec![ok("hello")]), KEY, 6, "no server of SWE-ReX"),
        (
            answers(vec![ok("{\"x\": 1}")]),
            KEY,
            6,
            "no server of SWE-ReX",
        ),
        (
            answers(vec![ok("{\"is_alive\": false, \"message\": \"busy\"}")]),
            KEY,
            6,
            "is not alive",
        ),
        (
            answers(vec![http("502 Bad Gateway", "<html>")]),
            KEY,
            6,
            "502 Bad Gateway <html>",
        ),
        (
            answers(vec!["hello\r\n\r\n".to_owned()]),
            KEY,
            6,
            "was lost",
        ),
        (answers(vec![String::new()]), KEY, 6, "was lost"),
        (
            answers(vec![
                alive(),
                root(),
                http("422 Unprocessable Entity", "{\"detail\": []}"),
            ]),
            KEY,
            6,
            "422",
        ),
        ("here".to_owned(), KEY, 6, "https://HOST:PORT"),
    ] {
        let model = turns(&[SUBMIT]);
        let host = at(&url, &model);
        private(host.home().join("token"), key);
        let run = host.run().expect(status);
        assert!(run.stderr.contains(said), "{said}\n{run}");
        assert!(!run.stderr.contains(key), "{run}");
    }
    // In the middle of a run.
    let raised = "{\"swerexception\": {\"message\": \"mine\", \"class_path\": \"some.Error\", \"traceback\": \"\", \"extra_info\": {}}}";
    let url = answers(vec![
        alive(),
        root(),
        done("Linux\nn\nr\nv\nm\n/there\n"),
        // The server's variables.
        done(""),
        // What is there at the start.
        done(""),
        ok("{\"stdout\": 5}"),
        String::new(),
        http("511 Network Authentication Required", raised),
        http("500 Internal Server Error", "Internal Server Error"),
        ok("{\"stdout\": \"\", \"stderr\": \"\", \"exit_code\": -9}"),
        done("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\nend\n"),
    ]);
    let model = turns(&["1", "2", "3", "4", "5", "6"]);
    let run = at(&url, &model).run().expect(0);
    assert_eq!(run.stdout, "end\n");
    let messages = told(&run);
    for text in [
        "or of another version: {\\\"stdout\\\":5}",
        "had been sent, and may still run there",
        "some.Error: mine",
        "500 Internal Server Error",
        "137",
    ] {
        assert!(messages.contains(text), "{text}: {messages}");
    }
}

#[test]
fn a_sandbox_holds_for_files_of_the_server_too() {
    let Some(outside) = outside_of_landlock() else {
        return;
    };
    let (served, url) = serve(&["--landlock"]);
    let file = outside.path().join("x");
    let model = turns(&[
        &format!(
            "echo x >'{0}'; echo $? >log; cat '{0}'; true",
            file.display()
        ),
        SUBMIT,
    ]);
    let run = at(&url, &model).run().expect(0);
    assert_eq!(run.stdout, "1\n", "{run}");
    let address = url.strip_prefix("http://").unwrap();
    for (path, status) in [(file.as_path(), "511"), (&served.dir().join("y"), "200")] {
        let body = format!("{{\"path\": {path:?}, \"content\": \"a\"}}");
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let request = format!(
            "POST /write_file HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-API-Key: {KEY}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        assert_eq!(path.exists(), status == "200");
    }
}

#[test]
fn doctor_checks_such_a_server() {
    let (served, url) = serve(&[]);
    let token = served.dir().parent().unwrap().join("home/token");
    for (url, flag, said) in [
        (
            url.as_str(),
            "--swerex",
            "is mswea-host with SWE-ReX's interface",
        ),
        ("http://127.0.0.1:9", "--swerex", "can't be reached"),
        (&url, "--json", "is mswea-host 0."),
    ] {
        let doctor = Host::new().args(["doctor", flag, "--url", url, "--token-file"]);
        let doctor = doctor.arg(&token).run();
        assert!(doctor.stdout.contains(said), "{said}\n{doctor}");
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

/// A server that answers each request to run something with this; everything else as SWE-ReX does. Returns its URL.
fn hostile(answer: impl Fn(&str) -> (u16, Vec<u8>) + Send + 'static) -> String {
    use std::io::{BufRead as _, BufReader};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length, mut key) = (String::new(), 0, String::new());
            let mut first = String::new();
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {
                if first.is_empty() {
                    first.clone_from(&head);
                }
                let (name, value) = head.trim().split_once(": ").unwrap_or_default();
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.parse().unwrap(),
                    "x-api-key" => value.clone_into(&mut key),
                    _ => {}
                }
                head.clear();
            }
            let _ = reader.take(length).read_to_end(&mut Vec::new());
            let (status, body) = match first.split(' ').nth(1).unwrap_or_default() {
                "/is_alive" => (200, b"{\"is_alive\":true}".to_vec()),
                "/execute" | "/run_in_session" => answer(&key),
                _ => (200, b"{\"output\":\"\"}".to_vec()),
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&body);
        }
    });
    url
}

#[test]
fn a_hostile_server_neither_ends_the_host_nor_has_its_key_recorded() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let plain = |text: String| (200, text.into_bytes());
    type Answer = Box<dyn Fn(&str) -> (u16, Vec<u8>) + Send>;
    let answers: [Answer; 4] = [
        // The smallest exit code, whose signal has no number.
        Box::new(move |_| {
            plain("{\"stdout\":\"x\",\"output\":\"x\",\"exit_code\":-2147483648}".to_owned())
        }),
        Box::new(move |_| plain(format!("{{\"stdout\":{deep},\"exit_code\":0}}"))),
        Box::new(|key| {
            let text = format!(
                "{{\"swerexception\":{{\"class_path\":\"x.{key}\",\"message\":\"{key}\",\"extra_info\":{{}}}}}}"
            );
            (511, text.into_bytes())
        }),
        Box::new(|_| {
            let text = "m".repeat(50 << 20);
            let text =
                format!("{{\"swerexception\":{{\"class_path\":\"x\",\"message\":\"{text}\"}}}}");
            (511, text.into_bytes())
        }),
    ];
    for answer in answers {
        let url = hostile(answer);
        let server = crate::story::commands(&["echo x"]);
        let host = Host::new().server(&server).task("x").env("REX_KEY", KEY);
        let run = host
            .args(["--environment-class", "swerex", "--step-limit", "3"])
            .args(["-c", "environment.token_env=REX_KEY"])
            .args(["-c", &format!("environment.url={url}")])
            .run();
        assert!([0, 3, 6].contains(&run.status), "{run}");
        let journal = fs::read(run.dir.join("traj.events.jsonl")).unwrap();
        assert!(journal.len() < 4 << 20, "{}", journal.len());
        for text in [
            &run.stdout,
            &run.stderr,
            &*String::from_utf8_lossy(&journal),
        ] {
            assert!(!text.contains(KEY), "{run}");
        }
    }
}
