//! `plugin cache`: the compiled plugins on disk.

use std::fmt::Write as _;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::super::exit::ExitCode;
use super::super::output::{self, Failure};
use mswea_plugin_host::Cache;

const NO_PLACE: &str = "there is no cache: neither `XDG_CACHE_HOME` nor `HOME` is set";

fn trouble(cache: &Cache, doing: &str, error: &std::io::Error) -> Failure {
    Failure::new(
        ExitCode::Failed,
        format!("can't {doing} `{}`: {error}", cache.folder().display()),
    )
}

/// Lists them.
pub fn list(as_json: bool) -> Result<ExitCode, Failure> {
    let cache = Cache::of_user();
    let entries = match &cache {
        Some(cache) => cache
            .entries()
            .map_err(|error| trouble(cache, "read", &error))?,
        None => Vec::new(),
    };
    let folder = cache
        .as_ref()
        .map(|cache| cache.folder().display().to_string());
    if as_json {
        let plugins: Vec<Value> = entries
            .iter()
            .map(|(entry, written)| {
                let seconds = written
                    .duration_since(SystemTime::UNIX_EPOCH)
                    .map_or(0, |since| since.as_secs());
                json!({
                    "plugin": entry.plugin,
                    "sha256": entry.sha256,
                    "size": entry.size,
                    "compiled": seconds,
                })
            })
            .collect();
        return output::json(&json!({ "folder": folder, "plugins": plugins }));
    }
    let Some(folder) = folder else {
        output::note(NO_PLACE);
        return Ok(ExitCode::Submitted);
    };
    let width = entries.iter().map(|(entry, _)| entry.plugin.len()).max();
    let width = width.unwrap_or_default();
    let mut text = String::new();
    for (entry, written) in &entries {
        let _ = writeln!(
            text,
            "{:width$}  {:>9}  {:>8}  {}",
            entry.plugin,
            format!("{} KB", entry.size.div_ceil(1000)),
            age(*written),
            &entry.sha256.get(..16).unwrap_or_default(),
        );
    }
    let sum: u64 = entries.iter().map(|(entry, _)| entry.size).sum();
    let _ = writeln!(
        text,
        "{} compiled, {} KB in `{folder}`",
        entries.len(),
        sum.div_ceil(1000)
    );
    output::text(&text)
}

/// The age, in the largest unit that fits.
fn age(written: SystemTime) -> String {
    let seconds = SystemTime::now()
        .duration_since(written)
        .map_or(0, |age| age.as_secs());
    match seconds {
        0..60 => "now".to_owned(),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Removes them.
pub fn clear() -> Result<ExitCode, Failure> {
    let Some(cache) = Cache::of_user() else {
        output::note(NO_PLACE);
        return Ok(ExitCode::Submitted);
    };
    let count = cache
        .clear()
        .map_err(|error| trouble(&cache, "clear", &error))?;
    let files = if count == 1 { "file" } else { "files" };
    output::note(&format!(
        "removed {count} {files} from `{}`",
        cache.folder().display()
    ));
    Ok(ExitCode::Submitted)
}
