//! Finds the lines of a shell script that are the text of a here-document.
//!
//! A fence or an `edit` in such a text is part of a file that the model writes, so the parser must
//! not use it. Only here-documents with an end count, so that a stray `<<` does not hide the rest
//! of the reply.

use std::collections::{BTreeMap, VecDeque};

/// Follows a script line by line.
pub struct Heredocs<'t> {
    ends: BTreeMap<&'t str, Last>,
    /// The open here-documents, each with the last place where it can end.
    pending: VecDeque<(Delimiter<'t>, usize)>,
}

/// Where a line occurs for the last time.
#[derive(Default)]
struct Last {
    /// Exactly.
    exact: Option<usize>,
    /// With or without tabs before it, as `<<-` allows.
    indented: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Delimiter<'t> {
    word: &'t str,
    tabs: bool,
}

impl<'t> Heredocs<'t> {
    /// A reader of the lines of this text, or of a part of it.
    pub fn new(text: &'t str) -> Self {
        let mut ends: BTreeMap<&str, Last> = BTreeMap::new();
        if text.contains("<<") {
            for (at, line) in lines(text) {
                let line = line.trim_end_matches('\r');
                let bare = line.trim_start_matches('\t');
                let last = ends.entry(bare).or_default();
                last.indented = at;
                if bare.len() == line.len() {
                    last.exact = Some(at);
                }
            }
        }
        Self {
            ends,
            pending: VecDeque::new(),
        }
    }

    /// Takes the next line, without its line break, which begins at `at` in the text. Returns
    /// whether it belongs to a here-document, its last line included.
    pub fn feed(&mut self, at: usize, line: &'t str) -> bool {
        let line = line.trim_end_matches('\r');
        if let Some((open, _)) = self.pending.front() {
            let bare = match open.tabs {
                true => line.trim_start_matches('\t'),
                false => line,
            };
            if bare == open.word {
                self.pending.pop_front();
                // The only end is before the beginning.
                while self.pending.front().is_some_and(|(_, end)| *end <= at) {
                    self.pending.pop_front();
                }
            }
            return true;
        }
        // Without a possible end nothing has to be searched; most texts are of this kind.
        if !self.ends.is_empty() {
            for open in scan(line, &mut None).delimiters {
                let last = self.ends.get(open.word);
                let end = last.and_then(|last| match open.tabs {
                    true => Some(last.indented),
                    false => last.exact,
                });
                if let Some(end) = end.filter(|end| *end > at) {
                    self.pending.push_back((open, end));
                }
            }
        }
        false
    }
}

/// The lines of a text, without their line breaks, each with its position.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line.strip_suffix('\n').unwrap_or(line))
    })
}

/// What a line of a shell script has outside of quotation marks and comments.
pub struct Scan<'t> {
    /// The here-documents that it opens.
    delimiters: Vec<Delimiter<'t>>,
    /// The text behind the last `;`, `|` or `&`: the last command of the line.
    pub last_command: &'t str,
}

/// Reads a line. `quote` is the quotation mark that is open before it; afterwards, the one that is open behind it.
pub fn scan<'t>(line: &'t str, quote: &mut Option<u8>) -> Scan<'t> {
    let bytes = line.as_bytes();
    let mut delimiters = Vec::new();
    let mut command = 0;
    let mut at = 0;
    while at < bytes.len() {
        match (*quote, bytes[at]) {
            (None, b'#') if at == 0 || bytes[at - 1].is_ascii_whitespace() => break,
            (None | Some(b'"'), b'\\') => at += 1,
            (None, mark @ (b'\'' | b'"')) => *quote = Some(mark),
            (Some(open), mark) if open == mark => *quote = None,
            (None, b';' | b'|' | b'&') => command = at + 1,
            (None, b'<') if line[at..].starts_with("<<<") => at += 2,
            (None, b'<') if line[at..].starts_with("<<") => {
                let Some((delimiter, end)) = delimiter(line, at + 2) else {
                    at += 2;
                    continue;
                };
                delimiters.push(delimiter);
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
        // A backslash may precede a character of several bytes, which are skipped one by one; none
        // of them equals one of the bytes above.
        while !line.is_char_boundary(at) && at < bytes.len() {
            at += 1;
        }
    }
    Scan {
        delimiters,
        last_command: &line[command..],
    }
}

/// The delimiter at `at`, after `<<`, and where it ends.
fn delimiter(line: &str, at: usize) -> Option<(Delimiter<'_>, usize)> {
    let rest = &line[at..];
    let (rest, tabs) = match rest.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let rest = rest.trim_start_matches([' ', '\t']);
    let begin = line.len() - rest.len();
    let (word, end) = match rest.chars().next()? {
        mark @ ('\'' | '"') => {
            let word = &rest[1..];
            let word = &word[..word.find(mark)?];
            (word, begin + 2 + word.len())
        }
        first => {
            let skipped = usize::from(first == '\\');
            let word = &rest[skipped..];
            // `1 << 2` is no here-document.
            let is_word = |c: char| c.is_ascii_alphabetic() || c == '_';
            word.chars().next().filter(|c| is_word(*c))?;
            let ends = |c: char| c.is_whitespace() || ";|&<>()'\"`\\$".contains(c);
            let word = &word[..word.find(ends).unwrap_or(word.len())];
            (word, begin + skipped + word.len())
        }
    };
    (!word.is_empty()).then_some((Delimiter { word, tabs }, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opens_one() {
        for (line, expected) in [
            ("cat <<EOF", vec![("EOF", false)]),
            ("cat << EOF > x", vec![("EOF", false)]),
            ("cat > x <<'A B' && ls", vec![("A B", false)]),
            ("cat <<\"E\"; ls", vec![("E", false)]),
            ("cat <<\\E", vec![("E", false)]),
            ("cat <<-E|sort", vec![("E", true)]),
            ("a <<A; b <<-'B'", vec![("A", false), ("B", true)]),
            ("cat <<<E", vec![]),
            ("echo $((1<<2))", vec![]),
            ("echo $((1 << x))", vec![("x", false)]),
            ("echo 'a <<E'", vec![]),
            ("echo \"a <<E\"", vec![]),
            ("echo \"a \\\" <<E\"", vec![]),
            ("echo \\' <<E", vec![("E", false)]),
            ("ls # <<E", vec![]),
            ("ls a#b <<E", vec![("E", false)]),
            ("cat <<''", vec![]),
            ("cat <<'E", vec![]),
            ("cat <<", vec![]),
            ("\\é <<É", vec![]),
            ("é<<E", vec![("E", false)]),
            ("\\", vec![]),
        ] {
            let found: Vec<_> = scan(line, &mut None)
                .delimiters
                .into_iter()
                .map(|found| (found.word, found.tabs))
                .collect();
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn which_lines_are_inside() {
        for (text, inside) in [
            ("cat <<E\na\nE\nb", "-++-"),
            ("cat <<E\na\n\tE\nb", "----"),
            ("cat <<-E\na\n\tE\nb", "-++-"),
            ("cat <<E\r\na\r\nE\r\nb", "-++-"),
            ("cat <<E\na\nE \nb", "----"),
            ("a <<A; b <<B\n1\nA\n2\nB\nc", "-++++-"),
            ("a <<A; b <<B\n1\nB\n2\nA\nc", "-++++-"),
            ("cat <<E\n<<F\nE\nF", "-++-"),
            ("E\ncat <<E\na", "---"),
            ("E", "-"),
            ("", ""),
        ] {
            let mut heredocs = Heredocs::new(text);
            let found: String = lines(text)
                .map(|(at, line)| if heredocs.feed(at, line) { '+' } else { '-' })
                .collect();
            assert_eq!(found, inside, "{text:?}");
        }
    }
}
