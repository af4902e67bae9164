//! The program `scripted-server`: output, answers, records, and errors in its arguments.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A process that is killed at the end of a test, also after a panic.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_scripted-server"))
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

#[test]
fn it_prints_its_url_serves_and_records() {
    let folder = folder("serves");
    let file = folder.join("scenario.json");
    std::fs::write(&file, r#"{"turns": [{"text": "from a file"}]}"#).unwrap();
    let record = folder.join("requests");
    let mut child = Killed(
        program()
            .arg(&file)
            .arg("--record")
            .arg(&record)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut url = String::new();
    BufReader::new(child.0.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    let address = url
        .trim_end()
        .strip_prefix("http://")
        .and_then(|rest| rest.strip_suffix("/v1"))
        .unwrap();

    let mut stream = TcpStream::connect(address).unwrap();
    let body = r#"{"model": "m", "messages": []}"#;
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("from a file"));

    let recorded = std::fs::read(record.join("1.json")).unwrap();
    let recorded: Value = serde_json::from_slice(&recorded).unwrap();
    assert_eq!(recorded["path"], "/v1/chat/completions");
    assert_eq!(recorded["body"]["model"], "m");
}

#[test]
fn wrong_arguments_are_reported() {
    let folder = folder("bad-calls");
    let bad = folder.join("bad.json");
    std::fs::write(&bad, "{\n\"turns\": [{\"txt\": 1}]}").unwrap();
    let bad = bad.to_str().unwrap();
    let vectors: &[(&[&str], i32, &str)] = &[
        (&[], 2, "FILE is missing"),
        (&["a", "b"], 2, "more than one FILE"),
        (&["--nope"], 2, "unknown option `--nope`"),
        (&["a", "--port"], 2, "`--port` needs a value"),
        (&["a", "--port", "99999"], 2, "`99999` is not a port"),
        (&["/nowhere.json"], 1, "`/nowhere.json` can't be read"),
        (&[bad], 1, "line 2 column"),
    ];
    for (arguments, code, want) in vectors {
        let output = run(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(want), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
    let help = run(&["--help"]);
    assert!(help.status.success() && help.stdout.starts_with(b"usage: "));
}
