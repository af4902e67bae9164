//! Makes the test program itself one that has the host's hidden subcommands.
//!
//! The harness prints before it runs a test, and what a sandboxed command prints is what is
//! tested: so the subcommands are served before `main`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::executor::{guard, landlock};

// SAFETY: the section holds pointers to functions of this type, which the C library calls once
// each, on the first thread, before `main`; this one needs nothing that `main` sets up.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = serve;

extern "C" fn serve() {
    // Not by `std::env::args`, which not every C library has filled by now.
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let mut args = line
        .strip_suffix(b"\0")
        .unwrap_or_default()
        .split(|byte| *byte == 0)
        .skip(1)
        .map(|arg| OsString::from_vec(arg.to_vec()));
    match args.next().as_deref().and_then(|arg| arg.to_str()) {
        Some(landlock::SUBCOMMAND) => landlock::run(args),
        Some(guard::SUBCOMMAND) => {
            guard::run(&args.next().unwrap_or_default().to_string_lossy(), |_| {});
            std::process::exit(0);
        }
        _ => {}
    }
}
