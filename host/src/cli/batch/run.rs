//! `batch run`: makes a batch from flags, and works on it.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;

use super::dataset::named_rows;
use super::more_files::{BatchStart, MoreFiles};
use crate::cli::args::{BatchRunArgs, RunArgs, SelectArgs, WorkArgs};
use crate::cli::exit::ExitCode;
use crate::cli::front::{self, BatchFront};
use crate::cli::output::{self, Failure};
use crate::cli::{limits, panics, signals};
use mswea_batch::{
    BatchConfig, BatchEnd, BatchError, BatchFolder, BatchInstance, BatchJob, BatchLimits, BatchWhy,
    ExitStatuses, FieldTemplates, FrozenBatch, InstanceCourse, MachineFloor, Predictions, Redo,
    ResultFiles, Selection, TaskCompletion, preflight, work, write_trajectory,
};
use mswea_config::Sources;
use mswea_core::{Object, Stop};
use mswea_executor::limit_pulls;
use mswea_plugin_host::Cache;
use mswea_session::Runtime;

/// The interval between lines about the progress.
const NOW_AND_THEN: Duration = Duration::from_secs(10);
/// The interval at which the table on a terminal is redrawn.
pub(super) const FRAME: Duration = Duration::from_millis(500);

/// The differences between the commands that run batches.
pub(in crate::cli) struct BatchPlan<'a> {
    pub(in crate::cli) dir: &'a Path,
    /// The directory, if it is open already.
    pub(in crate::cli) opened: Option<BatchFolder>,
    /// The instances of the file, if one is named; otherwise those of the directory.
    pub(in crate::cli) instances: Option<Vec<BatchInstance>>,
    pub(in crate::cli) select: &'a SelectArgs,
    pub(in crate::cli) redo: Redo,
    pub(in crate::cli) config_changed: bool,
    pub(in crate::cli) work: &'a WorkArgs,
    pub(in crate::cli) run: &'a RunArgs,
    pub(in crate::cli) sources: BatchSources,
    /// Whether the files are those of mini-swe-agent's `swebench`.
    pub(in crate::cli) swebench: bool,
    /// Writes additional files.
    pub(in crate::cli) files: Option<&'a dyn MoreFiles>,
    /// Replaces the single run of each instance.
    pub(in crate::cli) course: Option<Arc<dyn InstanceCourse>>,
    pub(in crate::cli) completion: Option<Arc<dyn TaskCompletion>>,
}

/// The sources of the configs of the instances.
pub(in crate::cli) enum BatchSources {
    /// One config for all instances.
    Common(Sources),
    /// A config for each instance, by its id.
    Own(Vec<(String, Sources)>),
}

/// Runs the instances of a file.
pub fn run(args: &BatchRunArgs) -> Result<ExitCode, Failure> {
    check_flags(&args.run, true)?;
    let sources = sources(&args.run);
    let instances = given(args, &sources)?;
    work_on(BatchPlan {
        dir: &args.dir,
        opened: None,
        instances,
        select: &args.select,
        redo: redo(args),
        config_changed: args.config_changed,
        work: &args.work,
        run: &args.run,
        sources: BatchSources::Common(sources),
        swebench: false,
        files: None,
        course: None,
        completion: None,
    })
}

pub(in crate::cli) fn failure(error: BatchError) -> Failure {
    match error {
        BatchError::Io { .. } | BatchError::Full { .. } => {
            Failure::new(ExitCode::Failed, error.to_string())
        }
        BatchError::Setup(ref setup) => {
            Failure::new(crate::cli::run::setup_code(setup), error.to_string())
        }
        error => Failure::usage(error.to_string()),
    }
}

/// Refuses flags of a run that have no meaning for many runs.
pub(super) fn check_flags(run: &RunArgs, no_output: bool) -> Result<(), Failure> {
    let given = [
        (
            "--task",
            run.task.is_some(),
            "`--task-template` makes the tasks of fields",
        ),
        (
            "--output",
            no_output && run.output.is_some(),
            "the trajectories are in the directory of the batch",
        ),
        ("--on-end", run.on_end.is_some(), "leave it out"),
        ("--shadow", !run.shadow.is_empty(), "leave it out"),
        (
            "--atif",
            run.atif.is_some(),
            "`mswea-host export ID/ID.traj.json --to atif` makes one",
        ),
    ];
    match given.iter().find(|(_, is_given, _)| *is_given) {
        None => Ok(()),
        Some((flag, _, remedy)) => Err(Failure::usage(format!(
            "`{flag}` is for a single run, and this command has many: {remedy}"
        ))),
    }
}

/// The sources of the config, according to the flags.
pub(super) fn sources(run: &RunArgs) -> Sources {
    let overrides = run.overrides().into_iter();
    Sources {
        configs: run.configs.clone(),
        no_default_config: run.no_default_config,
        flags: overrides
            .filter(|entry| entry.key != "agent.output_path")
            .map(|entry| (entry.key.to_owned(), entry.value, entry.flag.to_owned()))
            .collect(),
        ..Sources::default()
    }
}

/// The selected instances of these rows. `said` gets messages about those that were left out.
pub(super) fn instances(
    rows: Vec<Object>,
    mut templates: FieldTemplates,
    sources: &Sources,
    select: &SelectArgs,
    said: &dyn Fn(&str),
) -> Result<Vec<BatchInstance>, Failure> {
    // The config may have a command with the fields of an instance.
    let layers = mswea_config::Layers::load(sources, &mswea_config::ProcessEnvironment)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let merged = layers.merged();
    let startup = merged.pointer("/run/env_startup_command");
    templates.startup = startup.and_then(|it| it.as_str()).map(str::to_owned);
    let engine = mswea_plugin_host::templates(Cache::of_user());
    let named = templates.named(rows, &engine).map_err(failure)?;
    let chosen = selection(select).of_told(named, said).map_err(failure)?;
    let made = chosen
        .into_iter()
        .map(|row| templates.instance(row, &engine));
    made.collect::<Result<_, _>>().map_err(failure)
}

fn selection(select: &SelectArgs) -> Selection {
    Selection {
        filter: select.filter.clone(),
        slice: select.slice.clone(),
        shuffle: select.shuffle,
    }
}

/// The instances that the flags choose and describe; none if the flags name no file.
pub(super) fn given(
    args: &BatchRunArgs,
    sources: &Sources,
) -> Result<Option<Vec<BatchInstance>>, Failure> {
    let templates = FieldTemplates {
        id: args.id_template.clone(),
        task: args.task_template.clone(),
        image: args.image_template.clone(),
        repo: args.repo_template.clone(),
        base_commit: args.base_commit_template.clone(),
        startup: None,
        swebench: args.swebench_images,
        foreign: args.split.is_some(),
        ..FieldTemplates::default()
    };
    let file = args.instances.as_deref();
    let rows = file.map(|file| named_rows(file, args.split.as_deref()));
    let rows = rows.transpose()?;
    rows.map(|rows| instances(rows, templates, sources, &args.select, &|_| {}))
        .transpose()
}

pub(super) fn redo(args: &BatchRunArgs) -> Redo {
    Redo {
        existing: args.redo_existing,
        failed: args.retry_failed,
        statuses: args.redo_status.clone(),
        ..Redo::default()
    }
}

/// Opens the directory, and works on the batch until its end.
pub(in crate::cli) fn work_on(mut plan: BatchPlan<'_>) -> Result<ExitCode, Failure> {
    limits::raise_open_files();
    let tokio = output::runtime_for_many()?;
    let runtime =
        Arc::new(Runtime::new((!plan.run.no_cache).then(Cache::of_user).flatten()).sweeping());
    let saving = runtime.clone();
    panics::on_panic(move || saving.save_current_runs());
    let code = tokio.block_on(async {
        let stop = signals::stop_of_batch()?;
        let code = opened(&mut plan, runtime.clone(), &stop).await;
        runtime.swept(&stop).await;
        code
    });
    tokio.shutdown_background();
    code
}

async fn opened(
    plan: &mut BatchPlan<'_>,
    runtime: Arc<Runtime>,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    // Wrong flags and configs must be reported before a file is written.
    let known = match &plan.instances {
        Some(instances) => instances.clone(),
        None => {
            let state = mswea_batch::FolderState::read(plan.dir).map_err(|error| {
                let remedy = "`--instances FILE` names the instances of a new batch";
                Failure::usage(format!("{error}; {remedy}"))
            })?;
            selection(plan.select)
                .of(state.instances)
                .map_err(failure)?
        }
    };
    let config = match &plan.sources {
        BatchSources::Common(sources) => BatchConfig::load(sources, &known),
        BatchSources::Own(sources) => BatchConfig::load_each(sources),
    };
    let (mut job, frozen) = job(config.map_err(failure)?, plan.run, plan.work, &runtime).await?;
    job.course.clone_from(&plan.course);
    job.completion.clone_from(&plan.completion);
    let model = plan.files.and_then(MoreFiles::model_name);
    let model = model.or_else(|| job.config.common().model.model_name.clone());
    let model = model.unwrap_or_default();
    let opened = plan.opened.take();
    let opened = opened.map_or_else(|| BatchFolder::open(plan.dir), Ok);
    let mut folder = opened.map_err(failure)?;
    let predictions = Predictions::open(plan.dir, &model).map_err(failure)?;
    let mut predictions = predictions.of_begun(plan.files.is_some_and(MoreFiles::predicts_begun));
    folder.add(&known).map_err(failure)?;
    folder
        .freeze(&frozen, plan.config_changed)
        .map_err(failure)?;
    let ids: Vec<String> = known
        .iter()
        // Entries of mini-swe-agent have no result in this host's files.
        .filter(|it| {
            let is_ours = || plan.redo.failed && plan.dir.join(&it.id).join("result.json").exists();
            !plan.swebench || plan.redo.existing || !predictions.has(&it.id) || is_ours()
        })
        .map(|it| it.id.clone())
        .collect();
    warn_of_statuses(&folder, &plan.redo)?;
    let left = folder.to_do(&ids, &plan.redo).map_err(failure)?;
    let results = folder.results().map_err(failure)?;
    let predicted = match plan.redo.existing {
        true => 0,
        false => predictions.entries().len(),
    };
    let removed: HashSet<&str> = left.iter().map(|it| it.id.as_str()).collect();
    predictions.renew(removed.into_iter(), results.iter());
    let statuses = plan.swebench.then(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        ExitStatuses::new(plan.dir, now.unwrap_or_default().as_secs_f64())
    });
    let files = ResultFiles::start(predictions, statuses).context("can't start a thread")?;
    let ids: HashSet<&str> = known.iter().map(|it| it.id.as_str()).collect();
    let mut done = results;
    done.retain(|it| ids.contains(it.instance_id.as_str()));
    let failed_before = done.iter().filter(|it| it.has_failed()).count();
    let front = Arc::new(BatchFront::new(plan.run.display, left.len()));
    for result in &done {
        write_trajectory(&folder.path().join(&result.instance_id), result);
    }
    let counts = (known.len() - left.len(), known.len());
    front.already(counts, &done, &results_place(plan));
    let watcher = match plan.files {
        Some(more) => {
            let start = BatchStart {
                done: &done,
                left: left.len(),
                predicted,
            };
            more.begin(&start, front.clone())?
        }
        None => front.clone(),
    };
    let working = work(
        runtime,
        Arc::new(job),
        Arc::new(folder),
        left,
        watcher,
        files,
        stop.clone(),
    );
    let mut end = watched(working, &front, stop).await;
    end.failed += failed_before;
    if let Some(more) = plan.files {
        more.end()?;
    }
    let code = conclude(plan, &front, &end);
    if !front::deliver(stop).await || front.take_output_error().is_some() {
        output::error("can't write to stdout; the results are in the directory of the batch");
        if code == ExitCode::Submitted {
            return Ok(ExitCode::Failed);
        }
    }
    Ok(code)
}

/// Warns about a status that no instance has: it may be misspelt, or all such instances have
/// already been run again.
fn warn_of_statuses(folder: &BatchFolder, redo: &Redo) -> Result<(), Failure> {
    if redo.statuses.is_empty() {
        return Ok(());
    }
    let results = folder.results().map_err(failure)?;
    let there: BTreeSet<&str> = results.iter().map(|it| &*it.exit_status).collect();
    for wanted in &redo.statuses {
        if !there.iter().any(|it| it.eq_ignore_ascii_case(wanted)) {
            let there = there.iter().copied().collect::<Vec<_>>().join("`, `");
            output::warning(&format!(
                "`--redo-status {wanted}`: no instance has this exit status; there are `{there}`"
            ));
        }
    }
    Ok(())
}

/// The settings that the runs of a batch have in common; the directory's own values take
/// precedence.
pub(super) async fn job(
    config: BatchConfig,
    run: &RunArgs,
    work: &WorkArgs,
    runtime: &Runtime,
) -> Result<(BatchJob, FrozenBatch), Failure> {
    for warning in config.warnings() {
        output::warning(warning);
    }
    if config.common().run.on_end.is_some() {
        output::warning("`run.on_end` has no effect: a batch does not start it");
    }
    if config.shares_a_folder() && work.workers > 1 {
        output::warning(
            "all instances work in the same folder, which the config names (`environment.cwd`): without it each has a folder of its own",
        );
    }
    limit_pulls(work.pulls as usize);
    let job = BatchJob {
        config,
        plugins: run.plugins.clone(),
        allow_hosts: run.allow_hosts.clone(),
        fresh_instances: run.fresh_instances,
        fsync: run.fsync,
        guard_program: std::env::current_exe().ok(),
        limits: batch_limits(work),
        course: None,
        completion: None,
    };
    let frozen = preflight(runtime, &job).await.map_err(failure)?;
    Ok((job, frozen))
}

fn batch_limits(work: &WorkArgs) -> BatchLimits {
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    BatchLimits {
        workers: work.workers as usize,
        retries: work.retries,
        retry_wait: seconds(work.retry_wait),
        instance_time: (work.instance_timeout > 0).then(|| seconds(work.instance_timeout)),
        failures_in_a_row: work.max_failures,
        cost: work.total_cost_limit,
        calls: work.total_call_limit,
        floor: MachineFloor {
            memory: work.min_memory,
            disk: work.min_disk,
        },
    }
}

/// Waits for the end of the work, and prints the progress meanwhile.
async fn watched(
    working: impl Future<Output = BatchEnd>,
    front: &BatchFront,
    stop: &Stop,
) -> BatchEnd {
    let mut working = std::pin::pin!(working);
    let mut ticks =
        tokio::time::interval_at(tokio::time::Instant::now() + NOW_AND_THEN, NOW_AND_THEN);
    let mut frames = tokio::time::interval(FRAME);
    let mut told = 0;
    loop {
        let next_stop = async {
            match told {
                0 => stop.stopped().await,
                1 => stop.stopped_twice().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            end = &mut working => return end,
            _ = ticks.tick() => front.now_and_then(),
            _ = frames.tick(), if front.has_table() => front.draw(),
            () = next_stop => {
                output::note(match told {
                    0 => "no further instance begins; those that run are finished (Ctrl-C again stops them now)",
                    _ => "stopping what runs; the same command goes on with it later",
                });
                told += 1;
            }
        }
    }
}

/// Prints how the batch ended, and returns the exit code.
fn conclude(plan: &BatchPlan<'_>, front: &BatchFront, end: &BatchEnd) -> ExitCode {
    let (why, code) = match &end.why {
        // mini-swe-agent's exit code does not depend on the results.
        BatchWhy::Finished if end.failed == 0 || plan.swebench => ("finished", ExitCode::Submitted),
        BatchWhy::Finished => ("finished", ExitCode::Failed),
        BatchWhy::Stopped => ("stopped", ExitCode::Interrupted),
        BatchWhy::Failures(count, last) => {
            let (who, remedy) = match (count, &plan.sources) {
                // SWE-agent's `raise_exceptions`.
                (_, BatchSources::Own(_)) => (
                    "an instance has failed".to_owned(),
                    "the same command goes on; those that have ended are run again with `--redo_existing=true`",
                ),
                (count, BatchSources::Common(_)) => (
                    format!("{count} instances in a row have failed"),
                    "`--retry-failed` runs them again, `--max-failures` sets the number",
                ),
            };
            output::error(&format!(
                "{who}, so no further one was begun; the last error: {last}\n{remedy}"
            ));
            ("failures", ExitCode::Failed)
        }
        BatchWhy::Limit(limit) => {
            output::error(limit);
            ("limit", ExitCode::Limit)
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
        output::remark(
            plan.run.display,
            &format!(
                "instances without a result: {}; the same command goes on",
                end.left
            ),
        );
    }
    if front.has_instances() {
        output::remark(plan.run.display, &results_place(plan));
    }
    code
}

fn results_place(plan: &BatchPlan<'_>) -> String {
    format!("results: {}", plan.dir.join("preds.json").display())
}
