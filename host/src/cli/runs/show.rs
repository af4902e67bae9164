//! `runs show`: shows a summary of one run.

use std::fmt::Write as _;
use std::io::BufReader;

use serde_json::{Value, json};

use super::card::{Card, Standing, open};
use super::{age, find};
use crate::cli::args::ShowArgs;
use crate::cli::exit::ExitCode;
use crate::cli::front::{Size, account, shorten};
use crate::cli::output::{self, Failure};
use mswea_core::Message;
use mswea_record::journal::{self, Log};
use mswea_run::{Phase, Stage, State};
use mswea_text::one_line;

/// How many of the last messages are shown.
const MESSAGES: usize = 4;
/// How much of a text is shown.
const TEXT: Size = Size {
    head: 4,
    tail: 3,
    width: 160,
};

/// Shows a run.
pub fn show(args: &ShowArgs) -> Result<ExitCode, Failure> {
    let failed = |error: String| Failure::new(ExitCode::Failed, error);
    let journal = find::one(&args.run).map_err(failed)?;
    let card = Card::of(&journal).map_err(failed)?;
    let file = open(&journal).map_err(failed)?;
    let shown = journal.display().to_string();
    let log = journal::read_from(BufReader::new(&file), &shown);
    let log = log.map_err(|error| failed(format!("`{shown}`: {error}")))?;
    let state = mswea_run::fold(&log.records);
    match args.json {
        true => output::json(&value(&card, &log, &state)),
        false => output::text(&text(&card, &log, &state)),
    }
}

fn value(card: &Card, log: &Log, state: &State) -> Value {
    let messages: Vec<&Message> = state.messages.iter().map(|message| &**message).collect();
    let mut value = card.to_json();
    let more = json!({
        "host_version": state.host_version,
        "config": state.config,
        "plugins": state.plugins,
        "usage": state.account.usage,
        "submission": state.ended.as_ref().map(|end| &end.submission),
        "error": error_of(state),
        "unfinished": unfinished(state),
        "torn_line": log.torn.as_ref().map(|torn| torn.line),
        "messages": messages.len(),
        "last_messages": &messages[messages.len().saturating_sub(MESSAGES)..],
    });
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}

fn text(card: &Card, log: &Log, state: &State) -> String {
    let messages = &state.messages;
    let mut out = String::new();
    let mut line = |name: &str, text: &str| {
        for (number, part) in text.lines().enumerate() {
            let name = if number == 0 { name } else { "" };
            let _ = writeln!(out, "{name:<12}{part}");
        }
    };
    line("run", &one_line(&card.run_id));
    line("task", &shorten(&card.task, TEXT).join("\n"));
    let cost = card.cost;
    line(
        "status",
        &format!(
            "{}: {}",
            one_line(card.standing.word()),
            account(card.steps, cost, &state.account.usage)
        ),
    );
    if let Some(error) = error_of(state) {
        line("error", &shorten(&error, TEXT).join("\n"));
    }
    if card.standing == Standing::Killed {
        line("", &unfinished(state).unwrap_or_default());
    }
    let began = age::words(age::now() - card.started);
    let took = age::words(card.last - card.started);
    line(
        "began",
        &format!("{began} ago; its last event came {took} later"),
    );
    let of = |pointer: &str| {
        let value = state.config.pointer(pointer).and_then(Value::as_str);
        one_line(value.unwrap_or_default())
    };
    line("model", &of("/model/model_name"));
    let place = [
        of("/environment/environment_class"),
        of("/environment/image"),
        of("/environment/cwd"),
        of("/workspace/repo"),
    ];
    let place: Vec<String> = place.into_iter().filter(|it| !it.is_empty()).collect();
    line("environment", &place.join(" "));
    for plugin in state.plugins.as_array().into_iter().flatten() {
        let of = |key: &str| one_line(plugin[key].as_str().unwrap_or_default());
        let digest: String = of("sha256").chars().take(12).collect();
        line(
            "plugin",
            &format!(
                "{} {} ({}), sha256 {digest}",
                of("name"),
                of("version"),
                of("kind")
            ),
        );
    }
    line("journal", &card.journal.display().to_string());
    if let Some(torn) = &log.torn {
        line("", &format!("its line {} is cut off", torn.line));
    }
    if card.trajectory.exists() {
        line("trajectory", &card.trajectory.display().to_string());
    }
    line("messages", &messages.len().to_string());
    for message in &messages[messages.len().saturating_sub(MESSAGES)..] {
        let text = shorten(&message.text(), TEXT).join("\n");
        line(&format!("  {}", one_line(&message.role)), &text);
        for action in message
            .extra
            .get("actions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let command = action["command"].as_str().unwrap_or_default();
            line("", &format!("$ {}", shorten(command, TEXT).join("\n")));
        }
    }
    out
}

/// The failure of the run, if one is recorded.
fn error_of(state: &State) -> Option<String> {
    let message = state.ended.as_ref()?.extra.get("message")?;
    Some(message.as_str()?.to_owned())
}

/// The last recorded operation of a run without an end.
fn unfinished(state: &State) -> Option<String> {
    if state.ended.is_some() {
        return None;
    }
    Some(match &state.phase {
        Phase::Idle => "it was between two steps".to_owned(),
        Phase::Querying => format!(
            "it was waiting for the reply to query {}",
            state.account.queries
        ),
        Phase::Replied(_) => "it had a reply of the model that was not yet processed".to_owned(),
        Phase::Acting(step) => match step.open() {
            Some((index, slot)) if slot.stage == Stage::Running => {
                format!("its action {} was running", index + 1)
            }
            _ => "it was between two actions".to_owned(),
        },
    })
}
