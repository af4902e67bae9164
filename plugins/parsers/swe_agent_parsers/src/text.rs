//! The parsers of plain text: fences, tags, and those that use the whole reply.

use crate::commands::Table;
use crate::fences::{Block, bash_blocks, last_block};
use crate::manifest::BASH;
use crate::parsed::Parsed;
use crate::problem::{Code, Fault};
use crate::python::{is_space, strip};

const OPEN: &str = "<command>";
const CLOSE: &str = "</command>";

/// The text that replaces a block in the thought.
const TAKEN: &str = "<extracted_code_block>";

/// `thought_action` and `edit_format`: the last fenced block; `wanted` describes its content for
/// messages.
pub fn fenced(text: &str, wanted: &str, compat: bool) -> Result<Parsed, Fault> {
    let Some(block) = last_block(text, compat) else {
        return Err(Fault::new(
            Code::Missing,
            format!(
                "There is no complete code block in your reply. Put {wanted} between two lines \
                 of three backticks, and everything else outside of them."
            ),
        ));
    };
    let Block { whole, body } = block;
    let mut command = text[body.clone()].to_owned();
    // A shell would treat a carriage return as part of the word before it.
    if !compat && text[..body.start].ends_with("\r\n") {
        command = command.replace("\r\n", "\n");
    }
    Ok(Parsed::new(
        format!("{}{}", &text[..whole.start], &text[whole.end..]),
        command,
    ))
}

/// `xml_thought_action`: between the last two tags.
pub fn tagged(text: &str, compat: bool) -> Result<Parsed, Fault> {
    let (open, close) = (text.rfind(OPEN), text.rfind(CLOSE));
    let body = open.map_or(0, |open| open + OPEN.len());
    match (open, close) {
        (Some(open), Some(close)) if close >= body || compat => Ok(Parsed::new(
            strip(&format!(
                "{}{}",
                &text[..open],
                &text[close + CLOSE.len()..]
            )),
            strip(text.get(body..close).unwrap_or_default()),
        )),
        _ => Err(Fault::new(
            Code::Missing,
            "There is no command in your reply. Put it between `<command>` and `</command>`.",
        )),
    }
}

/// `action`: the whole reply, if its first word is a command. If the shell is the only command,
/// every word counts as a command.
pub fn known_action(text: &str, table: &Table, compat: bool) -> Result<Parsed, Fault> {
    let first = text.split(is_space).find(|word| !word.is_empty());
    let any = !compat && !table.has_own && table.get(BASH).is_some();
    match first {
        Some(word) if any || table.get(word).is_some() => Ok(Parsed::new(text, text)),
        None => Err(Fault::new(
            Code::Missing,
            "Your reply is empty. It has to be one command, and nothing else.",
        )),
        Some(word) => Err(unknown_command(word, table)),
    }
}

/// A command that is not in the table.
pub fn unknown_command(name: &str, table: &Table) -> Fault {
    let shown: String = name.chars().take(80).collect();
    let message = match table.names() {
        names if names.is_empty() => format!("There is no command `{shown}`, and no other."),
        names => format!("There is no command `{shown}`. Use one of these: {names}."),
    };
    Fault::new(Code::InvalidCommand, message).with("command_docs", table.documentation())
}

/// `all_bash_code_blocks` and `single_bash_code_block`.
pub fn bash(text: &str, single: bool, compat: bool) -> Result<Parsed, Fault> {
    let blocks = bash_blocks(text, compat);
    let commands: Vec<_> = blocks
        .iter()
        .map(|block| &text[block.body.clone()])
        .collect();
    if commands.is_empty() {
        return Err(Fault::new(
            Code::Missing,
            "There is no block of bash in your reply. Put the command between a line \
             ```` ```bash ```` and a line of three backticks.",
        ));
    }
    if single && commands.len() > 1 {
        return Err(Fault::new(
            Code::Multiple,
            format!(
                "There are {} blocks of bash in your reply, and there has to be exactly one.",
                commands.len()
            ),
        )
        .with("actions", commands)
        .with("n_actions", blocks.len()));
    }
    let mut thought = String::new();
    let mut from = 0;
    for block in &blocks {
        thought.push_str(&text[from..block.whole.start]);
        thought.push_str(TAKEN);
        from = block.whole.end;
    }
    thought.push_str(&text[from..]);
    Ok(Parsed::new(thought, commands.join("\n")))
}
