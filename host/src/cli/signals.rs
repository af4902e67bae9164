//! Signals that end a run: Ctrl-C, SIGTERM, a lost terminal.

use tokio::signal::unix::{SignalKind, signal};

use crate::roles::StopSource;

/// Turns signals into the stop flag for as long as the runtime lives. The second one ends the
/// run at once: the running command is killed and nothing is salvaged.
pub fn watch(source: StopSource) -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            source.stop();
        }
    });
    Ok(())
}
