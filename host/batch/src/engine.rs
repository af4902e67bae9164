//! The engine that started the workers, and its answers about their jobs.

use std::collections::HashSet;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::claims::WorkerName;

/// The time limit for an answer of the engine.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(30);

/// States in which processes of a job may run.
const ALIVE: &str = "RUNNING,COMPLETING,SUSPENDED,STOPPED";

/// The engine that starts workers and restarts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchEngine {
    /// No engine that can be asked.
    None,
    /// Slurm.
    Slurm,
}

impl BatchEngine {
    /// The engine that started this process.
    pub fn found() -> Self {
        match std::env::var_os("SLURM_JOB_ID") {
            Some(_) => Self::Slurm,
            None => Self::None,
        }
    }

    /// This process as a worker.
    pub async fn worker(self) -> WorkerName {
        match self {
            Self::None => WorkerName::of_this_process("none", String::new(), String::new()),
            Self::Slurm => {
                let job = slurm_job();
                let start = query(&["-h", "-j", &job, "-o", "%S"]).await;
                let start = start.unwrap_or_default().trim().to_owned();
                WorkerName::of_this_process("slurm", job, start)
            }
        }
    }

    /// The jobs that may have processes, each with its start; none if the engine does not answer.
    pub(crate) async fn alive(self) -> Option<HashSet<(String, String)>> {
        match self {
            Self::None => None,
            Self::Slurm => {
                // All jobs are asked for at once: the error for one unknown job can't be told from
                // an engine that does not answer.
                let text = query(&["-h", "-t", ALIVE, "-o", "%i|%S"]).await?;
                let jobs = text.lines().filter_map(|line| line.trim().split_once('|'));
                Some(
                    jobs.map(|(job, start)| (job.to_owned(), start.to_owned()))
                        .collect(),
                )
            }
        }
    }
}

/// Whether the worker's job is one of these. An unknown start equals every start.
pub(crate) fn is_among(worker: &WorkerName, alive: &HashSet<(String, String)>) -> bool {
    match worker.start.as_str() {
        "" => alive.iter().any(|(job, _)| *job == worker.job),
        _ => alive.contains(&(worker.job.clone(), worker.start.clone())),
    }
}

/// The job of this process, as `squeue` names it.
fn slurm_job() -> String {
    let variable = |name| std::env::var(name).ok();
    match (
        variable("SLURM_ARRAY_JOB_ID"),
        variable("SLURM_ARRAY_TASK_ID"),
    ) {
        (Some(job), Some(task)) => format!("{job}_{task}"),
        _ => variable("SLURM_JOB_ID").unwrap_or_default(),
    }
}

async fn query(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("squeue");
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let asked = tokio::time::timeout(TIME_LIMIT, command.output()).await;
    let output = asked.ok()?.ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_was_started_again_is_not_the_worker_s() {
        let alive = |start: &str| HashSet::from([("7_1".to_owned(), start.to_owned())]);
        let worker = |start: &str| WorkerName {
            job: "7_1".to_owned(),
            start: start.to_owned(),
            ..WorkerName::default()
        };
        assert!(is_among(&worker("T1"), &alive("T1")));
        assert!(!is_among(&worker("T1"), &alive("T2")));
        assert!(is_among(&worker(""), &alive("T2")));
        assert!(!is_among(&worker("T1"), &HashSet::new()));
    }
}
