//! `replay`: repeats a recorded run, without a model and without running a command.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::again::{Continuation, recorded, refused, say_what_lacks};
use super::args::ReplayArgs;
use super::exit::ExitCode;
use super::output::{self, Failure};
use super::run::{self, setup_code};
use mswea_core::Front;
use mswea_record::trajectory;
use mswea_session::{
    self as session, Difference, DifferencePlace, Earlier, Job, ReplayUse, Runtime, Unwatched,
};
use mswea_text::harmless;

/// How many characters of a message are shown.
const SHOWN: usize = 2_000;

/// Replays a run.
pub fn replay(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let journal = recorded(&args.run)?;
    let mut earlier = Earlier::to_replay(&journal).map_err(refused)?;
    let before = Earlier::to_read(&journal).map_err(refused)?;
    let change = &args.change;
    say_what_lacks(change, &earlier);
    let mut flags = change.as_run();
    // A replay needs no salvage command.
    flags.configs.push("agent.salvage_command=null".to_owned());
    let Continuation {
        layers,
        config,
        plugins,
        front: shown,
    } = Continuation::of(&mut earlier, change, &flags, true, true)?;
    // A replay uses changed plugins, to show the differences.
    earlier.accept_changed_plugins();
    let front: Arc<dyn Front> = match args.verify {
        true => Arc::new(Unwatched),
        false => shown.clone(),
    };
    let options = run::ProcessOptions {
        plugins: &plugins,
        ..run::process_options(&flags)
    };
    let (task, run_id) = {
        let state = earlier.state();
        (state.task.clone(), state.run_id.clone())
    };
    let job = Job {
        from: Some(earlier),
        ..options.job(&layers, Job::new(&task, &config, &run_id))
    };
    let runtime = Runtime::new(options.cache.clone());
    let tokio = output::runtime()?;
    let (replayed, delivered) = tokio.block_on(async {
        let stop = super::signals::stop()?;
        let replayed = session::replay(&runtime, job, front, stop.clone(), ReplayUse::Verify).await;
        shown.conclude(ExitCode::Submitted, None);
        let place = journal.display().to_string();
        let delivered = run::delivered(&*shown, &stop, &place).await;
        Ok::<_, anyhow::Error>((replayed, delivered))
    })?;
    let replayed = replayed.map_err(|error| {
        Failure::new(
            options.exit_codes.of_setup(setup_code(&error)),
            error.to_string(),
        )
    })?;
    if let Some(why) = &replayed.stopped {
        output::note(&format!("the replay stops: {}", harmless(why)));
    }
    if !args.verify {
        return Ok(match delivered {
            true => ExitCode::Submitted,
            false => ExitCode::Failed,
        });
    }
    let mut remarks = replayed.remarks.clone();
    let mut difference = replayed.difference(&before);
    if difference.is_none() {
        match before.difference_from_digests() {
            Ok(found) => difference = found,
            Err(unknown) => remarks.push(unknown),
        }
    }
    if difference.is_none() && is_own_trajectory(&args.run) {
        difference = before
            .difference_from_trajectory(&args.run)
            .map_err(Failure::usage)?;
    }
    for remark in &remarks {
        output::note(remark);
    }
    if change.display.json {
        output::json(&value(difference.as_ref(), replayed.messages.len()))?;
    } else {
        output::text(&text(difference.as_ref(), replayed.messages.len()))?;
    }
    Ok(match (difference, replayed.stopped) {
        (None, None) => ExitCode::Submitted,
        _ => ExitCode::Failed,
    })
}

fn is_own_trajectory(path: &Path) -> bool {
    trajectory::owner(path).is_ok_and(|owner| owner.run_id.is_some())
}

fn value(difference: Option<&Difference>, messages: usize) -> Value {
    json!({
        "same": difference.is_none(),
        "messages": messages,
        "difference": difference.map(|it| json!({
            "index": match it.place {
                DifferencePlace::Message(index) => Some(index),
                _ => None,
            },
            "place": it.place.to_string(),
            "recorded": it.recorded,
            "replayed": it.replayed,
        })),
    })
}

fn text(difference: Option<&Difference>, messages: usize) -> String {
    let Some(difference) = difference else {
        return format!("all {messages} messages are the same\n");
    };
    let shown = |value: Option<&Value>| match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let text = serde_json::to_string_pretty(value).unwrap_or_default();
            let mut text = harmless(&text).to_string();
            if let Some((at, _)) = text.char_indices().nth(SHOWN) {
                text.truncate(at);
                text.push_str("...");
            }
            text
        }
    };
    if difference.recorded.is_none() && difference.replayed.is_none() {
        return format!("{}\n", difference.place);
    }
    format!(
        "{}\nrecorded: {}\nreplayed: {}\n",
        difference.place,
        shown(difference.recorded.as_ref()),
        shown(difference.replayed.as_ref()),
    )
}
