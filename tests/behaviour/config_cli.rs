//! `config show`, and the commands that run nothing.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::host::Host;
use crate::run::Run;
use crate::story::commands;

fn show(arguments: &[&str]) -> Run {
    host()
        .args(["config", "show"])
        .args(arguments)
        .run()
        .expect(0)
}

fn host() -> Host {
    Host::new()
        .file("a.toml", "[agent]\nstep_limit = 1\ncost_limit = 1.5\n")
        .file(
            "b.yaml",
            "agent:\n  step_limit: 2\n  system_template: s\n  instance_template: i\n",
        )
        .file("up/c.toml", "[plugins.mine]\npath = \"mine.wasm\"\n")
}

/// The line of a key in `config show --origin`.
#[track_caller]
fn line<'r>(run: &'r Run, key: &str) -> &'r str {
    let begin = format!("{key} = ");
    let found = run
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix(&begin));
    found.unwrap_or_else(|| panic!("no `{key}`\n{run}"))
}

#[test]
fn every_value_has_an_origin() {
    let run = show(&["--origin"]);
    for text in run.stdout.lines() {
        let (key, value) = text.split_once(" = ").unwrap();
        assert!(key.contains('.') && value.contains("  # "), "{text}");
    }
    let vectors: [(&[&str], &str, &str); 7] = [
        (&[], "agent.step_limit", "0  # preset default"),
        (&["-c", "a.toml"], "agent.step_limit", "1  # a.toml:2"),
        (
            &["-c", "a.toml", "-c", "agent.step_limit=7"],
            "agent.step_limit",
            "7  # -c agent.step_limit=7",
        ),
        (
            &["-c", "agent.step_limit=7", "-c", "a.toml"],
            "agent.step_limit",
            "1  # a.toml:2",
        ),
        (
            &["-c", "a.toml", "--step-limit", "9"],
            "agent.step_limit",
            "9  # flag --step-limit",
        ),
        // A file of mini-swe-agent replaces the default preset.
        (
            &["-c", "b.yaml", "-c", "a.toml"],
            "agent.cost_limit",
            "1.5  # a.toml:3",
        ),
        (
            &["-c", "text"],
            "pipeline.parser",
            "\"text_regex\"  # preset text",
        ),
    ];
    for (arguments, key, expected) in vectors {
        let run = show(&[&["--origin"], arguments].concat());
        assert!(
            line(&run, key).starts_with(expected),
            "{arguments:?}: {}",
            line(&run, key)
        );
    }
    // Files are relative to the file that names them.
    let run = show(&["--origin", "-c", "up/c.toml"]);
    let path = run.dir.join("up/mine.wasm");
    assert_eq!(
        line(&run, "plugins.mine.path"),
        format!("{path:?}  # up/c.toml:2")
    );
}

#[test]
fn the_environment_is_a_layer_above_the_presets() {
    let with = |name: &str, value: &str, arguments: &[&str]| {
        let arguments = [&["config", "show", "--origin"], arguments].concat();
        host().env(name, value).args(arguments).run()
    };
    let run = with("MSWEA_MODEL_NAME", "openai/gpt-5", &[]).expect(0);
    assert_eq!(
        line(&run, "model.model_name"),
        "\"openai/gpt-5\"  # environment variable MSWEA_MODEL_NAME"
    );
    let run = with("MSWEA_MODEL_NAME", "openai/gpt-5", &["-m", "local/x"]).expect(0);
    assert_eq!(
        line(&run, "model.model_name"),
        "\"local/x\"  # flag --model"
    );
    let run = with("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "4", &[]).expect(0);
    assert!(line(&run, "model.network_retries").ends_with("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT"));
    with("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "many", &[])
        .expect(2)
        .says(&["MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT"]);

    let server = commands(&[]);
    let url = server.url();
    let run = Host::new()
        .env("MSWEA_MODEL_NAME", "local/from-environment")
        .args(["--base-url", &url, "-t", "x", "-o", "traj.json"])
        .run()
        .expect(0);
    assert_eq!(
        server.requests()[0].json()["model"],
        "from-environment",
        "{run}"
    );
}

#[test]
fn the_output_of_config_show_loads_again() {
    for arguments in [
        &[][..],
        &["-c", "text", "-c", "model.model_kwargs.temperature=0.5"],
        &[
            "-c",
            "a.toml",
            "--price",
            "in=1,out=2",
            "-c",
            "environment.env.X=\"a\\\"b\\nc\"",
        ],
        &[
            "-c",
            "b.yaml",
            "-c",
            "plugins.text_regex.config.action_regex=x",
        ],
    ] {
        let first = show(arguments);
        let again = Host::new()
            .file("whole.toml", &first.stdout)
            .args(["config", "show", "--no-default-config", "-c", "whole.toml"])
            .run()
            .expect(0);
        assert_eq!(again.stdout, first.stdout, "{arguments:?}");
    }
}

#[test]
fn no_secret_is_shown() {
    let key = "sk-0123456789abcdef0123456789abcdef";
    let spec = format!("model.model_kwargs.extra_headers.Authorization=Bearer {key}");
    let run = host()
        .args(["config", "show", "--origin", "-c", &spec])
        .run()
        .expect(0);
    let values: Vec<&str> = run
        .stdout
        .lines()
        .filter_map(|line| line.split("  # ").next())
        .collect();
    assert!(!values.join("\n").contains(key), "{run}");
}

#[test]
fn the_schema_has_every_key() {
    let schema = Host::new().args(["config", "schema"]).run().expect(0);
    let schema: Value = serde_json::from_str(&schema.stdout).unwrap();
    let shown = show(&["--origin"]);
    for text in shown.stdout.lines() {
        let key = text.split_once(" = ").unwrap().0;
        let mut at = &schema;
        for part in key.split('.') {
            let below = &at["properties"][part];
            at = if below.is_null() {
                &at["additionalProperties"]
            } else {
                below
            };
        }
        assert!(!at.is_null(), "{key}");
    }
    assert_eq!(
        schema["properties"]["agent"]["properties"]["step_limit"]["type"],
        "integer"
    );
}

#[test]
fn commands_that_only_print() {
    for (arguments, parts) in [
        (
            &["--help"][..],
            &[
                "Usage: mswea-host [OPTIONS]",
                "demo",
                "Exit codes:",
                "130 interrupted",
            ][..],
        ),
        (&["-h"], &["--model <MODEL>"]),
        (
            &["--version"],
            &[concat!("mswea-host ", env!("CARGO_PKG_VERSION"))],
        ),
        (
            &["plugin", "--help"],
            &["inspect", "check", "diff", "cache", "pin"],
        ),
        (
            &["completions", "bash"],
            &["_mswea__host()", "--no-default-config", "complete -F"],
        ),
        (&["completions", "zsh"], &["#compdef mswea-host"]),
        (&["man"], &[".TH mswea-host 1", "no\\-default\\-config"]),
        (
            &["plugin", "list"],
            &[
                "model-adapter",
                "openai",
                "replay",
                "toolcall",
                "text_regex",
                "jinja",
                "blocklist",
            ],
        ),
        (
            &["plugin", "inspect", "toolcall"],
            &[
                "kinds     action-parser",
                "mswea:plugin@0.1.0",
                "sha256",
                "grants    none needed",
            ],
        ),
        (
            &["plugin", "inspect", "models/openai.wasm"],
            &[
                "api.openai.com",
                "OPENAI_API_KEY",
                "stream: boolean, default true",
            ],
        ),
    ] {
        let run = Host::new().args(arguments).run().expect(0);
        assert!(run.stderr.is_empty(), "{run}");
        for part in parts {
            assert!(run.stdout.contains(part), "`{part}` is missing\n{run}");
        }
        // A closed pipe is no error.
        Host::new().args(arguments).unread().run().expect(0);
    }
    for arguments in [
        &["plugin", "list", "--json"][..],
        &["plugin", "inspect", "jinja", "--json"],
    ] {
        let run = Host::new().args(arguments).run().expect(0);
        let value: Value = serde_json::from_str(&run.stdout).unwrap();
        let one = value.get(0).unwrap_or(&value);
        assert_eq!(one["sha256"].as_str().unwrap().len(), 64);
    }
    Host::new()
        .args(["plugin", "inspect", "gone"])
        .run()
        .expect(7)
        .says(&["no plugin `gone`"]);
    Host::new()
        .args(["completions", "tcsh"])
        .run()
        .expect(2)
        .says(&["tcsh", "bash"]);
    Host::new().arg("dmeo").run().expect(2).says(&["dmeo"]);
}

/// The compiled plugins in a cache folder.
fn compiled(cache: &Path) -> usize {
    let files = fs::read_dir(cache.join("mswea-host/wasm"));
    let names = files.into_iter().flatten().map(|file| file.unwrap().path());
    names
        .filter(|path| path.extension().unwrap() == "cwasm")
        .count()
}

#[test]
fn compiled_plugins_are_kept_and_cleared() {
    let cache = tempfile::tempdir().unwrap();
    let host = |arguments: &[&str]| {
        Host::new()
            .args(arguments)
            .env("XDG_CACHE_HOME", cache.path())
            .run()
            .expect(0)
    };
    host(&["plugin", "inspect", "toolcall"]);
    assert_eq!(compiled(cache.path()), 1);
    host(&["plugin", "inspect", "toolcall"]);
    assert_eq!(compiled(cache.path()), 1);
    host(&["plugin", "cache", "clear"]).says(&["removed 1 file "]);
    assert_eq!(compiled(cache.path()), 0);
    host(&["plugin", "cache", "clear"]).says(&["removed 0 files"]);
    let none = Host::new()
        .args(["plugin", "cache", "clear"])
        .env_remove("XDG_CACHE_HOME")
        .env_remove("HOME");
    none.run().expect(0).says(&["there is no cache"]);

    // With `--no-cache` the cache is neither read nor written.
    let server = commands(&[]);
    let run = Host::new().server(&server).task("x").arg("--no-cache");
    run.env("XDG_CACHE_HOME", cache.path()).run().expect(0);
    assert_eq!(compiled(cache.path()), 0);
}

#[test]
fn a_shipped_copy_compiles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("shipped");
    Host::new()
        .arg("ship")
        .arg(&copy)
        .run()
        .expect(0)
        .says(&["wrote", "MB"]);

    let demo = Host::new().program(&copy).empty_cache().arg("demo");
    let run = demo.run().expect(0);
    assert!(run.stdout.starts_with("diff --git"), "{run}");
    assert!(!run.stderr.contains("compiled"), "{run}");
    let home = run.dir.parent().unwrap().join("home");
    assert!(!home.join(".cache").exists());

    // A copy of a copy works as well.
    let second = folder.path().join("second");
    Host::new()
        .program(&copy)
        .arg("ship")
        .arg(&second)
        .run()
        .expect(0);
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    assert_eq!(size(&second), size(&copy));
    Host::new()
        .arg("ship")
        .arg("/proc/nothing/x")
        .run()
        .expect(1)
        .says(&["/proc/nothing"]);
}
