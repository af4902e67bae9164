//! The table of commands: what a bundle's manifest says of them, checked, and what the model is
//! told of them.

use mswea_sdk::types::{PluginError, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::arguments::Format;
use crate::python::is_name;
use crate::signature::Signature;

/// The name of the shell as a tool.
pub const BASH: &str = "bash";

/// A command, as a bundle of SWE-agent describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Its first word.
    pub name: String,
    #[serde(default)]
    docstring: Option<String>,
    /// How it is written.
    #[serde(default)]
    pub signature: Option<String>,
    /// The line that ends its text, where it takes one.
    #[serde(default)]
    pub end_name: Option<String>,
    /// What it takes.
    #[serde(default)]
    pub arguments: Vec<Argument>,
}

/// An argument of a command.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its type in words of JSON Schema.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    description: String,
    /// Whether every call has to give it.
    pub required: bool,
    /// The only values, if not all are good.
    #[serde(default, rename = "enum")]
    pub choices: Option<Vec<String>>,
    #[serde(default)]
    items: Option<Map<String, Value>>,
    #[serde(default = "default_format")]
    argument_format: String,
}

fn default_format() -> String {
    "{{value}}".to_owned()
}

impl Command {
    /// Whether values become words of a shell. The text of `bash` and of commands that read
    /// it up to a certain line is taken as it is.
    pub fn quotes(&self) -> bool {
        self.name != BASH && self.end_name.is_none()
    }

    /// The shell itself.
    fn bash() -> Self {
        Self {
            name: BASH.to_owned(),
            docstring: Some("Runs a command in bash".to_owned()),
            signature: Some("<command>".to_owned()),
            end_name: None,
            arguments: vec![Argument {
                name: "command".to_owned(),
                kind: "string".to_owned(),
                description: "The command to run".to_owned(),
                required: true,
                choices: None,
                items: None,
                argument_format: default_format(),
            }],
        }
    }

    /// What is wrong, and where below the command.
    fn check(&self) -> Result<(), (String, String)> {
        let mut names: Vec<&str> = Vec::new();
        let mut optional = None;
        for (number, argument) in self.arguments.iter().enumerate() {
            let name = argument.name.as_str();
            let wrong = if names.contains(&name) {
                Some("another argument has the same name: rename one".to_owned())
            } else if let (Some(before), true) = (optional, argument.required) {
                Some(format!(
                    "it is required, but follows `{before}`, which is not: put it first"
                ))
            } else {
                None
            };
            if let Some(wrong) = wrong {
                return Err((
                    format!("/arguments/{number}"),
                    format!("the argument `{name}` is not usable: {wrong}"),
                ));
            }
            if !argument.required {
                optional = Some(name);
            }
            names.push(name);
        }
        Ok(())
    }

    fn check_names(&self, compat: bool) -> Result<(), (String, String)> {
        for (number, argument) in self.arguments.iter().enumerate() {
            if !is_name(&argument.name, !compat) {
                return Err((
                    format!("/arguments/{number}/name"),
                    format!(
                        "`{}` is no name for an argument: letters, digits, `_` and `-` make \
                         one, and a letter or `_` comes first",
                        argument.name
                    ),
                ));
            }
        }
        Ok(())
    }

    fn documentation(&self) -> String {
        let mut text = format!("{}:\n", self.name);
        if let Some(docstring) = &self.docstring {
            text.push_str(&format!("  docstring: {docstring}\n"));
        }
        let signature = self.signature.clone();
        let signature = signature.unwrap_or_else(|| self.plain_signature());
        text.push_str(&format!("  signature: {signature}\n"));
        if !self.arguments.is_empty() {
            text.push_str("  arguments:\n");
        }
        for argument in &self.arguments {
            let required = match argument.required {
                true => "required",
                false => "optional",
            };
            text.push_str(&format!(
                "    - {} ({}) [{required}]: {}\n",
                argument.name, argument.kind, argument.description
            ));
        }
        text.push('\n');
        text
    }

    /// The signature of a command that brings none.
    fn plain_signature(&self) -> String {
        let mut text = self.name.clone();
        for argument in &self.arguments {
            text.push_str(&match argument.required {
                true => format!(" <{}>", argument.name),
                false => format!(" [<{}>]", argument.name),
            });
        }
        if let Some(end) = &self.end_name {
            text.push_str(&format!("\n{end}"));
        }
        text
    }

    fn tool(&self) -> Tool {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for argument in &self.arguments {
            let mut property = Map::new();
            property.insert("type".to_owned(), json!(argument.kind));
            property.insert("description".to_owned(), json!(argument.description));
            if let Some(items) = argument.items.as_ref().filter(|items| !items.is_empty()) {
                property.insert("items".to_owned(), json!(items));
            }
            if let Some(choices) = argument.choices.as_ref().filter(|list| !list.is_empty()) {
                property.insert("enum".to_owned(), json!(choices));
            }
            properties.insert(argument.name.clone(), Value::Object(property));
            if argument.required {
                required.push(&argument.name);
            }
        }
        // Some providers refuse an object without properties that says so.
        let parameters = match properties.is_empty() {
            true => json!({ "type": "object" }),
            false => json!({ "type": "object", "properties": properties, "required": required }),
        };
        let description = self.docstring.clone().unwrap_or_default();
        Tool::new(self.name.clone(), description, &parameters)
    }
}

/// A command with all that is known of it before a call.
#[derive(Debug)]
pub struct Known {
    /// What the table says.
    pub command: Command,
    /// How it is written.
    pub signature: Signature,
    /// How each argument is written.
    pub formats: Vec<Format>,
}

/// All commands.
#[derive(Debug)]
pub struct Table {
    commands: Vec<Known>,
    /// Whether there is more than the shell.
    pub has_own: bool,
}

impl Table {
    /// Checks the commands of the config; the shell comes first, if it is wanted.
    ///
    /// # Errors
    ///
    /// `invalid-config`, with the place.
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

    /// What the model is told of them as tools.
    pub fn tools(&self) -> Vec<Tool> {
        self.commands().map(Command::tool).collect()
    }

    /// What the model can be told of them in a text, as SWE-agent's `command_docs`.
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
