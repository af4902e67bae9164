//! Sends answers: in one write unless the turn asks for pieces or pauses.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::answer::{Answer, End, Response};
use crate::stop::Stop;
use crate::turn::Turn;

/// The delays and pieces of a response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    delay: Duration,
    chunk_bytes: Option<usize>,
    pause: Duration,
    /// How long nothing listens after this response.
    pub(crate) away: Duration,
}

impl Pace {
    pub(crate) fn of(turn: &Turn) -> Self {
        Self {
            delay: Duration::from_millis(turn.delay_ms),
            chunk_bytes: turn.chunk_bytes,
            pause: Duration::from_millis(turn.chunk_delay_ms),
            away: Duration::from_millis(turn.away_ms),
        }
    }

    fn is_even(self) -> bool {
        self.chunk_bytes.is_none() && self.pause.is_zero()
    }
}

/// Sends an answer. Returns whether the connection may be used again.
///
/// # Errors
/// If the client has closed the connection.
pub(crate) fn deliver(
    stream: &mut TcpStream,
    answer: Answer,
    pace: Pace,
    keep_alive: bool,
    stop: &Stop,
) -> io::Result<bool> {
    if !pace.delay.is_zero() && stop.wait(pace.delay) {
        return Ok(false);
    }
    let response = match answer {
        Answer::HangUp => return Ok(false),
        Answer::Silence => return until_closed(stream),
        Answer::Response(response) => response,
    };
    let chunked = !response.events.is_empty() || response.end == End::Endless;
    let keep_alive = keep_alive && response.end == End::Whole;
    let mut out = head(&response, chunked, keep_alive);
    let sent = match response.end {
        End::Whole => response.body.len(),
        End::Cut(length) | End::Stall(length) => length,
        End::Endless => {
            stream.write_all(&out)?;
            return endless(stream, &response, pace, stop);
        }
    };
    if pace.is_even() {
        frame(&mut out, &response.body[..sent], chunked);
    } else {
        stream.write_all(&out)?;
        for (index, piece) in cuts(&response, sent, pace).into_iter().enumerate() {
            if index > 0 && stop.wait(pace.pause) {
                return Ok(false);
            }
            out.clear();
            frame(&mut out, piece, chunked);
            stream.write_all(&out)?;
        }
        out.clear();
    }
    if chunked && response.end == End::Whole {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    stream.write_all(&out)?;
    match response.end {
        End::Stall(_) => until_closed(stream),
        _ => Ok(keep_alive),
    }
}

fn head(response: &Response, chunked: bool, keep_alive: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 + response.body.len());
    let reason = reason(response.status);
    let mut line = |text: &str| {
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    line(&format!("HTTP/1.1 {} {reason}", response.status));
    for (name, value) in &response.headers {
        line(&format!("{name}: {value}"));
    }
    let framed = response.headers.iter().any(|(name, _)| {
        ["content-length", "transfer-encoding"].contains(&name.to_ascii_lowercase().as_str())
    });
    if framed {
        // The turn sets this header itself, perhaps to a wrong value.
    } else if chunked {
        line("transfer-encoding: chunked");
    } else {
        // The length of the whole body, even if less is sent: that shows the client that it was cut.
        line(&format!("content-length: {}", response.body.len()));
    }
    if !keep_alive && response.end == End::Whole {
        line("connection: close");
    }
    line("");
    out
}

/// Appends a piece of the body with its transfer encoding.
fn frame(out: &mut Vec<u8>, piece: &[u8], chunked: bool) {
    // An empty chunk would end the body.
    if !chunked {
        out.extend_from_slice(piece);
    } else if !piece.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
}

/// The pieces of a body: of the size in the turn, else the events of a stream, else the whole body.
fn cuts(response: &Response, sent: usize, pace: Pace) -> Vec<&[u8]> {
    let body = &response.body[..sent];
    if let Some(bytes) = pace.chunk_bytes {
        return body.chunks(bytes.max(1)).collect();
    }
    let mut pieces = Vec::new();
    let mut start = 0;
    let ends = response.events.iter().copied().chain([sent]);
    for end in ends.map(|end| end.min(sent)) {
        if end > start {
            pieces.push(&body[start..end]);
            start = end;
        }
    }
    pieces
}

fn endless(
    stream: &mut TcpStream,
    response: &Response,
    pace: Pace,
    stop: &Stop,
) -> io::Result<bool> {
    let mut out = Vec::new();
    match pace.chunk_bytes {
        Some(bytes) => response
            .body
            .chunks(bytes.max(1))
            .for_each(|piece| frame(&mut out, piece, true)),
        None => frame(&mut out, &response.body, true),
    }
    loop {
        stream.write_all(&out)?;
        if !pace.pause.is_zero() && stop.wait(pace.pause) {
            return Ok(false);
        }
    }
}

fn until_closed(stream: &mut TcpStream) -> io::Result<bool> {
    let mut block = [0; 1024];
    while stream.read(&mut block)? > 0 {}
    Ok(false)
}

/// Closes a connection, also for other handles to it.
pub(crate) fn close(stream: &TcpStream) {
    // An error means that the client has closed the connection before.
    let _ = stream.shutdown(Shutdown::Both);
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        529 => "Overloaded",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_cut_as_asked() {
        let response = Response {
            status: 200,
            headers: Vec::new(),
            body: b"aabbbc".to_vec(),
            events: vec![2, 5, 6],
            end: End::Whole,
        };
        let by = |chunk_bytes| Pace {
            chunk_bytes,
            ..Pace::default()
        };
        let vectors: [(usize, Pace, &[&[u8]]); 5] = [
            (6, by(None), &[b"aa", b"bbb", b"c"]),
            (4, by(None), &[b"aa", b"bb"]),
            (6, by(Some(4)), &[b"aabb", b"bc"]),
            (3, by(Some(1)), &[b"a", b"a", b"b"]),
            (0, by(None), &[]),
        ];
        for (sent, pace, want) in vectors {
            assert_eq!(cuts(&response, sent, pace), want, "{sent} {pace:?}");
        }
    }
}
