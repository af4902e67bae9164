//! Cuts the work into pieces, and merges their results.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::super::comparison::Comparison;
use super::super::recorded::Run;
use mswea_core::RoleKind;

/// The least steps of a piece, so that handing it to a thread pays.
const STEPS: usize = 32;

/// Some steps of a run.
pub(super) struct Piece<'a> {
    pub run: &'a Run,
    pub steps: Range<usize>,
    /// Its index, in the order of runs and steps.
    pub place: usize,
}

/// Whether a role's answer depends on earlier calls.
pub(super) fn follows_history(kind: RoleKind) -> bool {
    matches!(kind, RoleKind::HistoryProcessor | RoleKind::ModelAdapter)
}

/// Cuts the runs into pieces. The longest come first, so that no long one is left for a single
/// thread at the end.
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

/// Merges results that arrive in any order.
pub(super) struct Merged {
    state: Mutex<MergeState>,
    full: AtomicBool,
    keep: usize,
}

struct MergeState {
    total: Comparison,
    /// The index of the next piece.
    next: usize,
    waiting: BTreeMap<usize, Comparison>,
}

impl Merged {
    pub(super) fn new(total: Comparison, keep: usize) -> Self {
        Self {
            state: Mutex::new(MergeState {
                total,
                next: 0,
                waiting: BTreeMap::new(),
            }),
            full: AtomicBool::new(keep == 0),
            keep,
        }
    }

    /// Whether enough disagreements are kept, all of them before those of the missing pieces, so
    /// that further ones would be dropped.
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
