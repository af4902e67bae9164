//! Finds secrets in a text, in many spellings. All ways to spell a value can't be listed. So a text
//! is decoded (escapes, URLs, HTML, line breaks), and the values are searched for in the decoded
//! text. Only base64 and hexadecimal digits are patterns of their own.

use std::fmt::Write as _;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::Engine as _;
use base64::prelude::{
    BASE64_STANDARD_NO_PAD as STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD,
};
use memchr::{memchr, memchr2};

/// Finds values in texts.
#[derive(Clone)]
pub struct SecretFinder {
    all: AhoCorasick,
    patterns: Vec<String>,
}

impl SecretFinder {
    /// A finder for these values; none if there are no values.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a String>) -> Option<Self> {
        let values = values.into_iter();
        let patterns: Vec<String> = values.flat_map(|it| patterns(it)).collect();
        // This kind needs much less memory than the default for long values. It fails only for
        // billions of bytes.
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        let all = AhoCorasick::builder().kind(kind).build(&patterns).ok()?;
        (!patterns.is_empty()).then_some(Self { all, patterns })
    }

    /// The ranges of the values in a text, in order; overlapping ranges are merged.
    pub fn find(&self, text: &str) -> Vec<Range<usize>> {
        let found = self.search(text.as_bytes(), SPELLINGS);
        let whole =
            |it: Range<usize>| text.floor_char_boundary(it.start)..text.ceil_char_boundary(it.end);
        found.into_iter().map(whole).collect()
    }

    /// From where on a text may be the beginning of a value that ends in what follows the text; its
    /// length if it does not end like that.
    pub fn begun(&self, text: &str) -> usize {
        text.floor_char_boundary(self.begins(text.as_bytes(), SPELLINGS))
    }

    fn begins(&self, text: &[u8], spellings: &[NestedSpelling]) -> usize {
        let mut first = self.plainly_begins(text);
        for NestedSpelling(spelling, inside) in spellings {
            let cut = spelling.cut(text);
            first = first.min(cut).min(self.plainly_begins(&text[..cut]));
            let heads = [text, &text[..cut]];
            for head in &heads[usize::from(cut == text.len())..] {
                let Some(read) = spelling.read(head) else {
                    continue;
                };
                let at = self.begins(&read, inside);
                if at < read.len() {
                    let sources = spelling.sources(head, std::slice::from_ref(&(at..read.len())));
                    first = sources.iter().fold(first, |first, it| first.min(it.start));
                }
            }
        }
        first
    }

    /// The same for values that are spelled as the patterns.
    fn plainly_begins(&self, text: &[u8]) -> usize {
        let of_pattern = |pattern: &String| {
            let pattern = pattern.as_bytes();
            let first = text.len().saturating_sub(pattern.len() - 1);
            let mut starts = memchr::memchr_iter(pattern[0], &text[first..]);
            let start = starts.find(|start| pattern.starts_with(&text[first + start..]));
            start.map(|start| first + start)
        };
        let starts = self.patterns.iter().filter_map(of_pattern);
        starts.min().unwrap_or(text.len())
    }

    fn search(&self, text: &[u8], spellings: &[NestedSpelling]) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for place in self.all.find_overlapping_iter(text).map(|it| it.range()) {
            // Matches come in the order of their ends, and there may be as many as there are bytes.
            match found.last_mut() {
                Some(last) if (last.start..last.end).contains(&place.start) => last.end = place.end,
                _ => found.push(place),
            }
        }
        for NestedSpelling(spelling, inside) in spellings {
            if let Some(read) = spelling.read(text) {
                let there = self.search(&read, inside);
                if !there.is_empty() {
                    found.extend(spelling.sources(text, &there));
                }
            }
        }
        merged(found)
    }
}

/// Sorts ranges, and merges those that overlap.
fn merged(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_by_key(|it| (it.start, it.end));
    found.dedup_by(|next, before| {
        let overlap = next.start < before.end;
        if overlap {
            before.end = before.end.max(next.end);
        }
        overlap
    });
    found
}

/// A way to spell a text.
#[derive(Clone, Copy)]
enum Spelling {
    /// Strings of JSON, of programs and of shells: `\n`, `\"`, `\u0026`, `\x41`.
    Escaped,
    /// URLs and forms: `%2f`. Characters that a URL may contain are spelled either way, and a blank
    /// is `+`, `%20` or itself.
    Percent,
    /// HTML and XML: `&amp;`, `&#39;`.
    Entities,
    /// Base64 or hexadecimal digits with line breaks.
    Lines,
}

/// A spelling, and the spellings that its decoded text may contain.
struct NestedSpelling(Spelling, &'static [NestedSpelling]);

const LINES: NestedSpelling = NestedSpelling(Spelling::Lines, &[]);
const PERCENT: NestedSpelling = NestedSpelling(
    Spelling::Percent,
    &[LINES, NestedSpelling(Spelling::Percent, &[LINES])],
);
const ESCAPED: NestedSpelling = NestedSpelling(
    Spelling::Escaped,
    &[LINES, NestedSpelling(Spelling::Escaped, &[LINES])],
);
const SPELLINGS: &[NestedSpelling] = &[
    LINES,
    PERCENT,
    NestedSpelling(Spelling::Entities, &[LINES, PERCENT, ESCAPED]),
    NestedSpelling(Spelling::Escaped, &[LINES, PERCENT, ESCAPED]),
];

impl Spelling {
    /// Decodes a text; none if the decoded text is the same.
    fn read(self, text: &[u8]) -> Option<Vec<u8>> {
        let is_used = match self {
            Self::Percent => memchr2(b'%', b'+', text),
            _ => self.next(text),
        };
        is_used?;
        let mut read = Vec::with_capacity(text.len());
        self.pieces(text, |bytes, _| read.extend_from_slice(bytes));
        Some(read)
    }

    /// Maps ranges of the decoded text to ranges of the text.
    fn sources(self, text: &[u8], places: &[Range<usize>]) -> Vec<Range<usize>> {
        let mut sources = Vec::with_capacity(places.len());
        let mut places = places.iter().peekable();
        let (mut done, mut begin) = (0, None);
        self.pieces(text, |bytes, source| {
            // A piece without an escape has the same length in both.
            let is_same = bytes.len() == source.len();
            let end = done + bytes.len();
            while let Some(place) = places.peek() {
                if begin.is_none() && place.start < end {
                    begin = Some(source.start + if is_same { place.start - done } else { 0 });
                }
                if place.end > end {
                    break;
                }
                let stop = match is_same {
                    true => source.start + (place.end - done),
                    false => source.end,
                };
                sources.extend(begin.take().map(|begin| begin..stop));
                places.next();
            }
            done = end;
        });
        sources
    }

    /// Calls `piece` with each decoded piece of a text, and with its range in the text.
    fn pieces(self, text: &[u8], mut piece: impl FnMut(&[u8], Range<usize>)) {
        let (mut at, mut read) = (0, Vec::new());
        while let Some(length) = self.next(&text[at..]) {
            let next = at + length;
            if length > 0 {
                piece(&text[at..next], at..next);
            }
            read.clear();
            at = next + self.unit(&text[next..], &mut read).max(1);
            piece(&read, next..at);
        }
        if at < text.len() {
            piece(&text[at..], at..text.len());
        }
    }

    /// Where an escape begins that a text ends within; the text's length if there is none.
    fn cut(self, text: &[u8]) -> usize {
        let tail = text.len().saturating_sub(11);
        let last = |byte: u8| memchr::memrchr(byte, &text[tail..]).map(|at| tail + at);
        let is_cut = |rest: &[u8], length: usize| {
            rest.len() < length && rest.iter().all(u8::is_ascii_hexdigit)
        };
        let (start, is_cut) = match self {
            Self::Escaped => {
                let Some(start) = last(b'\\') else {
                    return text.len();
                };
                let before = text[..start].iter().rev();
                let is_escaped = before.take_while(|it| **it == b'\\').count() % 2 == 1;
                let is_cut = match &text[start + 1..] {
                    [] => true,
                    [b'u', rest @ ..] => is_cut(rest, 4),
                    [b'x', rest @ ..] => is_cut(rest, 2),
                    _ => false,
                };
                (start, is_cut && !is_escaped)
            }
            Self::Percent => match last(b'%') {
                Some(start) => (start, is_cut(&text[start + 1..], 2)),
                None => return text.len(),
            },
            Self::Entities => match last(b'&') {
                Some(start) => {
                    let is_part = |it: &u8| it.is_ascii_alphanumeric() || *it == b'#';
                    (start, text[start + 1..].iter().all(is_part))
                }
                None => return text.len(),
            },
            Self::Lines => return text.len(),
        };
        if is_cut { start } else { text.len() }
    }

    /// The next position at which an escape may begin.
    fn next(self, text: &[u8]) -> Option<usize> {
        match self {
            Self::Escaped => memchr(b'\\', text),
            Self::Percent => memchr2(b'%', b' ', text),
            Self::Entities => memchr(b'&', text),
            Self::Lines => memchr2(b'\n', b'\r', text),
        }
    }

    /// Decodes one escape at the beginning of a text; returns its length there.
    fn unit(self, text: &[u8], read: &mut Vec<u8>) -> usize {
        let unit = match self {
            Self::Escaped => escape(text),
            Self::Percent => match text.get(1..3).and_then(|it| number(it, 16)) {
                // Blanks are `+` in the decoded text and in the patterns.
                Some(0x20) => Some(('+'.into(), 3)),
                Some(byte) => {
                    read.extend(u8::try_from(byte));
                    return 3;
                }
                None => text.starts_with(b" ").then_some(('+'.into(), 1)),
            },
            Self::Entities => entity(text),
            Self::Lines => {
                let blank = text.iter().take_while(|it| it.is_ascii_whitespace());
                return blank.count();
            }
        };
        let (code, length) = unit.unwrap_or((text[0].into(), 1));
        let letter = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        read.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        length
    }
}

/// The number with these digits.
fn number(digits: &[u8], base: u32) -> Option<u32> {
    let is_digit = |it: &u8| char::from(*it).is_digit(base);
    let digits = digits.iter().all(is_digit).then_some(digits)?;
    u32::from_str_radix(str::from_utf8(digits).ok()?, base).ok()
}

/// The character of an escape, and the length of the escape.
fn escape(text: &[u8]) -> Option<(u32, usize)> {
    let hex = |at: Range<usize>| text.get(at).and_then(|it| number(it, 16));
    Some(match *text.get(1)? {
        b'u' => match (hex(2..6)?, hex(8..12)) {
            (high @ 0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
                (0x1_0000 + ((high - 0xd800) << 10 | (low - 0xdc00)), 12)
            }
            (one, _) => (one, 6),
        },
        b'x' => (hex(2..4)?, 4),
        b'n' => ('\n'.into(), 2),
        b'r' => ('\r'.into(), 2),
        b't' => ('\t'.into(), 2),
        other if other.is_ascii() => (other.into(), 2),
        _ => return None,
    })
}

/// The character of an entity, and the length of the entity.
fn entity(text: &[u8]) -> Option<(u32, usize)> {
    let end = memchr(b';', &text[..text.len().min(12)])?;
    let code = match &text[1..end] {
        b"amp" => '&'.into(),
        b"lt" => '<'.into(),
        b"gt" => '>'.into(),
        b"quot" => '"'.into(),
        b"apos" => '\''.into(),
        [b'#', b'x' | b'X', hex @ ..] => number(hex, 16)?,
        [b'#', digits @ ..] => number(digits, 10)?,
        _ => return None,
    };
    Some((code, end + 1))
}

/// The patterns of a value: itself, with `+` for blanks, and in hexadecimal digits and base64.
fn patterns(value: &str) -> Vec<String> {
    let hex = value.bytes().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    let mut patterns = vec![
        value.to_owned(),
        value.replace(' ', "+"),
        hex.to_uppercase(),
        hex,
    ];
    // The bytes before the value may not fill a group of base64. Only the letters that depend on
    // nothing but the value are used.
    for before in 0..3 {
        let bytes = [&[0; 3][..before], value.as_bytes()].concat();
        let letters = (before * 8).div_ceil(6)..bytes.len() * 8 / 6;
        for letters_of in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            patterns.push(letters_of.encode(&bytes)[letters.clone()].to_owned());
        }
    }
    // A value of several lines, without line ends and indentation.
    let joined: String = value.split('\n').map(str::trim_start).collect();
    patterns.push(joined.replace('\r', ""));
    patterns.retain(|it| !it.is_empty());
    patterns.sort();
    patterns.dedup();
    patterns
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// A text with what is found in it as `«...»`.
    fn marked(finder: &SecretFinder, text: &str) -> String {
        let mut out = text.to_owned();
        for place in finder.find(text).into_iter().rev() {
            out.insert(place.end, '»');
            out.insert(place.start, '«');
        }
        out
    }

    fn finder(values: &[&str]) -> SecretFinder {
        let values: Vec<String> = values.iter().map(|it| (*it).to_owned()).collect();
        SecretFinder::new(&values).unwrap()
    }

    #[track_caller]
    fn check(finder: &SecretFinder, expected: &str) {
        let text = expected.replace(['«', '»'], "");
        assert_eq!(marked(finder, &text), expected);
    }

    #[test]
    fn a_value_is_found_in_every_spelling() {
        let finder = finder(&["a/b !'(Z)*\"\\é&<~?", "another-secret"]);
        for expected in [
            // As it is, in JSON, in JSON in JSON, and as JavaScript, Python and Go write JSON.
            r#"x«a/b !'(Z)*"\é&<~?»y"#,
            r#"x«a/b !'(Z)*\"\\é&<~?»y"#,
            r#"\"x«a/b !'(Z)*\\\"\\\\é&<~?»\\n"#,
            r#" «a\/b !\u0027(Z)*\"\\\u00e9\u0026\u003c~?»\n"#,
            // In a program and in a shell.
            r#"'«a/b !\'(Z)*"\\\xe9&<~?»'"#,
            r#"«a/b\ \!\'\(Z\)\*\"\\é\&\<\~\?» \"#,
            // encodeURIComponent, encodeURI, Python's quote, a form, in lower case, all of it, in JSON.
            "u=«a%2Fb%20!'(Z)*%22%5C%C3%A9%26%3C~%3F»&c=100%",
            "«a/b%20!'(Z)*%22%5C%C3%A9&%3C~?»",
            "%«a/b%20%21%27%28Z%29%2A%22%5C%C3%A9%26%3C~%3F»%",
            "k=«a%2Fb+%21%27%28Z%29*%22%5C%C3%A9%26%3C%7E%3F»&x+y=%20",
            "«a%2fb%20!'(Z)*%22%5c%c3%a9%26%3c~%3f»",
            "«%61%2f%62%20%21%27%28%5a%29%2a%22%5c%c3%a9%26%3c%7e%3f»%4",
            r#"\"«a%2Fb%20!\u0027(Z)*%22%5C%C3%A9\u0026%3C~%3F»\n"#,
            // HTML, with names and with numbers.
            "<p>«a/b !'(Z)*&quot;\\é&amp;&lt;~?»</p>&amp;",
            "«a/b !&#39;(Z)*&#34;\\&#xE9;&#38;&#x3c;~?»&#",
            // Nearly.
            "a/b !'(Z)*\"\\é&<~ a%2Fb%20! another secret",
            "«another-secret»«another-secret»",
        ] {
            check(&finder, expected);
        }
    }

    #[test]
    fn a_value_is_found_in_base64_and_in_digits() {
        // The ends share letters of base64 with their neighbours.
        let finder = finder(&["tok/en+value?~"]);
        for expected in [
            "«dG9rL2VuK3ZhbHVlP3»4=",
            "dTp«0b2svZW4rdmFsdWU/f»g==",
            "YTp«0b2svZW4rdmFsdWU_f»jp4",
            "On«Rvay9lbit2YWx1ZT9+»",
            "\"«dG9rL2VuK3Z\\nhbHVlP3»4=\\n\"",
            "?q=dTp«0b2svZW4rdmFsdWU%2ff»g%3d%3d",
            "?q=dTp«0b2svZW4r%0D%0AdmFsdWU/f»g",
            "«746F6B2F656E2B76616C75653F7E»",
            "0: «746f6b2f65\n6e2b76616c75653f7e»\n",
        ] {
            check(&finder, expected);
        }
        // In lines, and in lines that are indented.
        let value = "0123456789/+abcdefghijklmnopqrstuvwxyz-".repeat(5);
        let finder = self::finder(&[&value]);
        for before in ["", "a", "ab"] {
            let letters = STANDARD_NO_PAD.encode(format!("{before}{value}."));
            for (length, end) in [
                (76, "\n"),
                (64, "\r\n"),
                (76, "\\r\\n"),
                (20, "\n    "),
                (1, "\n"),
            ] {
                let lines: Vec<&str> = letters
                    .as_bytes()
                    .chunks(length)
                    .map(|it| str::from_utf8(it).unwrap())
                    .collect();
                let text = format!("see{end}{}{end}end", lines.join(end));
                let marked = marked(&finder, &text);
                let (head, rest) = marked.split_once('«').unwrap();
                let (secret, tail) = rest.split_once('»').unwrap();
                let (head, tail) = (head.trim_start_matches("see"), tail.trim_end_matches("end"));
                let left = |text: &str| text.replace(end, "").len();
                assert!(
                    left(head) <= 3 && left(tail) <= 3,
                    "{length} {end:?}: {marked}"
                );
                assert!(secret.contains(end), "{marked}");
            }
        }
    }

    #[test]
    fn a_value_is_found_however_deep_it_is_and_over_several_lines() {
        let quoted = finder(&["a\"b\\c&d-secret"]);
        let mut text = "a\"b\\c&d-secret".to_owned();
        for _ in 0..3 {
            text = serde_json::json!(text).to_string();
            assert_eq!(quoted.find(&text).len(), 1, "{text}");
        }
        for text in [
            "a\\&quot;b\\\\c&amp;d-secret",
            "a%2522b%255Cc%2526d-secret",
            "a&quot;b%5Cc%26d-secret",
        ] {
            assert_eq!(quoted.find(text).len(), 1, "{text}");
        }
        let lines = finder(&["-BEGIN-\nabcdef\nghijkl\n-END-\n"]);
        for end in ["\n", "\r\n", "\n    ", "\\n", "\\r\\n"] {
            let text = ["x -BEGIN-", "abcdef", "ghijkl", "-END-", "y"].join(end);
            assert_eq!(lines.find(&text).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_value_that_has_only_begun_is_seen_in_every_spelling() {
        let value = "a/b !'(Z)*\"\\é&<~?";
        let finder = finder(&[value, "another-secret"]);
        let json = serde_json::json!(value).to_string();
        for text in [
            value,
            json.trim_matches('"'),
            r#"a\/b !\u0027(Z)*\"\\\u00e9\u0026\u003c~?"#,
            r#"a\\/b !\\u0027(Z)*\\\"\\\\\\u00e9\\u0026\\u003c~?"#,
            "a%2Fb%20!'(Z)*%22%5C%C3%A9%26%3C~%3F",
            "a%252fb+!'(Z)*%2522%255C%25C3%25A9%2526%253C~%253F",
            "a/b !&#39;(Z)*&quot;\\é&amp;&lt;~?",
            "YW5vdGhlci1zZWNyZX",
            "616e6f746865722d736563726574",
            "616e6f74\n  6865722d73\n6563726574",
        ] {
            let found = finder.find(text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(found[0], 0..text.len(), "{text}");
            for (end, _) in text.char_indices().skip(1) {
                let before = format!("so é {}", &text[..end]);
                assert!(finder.begun(&before) <= "so é ".len(), "{before}");
            }
            // Its end may be another's beginning, but no more than that.
            assert!(finder.begun(text) + 4 > text.len(), "{text}");
        }
        for text in [
            "", "é", "so it is", "100%2", "a&b;", "\\n", "\\\\", "&amp;", "a-b\n",
        ] {
            let begun = finder.begun(text);
            assert!(begun + 2 >= text.len(), "{text}: {begun}");
        }
    }

    #[test]
    fn values_that_overlap_are_one_place() {
        let finder = finder(&["secret-one-two", "two-three-four", "one-two-three"]);
        check(&finder, "a «secret-one-two-three-four» b «one-two-three»-5");
    }

    #[test]
    fn the_time_grows_with_the_length_of_the_text() {
        let finder = finder(&[&"a".repeat(300), "hunter2-hunter2"]);
        for unit in [
            "a",
            "\\",
            "\\\\u0061",
            "%61",
            "&#97;",
            "\n",
            "a\n",
            "\\n",
            "+ %20",
        ] {
            let text = unit.repeat((4 << 20) / unit.len());
            let begin = Instant::now();
            finder.find(&text);
            finder.begun(&text);
            let took = begin.elapsed();
            assert!(took < Duration::from_secs(30), "{unit:?}: {took:?}");
        }
    }
}
