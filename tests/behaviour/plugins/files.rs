//! Files that are not plugins, or are of the wrong version or the wrong kind: each has its own message.

use std::fs;
use std::path::Path;

use mswea_host::plugin::{Loader, builtin};
use scripted_server::{Scenario, Server, Turn};
use serde_json::Value;

use super::guests::{built_in, component, describing, hostile, of_contract, parser_xml};
use crate::host::Host;

fn text(wat: &str) -> Vec<u8> {
    wat::parse_str(wat).unwrap()
}

/// Files of other kinds, each with the expected message.
fn bad_files() -> Vec<(&'static str, Vec<u8>, &'static [&'static str])> {
    vec![
        ("empty", vec![], &["is an empty file", "build it again"]),
        (
            "text",
            b"#!/bin/sh\necho hi\n".to_vec(),
            &["not a WebAssembly component", "\"#!/bin/s\""],
        ),
        (
            "binary",
            vec![0x7f, b'E', b'L', b'F', 0xff, 0, 0, 0],
            &["not a WebAssembly component", "[7f, 45, 4c, 46]"],
        ),
        (
            "core",
            text("(module)"),
            &["core WebAssembly module", "wasm32-wasip2"],
        ),
        (
            "magic",
            b"\0asm".to_vec(),
            &["damaged or incomplete", "ends after 4 bytes"],
        ),
        (
            "header",
            b"\0asm\x0d\0\x01\0".to_vec(),
            &["not a plugin", "exports nothing"],
        ),
        (
            "garbage",
            b"\0asm\x0d\0\x01\0 and then some text".to_vec(),
            &["damaged or incomplete"],
        ),
        (
            "nothing",
            text("(component)"),
            &["is a component but not a plugin", "exports nothing"],
        ),
        (
            "stranger",
            text(r#"(component (instance $i) (export "acme:tool/run@1.0.0" (instance $i)))"#),
            &["is a component but not a plugin", "acme:tool/run@1.0.0"],
        ),
        (
            "no-kind",
            text(r#"(component (instance $i) (export "mswea:plugin/plugin@0.1.0" (instance $i)))"#),
            &["has no kind", "model-adapter, action-parser"],
        ),
        (
            "no-descriptor",
            text(
                r#"(component (instance $i) (export "mswea:plugin/action-parser@0.1.0" (instance $i)))"#,
            ),
            &["exports `action-parser` but not `mswea:plugin/plugin@0.1.0`"],
        ),
        (
            "unversioned",
            text(r#"(component (instance $i) (export "mswea:plugin/plugin" (instance $i)))"#),
            &[
                "version unknown of the contract",
                "this host has version 0.1.0",
            ],
        ),
        (
            "newer",
            of_contract("0.2.0"),
            &[
                "too new",
                "version 0.2.0",
                "this host has version 0.1.0",
                "update mswea-host",
            ],
        ),
        (
            "major",
            of_contract("1.0.0"),
            &["too new", "version 1.0.0", "this host has version 0.1.0"],
        ),
        (
            "older",
            of_contract("0.0.9"),
            &[
                "too old",
                "version 0.0.9",
                "this host has version 0.1.0",
                "SDK of 0.1.0",
            ],
        ),
        (
            "import",
            component(r#"(import "acme:net/http@1.0.0" (instance (export "get" (func))))"#),
            &[
                "imports `acme:net/http@1.0.0`, which the host does not have",
                "nothing else",
            ],
        ),
        (
            "http",
            component(r#"(import "wasi:http/outgoing-handler@0.2.0" (instance))"#),
            &[
                "imports `wasi:http/outgoing-handler@0.2.0`",
                "plugins do no I/O",
                "model-adapter.wit",
            ],
        ),
        (
            "wasi-0.3",
            component(r#"(import "wasi:cli/environment@0.3.0" (instance))"#),
            &["imports `wasi:cli/environment@0.3.0`", "WASI 0.2"],
        ),
        (
            "host-0.2",
            component(r#"(import "mswea:plugin/host@0.2.0" (instance))"#),
            &["too new", "version 0.2.0"],
        ),
        (
            "host-later",
            component(r#"(import "mswea:plugin/later@0.1.0" (instance))"#),
            &["imports `mswea:plugin/later@0.1.0`", "update mswea-host"],
        ),
        (
            "host-function",
            component(r#"(import "mswea:plugin/host@0.1.0" (instance (export "fetch" (func))))"#),
            &["does not fit the contract 0.1.0", "fetch", "build it again"],
        ),
        (
            "types",
            component(""),
            &["does not fit the contract 0.1.0", "build it again"],
        ),
        (
            "name",
            describing("name"),
            &["name \"../../etc/passwd\" is not made of"],
        ),
        (
            "no-json",
            describing("no-json"),
            &["config schema is not JSON"],
        ),
        (
            "no-schema",
            describing("no-schema"),
            &["config schema is no JSON Schema"],
        ),
        (
            "ref-loop",
            describing("ref-loop"),
            &[
                "its config schema is too deep",
                "refers to itself has no end",
            ],
        ),
        (
            "panics",
            describing("panic"),
            &[
                "failed in `describe`",
                "the guest's last words, in `describe`",
            ],
        ),
        (
            "exits",
            describing("exit"),
            &["failed in `describe`", "it called `exit("],
        ),
        (
            "recurses",
            describing("recurse"),
            &["failed in `describe`", "its stack overflowed"],
        ),
        (
            "eats",
            describing("bomb"),
            &["failed in `describe`", "more than 256 MiB of memory"],
        ),
        (
            "returns",
            describing("big"),
            &["failed in `describe`", "returned more than 16 MiB"],
        ),
        ("lies", describing("claim"), &["failed in `describe`"]),
        (
            "start-traps",
            component(
                "(core module $m (func $f unreachable) (start $f)) (core instance (instantiate $m))",
            ),
            &["failed in `instantiation`", "trapped"],
        ),
        (
            "memory",
            component("(core module $m (memory 10000)) (core instance (instantiate $m))"),
            &["more than 256 MiB of memory"],
        ),
        (
            "memories",
            component(
                "(core module $m (memory 3000)) (core instance (instantiate $m)) (core instance (instantiate $m))",
            ),
            &["more than 256 MiB of memory"],
        ),
        (
            "table",
            component("(core module $m (table 3000000 funcref)) (core instance (instantiate $m))"),
            &[
                "failed in `instantiation`",
                "exceeds table limits",
                "tables of together 1048576 elements",
            ],
        ),
        (
            "instances",
            component(&format!(
                "(core module $m) {}",
                "(core instance (instantiate $m))".repeat(100)
            )),
            &[
                "failed in `instantiation`",
                "a plugin may have 64 instances",
            ],
        ),
    ]
}

#[test]
fn each_bad_file_gets_its_own_message_and_exit_code_7() {
    for (name, bytes, parts) in bad_files() {
        let file = format!("{name}.wasm");
        let run = Host::new()
            .file(&file, bytes)
            .args(["plugin", "inspect", &file])
            .run();
        let run = run.expect(7).says(parts).says(&["error: ", &file]);
        assert!(run.stdout.is_empty(), "{run}");
        assert!(!run.stderr.contains("panicked at host"), "{run}");
        assert!(!run.stderr.contains('\u{1b}'), "{run}");
    }
}

#[test]
fn an_endless_describe_and_an_endless_start_are_stopped() {
    let start =
        "(core module $m (func $f (loop br 0)) (start $f)) (core instance (instantiate $m))";
    for (bytes, call) in [
        (describing("loop"), "describe"),
        (describing("sleep"), "describe"),
        (component(start), "instantiation"),
    ] {
        let run = Host::new()
            .file("p.wasm", bytes)
            .args(["plugin", "inspect", "p.wasm"]);
        let call = format!("failed in `{call}`");
        run.run()
            .expect(7)
            .says(&[&call, "still running after 5000 ms"]);
    }
}

#[test]
fn output_of_describe_is_cut_and_made_harmless() {
    let host = Host::new().file("p.wasm", describing("flood"));
    let run = host.args(["plugin", "inspect", "p.wasm"]).run().expect(0);
    assert!(run.stderr.len() < 200_000, "{} bytes", run.stderr.len());
    let host = Host::new().file("p.wasm", describing("escapes"));
    let run = host.args(["plugin", "inspect", "p.wasm"]).run().expect(0);
    assert!(run.stdout.contains("red: ␇ second line"), "{run}");
    assert!(!run.stdout.contains(['\u{1b}', '\u{7}']), "{run}");
}

#[tokio::test]
async fn a_plugin_cut_at_any_length_is_refused() {
    let whole = fs::read(built_in("parsers/toolcall")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.wasm");
    let loader = Loader::new(None);
    let len = whole.len();
    for cut in [
        1,
        3,
        5,
        7,
        9,
        100,
        1000,
        len / 4,
        len / 2,
        len * 9 / 10,
        len - 100,
        len - 1,
    ] {
        fs::write(&path, &whole[..cut]).unwrap();
        let error = loader.load_file(&path).await.unwrap_err().to_string();
        assert!(error.contains("cut.wasm"), "{cut}: {error}");
        let known = [
            "damaged or incomplete",
            "not a WebAssembly component",
            "is a component but not a plugin",
        ];
        assert!(
            known.iter().any(|part| error.contains(part)),
            "{cut}: {error}"
        );
        assert!(error.len() < 1000, "{error}");
    }
    // Four damaged bytes.
    for place in [8, 12, len / 3, len / 2] {
        let mut bytes = whole.clone();
        bytes[place..place + 4].copy_from_slice(&[0xff; 4]);
        fs::write(&path, &bytes).unwrap();
        // The bytes may be data, so the plugin may load. Only a crash would be wrong.
        drop(loader.load_file(&path).await);
    }
}

#[test]
fn a_missing_file_a_folder_and_a_device_are_refused() {
    let cases: [(&str, &[&str]); 5] = [
        (
            "missing.wasm",
            &["can't read plugin `missing.wasm`", "No such file"],
        ),
        (
            "sub/missing",
            &["can't read plugin `sub/missing`", "No such file"],
        ),
        (".", &["can't read plugin `.`", "directory"]),
        (
            "/dev/zero",
            &["can't read plugin `/dev/zero`", "not a regular file"],
        ),
        (
            "toolcal",
            &[
                "there is no plugin `toolcal`",
                "did you mean `toolcall`?",
                "`text_regex`",
            ],
        ),
    ];
    for (name, parts) in cases {
        let run = Host::new().args(["plugin", "inspect", name]).run();
        run.expect(7).says(parts);
    }
}

#[test]
fn a_plugin_of_a_later_patch_version_is_loaded() {
    let host = Host::new().file("p.wasm", of_contract("0.1.7"));
    let run = host.args(["plugin", "inspect", "p.wasm"]).run().expect(0);
    assert!(run.stdout.contains("mswea:plugin@0.1.7"), "{run}");
}

#[test]
fn a_bad_plugin_ends_a_run_before_it_begins() {
    let server = Server::start(Scenario::commands(&["true"]));
    for flags in [
        vec!["--plugin", "bad.wasm"],
        vec!["-c", "pipeline.parser=bad.wasm"],
        vec!["-c", r#"pipeline.policies=["bad.wasm"]"#],
    ] {
        let host = Host::new().server(&server).task("t").file("bad.wasm", "");
        let run = host.args(&flags).run().expect(7);
        run.says(&["plugin `", "bad.wasm` is an empty file"]);
    }
    // A plugin of the wrong kind.
    let host = Host::new().server(&server).task("t");
    let run = host
        .args(["-c", "pipeline.parser=blocklist"])
        .run()
        .expect(7);
    run.says(&["plugin `blocklist` can't be used as action-parser: it is `action-policy`"]);
    assert_eq!(server.served(), 0);
}

#[test]
fn a_plugin_of_a_third_party_is_described_and_works() {
    let path = parser_xml().to_str().unwrap();
    let run = Host::new()
        .args(["plugin", "inspect", path])
        .run()
        .expect(0);
    for part in [
        "xml 0.1.0",
        "Takes the command from `<run>...</run>`",
        "kinds     action-parser",
        "contract  mswea:plugin@0.1.0",
        path,
        "grants    none needed",
    ] {
        assert!(run.stdout.contains(part), "`{part}` is missing\n{run}");
    }
    let run = Host::new()
        .args(["plugin", "inspect", "--json", path])
        .run();
    let report: Value = serde_json::from_str(&run.expect(0).stdout).unwrap();
    let bytes = fs::read(path).unwrap();
    assert_eq!(report["sha256"], mswea_host::plugin::digest(&bytes));
    assert_eq!(report["size"], bytes.len());
    let server = Server::start(Scenario::new([
        Turn::text("no command"),
        Turn::text("<run>echo from-xml</run>"),
        Turn::text("<run>echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done</run>"),
    ]));
    let host = Host::new().server(&server).task("t");
    let run = host.args(["--plugin", path]).run().expect(0).nothing_left();
    assert!(run.stdout.contains("done"), "{run}");
    let requests = server.requests();
    let told = requests[1].json()["messages"].to_string();
    assert!(told.contains("Put one command into <run>"), "{told}");
    assert!(
        requests[2].json()["messages"]
            .to_string()
            .contains("from-xml")
    );
}

#[test]
fn inspect_shows_the_grants_that_an_adapter_needs() {
    let path = hostile().to_str().unwrap();
    let run = Host::new()
        .args(["plugin", "inspect", path])
        .run()
        .expect(0);
    for part in [
        "kinds     model-adapter, action-parser, observation-formatter, history-processor, action-policy",
        "to be given in the config:",
        "[plugins.hostile]",
        r#"allow_hosts = ["hostile.example"]"#,
        r#"secrets = ["HOSTILE_KEY"]"#,
        "base_url: string",
        "Where requests go.",
        "mswea:plugin/host@0.1.0",
    ] {
        assert!(run.stdout.contains(part), "`{part}` is missing\n{run}");
    }
}

#[test]
fn embedded_plugins_are_the_files_in_the_target_folder() {
    assert!(!builtin::all().is_empty());
    // Variants share the component of the plugin that they are variants of.
    for plugin in builtin::all()
        .iter()
        .filter(|plugin| plugin.variant.is_none())
    {
        let name = format!("{}/{}", plugin.folder, plugin.name);
        let file = fs::read(built_in(&name)).unwrap();
        assert!(
            file == plugin.wasm(),
            "`{name}` differs from what is embedded"
        );
        assert_eq!(plugin.sha256, mswea_host::plugin::digest(&file));
    }
    assert!(Path::new(&built_in("parsers/text_regex")).is_file());
}
