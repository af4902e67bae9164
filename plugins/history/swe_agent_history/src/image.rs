//! `image_parsing`: images in a text, as Markdown with a data URL, become image parts.

use mswea_sdk::types::{ContentPart, Image, Message};

use crate::engine::Rule;

/// The images to convert.
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

/// The next place of a character. It is searched only once, so that a text with many beginnings and
/// no end does not take longer.
struct NextPlace<'t> {
    text: &'t str,
    wanted: char,
    at: Option<usize>,
}

impl<'t> NextPlace<'t> {
    fn new(text: &'t str, wanted: char) -> Self {
        let at = text.find(wanted);
        Self { text, wanted, at }
    }

    /// The first place from `from` on; `from` never decreases.
    fn from(&mut self, from: usize) -> Option<usize> {
        if self.at.is_some_and(|at| at < from) {
            self.at = self.text[from..].find(self.wanted).map(|at| from + at);
        }
        self.at
    }
}

/// All images in a text, of any type.
fn find(text: &str) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    // Nearly no text has an image.
    if !text.contains("](data:") {
        return found;
    }
    let mut brackets = NextPlace::new(text, ']');
    let mut semicolons = NextPlace::new(text, ';');
    let mut parentheses = NextPlace::new(text, ')');
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
            // A common name that is not the registered type.
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
