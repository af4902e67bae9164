//! The queue from the run to the candidate's thread: it is bounded, and putting something in never
//! waits.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mswea_core::{
    Action, Change, Message, Outcome, Output, PluginFault, Reply, Verdict, ViewChange,
};

/// An input, with the answer of the run's own plugin and how long that took.
pub(super) struct ShadowJob {
    pub step: u32,
    pub took: Duration,
    pub task: ShadowTask,
}

pub(super) enum ShadowTask {
    Parse(Box<Reply>, Result<Outcome, PluginFault>),
    Format(Vec<Action>, Vec<Output>, Result<Vec<Message>, PluginFault>),
    /// With the action's index in its step.
    Judge(u32, Action, Result<Verdict, PluginFault>),
    /// All changes since the last job, in order; the view after the last one is compared.
    Process(Vec<Applied>),
}

/// A change of the history, and the change of the view.
pub(super) struct Applied {
    pub change: Change,
    pub real: Result<ViewChange, PluginFault>,
    pub took: Duration,
}

pub(super) struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
    room: usize,
}

struct QueueState {
    jobs: VecDeque<ShadowJob>,
    is_closed: bool,
}

impl Queue {
    pub(super) fn new(room: usize) -> Self {
        Self {
            state: Mutex::new(QueueState {
                jobs: VecDeque::new(),
                is_closed: false,
            }),
            changed: Condvar::new(),
            room: room.max(1),
        }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for a job, so that a caller need not copy an input in vain. Only one
    /// role of one run adds jobs, so the room does not shrink in between.
    pub(super) fn has_room(&self) -> bool {
        let state = self.state();
        !state.is_closed && state.jobs.len() < self.room
    }

    /// Adds a job if there is room; never waits.
    pub(super) fn put(&self, job: ShadowJob) {
        let mut state = self.state();
        if !state.is_closed && state.jobs.len() < self.room {
            state.jobs.push_back(job);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Waits for a job; none when the queue is closed and empty.
    pub(super) fn take(&self) -> Option<ShadowJob> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Accepts no more jobs.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Drops the waiting jobs and returns their number.
    pub(super) fn clear(&self) -> u64 {
        let jobs = std::mem::take(&mut self.state().jobs);
        jobs.len() as u64
    }
}
