//! Ends the processes that the killed hosts of a run have left, before the run continues.

use std::thread;

use mswea_core::Stop;
use mswea_executor::leftovers::remove_processes_of_gone_hosts;
use tokio::sync::oneshot;

/// A thread that is ending processes.
#[derive(Debug)]
pub(crate) struct Leftovers(oneshot::Receiver<()>);

impl Leftovers {
    /// Ends the processes of these run ids.
    pub(crate) fn end(run_ids: Vec<String>) -> Self {
        Self::with(move || {
            for left in remove_processes_of_gone_hosts(&run_ids) {
                tracing::info!(
                    process = left.name,
                    fate = left.fate.word(),
                    "a process of a killed host was left"
                );
            }
        })
    }

    fn with(work: impl FnOnce() + Send + 'static) -> Self {
        let (done, waiting) = oneshot::channel();
        let work = move || {
            work();
            let _ = done.send(());
        };
        // Without a thread, the processes stay: the guardian of their host, and `gc`, will end
        // them.
        if let Err(error) = thread::Builder::new()
            .name("leftovers".to_owned())
            .spawn(work)
        {
            tracing::warn!(%error, "processes of a killed host may be left: end them with `mswea-host gc`");
        }
        Self(waiting)
    }

    /// Waits until they have ended, for some seconds at most. If the run is stopped, this returns
    /// early, and the thread continues.
    pub(crate) async fn gone(self, stop: &Stop) {
        tokio::select! {
            _ = self.0 => {}
            () = stop.stopped() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use mswea_core::StopSource;

    use super::*;

    #[tokio::test]
    async fn the_wait_ends_with_the_work_or_with_the_run() {
        Leftovers::with(|| thread::sleep(Duration::from_millis(20)))
            .gone(&Stop::never())
            .await;
        let (source, stop) = StopSource::new();
        let (_working, waiting) = mpsc::channel::<()>();
        let stuck = Leftovers::with(move || {
            let _ = waiting.recv();
        });
        source.stop();
        stuck.gone(&stop).await;
    }
}
