//! `ship`: writes a copy of the program with its plugins as machine code.

use std::path::{Path, PathBuf};

use super::exit::ExitCode;
use super::output::{self, Failure};
use mswea_plugin_host::builtin;

/// Writes the copy.
pub fn run(output: &Path, plugins: &[PathBuf]) -> Result<ExitCode, Failure> {
    let size = builtin::ship(output, plugins)?;
    #[allow(clippy::cast_precision_loss)] // megabytes, for the eye
    let megabytes = size as f64 / 1e6;
    output::note(&format!("wrote `{}` ({megabytes:.1} MB)", output.display()));
    Ok(ExitCode::Submitted)
}
