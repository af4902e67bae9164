//! `plugin new` and `plugin build`: make the project of a plugin, and build its component.

use std::fmt::Write as _;

use mswea_scaffold::{Build, New, UnknownKind, UnknownLanguage};

use super::super::args::{BuildArgs, NewArgs};
use super::super::exit::ExitCode;
use super::super::output::{self, Failure};

/// Makes a project.
pub fn new(args: &NewArgs) -> Result<ExitCode, Failure> {
    let wrong = |error: mswea_scaffold::Error| Failure::usage(error.to_string());
    let created = mswea_scaffold::new(&New {
        kind: args
            .kind
            .parse()
            .map_err(|error: UnknownKind| Failure::usage(error.to_string()))?,
        language: args
            .lang
            .parse()
            .map_err(|error: UnknownLanguage| Failure::usage(error.to_string()))?,
        name: args.name.clone(),
        folder: args.path.clone(),
    })
    .map_err(wrong)?;
    let mut text = format!("made `{}`\n", created.folder.display());
    for file in &created.own {
        let _ = writeln!(text, "  {}", file.display());
    }
    let rest = created.files.len().saturating_sub(created.own.len());
    let _ = writeln!(text, "  and {rest} files of the SDK and the contract\n");
    let _ = writeln!(text, "next:");
    for command in &created.next {
        let _ = writeln!(text, "  {command}");
    }
    output::note(text.trim_end());
    Ok(ExitCode::Submitted)
}

/// Builds a project's plugin.
pub fn build(args: &BuildArgs) -> Result<ExitCode, Failure> {
    let options = Build {
        install: args.install,
        verbose: args.verbose,
        development: args.dev,
        path: None,
    };
    let built = mswea_scaffold::build(&args.folder, &options, &mut |line| output::note(line))
        .map_err(|error| {
            let code = match &error {
                mswea_scaffold::Error::NotAProject { .. }
                | mswea_scaffold::Error::Project { .. } => ExitCode::Usage,
                _ => ExitCode::Failed,
            };
            Failure::new(code, error.to_string())
        })?;
    // The path relative to the current folder.
    let here = std::env::current_dir().unwrap_or_default();
    let path = built.path.strip_prefix(&here).unwrap_or(&built.path);
    output::note(&format!(
        "wrote {} ({} KB) in {:.1} s",
        path.display(),
        built.size.div_ceil(1000),
        built.seconds
    ));
    if args.dev {
        output::note(&format!(
            "it reads `plugin.py` at each start: `mswea-host plugin check {} --source {}`, also with `call`; build without `--dev` for runs",
            path.display(),
            args.folder.display()
        ));
    }
    Ok(ExitCode::Submitted)
}
