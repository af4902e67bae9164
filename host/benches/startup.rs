//! How fast the shipped binary is there, and how large it is.
//!
//! `cargo bench --bench startup`

#![allow(clippy::unwrap_used, reason = "a benchmark that can't measure ends")]

mod shared;

use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use shared::ship::{PLAIN, call, ship};
use shared::{Samples, Table, timed};

const ROUNDS: usize = 20;

fn main() -> ExitCode {
    let folder = tempfile::tempdir().unwrap();
    let (shipped, shipping) = timed(|| ship(folder.path()));
    // Once, so that the file is in the page cache: what is measured is the program.
    to_first_request(&shipped);
    let (mut request, mut help, mut nothing) =
        (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        nothing.add_millis(to_end(Command::new("/bin/true").stdin(Stdio::null())));
        let root = tempfile::tempdir().unwrap();
        help.add_millis(to_end(call(&shipped, root.path()).arg("--help")));
        request.add_millis(to_first_request(&shipped));
    }
    let mut plain = Samples::default();
    for _ in 0..3 {
        plain.add_millis(to_first_request(Path::new(PLAIN)));
    }

    let mut table = Table::new("start-up of the shipped binary");
    table.limited(
        "process start to first request, empty HOME",
        "ms",
        &request,
        30.0,
    );
    table.limited("--help", "ms", &help, 10.0);
    table.limited("size", "MB", &megabytes(&shipped), 30.0);
    table.noted(
        "size of the plain binary",
        "MB",
        &megabytes(Path::new(PLAIN)),
    );
    table.noted(
        "plain binary to first request, nothing cached",
        "ms",
        &plain,
    );
    table.noted(
        "`mswea-host ship`",
        "ms",
        &(shipping.as_secs_f64() * 1e3).into(),
    );
    table.noted("/bin/true, for comparison", "ms", &nothing);
    table.finish()
}

#[allow(clippy::cast_precision_loss)] // megabytes, for the eye
fn megabytes(path: &Path) -> Samples {
    (std::fs::metadata(path).unwrap().len() as f64 / 1e6).into()
}

fn to_end(command: &mut Command) -> Duration {
    let (status, took) = timed(|| command.status().unwrap());
    assert!(status.success(), "{command:?}: {status}");
    took
}

/// From the start of the process until the first bytes of its first request are here.
fn to_first_request(program: &Path) -> Duration {
    let root = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let mut command = call(program, root.path());
    command.args(["-m", "local/test", "-t", "hello", "--base-url", &url]);
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut head = [0; 4];
    stream.read_exact(&mut head).unwrap();
    let took = started.elapsed();
    assert_eq!(&head, b"POST");
    child.kill().unwrap();
    child.wait().unwrap();
    took
}
