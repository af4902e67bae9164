//! Runs actions at a place that a program reaches through its standard input and output: `ssh HOST`,
//! `kubectl exec -i POD --`, `srun --jobid=JOB --overlap`, `nsenter`.
//!
//! The program is started with one further argument, `sh`. That shell reads `script`, which finds a
//! folder for programs, receives the helper, removes its file and becomes the helper. So nothing is
//! left at the place, and the place needs nothing but a shell.

use std::ffi::CString;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use indexmap::IndexMap;
use mswea_core::Executor;
use mswea_helper::dialogue::quoted;
use mswea_helper::processes::RUN_VARIABLE;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::environment::{Rules, build};
use crate::interactive::HelperGuard;
use crate::process::{ClientProcess, Errors, Input, Program};
use crate::stream::{HelperLink, HelperPlace, HelperStream, StreamExecutor, StreamSettings};

/// How many bytes of a program's messages are kept, from their end.
const KEPT: usize = 2000;
/// How many bytes of other output are read before the shell's answer, for example the greeting of a
/// login.
const NOISE: usize = 256 * 1024;
/// How long a program whose output has ended may take to end, so that its exit code is known.
const ENDING: Duration = Duration::from_secs(2);
/// The exit codes of a program whose child was killed: by a signal itself, or as a shell reports it.
const KILLED: [i32; 2] = [-9, 137];

/// Variables of this machine by which programs reach a place. The shell there removes them, because
/// some programs (`env`, `nsenter`, `srun`) pass their own environment on to the commands.
const CONNECTING: [&str; 20] = [
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "KRB5CCNAME",
    "KRB5_CONFIG",
    "KUBECONFIG",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_TLS_VERIFY",
    "DOCKER_CERT_PATH",
    "CONTAINER_HOST",
    "AWS_PROFILE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "CLOUDSDK_CONFIG",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "AZURE_CONFIG_DIR",
];

/// Which variables of this machine are passed to the program, and so perhaps to the commands.
#[derive(Clone, Debug)]
pub struct PassedVariables {
    /// Names in addition to the default list, or beginnings of names followed by `*`.
    pub allow: Vec<String>,
    /// Names of secrets, whatever they look like.
    pub secret_names: Vec<String>,
    /// Whether a value looks like a credential.
    pub is_credential: fn(&str) -> bool,
}

impl PassedVariables {
    /// The environment of the program, as `NAME=value`.
    fn environment(&self) -> Vec<CString> {
        let mut allow = self.allow.clone();
        allow.extend(CONNECTING.map(str::to_owned));
        let rules = Rules {
            allow: &allow,
            secrets: &self.secret_names,
            is_credential: self.is_credential,
        };
        // Only configured variables can be refused, and here there are none.
        let built = build(std::env::vars_os(), rules, &IndexMap::new());
        built.map(|built| built.variables).unwrap_or_default()
    }

    /// The variables that the shell at the place removes.
    fn removed(&self) -> String {
        let removed = CONNECTING.iter().copied();
        let is_allowed = |name: &str| {
            self.allow
                .iter()
                .any(|allowed| match allowed.strip_suffix('*') {
                    Some(beginning) => name.starts_with(beginning),
                    None => name == allowed,
                })
        };
        let removed = removed.filter(|name| !is_allowed(name));
        removed.collect::<Vec<_>>().join(" ")
    }
}

/// The place that a program reaches.
struct ProgramPlace {
    /// Program and arguments.
    connect: Vec<String>,
    /// The program and its arguments as a text.
    name: String,
    /// How long connecting may take.
    limit: Duration,
    variables: PassedVariables,
}

/// A started program.
struct Connection {
    /// The program as a text.
    name: String,
    process: ClientProcess,
    /// The end of the program's messages.
    said: Arc<Mutex<Vec<u8>>>,
    listening: JoinHandle<()>,
}

impl Connection {
    /// The program's exit code, unless it still runs, and its last messages.
    async fn report(&mut self, noise: &[u8]) -> (Option<i32>, String) {
        let ended = timeout(ENDING, self.process.exited()).await;
        let code = ended.ok().and_then(Result::ok);
        if code.is_some() && !self.listening.is_finished() {
            // The last messages may not have been read yet.
            let _ = timeout(ENDING, &mut self.listening).await;
        }
        let said = self.said(noise);
        let end = match code {
            Some(code) if code < 0 => format!("was ended by signal {}", -code),
            Some(code) => format!("ended with exit code {code}"),
            None => "has closed its output".to_owned(),
        };
        match said.is_empty() {
            true => (code, end),
            false => (code, format!("{end}: {said}")),
        }
    }

    /// The program's messages, or else the end of `noise`.
    fn said(&self, noise: &[u8]) -> String {
        let said = mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner));
        let said = match said.trim_ascii() {
            [] => &noise[noise.len().saturating_sub(KEPT)..],
            said => said,
        };
        String::from_utf8_lossy(said).trim().to_owned()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl ProgramPlace {
    fn start(&self) -> Result<(Connection, Receiver, Sender), String> {
        let [program, args @ ..] = self.connect.as_slice() else {
            return Err("`environment.connect` is empty: set it to a program and its arguments, such as [\"ssh\", \"-T\", \"HOST\"]".to_owned());
        };
        let found = Program::find(program).ok_or_else(|| {
            format!("the program `{program}` of `environment.connect` is not installed")
        })?;
        let found = found.with_env(self.variables.environment());
        let args: Vec<String> = args.iter().cloned().chain(["sh".to_owned()]).collect();
        let failed = |error: std::io::Error| format!("`{}` can't be started: {error}", self.name);
        let started = found.start(&args, &[], Input::Pipe, Errors::Apart);
        let started = started.map_err(failed)?;
        let (Some(input), Some(errors)) = (started.input, started.errors) else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        let said = Arc::new(Mutex::new(Vec::new()));
        let connection = Connection {
            name: self.name.clone(),
            process: started.process,
            listening: tokio::spawn(listen(errors, said.clone())),
            said,
        };
        Ok((connection, started.output, input))
    }

    /// Sends the helper through the shell. `noise` gets the output that precedes the shell's
    /// answer.
    async fn pass_helper(
        &self,
        output: &mut Receiver,
        input: &mut Sender,
        noise: &mut Vec<u8>,
        (id, is_again): (&str, bool),
    ) -> std::io::Result<()> {
        let helper = mswea_helper_bundle::bytes();
        let mark = format!("mswea-{:016x}", fastrand::u64(..));
        let removed = self.variables.removed();
        let script = script(&mark, helper.len(), id, &removed, is_again);
        input.write_all(script.as_bytes()).await?;
        let ready = format!("{mark} ready\n");
        while !noise.ends_with(ready.as_bytes()) {
            if noise.len() > NOISE {
                return Err(std::io::Error::other(format!(
                    "more than {NOISE} bytes came before the answer of the shell"
                )));
            }
            if output.read_buf(noise).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        input.write_all(&helper).await
    }
}

/// The script for the shell at the place. It uses only `head`, `wc`, `chmod` and `rm`. Because of
/// the braces, the shell reads the whole script before it begins: the bytes after it are the
/// helper. With `is_again`, the processes with the mark `id` are ended first, because another
/// helper may have left them.
fn script(mark: &str, length: usize, id: &str, removed: &str, is_again: bool) -> String {
    // The id may be from a journal that somebody else has written.
    let id = quoted(id);
    let kill = match is_again {
        true => format!("/proc/self/fd/3 kill {id} </dev/null >/dev/null 2>&1\n"),
        false => String::new(),
    };
    format!(
        r#"{{ umask 077
unset {removed}
f=
for d in "$XDG_RUNTIME_DIR" "$TMPDIR" /tmp /var/tmp /dev/shm "$HOME" .; do
  [ -n "$d" ] && [ -d "$d" ] || continue
  f=$d/.{mark}
  if (printf '#!/bin/sh\nexit 7\n' >"$f" && chmod 700 "$f") 2>/dev/null; then
    "$f" </dev/null >/dev/null 2>&1
    [ $? = 7 ] && break
  fi
  rm -f "$f"
  f=
done
if [ -z "$f" ]; then echo 'there is no folder in which a file can be made and run: set XDG_RUNTIME_DIR or TMPDIR there' >&2; exit 1; fi
if [ ! -e /proc/self/fd ]; then rm -f "$f"; echo 'there is no /proc, which the helper needs' >&2; exit 1; fi
echo '{mark} ready'
head -c {length} >"$f"
if [ "$(wc -c <"$f")" -ne {length} ]; then rm -f "$f"; echo 'the helper did not arrive whole' >&2; exit 1; fi
exec 3<"$f"
rm -f "$f"
{kill}export {RUN_VARIABLE}={id}
exec /proc/self/fd/3 session; }}
"#
    )
}

/// Keeps the end of a program's messages.
async fn listen(mut from: Receiver, into: Arc<Mutex<Vec<u8>>>) {
    let mut piece = vec![0; 4096];
    while let Ok(1..) = from.read(&mut piece).await.inspect(|count| {
        let mut said = into.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(&piece[..*count]);
        let excess = said.len().saturating_sub(KEPT);
        said.drain(..excess);
    }) {}
}

#[async_trait]
impl HelperPlace for ProgramPlace {
    type Link = Connection;

    fn name(&self) -> &str {
        &self.name
    }

    async fn open(&self, id: &str, is_again: bool) -> Result<(HelperStream, Connection), String> {
        let (mut connection, mut output, mut input) = self.start()?;
        let mut noise = Vec::new();
        let passing = self.pass_helper(&mut output, &mut input, &mut noise, (id, is_again));
        let passed = timeout(self.limit, passing).await;
        let why = match passed {
            Ok(Ok(())) => return Ok(((Box::new(output), Box::new(input)), connection)),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::Other => error.to_string(),
            Ok(Err(_)) => {
                drop(input);
                // The messages that the program wrote before it closed its input.
                let rest = async {
                    while noise.len() < NOISE
                        && matches!(output.read_buf(&mut noise).await, Ok(1..))
                    {
                    }
                };
                let _ = timeout(ENDING, rest).await;
                connection.report(&noise).await.1
            }
            Err(_) => {
                let limit = self.limit.as_secs_f64();
                let waited = format!(
                    "no shell has answered within {limit} s (`environment.connect_timeout`)"
                );
                match connection.said(&noise) {
                    said if said.is_empty() => waited,
                    said => format!("{waited}: {said}"),
                }
            }
        };
        Err(format!(
            "no shell can be reached through `{}`: {why}",
            self.name
        ))
    }
}

impl HelperLink for Connection {}

#[async_trait]
impl HelperGuard for Connection {
    /// The helper ends with all processes that it started, and then the program ends. Dropping this
    /// kills the program.
    async fn dismiss(&mut self) {
        let _ = timeout(ENDING, self.process.exited()).await;
    }

    async fn lost(&mut self) -> Option<String> {
        let (code, report) = self.report(&[]).await;
        // A killed helper ends the program, which has become the helper or waits for it.
        let is_killed = code.is_some_and(|code| KILLED.contains(&code));
        (!is_killed).then(|| {
            format!(
                "the connection was lost, and what ran there was ended: `{}` {report}",
                self.name
            )
        })
    }
}

/// An executor for the place that this program reaches; nothing is started or checked yet. `limit`:
/// the time limit for connecting.
pub fn command_executor(
    connect: Vec<String>,
    limit: Duration,
    variables: PassedVariables,
    settings: StreamSettings,
) -> impl Executor {
    let place = ProgramPlace {
        name: connect.join(" "),
        connect,
        limit,
        variables,
    };
    StreamExecutor::new(settings, place)
}
