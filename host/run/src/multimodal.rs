//! Images in messages that were made from templates: a text is cut at each match of a regular
//! expression of the config, and the image that the match names is put in between.
//!
//! This is done when a message joins the history, so that the journal, processors and adapters get
//! the same parts, and each message is searched only once.

use fancy_regex::{Captures, Regex};

use mswea_core::{CONTENT_LIST, Message, Part};

/// The value of a match's first group that means: the second group is the URL of an image.
const IMAGE: &str = "image_url";

/// Finds images in messages.
#[derive(Debug)]
pub struct Multimodal {
    regex: Regex,
    /// Whether observations are searched, too.
    observations: bool,
}

/// An expression that finds no images.
#[derive(Debug, thiserror::Error)]
pub enum BadRegex {
    /// It is not a regular expression.
    #[error(
        "`model.multimodal_regex` is no usable regular expression: {0}; write it in the syntax of Python's `re`, or `\"\"` for no images"
    )]
    Syntax(Box<fancy_regex::Error>),
    /// It lacks the groups for type and URL.
    #[error(
        "`model.multimodal_regex` has {0} of the 2 groups that it needs: put the part that matches the type (`image_url`) into the first group `(...)`, and the part that matches the URL into the second"
    )]
    Groups(usize),
}

/// A text on which the search was aborted, because it would take too long.
#[derive(Debug, thiserror::Error)]
#[error(
    "the search with `model.multimodal_regex` was aborted on a message, which stays text: {0}; make the expression simpler, above all its repetitions within repetitions"
)]
pub struct TooHard(Box<fancy_regex::Error>);

impl Multimodal {
    /// Compiles the expression of the config; `None` if it is empty.
    ///
    /// # Errors
    /// [`BadRegex`] if it is no regular expression, or lacks the groups for type and URL.
    pub fn new(pattern: &str, observations: bool) -> Result<Option<Self>, BadRegex> {
        if pattern.is_empty() {
            return Ok(None);
        }
        let regex =
            Regex::new(&from_python(pattern)).map_err(|error| BadRegex::Syntax(Box::new(error)))?;
        // The whole match is a group, too.
        match regex.captures_len() - 1 {
            groups @ (0 | 1) => Err(BadRegex::Groups(groups)),
            _ => Ok(Some(Self {
                regex,
                observations,
            })),
        }
    }

    /// Whether observations are searched, too.
    pub fn takes_observations(&self) -> bool {
        self.observations
    }

    /// Cuts the texts of a message. As in mini-swe-agent, its content is a list afterwards, also if
    /// there was no match; a match that is no image is left out.
    ///
    /// # Errors
    /// An error if the search is aborted; the message is then unchanged.
    pub fn expand(&self, message: &mut Message) -> Result<(), TooHard> {
        let mut parts = Vec::with_capacity(message.content.len());
        for part in &message.content {
            match part {
                Part::Text { text } => self.cut(text, &mut parts)?,
                other => parts.push(other.clone()),
            }
        }
        message.content = parts;
        let has_image = |part: &Part| matches!(part, Part::Image { .. });
        if !message.content.iter().any(has_image) {
            message.extra.insert(CONTENT_LIST.to_owned(), true.into());
        }
        Ok(())
    }

    fn cut(&self, text: &str, parts: &mut Vec<Part>) -> Result<(), TooHard> {
        let mut at = 0;
        let mut found = false;
        for captures in self.regex.captures_iter(text) {
            let captures = captures.map_err(|error| TooHard(Box::new(error)))?;
            let Some(whole) = captures.get(0) else {
                continue;
            };
            found = true;
            if at < whole.start() {
                parts.push(Part::text(&text[at..whole.start()]));
            }
            at = whole.end();
            if group(&captures, 1) == IMAGE {
                parts.push(Part::Image {
                    url: group(&captures, 2).to_owned(),
                    extra: serde_json::Map::new(),
                });
            }
        }
        if at < text.len() || !found {
            parts.push(Part::text(&text[at..]));
        }
        Ok(())
    }
}

/// The text of a group, stripped; empty if the group is not part of the match.
fn group<'t>(captures: &Captures<'t, str>, number: usize) -> &'t str {
    captures
        .get(number)
        .map_or("", |group| strip(group.as_str()))
}

/// As Python's `str.strip`, which also strips four control characters.
fn strip(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\x1c'..='\x1f'))
}

/// Translates a Python expression for this engine, where the syntax of the two differs: escaped
/// angle brackets (here the ends of words), braces that are no repetition, brackets and `&` in a
/// class, `\Z`, and `$`, which in Python stands before a last line break as well.
fn from_python(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let multi_line = is_multi_line(pattern);
    let mut rest = pattern;
    // Inside a class: the number of its characters so far, because a bracket at its beginning is a
    // member.
    let mut class: Option<usize> = None;
    while let Some(c) = rest.chars().next() {
        let here = rest;
        rest = &rest[c.len_utf8()..];
        if c == '\\' {
            let Some(escaped) = rest.chars().next() else {
                out.push(c);
                break;
            };
            rest = &rest[escaped.len_utf8()..];
            match escaped {
                '<' | '>' => out.push(escaped),
                ' ' => out.push_str(r"\x20"),
                'Z' if class.is_none() => out.push_str(r"\z"),
                _ => out.extend([c, escaped]),
            }
            class = class.map(|length| length + 1);
            continue;
        }
        match (&mut class, c) {
            (Some(length @ 1..), ']') => {
                *length = 0;
                class = None;
                out.push(c);
            }
            (Some(length), _) => {
                // `^` in front is no character of the class.
                let negates = c == '^' && *length == 0 && out.ends_with('[');
                *length += usize::from(!negates);
                if matches!(c, '[' | '&' | '~' | ']') {
                    out.push('\\');
                }
                out.push(c);
            }
            (None, '[') => {
                class = Some(0);
                out.push(c);
            }
            (None, '{') => match repetition(here) {
                Some((low, high)) => {
                    out.push_str(&format!("{{{low}{high}}}"));
                    rest = here.split_once('}').map_or("", |(_, rest)| rest);
                }
                None => out.push_str(r"\{"),
            },
            (None, '$') if !multi_line => out.push_str(r"(?=\n?\z)"),
            (None, _) => out.push(c),
        }
    }
    out
}

/// The lower bound of a repetition like `{2,3}`, and its comma and upper bound.
fn repetition(text: &str) -> Option<(&str, &str)> {
    let (inner, _) = text.strip_prefix('{')?.split_once('}')?;
    let (low, high) = inner.split_at(inner.find(',').unwrap_or(inner.len()));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let upper = high.strip_prefix(',').unwrap_or_default();
    if !digits(low) || !digits(upper) || inner.is_empty() {
        return None;
    }
    Some((if low.is_empty() { "0" } else { low }, high))
}

/// Whether a group of flags has the `m`.
fn is_multi_line(pattern: &str) -> bool {
    pattern.split("(?").skip(1).any(|flags| {
        let end = flags.find(|c: char| !c.is_ascii_lowercase());
        let (flags, rest) = flags.split_at(end.unwrap_or(flags.len()));
        flags.contains('m') && rest.starts_with([')', ':', '-'])
    })
}

#[cfg(test)]
#[path = "multimodal_tests.rs"]
mod tests;
