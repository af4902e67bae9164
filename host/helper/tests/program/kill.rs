//! `mswea-helper kill`.

use std::process::{Child, Command, Stdio};

use crate::client::*;

/// A command with `count` processes that have the nap in their arguments.
struct Tree {
    child: Child,
    nap: String,
}

impl Tree {
    fn start(command: &str, variable: &str, value: &str) -> Self {
        let nap = nap();
        let child = Command::new("bash")
            .args(["-c", &command.replace("NAP", &nap)])
            .env(variable, value)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let tree = Self { child, nap };
        wait_for(command, || tree.sleeping() == 2);
        tree
    }

    fn sleeping(&self) -> usize {
        let is_sleep = |pid: &String| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
        };
        pids(&self.nap).into_iter().filter(is_sleep).count()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for pid in pids(&self.nap) {
            let _ = Command::new("kill").args(["-9", &pid]).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kill(id: &str) -> Option<i32> {
    let mut helper = Command::new(HELPER);
    // The helper carries the mark itself, as its caller in a container may.
    let status = helper.args(["kill", id]).env("MSWEA_RUN_ID", id).status();
    status.unwrap().code()
}

#[test]
fn processes_with_the_id_and_their_descendants_are_killed() {
    let id = fresh_id();
    let run =
        |(command, variable, value): (&str, &str, String)| Tree::start(command, variable, &value);
    let meant = [
        ("sleep NAP & sleep NAP; :", "MSWEA_RUN_ID", id.clone()),
        (
            "trap '' TERM; (setsid sleep NAP &) ; sleep NAP; :",
            "MSWEA_ACTION",
            format!("outer:{id}"),
        ),
        (
            "env -i sleep NAP & sleep NAP; :",
            "MSWEA_RUN_ID",
            format!("{id}:inner"),
        ),
        (
            "sleep NAP & sleep NAP & kill -STOP $$; :",
            "MSWEA_RUN_ID",
            id.clone(),
        ),
    ]
    .map(run);
    let others = [
        ("sleep NAP & sleep NAP; :", "MSWEA_RUN_ID", format!("{id}x")),
        ("sleep NAP & sleep NAP; :", "MSWEA_RUN_IDS", id.clone()),
        (
            "sleep NAP & sleep NAP; :",
            "MSWEA_ACTION",
            format!("{id}.1"),
        ),
    ]
    .map(run);
    assert_eq!(kill(&id), Some(0));
    for tree in &meant {
        assert_eq!(tree.sleeping(), 0);
    }
    for tree in &others {
        assert_eq!(tree.sleeping(), 2);
    }
    // No process is left.
    assert_eq!(kill(&id), Some(0));
}

#[test]
fn says_when_one_is_left() {
    if !is_root("says_when_one_is_left") {
        return;
    }
    let id = fresh_id();
    let nobody = (60_000 + std::process::id() % 5000).to_string();
    let copy = std::env::temp_dir().join(&id);
    std::fs::copy(HELPER, &copy).unwrap();
    // A child of root whose parent gives up its privileges.
    let command = format!("sleep NAP & exec setpriv --reuid {nobody} --clear-groups sleep NAP");
    let tree = Tree::start(&command, "MSWEA_RUN_ID", &id);
    let copied = copy.to_str().unwrap();
    let status = Command::new("setpriv")
        .args(["--reuid", &nobody, "--clear-groups", copied, "kill", &id])
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
    assert_eq!(tree.sleeping(), 1);
    assert_eq!(kill(&id), Some(0));
    assert_eq!(tree.sleeping(), 0);
    std::fs::remove_file(copy).unwrap();
}

#[test]
fn says_when_it_cannot_see() {
    if !is_root("says_when_it_cannot_see") {
        return;
    }
    // A `/proc` without processes.
    let command = format!("mount -t tmpfs none /proc && exec {HELPER} kill nobody");
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &command])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(text.contains("can't be seen in `/proc`"), "{text}");
}

#[test]
fn other_arguments_are_refused() {
    for arguments in [
        &["kill"][..],
        &["kill", ""],
        &["run", "--", "true"],
        &[],
        &["x"],
    ] {
        let output = Command::new(HELPER).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("usage: "));
    }
}
