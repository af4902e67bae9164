//! The front of `-q`: it shows only how the run has ended, and the submission.
//!
//! In every mode, the error of a failed run is printed by the code that ends the process.

use std::io;
use std::sync::Mutex;

use super::ending::{submission_text, verdict};
use super::outlet::Drain;
use super::sink::Sink;
use super::{CliFront, Look, lock, words};
use mswea_core::{Front, Progress};

/// Shows how the run ended.
pub struct QuietFront {
    streams: Mutex<(Sink, Sink)>,
    look: Look,
}

impl QuietFront {
    /// Writes the last line to `err` and the submission to `out`.
    pub(super) fn new(err: impl Drain + 'static, out: impl Drain + 'static, look: Look) -> Self {
        Self {
            streams: Mutex::new((Sink::new(err), Sink::new(out))),
            look,
        }
    }
}

impl Front for QuietFront {
    fn show(&self, progress: &Progress<'_>) {
        let Progress::Ended {
            end,
            exit_status,
            submission,
            cost,
            steps,
            usage,
        } = progress
        else {
            return;
        };
        let mut streams = lock(&self.streams);
        let (err, out) = &mut *streams;
        out.put_data(&submission_text(submission, self.look));
        err.put(&format!(
            "{}: {}\n",
            verdict(end, exit_status, self.look),
            words::account(*steps, *cost, usage)
        ));
    }
}

impl CliFront for QuietFront {
    fn take_output_error(&self) -> Option<io::Error> {
        lock(&self.streams).1.take_error()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::front::testing::{Broken, Buffer};
    use mswea_core::{End, Usage};

    fn ended<'a>(submission: &'a str, usage: &'a Usage) -> Progress<'a> {
        Progress::Ended {
            end: &End::Submitted,
            exit_status: "Submitted",
            submission,
            cost: None,
            steps: 2,
            usage,
        }
    }

    #[test]
    fn only_the_end() {
        let (err, out) = (Buffer::default(), Buffer::default());
        let front = QuietFront::new(err.clone(), out.clone(), Look::default());
        front.show(&Progress::Warning("careful"));
        front.show(&Progress::StepStarted {
            step: 1,
            cost: None,
            tokens: 0,
        });
        assert_eq!(err.text(), "");
        front.show(&ended("patch\n", &Usage::default()));
        assert_eq!(err.text(), "Submitted: 2 steps, cost unknown\n");
        assert_eq!(out.text(), "patch\n");
        assert!(front.take_output_error().is_none());
    }

    #[test]
    fn a_full_disk_is_told_and_a_closed_pipe_is_not() {
        for (kind, told) in [
            (io::ErrorKind::StorageFull, true),
            (io::ErrorKind::BrokenPipe, false),
        ] {
            let front = QuietFront::new(Buffer::default(), Broken(kind), Look::default());
            front.show(&ended("patch\n", &Usage::default()));
            assert_eq!(front.take_output_error().is_some(), told, "{kind}");
        }
    }
}
