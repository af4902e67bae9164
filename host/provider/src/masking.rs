//! Finds secrets in texts, in every spelling, and puts their names in place of them; also in a text that
//! arrives in pieces.

use std::ops::Range;

use mswea_secrecy::SecretFinder;
use serde_json::Value;

/// Values shorter than this are not redacted: they would match ordinary text, and no key is so
/// short.
pub const SHORTEST_REDACTED: usize = 6;

/// Values shorter than this are not masked in replies.
const SHORTEST_MASKED: usize = 8;

/// A server or a plugin may cut a text within a secret, so that the text ends with the first
/// characters of the secret. This many or more of them are redacted like the whole secret; fewer
/// reveal too little to matter.
const SHORTEST_START: usize = 8;

/// Secrets that are searched for.
#[derive(Default)]
pub struct KnownSecrets {
    /// Values and names, sorted.
    all: Vec<(String, String)>,
    /// For each, what finds it in every spelling.
    finders: Vec<Option<SecretFinder>>,
}

impl KnownSecrets {
    /// `all`: values and names, sorted.
    pub fn new(all: Vec<(String, String)>) -> Self {
        let finders = all.iter().map(|(value, _)| SecretFinder::new([value]));
        Self {
            finders: finders.collect(),
            all,
        }
    }

    /// Whether these are the same values and names.
    pub fn are(&self, all: &[(String, String)]) -> bool {
        self.all == all
    }

    /// `text` with every secret, in whatever spelling, or the beginning of one that a cut has left, replaced by
    /// `[NAME]`.
    pub fn redact(&self, text: &str) -> String {
        let mut places = self.places(text, |_| true).into_iter().peekable();
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(letter) = text[at..].chars().next() {
            while places.peek().is_some_and(|(place, _)| place.end <= at) {
                places.next();
            }
            let whole = places.peek().filter(|(place, _)| place.start <= at);
            let whole = whole.map(|(place, name)| (place.end - at, true, *name));
            // The longest match: of two secrets with the same beginning, the rest of the longer one
            // must not stay in the text. Of equally long matches, a whole value rather than a
            // beginning.
            let begun = self.all.iter().filter_map(|(value, name)| {
                let length = matched(&text[at..], value)?;
                Some((length, length == value.len(), &**name))
            });
            let found = whole
                .into_iter()
                .chain(begun)
                .max_by_key(|(length, is_whole, _)| (*length, *is_whole));
            at += if let Some((length, _, name)) = found {
                out.push('[');
                out.push_str(name);
                out.push(']');
                length
            } else {
                out.push(letter);
                letter.len_utf8()
            };
        }
        out
    }

    /// Replaces every whole secret that is no ordinary word. Returns whether there was one.
    pub fn mask(&self, text: &mut String) -> bool {
        let places = self.places(text, is_no_word);
        if !places.is_empty() {
            *text = masked(text, &places, 0);
        }
        !places.is_empty()
    }

    /// The same in all texts of a value, also in the names of fields.
    pub fn mask_value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => self.mask(text),
            Value::Array(items) => {
                let found = items.iter_mut().map(|item| self.mask_value(item));
                found.fold(false, |any, found| any | found)
            }
            Value::Object(fields) => {
                let values = fields.values_mut().map(|value| self.mask_value(value));
                let mut any = values.fold(false, |any, found| any | found);
                let is_masked = |name: &String| !self.places(name, is_no_word).is_empty();
                if fields.keys().any(is_masked) {
                    any = true;
                    let named = std::mem::take(fields).into_iter().map(|(mut name, value)| {
                        self.mask(&mut name);
                        (name, value)
                    });
                    *fields = named.collect();
                }
                any
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// The places of whole secrets in a text, in order, each with a name. Places that overlap are one, with the
    /// name of the longest.
    fn places(&self, text: &str, is_wanted: fn(&str) -> bool) -> Vec<(Range<usize>, &str)> {
        let mut found = Vec::new();
        for ((value, name), finder) in self.all.iter().zip(&self.finders) {
            if let Some(finder) = finder.as_ref().filter(|_| is_wanted(value)) {
                let places = finder.find(text).into_iter();
                found.extend(places.map(|place| (place.len(), place, &**name)));
            }
        }
        found.sort_unstable_by_key(|(length, place, _)| (place.start, std::cmp::Reverse(*length)));
        let mut places: Vec<(usize, Range<usize>, &str)> = Vec::with_capacity(found.len());
        for (length, place, name) in found {
            match places.last_mut() {
                Some((longest, last, its_name)) if place.start < last.end => {
                    last.end = last.end.max(place.end);
                    if length > *longest {
                        (*longest, *its_name) = (length, name);
                    }
                }
                _ => places.push((length, place, name)),
            }
        }
        places
            .into_iter()
            .map(|(_, place, name)| (place, name))
            .collect()
    }

    /// From where on a text may be the beginning of a secret that is masked, and of which one.
    fn begun(&self, text: &str) -> (usize, &str) {
        let all = self.all.iter().zip(&self.finders);
        let masked = all.filter(|((value, _), _)| is_no_word(value));
        let begun =
            masked.filter_map(|((_, name), finder)| Some((finder.as_ref()?.begun(text), &**name)));
        begun.min().unwrap_or((text.len(), ""))
    }
}

/// Whether a value is long enough and odd enough for a key, and no word of a text or a program.
fn is_no_word(value: &str) -> bool {
    value.len() >= SHORTEST_MASKED && !value.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// A text after `from`, with a name in place of each place that ends there.
fn masked(text: &str, places: &[(Range<usize>, &str)], from: usize) -> String {
    let (mut out, mut done) = (String::with_capacity(text.len()), from);
    for (place, name) in places.iter().filter(|(place, _)| place.end > from) {
        out.push_str(&text[done..place.start.max(done)]);
        out.push_str(&format!("[{name}]"));
        done = place.end;
    }
    out.push_str(&text[done..]);
    out
}

/// A text of one kind that arrives in pieces: what may be the beginning of a secret waits for what
/// follows.
#[derive(Default)]
pub struct MaskedText {
    text: String,
    /// How much of it has been passed on.
    passed: usize,
    /// Whether the name of the secret was passed on for its beginning.
    is_named: bool,
}

/// A text that is longer than this is passed on, because no secret is as long.
const MOST_HELD: usize = 64 << 10;

impl MaskedText {
    /// Takes a piece; returns what can be shown, masked.
    pub fn feed(&mut self, known: &KnownSecrets, piece: &str) -> String {
        self.text.push_str(piece);
        let places = known.places(&self.text, is_no_word);
        let mut until = match self.text.len() {
            ..=MOST_HELD => known.begun(&self.text).0,
            _ => self.text.len(),
        };
        // A secret that another one may begin in waits for that one.
        for (place, _) in places.iter().rev() {
            if place.end > until {
                until = until.min(place.start);
            }
        }
        self.pass(&places, until)
    }

    /// Passes on what waits, because other texts come after it; a name in its place if it is enough of a secret to
    /// matter.
    pub fn pause(&mut self, known: &KnownSecrets) -> String {
        let waits = self.text[self.passed..].to_owned();
        self.passed = self.text.len();
        if waits.is_empty() || self.text.trim().len() < SHORTEST_START {
            return waits;
        }
        match std::mem::replace(&mut self.is_named, true) {
            true => String::new(),
            false => format!("[{}]", known.begun(&self.text).1),
        }
    }

    /// The rest of the text.
    pub fn finish(mut self, known: &KnownSecrets) -> String {
        let places = known.places(&self.text, is_no_word);
        let until = self.text.len();
        self.pass(&places, until)
    }

    fn pass(&mut self, places: &[(Range<usize>, &str)], until: usize) -> String {
        let from = self.passed.min(until);
        let end = places.partition_point(|(place, _)| place.end <= until);
        let named = places[..end]
            .iter()
            .find(|(place, _)| self.is_named && place.start < from && from < place.end);
        let shown = named.map_or(from, |(place, _)| place.end);
        let out = masked(&self.text[..until], &places[..end], shown);
        self.text.drain(..until);
        self.passed -= from;
        self.is_named &= self.passed > 0;
        out
    }
}

/// How many bytes at the start of `text` are `value`, or a beginning of it that is long enough.
fn matched(text: &str, value: &str) -> Option<usize> {
    let (mut length, mut count) = (0, 0);
    for (a, b) in text.chars().zip(value.chars()) {
        if a != b {
            break;
        }
        length += a.len_utf8();
        count += 1;
    }
    let rest = &text[length..];
    let is_cut = rest.is_empty() || rest.starts_with('…') || rest.starts_with("...");
    let is_enough =
        length == value.len() || count >= SHORTEST_START || (is_cut && count >= SHORTEST_REDACTED);
    is_enough.then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_arrives_in_pieces_is_masked() {
        let names = [("A", "sk-a/b+c&1234567"), ("B", "sk-a/b+c&1234567-long")];
        let secrets = names.map(|(name, value)| (value.to_owned(), name.to_owned()));
        let secrets = KnownSecrets::new(secrets.to_vec());
        let read = |pieces: &[&str]| {
            let mut text = MaskedText::default();
            let fed: Vec<String> = pieces.iter().map(|it| text.feed(&secrets, it)).collect();
            fed.concat() + &text.finish(&secrets)
        };
        for (text, expected) in [
            ("is sk-a/b+c&1234567, é", "is [A], é"),
            ("sk-a/b+c&1234567-long", "[B]"),
            ("sk-a/b+c&1234567-lo", "[A]-lo"),
            ("sk-a%2Fb%2Bc%261234567.", "[A]."),
            ("sk-a\\/b+c\\u00261234567", "[A]"),
            ("sk-a/b+c&amp;1234567sk-a/b+c&1234567 b", "[A][A] b"),
            ("736b2d612f622b632631323334353637", "[A]"),
            ("a sk-sk-a/b+c\n", "a sk-sk-a/b+c\n"),
            ("é & 100% \\", "é & 100% \\"),
        ] {
            for (at, _) in text.char_indices() {
                assert_eq!(read(&[&text[..at], "", &text[at..]]), expected, "at {at}");
            }
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(read(&letters), expected);
        }
        // Ordinary text does not wait, and other texts wait for no more than a few letters.
        let mut text = MaskedText::default();
        assert_eq!(text.feed(&secrets, "it is"), "it i");
        assert_eq!(text.pause(&secrets), "s");
        assert_eq!(text.feed(&secrets, "k-a/b+c&"), "");
        assert_eq!(text.pause(&secrets), "[A]");
        assert_eq!(text.feed(&secrets, "12345"), "");
        assert_eq!(text.pause(&secrets), "");
        assert_eq!(text.feed(&secrets, "67. "), ". ");
        assert_eq!(text.feed(&secrets, "sk-a/b+c&"), "");
        assert_eq!(text.pause(&secrets), "[A]");
        assert_eq!(
            text.feed(&secrets, " is not sk-a/b+c&1234567."),
            " is not [A]."
        );
        assert_eq!(text.feed(&secrets, "sk-a/b+c&"), "");
        assert_eq!(text.pause(&secrets), "[A]");
        assert_eq!(text.feed(&secrets, "sk-a/b+c&1234567."), "[A].");
        assert_eq!(text.feed(&secrets, "s\n\n\n\n\n\n\n\n"), "");
        assert_eq!(text.pause(&secrets), "s\n\n\n\n\n\n\n\n");
        let long = "\n".repeat(1 << 20);
        let begin = std::time::Instant::now();
        let mut text = MaskedText::default();
        for _ in 0..64 {
            text.feed(&secrets, "s");
            text.feed(&secrets, &long[..1 << 14]);
        }
        let took = begin.elapsed();
        assert!(took.as_secs() < 30, "{took:?}");
    }
}
