//! The process's wasmtime engine: its options, and the clock that bounds guests.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use wasmtime::component::Linker;
use wasmtime::{Config, Engine};

use super::store::Guest;

/// How often a running guest yields, so that its deadline can be checked.
const TICK: Duration = Duration::from_millis(10);

/// Native stack of a guest call. A guest that recurses deeper traps. The stack of the fiber that
/// runs it has to be larger.
const WASM_STACK: usize = 1 << 20;
const FIBER_STACK: usize = 2 << 20;

/// Engine and linker, shared by every plugin of the process.
pub struct Shared {
    /// The engine.
    pub engine: Engine,
    /// WASI (with everything denied) and the host's own functions.
    pub linker: Linker<Guest>,
}

/// The options that compiled code depends on. Ahead-of-time code and the cache are valid for
/// exactly these; wasmtime checks that when it loads code.
fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .epoch_interruption(true)
        .concurrency_support(false)
        // The address map would be a fifth of the compiled code. Only backtraces need it, and the
        // host does not show backtraces of guests: of a panic it uses only the text.
        .generate_address_map(false)
        .native_unwind_info(false)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(FIBER_STACK);
    if rustix::process::getrlimit(rustix::process::Resource::Fsize)
        .current
        .is_some()
    {
        // With copy-on-write, the initial contents of memories are files in memory, to which the
        // shell's limit of file sizes applies.
        config.memory_init_cow(false);
    }
    config
}

/// The process's engine.
///
/// # Errors
/// If wasmtime refuses the options or can't link WASI, which is a bug or an unsupported machine.
pub fn shared() -> anyhow::Result<Arc<Shared>> {
    static SHARED: OnceLock<Arc<Shared>> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    if let Some(shared) = SHARED.get() {
        return Ok(shared.clone());
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(shared) = SHARED.get() {
        return Ok(shared.clone());
    }
    let engine = Engine::new(&config())?;
    let mut linker = Linker::new(&engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    super::store::add_to_linker(&mut linker)?;
    let shared = SHARED.get_or_init(|| {
        tick(&engine);
        Arc::new(Shared { engine, linker })
    });
    Ok(shared.clone())
}

/// An engine that only compiles, for this machine.
///
/// # Errors
/// If wasmtime refuses the options.
pub fn compiling() -> anyhow::Result<Engine> {
    Ok(Engine::new(&config())?)
}

/// An engine that compiles for every machine of this architecture, for code that is shipped:
/// without a target, Cranelift uses all features of the building machine's processor.
///
/// # Errors
/// If wasmtime does not know the architecture.
pub fn portable() -> anyhow::Result<Engine> {
    let mut config = config();
    config.target(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH))?;
    Ok(Engine::new(&config)?)
}

/// Advances the engine's epoch while the engine exists. The thread holds a weak reference: a strong
/// one would keep engine and thread alive forever.
fn tick(engine: &Engine) {
    let weak = engine.weak();
    let spawned = std::thread::Builder::new()
        .name("plugin-clock".into())
        .stack_size(64 << 10)
        .spawn(move || {
            loop {
                std::thread::sleep(TICK);
                match weak.upgrade() {
                    Some(engine) => engine.increment_epoch(),
                    None => return,
                }
            }
        });
    if let Err(error) = spawned {
        tracing::error!(%error, "no thread for the plugin clock: a plugin that loops can't be stopped");
    }
}
