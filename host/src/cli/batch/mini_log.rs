//! `minisweagent.log` of `swebench`: the progress of the batch in the format of mini-swe-agent's
//! log, and with its wording where it logs the same event, because users search for these words. A
//! thread of its own writes the file, because a disk may be slow.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;

use super::more_files::{BatchStart, MoreFiles};
use crate::cli::front::BatchFront;
use crate::cli::output::{self, Failure};
use mswea_batch::{BatchResult, BatchWatcher};
use mswea_config::redacted_spec;
use mswea_core::Progress;
use mswea_text::one_line;

const NAME: &str = "minisweagent.log";
/// The two loggers of mini-swe-agent.
const BATCH: &str = "minisweagent";
const ENVIRONMENT: &str = "minisweagent.environment";

/// The log of one call of the command.
pub(super) struct MiniLog {
    folder: PathBuf,
    /// The configs as `-c` names them.
    configs: Vec<String>,
    /// Lines from before the folder was checked: until then, no file is written.
    held: Mutex<Vec<String>>,
    writer: Mutex<Option<LogWriter>>,
}

/// The thread that writes the log.
struct LogWriter {
    /// The watcher has a clone, which is dropped at the end of the batch.
    work: Sender<LogWork>,
    thread: JoinHandle<io::Result<()>>,
}

/// A line to be written.
enum LogWork {
    Line(String),
    /// If this trajectory exists: the line that it was saved.
    Saved(PathBuf),
    End,
}

impl MiniLog {
    pub(super) fn new(folder: &Path, configs: &[String]) -> Self {
        Self {
            folder: folder.to_owned(),
            configs: configs.to_vec(),
            held: Mutex::default(),
            writer: Mutex::default(),
        }
    }

    /// Logs a line from before the batch begins.
    pub(super) fn note(&self, text: &str) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.push(line(BATCH, "INFO", &text));
    }
}

impl MoreFiles for MiniLog {
    fn model_name(&self) -> Option<String> {
        None
    }

    fn begin(
        &self,
        start: &BatchStart<'_>,
        front: Arc<BatchFront>,
    ) -> Result<Arc<dyn BatchWatcher>, Failure> {
        if start.predicted > 0 {
            self.note(&format!("Skipping {} existing instances", start.predicted));
        }
        self.note(&format!("Running on {} instances...", start.left));
        let configs: Vec<String> = self.configs.iter().map(|it| redacted_spec(it)).collect();
        let configs = configs.join("', '");
        self.note(&format!("Building agent config from specs: ['{configs}']"));
        let path = self.folder.join(NAME);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("can't write `{}`", path.display()))?;
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        let (work, works) = channel();
        let thread = thread::Builder::new().name("log".to_owned());
        let thread = thread.spawn(move || keep(file, &held, &works));
        let writer = LogWriter {
            work: work.clone(),
            thread: thread.context("can't start a thread")?,
        };
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
        let folder = self.folder.clone();
        Ok(Arc::new(LogWatcher {
            front,
            folder,
            work,
        }))
    }

    fn end(&self) -> Result<(), Failure> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = writer.take() {
            // If the thread has ended, it has ended with an error.
            let _ = writer.work.send(LogWork::End);
            if let Ok(Err(error)) = writer.thread.join() {
                // The results are not affected.
                output::warning(&format!("`{NAME}` is not complete: {error}"));
            }
        }
        Ok(())
    }
}

/// Writes lines until the end of the batch.
fn keep(mut file: File, held: &[String], works: &Receiver<LogWork>) -> io::Result<()> {
    file.write_all(held.concat().as_bytes())?;
    while let Ok(work) = works.recv() {
        match work {
            LogWork::End => break,
            LogWork::Line(line) => file.write_all(line.as_bytes())?,
            LogWork::Saved(trajectory) if trajectory.exists() => {
                let text = format!("Saved trajectory to '{}'", trajectory.display());
                file.write_all(line(BATCH, "INFO", &text).as_bytes())?;
            }
            LogWork::Saved(_) => {}
        }
    }
    Ok(())
}

/// A line in the format of Python's `logging`; the time is UTC.
fn line(logger: &str, level: &str, text: &dyn Display) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let time = mswea_export::iso(now.unwrap_or_default().as_secs_f64()).unwrap_or_default();
    let time = time.replace('T', " ").replace('.', ",");
    let text = text.to_string();
    format!(
        "{} - {logger} - {level} - {}\n",
        time.trim_end_matches('Z'),
        one_line(&text)
    )
}

/// Passes events to the front and the log.
struct LogWatcher {
    front: Arc<BatchFront>,
    folder: PathBuf,
    work: Sender<LogWork>,
}

impl LogWatcher {
    // If the thread has ended, its error is reported at the end of the batch.
    fn log(&self, logger: &str, level: &str, text: &dyn Display) {
        let _ = self.work.send(LogWork::Line(line(logger, level, text)));
    }
}

impl BatchWatcher for LogWatcher {
    fn began(&self, id: &str, attempt: u32, goes_on: bool) {
        let how = match goes_on {
            true => "goes on where it stood",
            false => "begins",
        };
        let text = format_args!("{id}: attempt {attempt} {how}");
        self.log(BATCH, "DEBUG", &text);
        self.front.began(id, attempt, goes_on);
    }

    fn progress(&self, id: &str, progress: &Progress<'_>) {
        match progress {
            Progress::Preparing(text) => {
                self.log(ENVIRONMENT, "INFO", &format_args!("{id}: {text}"));
            }
            Progress::Warning(text) => self.log(BATCH, "WARNING", &format_args!("{id}: {text}")),
            _ => {}
        }
        self.front.progress(id, progress);
    }

    fn again(&self, failed: &BatchResult, wait: Duration) {
        let (id, status) = (&failed.instance_id, &failed.exit_status);
        let error = failed.error.as_deref().unwrap_or_default();
        let seconds = wait.as_secs();
        let text = format_args!("{id}: {status}, once more in {seconds} s: {error}");
        self.log(BATCH, "WARNING", &text);
        self.front.again(failed, wait);
    }

    fn done(&self, result: &BatchResult) {
        let id = &result.instance_id;
        if let Some(error) = &result.error {
            let text = format_args!("Error processing instance {id}: {error}");
            self.log(BATCH, "ERROR", &text);
        }
        let trajectory = self.folder.join(id).join(format!("{id}.traj.json"));
        let _ = self.work.send(LogWork::Saved(trajectory));
        self.front.done(result);
    }

    fn cut(&self, id: &str) {
        let text = format_args!("{id}: stopped, without a result");
        self.log(BATCH, "WARNING", &text);
        self.front.cut(id);
    }

    fn waits(&self, short: &str) {
        let text = format_args!("no further instance begins until more is free: {short}");
        self.log(BATCH, "WARNING", &text);
        self.front.waits(short);
    }
}
