//! The functions that a guest can call: WASI with everything denied or fixed, its captured output,
//! and the host's own functions.

use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use mswea_text::harmless;
use tokio::io::AsyncWrite;
use wasmtime::component::{HasSelf, Linker, ResourceTable};
use wasmtime::{Engine, Store};
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::random::Deterministic;
use wasmtime_wasi::{FsPerms, HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxView, WasiView};

use super::bindings::base::mswea::plugin::host::{Host, Level};
use super::bindings::types::PluginError;
use super::limits::{Meter, PluginLimits};

/// Renders templates for guests; the run implements it with its own variables.
#[async_trait::async_trait]
pub trait Renderer: Send + Sync {
    /// Renders `template` with `vars` laid over the run's variables. Dropping the future ends the
    /// rendering.
    ///
    /// # Errors
    /// A message with line and column.
    async fn render(&self, template: &str, vars: mswea_core::Object) -> Result<String, String>;
}

/// How many bytes of a guest's last output are kept as the reason of a trap.
const TAIL: usize = 4 << 10;

/// After how many ticks of the engine's clock a running guest yields.
pub const TICKS: u64 = 1;

/// The time that guests see: always 2000-01-01 00:00:00 UTC. A plugin's answer must not depend on
/// the time.
const FROZEN: Duration = Duration::from_secs(946_684_800);

/// The state of one store.
pub struct Guest {
    wasi: WasiCtx,
    table: ResourceTable,
    /// The counters of memory and tables.
    pub meter: Meter,
    /// The text that the guest has written.
    pub console: Console,
    /// Whether a template that the guest asked to render in this call failed.
    pub render_failed: bool,
    name: Arc<str>,
    renderer: Option<Arc<dyn Renderer>>,
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

struct FrozenClock;

impl HostWallClock for FrozenClock {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }
    fn now(&self) -> Duration {
        FROZEN
    }
}

impl HostMonotonicClock for FrozenClock {
    fn resolution(&self) -> u64 {
        1
    }
    // Not 0: Go's runtime ends if the clock returns 0.
    fn now(&self) -> u64 {
        1_000_000_000
    }
}

/// A guest's output to standard output, standard error and the log during one call.
#[derive(Clone)]
pub struct Console(Arc<Mutex<Written>>);

struct Written {
    name: Arc<str>,
    tail: Vec<u8>,
    line: Vec<u8>,
    budget: usize,
    left: usize,
    dropped: usize,
}

impl Console {
    fn new(name: Arc<str>, budget: usize) -> Self {
        Self(Arc::new(Mutex::new(Written {
            name,
            tail: Vec::new(),
            line: Vec::new(),
            budget,
            left: budget,
            dropped: 0,
        })))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call, with a new budget.
    pub fn begin(&self) {
        let mut written = self.lock();
        written.left = written.budget;
        written.tail.clear();
    }

    /// Ends a call, and logs once how much output was dropped.
    pub fn end(&self) {
        let mut written = self.lock();
        written.flush_line();
        if written.dropped > 0 {
            tracing::warn!(
                plugin = &*written.name,
                "{} bytes of log were dropped: the plugin wrote more than `log_kb` in one call",
                written.dropped
            );
            written.dropped = 0;
        }
    }

    /// The end of this call's output to standard output and error.
    pub fn tail(&self) -> String {
        String::from_utf8_lossy(&self.lock().tail).trim().to_owned()
    }

    fn write(&self, bytes: &[u8]) {
        let mut written = self.lock();
        // The end of the output is kept, also after the limit, so that the message of a panic after
        // much output is kept.
        let keep = &bytes[bytes.len().saturating_sub(TAIL)..];
        let surplus = (written.tail.len() + keep.len()).saturating_sub(TAIL);
        let surplus = surplus.min(written.tail.len());
        written.tail.drain(..surplus);
        written.tail.extend_from_slice(keep);

        let fits = bytes.len().min(written.left);
        written.left -= fits;
        written.dropped += bytes.len() - fits;
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        for &byte in &bytes[..fits] {
            if byte == b'\n' {
                written.flush_line();
            } else {
                written.line.push(byte);
            }
        }
    }

    /// Takes `len` bytes from the log budget; false if fewer are left.
    fn grant(&self, len: usize) -> bool {
        let mut written = self.lock();
        let fits = len <= written.left;
        if fits {
            written.left -= len;
        } else {
            written.dropped += len;
        }
        fits
    }
}

impl Written {
    fn flush_line(&mut self) {
        if !self.line.is_empty() {
            let line = harmless(&String::from_utf8_lossy(&self.line));
            tracing::debug!(plugin = &*self.name, "{line}");
            self.line.clear();
        }
    }
}

impl IsTerminal for Console {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Console {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn wasmtime_wasi::p2::OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait::async_trait]
impl wasmtime_wasi::p2::Pollable for Console {
    async fn ready(&mut self) {}
}

#[async_trait::async_trait]
impl wasmtime_wasi::p2::OutputStream for Console {
    fn write(&mut self, bytes: bytes::Bytes) -> wasmtime_wasi::p2::StreamResult<()> {
        Console::write(self, &bytes);
        Ok(())
    }
    fn flush(&mut self) -> wasmtime_wasi::p2::StreamResult<()> {
        Ok(())
    }
    fn check_write(&mut self) -> wasmtime_wasi::p2::StreamResult<usize> {
        Ok(64 << 10)
    }
}

impl AsyncWrite for Console {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut TaskContext<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Console::write(&self, bytes);
        Poll::Ready(Ok(bytes.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl super::bindings::types::Host for Guest {}

impl Host for Guest {
    fn log(&mut self, level: Level, text: String) {
        if !self.console.grant(text.len()) {
            return;
        }
        let plugin = &*self.name;
        let text = harmless(text.trim_end());
        match level {
            Level::Trace => tracing::trace!(plugin, "{text}"),
            Level::Debug => tracing::debug!(plugin, "{text}"),
            Level::Info => tracing::info!(plugin, "{text}"),
            Level::Warn => tracing::warn!(plugin, "{text}"),
            Level::Error => tracing::error!(plugin, "{text}"),
        }
    }

    async fn render(&mut self, template: String, vars: String) -> Result<String, PluginError> {
        let error = |code: &str, message: String| PluginError {
            code: code.to_owned(),
            message,
            extra: None,
        };
        let vars = match serde_json::from_str(&vars) {
            Ok(serde_json::Value::Object(vars)) => vars,
            Ok(_) => return Err(error("invalid-input", "`vars` is not a JSON object".into())),
            Err(reason) => {
                return Err(error(
                    "invalid-input",
                    format!("`vars` is not JSON: {reason}"),
                ));
            }
        };
        match &self.renderer {
            Some(renderer) => renderer.render(&template, vars).await.map_err(|message| {
                self.render_failed = true;
                error("template", message)
            }),
            None => Err(error(
                "unsupported",
                "templates can be rendered only during a run".into(),
            )),
        }
    }
}

/// Adds the host's functions.
pub fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    super::bindings::base::mswea::plugin::host::add_to_linker::<_, HasSelf<_>>(linker, |guest| {
        guest
    })
}

/// A store for one instance of a plugin, which may read the folder `lent`.
pub fn new(
    engine: &Engine,
    name: &Arc<str>,
    limits: &PluginLimits,
    seed: u64,
    renderer: Option<Arc<dyn Renderer>>,
    lent: Option<&Path>,
) -> Store<Guest> {
    let console = Console::new(name.clone(), limits.log);
    let mut random = fastrand::Rng::with_seed(seed);
    let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
        .take(1024)
        .collect();
    let mut wasi = WasiCtx::builder();
    wasi.stdout(console.clone())
        .stderr(console.clone())
        .secure_random(Deterministic::new(bytes.clone()))
        .insecure_random(Deterministic::new(bytes))
        .insecure_random_seed(u128::from(seed))
        .max_random_size(64 << 10)
        .wall_clock(FrozenClock)
        .monotonic_clock(FrozenClock)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    if let Some(folder) = lent
        && let Err(error) = wasi.preopened_dir(folder, "/plugin", FsPerms::ReadOnly)
    {
        tracing::warn!(%error, folder = %folder.display(), "the plugin can't get access to the folder");
    }
    let wasi = wasi.build();
    let mut table = ResourceTable::new();
    table.set_max_capacity(1024);
    let mut store = Store::new(
        engine,
        Guest {
            wasi,
            table,
            meter: Meter::new(limits.memory),
            console,
            render_failed: false,
            name: name.clone(),
            renderer,
        },
    );
    store.limiter(|guest| &mut guest.meter);
    store.set_hostcall_fuel(limits.output);
    // The guest yields at every tick, so that the timeout around each call can expire.
    store.set_epoch_deadline(TICKS);
    store.epoch_deadline_async_yield_and_update(TICKS);
    store
}
