//! Signals that end a run: Ctrl-C, SIGTERM, a lost terminal, and SIGUSR1, which engines of clusters
//! send some time before they end a job.

use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use anyhow::Context as _;
use mswea_core::{Stop, StopSource};

use super::panics;

/// How long the thread of the loops may take to answer a signal. It answers at once unless a file
/// system hangs.
const ANSWER: Duration = Duration::from_secs(10);
/// The same time after a second signal.
const ANSWER_AT_ONCE: Duration = Duration::from_secs(3);

/// Whether SIGUSR1 has arrived.
static WARNED: AtomicBool = AtomicBool::new(false);

/// Whether an engine has said that the time of its job is nearly over.
pub fn was_warned() -> bool {
    WARNED.load(Ordering::Relaxed)
}

/// The stop flag of a command that ends on a signal.
///
/// # Errors
/// [`anyhow::Error`] if signals can't be received.
pub fn stop() -> anyhow::Result<Stop> {
    let (source, stop) = StopSource::new();
    watch(source).context("signals can't be received")?;
    Ok(stop)
}

/// Turns signals into the stop flag as long as the runtime exists. The second signal ends the run
/// at once: the running command is killed and nothing is salvaged.
///
/// If SIGHUP or SIGUSR1 was ignored when the program started, it stays ignored, as `nohup`
/// requires. This does not hold for SIGINT: a shell script that starts the host with `&` makes it
/// ignore SIGINT, but may send SIGINT later to stop the run.
pub fn watch(source: StopSource) -> io::Result<()> {
    let source = Arc::new(source);
    let stop = source.clone();
    watch_with(source, move || {
        stop.stop();
    })
}

/// The stop flag of a batch. The first Ctrl-C lets the running instances finish, and the second one stops them.
/// Other signals stop them at once, because programs send them, and send SIGKILL next.
///
/// # Errors
/// If signals can't be received.
pub fn stop_of_batch() -> anyhow::Result<Stop> {
    let (source, stop) = StopSource::new();
    let source = Arc::new(source);
    let interrupted = source.clone();
    let on_interrupt = move || {
        interrupted.stop();
    };
    let on_end = move || {
        if source.stop() == 1 {
            source.stop();
        }
    };
    watch_all(on_interrupt, on_end).context("signals can't be received")?;
    Ok(stop)
}

/// Like [`watch`], but Ctrl-C calls this function.
pub fn watch_with(
    source: Arc<StopSource>,
    on_interrupt: impl Fn() + Send + 'static,
) -> io::Result<()> {
    watch_all(on_interrupt, move || {
        source.stop();
    })
}

/// Calls one function at Ctrl-C, and the other one at the other signals.
///
/// Signals have a thread of their own, because a file system that does not answer may block the
/// thread of the loops in the kernel.
fn watch_all(
    on_interrupt: impl Fn() + Send + 'static,
    on_end: impl Fn() + Send + 'static,
) -> io::Result<()> {
    let (asking, mut asked) = mpsc::unbounded_channel::<oneshot::Sender<()>>();
    // This task ends with the runtime of the loops, and then the thread ends.
    tokio::spawn(async move {
        while let Some(answer) = asked.recv().await {
            let _ = answer.send(());
        }
    });
    let (ready, made) = std::sync::mpsc::channel();
    let thread = thread::Builder::new().name("signals".to_owned());
    thread.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        runtime.block_on(async {
            let signals = EndSignals::new();
            let (signals, made) = match signals {
                Ok(signals) => (Some(signals), Ok(())),
                Err(error) => (None, Err(error)),
            };
            let _ = ready.send(made);
            if let Some(signals) = signals {
                signals.serve(on_interrupt, on_end, asking).await;
            }
        });
    })?;
    made.recv()
        .unwrap_or_else(|lost| Err(io::Error::other(lost)))
}

/// The signals that end a run.
struct EndSignals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
    warning: Option<Signal>,
}

impl EndSignals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: Some(signal(SignalKind::interrupt())?),
            terminate: Some(signal(SignalKind::terminate())?),
            hangup: unless_ignored(SignalKind::hangup())?,
            warning: unless_ignored(SignalKind::user_defined1())?,
        })
    }

    /// Waits for the next signal; returns whether it is Ctrl-C.
    async fn next(&mut self) -> bool {
        tokio::select! {
            () = next(&mut self.interrupt) => true,
            () = next(&mut self.terminate) => false,
            () = next(&mut self.hangup) => false,
            () = next(&mut self.warning) => {
                WARNED.store(true, Ordering::Relaxed);
                false
            }
        }
    }

    /// Passes the signals on, and after each one asks the thread of the loops for an answer.
    /// Without an answer, it ends the program: [`ANSWER`] after the first signal,
    /// [`ANSWER_AT_ONCE`] after a second one.
    async fn serve(
        mut self,
        on_interrupt: impl Fn(),
        on_end: impl Fn(),
        asking: mpsc::UnboundedSender<oneshot::Sender<()>>,
    ) {
        let mut unanswered: Option<UnansweredSignal> = None;
        loop {
            tokio::select! {
                biased;
                () = asking.closed() => return,
                is_answered = answered(&mut unanswered) => match is_answered {
                    true => unanswered = None,
                    false => panics::end_blocked(),
                },
                is_interrupt = self.next() => {
                    match is_interrupt {
                        true => on_interrupt(),
                        false => on_end(),
                    }
                    let now = Instant::now();
                    // Further signals do not postpone the end.
                    let end = match &unanswered {
                        None => now + ANSWER,
                        Some(first) => first.end.min(now + ANSWER_AT_ONCE),
                    };
                    let (answer, answered) = oneshot::channel();
                    let _ = asking.send(answer);
                    unanswered = Some(UnansweredSignal { answered, end });
                }
            }
        }
    }
}

/// A signal that the thread of the loops has not answered yet.
struct UnansweredSignal {
    answered: oneshot::Receiver<()>,
    end: Instant,
}

/// Whether the signal is answered in time.
async fn answered(signal: &mut Option<UnansweredSignal>) -> bool {
    let Some(signal) = signal else {
        return std::future::pending().await;
    };
    tokio::select! {
        biased;
        // An error also means that the runtime of the loops has ended.
        _ = &mut signal.answered => true,
        () = sleep_until(signal.end) => false,
    }
}

/// Makes SIGINT end the program until a run has begun. A script that starts the program with `&`
/// makes it ignore SIGINT, so an early SIGINT would have no effect.
pub fn mind_interrupts() {
    if is_ignored(SignalKind::interrupt()).unwrap_or(false) {
        // SAFETY: this gives a signal its default action, and uses no memory of this process.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    }
}

/// Makes signals end the program again, after the run has ended.
pub fn let_go() {
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1] {
        if !is_ignored(SignalKind::from_raw(number)).unwrap_or(true) {
            // SAFETY: as above.
            unsafe { libc::signal(number, libc::SIG_DFL) };
        }
    }
}

fn unless_ignored(kind: SignalKind) -> io::Result<Option<Signal>> {
    if is_ignored(kind)? {
        return Ok(None);
    }
    signal(kind).map(Some)
}

async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

fn is_ignored(kind: SignalKind) -> io::Result<bool> {
    let mut current = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action, this only reads the current one; `current` has room for it, and
    // is read only if the call has succeeded and so initialised it.
    let handler = unsafe {
        if libc::sigaction(kind.as_raw_value(), std::ptr::null(), current.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        current.assume_init().sa_sigaction
    };
    Ok(handler == libc::SIG_IGN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    /// The test below starts this one in a process of its own, because dispositions of signals are
    /// inherited and belong to the whole process.
    #[test]
    fn in_a_process_of_its_own() {
        let Ok(number) = std::env::var("MSWEA_TEST_SIGNAL") else {
            return;
        };
        if number == "early" {
            mind_interrupts();
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, rustix::process::Signal::INT).unwrap();
            std::process::exit(42);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let stopped = runtime.block_on(async {
            let (source, stop) = StopSource::new();
            watch(source).unwrap();
            // Processes that are started meanwhile do not ignore signals.
            let mut grep = Command::new("grep");
            let found = grep.args(["SigBlk:.*0000000000000000", "/proc/self/status"]);
            if !found.output().unwrap().status.success() {
                std::process::exit(43);
            }
            let signal = rustix::process::Signal::from_named_raw(number.parse().unwrap()).unwrap();
            rustix::process::kill_process(rustix::process::getpid(), signal).unwrap();
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(10)).await;
                if stop.is_stopped() {
                    return true;
                }
            }
            false
        });
        std::process::exit(if stopped { 40 } else { 41 });
    }

    #[test]
    fn an_interrupt_that_comes_before_the_run_is_not_lost() {
        for trap in ["", "trap '' INT QUIT;"] {
            let status = alone(trap, "early");
            assert_eq!(status.signal(), Some(libc::SIGINT), "{trap} {status}");
        }
    }

    /// Runs the test above in a process of its own, in which `trap` has made the signals ignored.
    fn alone(trap: &str, number: &str) -> std::process::ExitStatus {
        let mut command = Command::new("/bin/sh");
        // SAFETY: gives a signal its default action, which may be done between fork and exec.
        // The tests themselves may have been started with `nohup`.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            });
        }
        command
            .args(["-c", &format!("{trap} exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "cli::signals::tests::in_a_process_of_its_own",
            ])
            .env("MSWEA_TEST_SIGNAL", number)
            .status()
            .unwrap()
    }

    #[test]
    fn nohup_works_and_all_else_ends_the_run() {
        for (trap, number, expected) in [
            ("", libc::SIGINT, 40),
            ("", libc::SIGTERM, 40),
            ("", libc::SIGHUP, 40),
            ("", libc::SIGUSR1, 40),
            // `nohup` does this.
            ("trap '' HUP;", libc::SIGHUP, 41),
            ("trap '' HUP;", libc::SIGINT, 40),
            // `sh -c 'mswea-host &'` does this.
            ("trap '' INT QUIT;", libc::SIGINT, 40),
            ("trap '' INT QUIT;", libc::SIGTERM, 40),
        ] {
            let status = alone(trap, &number.to_string());
            assert_eq!(status.code(), Some(expected), "{trap} {number}");
        }
    }
}
