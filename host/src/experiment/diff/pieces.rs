//! The work, cut into pieces, and the findings, put together again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::super::comparison::Comparison;
use super::super::recorded::Run;
use crate::roles::RoleKind;

/// Steps of one piece, at the least: a thread must have something to do with it.
const STEPS: usize = 32;

/// Some steps of a run.
pub(super) struct Piece<'a> {
    pub run: &'a Run,
    pub steps: Range<usize>,
    /// Its place among all, in the order of runs and steps.
    pub place: usize,
}

/// Whether a role's answer hangs on the calls before it.
pub(super) fn follows_history(kind: RoleKind) -> bool {
    matches!(kind, RoleKind::HistoryProcessor | RoleKind::ModelAdapter)
}

/// Cuts the runs up. The longest pieces come first, so that none of them is left over at the end
/// for one thread alone.
pub(super) fn cut(runs: &[Run], kind: RoleKind, threads: usize) -> Vec<Piece<'_>> {
    let all: usize = runs.iter().map(|run| run.steps.len()).sum();
    let size = match follows_history(kind) {
        true => usize::MAX,
        false => (all / (threads * 8).max(1)).max(STEPS),
    };
    let mut pieces = Vec::new();
    for run in runs {
        let mut start = 0;
        while start < run.steps.len() {
            let end = run.steps.len().min(start.saturating_add(size));
            pieces.push(Piece {
                run,
                steps: start..end,
                place: pieces.len(),
            });
            start = end;
        }
    }
    pieces.sort_by_key(|piece| (std::cmp::Reverse(piece.steps.len()), piece.place));
    pieces
}

/// Findings, which come in any order.
pub(super) struct Merged {
    state: Mutex<State>,
    full: AtomicBool,
    keep: usize,
}

struct State {
    total: Comparison,
    /// The piece that comes next.
    next: usize,
    waiting: BTreeMap<usize, Comparison>,
}

impl Merged {
    pub(super) fn new(total: Comparison, keep: usize) -> Self {
        Self {
            state: Mutex::new(State {
                total,
                next: 0,
                waiting: BTreeMap::new(),
            }),
            full: AtomicBool::new(keep == 0),
            keep,
        }
    }

    /// Whether there are as many disagreements as shall be kept, all of them in places before
    /// those that are still out: another one would be dropped anyway.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    pub(super) fn put(&self, place: usize, found: Comparison) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.insert(place, found);
        loop {
            let next = state.next;
            let Some(found) = state.waiting.remove(&next) else {
                break;
            };
            state.total.merge(found, self.keep);
            state.next += 1;
        }
        if state.total.cases.len() >= self.keep {
            self.full.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn finish(self) -> Comparison {
        let state = self.state.into_inner();
        state.unwrap_or_else(PoisonError::into_inner).total
    }
}
