//! A report of what the plugin can see of its surroundings. The host should deny everything.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher as _;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// The report: the result of each attempt.
pub fn look() -> Value {
    let before = Instant::now();
    for _ in 0..100_000 {
        std::hint::black_box(before);
    }
    let mut stdin = Vec::new();
    let read = std::io::stdin().read_to_end(&mut stdin);
    json!({
        "seconds": SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        "elapsed_ns": before.elapsed().as_nanos() as u64,
        "random": RandomState::new().hash_one("x").to_string(),
        "variables": std::env::vars_os().count(),
        "arguments": std::env::args_os().count(),
        "stdin": outcome(read.map(|count| count.to_string())),
        "list": outcome(fs::read_dir("/").map(|entries| entries.count().to_string())),
        "list_here": outcome(fs::read_dir(".").map(|entries| entries.count().to_string())),
        "read": outcome(fs::read_to_string("/etc/passwd")),
        "write": outcome(fs::write("/tmp/hostile", "x").map(|()| "written".to_owned())),
        "temporary": outcome(fs::write("hostile", "x").map(|()| "written".to_owned())),
        "tcp": outcome(TcpStream::connect("127.0.0.1:22").map(|_| "connected".to_owned())),
        "listen": outcome(TcpListener::bind("127.0.0.1:0").map(|_| "listening".to_owned())),
        "udp": outcome(UdpSocket::bind("127.0.0.1:0").map(|_| "bound".to_owned())),
        "names": outcome(("localhost", 80).to_socket_addrs().map(|found| found.count().to_string())),
    })
}

fn outcome(result: std::io::Result<String>) -> String {
    result.unwrap_or_else(|_| "denied".to_owned())
}
