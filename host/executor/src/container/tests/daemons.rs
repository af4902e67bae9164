//! The engines of this machine with which the tests run.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, UnixStream};

use super::LIMIT;
use crate::container::api::Api;
use crate::container::client::Client;
use crate::container::connect::{Transport, connect};
use crate::container::daemon::{Address, Daemon};
use crate::container::engine::Engine;

/// The engines that are tested, as far as they are on this machine.
pub(super) async fn engines(test: &str) -> Vec<(&'static str, Arc<dyn Engine>)> {
    let mut found = Vec::new();
    for (name, executable, transport) in [
        ("docker by its API", "docker", Transport::Api),
        ("docker by its client", "docker", Transport::Cli),
        ("podman by its client", "podman", Transport::Cli),
    ] {
        let engine = match connect(executable, transport).await {
            Ok(engine) => engine,
            Err(error) => {
                missing(executable, &error.message, test);
                continue;
            }
        };
        prepare(executable);
        found.push((name, engine));
        // The same daemons over other connections.
        let (name, address) = match (executable, transport) {
            ("docker", Transport::Api) => ("docker by its API over TCP", proxy().await),
            ("podman", _) => ("podman by its API", podman_service()),
            _ => continue,
        };
        let daemon = Daemon::open(address, LIMIT).await.unwrap();
        assert!(name.starts_with(daemon.product));
        let client = Client::find(executable).map(|client| Arc::new(client) as _);
        found.push((name, Arc::new(Api::new(Arc::new(daemon), client))));
    }
    found
}

/// A connection to docker's socket over TCP, which ends with the test's runtime.
async fn proxy() -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut outside, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut inside = UnixStream::connect("/var/run/docker.sock").await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            });
        }
    });
    Address::Tcp(address)
}

/// A podman service, which ends by itself a minute after its last use.
fn podman_service() -> Address {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // The path of a socket has to be short, and this one is part of a URL.
    let folder = Path::new("/tmp").join(format!("mswea-engine-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("podman.sock");
    let answers = || std::os::unix::net::UnixStream::connect(&socket).is_ok();
    if !answers() {
        let _ = std::fs::remove_file(&socket);
        let limits = r#"["nofile=1024:1024", "nproc=1024:1024"]"#;
        let config = format!("[containers]\ndefault_ulimits = {limits}\n");
        std::fs::write(folder.join("containers.conf"), config).unwrap();
        let mut service = Command::new("podman")
            .args(["system", "service", "--time=60"])
            .arg(format!("unix://{}", socket.display()))
            .env("CONTAINERS_CONF", folder.join("containers.conf"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::spawn(move || service.wait());
        let started = Instant::now();
        while !answers() {
            assert!(started.elapsed() < LIMIT, "podman's service does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Address::Unix(socket)
}

/// Prints that a test is skipped, or fails if it must not be skipped.
pub(super) fn missing(what: &str, why: &str, test: &str) {
    let required = std::env::var("MSWEA_TEST_REQUIRE").unwrap_or_default();
    assert!(
        !required.split_whitespace().any(|word| word == what),
        "`{what}` is required by MSWEA_TEST_REQUIRE: {why}"
    );
    // Not captured, unlike `eprintln`.
    let _ = writeln!(std::io::stderr(), "SKIPPED (no {what}: {why}): {test}");
}

/// Makes the images, once.
fn prepare(executable: &'static str) {
    static MADE: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let mut made = MADE.lock().unwrap();
    if made.contains(&executable) {
        return;
    }
    made.push(executable);
    let script = Path::new(SCRIPTS).join("images.sh");
    let run = Command::new("sh")
        .arg(script)
        .arg(executable)
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
}

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tooling");
