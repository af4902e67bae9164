//! The connection to the helper of one program or one shell: reads its output at all times, and
//! sends requests.

use std::time::Duration;

use mswea_core::{ExpectEnd, Expectation, ProgramEnd, ProgramError, ProgramOutput, Stop};
use mswea_helper::protocol::{HelperReply, HelperRequest};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::pattern::{OVERLAP, Patterns};
use super::transcript::Transcript;
use crate::helper::{HelperAction, HelperError, HelperSession, HelperWire};

/// The number of the action of this helper, or of its first one.
pub(super) const ID: u32 = 1;
/// The pause between two searches, in which more output may come.
const PAUSE: Duration = Duration::from_millis(5);
/// The reason for the end of the stream if the helper has reported none.
pub(super) const HELPER_GONE: &str = "its helper has ended";

/// The state of a program.
#[derive(Debug)]
pub(super) struct ProgramState {
    pub(super) output: Transcript,
    /// When the last output came.
    pub(super) heard: Instant,
    /// How many bytes of its input the program has taken.
    pub(super) taken: u64,
    pub(super) takes_input: bool,
    /// Whether input was dropped, because a line was longer than the terminal takes.
    pub(super) is_too_long: bool,
    pub(super) end: Option<ProgramEnd>,
    /// The messages about the shell at the end of its command, one per line.
    notes: String,
    /// Whether the helper is gone.
    is_last: bool,
}

impl ProgramState {
    fn new(keep: usize, escapes: bool) -> Self {
        Self {
            output: Transcript::new(keep, escapes),
            heard: Instant::now(),
            taken: 0,
            takes_input: true,
            is_too_long: false,
            end: None,
            notes: String::new(),
            is_last: false,
        }
    }
}

/// A connection. Dropping it closes the stream at once, which ends the helper.
pub(crate) struct ProgramConnection {
    pub(super) state: watch::Sender<ProgramState>,
    requests: mpsc::UnboundedSender<HelperRequest>,
    task: JoinHandle<()>,
}

impl ProgramConnection {
    /// Starts the program; none if its command is too long.
    pub(super) fn start(
        session: HelperSession,
        action: &HelperAction<'_>,
        keep: usize,
    ) -> Option<Self> {
        let first = action.request(ID).encode()?;
        let state = ProgramState::new(keep, false);
        let mut wire = session.into_wire();
        wire.post_frame(&first);
        Some(Self::converse(wire, state, true))
    }

    /// Connects to a helper that runs no action yet, and runs one action after the other. Bytes
    /// that are not UTF-8 become `\xHH` in the output.
    pub(crate) fn idle(session: HelperSession, keep: usize) -> Self {
        let state = ProgramState::new(keep, true);
        Self::converse(session.into_wire(), state, false)
    }

    fn converse(wire: HelperWire, state: ProgramState, is_only: bool) -> Self {
        let state = watch::Sender::new(state);
        let (requests, asked) = mpsc::unbounded_channel();
        let task = tokio::spawn(converse(wire, asked, state.clone(), is_only));
        Self {
            state,
            requests,
            task,
        }
    }

    /// Begins the next action, after the end of the one before. `keep`: the least number of bytes
    /// of its output that are kept.
    pub(crate) fn next(&self, request: HelperRequest, keep: usize) {
        self.state.send_modify(|state| {
            let (is_last, end) = (state.is_last, state.end.take());
            *state = ProgramState {
                is_last,
                end: end.filter(|_| is_last),
                ..ProgramState::new(keep, true)
            };
        });
        self.request(request);
    }

    /// Whether the helper is gone, so that no further action can begin.
    pub(crate) fn is_gone(&self) -> bool {
        self.state.borrow().is_last
    }

    /// Sends a request.
    pub(crate) fn request(&self, request: HelperRequest) {
        // If the receiver is gone, the program has ended.
        let _ = self.requests.send(request);
    }

    /// A sender of requests for use without this value.
    pub(crate) fn requests(&self) -> mpsc::UnboundedSender<HelperRequest> {
        self.requests.clone()
    }

    /// How the action ended; none while it runs.
    pub(crate) fn end(&self) -> Option<ProgramEnd> {
        self.state.borrow().end.clone()
    }

    /// The messages about the shell at the end of its command.
    pub(crate) fn notes(&self) -> Vec<String> {
        let state = self.state.borrow();
        state.notes.lines().map(str::to_owned).collect()
    }

    /// Waits for output; returns it, and the length of the match at its end.
    ///
    /// # Errors
    /// [`ProgramError`] if a pattern can't be used; the output is still kept then.
    pub(crate) async fn expect(
        &self,
        wanted: &Expectation<'_>,
        stop: &Stop,
    ) -> Result<(ProgramOutput, usize), ProgramError> {
        let patterns = Patterns::new(wanted.patterns)?;
        let began = Instant::now();
        let until = began + wanted.limit;
        let mut state = self.state.subscribe();
        let mut searched = 0;
        let all = |end| Ok((self.take(u64::MAX, end), 0));
        loop {
            let (text, at, end, heard, ended) = {
                let state = state.borrow_and_update();
                let (text, at) = match patterns.is_empty() || state.output.end() == searched {
                    true => ("", 0),
                    false => state.output.since(searched.saturating_sub(OVERLAP as u64)),
                };
                let (heard, ended) = (state.heard, state.end.clone());
                (text.to_owned(), at, state.output.end(), heard, ended)
            };
            if !patterns.is_empty() && (!text.is_empty() || searched == 0) {
                let found = tokio::select! {
                    biased;
                    found = patterns.find(text) => found?,
                    () = stop.stopped() => return all(ExpectEnd::Stopped),
                    () = sleep_until(until) => {
                        return all(ended.map_or(ExpectEnd::TimedOut, ExpectEnd::Ended));
                    }
                };
                if let Some((which, range)) = found {
                    let output = self.take(at + range.end as u64, ExpectEnd::Matched(which));
                    return Ok((output, range.len()));
                }
                searched = end;
            }
            if let Some(ended) = ended {
                return all(ExpectEnd::Ended(ended));
            }
            let quiet = wanted.quiet.map(|quiet| heard.max(began) + quiet);
            let next = quiet.map_or(until, |quiet| quiet.min(until));
            let end = tokio::select! {
                biased;
                _ = state.changed() => None,
                () = stop.stopped() => Some(ExpectEnd::Stopped),
                () = sleep_until(next) => Some(match quiet {
                    Some(quiet) if quiet <= until => ExpectEnd::Quiet,
                    _ => ExpectEnd::TimedOut,
                }),
            };
            match end {
                Some(end) => return all(end),
                None if patterns.is_empty() => {}
                None => sleep(PAUSE).await,
            }
        }
    }

    /// Takes the output up to `position`.
    pub(super) fn take(&self, position: u64, end: ExpectEnd) -> ProgramOutput {
        let mut taken = Default::default();
        let state = &self.state;
        state.send_modify(|state| taken = state.output.take(position));
        let (text, dropped) = taken;
        ProgramOutput { text, dropped, end }
    }

    /// Whether input was dropped since the last call, because a line was longer than the terminal takes.
    pub(crate) fn was_too_long(&self) -> bool {
        let mut was = false;
        self.state
            .send_modify(|state| was = std::mem::take(&mut state.is_too_long));
        was
    }

    /// Closes the streams, and waits for that.
    pub(crate) async fn cut_off(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for ProgramConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn converse(
    mut wire: HelperWire,
    mut requests: mpsc::UnboundedReceiver<HelperRequest>,
    state: watch::Sender<ProgramState>,
    is_only: bool,
) {
    let end = loop {
        match take(&mut wire, &state) {
            Ok(None) => {}
            Ok(Some(end)) if is_only => break end,
            Ok(Some(end)) => finish(&state, end, false),
            Err(_) => break ProgramEnd::Lost("its helper sent an invalid message".to_owned()),
        }
        // Each of these futures can be dropped and started again.
        tokio::select! {
            biased;
            Some(request) = requests.recv(), if wire.is_flushed() => wire.post(&request),
            goes_on = wire.step() => if !goes_on {
                break ProgramEnd::Lost(HELPER_GONE.to_owned());
            },
        }
    };
    finish(&state, end, true);
}

fn finish(state: &watch::Sender<ProgramState>, end: ProgramEnd, is_last: bool) {
    state.send_modify(|state| {
        state.is_last = is_last;
        state.output.finish();
        state.end = Some(end);
    });
}

/// Takes all complete replies; returns how the program ended, if it has ended.
fn take(
    wire: &mut HelperWire,
    state: &watch::Sender<ProgramState>,
) -> Result<Option<ProgramEnd>, HelperError> {
    while let Some(reply) = wire.next(None)? {
        match reply {
            HelperReply::Output { bytes, .. } => state.send_modify(|state| {
                state.output.push(bytes);
                state.heard = Instant::now();
            }),
            HelperReply::Taken {
                count,
                is_open,
                is_too_long,
                ..
            } => state.send_modify(|state| {
                state.taken += u64::from(count);
                state.takes_input = is_open;
                state.is_too_long |= is_too_long;
            }),
            HelperReply::Exited {
                killed,
                status,
                notes,
                ..
            } => {
                state.send_modify(|state| notes.clone_into(&mut state.notes));
                return Ok(Some(match killed {
                    true => ProgramEnd::Closed,
                    false => ProgramEnd::Exited(status),
                }));
            }
            HelperReply::Failed { text, .. } => {
                return Ok(Some(ProgramEnd::Lost(text.to_owned())));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_time_the_end_is_seen_all_the_same() {
        let mut state = ProgramState::new(1000, false);
        state.end = Some(ProgramEnd::Exited(0));
        let connection = ProgramConnection {
            state: watch::Sender::new(state),
            requests: mpsc::unbounded_channel().0,
            task: tokio::spawn(async {}),
        };
        for patterns in [&[][..], &["x"]] {
            for _ in 0..500 {
                let wanted = Expectation {
                    patterns,
                    quiet: None,
                    limit: Duration::ZERO,
                };
                let expected = connection.expect(&wanted, &Stop::never()).await;
                let end = ExpectEnd::Ended(ProgramEnd::Exited(0));
                assert_eq!(expected.unwrap().0.end, end, "{patterns:?}");
            }
        }
    }
}
