//! Copies files and secrets into the environment.

use std::io;
use std::path::{Path, PathBuf};

use mswea_core::{Context, ExecutorError};

use super::{WorkspaceExecutor, fail};
use crate::folders::TempFolder;

impl WorkspaceExecutor {
    pub(super) async fn upload_or_stop(
        &mut self,
        from: &Path,
        to: &str,
        context: &Context,
    ) -> Result<(), ExecutorError> {
        tokio::select! {
            biased;
            () = context.stop.stopped() => {
                fail(format!("stopped while copying `{}`", from.display()))
            }
            done = self.inner.upload(from, to) => done,
        }
    }

    /// Uploads a text that other users of this machine must not be able to read.
    pub(super) async fn upload_text(
        &mut self,
        text: &str,
        to: &str,
        context: &Context,
    ) -> Result<(), ExecutorError> {
        // Only its owner can enter the folder, and its owner is recorded, so that the secret is
        // removed after a kill of the host. The file itself has the usual permissions, because in
        // the environment another user may have to read it.
        let folder = TempFolder::new(&self.settings.run_id, "upload")?;
        let write = || -> io::Result<PathBuf> {
            let file = folder.path().join("credentials");
            std::fs::write(&file, format!("{text}\n"))?;
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            std::fs::set_permissions(&file, mode)?;
            Ok(file)
        };
        let done = match write() {
            Ok(file) => self.upload_or_stop(&file, to, context).await,
            Err(error) => fail(format!(
                "no temporary file can be written: {error}; set `TMPDIR` to a folder that can be written"
            )),
        };
        folder.remove().await;
        done
    }
}
