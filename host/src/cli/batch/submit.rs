//! `batch submit` and `batch cancel`: workers that an engine starts.

use std::path::Path;

use anyhow::Context as _;

use super::run::{check_flags, failure, given, job, redo, sources};
use crate::cli::args::{BatchCancelArgs, BatchSubmitArgs, EngineName};
use crate::cli::exit::ExitCode;
use crate::cli::output::{self, Failure};
use mswea_batch::{
    BatchConfig, BatchFolder, FolderState, Redo, SlurmArray, check_slurm, check_slurm_ids,
    shell_line, slurm_cancel,
};
use mswea_plugin_host::Cache;
use mswea_session::Runtime;

/// Flags with a value that are not for workers.
const OWN: &[&str] = &[
    "--instances",
    "--split",
    "--id-template",
    "--task-template",
    "--image-template",
    "--repo-template",
    "--base-commit-template",
    "--filter",
    "--slice",
    "--redo-status",
    "--engine",
    "--array",
    "--at-a-time",
    "--warning",
    "--partition",
    "--account",
    "--time",
    "--mem",
    "--cpus-per-task",
    "--sbatch",
];

/// Flags without a value that are not for workers.
const OWN_SWITCHES: &[&str] = &[
    "--swebench-images",
    "--shuffle",
    "--redo-existing",
    "--retry-failed",
    "--config-changed",
];

/// The variables that workers need, by which the program finds its own files.
const VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
];

/// Makes the directory of a batch, and has an engine start its workers.
pub fn submit(args: &BatchSubmitArgs) -> Result<ExitCode, Failure> {
    let batch = &args.batch;
    check_flags(&batch.run, true)?;
    if args.engine == EngineName::Slurm {
        check_slurm().map_err(failure)?;
    }
    let sources = sources(&batch.run);
    let instances = given(batch, &sources)?;
    let tokio = output::runtime()?;
    let cache = (!batch.run.no_cache).then(Cache::of_user).flatten();
    let runtime = Runtime::new(cache);
    let known = match &instances {
        Some(instances) => instances.clone(),
        None => {
            let state = FolderState::read(&batch.dir).map_err(|error| {
                let remedy = "`--instances FILE` names the instances of a new batch";
                Failure::usage(format!("{error}; {remedy}"))
            })?;
            state.instances
        }
    };
    if args.engine == EngineName::Slurm {
        check_slurm_ids(&known).map_err(failure)?;
    }
    let config = BatchConfig::load(&sources, &known).map_err(failure)?;
    let made = job(config, &batch.run, &batch.work, &runtime);
    let (_, frozen) = tokio.block_on(made)?;
    let redo = redo(batch);
    let is_new = instances.is_some() || redo != Redo::default() || batch.config_changed;
    let folder = if is_new {
        let mut folder = BatchFolder::open(&batch.dir).map_err(failure)?;
        folder.check_shared().map_err(failure)?;
        folder.add(&known).map_err(failure)?;
        folder
            .freeze(&frozen, batch.config_changed)
            .map_err(failure)?;
        let ids: Vec<String> = known.iter().map(|it| it.id.clone()).collect();
        if redo != Redo::default() {
            folder.to_do(&ids, &redo).map_err(failure)?;
        }
        folder
    } else {
        BatchFolder::join(&batch.dir, &frozen).map_err(failure)?
    };
    let missing = folder.missing();
    if missing == 0 {
        output::remark(
            batch.run.display,
            "every instance has a result: there is nothing to submit",
        );
        return Ok(ExitCode::Submitted);
    }
    let program = std::env::current_exe().context("can't find this program's file")?;
    let given: Vec<String> = std::env::args().collect();
    let command = worker_command(&program, &batch.dir, &given);
    if args.engine == EngineName::None {
        let text = format!(
            "{missing} instances have no result; start as many workers as you like, each with:\n{}\n",
            mswea_text::harmless(&shell_line(&command))
        );
        return output::text(&text);
    }
    let array = SlurmArray {
        elements: args.array.min(u32::try_from(missing).unwrap_or(u32::MAX)),
        at_a_time: args.at_a_time,
        warning: args.warning,
        options: options(args),
        folder: std::env::current_dir().context("can't find the current folder")?,
        command,
        variables: VARIABLES
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
            .collect(),
    };
    let id = array.submit(&batch.dir).map_err(failure)?;
    let text = format!(
        "job {id}: {} workers for {missing} instances; `mswea-host batch status {}` shows how far they are\n",
        array.elements,
        batch.dir.display()
    );
    output::text(&text)
}

fn options(args: &BatchSubmitArgs) -> Vec<String> {
    let cpus = args.cpus_per_task.map(|count| count.to_string());
    let named = [
        ("partition", &args.partition),
        ("account", &args.account),
        ("time", &args.time),
        ("mem", &args.mem),
        ("cpus-per-task", &cpus),
    ];
    let named = named
        .into_iter()
        .filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?)));
    named.chain(args.sbatch.iter().cloned()).collect()
}

/// The command of a worker: the flags of `submit` without those that are not for workers.
fn worker_command(program: &Path, dir: &Path, given: &[String]) -> Vec<String> {
    let program = program.to_string_lossy().into_owned();
    let mut command = vec![program, "batch".to_owned(), "worker".to_owned()];
    let dir = dir.to_string_lossy();
    command.push(dir.to_string());
    let mut words = given.iter().skip_while(|word| *word != "submit").skip(1);
    let mut has_dir = false;
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or_default();
        if OWN_SWITCHES.contains(&name) {
            continue;
        }
        if OWN.contains(&name) {
            if !word.contains('=') {
                words.next();
            }
            continue;
        }
        if !has_dir && *word == dir {
            has_dir = true;
            continue;
        }
        command.push(word.clone());
    }
    command
}

/// Cancels the workers of a batch.
pub fn cancel(args: &BatchCancelArgs) -> Result<ExitCode, Failure> {
    let count = slurm_cancel(&args.dir).map_err(failure)?;
    output::text(&match count {
        None => "the jobs are cancelled; their workers give their instances back\n".to_owned(),
        Some(0) => format!(
            "nothing to cancel: the jobs of `{}` have ended\n",
            args.dir.display()
        ),
        Some(count) => {
            format!("workers cancelled: {count}; those that run give their instances back\n")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_gets_the_flags_of_its_runs() {
        let given = "mswea-host batch submit out --instances t.jsonl --split test -m openai/x --array=16 -w 8 --partition cpu \
                     -c a.b=out --shuffle --sbatch=--constraint=amd -q";
        let given: Vec<String> = given.split_whitespace().map(str::to_owned).collect();
        assert_eq!(
            worker_command(Path::new("/p"), Path::new("out"), &given).join(" "),
            "/p batch worker out -m openai/x -w 8 -c a.b=out -q"
        );
    }
}
