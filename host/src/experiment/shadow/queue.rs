//! What the run hands to the candidate's thread: a bounded queue that never makes the run wait.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::roles::{
    Action, Change, Message, Outcome, Output, PluginFault, Reply, Verdict, ViewChange,
};

/// An input, with what the run's own plugin made of it and how long that took.
pub(super) struct Job {
    pub step: u32,
    pub took: Duration,
    pub task: Task,
}

pub(super) enum Task {
    Parse(Box<Reply>, Result<Outcome, PluginFault>),
    Format(Vec<Action>, Vec<Output>, Result<Vec<Message>, PluginFault>),
    /// With the action's place among those of its step.
    Judge(u32, Action, Result<Verdict, PluginFault>),
    /// What has changed since the last job, in order; the last one is compared.
    Process(Vec<Applied>),
}

/// A change of the history, and of the view.
pub(super) struct Applied {
    pub change: Change,
    pub real: Result<ViewChange, PluginFault>,
    pub took: Duration,
}

pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    room: usize,
}

struct State {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl Queue {
    pub(super) fn new(room: usize) -> Self {
        Self {
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                is_closed: false,
            }),
            changed: Condvar::new(),
            room: room.max(1),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a job would get in: whoever asks first need not copy for nothing. Only one role
    /// of one run puts jobs in, so the room does not get less in between.
    pub(super) fn has_room(&self) -> bool {
        let state = self.state();
        !state.is_closed && state.jobs.len() < self.room
    }

    /// Puts a job in, if there is room; never waits.
    pub(super) fn put(&self, job: Job) {
        let mut state = self.state();
        if !state.is_closed && state.jobs.len() < self.room {
            state.jobs.push_back(job);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Waits for a job; none when the queue is closed and empty.
    pub(super) fn take(&self) -> Option<Job> {
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

    /// Lets nothing more in.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Throws away what waits; how much that was.
    pub(super) fn clear(&self) -> u64 {
        let jobs = std::mem::take(&mut self.state().jobs);
        jobs.len() as u64
    }
}
