//! Flags about the user at a terminal.

use clap::Args;

use super::Overrides;

/// The heading of these flags.
const PERSON: &str = "At a terminal";

/// What a user at a terminal is asked. Without a terminal nobody is asked.
#[derive(Clone, Debug, Default, Args)]
pub struct PersonArgs {
    /// Run commands without asking, as `--mode yolo`
    #[arg(short, long, help_heading = PERSON, overrides_with = "mode")]
    pub yolo: bool,

    /// `confirm` asks before commands run, `yolo` does not, in `human` you give the commands
    #[arg(long, value_name = "MODE", help_heading = PERSON,
          value_parser = ["confirm", "yolo", "human"], hide_possible_values = true)]
    pub mode: Option<String>,

    /// Ask before a submission ends the run; also by default
    #[arg(long, help_heading = PERSON, overrides_with = "exit_immediately")]
    pub confirm_exit: bool,

    /// End the run with the submission, without asking
    #[arg(long, help_heading = PERSON)]
    pub exit_immediately: bool,

    /// Ring the terminal's bell when an answer is awaited
    #[arg(long, help_heading = PERSON)]
    pub notify: bool,

    /// What was approved in the run that goes on.
    #[arg(skip)]
    pub approved: Vec<String>,

    /// What waits for the next step of the run that goes on.
    #[arg(skip)]
    pub said: Option<String>,
}

impl PersonArgs {
    /// The config values of the flags.
    pub(super) fn add_to(&self, overrides: &mut Overrides) {
        match self.yolo {
            true => overrides.add("agent.mode", "--yolo", Some("yolo")),
            false => overrides.add("agent.mode", "--mode", self.mode.as_ref()),
        }
        let confirm = self.confirm_exit.then_some(true);
        overrides.add("agent.confirm_exit", "--confirm-exit", confirm);
        let exit = self.exit_immediately.then_some(false);
        overrides.add("agent.confirm_exit", "--exit-immediately", exit);
    }
}
