//! Computes the request of a recorded query again, for the page of `view`. No request is sent, no
//! command runs, and no file is written. For a record that this user's hosts have not written, no
//! other file is read, and only built-in parts are used.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::again::layers;
use super::args::ChangeArgs;
use super::{configs, output, run};
use mswea_config::{Layers, names_no_file, without_marks};
use mswea_core::{HttpRequest, StopSource};
use mswea_session::{self as session, Earlier, Job, ReplayUse, Runtime, Unwatched};
use mswea_view::SentRequest;

/// The time limit.
const TIME: Duration = Duration::from_secs(20);

/// The sections of a foreign record that may be used.
const SECTIONS: [&str; 6] = ["mini", "agent", "model", "pipeline", "plugins", "tools"];

/// The keys of `[model]` that may be used: they decide the format of messages.
const MODEL: [&str; 8] = [
    "model_name",
    "model_class",
    "observation_template",
    "format_error_template",
    "action_regex",
    "multimodal_regex",
    "set_cache_control",
    "cost_tracking",
];

const FOREIGN: &str = "this record is not from this user's runs on this machine: it was made anew with built-in parts, \
    and without its sections `environment`, `workspace`, `run` and `providers`, whose values prompts may show";

/// The request of the query with this number in the journal. Plugins that differ from those of the
/// run are refused, because they would make another request.
pub(super) fn sent(journal: &Path, seq: u64) -> Result<SentRequest, String> {
    let mut earlier = Earlier::to_replay(journal).map_err(|error| error.to_string())?;
    earlier.end_at(seq);
    let model = &earlier.config()["model"];
    let parameters = json!({ "model": model["model_name"], "model_kwargs": model["model_kwargs"] });
    let mut flags = ChangeArgs::default().as_run();
    flags.configs.extend([
        "agent.wall_time_limit_seconds=0".to_owned(),
        "agent.salvage_command=null".to_owned(),
    ]);
    let plugins = earlier.plugins(&[]);
    let is_own = earlier.is_own();
    if !is_own {
        restrict(earlier.config_mut());
        // No price and no address is needed, because nothing is sent.
        let instead = ["agent.cost_limit=0", "model.base_url=http://127.0.0.1:1"];
        flags.configs.extend(instead.map(str::to_owned));
    }
    without_marks(earlier.config_mut());
    let layers = layers(&earlier, &flags, true).map_err(|failure| failure.message)?;
    if !is_own {
        check_parts(&layers, journal, &plugins)?;
    }
    let config = configs::resolve(&layers).map_err(|failure| failure.message)?;
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
    let tokio = output::runtime().map_err(|failure| failure.message)?;
    let (_source, stop) = StopSource::new();
    let done = tokio.block_on(async {
        let purpose = match is_own {
            true => ReplayUse::Draft,
            false => ReplayUse::Show,
        };
        let replay = session::replay(&runtime, job, Arc::new(Unwatched), stop, purpose);
        tokio::time::timeout(TIME, replay).await
    });
    tokio.shutdown_background();
    let done = done.map_err(|_| format!("it takes more than {} s", TIME.as_secs()))?;
    let done = done.map_err(|error| error.to_string())?;
    let history = done.messages.iter().filter(|it| it.role != "exit");
    Ok(SentRequest {
        history: history.map(|it| it.light()).collect(),
        view: done.view.iter().map(|it| it.light()).collect(),
        tools: done.tools,
        parameters,
        body: done.request.map(|it| it.map(|it| body(&it))),
        stopped: done.stopped,
        caution: (!is_own).then(|| FOREIGN.to_owned()),
    })
}

/// The body of a request as JSON, or else as text.
fn body(request: &HttpRequest) -> Value {
    let bytes = request.body.joined();
    let text = || String::from_utf8_lossy(&bytes).into_owned();
    serde_json::from_slice(&bytes).unwrap_or_else(|_| text().into())
}

/// Removes everything from a foreign record's config that does not decide how messages are made.
fn restrict(config: &mut Value) {
    let Some(sections) = config.as_object_mut() else {
        return;
    };
    sections.retain(|name, _| SECTIONS.contains(&name.as_str()));
    let model = sections.get_mut("model").and_then(Value::as_object_mut);
    if let Some(model) = model {
        model.retain(|name, _| MODEL.contains(&name.as_str()));
    }
    let plugins = sections.get_mut("plugins").and_then(Value::as_object_mut);
    for entry in plugins.into_iter().flat_map(|it| it.values_mut()) {
        if let Some(entry) = entry.as_object_mut() {
            entry.retain(|name, _| ["config", "path"].contains(&name.as_str()));
        }
    }
}

/// Checks that the remaining config names only built-in parts: without another part, the computed
/// request would differ from the sent one.
fn check_parts(layers: &Layers, journal: &Path, plugins: &[String]) -> Result<(), String> {
    let of_config = layers.recorded_authority(&journal.display().to_string());
    let of_config = of_config.into_iter().filter(|it| {
        let is_config = it.key.starts_with("plugins.") && !it.key.ends_with(".path");
        let is_bundle = it.key.starts_with("tools.bundles");
        let is_harmless = it.key.starts_with("tools.") && !is_bundle;
        // A sandbox has no effect, because nothing runs.
        !(is_config || is_harmless || is_bundle && names_no_path(&it.value))
            && it.key != "environment.sandbox"
    });
    let of_flags = plugins.iter().filter(|it| !names_no_file(it));
    let of_flags = of_flags.map(|it| ("--plugin".to_owned(), Value::from(it.as_str())));
    let mut all = of_config.map(|it| (it.key, it.value)).chain(of_flags);
    all.next().map_or(Ok(()), |(key, value)| {
        Err(format!(
            "mswea-host has not recorded it on this machine for this user, and it has `{}` = `{}`, which may be a \
             file and is not read here: `mswea-host replay` reads it, if you trust the record",
            mswea_text::harmless(&key),
            mswea_text::harmless(&value.to_string())
        ))
    })
}

/// Whether the bundles are built-in ones.
fn names_no_path(bundles: &Value) -> bool {
    let is_name = |it: &Value| it.as_str().is_some_and(|it| !it.contains('/'));
    bundles
        .as_array()
        .is_some_and(|all| all.iter().all(is_name))
}
