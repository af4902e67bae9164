//! The guests of these tests: built from source by a nested cargo call, or made from text.

#[path = "../../guests/built.rs"]
mod built;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mswea_host::plugin::{Cache, Loader, Plugin, PluginLimits, Recipe};
use serde_json::Value;

/// A plugin of every kind that does what its config says; see `tests/guests/hostile`.
pub fn hostile() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built::plugin("tests/guests/hostile", "hostile"))
}

/// A correct plugin of every kind, with the faults that its config plants; see
/// `tests/guests/faulty`.
pub fn faulty() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built::plugin("tests/guests/faulty", "faulty"))
}

/// The example of a third party's plugin.
pub fn parser_xml() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built::plugin("examples/parser-xml", "parser_xml"))
}

/// The hostile plugin with another deed in its `describe`.
pub fn describing(deed: &str) -> Vec<u8> {
    replaced(
        &fs::read(hostile()).unwrap(),
        "hostile-describe=nothing        ",
        &format!("hostile-describe={deed:15}"),
    )
}

/// The hostile plugin with another version of the contract in its imports and exports.
pub fn of_contract(version: &str) -> Vec<u8> {
    let mut bytes = fs::read(hostile()).unwrap();
    let interfaces = [
        "types",
        "host",
        "plugin",
        "action-parser",
        "action-policy",
        "history-processor",
        "observation-formatter",
        "model-adapter",
        "body-pieces",
    ];
    for interface in interfaces {
        bytes = replaced(
            &bytes,
            &format!("mswea:plugin/{interface}@0.1.0"),
            &format!("mswea:plugin/{interface}@{version}"),
        );
    }
    bytes
}

/// Bytes with every `from` replaced by `to`, which has the same length.
pub fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len(), "lengths in a component are fixed");
    let mut out = bytes.to_vec();
    let mut found = false;
    for start in 0..=out.len() - from.len() {
        if out[start..].starts_with(from.as_bytes()) {
            out[start..start + to.len()].copy_from_slice(to.as_bytes());
            found = true;
        }
    }
    assert!(found, "`{from}` is not in the plugin");
    out
}

/// A component from text that looks like a parser, with `rest` appended.
pub fn component(rest: &str) -> Vec<u8> {
    let looks = r#"
        (instance $empty)
        (export "mswea:plugin/plugin@0.1.0" (instance $empty))
        (export "mswea:plugin/action-parser@0.1.0" (instance $empty))
    "#;
    wat::parse_str(format!("(component {rest} {looks})")).unwrap()
}

/// A built-in plugin's file, by folder and name.
pub fn built_in(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    target.join("plugins").join(name).with_extension("wasm")
}

/// The hostile plugin, loaded.
pub async fn plugin() -> Arc<Plugin> {
    // All tests share this cache, so the plugin is compiled once.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache/library");
    Loader::new(Some(Cache::at(cache)))
        .load_file(hostile())
        .await
        .unwrap()
}

/// The hostile plugin with a config, under these limits.
pub async fn recipe(config: Value, limits: PluginLimits) -> Recipe {
    let plugin = plugin().await;
    let config = plugin.check_config(&plugin.name, &config).unwrap();
    Recipe {
        name: plugin.name.clone(),
        plugin,
        config: config.to_string(),
        limits,
        seed: 1,
        renderer: None,
        fresh: false,
    }
}

/// Limits that a test reaches soon. The deadline leaves room for a machine under load.
pub fn tight() -> PluginLimits {
    PluginLimits {
        deadline: Duration::from_millis(400),
        memory: 32 << 20,
        output: 1 << 20,
        log: 4 << 10,
    }
}
