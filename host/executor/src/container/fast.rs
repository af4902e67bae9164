//! The fast path: puts the helper into a container and starts its session.
//!
//! Some images can't run it: another architecture, a read-only root, a folder that is mounted
//! without the right to execute. Then actions run without it.

use std::io;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::engine::{Engine, EngineError, EngineErrorKind, ExecSpec, Image};
use crate::helper::{ANSWERING, HelperSession};
use crate::interactive::HelperGuard;
use crate::local::fresh_id;
use mswea_helper::processes::ACTION_VARIABLE;

/// The helper's folder in the container.
const FOLDER: &str = "/.mswea";
/// The helper's path in the container.
pub(crate) const HELPER: &str = "/.mswea/helper";

/// How long the engine may take to notice the end of a helper.
const ENDING: Duration = Duration::from_secs(2);

/// Puts the helper into the container and starts it. If a shell may write to the root folder, one
/// exec does both, which costs the engine much less than a copy.
///
/// # Errors
/// A text for the log if the image is for another architecture, the engine refuses the copy, or the
/// helper does not answer.
pub(super) async fn install(
    engine: &dyn Engine,
    id: &str,
    image: &Image,
    is_root: bool,
) -> Result<ContainerSession, String> {
    let ours = mswea_helper_bundle::ARCHITECTURE;
    let theirs = &image.architecture;
    if theirs != ours {
        return Err(format!(
            "the image is for `{theirs}`, and this host brings a helper for `{ours}`"
        ));
    }
    if is_root && matches!(image.user.as_str(), "" | "0" | "root") {
        let program = program();
        let script = format!(
            "mkdir -p {FOLDER} && rm -f {HELPER} && head -c {} >{HELPER} && chmod 755 {HELPER} && exec {HELPER} session",
            program.len()
        );
        match start(engine, id, &["sh", "-c", &script], program).await {
            Ok(session) => return Ok(session),
            Err(why) => tracing::debug!(why, "no shell puts the helper in its place"),
        }
    }
    put(engine, id).await?;
    session(engine, id).await
}

/// Puts the helper into the container.
///
/// # Errors
/// A text for the log if the engine refuses the copy.
pub(super) async fn put(engine: &dyn Engine, id: &str) -> Result<(), String> {
    let archive = pack(&program()).map_err(|error| error.to_string())?;
    let put = engine.put(id, "/", archive.into()).await;
    put.map_err(|error| error.message)
}

/// The helper, which is unpacked once for all containers.
fn program() -> Bytes {
    static PROGRAM: OnceLock<Bytes> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| mswea_helper_bundle::bytes().into());
    program.clone()
}

/// An archive of the helper in its folder.
fn pack(program: &[u8]) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o755);
    header.set_entry_type(tar::EntryType::Directory);
    header.set_size(0);
    archive.append_data(&mut header, &FOLDER[1..], io::empty())?;
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(program.len() as u64);
    archive.append_data(&mut header, &HELPER[1..], program)?;
    archive.into_inner()
}

/// A session with the helper in a container, and the client between them.
pub(super) type ContainerSession = (HelperSession, HelperClient);

/// The message for a connection that ended before a command. Of an engine's message it keeps only
/// the reason: the remedy is for a daemon that does not come back.
pub(super) fn cut(why: &str) -> String {
    match why.split("; ").next().unwrap_or_default() {
        "" => "the connection to the container was lost".to_owned(),
        why => format!("the connection to the container was lost ({why})"),
    }
}

/// Waits for a client's end and returns its exit code.
type ClientStatus = Pin<Box<dyn Future<Output = Result<i32, EngineError>> + Send>>;

/// The client process between the host and a helper, if there is one. Dropping this ends the
/// client.
pub(super) struct HelperClient {
    /// None once the client's exit code was read.
    status: Option<ClientStatus>,
    /// The mark of the helper's process.
    pub(super) mark: String,
}

#[async_trait]
impl HelperGuard for HelperClient {
    /// The helper ends with its stream; other processes end with the container.
    async fn dismiss(&mut self) {}

    async fn lost(&mut self) -> Option<String> {
        // For a helper that was killed, the engine reports the signal.
        match timeout(ENDING, self.status.take()?).await {
            Ok(Ok(129..=254)) => None,
            // A restarted daemon does not know earlier execs.
            Ok(Err(error)) if error.kind != EngineErrorKind::ContainerGone => {
                Some(cut(&error.message))
            }
            _ => Some(cut("")),
        }
    }
}

/// Starts the helper that serves the actions.
///
/// # Errors
/// A text for the log if the helper is not started, or does not answer in time.
pub(super) async fn session(engine: &dyn Engine, id: &str) -> Result<ContainerSession, String> {
    start(engine, id, &[HELPER, "session"], Bytes::new()).await
}

/// Starts a program that reads `first` and then becomes a session of the helper.
async fn start(
    engine: &dyn Engine,
    id: &str,
    argv: &[&str],
    first: Bytes,
) -> Result<ContainerSession, String> {
    let mark = format!("helper-{}", fresh_id());
    let spec = ExecSpec {
        env: vec![(ACTION_VARIABLE.to_owned(), mark.clone())],
        stdin: true,
        ..ExecSpec::of(argv)
    };
    let started = async {
        let exec = engine.exec(id, &spec).await;
        let exec = exec.map_err(|error| error.message)?;
        let Some(mut input) = exec.input else {
            return Err("the engine does not connect its standard input".to_owned());
        };
        // A program that ends before it has read everything prints the reason.
        let _ = input.write_all(&first).await;
        Ok((exec.output, input, exec.status))
    };
    let started = timeout(ANSWERING, started).await;
    let (output, input, status) =
        started.unwrap_or_else(|_| Err("the engine does not start it".to_owned()))?;
    let helper = HelperSession::start(output, input, ANSWERING)
        .await
        .map_err(|error| error.to_string())?;
    let status = Some(status);
    Ok((helper, HelperClient { status, mark }))
}
