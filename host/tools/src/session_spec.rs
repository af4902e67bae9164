//! A program that the commands of a bundle keep open between actions (a debugger, a network
//! client), as described in the bundle's manifest below `interactive_sessions`. The keys are those
//! of SWE-agent 0.7.

use std::time::Duration;

use mswea_config::yaml::Mark;
use serde_json::{Map, Value};

/// A program that stays open.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSpec {
    /// The name that commands use for the program.
    pub name: String,
    /// The command that starts it.
    pub cmdline: String,
    /// The text that the program prints when it is ready for the next line.
    pub prompt: String,
    /// The command of the bundle that starts the program, for messages.
    pub start_command: String,
    /// The command of the bundle that ends the program, for messages.
    pub exit_command: String,
    /// The input lines that end the program.
    pub quit_lines: Vec<String>,
    /// The largest number of interruptions.
    pub interrupts: u32,
    /// The time limit for the answer to an interruption.
    pub interrupt_timeout: Duration,
    /// The longest time without output; none: the time limit of a command.
    pub no_output_timeout: Option<Duration>,
    /// The commands of the program's bundle.
    pub commands: Vec<String>,
    /// The place of the name in the manifest.
    pub mark: Mark,
}

impl SessionSpec {
    /// The keys of a session in a manifest.
    pub(crate) const KEYS: &[&str] = &[
        "cmdline",
        "terminal_prompt_pattern",
        "start_command",
        "exit_command",
        "quit_commands_in_session",
        "signal_for_interrupt_limit",
        "timeout_duration_on_interrupt",
        "no_output_timeout",
    ];

    /// Reads an entry.
    ///
    /// # Errors
    /// The key that is wrong or missing, and the expected value.
    pub(crate) fn read(
        name: &str,
        entry: &Map<String, Value>,
        mark: Mark,
    ) -> Result<Self, (&'static str, &'static str)> {
        let text = |key: &'static str, wanted: &'static str| {
            let text = entry.get(key).and_then(Value::as_str).unwrap_or_default();
            match text.trim().is_empty() {
                true => Err((key, wanted)),
                false => Ok(text.to_owned()),
            }
        };
        let seconds = |key: &'static str| match entry.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let number = value.as_f64();
                let number = number.filter(|number| *number > 0.0 && *number <= 86_400.0);
                let time = number.and_then(|number| Duration::try_from_secs_f64(number).ok());
                time.map(Some).ok_or((
                    key,
                    "write a number of seconds above 0, at most 86400 (a day)",
                ))
            }
        };
        let lines = match entry.get("quit_commands_in_session") {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::Array(lines)) => lines
                .iter()
                .map(|line| line.as_str().map(str::to_owned))
                .collect(),
            Some(_) => None,
        };
        let interrupts = match entry.get("signal_for_interrupt_limit") {
            None | Some(Value::Null) => Some(3),
            Some(value) => {
                let number = value.as_u64().filter(|number| *number <= 100);
                number.and_then(|number| u32::try_from(number).ok())
            }
        };
        Ok(Self {
            name: name.to_owned(),
            cmdline: text("cmdline", "write the command that starts the program")?,
            prompt: text(
                "terminal_prompt_pattern",
                "write what the program prints when it is ready, as `\"(gdb) \"`",
            )?,
            start_command: text(
                "start_command",
                "write the command of the bundle that starts it",
            )?,
            exit_command: text(
                "exit_command",
                "write the command of the bundle that closes it",
            )?,
            quit_lines: lines.ok_or((
                "quit_commands_in_session",
                "write a list of texts, as `[quit]`",
            ))?,
            interrupts: interrupts.ok_or((
                "signal_for_interrupt_limit",
                "write a number from 0 on, at most 100",
            ))?,
            interrupt_timeout: seconds("timeout_duration_on_interrupt")?
                .unwrap_or(Duration::from_secs(5)),
            no_output_timeout: seconds("no_output_timeout")?,
            commands: Vec::new(),
            mark,
        })
    }

    /// The program that must be installed: the first word of the command.
    pub(crate) fn program(&self) -> &str {
        self.cmdline.split_whitespace().next().unwrap_or_default()
    }

    /// Whether a command line contains a command of the bundle as a word. Only then may the output
    /// make requests to this program: the output of any other command may contain foreign texts.
    pub(crate) fn is_named_in(&self, line: &str) -> bool {
        let is_inside = |c: char| c.is_ascii_alphanumeric() || "_-.+".contains(c);
        line.split(|c: char| !is_inside(c))
            .any(|word| self.commands.iter().any(|command| command == word))
    }
}
