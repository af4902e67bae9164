//! Thinking that a server without a reasoning parser leaves in the text of a reply, between tags at
//! its beginning, or before the one closing tag if the server's template begins the thinking itself.
//! It becomes reasoning, as in litellm: a command that stands in it is not meant to run.
//!
//! Stricter than litellm: blanks may come before the tag, the opening tag may be missing, a reply that
//! ends before the closing tag has no text, and a key for reasoning that is there but empty changes
//! nothing.

use mswea_sdk::adapter::Delta;
use mswea_sdk::types::{ContentPart, Message, Reasoning};

use crate::json::show;

const OPENING: [&str; 3] = ["<think>", "<thinking>", "<budget:thinking>"];
const CLOSING: [&str; 3] = ["</think>", "</thinking>", "</budget:thinking>"];

/// How many blanks before a tag are not shown until it comes.
const MOST_HELD: usize = 1024;

/// Turns the thinking in a message's text into reasoning, and returns it.
pub fn split_off(message: &mut Message) -> Option<String> {
    let has_reasoning = |part: &ContentPart| matches!(part, ContentPart::Reasoning(_));
    if message.content.iter().any(has_reasoning) {
        return None;
    }
    let is_text = |part: &ContentPart| part.as_text().is_some_and(|text| !text.is_empty());
    let at = message.content.iter().position(is_text)?;
    let (thinking, rest) = split(message.content[at].as_text()?)?;
    let (thinking, rest) = (thinking.to_owned(), rest.to_owned());
    message.content[at] = ContentPart::Text(rest);
    if !thinking.is_empty() {
        let text = thinking.clone();
        let reasoning = Reasoning { text, extra: None };
        message
            .content
            .insert(at, ContentPart::Reasoning(reasoning));
    }
    Some(thinking)
}

/// The thinking at the beginning of a text, and the text after it.
fn split(text: &str) -> Option<(&str, &str)> {
    let begun = text.trim_start();
    match OPENING.iter().find_map(|tag| begun.strip_prefix(tag)) {
        Some(inner) => Some(closing(inner).unwrap_or((inner, ""))),
        None => unopened(text),
    }
}

/// What stands before and after a closing tag without an opening one before it. A tag may also be what
/// the text is about: in quotes; in a code block, between other text of a line or if the block is closed after it; and
/// between words of a text that has all its blocks before the tag.
fn unopened(text: &str) -> Option<(&str, &str)> {
    let fences: Vec<&str> = text.lines().filter(|line| is_fence(line)).collect();
    let (mut seen, mut begin) = (0, 0);
    for line in text.split_inclusive('\n') {
        seen += usize::from(is_fence(line));
        let (is_code, later) = (seen % 2 == 1, &fences[seen..]);
        for (at, _) in line.match_indices('<') {
            let (before, tag) = line.split_at(at);
            if OPENING.iter().any(|it| tag.starts_with(it)) {
                return None;
            }
            let Some(after) = CLOSING.iter().find_map(|it| tag.strip_prefix(it)) else {
                continue;
            };
            let is_quoted = ['`', '"', '\'']
                .iter()
                .any(|quote| before.ends_with(*quote) && after.starts_with(*quote));
            let is_mentioned = if is_code {
                // Otherwise what follows has whole blocks of its own.
                let is_closed =
                    later.len() % 2 == 1 && later[0].trim().trim_matches('`').is_empty();
                let is_alone = before.trim().is_empty() && after.trim().is_empty();
                is_closed || !is_alone
            } else {
                let follows_word = before.ends_with(' ') && !before.trim().is_empty();
                seen > 0 && later.is_empty() && follows_word && !is_fence(before)
            };
            if !is_quoted && !is_mentioned {
                let end = begin + line.len() - after.len();
                return Some((&text[..begin + at], &text[end..]));
            }
        }
        begin += line.len();
    }
    None
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// What stands before and after the first closing tag.
fn closing(text: &str) -> Option<(&str, &str)> {
    text.match_indices("</").find_map(|(at, _)| {
        let rest = CLOSING
            .iter()
            .find_map(|tag| text[at..].strip_prefix(tag))?;
        Some((&text[..at], rest))
    })
}

/// The deltas of a stream, with the thinking in its text as reasoning. Thinking without an opening tag
/// is shown as text, because it is known only at its end; in the reply it is reasoning.
#[derive(Default)]
pub struct Shown {
    place: Place,
    /// Text that is not shown yet, because a tag may begin in it.
    held: String,
}

#[derive(Default, PartialEq, Eq)]
enum Place {
    #[default]
    Beginning,
    Thinking,
    Text,
}

impl Shown {
    /// Passes on deltas. What is held is passed on as well if this is the end.
    pub fn pass(&mut self, deltas: Vec<Delta>, is_end: bool) -> Vec<Delta> {
        if self.place == Place::Text {
            return deltas;
        }
        let mut out = Vec::new();
        for delta in deltas {
            match delta.kind.as_str() {
                "text" => self.take(&delta.text, &mut out),
                "reasoning" if self.place == Place::Beginning => {
                    self.release(&mut out);
                    self.place = Place::Text;
                    out.push(delta);
                }
                _ => out.push(delta),
            }
        }
        if is_end {
            self.release(&mut out);
        }
        out
    }

    fn take(&mut self, text: &str, out: &mut Vec<Delta>) {
        self.held.push_str(text);
        if self.place == Place::Beginning {
            let begun = self.held.trim_start();
            if let Some(inner) = OPENING.iter().find_map(|tag| begun.strip_prefix(tag)) {
                self.held = inner.to_owned();
                self.place = Place::Thinking;
            } else if self.held.len() > MOST_HELD
                || !OPENING.iter().any(|tag| tag.starts_with(begun))
            {
                self.place = Place::Text;
            }
        }
        match self.place {
            Place::Beginning => {}
            Place::Text => self.release(out),
            Place::Thinking => {
                if let Some((thinking, rest)) = closing(&self.held) {
                    show(out, "reasoning", thinking);
                    show(out, "text", rest);
                    self.held.clear();
                    self.place = Place::Text;
                    return;
                }
                let may_close = |at: &usize| {
                    let end = &self.held[*at..];
                    CLOSING.iter().any(|tag| tag.starts_with(end))
                };
                let sure = self.held.rfind('<').filter(may_close);
                let rest = self.held.split_off(sure.unwrap_or(self.held.len()));
                self.release(out);
                self.held = rest;
            }
        }
    }

    fn release(&mut self, out: &mut Vec<Delta>) {
        let kind = match self.place {
            Place::Thinking => "reasoning",
            Place::Beginning | Place::Text => "text",
        };
        show(out, kind, &std::mem::take(&mut self.held));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{joined, message, text};

    /// Text of a reply, then its reasoning and its text after the split. The first eight are what
    /// litellm 1.106.0 makes of them.
    const VECTORS: [(&str, Option<&str>, &str); 12] = [
        ("plain", None, "plain"),
        ("", None, ""),
        ("<think>a</think>b", Some("a"), "b"),
        (
            "<think>\na\n</think>\n\nb<think>c</think>",
            Some("\na\n"),
            "\n\nb<think>c</think>",
        ),
        ("<thinking>a</think>b", Some("a"), "b"),
        (
            "<budget:thinking>a < b </ c</thinking>",
            Some("a < b </ c"),
            "",
        ),
        ("<think></think>b", Some(""), "b"),
        ("x <think>a</think>b", None, "x <think>a</think>b"),
        ("\n <think>a</think>b", Some("a"), "b"),
        ("<think>a\n```\nls\n```", Some("a\n```\nls\n```"), ""),
        ("<think>a</thi", Some("a</thi"), ""),
        ("<thin", None, "<thin"),
    ];

    /// The same without an opening tag, which a stream shows as text.
    const UNOPENED: [(&str, Option<&str>, &str); 20] = [
        ("a</think>b", Some("a"), "b"),
        ("</think>b", Some(""), "b"),
        (
            "look\n```bash\nrm x\n```</think>\n\n```bash\nls\n```",
            Some("look\n```bash\nrm x\n```"),
            "\n\n```bash\nls\n```",
        ),
        (
            "```bash\nrm x\n</thinking>\nls",
            Some("```bash\nrm x\n"),
            "\nls",
        ),
        (
            "it is `</think>`\n</think>b",
            Some("it is `</think>`\n"),
            "b",
        ),
        ("a </ </b> </think", None, "a </ </b> </think"),
        ("a <think>\n</think>b", None, "a <think>\n</think>b"),
        ("see `</think>` there", None, "see `</think>` there"),
        (
            "```bash\ngrep '</think>' f\n```",
            None,
            "```bash\ngrep '</think>' f\n```",
        ),
        (
            "```\na</think>\n```\nb</think>c",
            Some("```\na</think>\n```\nb"),
            "c",
        ),
        // A block that is closed after the tag.
        (
            "```bash\ncat >f <<E\n</think>\nE\n```",
            None,
            "```bash\ncat >f <<E\n</think>\nE\n```",
        ),
        (
            "```bash\ncat >f <<E\n</think>\nE\n```\nb\n```bash\nls\n```",
            None,
            "```bash\ncat >f <<E\n</think>\nE\n```\nb\n```bash\nls\n```",
        ),
        // Blocks that are not.
        (
            "```bash\nrm x\n</think>\n```bash\nls\n```",
            Some("```bash\nrm x\n"),
            "\n```bash\nls\n```",
        ),
        (
            "```bash\nrm x\n</think>\n```\nls\n```",
            Some("```bash\nrm x\n"),
            "\n```\nls\n```",
        ),
        (
            "```bash\nrm x\n</think>\n```bash\nls",
            Some("```bash\nrm x\n"),
            "\n```bash\nls",
        ),
        // Words after a command, and thinking with one.
        (
            "```bash\nls\n```\nIt ends with </think> there.",
            None,
            "```bash\nls\n```\nIt ends with </think> there.",
        ),
        (
            "```bash\nls\n```\nIt ends with \"</think>\".",
            None,
            "```bash\nls\n```\nIt ends with \"</think>\".",
        ),
        (
            "look\n```bash\nrm x\n```\n</think>\n```bash\nls\n```",
            Some("look\n```bash\nrm x\n```\n"),
            "\n```bash\nls\n```",
        ),
        (
            "```bash\nrm x\n```\nno. </think>b\n```bash\nls\n```",
            Some("```bash\nrm x\n```\nno. "),
            "b\n```bash\nls\n```",
        ),
        (
            "```bash\nrm x\n```\nno.</think>I am done",
            Some("```bash\nrm x\n```\nno."),
            "I am done",
        ),
    ];

    #[test]
    fn thinking_is_split_off() {
        for (given, thinking, rest) in VECTORS.into_iter().chain(UNOPENED) {
            let mut reply = message("assistant", vec![text(given)]);
            assert_eq!(split_off(&mut reply).as_deref(), thinking, "{given:?}");
            assert_eq!(reply.text(), rest, "{given:?}");
            let again = reply.clone();
            if thinking != Some("") {
                split_off(&mut reply);
                assert_eq!(reply, again, "{given:?}");
            }
        }
    }

    #[test]
    fn deltas_are_split_whatever_the_cut() {
        for (given, thinking, rest) in VECTORS {
            for cut in (0..=given.len()).filter(|cut| given.is_char_boundary(*cut)) {
                let (left, right) = given.split_at(cut);
                let single: Vec<&str> = given.split("").collect();
                for pieces in [vec![left, right], single] {
                    let mut shown = Shown::default();
                    let mut out = Vec::new();
                    for piece in pieces {
                        let mut deltas = Vec::new();
                        show(&mut deltas, "text", piece);
                        out.extend(shown.pass(deltas, false));
                    }
                    out.extend(shown.pass(Vec::new(), true));
                    assert_eq!(joined(&out, "reasoning"), thinking.unwrap_or_default());
                    assert_eq!(joined(&out, "text"), rest, "{given:?} at {cut}");
                }
            }
        }
    }

    #[test]
    fn reasoning_of_the_server_stays_as_it_is() {
        let mut shown = Shown::default();
        let deltas = vec![Delta::new("reasoning", "a"), Delta::new("text", "<think>")];
        let out = shown.pass(deltas, false);
        assert_eq!(joined(&out, "text"), "<think>");
    }
}
