//! The fast path: puts the helper into a container and starts its session.
//!
//! Some images can't run it: another architecture, a read-only root, a folder mounted without the
//! right to execute. Then actions run without it.

use std::io;
use std::pin::Pin;
use std::sync::OnceLock;

use bytes::Bytes;

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
    let archive = archive().map_err(|error| error.to_string())?;
    let put = engine.put(id, "/", archive).await;
    put.map_err(|error| error.message)
}

/// An archive of the helper in its folder. It is made once for all containers.
fn archive() -> io::Result<Bytes> {
    static ARCHIVE: OnceLock<Bytes> = OnceLock::new();
    match ARCHIVE.get() {
        Some(archive) => Ok(archive.clone()),
        None => {
            let made = pack(&mswea_helper_bundle::bytes())?;
            Ok(ARCHIVE.get_or_init(|| made.into()).clone())
        }
    }
}

fn pack(program: &[u8]) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let (folder, _) = HELPER[1..].split_once('/').unwrap_or_default();
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o755);
    header.set_entry_type(tar::EntryType::Directory);
    header.set_size(0);
    archive.append_data(&mut header, folder, io::empty())?;
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
