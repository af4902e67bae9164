//! Server-sent events, decoded from pieces that may be cut anywhere.

use memchr::memchr2;

use super::json_end::JsonEnd;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The `event` field; empty if there was none.
    pub name: String,
    /// The `data` lines, joined by newlines.
    pub data: String,
}

/// Assembles events. Bytes are kept until their line is complete, so that cuts inside a character
/// or a line ending do no harm.
#[derive(Default)]
pub struct Decoder {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    /// The `event` field after the data: that of the same event, or of the next one if no blank line
    /// stands before its data.
    later_name: Option<String>,
    /// Whether the last byte was a carriage return: a line feed right after it belongs to it.
    after_cr: bool,
    /// How far the JSON in the begun line is, and in the data.
    in_line: Scan,
    in_data: Scan,
}

/// The end of a text that grows.
#[derive(Default)]
struct Scan {
    end: JsonEnd,
    scanned: usize,
}

impl Scan {
    /// Whether the text is a complete object, or `[DONE]`.
    fn is_complete(&mut self, text: &[u8], field: &[u8]) -> bool {
        self.end.feed(text.get(self.scanned..).unwrap_or_default());
        self.scanned = text.len();
        let value = text.strip_prefix(field).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let is_object = value.starts_with(b"{") && value.ends_with(b"}");
        self.end.is_reached() && (is_object || value == b"[DONE]")
    }
}

impl Decoder {
    /// Takes the next piece and passes each complete event to `sink`; also one whose data is complete
    /// JSON at the end of the piece, because a server that keeps the connection open may leave out
    /// what ends its last event. (A name that comes only after such data is lost.)
    pub fn feed(&mut self, mut bytes: &[u8], sink: &mut impl FnMut(Event)) {
        if self.after_cr {
            let Some(&first) = bytes.first() else { return };
            if first == b'\n' {
                bytes = &bytes[1..];
            }
            self.after_cr = false;
        }
        while let Some(end) = memchr2(b'\n', b'\r', bytes) {
            let line = &bytes[..end];
            let is_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if is_cr {
                match bytes.first() {
                    Some(b'\n') => bytes = &bytes[1..],
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            if self.line.is_empty() {
                self.end_line(line, sink);
            } else {
                let mut begun = std::mem::take(&mut self.line);
                begun.extend_from_slice(line);
                self.end_line(&begun, sink);
            }
        }
        self.line.extend_from_slice(bytes);
        self.pass_complete(sink);
    }

    fn pass_complete(&mut self, sink: &mut impl FnMut(Event)) {
        let is_complete = match self.line.as_slice() {
            _ if self.later_name.is_some() => false,
            [] => self.has_data && self.in_data.is_complete(self.event.data.as_bytes(), b""),
            line => !self.has_data && self.in_line.is_complete(line, b"data:"),
        };
        if is_complete {
            self.finish(sink);
        }
    }

    /// Ends the stream. An event without its closing blank line counts all the same: some servers
    /// leave it out, and an incomplete event is no valid JSON, which the caller detects.
    pub fn finish(&mut self, sink: &mut impl FnMut(Event)) {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.end_line(&line, sink);
        }
        self.dispatch(sink);
    }

    fn end_line(&mut self, line: &[u8], sink: &mut impl FnMut(Event)) {
        self.in_line = Scan::default();
        let line = String::from_utf8_lossy(line);
        let line = line.strip_prefix('\u{feff}').unwrap_or(&line);
        if line.is_empty() {
            self.dispatch(sink);
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data && are_two(&self.event.data, value) {
                    let name = self.later_name.take();
                    self.dispatch(sink);
                    self.event.name = name.unwrap_or_default();
                }
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            "event" if self.has_data => self.later_name = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.event.name),
            // llama.cpp sends an error as a field of its own, which the standard does not have.
            "error" if !value.is_empty() => {
                if self.has_data {
                    self.dispatch(sink);
                }
                "error".clone_into(&mut self.event.name);
                value.clone_into(&mut self.event.data);
                self.has_data = true;
            }
            // Comments (an empty field name) keep the connection alive; `id` and `retry` are
            // for reconnecting, which a completion can't do.
            _ => {}
        }
    }

    fn dispatch(&mut self, sink: &mut impl FnMut(Event)) {
        self.in_data = Scan::default();
        let mut event = std::mem::take(&mut self.event);
        if let Some(name) = self.later_name.take() {
            event.name = name;
        }
        if std::mem::take(&mut self.has_data) {
            sink(event);
        }
    }
}

/// Whether a line begins another event although no blank line stands before it, as some servers
/// write: no JSON text has these brackets at the end of one line and at the beginning of the next.
fn are_two(data: &str, line: &str) -> bool {
    data.ends_with('}') && line.starts_with(['{', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut events = Vec::new();
        let mut sink = |event: Event| events.push((event.name, event.data));
        let mut decoder = Decoder::default();
        for piece in pieces {
            decoder.feed(piece, &mut sink);
        }
        decoder.finish(&mut sink);
        events
    }

    #[test]
    fn events_are_decoded_whatever_the_cut() {
        let vectors: [(&str, &[(&str, &str)]); 16] = [
            ("", &[]),
            ("data: a\n\ndata:b\n\n", &[("", "a"), ("", "b")]),
            (
                "data: a\r\n\r\ndata: b\r\rdata: c\n\n",
                &[("", "a"), ("", "b"), ("", "c")],
            ),
            (
                "data: a\ndata:  b\ndata\ndata: c\n\n",
                &[("", "a\n b\n\nc")],
            ),
            (": keep-alive\n\n:\n\ndata: é😀\n\n", &[("", "é😀")]),
            (
                "event: error\ndata: x\n\ndata: y\n\n",
                &[("error", "x"), ("", "y")],
            ),
            ("event: ping\n\ndata: y\nevent: z\n\n", &[("z", "y")]),
            (
                "error: {\"code\":400}\n\ndata: [DONE]\n\n",
                &[("error", "{\"code\":400}"), ("", "[DONE]")],
            ),
            ("data: a\n\nerror:\ndata: b\n\n", &[("", "a"), ("", "b")]),
            ("id: 1\nretry: 5\nother: z\ndata: y\n\n", &[("", "y")]),
            ("data: no blank line", &[("", "no blank line")]),
            ("data: a\n\ndata: half\n", &[("", "a"), ("", "half")]),
            ("\u{feff}data: a\n\n", &[("", "a")]),
            ("\n\n\r\n data: indented\n\ndata:\n\n", &[("", "")]),
            (
                "data: {\ndata: \"a\": {},\ndata: \"b\": 1}\n\n",
                &[("", "{\n\"a\": {},\n\"b\": 1}")],
            ),
            (
                "data: {}\ndata: {}\nevent: error\ndata: {\"a\": {}}\ndata: [DONE]\n",
                &[
                    ("", "{}"),
                    ("", "{}"),
                    ("error", "{\"a\": {}}"),
                    ("", "[DONE]"),
                ],
            ),
        ];
        for (stream, expected) in vectors {
            let bytes = stream.as_bytes();
            let expected: Vec<(String, String)> = expected
                .iter()
                .map(|(name, data)| ((*name).to_owned(), (*data).to_owned()))
                .collect();
            for cut in 0..=bytes.len() {
                let (left, right) = bytes.split_at(cut);
                assert_eq!(decode(&[left, right]), expected, "{stream:?} cut at {cut}");
                assert_eq!(decode(&[left, b"", right]), expected, "{stream:?} at {cut}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(decode(&single), expected, "{stream:?} byte by byte");
        }
    }

    #[test]
    fn complete_json_is_passed_on_before_its_event_ends() {
        for (bytes, expected) in [
            ("event: e\ndata: {\"a\": {}}\n", &["e {\"a\": {}}"][..]),
            ("event: e\ndata: {\"a\": {}}", &["e {\"a\": {}}"]),
            ("data: {}\n\ndata: [DONE]\r", &[" {}", " [DONE]"]),
            ("data: [DONE]", &[" [DONE]"]),
            ("data: {\ndata: }\n", &[" {\n}"]),
            ("error: {}\n", &["error {}"]),
            ("data: {\"a\": \"}", &[]),
            ("data: {\"a\": {}", &[]),
            ("data: {\"a\": {},\n", &[]),
            ("data: a {}\n", &[]),
            ("data: [1]", &[]),
            ("event: {}", &[]),
        ] {
            let mut events = Vec::new();
            let mut sink = |event: Event| events.push(format!("{} {}", event.name, event.data));
            let mut decoder = Decoder::default();
            for byte in bytes.as_bytes() {
                decoder.feed(&[*byte], &mut sink);
            }
            decoder.feed(b"", &mut sink);
            assert_eq!(events, expected, "{bytes:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(
            decode(&[b"data: \xff\xfe\n\n"]),
            [(String::new(), "\u{fffd}\u{fffd}".to_owned())]
        );
    }
}
