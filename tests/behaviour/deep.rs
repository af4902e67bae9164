//! What is nested without end, or is small and stands for much: it is refused with a message, and ends neither the
//! program nor the other instances of a batch.

use std::fs;
use std::path::Path;

use scripted_server::Server;

use crate::host::Host;
use crate::needs::Need;
use crate::story::{commands, model};

const DEEP: usize = 100_000;

/// A number as thrift's compact protocol writes it.
fn number(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A parquet file without rows, whose schema has so many groups in one another.
fn nested_parquet(groups: usize) -> Vec<u8> {
    // The version; then the list of the schema's elements, of which the first one is the root.
    let mut footer = vec![0x15, 0x02, 0x19, 0xfc];
    footer.extend(number(groups as u64 + 2));
    footer.extend([0x48, 1, b'r', 0x15, 2, 0]);
    for _ in 0..groups {
        footer.extend([0x35, 2, 0x18, 1, b'g', 0x15, 2, 0]);
    }
    footer.extend([0x15, 0x0c, 0x25, 2, 0x18, 1, b'x', 0]);
    // No rows, no groups of rows.
    footer.extend([0x16, 0, 0x19, 0x0c, 0]);
    in_parquet(&footer)
}

fn in_parquet(footer: &[u8]) -> Vec<u8> {
    let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
    [b"PAR1", footer, &length, b"PAR1"].concat()
}

#[test]
fn a_file_of_instances_that_is_nested_deeply_is_refused() {
    let server = commands(&[]);
    let lists = "[".repeat(DEEP) + &"]".repeat(DEEP);
    // A list that says that it has two thousand million items.
    let mut endless = vec![0x15, 0x02, 0x19, 0xfc];
    endless.extend(number(2_000_000_000));
    for (name, content, reason) in [
        // The reader may be able to read this one.
        ("i.parquet", nested_parquet(5_000), "i.parquet"),
        ("i.parquet", nested_parquet(DEEP), "nested too deeply"),
        ("i.parquet", in_parquet(&endless), "no parquet file"),
        ("i.json", lists.clone().into_bytes(), "recursion limit"),
        (
            "i.jsonl",
            format!("{{\"id\": {lists}}}\n").into_bytes(),
            "recursion limit",
        ),
    ] {
        let run = Host::new()
            .file(name, content)
            .args(["batch", "run", "out", "--instances", name])
            .server(&server)
            .run()
            .expect(2)
            .says(&[name, reason]);
        assert!(run.stderr.len() < 2_000, "{run}");
    }
    // Not the nesting itself is refused.
    let run = Host::new()
        .file("i.parquet", nested_parquet(20))
        .args(["batch", "run", "out", "--instances", "i.parquet"])
        .server(&server)
        .run()
        .expect(2)
        .says(&["has no instances"]);
    assert!(!run.dir.join("out").exists(), "{run}");
}

#[test]
fn configs_and_records_that_are_nested_deeply_are_refused() {
    let server = commands(&[]);
    let lists = "[".repeat(DEEP) + &"]".repeat(DEEP);
    let maps = "{\"a\":".repeat(DEEP) + "1" + &"}".repeat(DEEP);
    for (name, content) in [
        ("c.yaml", lists.clone()),
        ("c.yaml", "{a: ".repeat(DEEP)),
        ("c.yaml", "- ".repeat(DEEP)),
        (
            "c.yaml",
            "agent:\n  step_limit: ".to_owned() + &"1".repeat(1 << 20),
        ),
        ("c.toml", format!("a = {lists}")),
        ("c.toml", format!("[{}a]", "a.".repeat(DEEP))),
        ("c.toml", format!("{}a = 1", "a.".repeat(DEEP))),
    ] {
        let run = Host::new().file(name, content).args(["-c", name]);
        let run = run.server(&server).task("x").run().expect(2).says(&[name]);
        assert!(run.stderr.len() < 4_000, "{run}");
    }
    for (name, content) in [
        ("t.traj.json", format!("{{\"messages\": {lists}}}")),
        ("t.traj.json", maps.clone()),
        ("t.traj", format!("{{\"history\": {lists}}}")),
        ("t.events.jsonl", format!("{maps}\n")),
        (
            "t.atif.json",
            format!("{{\"schema_version\": \"ATIF-v1.4\", \"steps\": {lists}}}"),
        ),
    ] {
        for command in [
            &["export", name, "--to", "atif"][..],
            &["replay", name],
            &["resume", name],
            &["fork", name, "--at", "1"],
            &["runs", "show", name],
            &["sweagent", "run-replay", "--traj_path", name],
        ] {
            let run = Host::new().file(name, &content).args(command).run();
            assert!((1..100).contains(&run.status), "{run}");
            assert!(run.stderr.len() < 4_000, "{run}");
        }
    }
}

/// A batch of one instance whose repository can't be copied and one whose can.
fn batch(host: Host, server: &Server, more: &[&str]) -> crate::run::Run {
    host.args(["batch", "run", "out", "--instances", "i.jsonl"])
        .args(["--repo-template", "repos/{{ repo }}"])
        .server(server)
        .args(["-l", "0", "-w", "2", "--retry-wait", "1"])
        .args(more)
        .run()
}

#[test]
fn a_deep_repository_ends_no_other_instance() {
    if !Need::Docker.is_met() {
        return;
    }
    let server = model();
    let host = Host::new()
        .file(
            "i.jsonl",
            "{\"id\": \"deep\", \"task\": \"t\", \"repo\": \"deep\"}\n{\"id\": \"deepest\", \"task\": \"t\", \"repo\": \"deepest\"}\n{\"id\": \"flat\", \"task\": \"t\", \"repo\": \"flat\"}\n",
        )
        .file("repos/flat/a", "a");
    nested(&host.dir().join("repos/deep"), 1_800);
    nested(&host.dir().join("repos/deepest"), 5_000);
    let run = batch(host, &server, &["--image", "mswea-test/bash"]);
    assert!(run.status >= 0, "{run}");
    let status = |id: &str| {
        let text = fs::read_to_string(run.dir.join(format!("out/{id}/result.json")));
        let result: serde_json::Value = serde_json::from_str(&text.unwrap()).unwrap();
        result["exit_status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status("flat"), "Submitted", "{run}");
    assert_ne!(status("deepest"), "Submitted", "{run}");
    status("deep");
    mswea_host::executor::remove_tree(&run.dir.join("repos")).unwrap();
}

/// Folders in one another.
fn nested(top: &Path, count: usize) {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    fs::create_dir_all(top).unwrap();
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, top, flags, Mode::empty()).unwrap();
    for _ in 0..count {
        mkdirat(&at, "d", Mode::from(0o755)).unwrap();
        at = openat(&at, "d", flags, Mode::empty()).unwrap();
    }
}
