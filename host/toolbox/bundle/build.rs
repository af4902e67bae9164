//! Builds the toolbox as a static program in a nested cargo call and embeds it.
//! `MSWEA_BUNDLED_TOOLBOX=FILE` takes a prebuilt one instead.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a build script talks to Cargo by printing

#[path = "../../../plugins/bundle/nested.rs"]
mod nested;
#[path = "../../helper/bundle/program.rs"]
mod program;

use std::process::ExitCode;

use program::StaticProgram;

fn main() -> ExitCode {
    let toolbox = StaticProgram {
        package: "mswea-toolbox",
        folder: "host/toolbox",
        what: "toolbox",
        variable: "MSWEA_BUNDLED_TOOLBOX",
        has_c: true,
    };
    match toolbox.embed("toolbox.deflate") {
        Ok(architecture) => {
            println!("cargo::rustc-env=MSWEA_TOOLBOX_ARCHITECTURE={architecture}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
