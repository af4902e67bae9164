//! One pull for all waiting runs, and a daemon that is away for a while. With a fake engine,
//! because the moments of joining, leaving and coming back matter here; pulls from real registries
//! are tested with real engines.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::*;
use crate::container::engine::*;
use crate::container::pulls::{PullKey, pull};
use crate::container::running::Container;
use crate::container::trouble;

/// Pulls until it is told to continue.
#[derive(Default)]
struct Puller {
    begun: AtomicUsize,
    cancelled: AtomicUsize,
    go_on: Notify,
    fails: bool,
    /// The container's states, one for each question; the last one is repeated.
    states: Mutex<Vec<Result<ContainerState, EngineErrorKind>>>,
}

struct Guard<'a>(&'a AtomicUsize, bool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[async_trait]
impl Engine for Puller {
    async fn describe(&self) -> Result<String, EngineError> {
        unreachable!()
    }
    async fn image(&self, _: &str) -> Result<Option<Image>, EngineError> {
        unreachable!()
    }
    async fn pull(&self, _: &str, _: Option<&str>, tell: Tell<'_>) -> Result<(), EngineError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let mut guard = Guard(&self.cancelled, false);
        tell("1 of 2 MB");
        self.go_on.notified().await;
        guard.1 = true;
        match self.fails {
            false => Ok(()),
            true => Err(EngineError {
                kind: EngineErrorKind::Denied,
                message: "no".into(),
            }),
        }
    }
    async fn unpause(&self, _: &str) -> Result<(), EngineError> {
        unreachable!()
    }
    async fn start(&self, _: &str) -> Result<(), EngineError> {
        unreachable!()
    }
    async fn run(&self, _: &ContainerSpec) -> Result<String, EngineError> {
        unreachable!()
    }
    async fn state(&self, _: &str) -> Result<ContainerState, EngineError> {
        let mut states = self.states.lock().unwrap();
        let state = match states.len() {
            1 => states[0].clone(),
            _ => states.remove(0),
        };
        state.map_err(|kind| EngineError {
            kind,
            message: "no daemon".into(),
        })
    }
    async fn exec(&self, _: &str, _: &ExecSpec) -> Result<Exec, EngineError> {
        unreachable!()
    }
    async fn put_file(&self, _: &str, _: &str, _: &Path) -> Result<(), EngineError> {
        unreachable!()
    }
    async fn put(&self, _: &str, _: &str, _: bytes::Bytes) -> Result<(), EngineError> {
        unreachable!()
    }
    async fn get(&self, _: &str, _: &str, _: &Path) -> Result<(), EngineError> {
        unreachable!()
    }
    async fn list(&self, _: &str) -> Result<Vec<ListedContainer>, EngineError> {
        unreachable!()
    }
    /// Hangs for its whole time.
    async fn remove(&self, _: &str, _: Duration) -> Result<(), EngineError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(300)).await;
        Err(EngineError {
            kind: EngineErrorKind::TimedOut,
            message: "it hangs".into(),
        })
    }
}

fn wanted(image: &str) -> PullKey {
    PullKey {
        engine: "test".into(),
        image: image.into(),
        platform: None,
    }
}

const LONG: Duration = Duration::from_secs(20);

async fn until(ready: impl Fn() -> bool) {
    let began = Instant::now();
    while !ready() {
        assert!(began.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A waiting task, and the progress that it gets.
fn waiter(
    puller: &Arc<Puller>,
    image: &str,
    limit: Duration,
) -> (Arc<Shown>, tokio::task::JoinHandle<Result<(), EngineError>>) {
    let engine: Arc<dyn Engine> = puller.clone();
    let shown = Arc::new(Shown::default());
    let (heard, wanted) = (shown.clone(), wanted(image));
    let task = tokio::spawn(async move {
        let tell = |text: &str| shown.0.lock().unwrap().push(text.to_owned());
        pull(&engine, &wanted, limit, &tell).await
    });
    (heard, task)
}

#[tokio::test]
async fn all_tasks_wait_for_one_pull_and_get_its_progress() {
    let puller = Arc::new(Puller::default());
    let waiters: Vec<_> = (0..64).map(|_| waiter(&puller, "one", LONG)).collect();
    let text = "pulling image `one`: 1 of 2 MB".to_owned();
    until(|| waiters.iter().all(|(heard, _)| heard.all().contains(&text))).await;
    // Tasks that leave do not disturb the others.
    let mut waiters = waiters.into_iter();
    for (_, task) in waiters.by_ref().take(10) {
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    }
    puller.go_on.notify_one();
    for (_, task) in waiters {
        task.await.unwrap().unwrap();
    }
    assert_eq!(puller.begun.load(Ordering::SeqCst), 1);
    assert_eq!(puller.cancelled.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_pull_without_waiting_tasks_is_cancelled() {
    let puller = Arc::new(Puller::default());
    let waiters: Vec<_> = (0..3).map(|_| waiter(&puller, "two", LONG)).collect();
    until(|| puller.begun.load(Ordering::SeqCst) == 1).await;
    for (number, (_, task)) in waiters.into_iter().enumerate() {
        assert_eq!(puller.cancelled.load(Ordering::SeqCst), 0, "{number}");
        task.abort();
        let _ = task.await;
    }
    until(|| puller.cancelled.load(Ordering::SeqCst) == 1).await;
    // The next one starts a new pull; each has its own time limit.
    let error = waiter(&puller, "two", Duration::from_millis(50))
        .1
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind, EngineErrorKind::TimedOut);
    assert!(
        error.message.contains("raise `environment.pull_timeout`"),
        "{}",
        error.message
    );
    assert_eq!(puller.begun.load(Ordering::SeqCst), 2);
    until(|| puller.cancelled.load(Ordering::SeqCst) == 2).await;
}

#[tokio::test]
async fn all_waiting_tasks_get_the_failure_and_the_next_pull_is_new() {
    let puller = Arc::new(Puller {
        fails: true,
        ..Puller::default()
    });
    for round in 1..3 {
        let waiters: Vec<_> = (0..3).map(|_| waiter(&puller, "three", LONG)).collect();
        let told = |heard: &Shown| heard.all().len() > 1;
        until(|| waiters.iter().all(|(heard, _)| told(heard))).await;
        puller.go_on.notify_one();
        for (_, task) in waiters {
            assert_eq!(
                task.await.unwrap().unwrap_err().kind,
                EngineErrorKind::Denied
            );
        }
        assert_eq!(puller.begun.load(Ordering::SeqCst), round);
    }
}

#[test]
fn a_pull_whose_event_loop_is_gone_is_begun_again() {
    let puller = Arc::new(Puller::default());
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let (first, second) = (runtime(), runtime());
    first.block_on(async {
        drop(waiter(&puller, "four", LONG));
        until(|| puller.begun.load(Ordering::SeqCst) == 1).await;
    });
    let (heard, task) = second.block_on(async {
        let waiter = waiter(&puller, "four", LONG);
        until(|| waiter.0.all().len() > 1).await;
        waiter
    });
    assert_eq!(puller.begun.load(Ordering::SeqCst), 1, "{:?}", heard.all());
    drop(first);
    second.block_on(until(|| puller.begun.load(Ordering::SeqCst) == 2));
    puller.go_on.notify_one();
    second.block_on(task).unwrap().unwrap();
}

#[tokio::test]
async fn a_daemon_that_is_away_is_waited_for() {
    let away = || Err(EngineErrorKind::Unavailable);
    let state = |running, oom_killed| {
        Ok(ContainerState {
            paused: false,
            running,
            oom_killed,
            exit_code: 137,
            error: String::new(),
        })
    };
    let gone = Err(EngineErrorKind::ContainerGone);
    let vectors = [
        (vec![state(true, false)], "Passing"),
        (vec![away(), away(), away(), state(true, false)], "Passing"),
        (
            vec![away(), away(), state(false, false)],
            "container `c` is gone: it was stopped from outside, with exit code 137",
        ),
        (
            vec![away(), gone],
            "container `c` is gone: it was stopped or removed",
        ),
        (
            vec![state(false, true)],
            "container `c` is gone: its memory ran out",
        ),
        (vec![away()], "no daemon"),
    ];
    for (states, wanted) in vectors {
        let container = Container {
            engine: Arc::new(Puller {
                states: Mutex::new(states),
                ..Puller::default()
            }),
            id: "i".into(),
            name: "c".into(),
            record: None,
            began: Instant::now(),
            way: Way::Helper,
            no_helper: String::new(),
        };
        let (limit, pause) = (Duration::from_millis(100), Duration::from_millis(1));
        let found = trouble::find_out_within(&container, &settings(), limit, pause).await;
        assert!(format!("{found:?}").contains(wanted), "{found:?}");
    }
}

#[tokio::test]
async fn containers_that_wait_for_an_engine_that_hangs_are_left_together() {
    let engine = Arc::new(Puller::default());
    let mut removals = Vec::new();
    for _ in 0..300 {
        let mut executor = ContainerExecutor::new(ContainerSettings {
            executable: "hangs".into(),
            ..settings()
        });
        executor.container = Some(Container {
            engine: engine.clone(),
            id: "i".into(),
            name: "c".into(),
            record: None,
            began: Instant::now(),
            way: Way::Helper,
            no_helper: String::new(),
        });
        removals.push(tokio::spawn(async move {
            executor.remove().await;
            assert!(executor.container.is_none());
        }));
    }
    for removal in removals {
        removal.await.unwrap();
    }
    // The number of runs that got a turn.
    let begun = engine.begun.load(Ordering::SeqCst);
    assert!((1..150).contains(&begun), "{begun}");
}
