//! Gives the test program the host's hidden subcommands.
//!
//! The harness prints before it runs a test, and the output of sandboxed commands is tested, so the
//! subcommands run before `main`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::{guard, landlock};

// SAFETY: the section holds pointers to functions of this type, which the C library calls once
// each, on the first thread, before `main`; this function needs nothing that `main` sets up.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = serve;

extern "C" fn serve() {
    // Without `std::env::args`, which not every C library has filled by now.
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
