//! Commands as a bundle's manifest describes them.

use mswea_sdk::types::Tool;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::python::is_name;

/// The name of the shell as a tool.
pub const BASH: &str = "bash";

/// A command, as a bundle of SWE-agent describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Its name, the first word of a command line.
    pub name: String,
    #[serde(default)]
    docstring: Option<String>,
    /// Its signature.
    #[serde(default)]
    pub signature: Option<String>,
    /// The line that ends its text, if it takes one.
    #[serde(default)]
    pub end_name: Option<String>,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Vec<Argument>,
}

/// An argument of a command.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its type, by JSON Schema's names.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    description: String,
    /// Whether every call must have it.
    pub required: bool,
    /// The allowed values, if not all are.
    #[serde(default, rename = "enum")]
    pub choices: Option<Vec<String>>,
    #[serde(default)]
    items: Option<Map<String, Value>>,
    #[serde(default = "default_format")]
    /// The template that makes words of a command line from its value.
    pub argument_format: String,
}

fn default_format() -> String {
    "{{value}}".to_owned()
}

impl Command {
    /// Whether values are quoted as words of a shell. The text of `bash` and of commands that read
    /// it up to a certain line is passed unchanged.
    pub fn quotes(&self) -> bool {
        self.name != BASH && self.end_name.is_none()
    }

    /// The shell itself.
    pub fn bash() -> Self {
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

    /// Checks its arguments. The error is a JSON pointer below the command, and the message.
    pub fn check(&self) -> Result<(), (String, String)> {
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

    /// Checks the names of its arguments. The error is as that of [`Self::check`].
    pub fn check_names(&self, compat: bool) -> Result<(), (String, String)> {
        for (number, argument) in self.arguments.iter().enumerate() {
            if !is_name(&argument.name, !compat) {
                return Err((
                    format!("/arguments/{number}/name"),
                    format!(
                        "`{}` is not a name for an argument: letters, digits, `_` and `-` make \
                         one, and a letter or `_` comes first",
                        argument.name
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The entry of the command in SWE-agent's `command_docs`.
    pub fn documentation(&self) -> String {
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

    /// The signature of a command without one.
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

    /// The command as a tool for the model.
    pub fn tool(&self) -> Tool {
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
        // Some providers refuse an object schema with an empty list of properties.
        let parameters = match properties.is_empty() {
            true => json!({ "type": "object" }),
            false => json!({ "type": "object", "properties": properties, "required": required }),
        };
        let description = self.docstring.clone().unwrap_or_default();
        Tool::new(self.name.clone(), description, &parameters)
    }
}
