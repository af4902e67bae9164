//! A panic of the host, in any thread, ends the program. The recorded events of the run are not
//! lost.
//!
//! This program, whose release does not unwind (see `docs/decisions/building.md`), runs no
//! destructor after a panic, in any profile: the hook writes the trajectories of the current runs
//! (`batch run` has many), prints their paths, and ends the process. The guardian ends the processes
//! of the runs when the host has ended. In a program that unwinds, a panic ends only one run
//! (`session::run`).

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write as _;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use super::exit::ExitCode;
use super::{front, output, person};

/// The time limit of `save`: the thread that panicked may hold a lock that it needs.
const SAVE_TIME_LIMIT: Duration = Duration::from_secs(10);

/// The time limit of `save` if the file system of the trajectory may hang.
const BLOCKED: Duration = Duration::from_secs(2);

/// Saves the data of the runs of this process; returns where they are.
type SaveRuns = Arc<dyn Fn() -> String + Send + Sync>;

static SAVE: Mutex<Option<SaveRuns>> = Mutex::new(None);

/// Makes a panic end the program, after `save` has saved the data and printed its place.
pub fn on_panic(save: impl Fn() -> String + Send + Sync + 'static) {
    let save: SaveRuns = Arc::new(save);
    *SAVE.lock().unwrap_or_else(PoisonError::into_inner) = Some(save.clone());
    let is_ending = AtomicBool::new(false);
    std::panic::set_hook(Box::new(move |info| {
        if is_ending.swap(true, Ordering::Relaxed) {
            // A second panic, of another thread or of `save`: the process is ending already.
            thread::sleep(SAVE_TIME_LIMIT * 2);
            return;
        }
        let told = [
            told(info),
            "this is a bug in mswea-host, please report it".to_owned(),
        ];
        print_errors(told, Some(save.clone()), SAVE_TIME_LIMIT);
        std::process::exit(i32::from(ExitCode::Failed.code()));
    }));
}

/// Ends the program while the thread of the loops is blocked in the kernel, where no stop reaches
/// it. The recorded events are not lost: each is in the journal before it takes effect. The guardian
/// ends the processes of the runs.
pub fn end_blocked() -> ! {
    let told = "the program has not answered to the signal, because a file system that it uses hangs (a network file system whose server is gone?)";
    let save = SAVE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    print_errors([told.to_owned()], save, BLOCKED);
    // SAFETY: ends the process. Handlers of its end could wait for the blocked thread.
    unsafe { libc::_exit(i32::from(ExitCode::Interrupted.code())) }
}

/// Restores the terminal, and prints these errors, and then the place of the saved data. This
/// happens on another thread, because this one may hold locks that are needed.
fn print_errors<const N: usize>(told: [String; N], save: Option<SaveRuns>, limit: Duration) {
    let (done, waiting) = mpsc::channel();
    let alone = told.join("\n");
    let print_errors = move || {
        if person::give_back() {
            front::say(front::RELEASE);
        }
        for told in told {
            output::error(&told);
        }
        if let Some(save) = save {
            output::error(&save());
        }
        front::settle();
        let _ = done.send(());
    };
    match thread::Builder::new().spawn(print_errors) {
        Ok(_) => drop(waiting.recv_timeout(limit)),
        // No thread can be started, so none prints either.
        Err(_) => drop(writeln!(std::io::stderr(), "error: {alone}")),
    }
}

/// Calls `work`, which panics only if its input is bad. Then `told` is printed and the program ends,
/// because the release does not unwind. Must be called while there is no run and no other thread.
pub fn blaming<T>(told: String, work: impl FnOnce() -> T) -> T {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(ToString::to_string);
        tracing::info!(place, text = info.payload_as_str(), "a reader has failed");
        output::error(&told);
        front::settle();
        std::process::exit(i32::from(ExitCode::Usage.code()));
    }));
    let done = work();
    std::panic::set_hook(before);
    done
}

/// The message that the standard library's hook prints. That hook would write past the queue, and
/// block if the reader has stopped reading.
fn told(info: &PanicHookInfo<'_>) -> String {
    let current = thread::current();
    let name = current.name().unwrap_or("<unnamed>");
    let text = info.payload_as_str().unwrap_or("without words");
    let place = info.location().map(ToString::to_string);
    let place = place.as_deref().unwrap_or("an unknown place");
    let mut told = format!("thread `{name}` panicked at {place}: {text}");
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        told.push_str(&format!("\n{trace}"));
    }
    told
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// The test below starts this one in a process of its own, because the hook is set for the
    /// whole process.
    #[test]
    fn in_a_process_of_its_own() {
        let Ok(thread) = std::env::var("MSWEA_TEST_PANIC") else {
            return;
        };
        static HELD: Mutex<()> = Mutex::new(());
        on_panic(|| {
            let _held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
            "what was recorded is in `x`".to_owned()
        });
        let bug = || panic!("the bug's own words");
        match thread.as_str() {
            "other" => drop(thread::spawn(bug).join()),
            "holding" => {
                // `save` needs this lock, which is free only after the thread has ended.
                let _held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
                bug();
            }
            _ => bug(),
        }
        std::process::exit(42);
    }

    #[test]
    fn a_panic_ends_the_process_and_says_where_the_record_is() {
        for thread in ["main", "other", "holding"] {
            let run = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "--nocapture"])
                .arg("cli::panics::tests::in_a_process_of_its_own")
                .env("MSWEA_TEST_PANIC", thread)
                .stdin(Stdio::null())
                .output()
                .unwrap();
            assert_eq!(run.status.code(), Some(1), "{thread}: {run:?}");
            let text = String::from_utf8_lossy(&run.stderr);
            let holds = thread == "holding";
            for (part, expected) in [
                ("panics.rs", true),
                ("the bug's own words", true),
                ("this is a bug in mswea-host", true),
                ("what was recorded is in `x`", !holds),
            ] {
                assert_eq!(text.contains(part), expected, "{thread}: {part}: {text}");
            }
        }
    }
}
