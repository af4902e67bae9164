//! The page of runs: the list of 10,000 runs, and a run of 300 MB.
//!
//! `cargo bench --bench view`
//!
//! The list is timed from the start of the program to its answer over HTTP, a run from the request of its first
//! steps on. The files are in the page cache.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't measure ends")]

mod shared;

use std::fs;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::time::Instant;

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};
use shared::ship::{PLAIN, call};
use shared::{Samples, Table};

const RUNS: usize = 10_000;
/// The size of the large runs, at least.
const LARGE: u64 = 300_000_000;
const ROUNDS: usize = 5;

fn main() -> ExitCode {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let mut table = Table::new("the page of runs");

    table.note(format!(
        "{RUNS} journals and {RUNS} trajectories are written"
    ));
    let run = recorded(&root.join("small"), "echo one", 4);
    for (name, ending) in [("journals", "events.jsonl"), ("trajectories", "traj.json")] {
        let of = root.join(name);
        fs::create_dir(&of).unwrap();
        let from = match name {
            "journals" => &run.journal,
            _ => &run.trajectory,
        };
        for number in 0..RUNS {
            fs::copy(from, of.join(format!("{number}.{ending}"))).unwrap();
        }
        let mut list = Samples::default();
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let runs = View::start(root, &of).runs();
            list.add_millis(began.elapsed());
            assert_eq!(runs.len(), RUNS);
        }
        table.limited(&format!("list of {RUNS} {name}"), "ms", &list, 1_000.0);
        fs::remove_dir_all(of).unwrap();
    }

    table.note("a run of 300 MB is recorded");
    let run = recorded(&root.join("large"), "seq 110000", 205);
    opened(&mut table, root, "of ours", &run.journal);
    for (name, file) in [
        ("of mini-swe-agent", "large.traj.json"),
        ("of SWE-agent", "large.traj"),
        ("in ATIF", "trajectory.json"),
    ] {
        let path = root.join(file);
        written(&path);
        opened(&mut table, root, name, &path);
        fs::remove_file(path).unwrap();
    }
    table.finish()
}

/// The figures of a run of 300 MB: from the start of the program to its line in the list, and from there to its
/// first steps.
fn opened(table: &mut Table, root: &Path, name: &str, path: &Path) {
    let bytes = fs::metadata(path).unwrap().len();
    assert!(bytes >= LARGE, "{name}: {bytes} bytes");
    let (mut listed, mut opened) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let view = View::start(root, path);
        let runs = view.runs();
        listed.add_millis(began.elapsed());
        let began = Instant::now();
        let id = runs[0]["id"].as_str().unwrap();
        let run = view.get(&format!("/api/run?id={id}&from=0"));
        opened.add_millis(began.elapsed());
        assert!(
            run["steps"].as_array().is_some_and(|it| it.len() > 2),
            "{name}"
        );
    }
    let figure = format!("a run {name} of {} MB", bytes / 1_000_000);
    table.limited(&figure, "ms", &opened, 2_000.0);
    table.noted("    its line in the list", "ms", &listed);
}

struct RecordedFiles {
    journal: PathBuf,
    trajectory: PathBuf,
}

/// A run that calls `command` in each of its steps.
fn recorded(root: &Path, command: &str, steps: usize) -> RecordedFiles {
    let server = Server::start(Scenario::always(Turn::commands(&[command]))).recording(false);
    let mut run = call(Path::new(PLAIN), root);
    run.args(["-m", "local/test", "-t", "hello", "-o", "traj.json"])
        .args(["-c", "agent.salvage_command=\"\""])
        .args(["--step-limit", &steps.to_string(), "-l", "0"])
        .args(["--base-url", &server.url()]);
    let status = run.status().unwrap();
    assert_eq!(status.code(), Some(3), "{run:?}: {status}");
    let work = root.join("work");
    RecordedFiles {
        journal: work.join("traj.events.jsonl"),
        trajectory: work.join("traj.json"),
    }
}

/// Writes a large trajectory, in the form that its name says.
fn written(path: &Path) {
    let output: String = (0..400)
        .map(|line| format!("{line}: \"a\\b\" {}\n", "x".repeat(36)))
        .collect();
    let name = path.file_name().unwrap().to_string_lossy();
    let (head, step, end) = match &*name {
        "large.traj.json" => mini(&output),
        "large.traj" => sweagent(&output),
        _ => atif(&output),
    };
    let mut file = BufWriter::new(fs::File::create(path).unwrap());
    file.write_all(head.as_bytes()).unwrap();
    let mut bytes = 0;
    while bytes < LARGE {
        let text = if bytes == 0 {
            step.clone()
        } else {
            format!(",{step}")
        };
        file.write_all(text.as_bytes()).unwrap();
        bytes += text.len() as u64;
    }
    file.write_all(end.as_bytes()).unwrap();
    file.flush().unwrap();
}

/// What is before the steps, a step, and what is after them.
type TrajectoryParts = (String, String, String);

fn mini(output: &str) -> TrajectoryParts {
    let info = json!({ "exit_status": "Submitted", "mini_version": "2.0.0", "model_stats": { "instance_cost": 1.0, "api_calls": 9 } });
    let task = json!({ "role": "user", "content": "task" });
    let usage = json!({ "prompt_tokens": 1000, "completion_tokens": 50 });
    let calls = json!([{ "id": "1", "type": "function", "function": { "name": "bash", "arguments": "{\"command\": \"cat x\"}" } }]);
    let reply = json!({ "role": "assistant", "content": "I look.", "tool_calls": calls, "extra": { "timestamp": 1.7e9, "cost": 0.01,
        "actions": [{ "command": "cat x", "tool_call_id": "1" }], "response": { "model": "m", "usage": usage } } });
    let shown = json!({ "role": "tool", "tool_call_id": "1", "content": format!("<output>\n{output}</output>"),
        "extra": { "raw_output": output, "returncode": 0, "timestamp": 1.7e9 } });
    (
        format!("{{\"info\": {info}, \"messages\": [{task},"),
        format!("{reply:#},{shown:#}"),
        "], \"trajectory_format\": \"mini-swe-agent-1.1\"}".to_owned(),
    )
}

fn sweagent(output: &str) -> TrajectoryParts {
    let step = json!({ "action": "cat x", "observation": output, "response": "I look.", "thought": "I look.", "execution_time": 0.1,
        "state": {}, "query": [{ "role": "user", "content": output }] });
    let history = json!([{ "role": "user", "content": "task" }, { "role": "assistant", "content": "I look." }]);
    let info = json!({ "exit_status": "submitted", "model_stats": { "instance_cost": 1.0, "api_calls": 9 } });
    (
        "{\"trajectory\": [".to_owned(),
        format!("{step:#}"),
        format!("], \"history\": {history}, \"info\": {info}}}"),
    )
}

fn atif(output: &str) -> TrajectoryParts {
    let call = json!({ "tool_call_id": "1", "function_name": "bash", "arguments": { "command": "cat x" } });
    let step = json!({ "step_id": 1, "source": "agent", "message": "I look.", "tool_calls": [call],
        "observation": { "results": [{ "source_call_id": "1", "content": output }] } });
    (
        "{\"schema_version\": \"ATIF-v1.7\", \"session_id\": \"x\", \"agent\": {\"name\": \"x\", \"version\": \"1\"}, \"steps\": [".to_owned(),
        format!("{step:#}"),
        "], \"final_metrics\": {\"total_cost_usd\": 1.0}}".to_owned(),
    )
}

/// A server of the page.
struct View {
    child: Child,
    address: String,
    token: String,
}

impl View {
    fn start(root: &Path, shown: &Path) -> Self {
        let mut command = call(Path::new(PLAIN), root);
        command.arg("view").arg(shown).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("http://").unwrap();
        let (address, token) = url.split_once("/?token=").unwrap();
        let (address, token) = (address.to_owned(), token.to_owned());
        Self {
            child,
            address,
            token,
        }
    }

    fn get(&self, path: &str) -> Value {
        let (_, port) = self.address.rsplit_once(':').unwrap();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nCookie: mswea-view-{port}={}\r\n\r\n",
            self.address, self.token
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        serde_json::from_str(body).unwrap()
    }

    fn runs(&self) -> Vec<Value> {
        let mut list = self.get("/api/runs?since=0");
        serde_json::from_value(list["runs"].take()).unwrap()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
