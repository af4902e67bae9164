//! What a recorded query sent, made anew for the page of `view`: nothing is sent, run or written.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::again::layers;
use super::args::ChangeArgs;
use super::{configs, run};
use mswea_core::StopSource;
use mswea_session::{self as session, Earlier, Job, Runtime, Unwatched};
use mswea_view::SentRequest;

/// The request of the query that the journal has under this number. Plugins that are not those of the run
/// are refused, because they would show what was not sent.
pub(super) fn sent(journal: &Path, seq: u64) -> Result<SentRequest, String> {
    let mut earlier = Earlier::to_replay(journal).map_err(|error| error.to_string())?;
    earlier.end_at(seq);
    let recorded = earlier.config().get("model");
    let of = |key: &str| recorded.and_then(|it| it.get(key)).unwrap_or(&Value::Null);
    let parameters = json!({ "model": of("model_name"), "model_kwargs": of("model_kwargs") });
    let mut flags = ChangeArgs::default().as_run();
    flags.configs.extend([
        "agent.wall_time_limit_seconds=0".to_owned(),
        "agent.salvage_command=null".to_owned(),
    ]);
    let layers = layers(&earlier, &flags, true).map_err(|failure| failure.message)?;
    let config = configs::resolve(&layers).map_err(|failure| failure.message)?;
    let plugins = earlier.plugins(&[]);
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
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let (_source, stop) = StopSource::new();
    let done = tokio.block_on(session::replay(&runtime, job, Arc::new(Unwatched), stop));
    let done = done.map_err(|error| error.to_string())?;
    Ok(SentRequest {
        history: done.messages.iter().map(|it| it.light()).collect(),
        view: done.view,
        tools: done.tools,
        parameters,
        stopped: done.stopped,
    })
}
