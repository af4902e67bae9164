//! Compiling a component, bounded in time and memory.
//!
//! A small file can make a compiler work for minutes and take gigabytes, and nothing stops a
//! compiler half-way. So a process of its own does it, this program again with a hidden subcommand;
//! it has limits of the kernel's, and it can be killed. Its memory is gone with it.

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
use super::recognise::{one_line, uncompiled};

/// The hidden subcommand of the program.
pub const SUBCOMMAND: &str = "__compile";

/// The first byte of an answer.
const DONE: u8 = b'+';
const FAILED: u8 = b'-';

/// What may be used for a component of a size. Honest ones of any language, interpreters among
/// them, need a quarter of that (measured with Rust's, C's, Go's, JavaScript's and Python's).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    /// Of the processor, over all threads.
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

    /// For when the process gets no processor: then it is not its fault.
    fn patience(self) -> Duration {
        Duration::from_secs(60 + 4 * self.seconds)
    }
}

/// What is compiled without a process of its own, if there can't be one: bytes, of which a few hundred
/// thousand are what honest plugins without an interpreter have.
const UNBOUNDED: usize = 1 << 20;

/// Whether this process is a program that knows the subcommand.
static KNOWN: AtomicBool = AtomicBool::new(false);

/// Says that this process's own program knows the subcommand; without, components are compiled in
/// this process, and the only bound is their size.
pub fn in_processes() {
    KNOWN.store(true, Ordering::Relaxed);
}

/// Compiles a component for this machine.
///
/// # Errors
/// When it is none, or takes too much.
pub(super) async fn compile(
    engine: &Engine,
    label: &str,
    bytes: &[u8],
) -> Result<Vec<u8>, LoadError> {
    if KNOWN.load(Ordering::Relaxed) {
        match apart(label, bytes).await {
            Ok(done) => return done,
            Err(error) => unbounded(label, bytes.len(), &error)?,
        }
    }
    engine
        .precompile_component(bytes)
        .map_err(|error| uncompiled(label, &format!("{error:#}")))
}

/// Whether a component of this size is compiled in the host itself, where nothing bounds it.
fn unbounded(label: &str, size: usize, error: &io::Error) -> Result<(), LoadError> {
    tracing::debug!(%error, "no process for the compiler");
    match size > UNBOUNDED {
        true => Err(LoadError::Failed {
            plugin: label.to_owned(),
            detail: format!(
                "the process that compiles it can't be started ({error}), and without one, which has limits of time and memory, only files up to {} KiB are compiled; this has {} KiB: see that `/proc` is mounted and that another process may be started",
                UNBOUNDED >> 10,
                size.div_ceil(1 << 10),
            ),
        }),
        false => Ok(()),
    }
}

/// In a process of its own; the outer error is that there can't be one.
async fn apart(label: &str, bytes: &[u8]) -> io::Result<Result<Vec<u8>, LoadError>> {
    let bounds = Bounds::of(bytes.len());
    // Not a pipe: that could be opened by others of this user through `/proc`.
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut ours = tokio::net::UnixStream::from_std(ours)?;
    let mut command = tokio::process::Command::new("/proc/self/exe");
    command
        .arg(SUBCOMMAND)
        .args([bounds.seconds, bounds.bytes].map(|bound| bound.to_string()))
        .env_clear()
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    // It holds the child's end.
    drop(command);
    let mut errors = child.stderr.take();
    let talk = async {
        // One that has died does not listen; why is told by how it ended.
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
        return Ok(Err(too_costly(format!("more than {waited} seconds"))));
    };
    let said = one_line(&String::from_utf8_lossy(&said));
    Ok(match answer.split_first() {
        Some((&DONE, code)) if status.as_ref().is_ok_and(ExitStatus::success) => Ok(code.to_vec()),
        Some((&FAILED, text)) => {
            let text = String::from_utf8_lossy(text);
            // A limit of the shell's is handed down, and comes before ours.
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
    })
}

impl Bounds {
    fn memory(self) -> String {
        format!("more than {} MiB of memory", self.bytes >> 20)
    }
}

/// Whether an allocation was refused, in the words of Rust's and C's libraries.
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

/// The body of the subcommand: a component on standard input, which is a socket; the answer goes
/// back the same way.
///
/// # Errors
/// When there is no such socket.
pub fn run(mut args: impl Iterator<Item = OsString>) -> io::Result<()> {
    let mut number = || args.next()?.to_str()?.parse::<u64>().ok();
    let (Some(seconds), Some(bytes)) = (number(), number()) else {
        return Err(io::Error::other("the host starts this, nobody else"));
    };
    // Whoever waits for this is gone: so is the use of it.
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
    // The first ends it with a signal that says why, the second for certain.
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
        assert!(unbounded("p", 1 << 20, &error).is_ok());
        let refused = unbounded("p", 18 << 20, &error).unwrap_err().to_string();
        for part in ["only files up to 1024 KiB", "this has 18432 KiB"] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
