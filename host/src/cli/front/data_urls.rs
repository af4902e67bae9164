//! Shortens `data:` URLs in texts for users: the bytes of an image are not readable, and would fill
//! the screen.

use std::borrow::Cow;

use mswea_core::{Message, Part};

/// Data up to this many characters are shown, because a person may have written them.
const SHOWN: usize = 64;

/// The text with the number of characters in place of the data of its `data:` URLs.
pub(super) fn brief(text: &str) -> Cow<'_, str> {
    const HEAD: &str = "data:";
    const BASE64: &str = ";base64,";
    let mut out = String::new();
    let mut done = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find(HEAD) {
        let begin = at + found + HEAD.len();
        at = begin;
        let rest = &text[begin..];
        let head = rest.find(|c: char| !is_of_type(c)).unwrap_or(rest.len());
        // The type and its parameters, up to the mark of base64.
        let Some(data) = rest[..head].find(BASE64).map(|mark| mark + BASE64.len()) else {
            continue;
        };
        let letters = &rest[data..];
        let end = letters.find(|c: char| !is_base64(c));
        let length = end.unwrap_or(letters.len());
        at = begin + data + length;
        if length > SHOWN {
            out.push_str(&text[done..begin + data]);
            out.push_str(&format!("... ({length} characters)"));
            done = at;
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

fn is_of_type(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '/' | '+' | '-' | '.' | ';' | '=' | ',' | '_')
}

fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '-' | '_')
}

/// The text of a message, with names in place of its images.
pub(super) fn with_images(message: &Message) -> String {
    let mut out = String::new();
    for part in &message.content {
        match part {
            Part::Text { text } => out.push_str(text),
            Part::Image { url, .. } => out.push_str(&format!("[image: {url}]")),
            Part::Reasoning { .. } | Part::Opaque { .. } => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_of_images_is_counted() {
        let long = "iVBO".repeat(1000);
        let short = "A".repeat(SHOWN);
        let vectors = [
            (String::new(), String::new()),
            ("a data: b".to_owned(), "a data: b".to_owned()),
            (
                format!("a data:image/png;base64,{long}== b"),
                "a data:image/png;base64,... (4002 characters) b".to_owned(),
            ),
            (
                format!("<u>data:image/svg+xml;charset=x;base64,{long}</u>data:;base64,{long}"),
                "<u>data:image/svg+xml;charset=x;base64,... (4000 characters)</u>data:;base64,... (4000 characters)".to_owned(),
            ),
            (
                format!("data:image/png;base64,{short}"),
                format!("data:image/png;base64,{short}"),
            ),
            (format!("data:text/plain,{long}"), format!("data:text/plain,{long}")),
            (
                format!("data:data:image/png;base64,{long}é"),
                "data:data:image/png;base64,... (4000 characters)é".to_owned(),
            ),
        ];
        for (text, expected) in vectors {
            assert_eq!(brief(&text), expected);
        }
    }

    /// A log may name the scheme a million times.
    #[test]
    fn a_text_full_of_beginnings_takes_no_time() {
        let text = "data:".repeat(1_000_000) + &"data;base64".repeat(100_000);
        assert_eq!(brief(&text), text);
    }
}
