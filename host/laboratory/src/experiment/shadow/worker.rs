//! The candidate's thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::{GIVEN_UP, ShadowSettings, ShadowState};
use crate::experiment::answer::RoleAnswer;
use crate::experiment::instance::{Instance, Recall, RoleInput};
use mswea_core::{Event, Journal, Maker, Manner, PluginFault, Refused, RoleKind, Tool};

/// The run's name in a comparison, which has only one.
const RUN: &str = "this run";

/// How much the candidate's thread lowers its priority, which on Linux applies to the thread alone.
const NICENESS: i32 = 5;

/// Why a candidate that asks the model is not compared.
const ASKED: &str = "the candidate asked the model, and a shadow's questions are not sent";

/// An input, with the answer of the run's own plugin and how long that took.
pub(super) struct ShadowJob {
    /// The step, and the action's index in it.
    pub place: (u32, Option<u32>),
    pub input: RoleInput,
    pub real: (RoleAnswer, Duration),
}

pub(super) struct Worker {
    pub shared: Arc<ShadowState>,
    pub maker: Arc<dyn Maker>,
    pub config: Value,
    pub kind: RoleKind,
    /// None after a crash, after which an instance can't be used any more.
    pub candidate: Option<Instance>,
    /// Crashes in a row.
    pub crashes: u32,
}

impl Worker {
    /// Works until the queue is closed and empty.
    pub(super) async fn run(
        mut self,
        ready: oneshot::Sender<Result<Vec<Tool>, Refused>>,
        mut jobs: mpsc::Receiver<ShadowJob>,
    ) {
        // The run takes precedence. A refusal to lower the priority is ignored.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        let made = self.make().await;
        let is_made = made.is_ok();
        let made = made.map(|made| self.candidate.insert(made).tools().to_vec());
        if ready.send(made).is_err() || !is_made {
            return;
        }
        while let Some(job) = jobs.recv().await {
            if self.shared.over.load(Ordering::Relaxed) {
                return;
            }
            let made = match self.candidate.take() {
                _ if self.shared.given_up.load(Ordering::Relaxed) => None,
                Some(candidate) => Some(candidate),
                None => {
                    let made = self.make().await;
                    let failed = |refused: &Refused| {
                        let why = format!("it could not be made again after a crash: {refused}");
                        self.shared.give_up(&why);
                    };
                    made.inspect_err(failed).ok()
                }
            };
            match made {
                Some(candidate) => self.compare(candidate, job).await,
                None => self.shared.found().skip(GIVEN_UP),
            }
        }
    }

    /// An instance. It is made in a task of its own, where a panic is an error.
    async fn make(&self) -> Result<Instance, Refused> {
        let (maker, config, kind) = (self.maker.clone(), self.config.clone(), self.kind);
        let made = tokio::spawn(async move { maker.make(kind, &config, false).await }).await;
        let made = made.unwrap_or_else(|panic| Err(Refused::Failed(panic.to_string())))?;
        Ok(Instance::of(made, Vec::new()))
    }

    /// Calls the candidate, counts its answer, and records a difference.
    async fn compare(&mut self, mut candidate: Instance, job: ShadowJob) {
        let shared = self.shared.clone();
        let ShadowSettings {
            call_deadline,
            crashes,
            divergences,
            text,
            ..
        } = shared.settings;
        let input = Arc::new(job.input);
        let mut task = tokio::spawn({
            let input = input.clone();
            async move {
                let mut asker = Recall::default();
                let answer = candidate.answer(&input, &mut asker).await;
                (candidate, answer, asker.asked)
            }
        });
        let crash = |message: String| {
            let fault = PluginFault::new(message).in_manner(Manner::Crashed);
            (None, (RoleAnswer::fault(fault), call_deadline), 0)
        };
        let (candidate, own, asked) = match tokio::time::timeout(call_deadline, &mut task).await {
            Ok(Ok((candidate, own, asked))) => (Some(candidate), own, asked),
            Ok(Err(panic)) => crash(format!("the candidate panicked: {panic}")),
            Err(_) => {
                task.abort();
                crash(format!(
                    "the candidate had no answer after {:.1} s",
                    call_deadline.as_secs_f64()
                ))
            }
        };
        let crashed = match &own.0 {
            RoleAnswer::Failed { manner, message } if *manner != Manner::Reported => {
                Some((*manner, message.clone()))
            }
            _ => None,
        };
        self.candidate = candidate.filter(|_| !matches!(crashed, Some((Manner::Crashed, _))));
        {
            let mut found = shared.found();
            if shared.over.load(Ordering::Relaxed) {
                return;
            }
            if asked > 0 {
                found.new.asked += asked;
                found.new.unanswered += asked;
                found.skip(ASKED);
                return;
            }
            let before = found.cases.len();
            let (step, index) = job.place;
            let most = if before < divergences { text } else { 0 };
            found.judge((RUN, step, index), &input, job.real, own, most);
            if let Some(case) = found.cases.get(before) {
                let event = Event::ShadowDiverged {
                    plugin: found.new.name.clone(),
                    kind: found.kind.clone(),
                    beside: found.old.name.clone(),
                    step,
                    index,
                    degree: case.degree.as_str().to_owned(),
                    input: case.input.clone(),
                    real: case.old.clone(),
                    candidate: case.new.clone(),
                };
                if let Err(error) = shared.steps.record(&event) {
                    tracing::warn!(%error, "the journal does not have a divergence");
                }
            }
        }
        self.crashes = if crashed.is_some() {
            self.crashes + 1
        } else {
            0
        };
        if let Some((_, message)) = crashed.filter(|_| self.crashes >= crashes) {
            shared.give_up(&format!(
                "it failed {} times in a row; the last failure: {message}",
                self.crashes
            ));
        }
    }
}
