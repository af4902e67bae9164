//! SWE-agent's files of a batch. A thread of its own writes them, because a trajectory may be
//! large.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use super::single::write_files;
use super::tidying::{write, write_json};
use super::words;
use crate::cli::batch::{BatchStart, MoreFiles};
use crate::cli::exit::ExitCode;
use crate::cli::front::BatchFront;
use crate::cli::output::Failure;
use mswea_batch::{BatchResult, BatchWatcher};
use mswea_core::Progress;
use mswea_sweagent::{SweBatchStatuses, SweFiles, trajectory};

/// The files of a batch.
pub(super) struct SweBatchFiles {
    shared: Arc<SweFilesOf>,
    /// The configuration of the batch.
    config: Value,
    /// The instances that SWE-agent has run, with their statuses.
    skipped: Vec<(String, String)>,
    writer: Mutex<Option<FilesWriter>>,
}

/// The exit status in the trajectory of an instance; none if it has not ended: SWE-agent runs it again.
pub(super) fn status_there(folder: &Path, id: &str) -> Option<String> {
    let files = SweFiles {
        run: folder.to_owned(),
        id: id.to_owned(),
    };
    let made = trajectory::read(&files.named("traj")).ok()?;
    let status = made["info"]["exit_status"].as_str()?;
    (status != "early_exit").then(|| status.to_owned())
}

/// The data of the writer.
struct SweFilesOf {
    folder: PathBuf,
    /// The configuration of each instance.
    configs: HashMap<String, Value>,
}

/// The thread that writes the files.
struct FilesWriter {
    /// The watcher has a clone, which is dropped at the end of the batch.
    work: Sender<FileWork>,
    thread: JoinHandle<Result<(), Failure>>,
}

/// The files to be written.
enum FileWork {
    Begun(String),
    Done(Box<BatchResult>),
    End,
}

impl SweBatchFiles {
    pub(super) fn new(
        folder: PathBuf,
        config: Value,
        configs: HashMap<String, Value>,
        skipped: Vec<(String, String)>,
    ) -> Self {
        Self {
            shared: Arc::new(SweFilesOf { folder, configs }),
            config,
            skipped,
            writer: Mutex::new(None),
        }
    }

    /// Writes the config and what is known of the instances that are skipped: all there is, if none is left.
    pub(super) fn write_skipped(&self) -> Result<SweBatchStatuses, Failure> {
        let shared = &self.shared;
        write_json(&shared.folder.join("run_batch.config.yaml"), &self.config)?;
        let mut statuses = SweBatchStatuses::default();
        for (id, status) in &self.skipped {
            statuses.set(id, &format!("skipped ({status})"), 0.0);
        }
        shared.write_statuses(&statuses)?;
        Ok(statuses)
    }

    /// The instances that SWE-agent runs again because of their trajectories.
    pub(super) fn unended(&self) -> Vec<String> {
        let ids = self.shared.configs.keys();
        ids.filter(|id| self.shared.is_unended(id))
            .cloned()
            .collect()
    }
}

impl MoreFiles for SweBatchFiles {
    fn model_name(&self) -> Option<String> {
        Some(self.shared.of("").run_name())
    }

    fn predicts_begun(&self) -> bool {
        true
    }

    fn begin(
        &self,
        start: &BatchStart<'_>,
        front: Arc<BatchFront>,
    ) -> Result<Arc<dyn BatchWatcher>, Failure> {
        let shared = self.shared.clone();
        let mut statuses = self.write_skipped()?;
        for result in start.done {
            // A process that was killed may not have written it.
            let status = match shared.has_trajectory(&result.instance_id) {
                true => result.exit_status.clone(),
                false => shared.write(result)?,
            };
            statuses.set(&result.instance_id, &format!("skipped ({status})"), 0.0);
        }
        shared.write_statuses(&statuses)?;
        let (work, works) = channel();
        let thread = thread::Builder::new().name("trajectories".to_owned());
        let thread = thread.spawn(move || shared.keep(&works, statuses));
        let writer = FilesWriter {
            work: work.clone(),
            thread: thread.context("can't start a thread")?,
        };
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
        Ok(Arc::new(FilesWatcher { front, work }))
    }

    fn end(&self) -> Result<(), Failure> {
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(writer) = writer else {
            return Ok(());
        };
        // If the thread has ended, it has ended with an error.
        let _ = writer.work.send(FileWork::End);
        writer.thread.join().unwrap_or_else(|_| {
            let text = "a bug of the host: SWE-agent's files were not written";
            Err(Failure::new(ExitCode::Failed, text))
        })
    }
}

impl SweFilesOf {
    fn of(&self, id: &str) -> SweFiles {
        SweFiles {
            run: self.folder.clone(),
            id: id.to_owned(),
        }
    }

    /// Writes files until the end of the batch.
    fn keep(
        &self,
        works: &Receiver<FileWork>,
        mut statuses: SweBatchStatuses,
    ) -> Result<(), Failure> {
        let mut failed = Ok(());
        let mut note = |written: Result<(), Failure>| {
            if failed.is_ok() {
                failed = written;
            }
        };
        while let Ok(work) = works.recv() {
            match work {
                FileWork::End => break,
                FileWork::Begun(id) => {
                    let config = self.configs.get(&id).unwrap_or(&Value::Null);
                    note(write_json(&self.of(&id).named("config.yaml"), config));
                }
                FileWork::Done(result) => match self.write(&result) {
                    Ok(status) => {
                        let cost = result.cost.unwrap_or_default();
                        statuses.set(&result.instance_id, &status, cost);
                        note(self.write_statuses(&statuses));
                    }
                    Err(failure) => note(Err(failure)),
                },
            }
        }
        failed
    }

    /// Writes the files of an instance that has got its result. Returns its status.
    fn write(&self, result: &BatchResult) -> Result<String, Failure> {
        let files = self.of(&result.instance_id);
        let journal = files.named("events.jsonl");
        let uncaught = || match result.exit_status.as_str() {
            "exit_environment_error" => "Uncaught EnvironmentError".to_owned(),
            status => format!("Uncaught {status}"),
        };
        if !result.has_begun() || !journal.exists() {
            return Ok(uncaught());
        }
        let config = self.configs.get(&result.instance_id);
        if self.has_attempts(&result.instance_id) {
            // It was written after each attempt.
            let made = trajectory::read(&files.named("traj"))?;
            let status = made["info"]["exit_status"].as_str().map(str::to_owned);
            write_files(&files, &made)?;
            return Ok(status.unwrap_or_else(uncaught));
        }
        let name = config.and_then(|it| it.pointer("/env/name"));
        let name = name.and_then(Value::as_str).unwrap_or("main");
        let config = config.unwrap_or(&Value::Null);
        let made = trajectory::trajectory(&journal, config, name);
        let made = made
            .with_context(|| format!("the trajectory of `{}` can't be made", result.instance_id))?;
        let Some(status) = made["info"]["exit_status"].as_str() else {
            return Ok(uncaught());
        };
        write_files(&files, &made)?;
        Ok(status.to_owned())
    }

    /// Whether an instance has several attempts.
    fn has_attempts(&self, id: &str) -> bool {
        let config = self.configs.get(id);
        config.is_some_and(|it| it.pointer("/agent/retry_loop").is_some())
    }

    /// Whether the complete trajectory of an instance exists.
    fn has_trajectory(&self, id: &str) -> bool {
        if self.has_attempts(id) && !self.of(id).named("pred").exists() {
            return false;
        }
        let ends = || -> std::io::Result<bool> {
            let mut file = File::open(self.of(id).named("traj"))?;
            file.seek(SeekFrom::End(-2))?;
            let mut end = [0; 2];
            file.read_exact(&mut end)?;
            // No other bracket is at the beginning of a line.
            Ok(end == *b"\n}")
        };
        ends().unwrap_or(false)
    }

    /// Whether the complete trajectory of an instance says that the instance has not ended: SWE-agent runs it again.
    fn is_unended(&self, id: &str) -> bool {
        if !self.has_trajectory(id) {
            return false;
        }
        let file = self.of(id).named("traj");
        // A trajectory may be large: most need not be parsed.
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let has_status = text.contains("\"exit_status\": \"") && !text.contains("\"early_exit\"");
        if has_status && !self.has_attempts(id) {
            return false;
        }
        status_there(&self.folder, id).is_none()
    }

    fn write_statuses(&self, statuses: &SweBatchStatuses) -> Result<(), Failure> {
        let file = self.folder.join("run_batch_exit_statuses.yaml");
        write(&file, &statuses.text())
    }
}

/// The result, with an error that has SWE-agent's names.
fn in_their_words(result: &BatchResult) -> BatchResult {
    BatchResult {
        error: result.error.as_deref().map(words::in_their_words),
        ..result.clone()
    }
}

/// Passes events to the front and the writer.
struct FilesWatcher {
    front: Arc<BatchFront>,
    work: Sender<FileWork>,
}

// If the writer has ended, its error is reported at the end of the batch.
impl BatchWatcher for FilesWatcher {
    fn began(&self, id: &str, attempt: u32, goes_on: bool) {
        let _ = self.work.send(FileWork::Begun(id.to_owned()));
        self.front.began(id, attempt, goes_on);
    }

    fn progress(&self, id: &str, progress: &Progress<'_>) {
        words::show(progress, |progress| self.front.progress(id, progress));
    }

    fn again(&self, failed: &BatchResult, wait: Duration) {
        self.front.again(&in_their_words(failed), wait);
    }

    fn done(&self, result: &BatchResult) {
        let _ = self.work.send(FileWork::Done(Box::new(result.clone())));
        self.front.done(&in_their_words(result));
    }

    fn cut(&self, id: &str) {
        self.front.cut(id);
    }

    fn waits(&self, short: &str) {
        self.front.waits(short);
    }
}
