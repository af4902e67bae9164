//! The user's own command at the end of a run: to upload the trajectory, to tell somebody.
//!
//! It runs like a command of the agent (a session of its own, a time limit, nothing left behind),
//! but with the whole environment of the host: it is the user's. What it prints goes to stderr,
//! and its failure changes no exit code, because the run is over.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;

use super::exit::ExitCode;
use super::{output, signals};
use crate::config::RunSection;
use crate::executor::{self, LocalSettings, secrecy};
use crate::roles::{Command, Executor as _, StopSource};
use crate::session;

/// What the command is told of the run, in variables.
pub struct Told<'a> {
    /// `MSWEA_EXIT_STATUS`.
    pub exit_status: &'a str,
    /// `MSWEA_EXIT_CODE`.
    pub code: ExitCode,
    /// `MSWEA_TRAJECTORY`, empty if this run has written none: what else lies at that place is
    /// of another run.
    pub trajectory: Option<&'a Path>,
    /// `MSWEA_JOURNAL`, likewise.
    pub journal: Option<&'a Path>,
}

impl Told<'_> {
    fn variables(&self) -> Vec<(&'static str, String)> {
        let absolute = |path: Option<&Path>| {
            let Some(path) = path else {
                return String::new();
            };
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            path.to_string_lossy().into_owned()
        };
        vec![
            ("MSWEA_EXIT_STATUS", self.exit_status.to_owned()),
            ("MSWEA_EXIT_CODE", (self.code as u8).to_string()),
            ("MSWEA_TRAJECTORY", absolute(self.trajectory)),
            ("MSWEA_JOURNAL", absolute(self.journal)),
        ]
    }
}

/// Runs `run.on_end`, if there is one.
pub fn run(section: &RunSection, told: &Told<'_>) {
    let Some(command) = section.on_end.as_deref() else {
        return;
    };
    if command.trim().is_empty() {
        return;
    }
    if let Err(error) = execute(command, section, told) {
        output::warning(&format!("`run.on_end` failed: {error:#}"));
    }
}

fn execute(command: &str, section: &RunSection, told: &Told<'_>) -> anyhow::Result<()> {
    let mut env: BTreeMap<String, String> = secrecy::vars()
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    env.extend(
        told.variables()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    let settings = LocalSettings {
        env,
        timeout: session::seconds(section.on_end_timeout),
        run_id: session::new_run_id(),
        guard_program: std::env::current_exe().ok(),
        ..LocalSettings::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't start the runtime")?;
    let output = runtime.block_on(async {
        let (source, stop) = StopSource::new();
        signals::watch(source).context("can't watch for signals")?;
        let mut executor = executor::LocalExecutor::new(settings);
        let output = executor.execute(&Command::new(command), &stop).await;
        executor.cleanup().await;
        anyhow::Ok(output)
    })?;
    if !output.output.trim().is_empty() {
        output::note(output.output.trim_end());
    }
    match (output.exception_info.as_str(), output.returncode) {
        ("", 0) => Ok(()),
        ("", code) => anyhow::bail!("exit code {code}"),
        (problem, _) => anyhow::bail!("{problem}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_written_is_not_named() {
        let told = |trajectory, journal| {
            let told = Told {
                exit_status: "SetupError",
                code: ExitCode::Usage,
                trajectory,
                journal,
            };
            told.variables().into_iter().map(|(_, value)| value)
        };
        let path = Path::new("/a/t.json");
        let values: Vec<String> = told(None, Some(path)).collect();
        assert_eq!(values, ["SetupError", "2", "", "/a/t.json"]);
        let values: Vec<String> = told(Some(path), None).collect();
        assert_eq!(values, ["SetupError", "2", "/a/t.json", ""]);
    }
}
