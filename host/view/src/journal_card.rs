//! Reads the data for the list from the first and last lines of a journal.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mswea_record::journal::{first_line, is_held, last_lines};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::card::{RunCard, first_of, last_of};
use crate::config_name::{ConfigName, ListedPlugin};
use crate::tally::JournalTally;

/// The parts of the first line that are read; the rest of the config is long.
#[derive(Deserialize)]
struct HeadLine<'l> {
    t: f64,
    event: String,
    run_id: String,
    host_version: String,
    task: String,
    /// The sections, as they are written.
    #[serde(borrow, default)]
    config: BTreeMap<String, &'l RawValue>,
    #[serde(borrow, default)]
    plugins: Option<&'l RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HeadModel {
    model_name: Option<String>,
    secrets_file: Option<PathBuf>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HeadEnvironment {
    environment_class: Option<String>,
}

impl<'l> HeadLine<'l> {
    fn section<T: Default + Deserialize<'l>>(&self, name: &str) -> Result<T, String> {
        let Some(section) = self.config.get(name) else {
            return Ok(T::default());
        };
        serde_json::from_str(section.get()).map_err(|error| format!("it is no journal: {error}"))
    }

    fn config_name(&self) -> String {
        let mut name = ConfigName::default();
        for (section, value) in &self.config {
            name.raw_section(section, value);
        }
        let plugins = self.plugins;
        let plugins =
            plugins.and_then(|it| serde_json::from_str::<Vec<ListedPlugin>>(it.get()).ok());
        name.plugins(&plugins.unwrap_or_default());
        name.name()
    }
}

/// Reads the card of a journal. `tally` is what was counted of the same file before.
///
/// # Errors
/// A message if the file can't be read as a run.
pub(crate) fn read(path: &Path, tally: &mut JournalTally) -> Result<RunCard, String> {
    let file = mswea_files::open(path, u64::MAX).map_err(|error| error.to_string())?;
    let first = first_line(&file).map_err(|error| error.to_string())?;
    let head: HeadLine<'_> =
        serde_json::from_slice(&first).map_err(|error| format!("it is no journal: {error}"))?;
    if head.event != "run_started" {
        return Err("it does not begin with `run_started`".to_owned());
    }
    let (last, end) = last_lines(&file).map_err(|error| error.to_string())?;
    let model: HeadModel = head.section("model")?;
    let environment: HeadEnvironment = head.section("environment")?;
    let config = head.config_name();
    let card = RunCard {
        run_id: head.run_id,
        task: first_of(&head.task),
        model: model.model_name.unwrap_or_default(),
        environment: environment.environment_class.unwrap_or_default(),
        config,
        started: Some(head.t),
        last: Some(last.unwrap_or(head.t)),
        program: format!("mswea-host {}", head.host_version),
        bytes: file.metadata().map(|it| it.len()).unwrap_or_default(),
        secrets_file: model.secrets_file,
        ..RunCard::default()
    };
    if let Some(end) = end {
        let error = end.extra.get("message").and_then(Value::as_str);
        return Ok(RunCard {
            status: end.exit_status,
            steps: end.queries,
            cost: end.cost,
            input: end.usage.input_tokens,
            output: end.usage.output_tokens,
            error: last_of(error.unwrap_or_default()),
            ..card
        });
    }
    tally.go_on(&file).map_err(|error| error.to_string())?;
    let is_running = is_held(&file);
    let status = if is_running { "running" } else { "killed" };
    Ok(RunCard {
        status: status.to_owned(),
        is_running,
        steps: tally.account.queries,
        cost: tally.account.known_cost(),
        input: tally.account.usage.input_tokens,
        output: tally.account.usage.output_tokens,
        ..card
    })
}
