//! `plugin list` and `plugin inspect`: list the built-in plugins, and describe one plugin.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::super::exit::ExitCode;
use super::super::output::{self, Failure};
use super::{load, load_with};
use mswea_plugin_host::{
    Cache, Loader, Plugin, Producers, RoleKind, Source, builtin, producers, wit,
};

fn kinds(plugin: &Plugin) -> Vec<String> {
    plugin.kinds.iter().map(ToString::to_string).collect()
}

/// Lists the built-in plugins.
pub fn list(as_json: bool) -> Result<ExitCode, Failure> {
    let mut rows = Vec::new();
    let (runtime, loader) = (output::runtime()?, Loader::new(Cache::of_user()));
    for builtin in builtin::all() {
        let spec = format!("{}/{}", builtin.folder, builtin.name);
        rows.push((builtin, runtime.block_on(load_with(&loader, &spec))?));
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
                    "variant_of": builtin.variant.map(|variant| variant.of),
                })
            })
            .collect();
        return output::json(&Value::Array(value));
    }
    let width = rows
        .iter()
        .map(|(_, plugin)| plugin.name.len())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    for kind in RoleKind::ALL {
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
    output::text(&text)
}

/// Shows one plugin.
pub fn inspect(spec: &str, as_wit: bool, as_json: bool) -> Result<ExitCode, Failure> {
    let plugin = load(spec)?;
    if as_wit {
        return output::text(&wit(&plugin));
    }
    let producers = plugin
        .bytes()
        .map(|bytes| producers(&bytes))
        .unwrap_or_default();
    let descriptor = &plugin.descriptor;
    let source = match &plugin.source {
        Source::BuiltIn(folder) => format!("built-in ({folder})"),
        Source::File(path) => path.display().to_string(),
    };
    // First-party adapters are granted the configured host and key; others need grants by name.
    let needs_grants = matches!(plugin.source, Source::File(_));
    if as_json {
        return output::json(&json!({
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
            "producers": by_field(&producers),
            "wit": wit(&plugin),
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
    let made = by_field(&producers);
    let lines: Vec<String> = made
        .as_object()
        .into_iter()
        .flatten()
        .map(|(field, tools)| {
            let tools: Vec<&str> = tools
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            format!("{field}: {}", tools.join(", "))
        })
        .collect();
    let _ = writeln!(text, "made with {}", or_none(&lines.join("\n          ")));
    output::text(&text)
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
                // The plugin's text is on lines of its own, so that it can't look like a message of
                // this program.
                for text in doc.lines() {
                    let _ = write!(line, "\n            {}", text.trim());
                }
            }
            line
        })
        .collect();
    or_none(&lines.join("\n          ")).to_owned()
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

/// The tools that made a file, by field.
fn by_field(producers: &Producers) -> Value {
    let mut fields = serde_json::Map::new();
    for (field, tool) in producers {
        let tools = fields.entry(field.clone()).or_insert_with(|| json!([]));
        if let Some(tools) = tools.as_array_mut() {
            tools.push(tool.clone().into());
        }
    }
    fields.into()
}
