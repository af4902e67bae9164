//! What can't be read, in the words and at the places of this program.

use libyaml_safer::Error;

use super::{Fault, Mark};

const ONE_INDENT: &str = "lines of one list or map need one indent; quote a text with `: ` in it";
const CLOSE: &str = "close the bracket; a text that begins with one (`{{ a }}`) needs quotes";
const MISPLACED: &str =
    "text with `: ` or `- ` in it needs quotes; keys of one map need one indent";
const QUOTE: &str = "put the text in quotes";

/// The place after a text.
pub(super) fn mark_after(text: &str) -> Mark {
    let mut mark = Mark {
        index: text.len(),
        ..Mark::default()
    };
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        if is_break(char) && !(char == '\r' && chars.peek() == Some(&'\n')) {
            mark.line += 1;
            mark.column = 0;
        } else {
            mark.column += 1;
        }
    }
    mark
}

pub(super) fn is_break(char: char) -> bool {
    matches!(char, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// A place of libyaml-safer, which has another one for the end of a text.
pub(super) fn mark(mark: libyaml_safer::Mark, end: Mark) -> Mark {
    let [index, line, column] = [mark.index, mark.line, mark.column]
        .map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    let mark = Mark {
        index,
        line,
        column,
    };
    if index < end.index { mark } else { end }
}

/// Refuses what can't be in a document, and a byte order mark where libyaml-safer would skip it.
pub(super) fn check_characters(source: &str) -> Result<(), Fault> {
    let mut line_begins = true;
    for (index, char) in source.char_indices() {
        let allowed = matches!(char,
            '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}'
            | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
        if !allowed || (line_begins && char == '\u{feff}') {
            let message = format!("unexpected character U+{:04X}", u32::from(char));
            return Err(Fault::new(mark_after(&source[..index]), message)
                .hint("in a text in double quotes, write it as an escape: `\"\\x1b\"`"));
        }
        line_begins = is_break(char);
    }
    Ok(())
}

/// A tag that has no meaning here.
pub(super) fn unknown_tag(mark: Mark, name: &str) -> Fault {
    Fault::new(mark, format!("the tag `{name}` has no meaning"))
        .hint("leave it out, or put a text that begins with `!` in quotes")
}

/// An error of libyaml-safer.
pub(super) fn fault(source: &str, end: Mark, error: &Error) -> Fault {
    let mut at = error.problem_mark().map_or(end, |place| mark(place, end));
    let begin = error.context_mark().unwrap_or_default().line + 1;
    let rest = |at: Mark| source.get(at.index..).unwrap_or_default();
    let next = |at: Mark| rest(at).chars().next();
    let found = match next(at) {
        None => "the end of the file".to_owned(),
        Some('\t') => "a tab".to_owned(),
        Some(char) if is_break(char) => "the end of the line".to_owned(),
        Some(char) => format!("`{char}`"),
    };
    let goes_on = |what: &str| {
        format!("expected the {what} that begins on line {begin} to go on or end, not {found}")
    };
    let closes = |what: &str, bracket: char| {
        format!(
            "expected `,` or `{bracket}` in the {what} that begins on line {begin}, not {found}"
        )
    };
    let (message, hint) = match error.problem() {
        "did not find expected ',' or ']'" => (closes("list", ']'), CLOSE),
        "did not find expected ',' or '}'" => (closes("map", '}'), CLOSE),
        "did not find expected '-' indicator" => (goes_on("list"), ONE_INDENT),
        "did not find expected key" => (goes_on("map"), ONE_INDENT),
        "did not find expected node content" => (format!("expected a value, not {found}"), QUOTE),
        "did not find expected <document start>" => (
            format!("expected `---` or the end, not {found}"),
            "keys of one map need one indent; a file has one value",
        ),
        "could not find expected ':'" => (
            format!("expected a `:` after the key on line {begin}"),
            "at this indent only keys can stand; indent the lines of a longer text deeper",
        ),
        "mapping values are not allowed in this context"
        | "mapping keys are not allowed in this context"
        | "block sequence entries are not allowed in this context" => {
            (format!("{found} can't stand here"), MISPLACED)
        }
        "found character that cannot start any token" => match next(at) {
            Some('\t') => (format!("{found} can't stand here"), "indent with spaces"),
            _ => (format!("no value begins with {found}"), QUOTE),
        },
        "found unexpected end of stream" => (
            format!("the quoted text that begins on line {begin} never ends"),
            "close the quote",
        ),
        "found unexpected document indicator" => (
            "a document ends inside of a quoted text".to_owned(),
            "close the quote, or indent this line",
        ),
        "found unknown escape character" => {
            at.index += 1;
            at.column += 1;
            let char = next(at).unwrap_or_default();
            (
                format!("there is no escape `\\{char}`"),
                "double the backslash, or put the text in single quotes",
            )
        }
        "found invalid Unicode character escape code" => {
            at.index -= 1;
            at.column -= 1;
            (
                "this escape is no character".to_owned(),
                "write the character itself, or its code after `\\U` with 8 digits",
            )
        }
        "did not find expected alphabetic or numeric character" => (
            format!("`&` and `*` need a name of letters, digits, `-` and `_`, not {found}"),
            "put the text in quotes if it is no name",
        ),
        "found undefined tag handle" => {
            let word = rest(at).split_whitespace().next();
            return unknown_tag(at, word.unwrap_or_default());
        }
        "did not find expected comment or line break" => (
            format!("expected the line to end after `|` or `>`, not {found}"),
            "the text of a block begins on the next line; quote a text that begins so",
        ),
        "found a tab character where an indentation space is expected" => (
            "a tab begins the text of this block".to_owned(),
            "say by how many spaces the text is indented: `|2`",
        ),
        // about directives, tags and escapes; the words are those of libyaml
        problem => (
            problem.to_owned(),
            "leave it out, or put the text in quotes",
        ),
    };
    Fault::new(at, message).hint(hint)
}
