//! An action in a container by the daemon's own API, without a host: what the executor is compared with.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{IMAGE, SOCKET};

/// Direct calls of the daemon's API.
pub struct Bare {
    id: String,
}

impl Bare {
    pub fn start() -> Self {
        let run = Command::new("docker")
            .args(["run", "-d", "--rm", IMAGE, "sleep", "600"])
            .output()
            .unwrap();
        assert!(run.status.success());
        let id = String::from_utf8(run.stdout).unwrap().trim().to_owned();
        Self { id }
    }

    /// The same operations as docker's command line: creates the exec, starts it, reads its output
    /// to the end, asks for the exit code.
    pub fn exec(&self) -> Duration {
        let begin = Instant::now();
        let body = json!({"AttachStdout": true, "AttachStderr": true, "WorkingDir": "/", "Cmd": ["sh", "-c", "true"]});
        let made = ask("POST", &format!("/containers/{}/exec", self.id), &body);
        let id = made["Id"].as_str().unwrap().to_owned();
        ask(
            "POST",
            &format!("/exec/{id}/start"),
            &json!({"Detach": false, "Tty": false}),
        );
        let ended = ask("GET", &format!("/exec/{id}/json"), &Value::Null);
        assert_eq!(ended["ExitCode"], 0);
        begin.elapsed()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = Command::new("docker").args(["rm", "-f", &self.id]).output();
    }
}

/// One request over a connection of its own; the answer's JSON, if it has one.
pub fn ask(method: &str, path: &str, body: &Value) -> Value {
    let mut stream = UnixStream::connect(SOCKET).unwrap();
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: d\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 2") || head.starts_with("HTTP/1.1 101"),
        "{text}"
    );
    let begin = body.find('{').unwrap_or(body.len());
    let end = body.rfind('}').map_or(begin, |at| at + 1);
    serde_json::from_str(&body[begin..end.max(begin)]).unwrap_or(Value::Null)
}
