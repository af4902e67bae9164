//! `swebench` and `swebench-single`: mini-swe-agent's commands, with its flags and files.

use std::path::{Path, PathBuf};

use mswea_batch::{FieldTemplates, Redo};
use mswea_core::Object;

use super::dataset::{columns, split_rows};
use super::mini_log::MiniLog;
use super::run::{self, BatchPlan, BatchSources};
use crate::cli::args::{RunArgs, SelectArgs, SwebenchArgs, SwebenchSingleArgs};
use crate::cli::exit::ExitCode;
use crate::cli::output::Failure;

/// The preset, if `-c` names no other config.
const PRESET: &str = "swebench";
/// The folder of the results if `-o` names none.
const FOLDER: &str = "swebench-results";

/// Runs the instances of SWE-bench.
pub fn swebench(args: &SwebenchArgs) -> Result<ExitCode, Failure> {
    run::check_flags(&args.run, false)?;
    let flags = with_preset(&args.run);
    let sources = run::sources(&flags);
    let output = flags.output.as_deref().filter(|output| !output.is_empty());
    let dir = PathBuf::from(output.unwrap_or(FOLDER));
    let log = MiniLog::new(&dir, &flags.configs);
    let name = mswea_dataset::full_name(&args.subset);
    log.note(&format!("Loading dataset {name}, split {}...", args.split));
    let rows = split_rows(&args.subset, &args.split)?;
    let said = |text: &str| log.note(text);
    let templates = templates(&rows);
    let instances = run::instances(rows, templates, &sources, &args.select, &said)?;
    run::work_on(BatchPlan {
        dir: &dir,
        opened: None,
        instances: Some(instances),
        select: &args.select,
        redo: Redo {
            existing: args.redo_existing,
            failed: args.retry_failed,
            ..Redo::default()
        },
        config_changed: args.config_changed,
        work: &args.work,
        run: &flags,
        sources: BatchSources::Common(sources),
        swebench: true,
        files: Some(&log),
        course: None,
        completion: None,
    })
}

/// Runs one instance of SWE-bench.
pub fn single(args: &SwebenchSingleArgs) -> Result<ExitCode, Failure> {
    if args.run.task.is_some() {
        return Err(Failure::usage(
            "`--task` is for a run without an instance: leave it out, the task is that of the instance",
        ));
    }
    let mut flags = with_preset(&args.run);
    let rows = split_rows(&args.subset, &args.split)?;
    let templates = templates(&rows);
    let mut all = run::instances(
        rows,
        templates,
        &run::sources(&flags),
        &SelectArgs::default(),
        &|_| {},
    )?;
    all.sort_by(|a, b| a.id.cmp(&b.id));
    let count = all.len();
    let place = match args.instance.parse::<usize>() {
        Ok(place) => Some(place).filter(|place| *place < count),
        Err(_) => all.iter().position(|it| it.id == args.instance),
    };
    let Some(place) = place else {
        return Err(Failure::usage(format!(
            "the split `{}` of `{}` has no instance `{}`: name one of its {count} ids, or a place from 0 to {}",
            args.split,
            args.subset,
            args.instance,
            count - 1
        )));
    };
    let instance = all.swap_remove(place);
    flags.task = Some(instance.task);
    if flags.environment_class.as_deref().is_none_or(takes_images) {
        flags.image = instance.image;
    }
    if let Some(startup) = instance.startup {
        let value =
            serde_json::Value::from(format!("{{{{ {} }}}}", serde_json::Value::from(startup)));
        flags
            .configs
            .push(format!("run.env_startup_command={value}"));
    }
    crate::cli::run::run(&flags).and_then(crate::cli::again::to_the_end)
}

fn takes_images(class: &str) -> bool {
    !["local", "remote", "command", "swerex"].contains(&class)
}

fn templates(rows: &[Object]) -> FieldTemplates {
    FieldTemplates {
        swebench: true,
        foreign: true,
        columns: columns(rows),
        ..FieldTemplates::default()
    }
}

/// The flags, with the preset of mini-swe-agent's command as the default.
fn with_preset(run: &RunArgs) -> RunArgs {
    let mut flags = run.clone();
    let names_config = |spec: &String| !spec.contains('=') || Path::new(spec).exists();
    if !flags.configs.iter().any(names_config) {
        flags.configs.insert(0, PRESET.to_owned());
    }
    flags
}
