//! The guests of these tests: built from source by their own cargo, or made from text.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mswea_host::plugin::{Cache, Limits, Loader, Plugin, Recipe};
use serde_json::Value;

const TARGET: &str = "wasm32-wasip2";

/// The plugin of every kind that does what its config says; see `tests/guests/hostile`.
pub fn hostile() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("tests/guests/hostile", "hostile"))
}

/// The honest plugin of every kind with the faults that its config plants; see
/// `tests/guests/faulty`.
pub fn faulty() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("tests/guests/faulty", "faulty"))
}

/// The example of a third party's plugin.
pub fn parser_xml() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("examples/parser-xml", "parser_xml"))
}

/// The hostile plugin with another word for what its `describe` does.
pub fn describing(deed: &str) -> Vec<u8> {
    replaced(
        &fs::read(hostile()).unwrap(),
        "hostile-describe=nothing        ",
        &format!("hostile-describe={deed:15}"),
    )
}

/// The hostile plugin, built for another version of the contract.
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

/// Bytes with every `from` replaced by `to`, which is as long.
fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
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

/// A component from text, with what makes it look like a parser in front of `rest`.
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
    // Through files, as every user does; the code comes from a cache that all tests share.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache/library");
    Loader::new(Some(Cache::at(cache)))
        .load_file(hostile())
        .await
        .unwrap()
}

/// The hostile plugin with a config, under these limits.
pub async fn recipe(config: Value, limits: Limits) -> Recipe {
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
pub fn tight() -> Limits {
    Limits {
        deadline: Duration::from_millis(400),
        memory: 32 << 20,
        output: 1 << 20,
        log: 4 << 10,
    }
}

/// Builds a crate outside the workspace, as its author would.
fn build(folder: &str, name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests");
    fs::create_dir_all(&target).unwrap();
    // Tests run in many processes under some runners.
    let lock = File::create(target.join("tests.lock")).unwrap();
    lock.lock().unwrap();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(root.join(folder))
        .args(["build", "--locked", "--release", "--target", TARGET])
        .arg("--target-dir")
        .arg(&target);
    for (variable, _) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        let keep = ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR"]
            .iter()
            .any(|kept| text.starts_with(kept));
        let of_build = [
            "CARGO",
            "RUSTC",
            "RUSTFLAGS",
            "RUSTDOCFLAGS",
            "LD_LIBRARY_PATH",
        ]
        .iter()
        .any(|start| text.starts_with(start));
        if of_build && !keep {
            cargo.env_remove(variable);
        }
    }
    let output = cargo.output().unwrap();
    assert!(
        output.status.success(),
        "`{folder}` could not be built:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    target
        .join(TARGET)
        .join("release")
        .join(name)
        .with_extension("wasm")
}
