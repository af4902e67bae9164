//! `_connect`: a network client that reads commands from its input, one a line, and prints a prompt
//! when it is ready for the next one. The host keeps the client open between the calls of the tools
//! `connect_*`.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use crate::answer::{ToolRefusal, ToolResult};
use crate::call::ToolInput;

const PROMPT: &str = "(nc) ";

/// The time limit for a server to accept a connection, and to send the first byte of an answer.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The longest pause of a server within an answer.
const PAUSE: Duration = Duration::from_millis(300);

/// The largest answer, in bytes.
const LONGEST: usize = 1 << 20;

const HELP: &str = "\
connect HOST PORT  opens a connection, and shows what the server sends
sendline TEXT      sends a line, and shows the answer; \\xHH is a byte, \\n a line break, \\\\ a backslash
send TEXT          the same without a line end
recv               shows what the server sends
close              closes the connection
quit               ends this program";

/// Runs the client until its input ends.
pub fn client(input: &ToolInput) -> ToolResult {
    if !input.words().is_empty() {
        let text = "Usage: _connect\nIts commands come from its input.";
        return Err(ToolRefusal::new(2, text));
    }
    let mut server = None;
    let mut lines = io::stdin().lock();
    loop {
        if !say(PROMPT) {
            return Ok(Vec::new());
        }
        let mut line = Vec::new();
        match lines.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return Ok(Vec::new()),
            Ok(_) => {}
        }
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let space = line.iter().position(|byte| *byte == b' ');
        let (word, rest) = match space {
            Some(space) => (&line[..space], &line[space + 1..]),
            None => (line, &b""[..]),
        };
        if word == b"quit" {
            return Ok(Vec::new());
        }
        let answer = answer(&mut server, word, rest).unwrap_or_else(|error| error);
        if !answer.is_empty() && !say(&format!("{answer}\n")) {
            return Ok(Vec::new());
        }
    }
}

/// Prints the text; returns false if nobody reads the output.
fn say(text: &str) -> bool {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes());
    written.and_then(|()| out.flush()).is_ok()
}

/// Runs a command; returns the text to print.
fn answer(server: &mut Option<TcpStream>, word: &[u8], rest: &[u8]) -> Result<String, String> {
    let text = match word {
        b"" => return Ok(String::new()),
        b"help" | b"?" => return Ok(HELP.to_owned()),
        b"connect" => {
            *server = None;
            *server = Some(connected(&String::from_utf8_lossy(rest))?);
            Vec::new()
        }
        b"recv" => Vec::new(),
        b"send" => plain(rest)?,
        b"sendline" => [&plain(rest)?[..], b"\n"].concat(),
        b"close" => {
            let text = match server.take() {
                Some(_) => "The connection is closed.",
                None => "There is no connection.",
            };
            return Ok(text.to_owned());
        }
        other => {
            let other = String::from_utf8_lossy(other);
            return Err(format!(
                "There is no command {other}. The commands are:\n{HELP}"
            ));
        }
    };
    let Some(open) = server else {
        return Err("There is no connection: `connect HOST PORT` opens one.".to_owned());
    };
    let sent = open.write_all(&text);
    let (mut said, is_over) = match sent {
        Ok(()) => received(open),
        Err(error) => (error.to_string(), true),
    };
    if is_over {
        *server = None;
        said.push_str("\n[the server has closed the connection]");
    }
    Ok(said.trim_matches('\n').to_owned())
}

fn connected(words: &str) -> Result<TcpStream, String> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let usage = "Usage: connect HOST PORT".to_owned();
    let [host, port] = words[..] else {
        return Err(usage);
    };
    let Ok(port) = port.parse::<u16>() else {
        return Err(format!(
            "{usage}\n{port} is no port: write a number up to 65535."
        ));
    };
    let failed = |error: io::Error| format!("{host} port {port} can't be reached: {error}");
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs().map_err(failed)? {
        match TcpStream::connect_timeout(&address, TIME_LIMIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

/// The data that the server sends until it pauses, and whether it has closed the connection.
fn received(server: &mut TcpStream) -> (String, bool) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let begin = Instant::now();
    let mut wait = TIME_LIMIT;
    let is_over = loop {
        let left = TIME_LIMIT.saturating_sub(begin.elapsed()).min(wait);
        if left.is_zero() || bytes.len() >= LONGEST {
            break false;
        }
        if server.set_read_timeout(Some(left)).is_err() {
            break true;
        }
        match server.read(&mut buffer) {
            Ok(0) => break true,
            Ok(count) => {
                bytes.extend_from_slice(&buffer[..count]);
                wait = PAUSE;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let is_late = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
                break !is_late.contains(&error.kind());
            }
        }
    };
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    // A prompt in the server's data would be taken for the end of its answer.
    (text.replace(PROMPT, "(nc)\\x20"), is_over)
}

/// The bytes that a text with backslash escapes stands for, as in C or Python.
fn plain(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, more @ ..] = rest {
        rest = more;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (byte, length) = match more {
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b't', ..] => (b'\t', 1),
            [b'0', ..] => (0, 1),
            [b'a', ..] => (7, 1),
            [b'b', ..] => (8, 1),
            [quoted @ (b'\\' | b'"' | b'\''), ..] => (*quoted, 1),
            [b'x', digits @ ..] => {
                let digits = digits
                    .get(..2)
                    .and_then(|digits| std::str::from_utf8(digits).ok());
                let digits = digits.filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()));
                let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                let wrong = "Nothing was sent: behind \\x must be two hexadecimal digits.";
                (byte.ok_or(wrong)?, 3)
            }
            _ => (b'\\', 0),
        };
        bytes.push(byte);
        rest = &more[length..];
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn bytes_are_written_with_backslashes() {
        for (text, expected) in [
            ("plain \u{e9}", Ok("plain \u{e9}".as_bytes())),
            (r"\x41\xfF\x00z", Ok(b"A\xff\0z")),
            (r#"a\n\r\t\0\\\"\'"#, Ok(b"a\n\r\t\0\\\"'")),
            (r"\q\", Ok(br"\q\")),
            (r"\x4", Err(())),
            (r"\x+1", Err(())),
        ] {
            let read = plain(text.as_bytes()).map_err(|_| ());
            assert_eq!(read.as_deref().map_err(|_| ()), expected, "{text}");
        }
    }
}
