//! Lone surrogates in JSON: Python writes them, and other programs can't read them.

/// Replaces each escape of a lone surrogate by `\ufffd`; returns their number. The length stays the
/// same, so that a later error still has the right line and column.
pub fn replace_lone_surrogates(bytes: &mut [u8]) -> u64 {
    let mut replaced = 0;
    let mut at = 0;
    while let Some(found) = bytes
        .get(at..)
        .and_then(|rest| rest.iter().position(|byte| *byte == b'\\'))
    {
        at += found;
        at += match escaped(&bytes[at..]) {
            // `\\` is one escape; its second half does not begin another one.
            None => 2,
            Some(0xd800..=0xdbff)
                if matches!(escaped(&bytes[at + ESCAPE..]), Some(0xdc00..=0xdfff)) =>
            {
                2 * ESCAPE
            }
            Some(0xd800..=0xdfff) => {
                bytes[at..at + ESCAPE].copy_from_slice(b"\\ufffd");
                replaced += 1;
                ESCAPE
            }
            Some(_) => ESCAPE,
        };
    }
    replaced
}

/// The number of bytes of `\ud800`.
const ESCAPE: usize = 6;

/// The number in a `\u` escape, if the text begins with one.
fn escaped(text: &[u8]) -> Option<u32> {
    let digits = text.get(..ESCAPE)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |number, digit| {
        Some(number << 4 | char::from(*digit).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_characters() {
        for (text, mended, replaced) in [
            (r#""a""#, r#""a""#, 0),
            (r#""\ud800""#, r#""\ufffd""#, 1),
            (r#""\uDFFF""#, r#""\ufffd""#, 1),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#, 0),
            (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#, 2),
            (r#""\ud83d\ud83d\ude00x""#, r#""\ufffd\ud83d\ude00x""#, 1),
            (r#""\ud83d\u0041""#, r#""\ufffd\u0041""#, 1),
            (r#""\ud83d\n""#, r#""\ufffd\n""#, 1),
            (r#""\\ud800""#, r#""\\ud800""#, 0),
            (r#""\\\ud800""#, r#""\\\ufffd""#, 1),
            (r#""\\\\ud800""#, r#""\\\\ud800""#, 0),
            (r#""\"\ud800""#, r#""\"\ufffd""#, 1),
            (r#""\u00e9""#, r#""\u00e9""#, 0),
            // An incomplete escape, and a text without one.
            (r#""\ud80"#, r#""\ud80"#, 0),
            (r#""\ud8"#, r#""\ud8"#, 0),
            (r#""\u"#, r#""\u"#, 0),
            ("\"\\", "\"\\", 0),
            (r#""\ud+00""#, r#""\ud+00""#, 0),
        ] {
            let mut bytes = text.as_bytes().to_vec();
            assert_eq!(replace_lone_surrogates(&mut bytes), replaced, "{text}");
            assert_eq!(String::from_utf8(bytes).unwrap(), mended, "{text}");
        }
    }
}
