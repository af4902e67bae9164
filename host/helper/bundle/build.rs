//! Builds the helper as a static program in a nested cargo call and embeds it.
//! `MSWEA_BUNDLED_HELPER=FILE` takes a prebuilt one instead.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a build script talks to Cargo by printing

#[path = "../../../plugins/bundle/nested.rs"]
mod nested;
mod program;

use std::process::ExitCode;

use program::StaticProgram;

fn main() -> ExitCode {
    let helper = StaticProgram {
        package: "mswea-helper",
        folder: "host/helper",
        what: "helper",
        variable: "MSWEA_BUNDLED_HELPER",
        has_c: false,
    };
    match helper.embed("helper.deflate") {
        Ok(architecture) => {
            println!("cargo::rustc-env=MSWEA_HELPER_ARCHITECTURE={architecture}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
