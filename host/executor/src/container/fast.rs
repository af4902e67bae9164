//! The fast path: puts the helper into a container and starts its session.
//!
//! Some images can't run it: another architecture, a read-only root, a folder mounted without the
//! right to execute. Then actions run without it.

use std::io;
use std::pin::Pin;
use std::sync::OnceLock;

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::engine::{Engine, EngineError, ExecSpec, Image};
use crate::helper::{ANSWERING, HelperSession};

/// The helper's folder in the container.
const FOLDER: &str = "/.mswea";
/// Where the helper is in the container.
pub(super) const HELPER: &str = "/.mswea/helper";

/// Puts the helper into the container and starts it: where a shell may write to the root, by one exec,
/// which costs the engine much less than a copy.
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
        let argv = ["sh", "-c", &script].map(str::to_owned).to_vec();
        match start(engine, id, argv, program).await {
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

/// Starts the helper that serves the actions.
///
/// # Errors
/// A text for the log if the helper is not started, or does not answer in time.
pub(super) async fn session(engine: &dyn Engine, id: &str) -> Result<ContainerSession, String> {
    let argv = [HELPER, "session"].map(str::to_owned).to_vec();
    start(engine, id, argv, Bytes::new()).await
}

/// Starts a program that reads `first` and is then a session of the helper.
async fn start(
    engine: &dyn Engine,
    id: &str,
    argv: Vec<String>,
    first: Bytes,
) -> Result<ContainerSession, String> {
    let spec = ExecSpec {
        argv,
        stdin: true,
        cwd: Some("/".to_owned()),
        ..ExecSpec::default()
    };
    let started = async {
        let exec = engine.exec(id, &spec).await;
        let exec = exec.map_err(|error| error.message)?;
        let Some(mut input) = exec.input else {
            return Err("the engine does not connect its standard input".to_owned());
        };
        // A program that ends before it has read everything says why.
        let _ = input.write_all(&first).await;
        Ok((exec.output, input, exec.status))
    };
    let started = timeout(ANSWERING, started).await;
    let (output, input, status) =
        started.unwrap_or_else(|_| Err("the engine does not start it".to_owned()))?;
    let helper = HelperSession::start(output, input, ANSWERING)
        .await
        .map_err(|error| error.to_string())?;
    let client = HelperClient { _status: status };
    Ok(ContainerSession { helper, client })
}
