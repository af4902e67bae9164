//! The executor `remote` with a real server, over real connections, which a proxy cuts.

#![allow(clippy::unwrap_used, reason = "a test")]

mod actions;
mod limits;
mod lost;
#[path = "../../../executor/src/tests/needs.rs"]
mod needs;
mod programs;
mod proxy;
mod tls;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mswea_core::{
    Command, Context, Event, Executor, Front, Journal, Output, Progress, Stop, StopSource,
};
use mswea_executor::remote::{AccessToken, Endpoint, remote_executor};
use mswea_executor::{LocalSettings, StreamSettings};
use mswea_serve::{RuntimeServer, ServeSettings};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

struct Silent;

impl Front for Silent {
    fn show(&self, _: &Progress<'_>) {}
}

impl Journal for Silent {
    fn record(&self, _: &Event) -> std::io::Result<f64> {
        Ok(0.0)
    }
}

fn context() -> Context {
    Context::new(Arc::new(Silent), Arc::new(Silent), Stop::never())
}

/// A server on a thread of its own, with a folder of its own in which its commands start.
struct Served {
    folder: tempfile::TempDir,
    url: String,
    stop: StopSource,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn start() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut ServeSettings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = ServeSettings {
            listen: "127.0.0.1:0".to_owned(),
            token: AccessToken::new(TOKEN).unwrap(),
            tls: None,
            insecure: false,
            local: LocalSettings {
                cwd: Some(folder.path().to_owned()),
                ..LocalSettings::default()
            },
            keep: Duration::from_secs(30),
            swerex: false,
            max_sessions: 8,
            max_connections: 64,
        };
        change(&mut settings);
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = StopSource::new();
        let thread = std::thread::spawn(move || {
            runtime().block_on(async {
                let server = RuntimeServer::bind(settings).await.unwrap();
                tell.send(server.url()).unwrap();
                server.run(&stopped).await;
            });
        });
        Self {
            folder,
            url: told.recv().unwrap(),
            stop,
            thread: Some(thread),
        }
    }

    fn address(&self) -> &str {
        self.url.split_once("://").unwrap().1
    }

    fn end(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end();
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn settings() -> StreamSettings {
    StreamSettings {
        timeout: Duration::from_secs(20),
        env: [("GREETING".to_owned(), "a b='c'".to_owned())].into(),
        ..StreamSettings::default()
    }
}

fn endpoint(url: &str, token: &str, ca_file: Option<&Path>) -> Endpoint {
    Endpoint::new(url, &AccessToken::new(token).unwrap(), ca_file).unwrap()
}

fn remote(url: &str, settings: StreamSettings) -> Box<dyn Executor> {
    let again = Duration::from_secs(15);
    Box::new(remote_executor(endpoint(url, TOKEN, None), again, settings))
}

/// An executor that has started.
async fn started(url: &str, settings: StreamSettings) -> Box<dyn Executor> {
    let mut executor = remote(url, settings);
    executor.start(&context(), None).await.unwrap();
    executor
}

async fn run(executor: &mut dyn Executor, command: &str) -> Output {
    let command = Command::new(command);
    executor.execute(&command, &Stop::never()).await
}

/// The output of a command that has to succeed.
async fn text(executor: &mut dyn Executor, command: &str) -> String {
    let output = run(executor, command).await;
    let end = (output.returncode, output.exception_info.as_str());
    assert_eq!(end, (0, ""), "{command}: {}", output.output);
    output.output
}

fn exception(output: &Output) -> &str {
    let text = output.extra.get("exception");
    text.and_then(|text| text.as_str()).unwrap_or_default()
}

/// How many processes have `word` among their arguments.
fn running(word: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.map(|entry| std::fs::read(entry.path().join("cmdline")));
    let has = |line: &Vec<u8>| {
        line.split(|byte| *byte == 0)
            .any(|it| it == word.as_bytes())
    };
    lines.flatten().filter(has).count()
}

/// A number of seconds for `sleep` that no other process has.
fn nap() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("100.{:07}{count:05}", std::process::id())
}

/// Waits until one process has `word` among its arguments: a shell goes on before what it started in
/// the background has become the program.
async fn begun(word: &str) {
    let asked = Instant::now();
    while running(word) != 1 {
        assert!(asked.elapsed() < Duration::from_secs(6), "no `{word}` runs");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until no process has `word` among its arguments.
async fn gone(word: &str, limit: Duration) {
    let asked = Instant::now();
    while running(word) > 0 {
        assert!(asked.elapsed() < limit, "`{word}` is still running");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn private(path: PathBuf, text: &str) -> PathBuf {
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}
