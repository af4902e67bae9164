//! `resume` and `fork`: continue a recorded run, or begin a new one from it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::args::{ChangeArgs, ContinueArgs, ForkArgs, ResumeArgs, RunArgs};
use super::configs;
use super::exit::ExitCode;
use super::finished;
use super::front::{self, CliFront};
use super::output::{self, Failure};
use super::person::NextRun;
use super::run::{self, Audience, ProcessOptions, RunEnd, Switch};
use super::run_id;
use super::runs::find_one;

use mswea_config::{Config, Layers, ProcessEnvironment, RecordedConfig, Sources};
use mswea_core::Progress;
use mswea_record::trajectory;
use mswea_session::{Earlier, EarlierError, Job};

/// The config and the plugins with which a recorded run continues, with the changes of the flags.
pub(super) struct Continuation {
    pub(super) layers: Layers,
    pub(super) config: Config,
    pub(super) plugins: Vec<String>,
    pub(super) front: Arc<dyn CliFront>,
}

impl Continuation {
    /// `anew`: a new run with files of its own is made. `trusts`: the record is not checked,
    /// because the user consents to it, or because nothing is sent or run.
    pub(super) fn of(
        earlier: &mut Earlier,
        change: &ChangeArgs,
        flags: &RunArgs,
        anew: bool,
        trusts: bool,
    ) -> Result<Self, Failure> {
        let layers = layers(earlier, flags, anew)?;
        let plugins = earlier.plugins(&change.plugins);
        if !trusts {
            let checked = earlier.check_authority(&layers);
            checked.map_err(|error| Failure::usage(error.to_string()))?;
        }
        let config = configs::resolve(&layers)?;
        if change.accept_changed_plugins {
            earlier.accept_changed_plugins();
        }
        let front = front::make(&change.display);
        run::warn(&layers, change.display, &*front);
        Ok(Self {
            layers,
            config,
            plugins,
            front,
        })
    }

    /// For a new run, whose trajectory goes to `output`. Warns about data that the record lacks.
    fn anew(
        earlier: &mut Earlier,
        change: &ChangeArgs,
        output: Option<&String>,
        trusts: bool,
    ) -> Result<(Self, RunArgs), Failure> {
        let flags = RunArgs {
            output: output.cloned(),
            ..change.as_run()
        };
        let continuation = Self::of(earlier, change, &flags, true, trusts)?;
        say_what_lacks(change, earlier);
        Ok((continuation, flags))
    }

    fn run(&self, earlier: Earlier, run_id: &str, flags: &RunArgs) -> Result<RunEnd, Failure> {
        let options = ProcessOptions {
            plugins: &self.plugins,
            ..run::process_options(flags)
        };
        let task = earlier.state().task.clone();
        let (config, layers) = (&self.config, &self.layers);
        let job = Job {
            from: Some(earlier),
            ..options.job(layers, Job::new(&task, config, run_id))
        };
        let audience = Audience {
            front: &self.front,
            person: run::attend(config, &flags.person, &*self.front)?,
            display: flags.display,
        };
        run::finish(config, layers, job, &options, audience)
    }
}

/// Continues a run that has not submitted, or completes the end of a run that has submitted and
/// whose host was killed.
pub fn resume(args: &ResumeArgs) -> Result<RunEnd, Failure> {
    let journal = journal_to_resume(&args.run)?;
    let change = &args.change;
    let flags = change.as_run();
    let earlier = Earlier::to_resume(&journal);
    if let Err(EarlierError::Submitted { .. }) = &earlier
        && let Some(mut ended) = Earlier::to_finish(&journal).map_err(refused)?
    {
        check_trajectory(&ended)?;
        let with = Continuation::of(&mut ended, change, &flags, false, args.trust_record)?;
        return finished::finish(&ended, change, &with.config, &*with.front).map(RunEnd::from);
    }
    let mut earlier = earlier.map_err(refused)?;
    check_trajectory(&earlier)?;
    let continuation = Continuation::of(&mut earlier, change, &flags, false, args.trust_record)?;
    if let Some(torn) = earlier.torn() {
        continuation.front.show(&Progress::Warning(&format!(
            "line {} of the journal `{}` was cut off after {} bytes: what it recorded had not begun, and it is removed",
            torn.line,
            journal.display(),
            torn.bytes
        )));
    }
    output::remark(change.display, &where_it_stood(&earlier));
    let run_id = earlier.state().run_id.clone();
    continuation.run(earlier, &run_id, &flags)
}

/// Continues with new runs as long as the user asks for one at the end of a run.
pub fn to_the_end(mut end: RunEnd) -> Result<ExitCode, Failure> {
    while let Some(switch) = end.switch.take() {
        let Switch {
            journal,
            next,
            change,
        } = switch;
        end = match next {
            NextRun::Model(_) => resume(&ResumeArgs {
                run: journal,
                change,
                trust_record: false,
            })?,
            NextRun::Fork => {
                let earlier = Earlier::to_read(&journal).map_err(refused)?;
                fork(&ForkArgs {
                    run: journal,
                    at: earlier.state().account.queries,
                    no_workspace: true,
                    change,
                    ..ForkArgs::default()
                })?
            }
        };
    }
    Ok(end.code)
}

/// Begins a new run with the first steps of another one.
pub fn fork(args: &ForkArgs) -> Result<RunEnd, Failure> {
    let journal = recorded(&args.run)?;
    let mut earlier = Earlier::to_fork(&journal, args.at, !args.no_workspace).map_err(refused)?;
    let change = &args.change;
    let (continuation, flags) = Continuation::anew(
        &mut earlier,
        change,
        args.output.as_ref(),
        args.trust_record,
    )?;
    let parent = &earlier.state().run_id;
    output::remark(
        change.display,
        &format!("a new run begins with {} of run {parent}", steps(args.at)),
    );
    continuation.run(earlier, &mswea_session::new_run_id(), &flags)
}

/// Begins a new run with all steps of another one and a further message of the user.
pub fn go_on(args: &ContinueArgs) -> Result<RunEnd, Failure> {
    let id = run_id::chosen(args.run_id.as_deref())?;
    let journal = recorded(&args.run)?;
    let mut earlier = Earlier::to_continue(&journal, &args.task).map_err(refused)?;
    let change = &args.change;
    let (continuation, flags) = Continuation::anew(
        &mut earlier,
        change,
        args.output.as_ref(),
        args.trust_record,
    )?;
    let state = earlier.state();
    let text = format!(
        "a new run goes on with the {} of run {}",
        steps(state.account.queries),
        state.run_id
    );
    output::remark(change.display, &text);
    continuation.run(earlier, &id, &flags)
}

/// The journal of a run; a trajectory of mini-swe-agent, or one of this host that has lost its journal.
pub(super) fn recorded(named: &Path) -> Result<PathBuf, Failure> {
    if Earlier::is_foreign_trajectory(named) {
        return Ok(named.to_owned());
    }
    find_one(named).or_else(|error| match Earlier::is_trajectory(named) {
        true => Ok(named.to_owned()),
        false => Err(no_record(named, &error)),
    })
}

fn no_record(named: &Path, error: &str) -> Failure {
    Failure::usage(match Earlier::why_no_trajectory(named) {
        Some(why) => format!("{error}; it can't be read as a trajectory, because {why}"),
        None => error.to_owned(),
    })
}

/// The journal of a run that is to go on; a trajectory alone is not enough.
fn journal_to_resume(named: &Path) -> Result<PathBuf, Failure> {
    if Earlier::is_foreign_trajectory(named) {
        return Ok(named.to_owned());
    }
    find_one(named).map_err(|error| match Earlier::is_trajectory(named) {
        true => Failure::usage(format!(
            "{error}; a new run can begin with its steps: `mswea-host fork {} --at STEP --no-workspace`",
            named.display()
        )),
        false => no_record(named, &error),
    })
}

/// Warns about data of the run that is not recorded.
pub(super) fn say_what_lacks(change: &ChangeArgs, earlier: &Earlier) {
    if let Some(lacks) = earlier.lacks() {
        output::remark(change.display, &lacks);
    }
}

fn where_it_stood(earlier: &Earlier) -> String {
    let state = earlier.state();
    let ended = match &state.ended {
        Some(ended) => format!("ended with `{}`", ended.exit_status),
        None => "was broken off".to_owned(),
    };
    format!(
        "resuming run {}, which {ended} after {}",
        state.run_id,
        steps(state.account.queries)
    )
}

fn steps(count: u32) -> String {
    let noun = if count == 1 { "step" } else { "steps" };
    format!("{count} {noun}")
}

pub(super) fn refused(error: EarlierError) -> Failure {
    Failure::usage(error.to_string())
}

/// Checks that the existing file in place of the trajectory belongs to this run.
fn check_trajectory(earlier: &Earlier) -> Result<(), Failure> {
    let path = earlier.files().trajectory;
    if std::fs::symlink_metadata(&path).is_err() {
        return Ok(());
    }
    let other = match trajectory::owner(&path).ok().and_then(|it| it.run_id) {
        Some(other) if other == earlier.state().run_id => return Ok(()),
        Some(other) => format!("the trajectory of run `{other}`"),
        None => "not a trajectory of mswea-host".to_owned(),
    };
    Err(Failure::usage(format!(
        "`{}`, where the trajectory of run `{}` belongs, is {other}: move it to another place first",
        path.display(),
        earlier.state().run_id
    )))
}

/// The recorded config with the changes of the flags; `anew`: for a new run with files of its own.
pub(super) fn layers(earlier: &Earlier, flags: &RunArgs, anew: bool) -> Result<Layers, Failure> {
    let mut config = earlier.config().clone();
    let mini = config
        .get("mini")
        .is_some_and(|it| *it == Value::Bool(true));
    // The files of the earlier run stay.
    for (section, key) in [("agent", "output_path"), ("run", "atif_path")] {
        if anew && let Some(keys) = config.get_mut(section).and_then(Value::as_object_mut) {
            keys.remove(key);
        }
    }
    let overrides = flags.overrides().into_iter();
    let sources = Sources {
        configs: flags.configs.clone(),
        no_default_config: false,
        flags: overrides
            .map(|entry| (entry.key.to_owned(), entry.value, entry.flag.to_owned()))
            .collect(),
        recorded: Some(RecordedConfig {
            config,
            journal: earlier.journal().display().to_string(),
            mini,
            is_only_read: earlier.is_replay(),
        }),
        ..Sources::default()
    };
    Layers::load(&sources, &ProcessEnvironment).map_err(|error| Failure::usage(error.to_string()))
}
