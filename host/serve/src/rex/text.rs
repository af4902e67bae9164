//! Converts texts for SWE-ReX's clients.

use mswea_executor::decoded;

use super::bodies::ReadBody;
use super::fault::RexFault;

/// A text without the control sequences of terminals; `\r\n` becomes `\n`.
pub(super) fn without_controls(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        clean.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        match sequence(after) {
            Some(length) => rest = &after[length..],
            None => {
                clean.push('\x1b');
                rest = after;
            }
        }
    }
    clean.push_str(rest);
    clean.replace("\r\n", "\n")
}

/// The length of a control sequence after its first character.
fn sequence(after: &str) -> Option<usize> {
    let bytes = after.as_bytes();
    let run = |from: usize, of: std::ops::RangeInclusive<u8>| {
        let skipped = bytes[from..].iter().take_while(|byte| of.contains(byte));
        from + skipped.count()
    };
    match bytes.first()? {
        b'[' => {
            let end = run(run(1, b'0'..=b'?'), b' '..=b'/');
            bytes.get(end).filter(|byte| (b'@'..=b'~').contains(byte))?;
            Some(end + 1)
        }
        // The title of a window. It ends at the next sequence at the latest, because an output may
        // have many beginnings and no end.
        b']' => {
            let ends = |byte: &u8| matches!(byte, 0x07 | b'\n' | 0x1b);
            let end = bytes.iter().position(ends);
            match end.filter(|end| bytes[*end] == 0x07) {
                Some(end) => Some(end + 1),
                None => Some(1),
            }
        }
        b'@'..=b'_' => Some(1),
        _ => None,
    }
}

/// Decodes the text of a file, with the names of Python's encodings and error handlers.
///
/// # Errors
/// The exception that Python raises.
pub(super) fn of_file(content: &[u8], body: &ReadBody) -> Result<String, RexFault> {
    let encoding = body.encoding.as_deref().unwrap_or("utf-8");
    let plain = encoding.to_ascii_lowercase().replace(['_', ' '], "-");
    let errors = body.errors.as_deref().unwrap_or("strict");
    let is_valid = match plain.as_str() {
        "utf-8" | "utf8" | "u8" => std::str::from_utf8(content).is_ok(),
        "ascii" | "us-ascii" | "646" => content.is_ascii(),
        "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" | "l1" => {
            return Ok(content.iter().map(|&byte| char::from(byte)).collect());
        }
        _ => {
            let why = format!("unknown encoding: {encoding}");
            return Err(RexFault::python("LookupError", why));
        }
    };
    if is_valid {
        return Ok(String::from_utf8_lossy(content).into_owned());
    }
    let is_ascii = plain.contains("ascii") || plain == "646";
    let is_bad = |byte: &&u8| is_ascii && !byte.is_ascii();
    match errors {
        "ignore" if is_ascii => {
            let kept = content.iter().filter(|byte| !is_bad(byte));
            Ok(kept.map(|&byte| char::from(byte)).collect())
        }
        "ignore" => Ok(content.utf8_chunks().map(|chunk| chunk.valid()).collect()),
        "replace" if is_ascii => Ok(content
            .iter()
            .map(|byte| match byte.is_ascii() {
                true => char::from(*byte),
                false => char::REPLACEMENT_CHARACTER,
            })
            .collect()),
        "replace" => Ok(String::from_utf8_lossy(content).into_owned()),
        "backslashreplace" if is_ascii => {
            let pieces = content.iter().map(|&byte| match byte.is_ascii() {
                true => char::from(byte).to_string(),
                false => format!("\\x{byte:02x}"),
            });
            Ok(pieces.collect())
        }
        "backslashreplace" => Ok(decoded(content)),
        "strict" => {
            let why = format!("'{encoding}' codec can't decode the file: pass `errors`");
            Err(RexFault::python("UnicodeDecodeError", why))
        }
        _ => {
            let why = format!("unknown error handler name '{errors}'");
            Err(RexFault::python("LookupError", why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_are_left_out() {
        for (text, wanted) in [
            ("a\r\nb\rc\n", "a\nb\rc\n"),
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x1b[?2004h$ \x1b[1;2Hx", "$ x"),
            ("\x1bMup", "up"),
            ("\x1b]0;title", "0;title"),
            ("\x1b]0;title\x07x", "x"),
            ("\x1b", "\x1b"),
            ("\x1b[12", "\x1b[12"),
            ("\x1b\u{e9}", "\x1b\u{e9}"),
            ("\x1b[\u{e9}", "\x1b[\u{e9}"),
        ] {
            assert_eq!(without_controls(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn many_beginnings_without_an_end_take_no_time() {
        let text = "\x1b]".repeat(1_000_000);
        let began = std::time::Instant::now();
        assert_eq!(without_controls(&text), "");
        let open = format!("{text}\n\x07");
        assert_eq!(without_controls(&open), "\n\x07");
        // It took minutes before.
        assert!(began.elapsed() < std::time::Duration::from_secs(20));
    }

    #[test]
    fn files_are_decoded_as_python_does() {
        for (content, encoding, errors, wanted) in [
            (&b"a\r\n\xc3\xa9"[..], None, None, Ok("a\r\n\u{e9}")),
            (b"\xff", None, None, Err("builtins.UnicodeDecodeError")),
            (b"a\xffb", None, Some("ignore"), Ok("ab")),
            (b"a\xffb", Some("UTF_8"), Some("replace"), Ok("a\u{fffd}b")),
            (b"a\xffb", None, Some("backslashreplace"), Ok(r"a\xffb")),
            (b"\xe9", Some("latin-1"), None, Ok("\u{e9}")),
            (
                b"\xe9",
                Some("ascii"),
                None,
                Err("builtins.UnicodeDecodeError"),
            ),
            (b"a\xe9", Some("ascii"), Some("replace"), Ok("a\u{fffd}")),
            (b"a", Some("none"), None, Err("builtins.LookupError")),
            (b"\xff", None, Some("x"), Err("builtins.LookupError")),
        ] {
            let body = ReadBody {
                path: String::new(),
                encoding: encoding.map(str::to_owned),
                errors: errors.map(str::to_owned),
            };
            match (of_file(content, &body), wanted) {
                (Ok(text), Ok(wanted)) => assert_eq!(text, wanted),
                (Err(RexFault::Raised { class, .. }), Err(wanted)) => assert_eq!(class, wanted),
                (found, _) => panic!("{content:?} {encoding:?} {errors:?}: {found:?}"),
            }
        }
    }
}
