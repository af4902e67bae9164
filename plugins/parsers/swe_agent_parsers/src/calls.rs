//! The parsers of calls: a tool call, a call written in tags, a call in a JSON object.

use mswea_sdk::types::Reply;
use serde_json::{Map, Value};

use crate::arguments::{nothing, plain, words};
use crate::commands::{Known, Table};
use crate::manifest::BASH;
use crate::parsed::Parsed;
use crate::problem::{Code, Fault};
use crate::python::strip;
use crate::tags::{Call, find_call};
use crate::text::unknown_command;

/// The rules by which a call is checked.
#[derive(Clone, Copy)]
pub struct Rules {
    /// Whether SWE-agent's own rules apply where they differ.
    pub compat: bool,
    /// Whether arguments that the command does not have are refused.
    pub refuse_unexpected: bool,
}

/// `function_calling`: exactly one tool call.
pub fn function(reply: &Reply, table: &Table, compat: bool) -> Result<Parsed, Fault> {
    let [call] = &reply.message.tool_calls[..] else {
        let (code, message) = match reply.message.tool_calls.len() {
            0 => (
                Code::Missing,
                "There is no tool call in your reply. Every reply has to call exactly one tool; \
                 commands in the text are not run."
                    .to_owned(),
            ),
            count => (
                Code::Multiple,
                format!("There are {count} tool calls in your reply; make exactly one."),
            ),
        };
        return Err(Fault::new(code, message));
    };
    let known = table.get(&call.name);
    let known = known.ok_or_else(|| unknown_command(&call.name, table))?;
    let arguments = match strip(&call.arguments) {
        // Some providers send an empty text for a call without arguments.
        "" if !compat => Map::new(),
        text => object(text)?,
    };
    let rules = Rules {
        compat,
        refuse_unexpected: true,
    };
    Ok(Parsed {
        call: Some(call.id.clone()),
        ..Parsed::new(reply.message.text(), line(known, &arguments, rules)?)
    })
}

fn object(text: &str) -> Result<Map<String, Value>, Fault> {
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err(Fault::new(
            Code::InvalidJson,
            "The arguments of the tool call have to be a JSON object.",
        )),
        Err(error) => Err(Fault::new(
            Code::InvalidJson,
            format!("The arguments of the tool call are no valid JSON: {error}."),
        )),
    }
}

/// `xml_function_calling`: the first call in tags.
pub fn xml_function(text: &str, table: &Table, compat: bool) -> Result<Parsed, Fault> {
    let Some(call) = find_call(text, compat) else {
        return Err(Fault::new(
            Code::Missing,
            "There is no complete function call in your reply. Write it as \
             `<function=NAME>`, one `<parameter=NAME>VALUE</parameter>` for each argument, and \
             `</function>`.",
        ));
    };
    let Call {
        whole,
        name,
        parameters,
    } = call;
    let known = known_or_alias(name, table).ok_or_else(|| unknown_command(name, table))?;
    let mut arguments = Map::new();
    for (name, value) in parameters {
        arguments.insert(name.to_owned(), Value::from(value));
    }
    if compat && let Some(Value::String(range)) = arguments.get("view_range") {
        let Some(list) = view_range(range) else {
            return Err(Fault::new(
                Code::InvalidArg,
                "The argument `view_range` has to be of the form `[FIRST, LAST]`.",
            ));
        };
        arguments.insert("view_range".to_owned(), list);
    }
    let rules = Rules {
        compat,
        refuse_unexpected: true,
    };
    let thought = format!("{}{}", &text[..whole.start], &text[whole.end..]);
    Ok(Parsed::new(
        strip(&thought),
        line(known, &arguments, rules)?,
    ))
}

/// A command by its name, or by the name that models of SWE-Gym have learned.
fn known_or_alias<'t>(name: &str, table: &'t Table) -> Option<&'t Known> {
    let alias = match name {
        "execute_bash" => BASH,
        "finish" => "submit",
        other => other,
    };
    table.get(name).or_else(|| table.get(alias))
}

/// Two whole numbers in brackets, as SWE-agent expects them.
fn view_range(text: &str) -> Option<Value> {
    let (first, last) = text.strip_prefix('[')?.strip_suffix(']')?.split_once(',')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(first) || !is_number(last.trim_start_matches(crate::python::is_space)) {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// `json`: a thought and a command in one object.
pub fn json(text: &str, table: &Table, compat: bool) -> Result<Parsed, Fault> {
    let reply: Value = serde_json::from_str(text).map_err(|error| {
        Fault::new(
            Code::InvalidJson,
            format!(
                "Your reply is no valid JSON: {error}. It has to be one JSON object, without a \
                 fence and without text around it."
            ),
        )
    })?;
    let Value::Object(reply) = reply else {
        return Err(Fault::new(
            Code::InvalidJson,
            "Your reply has to be a JSON object with the keys `thought` and `command`.",
        ));
    };
    let thought = key(&reply, "thought", "your reply")?;
    let Value::Object(command) = key(&reply, "command", "your reply")? else {
        return Err(Fault::new(
            Code::MissingKey,
            "`command` has to be an object with the keys `name` and `arguments`.",
        ));
    };
    let Value::String(name) = key(command, "name", "`command`")? else {
        return Err(Fault::new(
            Code::MissingKey,
            "The `name` of the `command` has to be a string.",
        ));
    };
    let none = Map::new();
    let arguments = match command.get("arguments") {
        None | Some(Value::Null) => &none,
        Some(Value::Object(arguments)) => arguments,
        Some(_) => {
            return Err(Fault::new(
                Code::InvalidArg,
                "The `arguments` of the `command` have to be an object.",
            ));
        }
    };
    let rules = Rules {
        compat,
        refuse_unexpected: false,
    };
    let command = match table.get(name) {
        Some(known) => line(known, arguments, rules)?,
        // Without a shell only the commands of the table can be called.
        None if !compat && table.get(BASH).is_none() => return Err(unknown_command(name, table)),
        None => unknown_line(name, arguments)?,
    };
    Ok(Parsed::new(plain(thought), command))
}

fn key<'m>(map: &'m Map<String, Value>, name: &str, of: &str) -> Result<&'m Value, Fault> {
    map.get(name).ok_or_else(|| {
        Fault::new(
            Code::MissingKey,
            format!("The key `{name}` is missing in {of}."),
        )
    })
}

/// A command that the table does not have: its name and the values, unchanged.
fn unknown_line(name: &str, arguments: &Map<String, Value>) -> Result<String, Fault> {
    let mut line = name.to_owned();
    for (argument, value) in arguments {
        match value {
            Value::Null => continue,
            Value::Array(_) | Value::Object(_) => {
                return Err(Fault::new(
                    Code::InvalidArg,
                    format!("The argument `{argument}` has to be a string or a number."),
                ));
            }
            scalar => {
                line.push(' ');
                line.push_str(&plain(scalar));
            }
        }
    }
    Ok(line)
}

/// The command line of a call.
fn line(known: &Known, arguments: &Map<String, Value>, rules: Rules) -> Result<String, Fault> {
    let command = &known.command;
    // Models write `null` to leave something out; SWE-agent takes it for an empty value.
    let given = |name: &str| match arguments.get(name) {
        Some(Value::Null) if !rules.compat => None,
        value => value,
    };
    let names = |list: Vec<&str>| {
        let list: Vec<_> = list.iter().map(|name| format!("`{name}`")).collect();
        list.join(", ")
    };
    let missing: Vec<_> = command
        .arguments
        .iter()
        .filter(|argument| argument.required && given(&argument.name).is_none())
        .map(|argument| argument.name.as_str())
        .collect();
    if !missing.is_empty() {
        return Err(Fault::new(
            Code::MissingArg,
            format!("`{}` lacks arguments: {}.", command.name, names(missing)),
        ));
    }
    let is_expected = |name: &str| {
        command.arguments.iter().any(|argument| argument.name == name)
            // Some models pass the line that ends a text as an argument.
            || command.end_name.as_deref() == Some(name)
    };
    let unexpected: Vec<_> = arguments
        .keys()
        .map(String::as_str)
        .filter(|name| rules.refuse_unexpected && !is_expected(name))
        .collect();
    if !unexpected.is_empty() {
        return Err(Fault::new(
            Code::UnexpectedArg,
            format!(
                "`{}` has no arguments of these names: {}.",
                command.name,
                names(unexpected)
            ),
        ));
    }
    let mut all = Vec::with_capacity(command.arguments.len());
    for (number, argument) in command.arguments.iter().enumerate() {
        all.push(match given(&argument.name) {
            // In SWE-agent, `null` is an empty value in a tool call, and the text `None` in a JSON
            // object.
            Some(Value::Null) if rules.refuse_unexpected => Some(nothing(known, number)?),
            Some(value) => Some(words(known, number, value, rules.compat)?),
            None => None,
        });
    }
    Ok(strip(&known.signature.invoke(&all)).to_owned())
}
