//! Uploads bundles into the environment.

use std::path::Path;

use crate::bundle::Bundle;
use crate::place::ToolsPlace;
use mswea_core::{Executor, ExecutorError, Stop};
use mswea_executor::TempFolder;

/// Uploads the first-party bundles, and the program that contains all of their tools.
///
/// # Errors
/// [`ExecutorError`] if they can't be written to a temporary folder or uploaded.
pub async fn upload(
    inner: &mut dyn Executor,
    bundles: &[Bundle],
    place: &ToolsPlace,
    stop: &Stop,
) -> Result<(), ExecutorError> {
    let bundles = bundles.iter().filter(|bundle| bundle.is_first_party);
    let names: Vec<String> = bundles.map(|bundle| bundle.name.clone()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let folder = TempFolder::new(&place.run_id, "tools")?;
    // All in one folder, because each upload takes a while.
    let path = folder.path().join("tools");
    let written = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            mswea_toolbox_bundle::write(&names, &path)
        })
    };
    let written = written.await.unwrap_or_else(|lost| Err(lost.into()));
    written.map_err(|error| ExecutorError {
        message: format!(
            "the first-party tools can't be written to `{}`: {error}; free some space there, or set the \
             variable `TMPDIR` to another folder",
            path.display()
        ),
    })?;
    upload_one(inner, &path, &place.folder(), stop).await?;
    folder.remove().await;
    Ok(())
}

/// Uploads a folder, unless the run is stopped first.
///
/// # Errors
/// [`ExecutorError`] if the run is stopped, or the folder can't be uploaded.
pub async fn upload_one(
    inner: &mut dyn Executor,
    from: &Path,
    to: &str,
    stop: &Stop,
) -> Result<(), ExecutorError> {
    if stop.is_stopped() {
        return Err(ExecutorError {
            message: "stopped before the installation of tools".to_owned(),
        });
    }
    inner.upload(from, to).await
}
