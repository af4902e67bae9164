//! Text that a guest wrote, as messages, logs and the model may quote it.

use mswea_text::harmless;

/// The most bytes of a guest's text in a message.
const LONGEST: usize = 4 << 10;

/// The most characters of a guest's text in a line.
const LONGEST_LINE: usize = 400;

/// A guest's text, shortened and safe to show.
pub(super) fn bound(text: &str) -> String {
    if text.len() <= LONGEST {
        return harmless(text);
    }
    let end = text.floor_char_boundary(LONGEST);
    format!(
        "{}... ({} bytes more)",
        harmless(&text[..end]),
        text.len() - end
    )
}

/// A guest's text on one line.
pub(super) fn one_line(text: &str) -> String {
    let text = mswea_text::one_line(&bound(text));
    match text.char_indices().nth(LONGEST_LINE) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_text_is_shortened_and_safe() {
        let long = "ü".repeat(LONGEST);
        let quoted = bound(&long);
        assert!(quoted.len() < LONGEST + 40, "{}", quoted.len());
        assert!(quoted.ends_with("... (4096 bytes more)"), "{quoted}");
        assert_eq!(bound("a\x1b[31m\nb"), "a\nb");
        assert_eq!(one_line(" a\n\x1b[2J b "), "a b");
        assert_eq!(one_line(&long).chars().count(), LONGEST_LINE + 3);
    }
}
