//! Compiling a component, bounded in time and memory.
//!
//! A small file can make a compiler work for minutes and use gigabytes, and a compiler can't be
//! interrupted. So it runs in a process of its own, this program with a hidden subcommand, which
//! has limits set by the kernel, can be killed, and frees its memory when it ends.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wasmtime::Engine;

use super::engine;
use super::error::LoadError;
use super::quoted::one_line;
use super::recognise::uncompiled;

/// The hidden subcommand of the program.
pub const SUBCOMMAND: &str = "__compile";

/// The first byte of a successful answer.
const DONE: u8 = b'+';
const FAILED: u8 = b'-';

/// The limits for compiling a component of some size. Ordinary components, also those with an
/// interpreter, need a quarter of that (measured with components written in Rust, C, Go, JavaScript
/// and Python).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    /// Processor time, over all threads.
    seconds: u64,
    bytes: u64,
}

impl Bounds {
    fn of(size: usize) -> Self {
        let size = size as u64;
        Self {
            seconds: 30 + size.div_ceil(200 << 10),
            bytes: (512 << 20) + 64 * size,
        }
    }

    /// The limit of wall-clock time, longer than that of processor time, because the process may
    /// have to wait for the processor.
    fn patience(self) -> Duration {
        Duration::from_secs(60 + 4 * self.seconds)
    }
}

/// The largest component that is compiled in this process if no process can be started. Ordinary
/// plugins without an interpreter have a few hundred thousand bytes.
const UNBOUNDED: usize = 1 << 20;

/// Whether the running program has the subcommand.
static KNOWN: AtomicBool = AtomicBool::new(false);

/// Declares that this process's own program has the subcommand. Without this call, components are
/// compiled in this process, and only their size is bounded.
pub fn in_processes() {
    KNOWN.store(true, Ordering::Relaxed);
}

/// Compiles a component for this machine.
///
/// # Errors
/// [`LoadError`] if it is not a valid component, or compiling it exceeds a limit.
pub(super) async fn compile(
    engine: &Engine,
    label: &str,
    bytes: &[u8],
) -> Result<Vec<u8>, LoadError> {
    if KNOWN.load(Ordering::Relaxed) {
        match apart(label, bytes).await {
            Ok(code) => return Ok(code),
            Err(NotCompiled::Refused(error)) => return Err(error),
            Err(NotCompiled::NoProcess(error)) => may_be_unbounded(label, bytes.len(), &error)?,
        }
    }
    unbounded(engine, label, bytes.to_vec()).await
}

/// Compiles a component in this process, without limits, on a thread of its own, because it takes
/// up to seconds.
///
/// # Errors
/// wasmtime's message if the component is invalid.
pub(super) async fn unbounded(
    engine: &Engine,
    label: &str,
    bytes: Vec<u8>,
) -> Result<Vec<u8>, LoadError> {
    let engine = engine.clone();
    let compiling = tokio::task::spawn_blocking(move || engine.precompile_component(&bytes));
    match compiling.await {
        Ok(compiled) => compiled.map_err(|error| uncompiled(label, &format!("{error:#}"))),
        Err(error) => Err(LoadError::Failed {
            plugin: label.to_owned(),
            detail: format!("the compiler ended without an answer ({error})"),
        }),
    }
}

/// Whether a component of this size is compiled in the host itself, without limits.
fn may_be_unbounded(label: &str, size: usize, error: &io::Error) -> Result<(), LoadError> {
    tracing::debug!(%error, "no process for the compiler");
    match size > UNBOUNDED {
        true => Err(LoadError::Failed {
            plugin: label.to_owned(),
            detail: format!(
                "the process that compiles plugins can't be started ({error}). Without its limits of time and memory, only files up to {} KiB are compiled, and this file has {} KiB: mount `/proc`, and allow another process",
                UNBOUNDED >> 10,
                size.div_ceil(1 << 10),
            ),
        }),
        false => Ok(()),
    }
}

/// Why a process of its own has not compiled a component.
enum NotCompiled {
    /// No process could be started.
    NoProcess(io::Error),
    /// The component can't be compiled, or that exceeds a limit.
    Refused(LoadError),
}

impl From<io::Error> for NotCompiled {
    fn from(error: io::Error) -> Self {
        Self::NoProcess(error)
    }
}

/// Compiles in a process of its own.
async fn apart(label: &str, bytes: &[u8]) -> Result<Vec<u8>, NotCompiled> {
    let bounds = Bounds::of(bytes.len());
    // No pipe: other processes of this user could open that through `/proc`.
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut ours = tokio::net::UnixStream::from_std(ours)?;
    let mut command = tokio::process::Command::new("/proc/self/exe");
    command
        .arg(SUBCOMMAND)
        .args([bounds.seconds, bounds.bytes].map(|bound| bound.to_string()))
        .env_clear()
        // The limit of memory counts what is reserved, unless mimalloc commits it only when it is used.
        .env("MIMALLOC_ARENA_EAGER_COMMIT", "0")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    // The command owns the child's end of the socket.
    drop(command);
    let mut errors = child.stderr.take();
    let talk = async {
        // Writing fails if the process has ended; its exit status has the reason.
        let _ = ours.write_all(bytes).await;
        let _ = ours.shutdown().await;
        let mut answer = Vec::new();
        let _ = ours.read_to_end(&mut answer).await;
        let mut said = Vec::new();
        if let Some(errors) = &mut errors {
            let _ = errors.take(4 << 10).read_to_end(&mut said).await;
        }
        (answer, said, child.wait().await)
    };
    let too_costly = |detail: String| LoadError::TooCostly {
        plugin: label.to_owned(),
        detail,
    };
    let Ok((answer, said, status)) = tokio::time::timeout(bounds.patience(), talk).await else {
        let waited = bounds.patience().as_secs();
        let detail = format!("more than {waited} seconds");
        return Err(NotCompiled::Refused(too_costly(detail)));
    };
    let said = one_line(&String::from_utf8_lossy(&said));
    let compiled = match answer.split_first() {
        Some((&DONE, code)) if status.as_ref().is_ok_and(ExitStatus::success) => Ok(code.to_vec()),
        Some((&FAILED, text)) => {
            let text = String::from_utf8_lossy(text);
            // The process inherits the shell's limit, which may be lower than this one.
            let limited = getrlimit(Resource::As).current.is_some();
            Err(match is_about_memory(&text) && !limited {
                true => too_costly(bounds.memory()),
                false => uncompiled(label, &text),
            })
        }
        _ => {
            let signal = status.as_ref().ok().and_then(ExitStatus::signal);
            let is = |wanted: Signal| signal == Some(wanted.as_raw());
            Err(match () {
                () if is(Signal::XCPU) || is(Signal::KILL) => too_costly(format!(
                    "more than {} seconds of a processor",
                    bounds.seconds
                )),
                () if is_about_memory(&said) => too_costly(bounds.memory()),
                () => LoadError::Failed {
                    plugin: label.to_owned(),
                    detail: format!("the compiler ended without an answer ({status:?}): {said}"),
                },
            })
        }
    };
    compiled.map_err(NotCompiled::Refused)
}

impl Bounds {
    fn memory(self) -> String {
        format!("more than {} MiB of memory", self.bytes >> 20)
    }
}

/// Whether an allocation was refused, by the messages of Rust's and C's libraries.
fn is_about_memory(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    [
        "memory allocation of",
        "cannot allocate memory",
        "out of memory",
    ]
    .iter()
    .any(|words| text.contains(words))
}

/// The body of the subcommand: a component on standard input, which is a socket; the answer goes to
/// the same socket.
///
/// # Errors
/// If standard input is no such socket, or a limit can't be set.
pub fn run(mut args: impl Iterator<Item = OsString>) -> io::Result<()> {
    let mut number = || args.next()?.to_str()?.parse::<u64>().ok();
    let (Some(seconds), Some(bytes)) = (number(), number()) else {
        return Err(io::Error::other("only the host starts this process"));
    };
    // When the process that waits for the result has ended, this one ends too.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let limit = |resource, current, maximum| {
        setrlimit(
            resource,
            Rlimit {
                current: Some(current),
                maximum: Some(maximum),
            },
        )
    };
    limit(Resource::Core, 0, 0)?;
    // The first limit ends the process with a signal that names the reason, the second one kills
    // it.
    limit(Resource::Cpu, seconds, seconds + 5)?;
    limit(Resource::Data, bytes, bytes)?;
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut component = Vec::new();
    socket.read_to_end(&mut component)?;
    let compiled =
        engine::compiling().and_then(|engine| Ok(engine.precompile_component(&component)?));
    match compiled {
        Ok(code) => {
            socket.write_all(&[DONE])?;
            socket.write_all(&code)
        }
        Err(error) => {
            socket.write_all(&[FAILED])?;
            socket.write_all(format!("{error:#}").as_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_grow_with_the_file() {
        let (small, large) = (Bounds::of(200 << 10), Bounds::of(18 << 20));
        assert_eq!(small.seconds, 31);
        assert_eq!(small.bytes >> 20, 524);
        assert_eq!(large.seconds, 30 + 93);
        assert_eq!(large.bytes >> 20, 512 + 64 * 18);
    }

    #[test]
    fn without_a_process_large_files_are_refused() {
        let error = io::Error::from(io::ErrorKind::WouldBlock);
        assert!(may_be_unbounded("p", 1 << 20, &error).is_ok());
        let refused = may_be_unbounded("p", 18 << 20, &error);
        let refused = refused.unwrap_err().to_string();
        for part in ["only files up to 1024 KiB", "this file has 18432 KiB"] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
