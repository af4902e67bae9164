//! `batch worker`: one of many processes that share the directory of a batch.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use super::run::{FRAME, check_flags, failure, job, sources};
use crate::cli::args::{BatchWorkerArgs, EngineName};
use crate::cli::exit::ExitCode;
use crate::cli::front::{self, BatchFront};
use crate::cli::output::{self, Failure};
use crate::cli::{limits, panics, signals};
use mswea_batch::{
    BatchConfig, BatchEnd, BatchEngine, BatchFolder, BatchWhy, FolderState, WorkerPlan, work_claims,
};
use mswea_core::{Stop, StopSource};
use mswea_plugin_host::Cache;
use mswea_session::Runtime;

/// The interval between lines about the progress.
const NOW_AND_THEN: Duration = Duration::from_secs(60);

/// The distance in the manifest between the beginnings of two workers: a prime that is no multiple
/// or part of usual counts.
const STRIDE: usize = 7919;

/// The variable with the number of an element of Slurm's array.
const SLURM_INDEX: &str = "SLURM_ARRAY_TASK_ID";

/// Works on a batch until it has no instance without a result.
pub fn worker(args: &BatchWorkerArgs) -> Result<ExitCode, Failure> {
    check_flags(&args.run, true)?;
    if args.work.total_cost_limit > 0.0 || args.work.total_call_limit > 0 {
        return Err(Failure::usage(
            "`--total-cost-limit` and `--total-call-limit` are limits of all instances together, which one worker of many does not see: leave them out, or use `batch run`",
        ));
    }
    let index = index(args)?;
    limits::raise_open_files();
    let tokio = output::runtime_for_many()?;
    let cache = (!args.run.no_cache).then(Cache::of_user).flatten();
    let runtime = Arc::new(Runtime::new(cache).sweeping());
    let saving = runtime.clone();
    panics::on_panic(move || saving.save_current_runs());
    let code = tokio.block_on(async {
        let (source, stop) = StopSource::new();
        signals::watch(source).context("can't watch for signals")?;
        let code = joined(args, index, runtime.clone(), &stop).await;
        runtime.swept(&stop).await;
        code
    });
    tokio.shutdown_background();
    code
}

fn index(args: &BatchWorkerArgs) -> Result<usize, Failure> {
    if let Some(index) = args.index {
        return Ok(index as usize);
    }
    let name = args.index_env.as_deref().unwrap_or(SLURM_INDEX);
    let value = std::env::var(name).ok();
    match (value, &args.index_env) {
        (None, None) => Ok(0),
        (None, Some(name)) => Err(Failure::usage(format!(
            "`--index-env {name}`: there is no variable of this name in the environment"
        ))),
        (Some(value), _) => value.trim().parse().map_err(|_| {
            Failure::usage(format!(
                "the variable `{name}` has `{}`, which is no number from 0: `--index N` sets it",
                mswea_text::harmless(&value)
            ))
        }),
    }
}

async fn joined(
    args: &BatchWorkerArgs,
    index: usize,
    runtime: Arc<Runtime>,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    let state = FolderState::read(&args.dir).map_err(failure)?;
    let sources = sources(&args.run);
    let config = BatchConfig::load(&sources, &state.instances).map_err(failure)?;
    let (job, frozen) = job(config, &args.run, &args.work, &runtime).await?;
    let folder = BatchFolder::join(&args.dir, &frozen).map_err(failure)?;
    let engine = match args.engine {
        None => BatchEngine::found(),
        Some(EngineName::Slurm) => BatchEngine::Slurm,
        Some(EngineName::None) => BatchEngine::None,
    };
    let plan = WorkerPlan {
        me: engine.worker().await,
        engine,
        lease: Duration::from_secs(args.lease.into()),
        offset: index.wrapping_mul(STRIDE),
        waits: !args.no_wait,
    };
    let missing = folder.missing();
    let front = Arc::new(BatchFront::new(args.run.display, missing));
    let all = folder.instances().len();
    let place = format!(
        "`mswea-host batch preds {}` prints the predictions",
        args.dir.display()
    );
    front.already((all - missing, all), &state.results, &place);
    let (job, folder) = (Arc::new(job), Arc::new(folder));
    let working = work_claims(runtime, job, folder, plan, front.clone(), stop.clone());
    let end = watched(working, &front, stop).await;
    let code = conclude(args, &front, &end);
    if !front::deliver(stop).await || front.take_output_error().is_some() {
        output::error("can't write to stdout; the results are in the directory of the batch");
        if code == ExitCode::Submitted {
            return Ok(ExitCode::Failed);
        }
    }
    Ok(code)
}

async fn watched(
    working: impl Future<Output = BatchEnd>,
    front: &BatchFront,
    stop: &Stop,
) -> BatchEnd {
    let mut is_told = false;
    let mut working = std::pin::pin!(working);
    let begin = tokio::time::Instant::now() + NOW_AND_THEN;
    let mut ticks = tokio::time::interval_at(begin, NOW_AND_THEN);
    let mut frames = tokio::time::interval(FRAME);
    loop {
        tokio::select! {
            end = &mut working => return end,
            // At once, because the engine may kill this process before its end.
            () = stop.stopped(), if !is_told => {
                is_told = true;
                output::warning(match signals::was_warned() {
                    true => "the time limit of this worker's job is near (SIGUSR1): it stops, and gives its instances back to other workers",
                    false => "this worker was told to stop: it gives its instances back to other workers",
                });
            }
            _ = ticks.tick() => front.now_and_then(),
            _ = frames.tick(), if front.has_table() => front.draw(),
        }
    }
}

/// Prints how the work ended, and returns the exit code.
fn conclude(args: &BatchWorkerArgs, front: &BatchFront, end: &BatchEnd) -> ExitCode {
    let (why, code) = match &end.why {
        BatchWhy::Finished if end.failed == 0 => ("finished", ExitCode::Submitted),
        BatchWhy::Finished => ("finished", ExitCode::Failed),
        BatchWhy::Limit(limit) => {
            output::error(limit);
            ("limit", ExitCode::GivenBack)
        }
        BatchWhy::Stopped => ("stopped", ExitCode::GivenBack),
        BatchWhy::Failures(count, last) => {
            output::error(&format!(
                "{count} instances in a row have failed, so this worker begins no further one; the last error: {last}"
            ));
            ("failures", ExitCode::Failed)
        }
        BatchWhy::Hopeless(reason) => {
            output::error(reason);
            ("error", ExitCode::Failed)
        }
    };
    front.ended(why, end.left, code);
    if let Some(warning) = front.faults() {
        output::warning(&warning);
    }
    if end.left > 0 {
        let text = format!("instances without a result: {}", end.left);
        output::remark(args.run.display, &text);
    }
    code
}
