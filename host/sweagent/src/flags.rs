//! Reads SWE-agent's command line: `--agent.model.name=..`, several `--config`, and values in the
//! format of its settings.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::configs;
use crate::fault::{SweAgentError, SweAgentProblem};
use crate::given_at::GivenAt;
use crate::keys::{self, SweCommand, SweType};
use crate::tree::{GivenContent, GivenTree, read_yaml, read_yaml_file};

/// The config if the command line names none.
const DEFAULT: &str = "default";
/// The path of that config in SWE-agent's own folder.
const DEFAULT_FILE: &str = "config/default.yaml";

/// The content of a command line.
#[derive(Clone, Debug, PartialEq)]
pub struct SweRequest {
    /// The merged configuration.
    pub tree: GivenTree,
    /// The names of the config files without their suffix, in order.
    pub configs: Vec<String>,
    /// Whether only the help is requested.
    pub help: bool,
    /// Whether only the merged configuration is requested.
    pub print_config: bool,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Reads a command line, the words after `run` or `run-batch`, with the config files that it names.
/// `variable` looks up a variable of this process.
///
/// # Errors
/// [`SweAgentError`] if a word, a file, a key or a value can't be used.
pub fn read_command_line(
    command: SweCommand,
    words: &[String],
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<SweRequest, SweAgentError> {
    let mut files = Vec::new();
    let (mut help, mut print_config, mut no_config_file) = (false, false, false);
    let mut flags = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-h" | "--help" => help = true,
            "--print_config" => print_config = true,
            "--no_config_file" => no_config_file = true,
            _ => {
                let Some(flag) = word.strip_prefix("--").filter(|flag| !flag.is_empty()) else {
                    let problem = SweAgentProblem::new(format!("`{word}` is no flag"));
                    return Err(problem
                        .hint("values are given as `--key=value`, for example `--agent.model.name=gpt-4o`")
                        .into());
                };
                let (key, value) = match flag.split_once('=') {
                    Some((key, value)) => (key, value.to_owned()),
                    None => match words.next() {
                        Some(value) => (flag, value.clone()),
                        None => {
                            let problem = SweAgentProblem::new(format!("`--{flag}` has no value"));
                            return Err(problem.hint(format!("write `--{flag}=VALUE`")).into());
                        }
                    },
                };
                match key {
                    "config" => files.push(value),
                    key => flags.push((key.to_owned(), value)),
                }
            }
        }
    }
    let mut warnings = Vec::new();
    if files.is_empty() && !no_config_file && command != SweCommand::RunReplay {
        files.push(DEFAULT.to_owned());
        if Path::new(DEFAULT_FILE).exists() {
            warnings.push(format!(
                "`{DEFAULT_FILE}` of the current folder is not read, because it could be a stranger's: if it is yours, \
                 add `--config {DEFAULT_FILE}`"
            ));
        }
    }
    let mut tree = GivenTree::empty(GivenAt::Flag("run".to_owned()));
    let mut problems = Vec::new();
    for (key, _) in keys::keys(command) {
        let name = format!("SWE_AGENT_{}", key.to_uppercase());
        if let Some(text) = (!key.contains('.')).then(|| variable(&name)).flatten() {
            let at = GivenAt::Variable(name);
            let value = of_text(keys::type_of(command, key), &text);
            tree.merge(GivenTree::of_value(value, &at).below(&[key]));
        }
    }
    let mut names = Vec::new();
    for file in &files {
        let read = read_config(file, variable)?;
        let stem = Path::new(file).file_stem().unwrap_or_default();
        names.push(stem.to_string_lossy().into_owned());
        let checked = keys::check(command, &read);
        problems.extend(checked.problems);
        warnings.extend(checked.ignored);
        tree.merge(read);
    }
    let mut given: Vec<(String, GivenTree)> = Vec::new();
    for (key, text) in flags {
        let at = GivenAt::Flag(format!("--{key}"));
        let kind = keys::type_of(command, &key);
        let value = GivenTree::of_value(of_text(kind, &text), &at);
        let repeated = given
            .iter_mut()
            .find(|(name, _)| *name == key && kind == Some(SweType::List));
        match (repeated, value.content) {
            // A list may be given item by item.
            (Some((_, tree)), GivenContent::List(more)) => {
                if let GivenContent::List(items) = &mut tree.content {
                    items.extend(more);
                }
            }
            (_, content) => given.push((key, GivenTree { at, content })),
        }
    }
    for (key, value) in given {
        let path: Vec<&str> = key.split('.').collect();
        if path.iter().any(|part| part.is_empty()) {
            problems.push(SweAgentProblem::new(format!("`--{key}` has an empty part")));
            continue;
        }
        let value = value.below(&path);
        problems.extend(keys::check(command, &value).problems);
        tree.merge(value);
    }
    if !problems.is_empty() && !help {
        return Err(SweAgentError(problems));
    }
    Ok(SweRequest {
        tree,
        configs: names,
        help,
        print_config,
        warnings,
    })
}

/// Reads a file of the user, else the shipped config with this name.
fn read_config(
    name: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<GivenTree, SweAgentError> {
    let expanded = expand(name, variable)?;
    let path = PathBuf::from(&expanded);
    // A bare name always means the shipped config, whatever the current folder contains.
    let is_bare = !expanded.contains(['/', '.']);
    if path.is_file() && !(is_bare && configs::find(&expanded).is_some()) {
        return read_yaml_file(&path);
    }
    match configs::find(&expanded) {
        Some((name, text)) => read_yaml(&configs::place(name), text),
        None => read_yaml_file(&path),
    }
}

/// Replaces `$NAME` and `${NAME}` and a leading `~` in a path.
///
/// # Errors
/// [`SweAgentProblem`] if a variable is not set.
pub fn expand(
    path: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String, SweAgentProblem> {
    let mut rest = path;
    let mut expanded = String::new();
    if let Some(after) = rest
        .strip_prefix('~')
        .filter(|after| after.is_empty() || after.starts_with('/'))
        && let Some(home) = variable("HOME")
    {
        expanded.push_str(&home);
        rest = after;
    }
    while let Some(place) = rest.find('$') {
        expanded.push_str(&rest[..place]);
        rest = &rest[place + 1..];
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, after) = match rest.strip_prefix('{').and_then(|it| it.split_once('}')) {
            Some(pair) => pair,
            None => rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len())),
        };
        if name.is_empty() {
            expanded.push('$');
            continue;
        }
        let Some(value) = variable(name) else {
            return Err(SweAgentProblem::new(format!(
                "`{path}` names the variable `{name}`, which is not set"
            ))
            .hint(format!("set `{name}`, or write the whole path")));
        };
        expanded.push_str(&value);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// The value of a text on the command line, for a key of this type.
fn of_text(kind: Option<SweType>, text: &str) -> Value {
    if matches!(text, "null" | "None") {
        return Value::Null;
    }
    let parsed = || serde_json::from_str::<Value>(text).ok();
    match kind {
        Some(SweType::Text) => text.into(),
        Some(SweType::Truth) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "t" | "y" => true.into(),
            "false" | "0" | "no" | "off" | "f" | "n" => false.into(),
            _ => text.into(),
        },
        Some(SweType::Whole | SweType::Number) => parsed()
            .filter(Value::is_number)
            .unwrap_or_else(|| text.into()),
        Some(SweType::List) => match parsed() {
            Some(list @ Value::Array(_)) => list,
            _ => {
                let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
                let items = bare.unwrap_or(text).split(',').map(str::trim);
                items
                    .filter(|item| !item.is_empty())
                    .map(Value::from)
                    .collect()
            }
        },
        // The type of a map's entry follows from its text, as in YAML.
        Some(SweType::Map) | None => parsed().unwrap_or_else(|| text.into()),
    }
}
