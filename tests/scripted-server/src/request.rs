//! Requests: reads them from a connection, finds the fields that decide the form of the answer, and
//! defines the record that is kept of a request.

use std::io::{self, Read, Write};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

/// A request as it came in.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// `POST`, `GET`, ...
    pub method: String,
    /// The request target.
    pub path: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, without transfer encoding.
    pub body: Vec<u8>,
    /// The time from the server's start until the request was complete.
    pub at: Duration,
    /// The number of its connection, from 0.
    pub connection: u64,
}

impl Recorded {
    /// The body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The first header of this name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The whole request as one JSON object, as the program records it.
    pub(crate) fn to_json(&self) -> Value {
        let body = serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&self.body).into_owned()));
        json!({
            "method": self.method,
            "path": self.path,
            "headers": self.headers,
            "at_seconds": self.at.as_secs_f64(),
            "connection": self.connection,
            "body": body,
        })
    }
}

/// The fields of a request that decide the form of the answer. The other fields are skipped and not
/// built, because the bodies of long histories are large.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) dialect: Dialect,
    pub(crate) assistant_messages: usize,
}

/// The API of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// OpenAI's chat completions.
    #[default]
    Chat,
    /// Anthropic's messages.
    Messages,
    /// OpenAI's Responses.
    Responses,
    /// Gemini's `generateContent`.
    Gemini,
}

impl Asked {
    /// Reads a body; none if it is not a request for a reply.
    pub(crate) fn read(body: &[u8], dialect: Dialect) -> Option<Self> {
        #[derive(Deserialize)]
        struct Body {
            #[serde(default)]
            model: String,
            #[serde(default)]
            stream: Option<bool>,
            #[serde(default)]
            stream_options: Option<StreamOptions>,
            #[serde(alias = "input", alias = "contents")]
            messages: Vec<Message>,
        }
        #[derive(Deserialize)]
        struct StreamOptions {
            #[serde(default)]
            include_usage: bool,
        }
        #[derive(Deserialize)]
        struct Message {
            role: Option<Role>,
            /// Items of Responses have types, and no role if they are calls or reasoning.
            #[serde(rename = "type", default)]
            kind: Option<Kind>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Kind {
            FunctionCall,
            Reasoning,
            #[serde(other)]
            Other,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Role {
            #[serde(alias = "model")]
            Assistant,
            #[serde(other)]
            Other,
        }
        let body: Body = serde_json::from_slice(body).ok()?;
        let is_one = |message: &Message| match (&message.role, &message.kind) {
            (Some(role), _) => Some(matches!(role, Role::Assistant)),
            (None, Some(Kind::FunctionCall | Kind::Reasoning)) => Some(true),
            (None, Some(Kind::Other)) => Some(false),
            (None, None) => None,
        };
        let replies: Vec<bool> = body.messages.iter().map(is_one).collect::<Option<_>>()?;
        let mut count = 0;
        for (index, is_reply) in replies.iter().enumerate() {
            // Several items in a row are one reply.
            let goes_on = dialect == Dialect::Responses && index > 0 && replies[index - 1];
            count += usize::from(*is_reply && !goes_on);
        }
        Some(Self {
            model: body.model,
            stream: body.stream.unwrap_or(false),
            dialect,
            include_usage: body
                .stream_options
                .is_some_and(|options| options.include_usage),
            assistant_messages: count,
        })
    }
}

/// A request's first lines.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    keep_alive_by_default: bool,
}

impl Head {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let (method, path, version) = (first.next()?, first.next()?, first.next()?);
        let headers = lines
            .filter(|line| !line.is_empty())
            .map(|line| {
                let (name, value) = line.split_once(':')?;
                Some((name.to_ascii_lowercase(), value.trim().to_owned()))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Self {
            method: method.to_owned(),
            path: path.to_owned(),
            headers,
            keep_alive_by_default: version == "HTTP/1.1",
        })
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.header(name)
            .is_some_and(|got| got.eq_ignore_ascii_case(value))
    }

    /// Whether the client wants the connection for another request.
    pub(crate) fn keep_alive(&self) -> bool {
        if self.keep_alive_by_default {
            !self.is("connection", "close")
        } else {
            self.is("connection", "keep-alive")
        }
    }
}

/// Reads requests from one connection. The buffer is reused, so that large bodies need no allocation once
/// it has grown.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    buffer: Vec<u8>,
    /// The current body in the buffer.
    body: std::ops::Range<usize>,
    /// The start of the next request in the buffer.
    next: usize,
}

const HEAD_LIMIT: usize = 1 << 20;

impl Requests {
    /// Reads the next request to its end, and returns its head; none at the end of the connection.
    pub(crate) fn next(&mut self, stream: &mut (impl Read + Write)) -> io::Result<Option<Head>> {
        self.buffer.drain(..self.next);
        self.next = 0;
        let Some(end) = self.until(stream, 0, b"\r\n\r\n", HEAD_LIMIT)? else {
            return Ok(None);
        };
        let head = Head::parse(&self.buffer[..end - 2]).ok_or_else(broken)?;
        if head.is("expect", "100-continue") {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        if head.is("transfer-encoding", "chunked") {
            self.chunks(stream, end)?;
        } else {
            let length = match head.header("content-length") {
                Some(length) => length.parse().map_err(|_| broken())?,
                None => 0,
            };
            self.at_least(stream, end + length)?;
            self.body = end..end + length;
            self.next = end + length;
        }
        Ok(Some(head))
    }

    /// The current request's body.
    pub(crate) fn body(&self) -> &[u8] {
        &self.buffer[self.body.clone()]
    }

    /// Reads until `mark` is found at or after `start`. Returns the end of `mark`.
    fn until(
        &mut self,
        stream: &mut impl Read,
        start: usize,
        mark: &[u8],
        limit: usize,
    ) -> io::Result<Option<usize>> {
        let mut seen = start;
        loop {
            if let Some(found) = self.buffer[seen..]
                .windows(mark.len())
                .position(|window| window == mark)
            {
                return Ok(Some(seen + found + mark.len()));
            }
            seen = self.buffer.len().saturating_sub(mark.len() - 1).max(start);
            if self.buffer.len() - start > limit {
                return Err(broken());
            }
            let mut block = [0; 16 * 1024];
            match stream.read(&mut block)? {
                0 if self.buffer.is_empty() => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.buffer.extend_from_slice(&block[..count]),
            }
        }
    }

    fn at_least(&mut self, stream: &mut impl Read, length: usize) -> io::Result<()> {
        let missing = length.saturating_sub(self.buffer.len());
        if missing == 0 {
            return Ok(());
        }
        self.buffer.reserve(missing);
        let got = stream
            .by_ref()
            .take(missing as u64)
            .read_to_end(&mut self.buffer)?;
        if got < missing {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Reads a chunked body, and joins its chunks in the buffer.
    fn chunks(&mut self, stream: &mut impl Read, start: usize) -> io::Result<()> {
        let (mut read, mut write) = (start, start);
        loop {
            let line_end = self
                .until(stream, read, b"\r\n", 1024)?
                .ok_or_else(broken)?;
            let line =
                std::str::from_utf8(&self.buffer[read..line_end - 2]).map_err(|_| broken())?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16).map_err(|_| broken())?;
            if size == 0 {
                // After the last chunk come trailers, if any, and an empty line.
                let mut end = line_end;
                loop {
                    let line = end;
                    end = self
                        .until(stream, line, b"\r\n", HEAD_LIMIT)?
                        .ok_or_else(broken)?;
                    if end - line == 2 {
                        break;
                    }
                }
                self.body = start..write;
                self.next = end;
                return Ok(());
            }
            self.at_least(stream, line_end + size + 2)?;
            self.buffer.copy_within(line_end..line_end + size, write);
            write += size;
            read = line_end + size + 2;
        }
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not an HTTP/1.1 request")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out its bytes in blocks of the given size.
    struct Slow<'a>(&'a [u8], usize, Vec<u8>);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(out.len()).min(self.0.len());
            out[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    impl Write for Slow<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.2.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn requests_are_read_however_they_are_cut() {
        let text = b"POST /a HTTP/1.1\r\nContent-Length: 3\r\nX-Y:  z \r\n\r\nabc\
            POST /b HTTP/1.1\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n\
            4\r\nwxyz\r\n2;q=1\r\n12\r\n0\r\nt: u\r\n\r\n\
            GET /c HTTP/1.0\r\n\r\n";
        for block in [1, 2, 3, 7, 50, 1000] {
            let mut stream = Slow(text, block, Vec::new());
            let mut requests = Requests::default();
            let mut got = Vec::new();
            while let Some(head) = requests.next(&mut stream).unwrap() {
                let body = String::from_utf8(requests.body().to_vec()).unwrap();
                got.push((
                    head.method.clone(),
                    head.path.clone(),
                    body,
                    head.keep_alive(),
                ));
                if head.path == "/a" {
                    assert_eq!(head.header("x-y"), Some("z"));
                }
            }
            let want = [
                ("POST", "/a", "abc", true),
                ("POST", "/b", "wxyz12", true),
                ("GET", "/c", "", false),
            ]
            .map(|(method, path, body, keep)| {
                (method.to_owned(), path.to_owned(), body.to_owned(), keep)
            });
            assert_eq!(got, want, "blocks of {block}");
            assert_eq!(stream.2, b"HTTP/1.1 100 Continue\r\n\r\n");
        }
    }

    #[test]
    fn bytes_that_are_not_a_request_are_an_error() {
        for text in [
            "\r\n\r\n",
            "hello\r\n\r\n",
            "POST / HTTP/1.1\r\nno colon\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            "POST / HTT",
        ] {
            let mut stream = Slow(text.as_bytes(), 5, Vec::new());
            assert!(Requests::default().next(&mut stream).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_form_of_the_answer_is_found() {
        let asked = Asked::read(
            br#"{"model": "m", "stream": true, "stream_options": {"include_usage": true}, "x": [],
                "messages": [{"role": "system", "content": "s"}, {"content": null, "role": "assistant"},
                             {"role": "tool", "content": [{"type": "text"}]}, {"role": "assistant"}]}"#,
            Dialect::Chat,
        )
        .unwrap();
        assert_eq!(
            (
                asked.model.as_str(),
                asked.stream,
                asked.include_usage,
                asked.assistant_messages
            ),
            ("m", true, true, 2)
        );
        for (dialect, body) in [
            (
                Dialect::Responses,
                r#"{"input": [{"role": "user"}, {"type": "reasoning"}, {"type": "message", "role": "assistant"},
                    {"type": "function_call"}, {"type": "function_call_output"}, {"type": "function_call"}]}"#,
            ),
            (
                Dialect::Gemini,
                r#"{"contents": [{"role": "user"}, {"role": "model"}, {"role": "user"}, {"role": "model"}]}"#,
            ),
        ] {
            let asked = Asked::read(body.as_bytes(), dialect).unwrap();
            assert_eq!(asked.assistant_messages, 2, "{dialect:?}");
        }
        let asked = Asked::read(br#"{"messages": [], "stream": null}"#, Dialect::Chat).unwrap();
        assert!(!asked.stream && !asked.include_usage);
        for body in [
            "",
            "x",
            "[]",
            "{}",
            r#"{"messages": 1}"#,
            r#"{"messages": [{}]}"#,
        ] {
            assert!(
                Asked::read(body.as_bytes(), Dialect::Chat).is_none(),
                "{body}"
            );
        }
    }
}
