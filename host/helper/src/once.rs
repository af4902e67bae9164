//! Runs one action as a command of its own, for containers in which no session can be kept.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use mswea_helper::processes::ACTION_VARIABLE;
use mswea_helper::protocol::{self, ActionInput, HelperRequest, LONGEST_REQUEST};

use crate::action::{BackgroundOutput, RunningAction};
use crate::spawn::Starter;
use crate::sys::{self, BROKEN, POLLIN, POLLOUT, STDOUT, watch};

/// How much is read at once.
const PIECE: usize = 64 * 1024;

/// These signals end an action and all processes that it started.
const ENDING: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// The action to run.
pub struct SingleAction {
    pub argv: Vec<Vec<u8>>,
    /// `NAME=value`, laid over the helper's own environment.
    pub env: Vec<Vec<u8>>,
    pub grace: Duration,
}

/// Reads an action from stdin, because it is too long for arguments.
pub fn asked() -> io::Result<SingleAction> {
    let mut bytes = Vec::new();
    io::stdin()
        .lock()
        .take(LONGEST_REQUEST as u64 + 64)
        .read_to_end(&mut bytes)?;
    let request = match protocol::frame(&bytes, LONGEST_REQUEST) {
        Ok(Some((content, _))) => HelperRequest::decode(content).ok(),
        _ => None,
    };
    match request {
        Some(HelperRequest::Run {
            argv,
            env,
            grace_ms,
            ..
        }) => Ok(SingleAction {
            argv,
            env,
            grace: Duration::from_millis(grace_ms.into()),
        }),
        _ => Err(io::Error::other(
            "the input on stdin is not a request: does it come from mswea-host?",
        )),
    }
}

/// Runs it and returns its exit code, as a shell would; its output goes to stdout.
pub fn run(task: SingleAction) -> io::Result<u8> {
    let SingleAction { argv, env, grace } = task;
    let starter = Starter::new()?;
    sys::prepare();
    let wanted = sys::signals(ENDING.into_iter().chain([libc::SIGCHLD]));
    let signals = sys::hold_signals(&wanted)?;
    let nonblocking = sys::Nonblocking::new(STDOUT)?;
    let since = sys::ticks();
    let started = match starter.start(argv, &env, None, ActionInput::Empty) {
        Ok(started) => started,
        Err(why) => {
            eprintln!("mswea-helper: {}", why.text);
            return Ok(if why.errno == libc::ENOENT { 127 } else { 126 });
        }
    };
    let mut action = RunningAction::new(
        started,
        since,
        starter.var(ACTION_VARIABLE.as_bytes()),
        grace,
    );
    let status = match attend(&mut action, signals.as_fd()) {
        Ok(Ok(status)) => status,
        ended => {
            action.kill();
            return ended.map(|end| 128 + end.unwrap_or_else(|signal| signal) as u8);
        }
    };
    drop(nonblocking);
    if let Some(leftover) = action.left_open()
        && sys::leave(starter.null())?
    {
        read_on(leftover);
    }
    Ok(status as u8)
}

/// Passes the output on until the action is over; returns its exit code, or `Err` with the signal
/// that ends the action and this program.
fn attend(action: &mut RunningAction, signals: BorrowedFd<'_>) -> io::Result<Result<i32, i32>> {
    let mut outbox = Vec::new();
    let mut sent = 0;
    loop {
        while sent < outbox.len() {
            match sys::write(STDOUT, &outbox[sent..]) {
                Ok(Some(count)) => sent += count,
                Ok(None) => break,
                Err(_) => return Ok(Err(libc::SIGPIPE)),
            }
        }
        let full = sent < outbox.len();
        if !full {
            sent = 0;
            outbox.clear();
            if let Some(status) = action.over() {
                return Ok(Ok(status));
            }
        }
        let mut watches = vec![
            watch(signals.as_raw_fd(), POLLIN),
            watch(STDOUT, if full { POLLOUT } else { 0 }),
        ];
        let output = action.output().filter(|_| !full);
        watches.extend(output.map(|fd| watch(fd, POLLIN)));
        // While nothing can be written, the action can't be reported as over, so the deadline is
        // left out.
        let settled = action.settled().filter(|_| !full);
        let limit = settled.map(|then| then.saturating_duration_since(Instant::now()));
        sys::poll(&mut watches, limit)?;
        if watches[1].revents & BROKEN != 0 {
            return Ok(Err(libc::SIGPIPE));
        }
        while let Some(signal) = sys::next_signal(signals) {
            if ENDING.contains(&signal) {
                return Ok(Err(signal));
            }
        }
        while let Some((pid, status)) = sys::bury() {
            action.buried(pid, status);
        }
        if watches.get(2).is_some_and(|output| output.revents != 0) {
            action.read(&mut outbox, PIECE);
        }
    }
}

/// Reads the output of background processes until the last one has ended.
fn read_on(mut leftover: BackgroundOutput) {
    let mut scratch = Vec::new();
    loop {
        match leftover.due(Instant::now()) {
            Err(then) => thread::sleep(then.saturating_duration_since(Instant::now())),
            Ok(fd) => {
                let ready = sys::poll(&mut [watch(fd, POLLIN)], None);
                if ready.is_err() || !leftover.skip(&mut scratch) {
                    return;
                }
            }
        }
    }
}
