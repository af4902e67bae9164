//! The first-party tools for the model: their size, the time of a call from the start of the program to its end,
//! the time until a toolset is ready in a container, and a step of a run with tools.
//!
//! `cargo bench --bench tools`; with `-- calls`, `-- ready` or `-- steps` only one of them.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't measure ends")]

#[path = "tools/ready.rs"]
mod ready;
mod shared;
#[path = "tools/steps.rs"]
mod steps;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use shared::{Samples, Table, timed};

const ROUNDS: usize = 100;
const LINES: usize = 100_000;

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |part: &str| {
        wanted.iter().all(|it| it.starts_with("--")) || wanted.iter().any(|it| it == part)
    };
    let mut table = Table::new("tools for the model");
    let tokio = shared::agent::tokio_runtime();
    if is_wanted("calls") {
        calls(&mut table);
    }
    if is_wanted("ready") {
        tokio.block_on(ready::ready(&mut table));
    }
    if is_wanted("steps") {
        tokio.block_on(steps::steps(&mut table));
    }
    table.finish()
}

fn calls(table: &mut Table) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("toolbox");
    let bytes = mswea_toolbox_bundle::bytes();
    fs::write(&program, &bytes).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let text: String = (0..LINES)
        .map(|line| format!("    value_{line} = function_{line}(a, b)\n"))
        .collect();
    fs::write(folder.path().join("large.txt"), text).unwrap();
    let tree = folder.path().join("tree");
    for number in 0..2000 {
        let inner = tree.join(format!("{}", number % 40));
        fs::create_dir_all(&inner).unwrap();
        let text = format!("def function_{number}(a):\n    return a\n").repeat(100);
        fs::write(inner.join(format!("{number}.py")), text).unwrap();
    }
    let run = |words: &[&str]| call(&program, folder.path(), words);
    #[allow(clippy::cast_precision_loss)] // kilobytes, for the eye
    let kilobytes = |bytes: usize| Samples::from(bytes as f64 / 1e3);
    let packed = kilobytes(mswea_toolbox_bundle::packed_size());
    table.limited("the program in the binary, packed", "KB", &packed, 500.0);
    table.noted(
        "the program in an environment",
        "KB",
        &kilobytes(bytes.len()),
    );
    table.noted("a call that does nothing", "ms", &run(&["exit_forfeit"]));
    run(&["open", "large.txt", "50000"]);
    let window = "a window of a file of 100,000 lines";
    table.limited(window, "ms", &run(&["goto", "70000"]), 5.0);
    let edit = "replacing a line of it";
    table.noted(edit, "ms", &run(&["edit", "70000:70000", "x"]));
    let search = ["search_dir", "def function_1234(", "tree"];
    table.noted("searching 2,000 files", "ms", &run(&search));
}

fn call(program: &Path, folder: &Path, words: &[&str]) -> Samples {
    let once = || {
        let mut command = Command::new(program);
        command.args(words).current_dir(folder);
        command.env("MSWEA_TOOLS_HOME", folder);
        let ended = command.stdin(Stdio::null()).output().unwrap();
        assert!(ended.status.success(), "{words:?}: {ended:?}");
    };
    (0..ROUNDS)
        .map(|_| timed(once).1.as_secs_f64() * 1e3)
        .collect()
}
