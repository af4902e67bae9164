//! Requests to a server of SWE-ReX, each with a connection of its own, as its own client makes them.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::remote::{AccessToken, Endpoint, RemoteFault};

/// The header with the key.
const KEY_HEADER: &str = "x-api-key";
/// The longest answer, in bytes.
const LONGEST_ANSWER: usize = 256 * 1024 * 1024;
/// How long a server may take to say that it is alive. One that runs a command for another client says
/// nothing meanwhile.
const ALIVE: Duration = Duration::from_secs(30);
/// For how long connections are tried to be made.
const CONNECTING: Duration = Duration::from_secs(5);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(300);
/// How much is shown of an answer that is not understood.
const SHOWN: usize = 200;

/// A server of SWE-ReX.
#[derive(Clone, Debug)]
pub struct RexClient(Endpoint);

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RexError {
    /// It can't be reached, or refuses the key; nothing was done.
    #[error("{0}")]
    Unusable(String),
    /// What became of the request is not known: nothing came any more.
    #[error("{0}")]
    Lost(String),
    /// Something else answers, or it says something that can't be understood.
    #[error("{0}")]
    Foreign(String),
    /// An exception of the server.
    #[error("{class}: {message}")]
    Raised {
        /// Its name with its module.
        class: String,
        message: String,
        /// What bash says of a command that it can't parse.
        said: Option<String>,
    },
}

impl RexError {
    /// Whether it is the exception of this name.
    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self, Self::Raised { class, .. } if class.rsplit('.').next() == Some(name))
    }
}

impl RexClient {
    /// The server at `url`, as [`Endpoint::new`] takes it.
    ///
    /// # Errors
    /// A message if the URL, the key or the file can't be used.
    pub fn new(url: &str, key: &AccessToken, ca_file: Option<&Path>) -> Result<Self, String> {
        let endpoint = Endpoint::new(url, key, ca_file)?;
        endpoint.with_key(KEY_HEADER, key).map(Self)
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        self.0.url()
    }

    pub(super) fn foreign(&self, answer: impl Into<String>) -> RexError {
        let answer: String = answer.into().chars().take(SHOWN).collect();
        let url = self.url();
        RexError::Foreign(format!(
            "what answers at `{url}` is no server of SWE-ReX, or of another version: {answer}"
        ))
    }

    /// Whether it is a server of this program. It is asked whether it is alive.
    ///
    /// # Errors
    /// A message if it can't be used.
    pub async fn check(&self) -> Result<bool, String> {
        let told = |error: RexError| error.to_string();
        let alive = self.get("/is_alive").await.map_err(told)?;
        match alive["is_alive"].as_bool() {
            Some(true) => {}
            Some(false) => return Err(format!("`{}` is not alive: {alive}", self.url())),
            None => return Err(self.foreign(alive.to_string()).to_string()),
        }
        let root = self.get("/").await.map_err(told)?;
        Ok(root["message"] == "mswea-host runtime")
    }

    async fn get(&self, path: &str) -> Result<Value, RexError> {
        let kind = "application/json";
        self.ask(Method::GET, path, kind, Bytes::new(), ALIVE).await
    }

    /// Posts a body; the answer is an object, and has to come within `limit`.
    ///
    /// # Errors
    /// [`RexError`]
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

    /// Makes a file there.
    ///
    /// # Errors
    /// [`RexError`]
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
                let text = |value: &Value| value.as_str().map(str::to_owned);
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

    /// Runs a program there; returns its output with its errors, and its exit code.
    ///
    /// # Errors
    /// [`RexError`]
    pub(super) async fn run(
        &self,
        command: &Value,
        limit: Duration,
    ) -> Result<(String, i32), RexError> {
        let answer = self.post("/execute", command, limit).await?;
        let output = answer["stdout"].as_str();
        let code = answer["exit_code"].as_i64();
        match (output, code.and_then(|code| i32::try_from(code).ok())) {
            // Python's number of a signal.
            (Some(output), Some(code @ ..0)) => Ok((output.to_owned(), 128 - code)),
            (Some(output), Some(code)) => Ok((output.to_owned(), code)),
            _ => Err(self.foreign(answer.to_string())),
        }
    }
}

/// The request of a program with these arguments.
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
