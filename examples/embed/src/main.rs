//! A hundred agents in one process: the shortest program that runs more than one.
//!
//! `cargo run -p mswea-embed -- [RUNS [FOLDER]]`
//!
//! Each run has its own working folder, journal and trajectory below `FOLDER`. The model's replies come
//! from a script (`-m replay/` of the command line), so no key and no network is needed. For a real model,
//! set `model.model_name` to its name, and leave `plugins.replay.config.replies` out.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use mswea_config::{Config, Layers, ProcessEnvironment, Sources};
use mswea_core::{Nobody, Stop};
use mswea_session::{Done, Job, Runtime, Unwatched};
use serde_json::{Value, json};
use tokio::task::JoinSet;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let runs = arguments.next().map_or(Ok(100), |runs| runs.parse())?;
    let folder = arguments
        .next()
        .map_or_else(|| PathBuf::from("embedded"), PathBuf::from);
    // The program provides the tokio runtime. One thread is enough, because the agents mostly wait.
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tokio.block_on(all(runs, &folder))
}

async fn all(runs: usize, folder: &Path) -> Result<(), Box<dyn Error>> {
    // All runs share plugins, HTTP connections and prices.
    let runtime = Arc::new(Runtime::new(None));
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for number in 0..runs {
        let work = folder.join(number.to_string());
        std::fs::create_dir_all(&work)?;
        running.spawn(one(runtime.clone(), number, config(number, &work)?));
    }
    let mut ends = BTreeMap::<String, usize>::new();
    while let Some(done) = running.join_next().await {
        let (number, done) = done?;
        let place = match &done.trajectory {
            Ok(path) => path.display().to_string(),
            Err(error) => error.to_string(),
        };
        println!(
            "{number:4}  {:<12} {:10}  {place}",
            done.exit_status(),
            done.submission().trim()
        );
        if let Some(error) = done.error() {
            println!("      {error}");
        }
        *ends.entry(done.exit_status().to_owned()).or_default() += 1;
    }
    let ends: Vec<String> = ends
        .iter()
        .map(|(end, count)| format!("{count} {end}"))
        .collect();
    println!(
        "{runs} runs in {:.1} s: {}",
        begun.elapsed().as_secs_f64(),
        ends.join(", ")
    );
    Ok(())
}

/// One run, from its config to its end.
async fn one(runtime: Arc<Runtime>, number: usize, config: Config) -> (usize, Done) {
    let run_id = mswea_session::new_run_id();
    let task = format!("Write the number {number} into a file and submit it.");
    let job = Job::new(&task, &config, &run_id);
    // No output is shown, no person is asked, and nothing stops the run.
    let (front, person) = (Arc::new(Unwatched), Arc::new(Nobody));
    let done = mswea_session::run(&runtime, job, front, person, Stop::never()).await;
    (number, done)
}

/// The built-in defaults, over them the user's settings, over them the settings of this program.
fn config(number: usize, work: &Path) -> Result<Config, Box<dyn Error>> {
    let by = "embed".to_owned();
    let settings: [(&str, Value); 5] = [
        ("model.model_name", json!("replay/")),
        ("plugins.replay.config.replies", replies(number)),
        ("environment.cwd", json!(work)),
        ("agent.output_path", json!(work.with_extension("traj.json"))),
        ("agent.salvage_command", json!("")),
    ];
    let sources = Sources {
        flags: settings
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value, by.clone()))
            .collect(),
        ..Sources::default()
    };
    Ok(Layers::load(&sources, &ProcessEnvironment)?.resolve()?)
}

/// The model's replies.
fn replies(number: usize) -> Value {
    let call = |command: String| json!({"content": "", "tool_calls": [{"command": command}]});
    json!([
        call(format!("echo {number} > number")),
        call("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat number".to_owned()),
    ])
}
