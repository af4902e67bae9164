//! The bare loop that the host is compared with: it posts the same bytes and runs the same shell.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;

/// Posts a body, and reads the whole answer.
pub async fn post(client: &reqwest::Client, url: &str, body: &Bytes) {
    let response = client
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json")
        .body(body.clone())
        .send()
        .await
        .unwrap();
    assert!(response.status().is_success());
    std::hint::black_box(response.bytes().await.unwrap());
}

/// Runs a command with the standard library only: one pipe for both outputs, read to its end.
pub fn shell(line: &str) {
    let (mut reading, writing) = std::io::pipe().unwrap();
    let [program, flag] = super::agent::SHELL;
    let mut command = Command::new(program);
    command
        .args([flag, line])
        .stdin(Stdio::null())
        .stdout(writing.try_clone().unwrap())
        .stderr(writing);
    let mut child = command.spawn().unwrap();
    // The command holds the writing ends.
    drop(command);
    let mut output = Vec::new();
    reading.read_to_end(&mut output).unwrap();
    assert!(child.wait().unwrap().success());
}

/// A client with the host's settings.
pub fn client() -> reqwest::Client {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent("bare")
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .no_proxy()
        .build()
        .unwrap()
}
