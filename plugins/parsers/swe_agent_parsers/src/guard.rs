//! Writes commands that read a text up to a certain line as here-documents: a shell has no other
//! way to pass such a text.

use std::collections::BTreeMap;

use crate::commands::Table;
use crate::heredoc::{Heredocs, lines, scan};
use crate::manifest::Command;
use crate::python::is_space;

/// Makes here-documents of all such commands in a script. Commands that are one already, those
/// without an end and those inside another here-document stay unchanged.
pub fn guard(script: &str, table: &Table) -> String {
    let ends: Vec<_> = table
        .commands()
        .filter_map(|command| Some((command.name.as_str(), command.end_name.as_deref()?)))
        .filter(|(name, end)| script.contains(name) && script.contains(end))
        .collect();
    if ends.is_empty() {
        return script.to_owned();
    }
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, line) in lines(script) {
        last.insert(line.trim_end_matches(is_space), at);
    }
    let mut heredocs = Heredocs::new(script);
    let mut guarded = String::with_capacity(script.len() + 32);
    let mut waiting = None;
    let mut quote = None;
    for (at, line) in lines(script) {
        let whole = &script[at..];
        let line_break = match whole[line.len()..].starts_with('\n') {
            true => "\n",
            false => "",
        };
        if let Some(end) = waiting {
            // The shell would not recognise the end with blanks after it.
            match line.trim_end_matches(is_space) == end {
                true => {
                    guarded.push_str(end);
                    waiting = None;
                }
                false => guarded.push_str(line),
            }
        } else {
            guarded.push_str(line);
            let is_inside = heredocs.feed(at, line) || quote.is_some();
            let last_command = match is_inside && quote.is_none() {
                true => "",
                false => scan(line, &mut quote).last_command,
            };
            let first = last_command.split(is_space).find(|it| !it.is_empty());
            let command = ends.iter().find(|(name, _)| Some(*name) == first);
            if let Some((_, end)) = command.filter(|_| !is_inside && !line.contains("<<"))
                && last.get(end).is_some_and(|last| *last > at)
            {
                guarded.push_str(&format!(" << '{end}'"));
                waiting = Some(*end);
            }
        }
        guarded.push_str(line_break);
    }
    guarded
}

/// The first command that reads a text up to a certain line, where neither this line nor the text follows, and
/// that line. The command would find no text, and the shell would run what follows as commands.
pub fn unended<'t>(script: &str, table: &'t Table) -> Option<(&'t str, &'t str)> {
    let commands: Vec<&Command> = table
        .commands()
        .filter(|it| it.end_name.is_some() && script.contains(&it.name))
        .collect();
    if commands.is_empty() {
        return None;
    }
    // Where the last line begins that ends the text of a command: one pass, because a script may have any number of
    // such commands.
    let mut last_ends: Vec<Option<usize>> = vec![None; commands.len()];
    let mut start = 0;
    for line in script.split('\n') {
        let word = line.trim_end_matches(is_space);
        for (command, last) in commands.iter().zip(&mut last_ends) {
            if command.end_name.as_deref() == Some(word) {
                *last = Some(start);
            }
        }
        start += line.len() + 1;
    }
    let mut heredocs = Heredocs::new(script);
    let mut quote = None;
    let mut text_ends = None;
    for (at, line) in lines(script) {
        if let Some(end) = text_ends {
            if line.trim_end_matches(is_space) == end {
                text_ends = None;
            }
            continue;
        }
        if heredocs.feed(at, line) && quote.is_none() {
            continue;
        }
        let is_quoted = quote.is_some();
        let last_command = scan(line, &mut quote).last_command;
        let mut words = last_command.split(is_space).filter(|it| !it.is_empty());
        let first = words.next();
        let place = commands
            .iter()
            .position(|it| Some(it.name.as_str()) == first);
        let Some((command, last_end)) = place.map(|it| (commands[it], last_ends[it])) else {
            continue;
        };
        // With more words than its signature has before the text, it has the text as an argument.
        let usual = match &command.signature {
            Some(signature) => signature.split('\n').next().unwrap_or_default(),
            None => "",
        };
        let usual = usual.split(is_space).filter(|word| !word.is_empty());
        let usual = match command.signature {
            Some(_) => usual.count().saturating_sub(1),
            None => command.arguments.len().saturating_sub(1),
        };
        let is_whole = words.count() > usual;
        if is_whole || is_quoted || line.contains('<') {
            continue;
        }
        let end = command.end_name.as_deref().unwrap_or_default();
        if last_end.is_none_or(|last| last <= at) {
            return Some((&command.name, end));
        }
        text_ends = Some(end);
    }
    None
}

/// SWE-agent's result for a script: pieces joined by line breaks, and a script that does not begin
/// with the command loses as many characters as are before the command.
pub fn guard_as_they_do(script: &str, table: &Table) -> String {
    let mut patterns: Vec<Pattern> = Vec::new();
    for command in table.commands() {
        // The command for submitting has an end of this name, unless it has one of its own.
        let end = match (command.end_name.as_deref(), command.name.as_str()) {
            (Some(end), _) => end,
            (None, "submit") => "None",
            (None, _) => continue,
        };
        if !script.contains(&command.name) || !script.contains(end) {
            continue;
        }
        patterns.push(Pattern {
            name: &command.name,
            end,
            next: None,
            stop: None,
        });
    }
    if patterns.is_empty() {
        return script.to_owned();
    }
    let mut pieces: Vec<String> = Vec::new();
    let mut from = 0;
    while !script[from..].chars().all(is_space) {
        let matches = patterns.iter_mut().filter_map(|pattern| {
            let found = pattern.search(script, from)?;
            Some((found.start, found.end, pattern.end))
        });
        let Some((start, stop, end)) = matches.min_by_key(|(start, ..)| *start) else {
            pieces.push(script[from..].to_owned());
            break;
        };
        let before = &script[from..start];
        if !before.chars().all(is_space) {
            pieces.push(before.to_owned());
        }
        let text = &script[start..stop];
        let first = text.split('\n').next().unwrap_or_default();
        if first
            .trim_matches(is_space)
            .ends_with(&format!("<< '{end}'"))
        {
            pieces.push(text.to_owned());
        } else {
            let cut = before.chars().count();
            let text: String = text.chars().skip(cut).collect();
            let (first, rest) = text.split_at(text.find('\n').unwrap_or(text.len()));
            pieces.push(format!("{first} << '{end}'{rest}"));
        }
        from = stop;
    }
    pieces.join("\n")
}

/// `^\s*(NAME)\s*(.*?)^(END)\s*$` over several lines.
struct Pattern<'c> {
    name: &'c str,
    end: &'c str,
    /// The last result, so that the search need not be repeated: the outer none means not searched
    /// yet, the inner one nothing found.
    next: Option<Option<Match>>,
    /// The last end that was found: where its line begins, and where the match ends.
    stop: Option<(usize, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Match {
    start: usize,
    /// Where the name begins.
    name: usize,
    end: usize,
}

impl Pattern<'_> {
    /// The first match at or after `from`, which counts as the beginning of a line.
    fn search(&mut self, script: &str, from: usize) -> Option<Match> {
        match self.next {
            Some(None) => return None,
            // The known match is still valid, unless it begins in the blanks that were cut off.
            Some(Some(found)) if found.start >= from => {
                let name = from + blanks(&script[from..]);
                return Some(match name == found.name {
                    true => Match {
                        start: from,
                        ..found
                    },
                    false => found,
                });
            }
            _ => {}
        }
        let found = self.look(script, from);
        self.next = Some(found);
        found
    }

    fn look(&mut self, script: &str, from: usize) -> Option<Match> {
        let mut start = from;
        loop {
            let name = start + blanks(&script[start..]);
            if script[name..].starts_with(self.name) {
                // If this start has no end after it, no later start has one either.
                let end = self.find_end(script, name + self.name.len())?;
                return Some(Match { start, name, end });
            }
            // Lines of blanks lead to the same place.
            start = name + script[name..].find('\n')? + 1;
        }
    }

    fn find_end(&mut self, script: &str, from: usize) -> Option<usize> {
        if let Some((_, end)) = self.stop.filter(|(at, _)| *at >= from) {
            return Some(end);
        }
        let mut at = from;
        loop {
            if (at == 0 || script[..at].ends_with('\n')) && script[at..].starts_with(self.end) {
                let behind = at + self.end.len();
                let blanks = &script[behind..behind + blanks(&script[behind..])];
                let end = match blanks.rfind('\n') {
                    _ if behind + blanks.len() == script.len() => Some(script.len()),
                    line_break => line_break.map(|line_break| behind + line_break),
                };
                if let Some(end) = end {
                    self.stop = Some((at, end));
                    return Some(end);
                }
            }
            at += script[at..].find('\n')? + 1;
        }
    }
}

/// How many bytes of blanks a text begins with.
fn blanks(text: &str) -> usize {
    text.len() - text.trim_start_matches(is_space).len()
}
