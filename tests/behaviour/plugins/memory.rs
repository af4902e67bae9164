//! The host's memory while guests try to make it grow, measured in a separate process.

use std::fs;
use std::process::Command;

use serde_json::json;

use super::guests::{hostile, recipe, tight};
use super::limits::Role;

/// The peak of this process's memory in bytes since the last reset.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// Runs one case; started by the test below in a process of its own.
#[tokio::test]
#[ignore = "a part of `the_host_does_not_grow_with_its_guests`"]
async fn one_case() {
    let Ok(case) = std::env::var("MSWEA_TEST_CASE") else {
        return;
    };
    let words: Vec<&str> = case.split(' ').collect();
    let (call, deed, size) = (words[0], words[1], words[2].parse::<usize>().unwrap());
    let config = json!({"at": call, "do": deed, "size": size, "from": 2});
    let mut limits = tight();
    limits.deadline = std::time::Duration::from_secs(60);
    limits.memory = 48 << 20;
    let mut role = Role::of(call, recipe(config, limits).await).await.unwrap();
    role.step().await.unwrap();
    // `5` resets the peak to what is used now.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = peak();
    for _ in 0..4 {
        // Whether the call fails does not matter here.
        drop(role.step().await);
    }
    println!("grown by {} KiB", peak().saturating_sub(before) >> 10);
}

#[test]
fn the_host_does_not_grow_with_its_guests() {
    hostile();
    // The call, the deed and its size; and the allowed growth in MiB: of the guest's memory (at most
    // 48 MiB, which only some deeds use), plus that of the host.
    let cases = [
        ("judge bomb 0", 48 + 8),
        ("judge recurse 0", 8),
        ("judge claim 0", 4),
        ("judge flood 0", 8),
        ("parse flood 0", 8),
        // The guest makes a text of 16 MiB (twice, while it grows); the host takes at most 1 MiB of it.
        ("judge big 16777216", 48 + 4),
        ("finish big 16777216", 48 + 4),
        ("parse many 200000", 32 + 8),
    ];
    for (case, allowed) in cases {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "plugins::memory::one_case",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env("MSWEA_TEST_CASE", case)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{case}: {text}");
        let grown: usize = text
            .split("grown by ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next()?.parse().ok())
            .unwrap_or_else(|| panic!("{case}: {text}"));
        assert!(
            grown < allowed << 10,
            "{case}: {grown} KiB, {allowed} MiB allowed"
        );
    }
}
