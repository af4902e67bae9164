//! `plugin list`, `plugin inspect`, `plugin clear-cache` and `ship`.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::exit::ExitCode;
use super::output::{self, Failure};
use crate::plugin::{Cache, Kind, LoadError, Loader, Plugin, Source, builtin};

fn load(spec: &str) -> Result<std::sync::Arc<Plugin>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(ExitCode::Failed, error.to_string()))?;
    runtime
        .block_on(Loader::new(Cache::of_user()).load(spec))
        .map_err(|error: LoadError| Failure::new(ExitCode::Plugin, error.to_string()))
}

fn kinds(plugin: &Plugin) -> Vec<String> {
    plugin.kinds.iter().map(ToString::to_string).collect()
}

/// Lists the built-in plugins.
pub fn list(as_json: bool) -> Result<ExitCode, Failure> {
    let mut rows = Vec::new();
    for builtin in builtin::all() {
        let plugin = load(&format!("{}/{}", builtin.folder, builtin.name))?;
        rows.push((builtin, plugin));
    }
    if as_json {
        let value: Vec<Value> = rows
            .iter()
            .map(|(builtin, plugin)| {
                json!({
                    "name": &*plugin.name,
                    "folder": builtin.folder,
                    "kinds": kinds(plugin),
                    "version": plugin.descriptor.version,
                    "summary": plugin.descriptor.summary,
                    "sha256": plugin.digest,
                    "size": plugin.size,
                })
            })
            .collect();
        return print_json(&Value::Array(value));
    }
    let width = rows
        .iter()
        .map(|(_, plugin)| plugin.name.len())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    for kind in Kind::ALL {
        let of_kind: Vec<_> = rows
            .iter()
            .filter(|(_, plugin)| plugin.kinds.contains(&kind))
            .collect();
        if of_kind.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{kind}");
        for (_, plugin) in of_kind {
            let _ = writeln!(
                text,
                "  {:width$}  {}",
                plugin.name, plugin.descriptor.summary
            );
        }
    }
    let _ = writeln!(
        text,
        "\n`mswea-host plugin inspect NAME` shows one with its config."
    );
    output::data(|out| out.write_all(text.as_bytes()))
}

/// Shows one plugin.
pub fn inspect(spec: &str, as_json: bool) -> Result<ExitCode, Failure> {
    let plugin = load(spec)?;
    let descriptor = &plugin.descriptor;
    let source = match &plugin.source {
        Source::BuiltIn(folder) => format!("built-in ({folder})"),
        Source::File(path) => path.display().to_string(),
    };
    // First-party adapters are granted what is configured; only others have to be given it.
    let needs_grants = matches!(plugin.source, Source::File(_));
    if as_json {
        return print_json(&json!({
            "name": &*plugin.name,
            "version": descriptor.version,
            "summary": descriptor.summary,
            "kinds": kinds(&plugin),
            "contract": plugin.contract,
            "source": source,
            "size": plugin.size,
            "sha256": plugin.digest,
            "imports": plugin.imports,
            "grants": {
                "hosts": descriptor.hosts,
                "secrets": descriptor.secrets,
                "to_be_given": needs_grants,
            },
            "config_schema": descriptor.config_schema,
        }));
    }
    let mut text = String::new();
    let _ = writeln!(text, "{} {}", plugin.name, descriptor.version);
    let _ = writeln!(text, "  {}\n", descriptor.summary);
    let _ = writeln!(text, "kinds     {}", kinds(&plugin).join(", "));
    let _ = writeln!(text, "contract  mswea:plugin@{}", plugin.contract);
    let _ = writeln!(text, "source    {source}");
    let _ = writeln!(text, "size      {} KiB", plugin.size.div_ceil(1024));
    let _ = writeln!(text, "sha256    {}", plugin.digest);
    let _ = writeln!(
        text,
        "imports   {}",
        or_none(&plugin.imports.join("\n          "))
    );
    if descriptor.hosts.is_empty() && descriptor.secrets.is_empty() {
        let _ = writeln!(text, "grants    none needed");
    } else {
        let lines = format!(
            "[plugins.{}]\n          allow_hosts = {}\n          secrets = {}",
            plugin.name,
            json!(descriptor.hosts),
            json!(descriptor.secrets)
        );
        let why = if needs_grants {
            "to be given in the config:"
        } else {
            "as a built-in plugin it may use the configured base URL and key; by default:"
        };
        let _ = writeln!(text, "grants    {why}\n          {lines}");
    }
    let _ = writeln!(
        text,
        "config    {}",
        config_table(&descriptor.config_schema)
    );
    output::data(|out| out.write_all(text.as_bytes()))
}

/// The properties of a config schema, one a line.
fn config_table(schema: &Value) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return "none".into();
    };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let lines: Vec<String> = properties
        .iter()
        .map(|(key, property)| {
            let kind = match property.get("type") {
                Some(Value::String(kind)) => kind.clone(),
                Some(Value::Array(kinds)) => kinds
                    .iter()
                    .filter_map(Value::as_str)
                    .collect::<Vec<_>>()
                    .join(" or "),
                _ => "any".into(),
            };
            let mut line = format!("{key}: {kind}");
            if required.contains(&key.as_str()) {
                line.push_str(", required");
            }
            if let Some(default) = property.get("default") {
                let default = default.to_string();
                let shown: String = default.chars().take(60).collect();
                let more = if shown.len() < default.len() {
                    "..."
                } else {
                    ""
                };
                let _ = write!(line, ", default {shown}{more}");
            }
            if let Some(doc) = property.get("description").and_then(Value::as_str) {
                let _ = write!(line, "\n            {doc}");
            }
            line
        })
        .collect();
    or_none(&lines.join("\n          ")).to_owned()
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

fn print_json(value: &Value) -> Result<ExitCode, Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(ExitCode::Failed, error.to_string()))?;
    output::data(|out| writeln!(out, "{text}"))
}

/// Removes compiled plugins.
pub fn clear_cache() -> Result<ExitCode, Failure> {
    let Some(cache) = Cache::of_user() else {
        output::note("there is no cache: neither `XDG_CACHE_HOME` nor `HOME` is set");
        return Ok(ExitCode::Submitted);
    };
    let count = cache.clear().map_err(|error| {
        Failure::new(
            ExitCode::Failed,
            format!("can't clear `{}`: {error}", cache.folder().display()),
        )
    })?;
    let files = if count == 1 { "file" } else { "files" };
    output::note(&format!(
        "removed {count} {files} from `{}`",
        cache.folder().display()
    ));
    Ok(ExitCode::Submitted)
}

/// Writes the binary that carries its plugins as machine code.
pub fn ship(output: &Path) -> Result<ExitCode, Failure> {
    let size = builtin::ship(output)?;
    #[allow(clippy::cast_precision_loss)] // megabytes, for the eye
    let megabytes = size as f64 / 1e6;
    output::note(&format!("wrote `{}` ({megabytes:.1} MB)", output.display()));
    Ok(ExitCode::Submitted)
}
