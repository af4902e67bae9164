//! A server that reads requests and sends scripted bytes: one connection per entry.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The action on one connection.
pub enum Step {
    /// Read the request, send this, close.
    Say(Vec<u8>),
    /// Read the request, send these with a pause before each, close.
    Slowly(Vec<(u64, &'static str)>),
    /// Read the request, send this head and then zeroes until the client is gone.
    Flood(&'static str),
    /// Close without reading anything.
    Hang,
    /// Run this function.
    Custom(Box<dyn FnOnce(TcpStream) + Send>),
}

pub struct Server {
    pub url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub fn start(steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        thread::spawn(move || {
            for step in steps {
                let (stream, _) = listener.accept().unwrap();
                play(stream, step, &seen);
            }
        });
        Self { url, requests }
    }

    /// Head and body of every request so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

// Writes may fail: some tests close the connection early.
fn play(mut stream: TcpStream, step: Step, seen: &Mutex<Vec<String>>) {
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    match step {
        Step::Hang => return,
        Step::Custom(act) => return act(stream),
        _ => {}
    }
    let request = read_request(&mut stream);
    seen.lock().unwrap().push(request);
    match step {
        Step::Say(bytes) => {
            let _ = stream.write_all(&bytes);
        }
        Step::Slowly(pieces) => {
            for (millis, piece) in pieces {
                thread::sleep(Duration::from_millis(millis));
                let _ = stream.write_all(piece.as_bytes());
            }
        }
        Step::Flood(head) => {
            let _ = stream.write_all(head.as_bytes());
            while stream.write_all(&[b'0'; 4096]).is_ok() {}
        }
        Step::Hang | Step::Custom(_) => unreachable!(),
    }
}

pub fn read_request(stream: &mut impl Read) -> String {
    let mut reader = BufReader::new(stream);
    let mut text = String::new();
    let mut length = 0;
    loop {
        let start = text.len();
        if reader.read_line(&mut text).unwrap_or(0) == 0 {
            return text;
        }
        let line = text[start..].to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    text.push_str(&String::from_utf8(body).unwrap());
    text
}

/// A complete response.
pub fn response(status: u16, headers: &str, body: &str) -> Step {
    Step::Say(
        format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}",
            body.len()
        )
        .into_bytes(),
    )
}

pub fn ok(body: &str) -> Step {
    response(200, "", body)
}
