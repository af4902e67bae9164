//! A response's body: one text, or a stream of events, whatever the server's headers say.

use super::json_end::JsonEnd;
use super::{Decoder, Event, Headers};

/// How many bytes of a stream's beginning are kept for the error message.
const KEPT_OF_STREAM: usize = 2048;

/// The first bytes of a stream: a field's name with its colon; of an error, with the beginning of
/// its object, because a plain text may begin with the same word.
const FIELDS: [&[u8]; 7] = [
    b":",
    b"data:",
    b"event:",
    b"id:",
    b"retry:",
    b"error: {",
    b"error:{",
];

/// The longest of them.
const LONGEST_FIELD: usize = b"error: {".len();

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Not enough bytes have arrived to decide.
    Undecided,
    /// One text, which is parsed at its end.
    Whole,
    /// Server-sent events.
    Stream,
}

/// The part of a body that has arrived.
///
/// Whether it is a stream is decided by its content. The request does not matter, and the content
/// type only if the first bytes leave it open, because some servers get both wrong.
pub struct Body {
    is_success: bool,
    says_stream: bool,
    mode: Mode,
    /// The whole body, or the beginning of a stream.
    bytes: Vec<u8>,
    decoder: Decoder,
    json_end: JsonEnd,
}

impl Body {
    /// Begins the body of a response with this status and these headers.
    pub fn new(status: u16, headers: &Headers) -> Self {
        let is_success = (200..300).contains(&status);
        let content_type = headers.get("content-type").unwrap_or_default();
        Self {
            is_success,
            says_stream: content_type.starts_with("text/event-stream"),
            mode: if is_success {
                Mode::Undecided
            } else {
                Mode::Whole
            },
            bytes: Vec::new(),
            decoder: Decoder::default(),
            json_end: JsonEnd::default(),
        }
    }

    /// Takes the next piece and passes each complete event of a stream to `sink`.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Event)) {
        if self.mode == Mode::Stream {
            let room = KEPT_OF_STREAM.saturating_sub(self.bytes.len());
            self.bytes
                .extend_from_slice(&bytes[..bytes.len().min(room)]);
            self.decoder.feed(bytes, sink);
            return;
        }
        self.bytes.extend_from_slice(bytes);
        self.json_end.feed(bytes);
        if self.mode == Mode::Undecided {
            // Some servers send blanks while they work, to keep the connection alive. They are not
            // kept: otherwise each piece would be looked at again with the next one.
            let blanks = self.bytes.len() - trim_start(&self.bytes).len();
            self.bytes.drain(..blanks);
            self.mode = self.decide(false);
            if self.mode == Mode::Stream {
                self.begin_stream(sink);
            }
        }
    }

    /// Ends the body; passes the rest of a stream to `sink`.
    pub fn finish(&mut self, sink: &mut impl FnMut(Event)) {
        if self.mode == Mode::Undecided {
            self.mode = self.decide(true);
            if self.mode == Mode::Stream {
                self.begin_stream(sink);
            }
        }
        // An error may be sent as an event, too.
        if !self.is_success && self.begins_as_stream() {
            self.begin_stream(sink);
        }
        self.decoder.finish(sink);
    }

    /// Whether the body is a stream.
    pub fn is_stream(&self) -> bool {
        self.mode == Mode::Stream
    }

    /// Whether it is one text that is a complete object or list of JSON: a server that keeps the
    /// connection open sends nothing more that belongs to it.
    pub fn is_complete_json(&self) -> bool {
        self.mode == Mode::Whole
            && self.json_end.is_reached()
            && matches!(self.bytes().first(), Some(b'{' | b'['))
    }

    /// Whether its first bytes are those of a stream.
    pub fn begins_as_stream(&self) -> bool {
        begins_stream(trim(&self.bytes))
    }

    /// The whole body, or the beginning of a stream, without the blanks around it.
    pub fn bytes(&self) -> &[u8] {
        trim(&self.bytes)
    }

    fn begin_stream(&mut self, sink: &mut impl FnMut(Event)) {
        self.decoder.feed(&self.bytes, sink);
        self.bytes.truncate(KEPT_OF_STREAM);
    }

    fn decide(&self, is_end: bool) -> Mode {
        let start = trim_start(&self.bytes);
        match start.first() {
            None if !is_end => Mode::Undecided,
            None | Some(b'{' | b'[' | b'<') => Mode::Whole,
            Some(b':') => Mode::Stream,
            _ if self.says_stream => Mode::Stream,
            _ if begins_stream(start) => Mode::Stream,
            _ if start.len() < LONGEST_FIELD && !is_end => Mode::Undecided,
            _ => Mode::Whole,
        }
    }
}

/// A body without the blanks (and the byte-order mark) around it.
fn trim(body: &[u8]) -> &[u8] {
    trim_start(body).trim_ascii_end()
}

fn trim_start(body: &[u8]) -> &[u8] {
    let body = body.trim_ascii_start();
    body.strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(body)
        .trim_ascii_start()
}

fn begins_stream(start: &[u8]) -> bool {
    FIELDS.iter().any(|field| start.starts_with(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a body cut at `cut`: its events' data, whether it is a stream, and its text.
    fn read(
        status: u16,
        content_type: &str,
        body: &[u8],
        cut: usize,
    ) -> (Vec<String>, bool, Vec<u8>) {
        let headers = Headers(vec![("content-type".to_owned(), content_type.to_owned())]);
        let mut events = Vec::new();
        let mut sink = |event: Event| events.push(event.data);
        let mut kept = Body::new(status, &headers);
        kept.feed(&body[..cut], &mut sink);
        kept.feed(&body[cut..], &mut sink);
        kept.finish(&mut sink);
        (events, kept.is_stream(), kept.bytes().to_vec())
    }

    #[test]
    fn what_arrives_decides() {
        let sse = "text/event-stream; charset=utf-8";
        for (status, content_type, body, events, is_stream) in [
            (200, sse, "data: a\n\ndata: b\n\n", &["a", "b"][..], true),
            (200, "application/json", "data: a\n\n", &["a"], true),
            (200, "", ": wait\n\ndata: a\n\n", &["a"], true),
            (200, sse, " \n{\"a\": 1}\n", &[], false),
            (200, "", "\u{feff}{}", &[], false),
            (200, sse, "other: x\ndata: a\n\n", &["a"], true),
            (200, "", "plain", &[], false),
            (200, sse, "", &[], false),
            (500, "", "event: error\ndata: a\n\n", &["a"], false),
            (500, sse, "{}", &[], false),
            (200, "", "error: {}\n\n", &["{}"], true),
            (500, "", "error: {}", &["{}"], false),
            (200, "text/plain", "error: no", &[], false),
        ] {
            for cut in 0..=body.len() {
                let read = read(status, content_type, body.as_bytes(), cut);
                assert_eq!(read.0, events, "{body:?} at {cut}");
                assert_eq!(read.1, is_stream, "{body:?} at {cut}");
                let text = String::from_utf8(read.2).unwrap();
                assert_eq!(text, body.trim_start_matches('\u{feff}').trim());
            }
        }
    }

    #[test]
    fn blanks_and_comments_cost_no_time() {
        let (blanks, head) = (vec![b' '; 1 << 16], Headers::default());
        for (begin, between, end) in [
            ("", " ", "{}"),
            ("", "\n", "data: a\n\n"),
            ("\u{feff}", " ", "{}"),
            ("d", " ", ""),
            ("data: a\n\n", "\n", "data: b\n\n"),
            ("data: a\n\n", ":\n", "data: b\n\n"),
            ("data: a\n\n", ": ", "\n\n"),
            ("data: ", " ", "a\n\n"),
        ] {
            let start = std::time::Instant::now();
            let mut sink = |_: Event| {};
            let mut body = Body::new(200, &head);
            let piece = match between {
                " " => blanks.clone(),
                other => other.repeat(blanks.len() / other.len()).into_bytes(),
            };
            body.feed(begin.as_bytes(), &mut sink);
            for _ in 0..256 {
                body.feed(&piece, &mut sink);
                body.is_complete_json();
            }
            body.feed(end.as_bytes(), &mut sink);
            body.finish(&mut sink);
            // With a loop that looks at everything again it takes minutes.
            let took = start.elapsed();
            assert!(took.as_secs() < 30, "{begin:?} {between:?}: {took:?}");
        }
    }

    #[test]
    fn the_end_of_a_whole_text_is_seen() {
        for (status, body, expected) in [
            (200, "{\"a\": [1]}", true),
            (200, " \n[{}] \n", true),
            (500, "{\"error\": {}}", true),
            (200, "{\"a\": [1]", false),
            (200, "plain {}", false),
            (200, "data: {}\n\n", false),
            (500, "<html>{}", false),
            (200, "", false),
        ] {
            let mut kept = Body::new(status, &Headers::default());
            kept.feed(body.as_bytes(), &mut |_| {});
            assert_eq!(kept.is_complete_json(), expected, "{body}");
        }
    }

    #[test]
    fn little_of_a_long_stream_is_kept() {
        let body = "data: 0123456789\n\n".repeat(1000);
        let (events, _, kept) = read(200, "", body.as_bytes(), 7);
        assert_eq!(events.len(), 1000);
        assert!(kept.len() <= KEPT_OF_STREAM);
    }
}
