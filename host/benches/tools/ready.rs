//! How long it takes until the tools are ready in a container that runs already.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mswea_host::roles::{Executor as _, Object};
use mswea_host::session;
use mswea_tools::{ToolsExecutor, ToolsPlace, Toolset, ToolsetSettings};
use serde_json::json;

use super::shared::ship::PLAIN;
use super::shared::{Samples, Table, agent};

const IMAGE: &str = "mswea-test/bash";
const BUNDLES: [&str; 4] = ["registry", "windowed", "search", "submit"];
const ROUNDS: usize = 10;
const LIMIT: f64 = 150.0;

/// Adds the row.
pub(crate) async fn ready(table: &mut Table) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tooling/images.sh");
    let images = Command::new("sh").arg(script).stdin(Stdio::null()).output();
    if !images.is_ok_and(|run| run.status.success()) {
        table.note("LEFT OUT: no docker daemon, or no `tests/tooling/images.sh`");
        return;
    }
    let mut samples = Samples::default();
    for round in 0..=ROUNDS {
        let took = once().await;
        // The first one unpacks what the host has packed.
        if round > 0 {
            samples.add_millis(took);
        }
    }
    let figure = "four bundles ready in a container that runs";
    table.limited(figure, "ms", &samples, LIMIT);
}

async fn once() -> Duration {
    let variables = [("WINDOW", "100"), ("OVERLAP", "2")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = ToolsetSettings {
        bundles: BUNDLES.map(PathBuf::from).to_vec(),
        hidden: Vec::new(),
        variables: variables.clone().into(),
        bash: true,
    };
    let tools = Toolset::read(&settings).unwrap();
    let id = session::new_run_id();
    let place = ToolsPlace {
        root: "/root".to_owned(),
        variables: variables.into(),
        run_id: id.clone(),
        registry: Object::new(),
        task: "t".to_owned(),
        install_timeout: Duration::from_secs(60),
        state_timeout: Duration::from_secs(60),
        checks_syntax: true,
        reads_edited: true,
        command_timeout: Duration::from_secs(60),
        flag: None,
        long_outputs: None,
    };
    let config = agent::config_of(&[
        ("environment.image", json!(IMAGE)),
        ("environment.session", json!(true)),
        ("environment.timeout", json!(60.0)),
    ]);
    let guard = Some(PathBuf::from(PLAIN));
    let inner = session::executor(&config, &id, guard, Vec::new()).unwrap();
    let mut executor = ToolsExecutor::new(inner, &tools, place);
    let context = agent::context();
    executor.start(&context, None).await.unwrap();
    let begin = Instant::now();
    executor.set_up(&context).await.unwrap();
    let took = begin.elapsed();
    executor.cleanup().await;
    took
}
