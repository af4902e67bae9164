//! A proxy in front of a server, which cuts and stalls connections.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Which bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// When connections are cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) direction: Direction,
    /// After how many bytes, of all connections together.
    pub(crate) after: u64,
    /// How many times.
    pub(crate) times: u64,
}

#[derive(Default)]
struct State {
    cut: Mutex<Option<(Cut, u64)>>,
    cuts: AtomicU64,
    /// All connections end now.
    ending: Notify,
    /// Nothing is passed on any more.
    is_stalled: AtomicBool,
    /// New connections are closed at once.
    is_closed: AtomicBool,
    /// New connections are accepted, and nothing more.
    is_silent: AtomicBool,
    /// Answers to input are kept back.
    is_mute: AtomicBool,
}

/// A proxy.
pub(crate) struct Proxy {
    pub(crate) url: String,
    state: Arc<State>,
}

impl Proxy {
    pub(crate) async fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State::default());
        let (shared, server) = (state.clone(), server.to_owned());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if shared.is_closed.load(Ordering::Relaxed) {
                    continue;
                }
                let (shared, server) = (shared.clone(), server.clone());
                tokio::spawn(async move {
                    if shared.is_silent.load(Ordering::Relaxed) {
                        let _held = client;
                        return std::future::pending().await;
                    }
                    let server = TcpStream::connect(server).await.unwrap();
                    let _ = (client.set_nodelay(true), server.set_nodelay(true));
                    // A connection that stalls stays so.
                    let ended = shared.ending.notified();
                    let posts = AtomicBool::new(false);
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    tokio::select! {
                        () = ended => {}
                        () = pass(&shared, from_client, to_server, (Direction::ToServer, &posts)) => {}
                        () = pass(&shared, from_server, to_client, (Direction::ToClient, &posts)) => {}
                    }
                });
            }
        });
        Self { url, state }
    }

    pub(crate) fn cut(&self, cut: Cut) {
        self.state.cuts.store(0, Ordering::Relaxed);
        *self.state.cut.lock().unwrap() = Some((cut, cut.after));
    }

    /// How many times connections were cut since the last [`Self::cut`].
    pub(crate) fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::Relaxed)
    }

    /// Existing connections pass on nothing any more, and are not closed; new ones work.
    pub(crate) fn stall(&self) {
        self.state.is_stalled.store(true, Ordering::Relaxed);
    }

    /// Answers to input do not come any more.
    pub(crate) fn mute(&self) {
        self.state.is_mute.store(true, Ordering::Relaxed);
    }

    /// Ends all connections; new ones are not answered.
    pub(crate) fn silence(&self) {
        self.state.is_silent.store(true, Ordering::Relaxed);
        self.state.ending.notify_waiters();
    }

    /// Ends all connections, and allows no new ones.
    pub(crate) fn close(&self, is_closed: bool) {
        self.state.is_closed.store(is_closed, Ordering::Relaxed);
        self.state.ending.notify_waiters();
    }
}

async fn pass(
    state: &State,
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    (direction, posts): (Direction, &AtomicBool),
) {
    let was_stalled = state.is_stalled.load(Ordering::Relaxed);
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if !was_stalled && state.is_stalled.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if direction == Direction::ToServer {
            posts.store(buffer.starts_with(b"POST"), Ordering::Relaxed);
        } else if posts.load(Ordering::Relaxed) && state.is_mute.load(Ordering::Relaxed) {
            continue;
        }
        let mut allowed = count;
        let mut is_cut = false;
        if let Some((cut, left)) = &mut *state.cut.lock().unwrap()
            && cut.direction == direction
            && cut.times > 0
        {
            is_cut = *left < count as u64;
            allowed = allowed.min(*left as usize);
            *left -= allowed as u64;
            if is_cut {
                cut.times -= 1;
                *left = cut.after;
                state.cuts.fetch_add(1, Ordering::Relaxed);
            }
        }
        let written = to.write_all(&buffer[..allowed]).await;
        if is_cut {
            state.ending.notify_waiters();
        }
        if is_cut || written.is_err() {
            return;
        }
    }
}
