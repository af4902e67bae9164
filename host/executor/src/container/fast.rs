//! The fast path: puts the helper into a container and starts its session.
//!
//! Some images can't run it: another architecture, a read-only root, a folder mounted without the
//! right to execute. Then actions run without it.

use std::pin::Pin;
use std::time::Duration;

use super::attend::ask;
use super::engine::{Engine, EngineError, ExecSpec};
use crate::helper::{ANSWERING, HelperSession};

/// Where the helper is in the container.
pub(super) const HELPER: &str = "/.mswea/helper";

/// Puts the helper into the container.
///
/// # Errors
/// A text for the log if the image is for another architecture, or the engine refuses the copy.
pub(super) async fn put(engine: &dyn Engine, id: &str, architecture: &str) -> Result<(), String> {
    let ours = mswea_helper_bundle::ARCHITECTURE;
    if architecture != ours {
        return Err(format!(
            "the image is for `{architecture}`, and this host brings a helper for `{ours}`"
        ));
    }
    let archive = archive(&mswea_helper_bundle::bytes()).map_err(|error| error.to_string())?;
    let put = engine.put(id, "/", archive).await;
    put.map_err(|error| error.message)
}

/// An archive of the helper in its folder.
fn archive(program: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let (folder, _) = HELPER[1..].split_once('/').unwrap_or_default();
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o755);
    header.set_entry_type(tar::EntryType::Directory);
    header.set_size(0);
    archive.append_data(&mut header, folder, std::io::empty())?;
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(program.len() as u64);
    archive.append_data(&mut header, &HELPER[1..], program)?;
    archive.into_inner()
}

/// A session with the helper in a container.
pub(super) struct ContainerSession {
    pub(super) helper: HelperSession,
    client: HelperClient,
}

/// Dropping it ends the client between the host and a helper, if there is one.
pub(super) struct HelperClient {
    _status: Pin<Box<dyn Future<Output = Result<i32, EngineError>> + Send>>,
}

impl ContainerSession {
    /// The session, and what has to live as long.
    pub(super) fn into_parts(self) -> (HelperSession, HelperClient) {
        (self.helper, self.client)
    }
}

/// Starts the helper that serves all actions.
///
/// # Errors
/// A text for the log if the helper is not started, or does not answer in time.
pub(super) async fn session(engine: &dyn Engine, id: &str) -> Result<ContainerSession, String> {
    let spec = ExecSpec {
        argv: vec![HELPER.to_owned(), "session".to_owned()],
        stdin: true,
        cwd: Some("/".to_owned()),
        ..ExecSpec::default()
    };
    let exec = tokio::time::timeout(ANSWERING, engine.exec(id, &spec)).await;
    let exec = exec
        .map_err(|_| "the engine does not start it".to_owned())?
        .map_err(|error| error.message)?;
    let Some(input) = exec.input else {
        return Err("the engine does not connect its standard input".to_owned());
    };
    let helper = HelperSession::start(exec.output, input, ANSWERING)
        .await
        .map_err(|error| error.to_string())?;
    Ok(ContainerSession {
        helper,
        client: HelperClient {
            _status: exec.status,
        },
    })
}

/// Checks that the helper can at least run single actions.
///
/// # Errors
/// A text for the log if it fails or can't be started.
pub(super) async fn check(
    engine: &dyn Engine,
    id: &str,
    interpreter: &[String],
    cwd: &str,
) -> Result<(), String> {
    let spec = ExecSpec {
        argv: single(interpreter, "true", Duration::ZERO),
        cwd: Some(cwd.to_owned()),
        ..ExecSpec::default()
    };
    match ask(engine, id, &spec, ANSWERING).await {
        Ok(answer) if answer.is_ok() => Ok(()),
        Ok(answer) => Err(answer.text.trim().to_owned()),
        Err(error) => Err(error.message),
    }
}

/// The arguments with which the helper runs one action from its standard input.
pub(super) fn single_from_stdin() -> Vec<String> {
    [HELPER, "run", "--stdin"].map(str::to_owned).to_vec()
}

/// The arguments with which the helper runs one action.
pub(super) fn single(interpreter: &[String], command: &str, grace: Duration) -> Vec<String> {
    let grace = grace.as_millis().to_string();
    let mut argv = [HELPER, "run", "--grace-ms", &grace, "--"]
        .map(str::to_owned)
        .to_vec();
    argv.extend_from_slice(interpreter);
    argv.push(command.to_owned());
    argv
}
