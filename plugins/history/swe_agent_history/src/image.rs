//! `image_parsing`: images that a text holds as Markdown with a data URL become images.

use mswea_sdk::types::{ContentPart, Image, Message};

use crate::engine::Rule;

/// Which images.
pub struct ImageParser {
    /// Their media types.
    pub allowed: Vec<String>,
}

/// `![alt](data:TYPE;base64,DATA)` in a text.
struct Found<'t> {
    /// Where `TYPE` begins, and where the closing parenthesis is.
    from: usize,
    to: usize,
    kind: &'t str,
    data: &'t str,
}

/// Where a character comes next, looked for only once: texts with many beginnings and no end
/// cost no more than others.
struct Next<'t> {
    text: &'t str,
    wanted: char,
    at: Option<usize>,
}

impl<'t> Next<'t> {
    fn new(text: &'t str, wanted: char) -> Self {
        let at = text.find(wanted);
        Self { text, wanted, at }
    }

    /// The first one from `from` on, which never goes back.
    fn from(&mut self, from: usize) -> Option<usize> {
        if self.at.is_some_and(|at| at < from) {
            self.at = self.text[from..].find(self.wanted).map(|at| from + at);
        }
        self.at
    }
}

/// All images of a text, whatever their types.
fn find(text: &str) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    // Nearly no text has one.
    if !text.contains("](data:") {
        return found;
    }
    let mut brackets = Next::new(text, ']');
    let mut semicolons = Next::new(text, ';');
    let mut parentheses = Next::new(text, ')');
    let mut from = 0;
    while let Some(start) = text[from..].find("![").map(|at| from + at) {
        from = start + 1;
        let Some(bracket) = brackets.from(start + 2) else {
            break;
        };
        if !text[bracket..].starts_with("](data:") {
            continue;
        }
        let kind = bracket + "](data:".len();
        let Some(semicolon) = semicolons.from(kind) else {
            break;
        };
        if semicolon == kind || !text[semicolon..].starts_with(";base64,") {
            continue;
        }
        let data = semicolon + ";base64,".len();
        let Some(end) = parentheses.from(data) else {
            break;
        };
        if end > data {
            found.push(Found {
                from: kind,
                to: end,
                kind: &text[kind..semicolon],
                data: &text[data..end],
            });
            from = end + 1;
        }
    }
    found
}

impl ImageParser {
    /// The parts of a text; none if it holds no image of these types.
    fn parts(&self, text: &str) -> Option<Vec<ContentPart>> {
        let mut parts = Vec::new();
        let mut from = 0;
        for found in find(text) {
            // The name that many use for it is no registered type.
            let kind = match found.kind {
                "image/jpg" => "image/jpeg",
                kind => kind,
            };
            if !self.allowed.iter().any(|allowed| allowed == kind) {
                continue;
            }
            parts.push(ContentPart::text(&text[from..found.from]));
            parts.push(ContentPart::Image(Image {
                url: format!("data:{kind};base64,{}", found.data),
                extra: None,
            }));
            from = found.to;
        }
        if parts.is_empty() {
            return None;
        }
        parts.push(ContentPart::text(&text[from..]));
        Some(parts)
    }
}

impl Rule for ImageParser {
    fn view(&self, history: &[Message], index: usize) -> Message {
        let mut message = history[index].clone();
        if !matches!(message.role.as_str(), "user" | "tool") {
            return message;
        }
        let content = std::mem::take(&mut message.content);
        for part in content {
            match part.as_text().and_then(|text| self.parts(text)) {
                Some(parts) => message.content.extend(parts),
                None => message.content.push(part),
            }
        }
        message
    }
}
