//! A step of a run with tools: a shell for all commands, a state command and three history processors. Beside it a
//! bare loop that posts the same bytes and does the same two commands in one bash.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use mswea_host::config::Config;
use mswea_host::plugin::Cache;
use mswea_host::session::{Runtime, new_run_id};
use scripted_server::{Scenario, Server, Turn};
use serde_json::json;

use super::shared::agent::{self, Clocked, Step};
use super::shared::ship::PLAIN;
use super::shared::{Samples, Table, bare};

const STEPS: usize = 100;
const ROUNDS: usize = 12;
const LIMIT: f64 = 2.0;
const COMMAND: &str = "true";
/// The byte that ends an answer of the bare loop's shell.
const SEPARATOR: u8 = 0x1e;

/// Adds the rows.
pub(crate) async fn steps(table: &mut Table) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(Some(Cache::at(folder.path().join("cache"))));
    for (rules, name) in [
        ("mini-swe-agent", "a step with tools"),
        ("swe-agent", "a step of SWE-agent's rules"),
    ] {
        let world = World {
            runtime: &runtime,
            folder: folder.path(),
            rules,
        };
        world.compare(table, name).await;
    }
    table.note(
        "SWE-agent 1.1.0, local, `true`: 280 ms per step, 6.4 s to the first request, 296 MB. These figures were \
         recorded once and are not measured in this run.",
    );
}

struct World<'a> {
    runtime: &'a Runtime,
    folder: &'a Path,
    rules: &'a str,
}

impl World<'_> {
    fn server() -> Server {
        let turn = Turn::tool_call("bash", json!({ "command": COMMAND }));
        Server::start(Scenario::always(turn))
    }

    /// One query more than steps: it only marks the end of the last step.
    fn config(&self, server: &Server) -> Config {
        let mut settings = agent::settings(&server.url(), self.folder, STEPS + 1, true);
        settings.extend([
            ("agent.rules", json!(self.rules)),
            ("environment.interpreter", json!(["bash", "-c"])),
            ("environment.session", json!(true)),
            ("tools.root", json!(self.root())),
            (
                "tools.bundles",
                json!(["registry", "windowed", "search", "submit"]),
            ),
            (
                "tools.env_variables",
                json!({"WINDOW": "100", "OVERLAP": "2"}),
            ),
            ("pipeline.parser", json!("function_calling")),
            ("pipeline.formatter", json!("swe_agent")),
            (
                "pipeline.processors",
                json!(["last_n_observations", "remove_regex", "cache_control"]),
            ),
            ("plugins.last_n_observations.config", json!({"n": 5})),
            ("plugins.cache_control.config", json!({"mode": "last_n"})),
        ]);
        agent::config_of(&settings)
    }

    fn root(&self) -> String {
        self.folder.join("root").display().to_string()
    }

    async fn compare(&self, table: &mut Table, name: &str) {
        let recording = Self::server();
        self.host(&self.config(&recording)).await;
        let bodies: Vec<Bytes> = recording
            .requests()
            .into_iter()
            .map(|request| request.body.into())
            .collect();
        assert_eq!(bodies.len(), STEPS + 1);
        let server = Self::server().recording(false);
        let config = self.config(&server);
        let url = format!("{}/chat/completions", server.url());
        let client = bare::client();
        let mut shell = BareShell::start(&self.root());
        let (mut ratio, mut ours, mut theirs) =
            (Samples::default(), Samples::default(), Samples::default());
        let mut parts = Parts::default();
        for _ in 0..ROUNDS {
            let mut host = Samples::default();
            for step in self.host(&config).await {
                host.add_micros(step.whole, 1);
                ours.add_micros(step.whole, 1);
                parts.add(&step);
            }
            let mut loops = Samples::default();
            for body in &bodies[..STEPS] {
                let begin = Instant::now();
                bare::post(&client, &url, body).await;
                shell.step();
                loops.add_micros(begin.elapsed(), 1);
                theirs.add_micros(begin.elapsed(), 1);
            }
            ratio.add(host.p50() / loops.p50());
        }
        shell.end();
        table.limited(&format!("{name}: host / bare"), "×", &ratio, LIMIT);
        table.noted(&format!("{name}: host"), "µs", &ours);
        table.noted(&format!("{name}: bare"), "µs", &theirs);
        table.note(parts.shown(name));
    }

    async fn host(&self, config: &Config) -> Vec<Step> {
        let run_id = new_run_id();
        let path = self.folder.join(format!("{run_id}.jsonl"));
        let journal = Clocked::create(path.clone());
        let guard = Some(PLAIN.into());
        let prepared = agent::prepare(
            self.runtime,
            config,
            &run_id,
            Arc::clone(&journal) as _,
            guard,
        );
        let ended = prepared.await.run().await;
        let queries = i64::from(ended.account.queries);
        assert_eq!(queries, config.agent.step_limit, "{:?}", ended.end);
        std::fs::remove_file(path).unwrap();
        agent::steps(&journal.marks())
    }
}

/// The parts of a step of the host.
#[derive(Default)]
struct Parts {
    query: Samples,
    execute: Samples,
    parse: Samples,
    format: Samples,
    journal: Samples,
}

impl Parts {
    fn add(&mut self, step: &Step) {
        self.query.add_micros(step.query, 1);
        self.execute.add_micros(step.execute, 1);
        self.parse.add_micros(step.parse, 1);
        self.format.add_micros(step.format, 1);
        self.journal.add_micros(step.journal, 1);
    }

    fn shown(&self, name: &str) -> String {
        format!(
            "{name}, µs: query {:.0}, execute {:.0}, parse {:.0}, format {:.0}, journal {:.0}",
            self.query.p50(),
            self.execute.p50(),
            self.parse.p50(),
            self.format.p50(),
            self.journal.p50(),
        )
    }
}

/// A bash of the bare loop, with the tools that the host has installed.
struct BareShell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    state: String,
}

impl BareShell {
    fn start(root: &str) -> Self {
        let path = std::env::var("PATH").unwrap();
        let mut child = Command::new("bash")
            .args(["--norc", "--noprofile"])
            .env("PATH", format!("{root}/tools/windowed/bin:{path}"))
            .env("SWE_AGENT_ENV_FILE", format!("{root}/.swe-agent-env"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            state: format!("{root}/state.json"),
        }
    }

    /// The action, the state command, and its state.
    fn step(&mut self) {
        self.run(COMMAND);
        self.run("_state");
        let state = std::fs::read(&self.state).unwrap();
        let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
        assert!(state["open_file"].is_string(), "{state}");
    }

    fn run(&mut self, command: &str) {
        let line = format!("{{ {command}\n}} </dev/null 2>&1; printf '%s\\036' \"$?\"\n");
        self.input.write_all(line.as_bytes()).unwrap();
        let mut answer = Vec::new();
        self.output.read_until(SEPARATOR, &mut answer).unwrap();
        assert_eq!(answer, b"0\x1e", "{}", String::from_utf8_lossy(&answer));
    }

    fn end(self) {
        let Self {
            mut child, input, ..
        } = self;
        drop(input);
        let _ = child.wait();
    }
}
