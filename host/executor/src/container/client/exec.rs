//! A process that the command line client starts in a container.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::timeout;

use super::{Client, owned};
use crate::container::engine::{Engine, EngineError, EngineErrorKind, ExecSpec};
use crate::container::errors::Doing;
use crate::container::stream::{Tap, Watched};
use crate::process::ClientProcess;
use mswea_secrecy::looks_secret;

/// How long reading the last output of a client that has ended may take.
const READING: Duration = Duration::from_millis(200);

/// The output of a process; its tap keeps the beginning.
pub(super) struct ClientOutput {
    pub(super) pipe: tokio::net::unix::pipe::Receiver,
    pub(super) tap: Tap,
}

impl AsyncRead for ClientOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let result = ready!(Pin::new(&mut self.pipe).poll_read(context, into));
        match &into.filled()[before..] {
            [] => self.tap.end(),
            new => self.tap.see(new),
        }
        Poll::Ready(result)
    }
}

/// Waits for the client, and distinguishes its own failures from the process's, which have the same
/// exit codes: by its messages, and then by inspecting the container.
pub(super) async fn wait(
    client: Client,
    mut process: ClientProcess,
    mut watched: Watched,
    id: String,
    what: String,
) -> Result<i32, EngineError> {
    let code = process.exited().await;
    let code = code.map_err(|error| client.broken(&error))?;
    if !matches!(code, 1 | 125..=127 | 255) {
        return Ok(code);
    }
    // The client's last output may still be in the pipe.
    let _ = timeout(READING, watched.ended()).await;
    let head = watched.head();
    let its_own = [
        "OCI runtime exec failed",
        "Error response from daemon",
        "Error: ",
        "unable to find user",
        "Cannot connect",
        "error during connect",
        "permission denied while",
    ];
    // Podman prints nothing if the container is being removed.
    let unclear = code == 255 && client.is_podman();
    if !unclear && !its_own.iter().any(|words| head.starts_with(words)) {
        return Ok(code);
    }
    let state = client.state(&id).await?;
    if !state.running || state.paused {
        return Err(client.explain(Doing::Using(&id), &head));
    }
    let lower = head.to_lowercase();
    let not_started = lower.contains("oci ") || lower.contains("unable to find user");
    if matches!(code, 126 | 127 | 255) && not_started {
        let mut error = client.explain(Doing::Starting(&what), &head);
        if error.kind == EngineErrorKind::Other {
            error.kind = EngineErrorKind::NotStarted;
        }
        return Err(error);
    }
    Ok(code)
}

/// The arguments that start a process, and the variables that the client's environment needs for
/// them: all users of the machine can read arguments, so these do not contain values of variables.
///
/// A variable that affects the client itself (`HOME`, `DOCKER_HOST`) can't be passed so: its value
/// is an argument, unless it looks like a secret.
pub(super) fn arguments(id: &str, spec: &ExecSpec) -> (Vec<String>, Vec<(String, String)>) {
    let mut args = owned(&["exec"]);
    if spec.stdin {
        args.push("-i".to_owned());
    }
    if let Some(cwd) = &spec.cwd {
        args.extend(["-w".to_owned(), cwd.clone()]);
    }
    if let Some(user) = &spec.user {
        args.extend(["-u".to_owned(), user.clone()]);
    }
    let mut env = Vec::new();
    for (name, value) in &spec.env {
        args.push("-e".to_owned());
        if is_heeded(name) && !looks_secret(name) && !has_password(value) {
            args.push(format!("{name}={value}"));
        } else {
            args.push(name.clone());
            env.push((name.clone(), value.clone()));
        }
    }
    args.push(id.to_owned());
    args.extend(spec.argv.iter().cloned());
    (args, env)
}

/// Variables that change the behaviour of a client, of a wrapper, or of programs that these start.
const HEEDED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "TMPDIR",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "IFS",
    "PS4",
    "GODEBUG",
    "DBUS_SESSION_BUS_ADDRESS",
    "CONTAINER_HOST",
    "CONTAINER_CONNECTION",
    "CONTAINER_SSHKEY",
    "STORAGE_DRIVER",
    "STORAGE_OPTS",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_API_VERSION",
];
const HEEDED_BEGINNINGS: &[&str] = &[
    "LD_",
    "XDG_",
    "DOCKER_TLS",
    "DOCKER_CLI_",
    "CONTAINERS_",
    "PYTHON",
    "PERL5",
];

fn is_heeded(name: &str) -> bool {
    HEEDED.contains(&name)
        || HEEDED_BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning))
        || name.to_ascii_lowercase().ends_with("_proxy")
        // The marks of the run: a search for its processes must not find the client.
        || name.starts_with("MSWEA_")
}

/// Whether there is a URL with credentials.
fn has_password(value: &str) -> bool {
    value
        .split_once("://")
        .is_some_and(|(_, rest)| rest.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_among_the_arguments() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let handed_over = [
            pair("A", "1\n2"),
            pair("X_TOKEN", "hush"),
            pair("DATABASE_URL", "postgres://u:hush@db"),
            pair("https_proxy", "http://u:hush@proxy"),
        ];
        let heeded = [
            pair("PATH", "/x:/y"),
            pair("HTTP_PROXY", "http://proxy:1"),
            pair("LD_PRELOAD", "x.so"),
            pair("MSWEA_ACTION", "r.1"),
        ];
        let spec = ExecSpec {
            argv: owned(&["bash", "-lc", "x y"]),
            env: handed_over.iter().chain(&heeded).cloned().collect(),
            cwd: Some("/w".to_owned()),
            user: Some("u".to_owned()),
            stdin: true,
        };
        let (args, env) = arguments("id", &spec);
        assert_eq!(
            args.join(" "),
            "exec -i -w /w -u u -e A -e X_TOKEN -e DATABASE_URL -e https_proxy \
             -e PATH=/x:/y -e HTTP_PROXY=http://proxy:1 -e LD_PRELOAD=x.so \
             -e MSWEA_ACTION=r.1 id bash -lc x y"
        );
        assert_eq!(env, handed_over);
        let (args, env) = arguments("id", &ExecSpec::default());
        assert_eq!(args, ["exec", "id"]);
        assert!(env.is_empty());
    }
}
