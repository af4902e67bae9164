//! The one wasmtime engine of a process: its options, and the clock that bounds guests.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use wasmtime::component::Linker;
use wasmtime::{Config, Engine};

use super::store::Guest;

/// How often a running guest is interrupted to see whether its deadline has passed.
const TICK: Duration = Duration::from_millis(10);

/// Native stack of a guest call. A guest that recurses deeper traps; the fiber that carries
/// it has to be larger than what the guest may use.
const WASM_STACK: usize = 1 << 20;
const FIBER_STACK: usize = 2 << 20;

/// Engine and linker, shared by every plugin of the process.
pub struct Shared {
    /// The engine.
    pub engine: Engine,
    /// WASI (everything denied) and the host's own functions.
    pub linker: Linker<Guest>,
}

/// The options that compiled code depends on. Ahead-of-time code and the cache are only valid
/// for exactly these; wasmtime checks that itself when it loads them.
fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .epoch_interruption(true)
        .concurrency_support(false)
        // A fifth of the compiled code. Backtraces of guests are shown to nobody: what counts of
        // a panic is its text.
        .generate_address_map(false)
        .native_unwind_info(false)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(FIBER_STACK);
    if rustix::process::getrlimit(rustix::process::Resource::Fsize)
        .current
        .is_some()
    {
        // Images of memories would be files in memory, to which the shell's limit goes, too.
        config.memory_init_cow(false);
    }
    config
}

/// The process's engine.
///
/// # Errors
/// When wasmtime refuses the options or can't link WASI: a bug or an unsupported machine.
pub fn shared() -> anyhow::Result<Arc<Shared>> {
    static SHARED: OnceLock<Arc<Shared>> = OnceLock::new();
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

/// An engine that does nothing but compile, for this machine.
///
/// # Errors
/// When wasmtime refuses the options.
pub fn compiling() -> anyhow::Result<Engine> {
    Ok(Engine::new(&config())?)
}

/// An engine that compiles for every machine of this architecture, for code that is shipped:
/// without a target, Cranelift uses all that the building machine's processor has.
///
/// # Errors
/// When wasmtime does not know the architecture.
pub fn portable() -> anyhow::Result<Engine> {
    let mut config = config();
    config.target(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH))?;
    Ok(Engine::new(&config)?)
}

/// Advances the engine's epoch for as long as the engine lives. The thread holds it weakly:
/// a strong handle would keep engine and thread alive forever.
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
