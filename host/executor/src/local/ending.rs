//! The end of runs: their processes get SIGTERM, are killed, and those that can't be killed are
//! reported. Runs that end at the same time are ended together, because each search reads all of
//! `/proc`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mswea_helper::processes::{self, Children, ProcessTarget, RUN_VARIABLE};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use crate::aside::aside;
use crate::orphans::{self, RunsEnding};

/// The time between SIGTERM and SIGKILL at the end of a run.
const POLITE: Duration = Duration::from_millis(100);
/// How long killing may take; only a process inside the kernel (dead NFS, ...) takes long.
const KILLING: Duration = Duration::from_secs(3);

/// How many groups of runs are ended at once. With several groups, processes that can't be killed
/// delay the end of few other runs.
const GROUPS: usize = 4;
/// The least time between the beginnings of two groups. Runs that end within it are in the same
/// group.
const GATHERING: Duration = Duration::from_millis(20);

/// The name of processes that can't be named.
const ELUSIVE: &str = "some that start others faster than they can be stopped";

/// A run that waits for its end.
struct EndingRun {
    target: ProcessTarget,
    /// Whether the run has a `Presence`.
    is_present: bool,
    /// Gets the names of the processes that could not be ended.
    left: oneshot::Sender<Vec<String>>,
}

/// Runs that are ended together.
struct EndingGroup {
    runs: Vec<EndingRun>,
    _permit: SemaphorePermit<'static>,
}

/// The runs that are waiting to be ended.
struct WaitingRuns {
    runs: Vec<EndingRun>,
    /// When the last group began.
    begun: Option<Instant>,
}

/// While a run waits, it holds nothing that other runs need, because its runtime may be blocked.
static WAITING: Mutex<WaitingRuns> = Mutex::new(WaitingRuns {
    runs: Vec::new(),
    begun: None,
});
static PERMITS: Semaphore = Semaphore::const_new(GROUPS);

fn waiting() -> MutexGuard<'static, WaitingRuns> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes all waiting runs as a group that begins now; none if another group has taken them.
///
/// # Errors
/// The time to wait before the next attempt, because a group has just begun or too many are being
/// ended.
fn next_group() -> Result<Option<EndingGroup>, Duration> {
    let mut waiting = waiting();
    if waiting.runs.is_empty() {
        return Ok(None);
    }
    let since = waiting.begun.map_or(GATHERING, |begun| begun.elapsed());
    if since < GATHERING {
        return Err(GATHERING - since);
    }
    let permit = PERMITS.try_acquire().map_err(|_| GATHERING)?;
    // A run whose future was dropped may have no `Presence` any more; its executor kills its
    // processes.
    waiting.runs.retain(|it| !it.left.is_closed());
    if waiting.runs.is_empty() {
        return Ok(None);
    }
    waiting.begun = Some(Instant::now());
    Ok(Some(EndingGroup {
        runs: std::mem::take(&mut waiting.runs),
        _permit: permit,
    }))
}

/// Ends all processes of `target`, which are those of one run; returns those that could not be ended.
pub(super) async fn end(target: ProcessTarget, is_present: bool) -> Vec<String> {
    let (left, mut named) = oneshot::channel();
    waiting().runs.push(EndingRun {
        target,
        is_present,
        left,
    });
    let turn = async {
        loop {
            match next_group() {
                Ok(group) => return group,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
    };
    let group = tokio::select! {
        biased;
        // Another run's group included this run.
        names = &mut named => return names.unwrap_or_default(),
        group = turn => group,
    };
    if let Some(group) = group {
        aside(move || end_group(group)).await;
    }
    named.await.unwrap_or_default()
}

fn end_group(group: EndingGroup) {
    let runs = &group.runs;
    let all = ProcessTarget {
        values: runs
            .iter()
            .flat_map(|it| it.target.values.clone())
            .collect(),
        sessions: runs
            .iter()
            .flat_map(|it| it.target.sessions.clone())
            .collect(),
        since: runs.iter().map(|it| it.target.since).min().unwrap_or(0),
        children: Children::Chosen(orphans::of_last_run),
        ..ProcessTarget::marked(RUN_VARIABLE, [])
    };
    let ending = RunsEnding::new(runs.iter().filter(|it| it.is_present).count());
    let left = kill(&all);
    // Dropped before the answers are sent: after them, the runs are no longer present.
    drop(ending);
    for EndingRun {
        target,
        left: names,
        ..
    } in group.runs
    {
        let mut named = match left {
            0 => Vec::new(),
            _ => processes::names(&target),
        };
        if left > 0 && named.is_empty() {
            named.push(ELUSIVE.to_owned());
        }
        let _ = names.send(named);
    }
}

/// Sends SIGTERM to the processes of `target`, kills those that do not end, and returns how many
/// are left. Blocks, and reads all of `/proc` repeatedly.
fn kill(target: &ProcessTarget) -> usize {
    if processes::signal(target, libc::SIGTERM) > 0 {
        let asked = Instant::now();
        while asked.elapsed() < POLITE && processes::exist(target) {
            thread::sleep(Duration::from_millis(5));
        }
    }
    // Called also if none was found, because one search may miss a process.
    let left = processes::kill_until_gone(target, KILLING);
    orphans::bury();
    left
}

#[cfg(test)]
mod tests {
    use super::{GATHERING, end, waiting};
    use crate::{LocalExecutor, LocalSettings};
    use mswea_core::{Command, Executor, Stop};
    use mswea_helper::processes::{ProcessTarget, RUN_VARIABLE};
    use std::future::poll_fn;
    use std::task::Poll;
    use std::time::{Duration, Instant};

    #[tokio::test]
    async fn a_run_that_stands_still_or_is_given_up_stops_no_other() {
        let run = |id: &str| {
            let target = ProcessTarget::marked(RUN_VARIABLE, [id.to_owned()]);
            Box::pin(end(target, false))
        };
        // So that both runs wait for the next group.
        waiting().begun = Some(Instant::now() + GATHERING);
        let mut given_up = run("ending-given-up");
        let mut still = run("ending-still");
        for it in [&mut given_up, &mut still] {
            poll_fn(|context| Poll::Ready(it.as_mut().poll(context).is_ready())).await;
        }
        drop(given_up);
        let other = tokio::time::timeout(Duration::from_secs(20), run("ending-other"));
        assert_eq!(other.await.unwrap(), [""; 0]);
        assert_eq!(still.await, [""; 0]);
    }

    #[tokio::test]
    async fn runs_that_end_together_end_their_own_processes_only() {
        let mut runs = tokio::task::JoinSet::new();
        let line = |kept: bool, number: u32| format!("sleep 72.{}{number}", u8::from(kept));
        let mut keeping = LocalExecutor::new(LocalSettings::default());
        let kept = format!("{} & echo", line(true, 0));
        keeping.execute(&Command::new(&kept), &Stop::never()).await;
        for number in 0..20 {
            runs.spawn(async move {
                let mut executor = LocalExecutor::new(LocalSettings::default());
                let text = format!("trap '' TERM; ({} &); echo", line(false, number));
                let output = executor.execute(&Command::new(&text), &Stop::never()).await;
                assert_eq!(output.returncode, 0);
                executor.cleanup().await;
            });
        }
        runs.join_all().await;
        let living = || {
            let processes = mswea_helper::processes::all().into_iter();
            let lines = processes.filter_map(|it| {
                let line = std::fs::read(format!("/proc/{}/cmdline", it.pid)).ok()?;
                String::from_utf8(line).ok()
            });
            let ours = lines.filter(|line| line.starts_with("sleep\x0072."));
            ours.collect::<Vec<_>>()
        };
        assert_eq!(living(), ["sleep\x0072.10\0"]);
        keeping.cleanup().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(living(), [""; 0]);
    }
}
