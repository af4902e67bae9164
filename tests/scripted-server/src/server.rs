//! The server: a thread that accepts, and one for each connection.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::answer::{Answer, Response, answer, exhausted};
use crate::deliver::{Pace, close, deliver};
use crate::request::{Asked, Dialect, Head, Recorded, Requests};
use crate::scenario::{Scenario, ScenarioError, Script};
use crate::stop::Stop;

/// The stack of a connection's thread. Tests open hundreds of connections, and none needs a deep stack.
const STACK: usize = 256 * 1024;

/// A running server on loopback. Dropping it closes every connection and ends its threads.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<Script>,
    any_route: bool,
    recorded: Mutex<Vec<Recorded>>,
    recording: AtomicBool,
    record_to: Mutex<Option<PathBuf>>,
    served: AtomicU64,
    started: Instant,
    connections: Mutex<HashMap<u64, Connection>>,
    away: Away,
    stop: Stop,
}

/// Lets the thread of a connection stop the accepting thread from listening for a while.
#[derive(Debug, Default)]
struct Away {
    /// The time of a pause that has not begun.
    wanted: Mutex<Option<Duration>>,
}

impl Away {
    /// Returns when nothing listens any more, or the server ends.
    fn begin(&self, address: SocketAddr, time: Duration, stop: &Stop) {
        *lock(&self.wanted) = Some(time);
        // Wakes the accepting thread. An error means that it no longer listens.
        let _ = TcpStream::connect(address);
        while lock(&self.wanted).is_some() && !stop.wait(Duration::from_millis(2)) {}
    }

    /// Closes the listener if a pause is wanted. Returns the time of the pause.
    fn close(&self, listener: &mut Option<TcpListener>) -> Option<Duration> {
        let mut wanted = lock(&self.wanted);
        let time = (*wanted)?;
        listener.take();
        *wanted = None;
        Some(time)
    }
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    thread: JoinHandle<()>,
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// If the scenario contradicts itself, or no port is free.
    pub fn start(scenario: Scenario) -> Self {
        if let Err(error) = scenario.check() {
            panic!("the scenario can't be played: {error}");
        }
        Self::bind(scenario, 0).unwrap_or_else(|error| panic!("can't listen on 127.0.0.1: {error}"))
    }

    /// Starts a server with a scenario file's text.
    ///
    /// # Errors
    /// As [`Scenario::from_json`].
    ///
    /// # Panics
    /// If no port is free.
    pub fn from_json(text: &str) -> Result<Self, ScenarioError> {
        Ok(Self::start(Scenario::from_json(text)?))
    }

    /// Starts a server on this port of 127.0.0.1; 0 takes a free one.
    ///
    /// # Errors
    /// When the port can't be used.
    pub fn bind(scenario: Scenario, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            any_route: scenario.any_route,
            script: Mutex::new(Script::new(scenario)),
            recorded: Mutex::default(),
            recording: AtomicBool::new(true),
            record_to: Mutex::default(),
            served: AtomicU64::new(0),
            started: Instant::now(),
            connections: Mutex::default(),
            away: Away::default(),
            stop: Stop::default(),
        });
        let accepting = builder(address).spawn({
            let shared = Arc::clone(&shared);
            move || accept(listener, address, &shared)
        })?;
        Ok(Self {
            address,
            shared,
            accepting: Some(accepting),
        })
    }

    /// Whether requests are kept for [`Server::requests`]; a benchmark turns it off.
    #[must_use]
    pub fn recording(self, on: bool) -> Self {
        self.shared.recording.store(on, Ordering::Relaxed);
        self
    }

    /// Writes each request to `N.json` (from 1) in this folder before it is answered.
    ///
    /// # Errors
    /// When the folder can't be made.
    pub fn record_to(self, folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        *lock(&self.shared.record_to) = Some(folder);
        Ok(self)
    }

    /// The base URL for clients: `http://127.0.0.1:PORT/v1`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<Recorded> {
        lock(&self.shared.recorded).clone()
    }

    /// The number of requests so far, also of those that were not kept.
    pub fn served(&self) -> u64 {
        self.shared.served.load(Ordering::Relaxed)
    }

    /// Waits until there were this many requests; false if that takes longer than `limit`.
    pub fn wait_for(&self, requests: u64, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while self.served() < requests {
            if Instant::now() >= end {
                return false;
            }
            thread::sleep(Duration::from_millis(2));
        }
        true
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.set();
        // Wakes the accepting thread. An error means that it no longer listens.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        let open: Vec<Connection> = lock(&self.shared.connections)
            .drain()
            .map(|(_, connection)| connection)
            .collect();
        for connection in &open {
            close(&connection.stream);
        }
        for connection in open {
            let _ = connection.thread.join();
        }
    }
}

/// A thread is named after its server's port, so that a debugger shows which server it belongs to.
fn builder(address: SocketAddr) -> thread::Builder {
    thread::Builder::new()
        .name(format!("scripted-{}", address.port()))
        .stack_size(STACK)
}

fn accept(listener: TcpListener, address: SocketAddr, shared: &Arc<Shared>) {
    let mut listening = Some(listener);
    for number in 0.. {
        let Some(listener) = &listening else {
            // Another process may have taken the port, so this is tried again.
            listening = TcpListener::bind(address).ok();
            if listening.is_none() && shared.stop.wait(Duration::from_millis(10)) {
                return;
            }
            continue;
        };
        let accepted = listener.accept();
        if shared.stop.is_set() {
            return;
        }
        if let Some(time) = shared.away.close(&mut listening) {
            if shared.stop.wait(time) {
                return;
            }
            continue;
        }
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Probably the process has no free descriptors; other connections will be closed.
                thread::sleep(Duration::from_millis(10));
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let Ok(own) = stream.try_clone() else {
            continue;
        };
        // The lock is held until the entry is inserted, because the thread removes it at its end.
        let mut connections = lock(&shared.connections);
        let thread = builder(address).spawn({
            let shared = Arc::clone(shared);
            move || {
                // An error means that the client has gone.
                let _ = serve(own, number, address, &shared);
                lock(&shared.connections).remove(&number);
            }
        });
        if let Ok(thread) = thread {
            connections.insert(number, Connection { stream, thread });
        }
    }
}

fn serve(
    mut stream: TcpStream,
    connection: u64,
    address: SocketAddr,
    shared: &Shared,
) -> io::Result<()> {
    let mut requests = Requests::default();
    loop {
        let head = match requests.next(&mut stream) {
            Ok(Some(head)) => head,
            Ok(None) => break,
            Err(error) => {
                close(&stream);
                return Err(error);
            }
        };
        let keep_alive = head.keep_alive();
        let (answer, pace) = respond(head, requests.body(), connection, shared);
        let keep_alive = keep_alive && pace.away.is_zero();
        if !pace.away.is_zero() {
            shared.away.begin(address, pace.away, &shared.stop);
        }
        match deliver(&mut stream, answer, pace, keep_alive, &shared.stop) {
            Ok(true) => {}
            _ => break,
        }
    }
    close(&stream);
    Ok(())
}

fn respond(head: Head, body: &[u8], connection: u64, shared: &Shared) -> (Answer, Pace) {
    let path = head.path.split('?').next().unwrap_or_default();
    let route = match head.method.as_str() {
        "POST" if shared.any_route => Route::Any,
        "POST" if path.ends_with("/chat/completions") => Route::Reply(Dialect::Chat),
        "POST" if path.ends_with("/v1/messages") => Route::Reply(Dialect::Messages),
        "POST" if path.ends_with("/responses") => Route::Reply(Dialect::Responses),
        "POST" if gemini_method(path).is_some() => Route::Reply(Dialect::Gemini),
        "GET" if path.ends_with("/models") => Route::Models,
        _ => Route::Unknown,
    };
    let of_path = gemini_method(path).map(|(model, stream)| (model.to_owned(), stream));
    let unknown = matches!(route, Route::Unknown).then(|| format!("{} {path}", head.method));
    record(head, body, connection, shared);
    let plain = |status, body| {
        (
            Answer::Response(Response::json(status, &body)),
            Pace::default(),
        )
    };
    let refuse = |status, message: &str| {
        plain(
            status,
            json!({"error": {
                "message": message, "type": "invalid_request_error", "param": null, "code": null,
            }}),
        )
    };
    match route {
        Route::Reply(dialect) => {
            let Some(mut asked) = Asked::read(body, dialect) else {
                return refuse(400, "the body is not a JSON object with `messages`");
            };
            if let (Dialect::Gemini, Some((model, stream))) = (dialect, of_path) {
                asked.model = model;
                asked.stream = stream;
            }
            take_turn(&asked, shared)
        }
        Route::Any => {
            let asked = Asked::read(body, Dialect::Chat).unwrap_or_default();
            take_turn(&asked, shared)
        }
        Route::Models => plain(
            200,
            json!({"object": "list", "data": [{"id": "test", "object": "model", "owned_by": "scripted-server"}]}),
        ),
        Route::Unknown => refuse(
            404,
            &format!("no such route: {}", unknown.unwrap_or_default()),
        ),
    }
}

fn take_turn(asked: &Asked, shared: &Shared) -> (Answer, Pace) {
    // The lock is not held while the answer is built.
    let turn = lock(&shared.script).pick(asked.assistant_messages);
    match turn {
        Some(turn) => (answer(&turn, asked), Pace::of(&turn)),
        None => (exhausted(), Pace::default()),
    }
}

/// The model in the path of a Gemini request, and whether the path asks for a stream.
fn gemini_method(path: &str) -> Option<(&str, bool)> {
    let (model, method) = path.rsplit('/').next()?.split_once(':')?;
    match method {
        "generateContent" => Some((model, false)),
        "streamGenerateContent" => Some((model, true)),
        _ => None,
    }
}

enum Route {
    Any,
    Reply(Dialect),
    Models,
    Unknown,
}

fn record(head: Head, body: &[u8], connection: u64, shared: &Shared) {
    let keep = shared.recording.load(Ordering::Relaxed);
    let folder = lock(&shared.record_to).clone();
    if !keep && folder.is_none() {
        shared.served.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let request = Recorded {
        method: head.method,
        path: head.path,
        headers: head.headers,
        body: body.to_vec(),
        at: shared.started.elapsed(),
        connection,
    };
    // Counted under the lock, so that after `wait_for` that many requests are recorded.
    let mut recorded = lock(&shared.recorded);
    let number = shared.served.fetch_add(1, Ordering::Relaxed) + 1;
    if let Some(folder) = folder {
        let path = folder.join(format!("{number}.json"));
        let text = format!("{:#}\n", request.to_json());
        if let Err(error) = fs::write(&path, text) {
            eprintln!("`{}` can't be written: {error}", path.display());
        }
    }
    if keep {
        recorded.push(request);
    }
}

/// Locks a mutex, also after a panic: no change under these locks can be half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
