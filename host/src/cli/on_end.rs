//! The user's own command at the end of a run (`run.on_end`), for example to upload the trajectory
//! or to send a message.
//!
//! It runs like a command of the agent (in a session of its own, with a time limit, and all its
//! processes are ended), but with all environment variables of the host, because the user wrote it. Keys are not
//! among them: commands of this and other runs of the same user could read them there. Its shell gets those that
//! the command names, by a socket.
//! Its output goes to stderr. Its failure does not change the exit code, because the run has
//! already ended.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;

use super::exit::ExitCode;
use super::{output, signals};
use mswea_config::RunSection;
use mswea_core::{Command, Executor as _};
use mswea_executor::LocalSettings;
use mswea_secrecy as secrecy;

/// The facts about an ended run that the command gets in variables.
pub struct EndedRun<'a> {
    /// `MSWEA_EXIT_STATUS`.
    pub exit_status: &'a str,
    /// `MSWEA_EXIT_CODE`.
    pub code: ExitCode,
    /// `MSWEA_TRAJECTORY`, empty if this run has written none: a file at that path then belongs to
    /// another run.
    pub trajectory: Option<&'a Path>,
    /// `MSWEA_JOURNAL`, likewise.
    pub journal: Option<&'a Path>,
}

impl EndedRun<'_> {
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
pub fn run(section: &RunSection, ended: &EndedRun<'_>) {
    let Some(command) = section.on_end.as_deref() else {
        return;
    };
    if command.trim().is_empty() {
        return;
    }
    if let Err(error) = execute(command, section, ended) {
        output::warning(&format!("`run.on_end` failed: {error:#}"));
    }
}

fn execute(command: &str, section: &RunSection, ended: &EndedRun<'_>) -> anyhow::Result<()> {
    let variables = secrecy::vars().into_iter().chain(secrecy::supplied());
    let variables = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let (mut keys, env): (BTreeMap<_, _>, BTreeMap<_, _>) = variables.partition(|(name, value)| {
        secrecy::is_hidden(name) || mswea_config::is_secret_entry(name, value)
    });
    keys.retain(|name, _| names(command, name));
    let own = ended.variables().into_iter();
    let own = own.map(|(name, value)| (name.to_owned(), value));
    let settings = LocalSettings {
        env: env.into_iter().chain(own).collect(),
        keys,
        timeout: mswea_session::seconds(section.on_end_timeout),
        run_id: mswea_session::new_run_id(),
        guard_program: std::env::current_exe().ok(),
        ..LocalSettings::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't start the runtime")?;
    let output = runtime.block_on(async {
        let stop = signals::stop()?;
        let mut executor = mswea_executor::LocalExecutor::new(settings);
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

/// Whether the text of a command has the name of a variable as a word.
fn names(command: &str, name: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_name = !name.starts_with(|letter: char| letter.is_ascii_digit());
    !name.is_empty()
        && is_name
        && command
            .split(|letter| !is_part(letter))
            .any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_the_keys_that_it_gets() {
        for (command, name, wanted) in [
            ("curl -H \"X: $MY_KEY\"", "MY_KEY", true),
            ("curl -H X:${MY_KEY:-none}", "MY_KEY", true),
            ("MY_KEY=$MY_KEY ./upload", "MY_KEY", true),
            ("echo $MY_KEYS $A_MY_KEY", "MY_KEY", false),
            ("env", "MY_KEY", false),
            ("echo $1_KEY; rm -r a-b", "1_KEY", false),
            ("rm -r a-b", "a-b", false),
            ("rm", "", false),
        ] {
            assert_eq!(names(command, name), wanted, "{command} {name}");
        }
    }

    #[test]
    fn what_was_not_written_is_not_named() {
        let ended = |trajectory, journal| {
            let ended = EndedRun {
                exit_status: "SetupError",
                code: ExitCode::Usage,
                trajectory,
                journal,
            };
            ended.variables().into_iter().map(|(_, value)| value)
        };
        let path = Path::new("/a/t.json");
        let values: Vec<String> = ended(None, Some(path)).collect();
        assert_eq!(values, ["SetupError", "2", "", "/a/t.json"]);
        let values: Vec<String> = ended(Some(path), None).collect();
        assert_eq!(values, ["SetupError", "2", "/a/t.json", ""]);
    }
}
