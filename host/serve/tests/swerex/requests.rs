//! Requests other than those of sessions.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Rex, TOKEN};

#[test]
fn commands_have_a_process_each() {
    let rex = Rex::start();
    let dir = rex.dir().display().to_string();
    for (body, wanted) in [
        (
            json!({ "command": ["echo", "a  b"] }),
            json!(["a  b\n", "", 0]),
        ),
        (
            json!({ "command": "echo $0 a; echo e >&2; exit 3", "shell": true }),
            json!(["/bin/sh a\n", "e\n", 3]),
        ),
        (
            json!({ "command": ["echo $0 $1", "x", "y"], "shell": true }),
            json!(["x y\n", "", 0]),
        ),
        (
            json!({ "command": "echo a; echo e >&2; echo b", "shell": true, "merge_output_streams": true }),
            json!(["a\ne\nb\n", "", 0]),
        ),
        (
            json!({ "command": "pwd" }),
            json!([format!("{dir}\n"), "", 0]),
        ),
        (
            json!({ "command": ["pwd"], "cwd": "/" }),
            json!(["/\n", "", 0]),
        ),
        (
            json!({ "command": "echo $A", "shell": true, "env": { "A": "5" } }),
            json!(["5\n", "", 0]),
        ),
        (
            json!({ "command": "printf 'a\\377\\r\\n'", "shell": true }),
            json!(["a\\xff\r\n", "", 0]),
        ),
        (
            json!({ "command": "cat; echo end", "shell": true }),
            json!(["end\n", "", 0]),
        ),
        (
            json!({ "command": "sleep 30 & echo on", "shell": true }),
            json!(["on\n", "", 0]),
        ),
        (
            json!({ "command": "kill -9 $$", "shell": true }),
            json!(["", "", 137]),
        ),
    ] {
        let began = Instant::now();
        let found = rex.ok("/execute", &body);
        let found = json!([found["stdout"], found["stderr"], found["exit_code"]]);
        assert_eq!(found, wanted, "{body}");
        assert!(began.elapsed() < Duration::from_secs(5), "{body}");
    }
    for (body, class, told) in [
        (
            json!({ "command": "echo a b" }),
            "FileNotFoundError",
            "[Errno 2] No such file or directory: 'echo a b'",
        ),
        (
            json!({ "command": ["nonesuch"], "merge_output_streams": true }),
            "FileNotFoundError",
            "[Errno 2]",
        ),
        (
            json!({ "command": ["pwd"], "cwd": "/none" }),
            "FileNotFoundError",
            "[Errno 2]",
        ),
        (json!({ "command": [] }), "ValueError", "empty"),
        (
            json!({ "command": "sleep 30", "shell": true, "timeout": 0.2 }),
            "CommandTimeoutError",
            "0.2 s",
        ),
        (
            json!({ "command": "echo a; exit 3", "shell": true, "check": true, "error_msg": "mine" }),
            "NonZeroExitCodeError",
            "mine: ",
        ),
    ] {
        let (found, message) = rex.raised("/execute", &body);
        assert_eq!(found, class, "{body}");
        assert!(message.contains(told), "{message}");
    }
    // The whole tree is ended at the time limit.
    let command = "setsid sleep 4711 & sleep 4711";
    rex.raised(
        "/execute",
        &json!({ "command": command, "shell": true, "timeout": 0.3 }),
    );
    let found = rex.ok(
        "/execute",
        &json!({ "command": "pgrep -f '[s]leep 4711'", "shell": true }),
    );
    assert_eq!(found["stdout"], "");
    let found = rex.ok(
        "/execute",
        &json!({ "command": "head -c 70000000 /dev/zero | tr '\\0' x; head -c 9000000 /dev/zero | tr '\\0' x >&2", "shell": true }),
    );
    let text = found["stdout"].as_str().unwrap();
    assert!(text.contains("bytes of output elided") && text.len() < 68_000_000);
    assert_eq!(found["stderr"].as_str().unwrap().len(), 9_000_000);
}

#[test]
fn a_command_that_nobody_waits_for_is_ended() {
    let rex = Rex::start();
    let file = rex.dir().join("alive");
    let body = json!({ "command": "while :; do touch alive; sleep 0.05; done", "shell": true });
    let body = body.to_string();
    let mut stream = std::net::TcpStream::connect(&rex.address).unwrap();
    let head = format!(
        "POST /execute HTTP/1.1\r\nHost: h\r\nX-API-Key: {TOKEN}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let asked = Instant::now();
    while !file.exists() {
        assert!(asked.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(stream);
    let asked = Instant::now();
    while file.exists() {
        assert!(asked.elapsed() < Duration::from_secs(20));
        fs::remove_file(&file).unwrap();
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn background_processes_may_go_on_writing() {
    let rex = Rex::start();
    let file = rex.dir().join("lives");
    let background = "(sleep 0.5; echo out; echo log >&2; echo log >&2; echo x >lives) & echo on";
    let body = json!({ "command": background, "shell": true });
    assert_eq!(rex.ok("/execute", &body)["stdout"], "on\n");
    let asked = Instant::now();
    while !file.exists() {
        assert!(asked.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn files_are_read_and_written() {
    let rex = Rex::start();
    let at = |path: &str| rex.dir().join(path);
    let write = |path: &str, content: &str| {
        rex.ok("/write_file", &json!({ "path": path, "content": content }))
    };
    assert_eq!(write("new/sub/file", "a\r\n\u{e9}\n"), json!({}));
    assert_eq!(
        fs::read_to_string(at("new/sub/file")).unwrap(),
        "a\r\n\u{e9}\n"
    );
    fs::set_permissions(at("new/sub/file"), fs::Permissions::from_mode(0o755)).unwrap();
    let large = "0123456789\n".repeat(200_000);
    write(at("new/sub/file").to_str().unwrap(), &large);
    assert_eq!(
        fs::metadata(at("new/sub/file"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o755
    );
    assert_eq!(
        rex.ok("/read_file", &json!({ "path": "new/sub/file" })),
        json!({ "content": large })
    );
    fs::write(at("bytes"), b"a\xff").unwrap();
    let errors = json!({ "path": "bytes", "errors": "backslashreplace" });
    assert_eq!(rex.ok("/read_file", &errors)["content"], "a\\xff");
    for (path, body, class) in [
        ("/read_file", json!({ "path": "none" }), "FileNotFoundError"),
        ("/read_file", json!({ "path": "new" }), "IsADirectoryError"),
        (
            "/read_file",
            json!({ "path": "bytes/x" }),
            "NotADirectoryError",
        ),
        (
            "/read_file",
            json!({ "path": "bytes" }),
            "UnicodeDecodeError",
        ),
        (
            "/read_file",
            json!({ "path": "bytes", "encoding": "ebcdic" }),
            "LookupError",
        ),
        (
            "/write_file",
            json!({ "path": "new", "content": "" }),
            "IsADirectoryError",
        ),
        (
            "/write_file",
            json!({ "path": "bytes/x", "content": "" }),
            "FileExistsError",
        ),
    ] {
        let (found, message) = rex.raised(path, &body);
        assert!(
            found == class || found == "NotADirectoryError",
            "{body}: {found}: {message}"
        );
    }
}

#[test]
fn uploads() {
    let rex = Rex::start();
    let form = |name: &str, content: &[u8], target: &str, unzip: &str| {
        let mut body = format!(
            "--bb\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n"
        )
        .into_bytes();
        body.extend(content);
        body.extend(format!("\r\n--bb\r\nContent-Disposition: form-data; name=\"target_path\"\r\n\r\n{target}\r\n--bb\r\nContent-Disposition: form-data; name=\"unzip\"\r\n\r\n{unzip}\r\n--bb--\r\n").bytes());
        let head =
            format!("X-API-Key: {TOKEN}\r\nContent-Type: multipart/form-data; boundary=bb\r\n");
        rex.send("POST", "/upload", &head, &body)
    };
    let content: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    assert_eq!(form("x", &content, "new/file", "false"), (200, json!({})));
    assert_eq!(fs::read(rex.dir().join("new/file")).unwrap(), content);
    assert_eq!(form("x", b"in", "new", "false"), (200, json!({})));
    assert_eq!(fs::read(rex.dir().join("new/x")).unwrap(), b"in");
    let (status, value) = form("x", b"no archive", "new", "true");
    assert_eq!(
        (status, &value["swerexception"]["class_path"]),
        (511, &json!("builtins.ValueError"))
    );
    let head = format!("X-API-Key: {TOKEN}\r\nContent-Type: multipart/form-data; boundary=bb\r\n");
    assert_eq!(rex.send("POST", "/upload", &head, b"--bb--").0, 422);
}

#[test]
fn who_may_ask_and_what_is_refused() {
    let rex = Rex::start();
    let key = format!("X-API-Key: {TOKEN}\r\n");
    assert_eq!(
        rex.send("GET", "/is_alive", &key, b""),
        (200, json!({ "is_alive": true, "message": "" }))
    );
    assert_eq!(rex.send("GET", "/", &key, b"").0, 200);
    for head in [
        "",
        "X-API-Key: wrong\r\n",
        "X-API-Key: \r\n",
        "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n",
    ] {
        let refused = rex.send("POST", "/execute", head, br#"{"command":["touch","made"]}"#);
        assert_eq!(
            refused,
            (401, json!({ "detail": "Invalid API Key" })),
            "{head}"
        );
    }
    assert!(!rex.dir().join("made").exists());
    assert_eq!(
        rex.send("GET", "/none", &key, b""),
        (404, json!({ "detail": "Not Found" }))
    );
    assert_eq!(
        rex.send("GET", "/execute", &key, b""),
        (405, json!({ "detail": "Method Not Allowed" }))
    );
    for (path, body) in [
        ("/execute", json!({})),
        ("/execute", json!({ "command": 5 })),
        ("/execute", json!({ "command": "a", "timeout": "soon" })),
        ("/create_session", json!({})),
        ("/create_session", json!({ "session_type": "zsh" })),
        ("/run_in_session", json!({ "command": "a" })),
        (
            "/run_in_session",
            json!({ "action_type": "other", "command": "a" }),
        ),
        ("/run_in_session", json!({ "action_type": "bash" })),
        (
            "/run_in_session",
            json!({ "action_type": "bash", "command": "a", "check": "maybe" }),
        ),
        (
            "/close_session",
            json!({ "session": 1, "session_type": "bash" }),
        ),
        ("/read_file", json!({})),
        ("/write_file", json!({ "path": "x" })),
        ("/write_file", Value::Null),
    ] {
        let (status, value) = rex.post(path, &body);
        assert_eq!(status, 422, "{path} {body}");
        assert_eq!(value["detail"][0]["loc"][0], "body", "{value}");
    }
    let (status, _) = rex.send("POST", "/execute", &key, b"no json");
    assert_eq!(status, 422);
}
