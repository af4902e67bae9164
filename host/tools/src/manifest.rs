//! Reads the manifest of a bundle, `config.yaml`: its commands and its state command.
//!
//! The signatures are only read here. The parser that makes command lines of calls checks them,
//! too; the place of each key is kept for its messages.

use std::path::{Path, PathBuf};

use mswea_config::yaml::{self, Located, Mark, Pair, Yaml};
use serde_json::{Map, Number, Value};

use crate::fault::ManifestFault;
use crate::session_spec::SessionSpec;

/// The name of the manifest in a bundle.
pub const FILE: &str = "config.yaml";

/// The size of the largest manifest that is read.
const LIMIT: u64 = mswea_files::SETTINGS;

/// The keys of a command and of an argument that have a meaning.
const COMMAND_KEYS: &[&str] = &["signature", "docstring", "end_name", "arguments"];
const ARGUMENT_KEYS: &[&str] = &[
    "name",
    "type",
    "description",
    "required",
    "items",
    "enum",
    "argument_format",
];

/// A command of a bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct BundleCommand {
    /// Its name: the first word of a command line.
    pub name: String,
    /// The entry in the manifest, with the name added, as the parsers take it.
    pub entry: Map<String, Value>,
    /// The place of the name.
    pub mark: Mark,
    /// The places of the keys, including those of the arguments, by JSON pointer below the command.
    places: Vec<(String, Mark)>,
}

impl BundleCommand {
    /// The place of the value with the JSON pointer `pointer` below the command, or of the nearest
    /// value around it.
    pub fn place(&self, pointer: &str) -> Mark {
        let around = |at: &&(String, Mark)| {
            pointer
                .strip_prefix(at.0.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let found = self.places.iter().filter(around);
        found
            .max_by_key(|at| at.0.len())
            .map_or(self.mark, |at| at.1)
    }

    /// A text of the entry.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.entry.get(key).and_then(Value::as_str)
    }
}

/// The content of a manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// The file.
    pub file: PathBuf,
    /// The commands, in order.
    pub commands: Vec<BundleCommand>,
    /// The command that updates the state of the tools, and its place.
    pub state_command: Option<(String, Mark)>,
    /// The programs that stay open between the bundle's commands.
    pub sessions: Vec<SessionSpec>,
    /// The programs that the environment must have, with their places.
    pub required_programs: Vec<(String, Mark)>,
    /// Keys without a meaning. SWE-agent ignores them, too.
    pub ignored: Vec<String>,
}

impl Manifest {
    /// Reads the manifest of the bundle `folder`.
    ///
    /// # Errors
    /// [`ManifestFault`] if there is none, or if it has a mistake.
    pub fn read(folder: &Path) -> Result<Self, ManifestFault> {
        let file = folder.join(FILE);
        let source = mswea_files::read_text(&file, LIMIT).map_err(|error| {
            ManifestFault::of(
                &file,
                format!("a bundle needs this file, and it can't be read ({error})"),
                "name the folder of a bundle in `tools.bundles`: it has `config.yaml`, `bin/`, and if \
                 need be `lib/` and `install.sh`",
            )
        })?;
        Self::parse(&file, &source)
    }

    /// Reads a manifest from its text; `file` is for messages.
    ///
    /// # Errors
    /// [`ManifestFault`] if it has a mistake.
    pub fn parse(file: &Path, source: &str) -> Result<Self, ManifestFault> {
        Reader { file }.manifest(source)
    }
}

struct Reader<'a> {
    file: &'a Path,
}

impl Reader<'_> {
    fn fault(
        &self,
        mark: Mark,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ManifestFault {
        ManifestFault::at(self.file, mark, message, remedy)
    }

    fn manifest(&self, source: &str) -> Result<Manifest, ManifestFault> {
        let root = yaml::load(source).map_err(|fault| {
            let remedy = fault.hint.unwrap_or("write valid YAML");
            self.fault(
                fault.mark,
                format!("invalid YAML: {}", fault.message),
                remedy,
            )
        })?;
        let mut manifest = Manifest {
            file: self.file.to_owned(),
            ..Manifest::default()
        };
        let Some(root) = root else {
            return Err(self.no_tools(Mark::default()));
        };
        let Yaml::Map(pairs) = &root.value else {
            return Err(self.no_tools(root.mark));
        };
        let mut has_tools = false;
        for pair in pairs {
            match self.key(pair)? {
                "tools" => {
                    has_tools = true;
                    manifest.commands = self.commands(&pair.value)?;
                }
                "state_command" => {
                    manifest.state_command = self
                        .optional_text(&pair.value, "`state_command`")?
                        .map(|text| (text, pair.value.mark));
                }
                "interactive_sessions" => manifest.sessions = self.sessions(&pair.value)?,
                "required_programs" => manifest.required_programs = self.programs(&pair.value)?,
                other => manifest.ignored.push(other.to_owned()),
            }
        }
        let commands: Vec<_> = manifest.commands.iter().map(|it| it.name.clone()).collect();
        for session in &mut manifest.sessions {
            session.commands.clone_from(&commands);
            let program = session.program().to_owned();
            manifest.required_programs.push((program, session.mark));
        }
        match has_tools {
            true => Ok(manifest),
            false => Err(self.no_tools(root.mark)),
        }
    }

    fn sessions(&self, sessions: &Located) -> Result<Vec<SessionSpec>, ManifestFault> {
        let remedy = "write `NAME:` for each session below it";
        let pairs = self.map(sessions, "`interactive_sessions`", remedy)?;
        let specs = pairs.iter().map(|pair| {
            let name = self.key(pair)?;
            let what = format!("the interactive session `{name}`");
            let mut entry = Map::new();
            let keys = self.map(&pair.value, &what, "write `cmdline: ...` below it")?;
            for pair in keys {
                let key = self.known(pair, SessionSpec::KEYS, &what)?;
                entry.insert(key.to_owned(), self.value(&pair.value)?);
            }
            SessionSpec::read(name, &entry, pair.key.mark).map_err(|(key, wanted)| {
                let given = keys.iter().find(|pair| self.key(pair).ok() == Some(key));
                let mark = given.map_or(pair.key.mark, |pair| pair.value.mark);
                self.fault(mark, format!("{what} has no usable `{key}`"), wanted)
            })
        });
        specs.collect()
    }

    fn programs(&self, list: &Located) -> Result<Vec<(String, Mark)>, ManifestFault> {
        let Yaml::List(items) = &list.value else {
            let message = "`required_programs` is no list";
            return Err(self.fault(list.mark, message, "write `[NAME, ...]`"));
        };
        let names = items.iter().map(|item| {
            let name = self.optional_text(item, "a program's name")?;
            Ok((name.unwrap_or_default(), item.mark))
        });
        names.collect()
    }

    fn no_tools(&self, mark: Mark) -> ManifestFault {
        self.fault(
            mark,
            "a manifest is a map with the key `tools`",
            "write `tools: {}` if the bundle has no command",
        )
    }

    fn commands(&self, tools: &Located) -> Result<Vec<BundleCommand>, ManifestFault> {
        let pairs = self.map(tools, "`tools`", "write `NAME:` for each command below it")?;
        let mut commands = Vec::with_capacity(pairs.len());
        for pair in pairs {
            if pair.hides.is_some() {
                return Err(self.fault(
                    pair.key.mark,
                    format!("the command `{}` is there twice", self.key(pair)?),
                    "rename one of them",
                ));
            }
            commands.push(self.command(pair)?);
        }
        Ok(commands)
    }

    fn command(&self, pair: &Pair) -> Result<BundleCommand, ManifestFault> {
        let name = self.key(pair)?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.+".contains(c);
        if name.is_empty() || name.starts_with('-') || !name.chars().all(is_word) {
            return Err(self.fault(
                pair.key.mark,
                format!("`{}` is not a name for a command", name.escape_debug()),
                "write letters, digits, `_`, `-`, `.` and `+`, as in the name of a program",
            ));
        }
        let mut entry = Map::from_iter([("name".to_owned(), Value::from(name))]);
        let mut places = Vec::new();
        for pair in self.map(
            &pair.value,
            &format!("the command `{name}`"),
            "write `signature`, `docstring` and `arguments` below it",
        )? {
            let what = format!("the command `{name}`");
            let Some(key) = self.known_or_ignored(pair, COMMAND_KEYS, &what)? else {
                continue;
            };
            places.push((format!("/{key}"), pair.value.mark));
            let value = match key {
                "arguments" => self.arguments(&pair.value, name, &mut places)?,
                _ => {
                    let what = format!("`{key}` of `{name}`");
                    let text = self.optional_text(&pair.value, &what)?;
                    // A signature or a docstring that is written as a block ends with a line break.
                    text.map(|text| text.trim_end().to_owned()).into()
                }
            };
            if !value.is_null() {
                entry.insert(key.to_owned(), value);
            }
        }
        Ok(BundleCommand {
            name: name.to_owned(),
            entry,
            mark: pair.key.mark,
            places,
        })
    }

    fn arguments(
        &self,
        list: &Located,
        command: &str,
        places: &mut Vec<(String, Mark)>,
    ) -> Result<Value, ManifestFault> {
        let items = match &list.value {
            Yaml::List(items) => items,
            Yaml::Null => return Ok(Value::Array(Vec::new())),
            _ => {
                return Err(self.fault(
                    list.mark,
                    format!("`arguments` of `{command}` is no list"),
                    "write `- name: ...` for each argument, or `[]`",
                ));
            }
        };
        let mut arguments = Vec::with_capacity(items.len());
        for (number, item) in items.iter().enumerate() {
            let what = format!("argument {} of `{command}`", number + 1);
            places.push((format!("/arguments/{number}"), item.mark));
            let mut argument = Map::new();
            for pair in self.map(item, &what, "write `name`, `type` and `required`")? {
                let Some(key) = self.known_or_ignored(pair, ARGUMENT_KEYS, &what)? else {
                    continue;
                };
                places.push((format!("/arguments/{number}/{key}"), pair.value.mark));
                let value = self.value(&pair.value)?;
                let is_right = match key {
                    "required" => value.is_boolean(),
                    "items" => value.is_object() || value.is_null(),
                    "enum" => value.is_array() || value.is_null(),
                    "argument_format" | "description" => value.is_string() || value.is_null(),
                    _ => value.is_string(),
                };
                if !is_right {
                    let wanted = match key {
                        "required" => "`true` or `false`",
                        "items" => "a map with `type`",
                        "enum" => "a list of texts",
                        _ => "a text",
                    };
                    return Err(self.fault(
                        pair.value.mark,
                        format!("`{key}` of {what} has another type"),
                        format!("write {wanted}"),
                    ));
                }
                if !value.is_null() {
                    argument.insert(key.to_owned(), value);
                }
            }
            for key in ["name", "type", "required"] {
                if !argument.contains_key(key) {
                    return Err(self.fault(
                        item.mark,
                        format!("{what} has no `{key}`"),
                        "an argument has `name`, `type` (as `string`) and `required` (`true` or `false`)",
                    ));
                }
            }
            arguments.push(Value::Object(argument));
        }
        Ok(Value::Array(arguments))
    }

    fn map<'y>(
        &self,
        located: &'y Located,
        what: &str,
        remedy: &str,
    ) -> Result<&'y [Pair], ManifestFault> {
        match &located.value {
            Yaml::Map(pairs) => Ok(pairs),
            Yaml::Null => Ok(&[]),
            _ => Err(self.fault(located.mark, format!("{what} is no map"), remedy)),
        }
    }

    fn key<'y>(&self, pair: &'y Pair) -> Result<&'y str, ManifestFault> {
        match &pair.key.value {
            Yaml::Text(text) => Ok(text),
            _ => Err(self.fault(pair.key.mark, "this key is no text", "put it in quotes")),
        }
    }

    /// The key of a pair, which must be one of `known`.
    fn known<'y>(
        &self,
        pair: &'y Pair,
        known: &[&str],
        what: &str,
    ) -> Result<&'y str, ManifestFault> {
        let key = self.key(pair)?;
        match known.contains(&key) {
            true => Ok(key),
            false => {
                let message = format!("{what} has no key `{key}`");
                Err(self.fault(pair.key.mark, message, remedy(key, known)))
            }
        }
    }

    /// The key of a pair; none if it is not one of `known`: SWE-agent ignores such a key of a command or an
    /// argument, so here it has no effect.
    fn known_or_ignored<'y>(
        &self,
        pair: &'y Pair,
        known: &[&str],
        what: &str,
    ) -> Result<Option<&'y str>, ManifestFault> {
        let key = self.key(pair)?;
        if known.contains(&key) {
            return Ok(Some(key));
        }
        tracing::warn!(
            "`{}`, line {}: `{}` of {what} has no effect, as in SWE-agent: {}",
            self.file.display(),
            pair.key.mark.line + 1,
            mswea_text::harmless(key),
            remedy(key, known)
        );
        Ok(None)
    }

    fn optional_text(
        &self,
        located: &Located,
        what: &str,
    ) -> Result<Option<String>, ManifestFault> {
        match &located.value {
            Yaml::Text(text) => Ok(Some(text.clone())),
            Yaml::Null => Ok(None),
            _ => Err(self.fault(
                located.mark,
                format!("{what} is no text"),
                "put it in quotes",
            )),
        }
    }

    fn value(&self, located: &Located) -> Result<Value, ManifestFault> {
        Ok(match &located.value {
            Yaml::Null => Value::Null,
            Yaml::Bool(flag) => (*flag).into(),
            Yaml::Int(digits) => match digits.parse::<i64>() {
                Ok(number) => number.into(),
                Err(_) => digits.as_str().into(),
            },
            Yaml::Float(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
            Yaml::Text(text) | Yaml::Time(text) => text.as_str().into(),
            Yaml::List(items) => {
                let values = items.iter().map(|item| self.value(item));
                Value::Array(values.collect::<Result<_, _>>()?)
            }
            Yaml::Map(pairs) => {
                let mut map = Map::new();
                for pair in pairs {
                    map.insert(self.key(pair)?.to_owned(), self.value(&pair.value)?);
                }
                Value::Object(map)
            }
        })
    }
}

/// What to write in place of an unknown key.
fn remedy(key: &str, known: &[&str]) -> String {
    match mswea_text::nearest(key, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the keys there are `{}`", known.join("`, `")),
    }
}

#[cfg(test)]
mod tests;
