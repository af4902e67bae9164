//! A client on a raw socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A connection that also accepts broken responses.
pub struct Client(pub TcpStream);

/// A response, or the part of it that was received.
#[derive(Debug)]
pub struct Got {
    pub status: u16,
    pub head: String,
    /// The received part of the body, without transfer encoding.
    pub body: Vec<u8>,
    /// Whether HTTP says that the body is whole.
    pub whole: bool,
    /// Whether the server has closed the connection.
    pub closed: bool,
}

impl Got {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        Self(stream)
    }

    pub fn send(&mut self, body: &Value) {
        self.send_to("POST /v1/chat/completions", &body.to_string());
    }

    pub fn send_to(&mut self, line: &str, body: &str) {
        write!(
            self.0,
            "{line} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
    }

    pub fn ask(&mut self, body: &Value) -> Got {
        self.send(body);
        self.answer()
    }

    /// Reads one response, or the part of it that comes before the end or the time limit.
    pub fn answer(&mut self) -> Got {
        let mut raw = Vec::new();
        let mut block = vec![0; 1 << 16];
        loop {
            if let Some(got) = parse(&raw).filter(|got| got.whole) {
                return got;
            }
            let (more, closed) = match self.0.read(&mut block) {
                Ok(0) => (0, true),
                Ok(count) => (count, false),
                Err(_) => (0, false),
            };
            raw.extend_from_slice(&block[..more]);
            if more == 0 || raw.len() > 8 << 20 {
                let got = parse(&raw).unwrap_or(Got {
                    status: 0,
                    head: String::new(),
                    body: raw,
                    whole: false,
                    closed,
                });
                return Got { closed, ..got };
            }
        }
    }
}

fn parse(raw: &[u8]) -> Option<Got> {
    let end = raw.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8(raw[..end].to_vec()).unwrap();
    let rest = &raw[end..];
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map(|length| length.parse::<usize>().unwrap());
    let (body, whole) = match length {
        Some(length) => (
            rest[..rest.len().min(length)].to_vec(),
            rest.len() >= length,
        ),
        None => unchunk(rest),
    };
    Some(Got {
        status,
        head,
        body,
        whole,
        closed: false,
    })
}

fn unchunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(line) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&rest[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        rest = &rest[line + 2..];
        if size == 0 {
            return (body, rest == b"\r\n");
        }
        body.extend_from_slice(&rest[..rest.len().min(size)]);
        rest = rest.get(size + 2..).unwrap_or_default();
    }
    (body, false)
}
