//! Deeds that are the same in every function.

use std::hint::black_box;
use std::io::Write as _;

use mswea_sdk::host::{Level, log};

/// The bytes that `flood` writes to each of three streams: the log, standard output, standard error.
const FLOOD: usize = 4 << 20;

/// Does the deed if it is one of these. The caller handles other deeds.
pub fn act(deed: &str, at: &str) {
    match deed {
        "loop" => endless(),
        "bomb" => bomb(),
        "recurse" => {
            black_box(recurse(black_box(1), u64::MAX));
        }
        "recurse-wide" => {
            black_box(recurse_wide(black_box(1)));
        }
        "panic" => panic!("the guest's last words, in `{at}`"),
        "panic-escapes" => panic!("red: \x1b[31m, title: \x1b]0;owned\x07"),
        "flood" => flood(),
        "flood-on" => loop {
            flood();
        },
        "flood-panic" => {
            flood();
            panic!("last words after a flood");
        }
        "greedy" => {
            // Handles the refusal of a large allocation.
            let mut bytes: Vec<u8> = Vec::new();
            assert!(bytes.try_reserve_exact(3 << 30).is_err());
        }
        "exit" => std::process::exit(3),
        "sleep" => std::thread::sleep(std::time::Duration::from_secs(3600)),
        _ => {}
    }
}

fn endless() -> ! {
    let mut count = 0_u64;
    loop {
        count = black_box(count.wrapping_add(1));
    }
}

fn bomb() -> ! {
    let mut all = Vec::new();
    loop {
        all.push(vec![black_box(1_u8); 1 << 20]);
        black_box(&all);
    }
}

/// Fills the native stack: its frames need no linear memory.
#[inline(never)]
fn recurse(depth: u64, most: u64) -> u64 {
    if depth == most {
        return depth;
    }
    // Rotating keeps the compiler from turning it into a loop.
    recurse(depth + 1, most).rotate_left(3) ^ depth
}

/// Fills the stack in linear memory.
#[inline(never)]
fn recurse_wide(depth: u64) -> u64 {
    let frame = black_box([depth; 4096]);
    if depth == u64::MAX {
        return frame[0];
    }
    recurse_wide(depth + 1).rotate_left(3) ^ black_box(frame)[7]
}

fn flood() {
    let line = "a line of a flood that nobody wants to read, and nobody should have to keep\n";
    let mut error = std::io::stderr().lock();
    let mut output = std::io::stdout().lock();
    for _ in 0..FLOOD / line.len() {
        log(Level::Warn, line);
        // The host may refuse a write.
        let _ = error.write_all(line.as_bytes());
        let _ = output.write_all(line.as_bytes());
    }
    let _ = output.flush();
}

/// A text of this many bytes.
pub fn big(bytes: usize) -> String {
    "x".repeat(bytes)
}

/// A text whose length is given as 1 GiB, of which 64 bytes exist.
pub fn claim() -> String {
    const GIB: usize = 1 << 30;
    let start = Box::leak(Box::new([b'x'; 64])).as_mut_ptr();
    // SAFETY: this is unsound on purpose: the host has to refuse the text. The guest returns it and does
    // not read it.
    unsafe { String::from_raw_parts(start, GIB, GIB) }
}
