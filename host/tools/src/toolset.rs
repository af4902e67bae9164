//! All bundles of a run together: the commands, and their forms for prompts and parsers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::bundle::Bundle;
use crate::docs;
use crate::fault::{ManifestFault, ToolsError};
use crate::manifest::BundleCommand;

/// The command name of the shell.
const BASH: &str = "bash";

/// The settings of the commands in a config.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolsetSettings {
    /// The folders of the bundles, in the order in which they are installed.
    pub bundles: Vec<PathBuf>,
    /// The names of commands that are installed but not offered to the model.
    pub hidden: Vec<String>,
    /// The environment variables of the tools.
    pub variables: BTreeMap<String, String>,
    /// Whether the shell is offered as a command, too.
    pub bash: bool,
}

/// The bundles of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Toolset {
    /// The bundles, in the order in which they are installed.
    pub bundles: Vec<Bundle>,
    /// The offered commands, each with the index of its bundle.
    commands: Vec<(usize, BundleCommand)>,
    bash: bool,
}

impl Toolset {
    /// Reads the bundles.
    ///
    /// # Errors
    /// [`ToolsError`] if a bundle has a mistake, if two commands have the same name, or if a
    /// setting names something unknown.
    pub fn read(settings: &ToolsetSettings) -> Result<Self, ToolsError> {
        // The name is used in shell text.
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_name =
            |it: &&String| it.chars().all(is_word) && it.starts_with(|c: char| !c.is_ascii_digit());
        if let Some(name) = settings.variables.keys().find(|it| !is_name(it)) {
            let message = format!(
                "`{}` is no name of a variable: write letters, digits and `_`, and no digit first",
                name.escape_debug()
            );
            let key = "tools.env_variables";
            return Err(ToolsError::Setting { key, message });
        }
        let mut bundles: Vec<Bundle> = Vec::new();
        for folder in &settings.bundles {
            let bundle = Bundle::named(folder)?;
            if let Some(other) = bundles.iter().find(|other| other.name == bundle.name) {
                let message = format!(
                    "two bundles have the name `{}`: {} and {}; leave out or rename one of the folders",
                    bundle.name,
                    other.folder.display(),
                    folder.display()
                );
                let key = "tools.bundles";
                return Err(ToolsError::Setting { key, message });
            }
            bundles.push(bundle);
        }
        one_of_each_session(&bundles)?;
        let commands = offered(&bundles, settings)?;
        Ok(Self {
            bundles,
            commands,
            bash: settings.bash,
        })
    }

    /// The names of the offered commands, without the shell.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.commands
            .iter()
            .map(|(_, command)| command.name.as_str())
    }

    /// Whether a bundle has this command, offered or not.
    pub fn has_command(&self, name: &str) -> bool {
        let mut all = self.bundles.iter().flat_map(|it| &it.manifest.commands);
        all.any(|command| command.name == name)
    }

    /// The commands as the parsers' config takes them.
    pub fn parser_commands(&self) -> Value {
        let entries = self.commands.iter();
        let entries = entries.map(|(_, command)| Value::Object(command.entry.clone()));
        Value::Array(entries.collect())
    }

    /// The place of the value that a parser refuses: `pointer` is a JSON pointer below the parser's
    /// config.
    pub fn place(&self, pointer: &str) -> Option<String> {
        let rest = pointer.strip_prefix("/commands/")?;
        let (number, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (bundle, command) = self.commands.get(number.parse::<usize>().ok()?)?;
        let mark = command.place(rest);
        let file = &self.bundles.get(*bundle)?.manifest.file;
        let (line, column) = (mark.line + 1, mark.column + 1);
        Some(format!("{}:{line}:{column}", file.display()))
    }

    /// The documentation of the commands for prompts.
    pub fn documentation(&self) -> String {
        let bash = self.bash.then(|| docs::entry(&shell()));
        let own = self.commands.iter();
        let own = own.map(|(_, command)| docs::entry(&command.entry));
        bash.into_iter().chain(own).collect()
    }

    /// The state commands, each with its bundle, in order.
    pub fn state_commands(&self) -> impl Iterator<Item = (&str, &Bundle)> {
        self.bundles.iter().filter_map(|bundle| {
            let (command, _) = bundle.manifest.state_command.as_ref()?;
            Some((command.as_str(), bundle))
        })
    }
}

/// Refuses two programs with the same name.
fn one_of_each_session(bundles: &[Bundle]) -> Result<(), ToolsError> {
    let all = bundles.iter().flat_map(|bundle| {
        let manifest = &bundle.manifest;
        manifest.sessions.iter().map(|it| (it, &manifest.file))
    });
    let mut known: Vec<(&str, &PathBuf)> = Vec::new();
    for (session, file) in all {
        if let Some((_, other)) = known.iter().find(|(name, _)| *name == session.name) {
            let message = format!(
                "the interactive session `{}` is also in {}",
                session.name,
                other.display()
            );
            let remedy = "leave out one of the two bundles";
            return Err(ManifestFault::at(file, session.mark, message, remedy).into());
        }
        known.push((&session.name, file));
    }
    Ok(())
}

fn offered(
    bundles: &[Bundle],
    settings: &ToolsetSettings,
) -> Result<Vec<(usize, BundleCommand)>, ToolsError> {
    let mut commands: Vec<(usize, BundleCommand)> = Vec::new();
    for hidden in &settings.hidden {
        let mut all = bundles.iter().flat_map(|bundle| &bundle.manifest.commands);
        if !all.any(|command| command.name == *hidden) {
            let message = format!("no bundle has the command `{hidden}`; leave it out");
            let key = "tools.hidden";
            return Err(ToolsError::Setting { key, message });
        }
    }
    for (index, bundle) in bundles.iter().enumerate() {
        let file = &bundle.manifest.file;
        for command in &bundle.manifest.commands {
            let name = &command.name;
            if settings.hidden.contains(name) {
                continue;
            }
            if settings.bash && name == BASH {
                return Err(ManifestFault::at(
                    file,
                    command.mark,
                    "the shell has the name `bash`",
                    "rename this command, or set `tools.bash_tool` to false",
                )
                .into());
            }
            if let Some((other, earlier)) = commands.iter().find(|(_, it)| it.name == *name) {
                let other = &bundles[*other].manifest.file;
                return Err(ManifestFault::at(
                    file,
                    command.mark,
                    format!(
                        "the command `{name}` is also in {}:{}",
                        other.display(),
                        earlier.mark.line + 1
                    ),
                    "leave out one of the two bundles, or hide the command with `tools.hidden`",
                )
                .into());
            }
            let mut command = command.clone();
            if let Some(text) = command.text("docstring") {
                let filled = docs::filled(text, &settings.variables).map_err(|error| {
                    let remedy = format!("set it: `tools.env_variables.{}`", error.0);
                    let mark = command.place("/docstring");
                    let message = format!("command `{name}`: {error}");
                    ManifestFault::at(file, mark, message, remedy)
                })?;
                command.entry.insert("docstring".to_owned(), filled.into());
            }
            commands.push((index, command));
        }
    }
    Ok(commands)
}

/// The entry of the shell as a command.
fn shell() -> Map<String, Value> {
    let entry = json!({
        "name": BASH,
        "docstring": "Runs a command in bash",
        "signature": "<command>",
        "arguments": [{
            "name": "command", "type": "string", "required": true, "description": "The command to run",
        }],
    });
    match entry {
        Value::Object(entry) => entry,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn bundle(root: &Path, name: &str, manifest: &str) -> PathBuf {
        let folder = root.join(name);
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::write(folder.join("config.yaml"), manifest).unwrap();
        folder
    }

    #[test]
    fn what_a_run_needs_of_the_bundles() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let first = bundle(
            root,
            "first",
            "tools:\n  up:\n    docstring: up {WINDOW}\n  down: {}\nstate_command: _a\n",
        );
        let second = bundle(
            root,
            "second",
            "tools:\n  go:\n    signature: go <n>\n    arguments:\n    - name: n\n      type: integer\n      \
             required: true\nstate_command: _b\n",
        );
        let settings = ToolsetSettings {
            bundles: vec![first, second.clone()],
            hidden: vec!["down".to_owned()],
            variables: BTreeMap::from([("WINDOW".to_owned(), "7".to_owned())]),
            bash: true,
        };
        let tools = Toolset::read(&settings).unwrap();
        assert_eq!(tools.names().collect::<Vec<_>>(), ["up", "go"]);
        let commands = tools.parser_commands();
        assert_eq!(commands[0], json!({"name": "up", "docstring": "up 7"}));
        assert_eq!(commands[1]["arguments"][0]["type"], "integer");
        let states: Vec<_> = tools.state_commands().map(|(command, _)| command).collect();
        assert_eq!(states, ["_a", "_b"]);
        assert_eq!(
            tools.documentation(),
            "bash:\n  docstring: Runs a command in bash\n  signature: <command>\n  arguments:\n    - command \
             (string) [required]: The command to run\n\nup:\n  docstring: up 7\n  signature: up\n\ngo:\n  \
             signature: go <n>\n  arguments:\n    - n (integer) [required]: \n\n"
        );
        let file = second.join("config.yaml");
        for (pointer, place) in [
            ("/commands/1/signature", Some("3:16")),
            ("/commands/1/arguments/0/name", Some("5:13")),
            ("/commands/1", Some("2:3")),
            ("/commands/9", None),
            ("/type", None),
        ] {
            let expected = place.map(|place| format!("{}:{place}", file.display()));
            assert_eq!(tools.place(pointer), expected, "{pointer}");
        }
    }

    #[test]
    fn bundles_that_do_not_fit_together() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let one = bundle(root, "one", "tools:\n  go: {}\n");
        let two = bundle(root, "two", "tools:\n  x: {}\n  go: {}\n");
        let bash = bundle(root, "bash", "tools:\n  bash: {}\n");
        let window = bundle(
            root,
            "window",
            "tools:\n  up:\n    docstring: \"{WINDOW}\"\n",
        );
        let again = bundle(&root.join("more"), "one", "tools: {}\n");
        let all = |bundles: &[&PathBuf], hidden: &[&str], bash| ToolsetSettings {
            bundles: bundles.iter().map(|it| (*it).clone()).collect(),
            hidden: hidden.iter().map(|it| (*it).to_owned()).collect(),
            bash,
            ..ToolsetSettings::default()
        };
        for (settings, parts) in [
            (
                all(&[&one, &two], &[], true),
                &[
                    "two/config.yaml:3:3: the command `go` is also in",
                    "one/config.yaml:2",
                    "`tools.hidden`",
                ][..],
            ),
            (
                all(&[&bash], &[], true),
                &[
                    "bash/config.yaml:2:3",
                    "the shell has the name",
                    "`tools.bash_tool`",
                ],
            ),
            (all(&[&one], &["gone"], true), &["`tools.hidden`", "`gone`"]),
            (
                all(&[&window], &[], true),
                &[
                    "window/config.yaml:3:16",
                    "`{WINDOW}`",
                    "`tools.env_variables.WINDOW`",
                ],
            ),
            (
                all(&[&one, &again], &[], true),
                &["`tools.bundles`", "the name `one`", "more/one"],
            ),
        ] {
            let text = Toolset::read(&settings).unwrap_err().to_string();
            for part in parts {
                assert!(text.contains(part), "{text}");
            }
        }
        Toolset::read(&all(&[&one, &two], &["go"], true)).unwrap();
        Toolset::read(&all(&[&bash], &[], false)).unwrap();
    }
}
