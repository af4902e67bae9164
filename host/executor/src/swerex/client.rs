//! Requests to a server of SWE-ReX, each with a connection of its own, as its own client makes them.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::{Method, StatusCode};
use mswea_core::Output;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::remote::{AccessToken, Endpoint, RemoteFault};

/// The header with the key.
const KEY_HEADER: &str = "x-api-key";
/// The longest answer, in bytes.
const LONGEST_ANSWER: usize = 256 * 1024 * 1024;
/// The time limit of the check that a server is alive. A server that runs a command for another
/// client does not answer meanwhile.
const ALIVE: Duration = Duration::from_secs(30);
/// How long a connection is retried.
const CONNECTING: Duration = Duration::from_secs(5);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(300);
/// How many bytes of an invalid answer a message shows.
const SHOWN: usize = 200;

/// How many characters of an exception are kept.
const LONGEST_MESSAGE: usize = 64 * 1024;

/// A server of SWE-ReX.
#[derive(Clone, Debug)]
pub struct RexClient(Endpoint);

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RexError {
    /// The server can't be reached, or refuses the key; it has done nothing.
    #[error("{0}")]
    Unusable(String),
    /// The connection was lost, and it is not known what the server has done.
    #[error("{0}")]
    Lost(String),
    /// The answer is from another program, or is invalid.
    #[error("{0}")]
    Foreign(String),
    /// An exception of the server.
    #[error("{class}: {message}")]
    Raised {
        /// The exception's name with its module.
        class: String,
        message: String,
        /// Bash's message about a command that it can't parse.
        said: Option<String>,
    },
}

impl RexError {
    /// Whether this is the exception with this name.
    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self, Self::Raised { class, .. } if class.rsplit('.').next() == Some(name))
    }
}

impl RexClient {
    /// The server at `url`, with the parameters of [`Endpoint::new`].
    ///
    /// # Errors
    /// A message if the URL, the key or the file can't be used.
    pub fn new(url: &str, key: &AccessToken, ca_file: Option<&Path>) -> Result<Self, String> {
        let endpoint = Endpoint::new(url, key, ca_file)?;
        endpoint.with_key(KEY_HEADER, key).map(Self)
    }

    /// The server's URL.
    pub fn url(&self) -> &str {
        self.0.url()
    }

    /// The output of a command without the key.
    pub(super) fn mask(&self, output: &mut Output) {
        output.output = self.0.output(std::mem::take(&mut output.output));
    }

    pub(super) fn foreign(&self, answer: impl Into<String>) -> RexError {
        // Masked before it is cut, so that no part of the key stays.
        let answer: String = self.0.masked(&answer.into()).chars().take(SHOWN).collect();
        let url = self.url();
        RexError::Foreign(format!(
            "what answers at `{url}` is no server of SWE-ReX, or of another version: {answer}"
        ))
    }

    /// Checks that the server is alive; returns whether it is one of this program.
    ///
    /// # Errors
    /// A message if the server can't be used.
    pub async fn check(&self) -> Result<bool, String> {
        let told = |error: RexError| error.to_string();
        let alive = self.get("/is_alive").await.map_err(told)?;
        match alive["is_alive"].as_bool() {
            Some(true) => {}
            Some(false) => {
                let said = self.0.masked(&alive.to_string());
                return Err(format!("`{}` is not alive: {said}", self.url()));
            }
            None => return Err(self.foreign(alive.to_string()).to_string()),
        }
        let root = self.get("/").await.map_err(told)?;
        Ok(root["message"] == "mswea-host runtime")
    }

    async fn get(&self, path: &str) -> Result<Value, RexError> {
        let kind = "application/json";
        self.ask(Method::GET, path, kind, Bytes::new(), ALIVE).await
    }

    /// Posts a body; the answer must be an object, and come within `limit`.
    ///
    /// # Errors
    /// [`RexError`] if the server can't be reached, its answer is late or invalid, or it reports an
    /// exception.
    pub(super) async fn post(
        &self,
        path: &str,
        body: &Value,
        limit: Duration,
    ) -> Result<Value, RexError> {
        let body = Bytes::from(body.to_string());
        let kind = "application/json";
        self.ask(Method::POST, path, kind, body, limit).await
    }

    /// Writes a file at the server.
    ///
    /// # Errors
    /// [`RexError`] in the cases of [`Self::post`].
    pub(super) async fn upload(
        &self,
        content: &[u8],
        to: &str,
        limit: Duration,
    ) -> Result<(), RexError> {
        let mark = format!("mswea-{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let field = |name: &str, value: &str| {
            format!(
                "--{mark}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            )
        };
        let mut body = field("target_path", to) + &field("unzip", "false");
        body.push_str(&format!(
            "--{mark}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n\r\n"
        ));
        let mut body = body.into_bytes();
        body.extend_from_slice(content);
        body.extend(format!("\r\n--{mark}--\r\n").bytes());
        let kind = format!("multipart/form-data; boundary={mark}");
        let asked = self.ask(Method::POST, "/upload", &kind, body.into(), limit);
        asked.await.map(drop)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<Value, RexError> {
        let url = self.url();
        let reason = |fault: RemoteFault| match fault {
            RemoteFault::Unreachable { reason, .. } => reason,
            fault => fault.to_string(),
        };
        let began = Instant::now();
        let mut connection = loop {
            match self.0.connect().await {
                Ok(connection) => break connection,
                Err(RemoteFault::Unreachable { .. })
                    if began.elapsed() < CONNECTING && path != "/is_alive" =>
                {
                    sleep(PAUSE).await;
                }
                Err(fault) => {
                    let remedy = match path {
                        "/is_alive" => "; is `swerex-remote` running there, on this port?",
                        _ => "",
                    };
                    let reason = reason(fault);
                    let why = format!("`{url}` can't be reached: {reason}{remedy}");
                    return Err(RexError::Unusable(why));
                }
            }
        };
        let lost = |reason: String| {
            RexError::Lost(format!("the connection to `{url}` was lost: {reason}"))
        };
        let asking = async {
            let asked = connection.exchange(method, path, content_type, body).await;
            let answer = asked.map_err(|fault| lost(reason(fault)))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), LONGEST_ANSWER).collect();
            let body = body.await.map_err(|error| lost(error.to_string()))?;
            Ok((status, body.to_bytes()))
        };
        let (status, body) = match timeout(limit, asking).await {
            Ok(answered) => answered?,
            Err(_) => {
                let limit = limit.as_secs_f64();
                let why = format!("`{url}` has not answered within {limit} s");
                return Err(RexError::Lost(why));
            }
        };
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        match status {
            StatusCode::OK if value.is_object() => Ok(value),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(RexError::Unusable(format!(
                "`{url}` refuses the key: `environment.token_file` or `environment.token_env` has to name the one of its `--auth-token`"
            ))),
            StatusCode::NETWORK_AUTHENTICATION_REQUIRED if value["swerexception"].is_object() => {
                let exception = &value["swerexception"];
                let text = |value: &Value| {
                    let whole = self.0.masked(value.as_str()?);
                    Some(whole.chars().take(LONGEST_MESSAGE).collect::<String>())
                };
                Err(RexError::Raised {
                    class: text(&exception["class_path"]).unwrap_or_default(),
                    message: text(&exception["message"]).unwrap_or_default(),
                    said: text(&exception["extra_info"]["bash_stderr"]),
                })
            }
            _ => {
                let text = String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN)]);
                Err(self.foreign(format!("{status} {}", text.trim())))
            }
        }
    }

    /// Runs a program at the server; returns its standard output and error, and its exit code.
    ///
    /// # Errors
    /// [`RexError`] in the cases of [`Self::post`].
    pub(super) async fn run(
        &self,
        command: &Value,
        limit: Duration,
    ) -> Result<(String, i32), RexError> {
        let answer = self.post("/execute", command, limit).await?;
        let output = answer["stdout"].as_str();
        let code = answer["exit_code"].as_i64();
        match (output, code.and_then(|code| i32::try_from(code).ok())) {
            // Python's negative number of a signal. A server may send any number.
            (Some(output), Some(code @ ..0)) => {
                Ok((output.to_owned(), 128_i32.saturating_sub(code)))
            }
            (Some(output), Some(code)) => Ok((output.to_owned(), code)),
            _ => Err(self.foreign(answer.to_string())),
        }
    }
}

/// The request that runs a program with these arguments.
pub(super) fn program(argv: &[&str], cwd: Option<&str>, limit: Duration) -> Value {
    json!({
        "command": argv,
        "cwd": cwd,
        "timeout": limit.as_secs_f64(),
        "shell": false,
        "check": false,
        "error_msg": "",
        "env": null,
        "merge_output_streams": true,
    })
}
