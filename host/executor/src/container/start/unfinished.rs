//! Removes the containers of a run that an earlier process of it has made and the journal does not
//! name: that process was killed before it could record them, or while it set the workspace up.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::container::ContainerSettings;
use crate::container::clear::remove_for_good;
use crate::container::engine::Engine;
use crate::container::leftovers::RUN;
use crate::container::record::{self, ContainerRecord};
use crate::owner::Life;
use mswea_core::{Context, ExecutorError, Progress};

/// The pause between two searches for a container that the engine is still making.
const PAUSE: Duration = Duration::from_millis(200);

/// Removes the run's containers of the image whose processes are gone. Called before a new container
/// is made, because the one that the journal names can't be used. Containers of another image stay:
/// the run may have worked there before its config was changed.
///
/// # Errors
/// [`ExecutorError`] if the engine can't be asked, or does not remove one.
pub(super) async fn clear(
    engine: &Arc<dyn Engine>,
    settings: &ContainerSettings,
    context: &Context,
) -> Result<(), ExecutorError> {
    let left: Vec<ContainerRecord> = record::near(settings.label())
        .into_iter()
        .filter(|record| is_left(record, settings))
        .collect();
    let label = format!("{RUN}={}", settings.label());
    for record in left {
        loop {
            let listed = engine.list(&label).await?;
            if let Some(found) = listed.iter().find(|found| record.is_of(found)) {
                context.front.show(&Progress::Preparing(&format!(
                    "removing the container `{}`, which a killed process of this run has made and not used",
                    found.name
                )));
                remove_for_good(&**engine, found).await?;
                record.forget();
                break;
            }
            if !record.is_young() {
                break;
            }
            sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// Whether a record is of a container of this run and this image whose process is gone.
fn is_left(record: &ContainerRecord, settings: &ContainerSettings) -> bool {
    let entry = &record.entry;
    let is_alike = entry.label == settings.label()
        && entry.image == settings.image
        && entry.executable == settings.executable;
    is_alike && record.life() == Life::Gone
}
