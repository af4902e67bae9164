//! The checks of a plugin before it is compiled or run, the limits of its compilation, and the file that
//! gets the grants of an entry.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mswea_host::plugin::digest;
use scripted_server::{Scenario, Server};
use serde_json::json;

use super::guests::{describing, hostile};
use crate::host::Host;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the-work";
const KEY: &str = "sk-hostile-0123456789";

/// A run whose adapter is `plugin`, with this entry in the config.
fn run_with(server: &Server, plugin: &str, entry: &str, bytes: &[u8]) -> crate::run::Run {
    let config = json!({
        "base_url": format!("{}/chat/completions", server.url()),
        "secret": "HOSTILE_KEY",
    });
    let host = Host::new()
        .file("other.wasm", bytes)
        .file("grants.toml", entry)
        .server(server)
        .task("t")
        .env("HOSTILE_KEY", KEY);
    fs::copy(hostile(), host.dir().join("own.wasm")).unwrap();
    host.args(["-c", "grants.toml", "--plugin", plugin, "-c"])
        .arg(format!("plugins.{}.config={config}", name(entry)))
        .run()
}

/// The entry's name.
fn name(entry: &str) -> &str {
    entry
        .split_once("[plugins.")
        .unwrap()
        .1
        .split_once(']')
        .unwrap()
        .0
}

/// The hostile plugin with other bytes and the same name.
fn another() -> Vec<u8> {
    let mut bytes = fs::read(hostile()).unwrap();
    // A custom section of no bytes and the name `x`, at the end.
    bytes.extend([0, 2, 1, b'x']);
    bytes
}

#[test]
fn grants_go_to_the_file_that_an_entry_names() {
    let server = Server::start(Scenario::commands(&[SUBMIT, SUBMIT, SUBMIT]));
    let address = server.address().to_string();
    let own = digest(&fs::read(hostile()).unwrap());
    let granted = |what: &str| {
        format!(
            "[plugins.hostile]\n{what}allow_hosts = [{address:?}]\nsecrets = [\"HOSTILE_KEY\"]\n"
        )
    };
    // Another file whose descriptor has the entry's name gets no grants of the entry, which has a path, a
    // digest or neither.
    for (what, code, says) in [
        ("path = \"./own.wasm\"\n".to_owned(), 5, "may not reach"),
        (format!("sha256 = \"{own}\"\n"), 7, "is not the pinned one"),
        (String::new(), 5, "in its descriptor, and gets none of them"),
    ] {
        let run = run_with(&server, "./other.wasm", &granted(&what), &another());
        assert_eq!(server.served(), 0, "{what}\n{run}");
        run.expect(code).says(&[says]);
    }
    // The message names the file.
    let run = run_with(&server, "./other.wasm", &granted(""), &another()).expect(5);
    run.says(&["path = \"./other.wasm\"", "allow_hosts = "]);
    // The named file gets the grants: by its path, in any spelling, and by its digest.
    for what in [
        "path = \"./own.wasm\"\n".to_owned(),
        format!("sha256 = \"{own}\"\n"),
    ] {
        let run = run_with(&server, "../work/own.wasm", &granted(&what), b"x").expect(0);
        assert_eq!(
            run.events("run_started")[0]["plugins"][0]["name"],
            "hostile"
        );
    }
    // An entry may have another name than the plugin.
    let entry = granted("path = \"./own.wasm\"\n").replace("plugins.hostile", "plugins.mine");
    let run = run_with(&server, "./own.wasm", &entry, b"x").expect(0);
    assert_eq!(run.events("run_started")[0]["plugins"][0]["name"], "mine");
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    let sent = format!("Bearer {KEY}");
    assert_eq!(requests[0].header("authorization"), Some(&*sent));
}

#[test]
fn a_pin_is_checked_before_the_plugin_is_run() {
    // `describe` of this plugin never returns.
    let loops = describing("loop");
    let none = "0".repeat(64);
    let entry = format!(
        "[pipeline]\nparser = \"mine\"\n[plugins.mine]\npath = \"./p.wasm\"\nsha256 = \"{none}\"\n"
    );
    let lock = format!("[[plugin]]\nplugin = \"./p.wasm\"\nsha256 = \"{none}\"\n");
    for (file, content, args, says) in [
        (
            "c.toml",
            entry,
            &["-c", "c.toml"][..],
            "plugin `mine` is not the pinned one",
        ),
        (
            "mswea-plugins.lock",
            lock,
            &["--plugin", "./p.wasm"],
            "has changed since it was pinned",
        ),
    ] {
        let server = Server::start(Scenario::commands(&[SUBMIT]));
        let run = Host::new()
            .server(&server)
            .task("t")
            .file("p.wasm", &loops)
            .file(file, content)
            .args(args)
            .run()
            .expect(7);
        assert!(!run.stderr.contains("still running"), "{run}");
        run.says(&[says]);
        assert_eq!(server.served(), 0);
    }
}

/// A small component that takes far too much memory to compile: each of many nested loops has to
/// carry many variables.
fn bomb() -> Vec<u8> {
    let (loops, variables) = (3_000, 3_000);
    let mut body = String::new();
    for _ in 0..loops {
        body.push_str("loop ");
    }
    for n in 0..variables {
        let _ = write!(body, "local.get {n} i64.const {n} i64.add local.set {n} ");
    }
    for _ in 0..loops {
        body.push_str("local.get 0 i64.eqz br_if 0 end ");
    }
    let locals = "(local i64) ".repeat(variables);
    let text = format!("(component (core module (func {locals} {body})))");
    wat::parse_str(text).unwrap()
}

#[test]
fn a_compilation_that_takes_too_much_memory_or_time_is_ended() {
    let host = Host::new()
        .file("bomb.wasm", bomb())
        .timeout(Duration::from_secs(300));
    let size = fs::metadata(host.dir().join("bomb.wasm")).unwrap().len();
    assert!(size < 100_000, "{size}");
    let begun = Instant::now();
    let run = host.args(["plugin", "inspect", "./bomb.wasm"]).run();
    run.expect(7).says(&[
        "`./bomb.wasm` is not compiled",
        "too much for a file of this size",
    ]);
    assert!(begun.elapsed() < Duration::from_secs(240));
}

#[test]
fn the_deadline_of_an_entry_applies_to_describe() {
    let server = Server::start(Scenario::commands(&[SUBMIT]));
    let run = |entry: &str| {
        Host::new()
            .server(&server)
            .task("t")
            .file("p.wasm", describing("loop"))
            .file("c.toml", entry)
            .args(["-c", "c.toml"])
            .run()
            .expect(7)
    };
    run("[pipeline]\nparser = \"mine\"\n[plugins.mine]\npath = \"./p.wasm\"\ndeadline_ms = 321\n")
        .says(&["still running after 321 ms"]);
    // Without an entry there is no key to name; the message says to write an entry.
    run("[pipeline]\nparser = \"./p.wasm\"\n")
        .says(&["`deadline_ms` in an entry `[plugins.NAME]` with `path = "]);
}

#[test]
fn a_component_with_threads_is_refused_with_its_reason() {
    let threads = wat::parse_str("(component (core module (memory 1 1 shared)))").unwrap();
    let path: PathBuf = "threads.wasm".into();
    let run = Host::new()
        .file("threads.wasm", threads)
        .args(["plugin", "inspect"])
        .arg(path)
        .run()
        .expect(7);
    assert!(!run.stderr.contains("damaged"), "{run}");
    run.says(&["can't be compiled", "without this feature"]);
}
