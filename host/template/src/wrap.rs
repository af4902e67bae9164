//! Breaking a line into lines of a width, as Python's `textwrap` does.

use minijinja::Error;

use super::meter;
use super::python::is_space;

fn is_blank(char: char) -> bool {
    matches!(char, '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | ' ')
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

fn is_letter(char: char) -> bool {
    is_word(char) && !char.is_numeric()
}

fn is_word_or_mark(char: char) -> bool {
    is_word(char) || matches!(char, '!' | '"' | '\'' | '&' | '.' | ',' | '?')
}

/// The lines. `long` breaks words that are longer than a line; `hyphens` allows breaks after
/// hyphens.
pub(super) fn wrap(
    line: &str,
    width: usize,
    long: bool,
    hyphens: bool,
) -> Result<Vec<String>, Error> {
    meter::build(line.len().saturating_mul(4))?;
    let chars: Vec<char> = line.chars().collect();
    let mut chunks: Vec<&[char]> = chunks(&chars, hyphens);
    chunks.reverse();
    let blank = |chunk: &[char]| chunk.iter().all(|char| is_space(*char));
    let mut lines = Vec::new();
    while let Some(next) = chunks.last() {
        let blanks = next.iter().take_while(|char| is_space(**char)).count();
        meter::spend(blanks)?;
        if blanks == next.len() && !lines.is_empty() {
            chunks.pop();
        }
        let mut parts: Vec<&[char]> = Vec::new();
        let mut used = 0;
        while let Some(chunk) = chunks.pop_if(|chunk| used + chunk.len() <= width) {
            used += chunk.len();
            parts.push(chunk);
        }
        if let Some(chunk) = chunks.last_mut().filter(|chunk| chunk.len() > width) {
            if long {
                let room = width - used;
                let end = break_at(chunk, room, hyphens);
                let (head, tail) = chunk.split_at(end);
                parts.push(head);
                *chunk = tail;
            } else if parts.is_empty() {
                parts.extend(chunks.pop());
            }
        }
        parts.pop_if(|part| blank(part));
        if !parts.is_empty() {
            lines.push(parts.concat().into_iter().collect());
        }
    }
    Ok(lines)
}

fn break_at(chunk: &[char], room: usize, hyphens: bool) -> usize {
    if hyphens
        && let Some(hyphen) = chunk[..room].iter().rposition(|char| *char == '-')
        && chunk[..hyphen].iter().any(|char| *char != '-')
    {
        return hyphen + 1;
    }
    room
}

/// The parts that are broken only if they are too long: blanks, words, parts of hyphenated words.
fn chunks(chars: &[char], hyphens: bool) -> Vec<&[char]> {
    let mut chunks = Vec::new();
    let mut start = 0;
    while start < chars.len() {
        let end = if is_blank(chars[start]) {
            let rest = &chars[start..];
            start + rest.iter().take_while(|char| is_blank(**char)).count()
        } else if hyphens {
            word_end(chars, start)
        } else {
            let rest = &chars[start..];
            start + rest.iter().take_while(|char| !is_blank(**char)).count()
        };
        chunks.push(&chars[start..end]);
        start = end;
    }
    chunks
}

/// The length of a dash of two or more characters that follows a word and precedes one.
fn dash(chars: &[char], at: usize) -> Option<usize> {
    // checked first, since otherwise a long dash would be counted from each of its characters
    if at == 0 || !is_word_or_mark(chars[at - 1]) {
        return None;
    }
    let length = chars[at..].iter().take_while(|char| **char == '-').count();
    let fits = length >= 2 && chars.get(at + length).is_some_and(|char| is_word(*char));
    fits.then_some(length)
}

fn word_end(chars: &[char], start: usize) -> usize {
    if let Some(length) = dash(chars, start) {
        return start + length;
    }
    let letter = |at: Option<usize>| {
        at.and_then(|at| chars.get(at))
            .is_some_and(|char| is_letter(*char))
    };
    for end in start + 1..=chars.len() {
        if chars.get(end).is_none_or(|char| is_blank(*char)) {
            return end;
        }
        if chars[end] == '-' {
            // the hyphen stays with the part before it
            let before = |back| end.checked_sub(back);
            let hyphen_in = |at: Option<usize>| at.is_some_and(|at| chars[at] == '-');
            let behind = (letter(before(1)) && letter(before(2)))
                || (letter(before(1)) && hyphen_in(before(2)) && letter(before(3)));
            let next = end + 1;
            let ahead = letter(Some(next))
                && (letter(Some(next + 1))
                    || (chars.get(next + 1) == Some(&'-') && letter(Some(next + 2))));
            if behind && ahead {
                return next;
            }
        }
        if dash(chars, end).is_some() {
            return end;
        }
    }
    chars.len()
}
