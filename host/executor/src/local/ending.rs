//! The end of runs: their processes are asked to end, killed, and those that can't be killed are named.
//! Runs that end at the same time are ended together, because each search walks through `/proc`.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mswea_helper::processes::{self, Children, ProcessTarget, RUN_VARIABLE};
use tokio::sync::{Semaphore, oneshot};

use crate::aside::aside;
use crate::orphans::{self, RunsEnding};

/// The time between SIGTERM and SIGKILL at the end of a run.
const POLITE: Duration = Duration::from_millis(100);
/// How long killing may take; only a process inside the kernel (dead NFS, ...) takes long.
const KILLING: Duration = Duration::from_secs(3);

/// How many groups of runs are ended at once: runs whose processes can't be killed delay few others.
const GROUPS: usize = 4;
/// The least time between the beginnings of two groups: runs that end meanwhile are one group.
const GATHERING: Duration = Duration::from_millis(20);

/// A run that waits for its end.
struct EndingRun {
    target: ProcessTarget,
    /// Whether it has a `Presence`.
    is_present: bool,
    /// Where the processes that are left are named.
    left: oneshot::Sender<Vec<String>>,
}

static WAITING: Mutex<Vec<EndingRun>> = Mutex::new(Vec::new());
static PERMITS: Semaphore = Semaphore::const_new(GROUPS);
/// When the last group began.
static BEGUN: tokio::sync::Mutex<Option<tokio::time::Instant>> =
    tokio::sync::Mutex::const_new(None);

/// Ends all processes of `target`, which are those of one run; returns those that could not be ended.
pub(super) async fn end(target: ProcessTarget, is_present: bool) -> Vec<String> {
    let (left, mut named) = oneshot::channel();
    let waiting = || WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    waiting().push(EndingRun {
        target,
        is_present,
        left,
    });
    let turn = async {
        let permit = PERMITS.acquire().await;
        let mut begun = BEGUN.lock().await;
        if let Some(begun) = *begun {
            tokio::time::sleep_until(begun + GATHERING).await;
        }
        let group = std::mem::take(&mut *waiting());
        if !group.is_empty() {
            *begun = Some(tokio::time::Instant::now());
        }
        (permit, group)
    };
    let (permit, group) = tokio::select! {
        biased;
        // Another run took this one with it.
        names = &mut named => return names.unwrap_or_default(),
        turn = turn => turn,
    };
    let Ok(permit) = permit else {
        return Vec::new();
    };
    // It may be empty: another run took this one with it.
    if !group.is_empty() {
        let end = move || {
            let _permit = permit;
            end_group(group);
        };
        aside("ending", end).await;
    } else {
        drop(permit);
    }
    named.await.unwrap_or_default()
}

fn end_group(group: Vec<EndingRun>) {
    let all = ProcessTarget {
        values: group
            .iter()
            .flat_map(|it| it.target.values.clone())
            .collect(),
        sessions: group
            .iter()
            .flat_map(|it| it.target.sessions.clone())
            .collect(),
        since: group.iter().map(|it| it.target.since).min().unwrap_or(0),
        children: Children::Chosen(orphans::of_last_run),
        ..ProcessTarget::marked(RUN_VARIABLE, [])
    };
    let ending = RunsEnding::new(group.iter().filter(|it| it.is_present).count());
    let left = kill(&all);
    // Before the answers, after which the runs are no longer present.
    drop(ending);
    for EndingRun {
        target,
        left: names,
        ..
    } in group
    {
        let _ = names.send(match left {
            0 => Vec::new(),
            _ => processes::names(&target),
        });
    }
}

/// Asks the processes of `target` to end, kills those that don't, and returns how many are left.
/// Blocks, and reads all of `/proc` repeatedly.
fn kill(target: &ProcessTarget) -> usize {
    if processes::signal(target, libc::SIGTERM) > 0 {
        let asked = Instant::now();
        while asked.elapsed() < POLITE && processes::exist(target) {
            thread::sleep(Duration::from_millis(5));
        }
    }
    // Also if none was found: one search may miss a process.
    let left = processes::kill_until_gone(target, KILLING);
    orphans::bury();
    left
}

#[cfg(test)]
mod tests {
    use crate::{LocalExecutor, LocalSettings};
    use mswea_core::{Command, Executor, Stop};
    use std::time::Duration;

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
