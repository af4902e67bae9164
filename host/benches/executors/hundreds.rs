//! Hundreds of containers of one process, beside what the daemon itself takes to start and to remove as
//! many, with the same number of requests at once.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use mswea_host::roles::Executor;
use mswea_host::session;
use serde_json::{Value, json};
use tokio::task::LocalSet;

use super::bare::ask;
use super::shared::agent;
use super::shared::ship::PLAIN;
use super::shared::{Samples, Table};
use super::{IMAGE, config, containers_of, resident, run};

/// The argument with which this program calls itself.
pub const CHILD: &str = "--containers";
/// Another number than [`CONTAINERS`].
const VARIABLE: &str = "MSWEA_BENCH_CONTAINERS";
const CONTAINERS: usize = 200;
const ACTIONS: usize = 20;

/// Containers are started, all of them run actions, and are removed when the last action has ended.
pub fn hundreds(table: &mut Table) {
    let count = std::env::var(VARIABLE).ok();
    let count = count.and_then(|text| text.parse().ok());
    let count: usize = count.unwrap_or(CONTAINERS);
    table.note(format!("{count} containers by the daemon alone"));
    let bare = bare(count);
    table.note(format!("{count} containers by one process"));
    let child = Command::new(std::env::current_exe().unwrap())
        .args([CHILD, &count.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mark = format!("-{:x}-", child.id());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let said = String::from_utf8(output.stdout).unwrap();
    let figures: Vec<f64> = said
        .split_whitespace()
        .map(|figure| figure.parse().unwrap())
        .collect();
    let [took, each] = figures[..] else {
        panic!("{said}");
    };
    let seconds = |took: Duration| Samples::from(took.as_secs_f64());
    table.at_least(
        &format!("{count} containers, {ACTIONS} actions each: speed / the daemon's own"),
        "x",
        &Samples::from(bare.as_secs_f64() / took),
        0.8,
    );
    table.noted("the daemon's own start and removal", "s", &seconds(bare));
    table.noted("the same with actions", "s", &Samples::from(took));
    table.limited(
        "memory of each further environment",
        "MB",
        &Samples::from(each),
        0.2,
    );
    #[allow(clippy::cast_precision_loss)] // hundreds
    let left = Samples::from(containers_of(&mark) as f64);
    table.limited("containers left", "", &left, 0.0);
}

/// How many containers are made at once: as in the executor.
fn at_once() -> usize {
    4.max(2 * thread::available_parallelism().map_or(1, usize::from))
}

fn bare(count: usize) -> Duration {
    let begin = Instant::now();
    let body = json!({
        "Image": IMAGE,
        "Cmd": ["sleep", "600"],
        "HostConfig": {"AutoRemove": true},
    });
    let made = Mutex::new(Vec::new());
    each((0..count).collect(), |_| {
        let id = ask("POST", "/containers/create", &body)["Id"].clone();
        let id = id.as_str().unwrap().to_owned();
        ask("POST", &format!("/containers/{id}/start"), &Value::Null);
        made.lock().unwrap().push(id);
    });
    each(made.into_inner().unwrap(), |id| {
        let path = format!("/containers/{id}?force=1&v=1");
        ask("DELETE", &path, &Value::Null);
    });
    begin.elapsed()
}

fn each<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync) {
    let items = Mutex::new(items);
    let next = || items.lock().unwrap().pop();
    thread::scope(|scope| {
        for _ in 0..at_once() {
            scope.spawn(|| {
                while let Some(item) = next() {
                    work(item);
                }
            });
        }
    });
}

/// The child: prints the seconds, and the megabytes of each environment.
pub fn child(count: usize) {
    let (took, each) = agent::tokio_runtime().block_on(LocalSet::new().run_until(measured(count)));
    #[allow(clippy::print_stdout)] // the child passes its result to the parent
    {
        println!("{took} {each}");
    }
}

async fn measured(count: usize) -> (f64, f64) {
    // The first environment makes the parts that all share.
    let mut first = environment(0).await;
    let before = resident();
    let begin = Instant::now();
    let starting: Vec<_> = (1..=count)
        .map(|number| tokio::task::spawn_local(environment(number)))
        .collect();
    let mut all = Vec::new();
    for one in starting {
        all.push(one.await.unwrap());
    }
    #[allow(clippy::cast_precision_loss)] // hundreds
    let each = (resident() - before) / count as f64;
    let ending: Vec<_> = all
        .into_iter()
        .map(|mut one| tokio::task::spawn_local(async move { one.cleanup().await }))
        .collect();
    for one in ending {
        one.await.unwrap();
    }
    let took = begin.elapsed().as_secs_f64();
    first.cleanup().await;
    (took, each)
}

/// A container in which all actions have been run.
async fn environment(number: usize) -> Box<dyn Executor> {
    let id = format!("{}-{number}", session::new_run_id());
    let config = config(&[("environment.image", json!(IMAGE))]);
    let guard = Some(PathBuf::from(PLAIN));
    let mut executor = session::executor(&config, &id, guard, Vec::new()).unwrap();
    executor.start(&agent::context(), None).await.unwrap();
    for _ in 0..ACTIONS {
        run(&mut *executor, "true").await;
    }
    executor
}
