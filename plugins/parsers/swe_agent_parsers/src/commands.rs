//! The table of commands: those of a bundle's manifest, checked, and their description for the
//! model.

use mswea_sdk::types::{PluginError, Tool};

use crate::format::Format;
use crate::manifest::{BASH, Command};
use crate::signature::Signature;

/// A command with everything that is prepared before a call.
#[derive(Debug)]
pub struct Known {
    /// Its manifest.
    pub command: Command,
    /// Its parsed signature.
    pub signature: Signature,
    /// The format of each argument.
    pub formats: Vec<Format>,
}

/// All commands.
#[derive(Debug)]
pub struct Table {
    commands: Vec<Known>,
    /// Whether there are commands other than the shell.
    pub has_own: bool,
}

impl Table {
    /// Checks the commands of the config; with `bash`, the shell comes first.
    ///
    /// # Errors
    ///
    /// `invalid-config` with the pointer to the wrong value.
    pub fn new(own: Vec<Command>, bash: bool, compat: bool) -> Result<Self, PluginError> {
        let has_own = !own.is_empty();
        let mut commands: Vec<Known> = Vec::new();
        if bash {
            commands.extend(known(Command::bash(), compat).ok());
        }
        for (number, command) in own.into_iter().enumerate() {
            let name = command.name.clone();
            let refuse = |(pointer, what): (String, String)| {
                PluginError::invalid_config(format!("command `{name}`: {what}"))
                    .at(&format!("/commands/{number}{pointer}"))
            };
            if commands.iter().any(|known| known.command.name == name) {
                let what = match name == BASH && bash {
                    true => "the shell has this name: rename it, or set `bash_tool` to false",
                    false => "another command has the same name: rename one",
                };
                return Err(refuse(("/name".to_owned(), what.to_owned())));
            }
            commands.push(known(command, compat).map_err(refuse)?);
        }
        Ok(Self { commands, has_own })
    }

    /// A command by its name.
    pub fn get(&self, name: &str) -> Option<&Known> {
        let mut commands = self.commands.iter();
        commands.find(|known| known.command.name == name)
    }

    /// The commands.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter().map(|known| &known.command)
    }

    /// The commands as tools for the model.
    pub fn tools(&self) -> Vec<Tool> {
        self.commands().map(Command::tool).collect()
    }

    /// The commands as a text, as in SWE-agent's `command_docs`.
    pub fn documentation(&self) -> String {
        self.commands().map(Command::documentation).collect()
    }

    /// Their names, for a message.
    pub fn names(&self) -> String {
        let names: Vec<_> = self
            .commands()
            .map(|command| format!("`{}`", command.name))
            .collect();
        names.join(", ")
    }
}

fn known(command: Command, compat: bool) -> Result<Known, (String, String)> {
    command.check()?;
    command.check_names(compat)?;
    let signature = Signature::new(&command, compat).map_err(|what| {
        let what = format!("its signature is not usable: {what}");
        ("/signature".to_owned(), what)
    })?;
    let strip_quotes = command.quotes() && !compat;
    let formats = command
        .arguments
        .iter()
        .map(|argument| Format::new(&argument.argument_format, strip_quotes))
        .collect();
    Ok(Known {
        command,
        signature,
        formats,
    })
}
