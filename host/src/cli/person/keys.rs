//! The bytes of a terminal as keys. Escape sequences and characters may arrive in pieces.

/// A key that the user has pressed, or a pasted text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum PressedKey {
    /// A character, or a pasted text with `\n` as its line ends.
    Text(String),
    Enter,
    /// Esc and Enter.
    Send,
    Backspace,
    Delete,
    Left,
    Right,
    WordLeft,
    WordRight,
    Up,
    Down,
    Home,
    End,
    KillToEnd,
    KillToStart,
    KillWord,
    Yank,
    Search,
    Clear,
    /// Ctrl-D.
    Eof,
    PageUp,
    PageDown,
    /// Esc alone.
    Escape,
    /// Ctrl-C, if it does not send a signal.
    Interrupt,
}

/// The end of a pasted text.
const PASTE_END: &[u8] = b"\x1b[201~";
/// A longer escape sequence is not a key.
const LONGEST: usize = 32;

/// Decodes bytes to keys.
#[derive(Debug, Default)]
pub(in crate::cli) struct KeyDecoder {
    pending: Vec<u8>,
    /// The text of an unfinished paste.
    paste: Option<Vec<u8>>,
}

impl KeyDecoder {
    /// The keys that these bytes complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<PressedKey> {
        let mut keys: Vec<PressedKey> = Vec::new();
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if let Some(paste) = &mut self.paste {
                paste.push(byte);
                rest = after;
                if paste.ends_with(PASTE_END) {
                    let len = paste.len() - PASTE_END.len();
                    let text = pasted(&paste[..len]);
                    self.paste = None;
                    put(&mut keys, text);
                }
                continue;
            }
            self.pending.push(byte);
            rest = after;
            self.settle(&mut keys);
        }
        keys
    }

    /// The pending key if no bytes follow: Esc.
    pub fn rest(&mut self) -> Option<PressedKey> {
        let is_escape = self.pending == [0x1b];
        is_escape.then(|| {
            self.pending.clear();
            PressedKey::Escape
        })
    }

    /// Adds the key of the pending bytes, if they are complete.
    fn settle(&mut self, keys: &mut Vec<PressedKey>) {
        let bytes = self.pending.as_slice();
        let key = match bytes {
            [0x1b] => return,
            [0x1b, b'[' | b'O'] => return,
            [0x1b, b'[' | b'O', middle @ .., last] => {
                if !(0x40..=0x7e).contains(last) && bytes.len() < LONGEST {
                    return;
                }
                if bytes == b"\x1b[200~" {
                    self.paste = Some(Vec::new());
                    self.pending.clear();
                    return;
                }
                sequence(middle, *last)
            }
            // A second Esc begins a new sequence.
            [0x1b, 0x1b] => {
                self.pending.truncate(1);
                return;
            }
            [0x1b, b'\r' | b'\n'] => Some(PressedKey::Send),
            [0x1b, b'b'] => Some(PressedKey::WordLeft),
            [0x1b, b'f'] => Some(PressedKey::WordRight),
            [0x1b, 0x7f | 0x08] => Some(PressedKey::KillWord),
            [0x1b, ..] => None,
            [byte] if *byte < 0x20 || *byte == 0x7f => control(*byte),
            bytes => match std::str::from_utf8(bytes) {
                Ok(text) => {
                    put(keys, text.to_owned());
                    self.pending.clear();
                    return;
                }
                Err(error) if error.error_len().is_none() => return,
                Err(_) => None,
            },
        };
        self.pending.clear();
        keys.extend(key);
    }
}

/// Appends a text to the text before it, so that a fast paste without brackets is one change.
fn put(keys: &mut Vec<PressedKey>, text: String) {
    match keys.last_mut() {
        Some(PressedKey::Text(before)) => before.push_str(&text),
        _ => keys.push(PressedKey::Text(text)),
    }
}

fn control(byte: u8) -> Option<PressedKey> {
    Some(match byte {
        b'\r' | b'\n' => PressedKey::Enter,
        b'\t' => PressedKey::Text("\t".to_owned()),
        0x01 => PressedKey::Home,
        0x03 => PressedKey::Interrupt,
        0x02 => PressedKey::Left,
        0x04 => PressedKey::Eof,
        0x05 => PressedKey::End,
        0x06 => PressedKey::Right,
        0x08 | 0x7f => PressedKey::Backspace,
        0x0b => PressedKey::KillToEnd,
        0x0c => PressedKey::Clear,
        0x0e => PressedKey::Down,
        0x10 => PressedKey::Up,
        0x12 => PressedKey::Search,
        0x15 => PressedKey::KillToStart,
        0x17 => PressedKey::KillWord,
        0x19 => PressedKey::Yank,
        _ => return None,
    })
}

fn sequence(middle: &[u8], last: u8) -> Option<PressedKey> {
    // With Ctrl or Alt.
    let moves_words = middle.ends_with(b";5") || middle.ends_with(b";3");
    Some(match (last, middle) {
        (b'A', _) => PressedKey::Up,
        (b'B', _) => PressedKey::Down,
        (b'C', _) if moves_words => PressedKey::WordRight,
        (b'D', _) if moves_words => PressedKey::WordLeft,
        (b'C', _) => PressedKey::Right,
        (b'D', _) => PressedKey::Left,
        (b'H', _) | (b'~', b"1" | b"7") => PressedKey::Home,
        (b'F', _) | (b'~', b"4" | b"8") => PressedKey::End,
        (b'~', b"3") => PressedKey::Delete,
        (b'~', b"5") => PressedKey::PageUp,
        (b'~', b"6") => PressedKey::PageDown,
        _ => return None,
    })
}

/// A pasted text without control characters.
fn pasted(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let keeps = |c: &char| matches!(c, '\n' | '\t') || !c.is_control();
    text.chars().filter(keeps).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        let text = |text: &str| PressedKey::Text(text.to_owned());
        let table: [(&[u8], Vec<PressedKey>); 13] = [
            (b"ab", vec![text("ab")]),
            ("é日".as_bytes(), vec![text("é日")]),
            (b"a\r", vec![text("a"), PressedKey::Enter]),
            (b"\x1b\r", vec![PressedKey::Send]),
            (b"\x1b\x1b\r", vec![PressedKey::Send]),
            (
                b"\x1b[A\x1bOB\x1b[C\x1b[1;5D",
                vec![
                    PressedKey::Up,
                    PressedKey::Down,
                    PressedKey::Right,
                    PressedKey::WordLeft,
                ],
            ),
            (
                b"\x1b[3~\x7f\x1b[H\x1b[4~",
                vec![
                    PressedKey::Delete,
                    PressedKey::Backspace,
                    PressedKey::Home,
                    PressedKey::End,
                ],
            ),
            (
                b"\x1b[200~a\r\nb\rc\x1b[31m\x07\x1b[201~\r",
                vec![text("a\nb\nc[31m"), PressedKey::Enter],
            ),
            (
                b"\x04\x15\x0b\x17\x19",
                vec![
                    PressedKey::Eof,
                    PressedKey::KillToStart,
                    PressedKey::KillToEnd,
                    PressedKey::KillWord,
                    PressedKey::Yank,
                ],
            ),
            // Unknown keys have no effect.
            (b"\x1b[99;9u\x1b[15~\x00x", vec![text("x")]),
            (b"\xffx", vec![text("x")]),
            (b"\x1bz", vec![]),
            (b"\x1b[200~", vec![]),
        ];
        for (bytes, expected) in table {
            assert_eq!(KeyDecoder::default().push(bytes), expected, "{bytes:?}");
            // Texts arrive in pieces, byte by byte.
            let mut decoder = KeyDecoder::default();
            let mut pieces: Vec<PressedKey> = Vec::new();
            for byte in bytes {
                for key in decoder.push(&[*byte]) {
                    match key {
                        PressedKey::Text(text) => put(&mut pieces, text),
                        key => pieces.push(key),
                    }
                }
            }
            assert_eq!(pieces, expected, "{bytes:?}");
        }
    }
}
