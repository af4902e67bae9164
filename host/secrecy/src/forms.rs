//! Keys of well-known services, recognised in any text by their form.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// A form of secret: its beginning, the characters that may follow, and their least number.
struct SecretForm {
    start: &'static str,
    body: fn(char) -> bool,
    least: usize,
    /// Whether it must contain a digit: a key does, a word does not.
    digits: bool,
}

const fn form(start: &'static str, body: fn(char) -> bool, least: usize) -> SecretForm {
    SecretForm {
        start,
        body,
        least,
        digits: true,
    }
}

fn word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn plain(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

fn dashed(c: char) -> bool {
    word(c) || c == '-'
}

fn capitals(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit()
}

const FORMS: &[SecretForm] = &[
    form("sk-", dashed, 16),
    form("ghp_", word, 16),
    form("gho_", word, 16),
    form("ghu_", word, 16),
    form("ghs_", word, 16),
    form("ghr_", word, 16),
    form("github_pat_", word, 16),
    form("glpat-", dashed, 16),
    form("xoxb-", dashed, 10),
    form("xoxp-", dashed, 10),
    form("hf_", word, 16),
    form("npm_", plain, 16),
    form("pypi-", dashed, 30),
    form("gsk_", word, 30),
    form("sk_live_", word, 16),
    form("rk_live_", word, 16),
    form("dckr_pat_", dashed, 16),
    form("xapp-", dashed, 16),
    form("AIza", dashed, 16),
    SecretForm {
        digits: false,
        ..form("AKIA", capitals, 16)
    },
    SecretForm {
        digits: false,
        ..form("ASIA", capitals, 16)
    },
];

/// Finds the beginnings of all forms; the last one is that of a web token.
static STARTS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let starts = FORMS.iter().map(|form| form.start);
    AhoCorasick::new(starts.chain([WEB_TOKEN])).ok()
});

/// The places of keys and tokens of a known form in a text, in order.
pub fn keys_in(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    // A word with dashes may have many beginnings, each of which would be followed to its end: these are the ends of
    // the last one without a digit, and of the last one that begins no web token.
    let (mut without_digit, mut without_token) = (0, 0);
    for start in STARTS.iter().flat_map(|starts| starts.find_iter(text)) {
        let at = start.start();
        let (before, from) = text.split_at(at);
        let form = FORMS.get(start.pattern().as_usize());
        let is_passed = found.last().is_some_and(|last| last.end > at)
            || match form {
                Some(form) => form.digits && at < without_digit,
                None => at < without_token,
            };
        if is_passed || !is_boundary(before) {
            continue;
        }
        let length = match form {
            Some(form) => form.length(from),
            None => web_token(from),
        };
        match (length, form) {
            (Ok(length), _) => found.push(at..at + length),
            (Err(seen), Some(_)) => without_digit = without_digit.max(at + seen),
            (Err(seen), None) => without_token = at + seen,
        }
    }
    found
}

/// A text with `with` in each of these places, which are in order.
pub fn replaced(text: &str, places: &[Range<usize>], with: &str) -> String {
    let (mut out, mut done) = (String::with_capacity(text.len()), 0);
    for place in places {
        out.push_str(&text[done..place.start]);
        out.push_str(with);
        done = place.end;
    }
    out.push_str(&text[done..]);
    out
}

/// More letters and digits than an escape or a part of a colour sequence has.
const LONGEST_ESCAPE: usize = 16;

/// Whether a key may begin after this text. It begins at the start of a word only: not in `task-list` or
/// `risk-...`. What stands before it may be the letter of a JSON escape, the end of a terminal's colour sequence, a
/// byte of a URL.
fn is_boundary(before: &str) -> bool {
    let letters = before.bytes().rev().take(LONGEST_ESCAPE);
    let letters = letters.take_while(|&byte| word(byte.into())).count();
    let (rest, letters) = before.split_at(before.len() - letters);
    let number = letters.trim_start_matches(|c: char| c.is_ascii_digit());
    match rest.chars().next_back() {
        _ if letters.is_empty() => true,
        Some('\\') => letters.len() == 1 || letters.len() == 5 && letters.starts_with('u'),
        Some('[' | ';') => number.len() == 1,
        Some('%') => letters.len() == 2,
        _ => false,
    }
}

impl SecretForm {
    /// How long the key is that `text` begins with; if there is none, how many bytes have no digit.
    fn length(&self, text: &str) -> Result<usize, usize> {
        let body = run(text.strip_prefix(self.start).ok_or(0_usize)?, self.body);
        let length = self.start.len() + body.len();
        let has_digit = || body.contains(|c: char| c.is_ascii_digit());
        match body.len() >= self.least {
            true if !self.digits || has_digit() => Ok(length),
            true => Err(length),
            false => Err(0),
        }
    }
}

/// How an object in JSON begins, in base64.
const WEB_TOKEN: &str = "eyJ";

/// The length of a JSON Web Token: three parts with dots between, the first two of them JSON objects. If there is none,
/// the length of the first part: no token begins in it.
fn web_token(text: &str) -> Result<usize, usize> {
    let head = run(text, dashed);
    token_with(head, text).ok_or(head.len())
}

fn token_with(head: &str, text: &str) -> Option<usize> {
    let claims = run(text.get(head.len()..)?.strip_prefix('.')?, dashed);
    let two = head.len() + 1 + claims.len();
    let signature = run(text.get(two..)?.strip_prefix('.')?, dashed);
    let object = |part: &str| part.starts_with(WEB_TOKEN) && part.len() >= 8;
    (object(head) && object(claims)).then_some(two + 1 + signature.len())
}

fn run(text: &str, of: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !of(c)).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_at_the_starts_of_words() {
        let key = "sk-abcdefghijklmnop1";
        for (text, found) in [
            (format!("{key} x"), true),
            (format!("\\n{key}"), true),
            (format!("\u{1b}[38;5;12m{key}"), true),
            (format!("%20{key}"), true),
            (format!("ta{key}"), false),
            (format!("aaaaaaaaaaaaaaaaaaaaaaaa{key}"), false),
            (format!("é{key}"), true),
            ("sk-a-b-c-d-e-f-g-h-i-j".to_owned(), false),
            (format!("sk-abcdefghijklmnopqrst {key}"), true),
            ("eyJhbGciOi.eyJhbGciOi.x".to_owned(), true),
            ("eyJ-eyJhbGciOi.eyJhbGciOi.x".to_owned(), true),
        ] {
            assert_eq!(!keys_in(&text).is_empty(), found, "{text}");
        }
    }

    /// Each of these beginnings is in one word with all the others; a scan from each to the end of the word, or back
    /// to its beginning, would take minutes.
    #[test]
    fn many_beginnings_take_no_time() {
        for start in [
            "sk-",
            "hf_",
            "eyJ-",
            "eyJ.",
            "npm_",
            "sk-hf_",
            "AKIA",
            "glpat-eyJ",
        ] {
            let text = start.repeat((4 << 20) / start.len());
            assert!(keys_in(&text).len() < 2, "{start}");
        }
    }
}
