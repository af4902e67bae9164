//! The waiting times of authors of plugins: the first call of a plugin in each language and later
//! calls, `plugin diff` on a thousand recorded steps, and a run with a shadow.
//!
//! `cargo bench --bench authors`
//!
//! The plugins are those that `plugin new parser` makes, built by `plugin build`. A language
//! without a toolchain is reported as skipped; `MSWEA_AUTHORS=DIR` keeps the projects for the next
//! run.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't measure ends")]

mod shared;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mswea_host::experiment::{self, RecordedRuns};
use mswea_host::plugin::{Cache, Loader, RoleKind};
use mswea_host::roles::{ConfiguredRole, Maker as _, Message, Reply};
use mswea_host::session::{Runtime, outside};
use mswea_scaffold::{Build, Language, New};
use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};
use shared::agent::{self, Clocked};
use shared::ship::PLAIN;
use shared::{Samples, Table};

fn main() -> ExitCode {
    let mut table = Table::new("authors: plugins of four languages, experiments");
    let folder = tempfile::tempdir().unwrap();
    let projects = std::env::var_os("MSWEA_AUTHORS")
        .map_or_else(|| folder.path().join("projects"), PathBuf::from);
    let cache = Cache::at(folder.path().join("cache"));
    let runtime = agent::tokio_runtime();
    for (language, load, warm) in [
        (Language::Rust, 3.0, 25.0),
        (Language::C, 3.0, 25.0),
        (Language::Js, 20.0, 100.0),
        (Language::Python, 60.0, 50.0),
    ] {
        table.note(format!(
            "a parser in {} is built; the first time, its tools are installed",
            language.word()
        ));
        match parser(language, &projects) {
            Ok(file) => runtime.block_on(language_figures(
                &mut table,
                language,
                &file,
                &cache,
                (load, warm),
            )),
            Err(reason) => table.note(format!("SKIPPED {}: {reason}", language.word())),
        }
    }
    diff_figures(&mut table, &runtime, &cache, folder.path());
    runtime.block_on(shadow_figures(&mut table, folder.path()));
    table.finish()
}

/// The parser that `plugin new` makes in this language, built.
fn parser(language: Language, projects: &Path) -> Result<PathBuf, String> {
    let name = format!("bench_{}", language.word());
    let folder = projects.join(&name);
    if !folder.exists() {
        std::fs::create_dir_all(projects).unwrap();
        let made = mswea_scaffold::new(&New {
            kind: mswea_scaffold::PluginKind::Parser,
            language,
            name,
            folder: Some(folder.clone()),
        });
        made.map_err(|error| error.to_string())?;
    }
    let options = Build {
        install: true,
        ..Build::default()
    };
    let built = mswea_scaffold::build(&folder, &options, &mut |_| {});
    built
        .map(|built| built.path)
        .map_err(|error| error.to_string())
}

async fn language_figures(
    table: &mut Table,
    language: Language,
    file: &Path,
    cache: &Cache,
    (load_limit, warm_limit): (f64, f64),
) {
    let language = language.word();
    let reply = reply();
    // Into the cache.
    let loader = Loader::new(Some(cache.clone()));
    let plugin = loader
        .load_file(file)
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    if let Some(took) = plugin.take_compile_time() {
        table.noted(
            &format!("{language}: compiling, once"),
            "ms",
            &Samples::from(took.as_secs_f64() * 1e3),
        );
    }
    let (mut loads, mut warm) = (Samples::default(), Samples::default());
    for _ in 0..15 {
        let started = Instant::now();
        let loader = Loader::new(Some(cache.clone()));
        let plugin = loader
            .load_file(file)
            .await
            .unwrap_or_else(|e| panic!("{e}"));
        assert!(
            plugin.take_compile_time().is_none(),
            "it comes from the cache"
        );
        let made = outside::maker(plugin)
            .make(RoleKind::ActionParser, &json!({}), false)
            .await;
        let Ok(ConfiguredRole::Parser(mut parser)) = made else {
            panic!("the template's parser works with its defaults");
        };
        parser.parse(&reply).await.unwrap();
        loads.add_millis(started.elapsed());
        for _ in 0..20 {
            parser.parse(&reply).await.unwrap();
        }
        for _ in 0..200 {
            let started = Instant::now();
            parser.parse(&reply).await.unwrap();
            warm.add_micros(started.elapsed(), 1);
        }
    }
    table.limited(
        &format!("{language}: load from the cache and first call"),
        "ms",
        &loads,
        load_limit,
    );
    table.limited(
        &format!("{language}: warm parse of 2 KB"),
        "µs",
        &warm,
        warm_limit,
    );
}

/// A reply of 2 KB with the command of each template's parser in it.
fn reply() -> Reply {
    let mut text = "The quick brown fox jumps over the lazy dog.\n".repeat(44);
    text.push_str("```bash\nls -l\n```\n");
    Reply {
        message: Message::new("assistant", text),
        ..Reply::default()
    }
}

const RUNS: usize = 20;
const STEPS: usize = 50;

/// Two configs of one parser on a thousand recorded steps.
fn diff_figures(
    table: &mut Table,
    runtime: &tokio::runtime::Runtime,
    cache: &Cache,
    folder: &Path,
) {
    let runs = folder.join("runs");
    std::fs::create_dir(&runs).unwrap();
    for run in 0..RUNS {
        let path = runs.join(format!("run-{run}.traj.json"));
        std::fs::write(path, trajectory(run).to_string()).unwrap();
    }
    let load = || {
        let loader = Loader::new(Some(cache.clone()));
        runtime
            .block_on(loader.load("parsers/text_regex"))
            .unwrap_or_else(|e| panic!("{e}"))
    };
    table.note("plugin diff");
    load();
    let (mut all, mut compared) = (Samples::default(), Samples::default());
    let mut threads = 0;
    for _ in 0..5 {
        let started = Instant::now();
        let (old, new) = (load(), load());
        let recorded = RecordedRuns::load(std::slice::from_ref(&runs)).unwrap();
        assert_eq!(recorded.steps(), RUNS * STEPS);
        let read = Instant::now();
        let comparison = experiment::diff(
            Arc::new(outside::maker(old)),
            Arc::new(outside::maker(new)),
            &json!({}),
            &json!({"action_regex": "```bash\\n(.*?)\\n```"}),
            RoleKind::ActionParser,
            &recorded,
            &experiment::DiffOptions::default(),
        )
        .unwrap();
        let page = comparison.to_html();
        assert!(!page.is_empty());
        threads = comparison.threads;
        assert_eq!(comparison.counts.compared(), (RUNS * STEPS) as u64);
        all.add(started.elapsed().as_secs_f64());
        compared.add_millis(read.elapsed());
    }
    table.limited(
        &format!("plugin diff: {} steps, read and compared", RUNS * STEPS),
        "s",
        &all,
        2.0,
    );
    table.noted(
        &format!("of that comparing, on {threads} threads"),
        "ms",
        &compared,
    );
}

fn trajectory(run: usize) -> Value {
    let mut messages = vec![
        json!({"role": "system", "content": "You work in a shell."}),
        json!({"role": "user", "content": "Mend it."}),
    ];
    for step in 0..STEPS {
        let fence = if step % 3 == 0 {
            "bash"
        } else {
            "mswea_bash_command"
        };
        let text = format!(
            "{}\n```{fence}\necho {run} {step}\n```\n",
            "I look at the next file, and think about it.\n".repeat(40)
        );
        messages.push(json!({"role": "assistant", "content": text,
            "extra": {"actions": [{"command": format!("echo {run} {step}")}]}}));
        messages.push(json!({"role": "user", "content": "x\n".repeat(1_000)}));
    }
    messages.push(json!({"role": "exit", "content": "", "extra": {"exit_status": "Submitted"}}));
    json!({"info": {"exit_status": "Submitted"}, "messages": messages,
        "trajectory_format": "mini-swe-agent-1.1"})
}

/// A run of 100 steps without latency, alternately alone and with a second parser as a shadow.
async fn shadow_figures(table: &mut Table, folder: &Path) {
    let runtime = Runtime::new(Some(Cache::at(folder.join("run-cache"))));
    let server = Server::start(Scenario::always(Turn::commands(&["true"]))).recording(false);
    let config = agent::config(&server.url(), folder, 101, true);
    let shadows = ["text_regex".to_owned()];
    let (mut ratios, mut alone, mut shadowed) =
        (Samples::default(), Samples::default(), Samples::default());
    table.note("14 rounds of 100 steps, alone and with a shadow");
    for round in 0..14 {
        let mut took = [Duration::ZERO; 2];
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for which in order {
            let journal = Clocked::create(folder.join(format!("{round}-{which}.jsonl")));
            let agent = agent::prepare_shadowed(
                &runtime,
                &config,
                &format!("bench-{round}-{which}"),
                journal,
                Some(PathBuf::from(PLAIN)),
                &shadows[..which],
            )
            .await;
            let started = Instant::now();
            agent.run().await;
            took[which] = started.elapsed();
        }
        // The first ones warm up.
        if round < 2 {
            continue;
        }
        alone.add_millis(took[0]);
        shadowed.add_millis(took[1]);
        ratios.add(took[1].as_secs_f64() / took[0].as_secs_f64());
    }
    table.noted("100 steps alone", "ms", &alone);
    table.noted("100 steps with a shadow", "ms", &shadowed);
    table.limited("with a shadow / alone", "", &ratios, 1.05);
}
