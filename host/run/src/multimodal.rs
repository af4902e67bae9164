//! Images in messages that were made from templates: a text is cut at each match of a regular
//! expression of the config, and the image that the match names is put in between.
//!
//! This is done when a message joins the history, so that the journal, processors and adapters get
//! the same parts, and each message is searched only once.

use mswea_core::{CONTENT_LIST, Message, Part};
use mswea_expression::{Expression, FoundMatch, Mistake};

/// The value of a match's first group that means: the second group is the URL of an image.
const IMAGE: &str = "image_url";

/// Finds images in messages.
#[derive(Debug)]
pub struct Multimodal {
    expression: Expression,
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
    Syntax(Mistake),
    /// It lacks the groups for type and URL.
    #[error(
        "`model.multimodal_regex` has {0} of the 2 groups that it needs: put the part that matches the type (`image_url`) into the first group `(...)`, and the part that matches the URL into the second"
    )]
    Groups(usize),
}

/// A text on which the search was aborted, because it would take too long.
#[derive(Debug, thiserror::Error)]
#[error("the search with `model.multimodal_regex` was aborted on a message, which stays text: {0}")]
pub struct TooHard(#[from] mswea_expression::SearchTooHard);

impl Multimodal {
    /// Compiles the expression of the config; `None` if it is empty.
    ///
    /// # Errors
    /// [`BadRegex`] if it is no regular expression, or lacks the groups for type and URL.
    pub fn new(pattern: &str, observations: bool) -> Result<Option<Self>, BadRegex> {
        if pattern.is_empty() {
            return Ok(None);
        }
        let expression = Expression::new(pattern).map_err(BadRegex::Syntax)?;
        match expression.groups() {
            groups @ (0 | 1) => Err(BadRegex::Groups(groups)),
            _ => Ok(Some(Self {
                expression,
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
        for one in self.expression.find_all(text) {
            let one = one?;
            let whole = one.range();
            found = true;
            if at < whole.start {
                parts.push(Part::text(&text[at..whole.start]));
            }
            at = whole.end;
            if group(text, &one, 1) == IMAGE {
                parts.push(Part::Image {
                    url: group(text, &one, 2).to_owned(),
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
fn group<'t>(text: &'t str, found: &FoundMatch, number: usize) -> &'t str {
    strip(&text[found.group(number).unwrap_or_default()])
}

/// As Python's `str.strip`, which also strips four control characters.
fn strip(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\x1c'..='\x1f'))
}

#[cfg(test)]
#[path = "multimodal_tests.rs"]
mod tests;
