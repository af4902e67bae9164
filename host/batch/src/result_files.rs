//! A thread that keeps the files that are made from all results up to date. They may be large, so
//! they are not written on the thread of the runs.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::error::BatchError;
use crate::outcome::BatchResult;
use crate::predictions::{ExitStatuses, Predictions};

/// The thread that writes `preds.json`, and `exit_statuses_TIME.yaml` if it is wanted.
#[derive(Debug)]
pub struct ResultFiles {
    results: Option<Sender<BatchResult>>,
    writer: Option<JoinHandle<Result<(), BatchError>>>,
}

impl ResultFiles {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`BatchError`] if the thread can't be started.
    pub fn start(
        predictions: Predictions,
        statuses: Option<ExitStatuses>,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let writer = thread::Builder::new().name("preds".to_owned());
        let writer = writer.spawn(move || keep(&receiver, predictions, statuses))?;
        Ok(Self {
            results: Some(sender),
            writer: Some(writer),
        })
    }

    /// Passes a result to the thread. Returns the error if the files can't be written.
    pub(crate) fn put(&mut self, result: BatchResult) -> Option<String> {
        let results = self.results.as_ref()?;
        match results.send(result) {
            Ok(()) => None,
            // The thread has ended with an error.
            Err(_) => self.close().err(),
        }
    }

    /// Writes the remaining results.
    pub(crate) fn close(&mut self) -> Result<(), String> {
        drop(self.results.take());
        match self.writer.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error.to_string()),
            Some(Err(_)) => Err("a bug of the host: `preds.json` was not written".to_owned()),
        }
    }
}

fn keep(
    results: &Receiver<BatchResult>,
    mut predictions: Predictions,
    mut statuses: Option<ExitStatuses>,
) -> Result<(), BatchError> {
    predictions.write(true)?;
    while let Ok(first) = results.recv() {
        // All results that have arrived in the meantime are written together.
        for result in std::iter::once(first).chain(std::iter::from_fn(|| results.try_recv().ok())) {
            predictions.set(&result);
            if let Some(statuses) = &mut statuses {
                statuses.set(&result);
            }
        }
        predictions.write(false)?;
        if let Some(statuses) = &mut statuses {
            statuses.write(false)?;
        }
    }
    predictions.write(true)?;
    statuses.map_or(Ok(()), |mut statuses| statuses.write(true))
}
