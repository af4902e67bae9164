//! SWE-ReX's API of a real server, over real connections.

#![allow(clippy::unwrap_used, reason = "a test")]

mod requests;
mod sessions;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use mswea_core::StopSource;
use mswea_executor::LocalSettings;
use mswea_executor::remote::AccessToken;
use mswea_serve::{RuntimeServer, ServeSettings};
use serde_json::{Value, json};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A server on a thread of its own, with a folder of its own in which its commands start.
struct Rex {
    folder: tempfile::TempDir,
    address: String,
    stop: StopSource,
    thread: Option<JoinHandle<()>>,
}

impl Rex {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = ServeSettings {
            listen: "127.0.0.1:0".to_owned(),
            token: AccessToken::new(TOKEN).unwrap(),
            tls: None,
            insecure: false,
            local: LocalSettings {
                cwd: Some(folder.path().to_owned()),
                ..LocalSettings::default()
            },
            keep: Duration::from_secs(30),
            swerex: true,
            max_sessions: 4,
            max_connections: 64,
        };
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = StopSource::new();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let server = RuntimeServer::bind(settings).await.unwrap();
                tell.send(server.url()).unwrap();
                server.run(&stopped).await;
            });
        });
        let url: String = told.recv().unwrap();
        Self {
            folder,
            address: url.strip_prefix("http://").unwrap().to_owned(),
            stop,
            thread: Some(thread),
        }
    }

    fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Sends a request; returns the status and the JSON of the answer.
    fn send(&self, method: &str, path: &str, head: &str, body: &[u8]) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {length}\r\n{head}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses the request may not read all of it.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap())
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let head = format!("X-API-Key: {TOKEN}\r\nContent-Type: application/json\r\n");
        self.send("POST", path, &head, body.to_string().as_bytes())
    }

    /// The answer to a request that succeeds.
    fn ok(&self, path: &str, body: &Value) -> Value {
        let (status, value) = self.post(path, body);
        assert_eq!(status, 200, "{path} {body}: {value}");
        value
    }

    /// The class and the message of the exception that a request ends with.
    fn raised(&self, path: &str, body: &Value) -> (String, String) {
        let (status, value) = self.post(path, body);
        assert_eq!(status, 511, "{path} {body}: {value}");
        let exception = &value["swerexception"];
        let text = |name: &str| exception[name].as_str().unwrap().to_owned();
        assert!(exception["extra_info"].is_object(), "{value}");
        let class = text("class_path");
        let class = class
            .strip_prefix("swerex.exceptions.")
            .or_else(|| class.strip_prefix("builtins."));
        (class.unwrap().to_owned(), text("message"))
    }

    fn open(&self, session: &str) {
        let body = json!({ "session": session, "session_type": "bash" });
        let opened = self.ok("/create_session", &body);
        assert_eq!(opened, json!({ "output": "", "session_type": "bash" }));
    }
}

impl Drop for Rex {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok());
        }
    }
}

/// An action of a session.
fn line(command: &str, more: Value) -> Value {
    let mut body =
        json!({ "action_type": "bash", "command": command, "check": "silent", "timeout": 10 });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}
