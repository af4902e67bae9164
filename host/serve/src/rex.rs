//! SWE-ReX's HTTP API, so that its clients can run their commands here, for example SWE-agent with
//! its deployment `remote`. Requests, answers and errors are SWE-ReX's. Commands run as in this
//! host: in parallel, ended with all their descendants, and without marks in their output.
//!
//! `bodies` has the requests, `fault` the errors, `shells` the sessions, `form` and `zip` the
//! uploads, `text` the conversion of texts.

mod bodies;
mod fault;
mod form;
mod shells;
mod text;
mod zip;

use std::io::{Seek as _, SeekFrom, Write as _};
use std::sync::Arc;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use mswea_executor::{
    LocalSettings, ServedCommand, ServedError, ServedPlace, ServedTask, aside, decoded,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::answers::{AnswerBody, BODY_PAUSE, jsoned};
use bodies::{
    ActionBody, CloseBody, CommandBody, CreateBody, ExecuteBody, ReadBody, WriteBody, limit,
};
use fault::RexFault;
use form::FormReader;
use shells::RexShells;

/// The largest body in JSON, in bytes.
const LARGEST_JSON: usize = 64 * 1024 * 1024;
/// The largest upload, in bytes.
const LARGEST_UPLOAD: usize = 2 * 1024 * 1024 * 1024;
/// The header with the key.
pub(super) const KEY_HEADER: &str = "x-api-key";

/// The values that all requests share.
pub(super) struct RexRoutes {
    place: Arc<ServedPlace>,
    shells: RexShells,
    most: usize,
}

impl RexRoutes {
    pub(super) fn new(settings: LocalSettings, most: usize) -> Self {
        Self {
            place: Arc::new(ServedPlace::new(settings)),
            shells: RexShells::default(),
            most,
        }
    }

    /// Ends sessions whose clients have been silent for long.
    pub(super) fn end_abandoned(&self) {
        self.shells.end_abandoned();
    }

    /// Ends all sessions and background processes.
    pub(super) async fn end_all(&self) {
        self.shells.end_all().await;
        self.place.end(true).await;
    }

    /// Answers a request with the key.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<AnswerBody> {
        let (status, value) = match self.route(request).await {
            Ok(value) => (StatusCode::OK, value),
            Err(fault) => fault.answer(),
        };
        jsoned(status, &value)
    }

    async fn route(&self, request: Request<Incoming>) -> Result<Value, RexFault> {
        let path = request.uri().path().to_owned();
        let wanted = match path.as_str() {
            "/" | "/is_alive" => Method::GET,
            "/create_session" | "/run_in_session" | "/close_session" | "/execute"
            | "/read_file" | "/write_file" | "/upload" | "/close" => Method::POST,
            _ => return Err(RexFault::refused(StatusCode::NOT_FOUND, "Not Found")),
        };
        if *request.method() != wanted {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            return Err(RexFault::refused(status, "Method Not Allowed"));
        }
        match path.as_str() {
            "/create_session" => {
                let body: CreateBody = json_of(request).await?;
                let settings = self.place.settings();
                self.shells.create(settings, self.most, &body).await
            }
            "/run_in_session" => match json_of(request).await? {
                ActionBody::Line(line) => self.shells.run(&line).await,
                ActionBody::Interrupt(interrupt) => self.shells.interrupt(&interrupt).await,
            },
            "/close_session" => {
                let body: CloseBody = json_of(request).await?;
                self.shells.close(&body.session).await
            }
            "/execute" => self.execute(json_of(request).await?).await,
            "/read_file" => {
                let body: ReadBody = json_of(request).await?;
                let task = ServedTask::Read(body.path.clone());
                let content = self.place.perform(task).await?.stdout;
                Ok(json!({ "content": text::of_file(&content, &body)? }))
            }
            "/write_file" => {
                let body: WriteBody = json_of(request).await?;
                self.write(body).await
            }
            "/upload" => self.upload(request).await,
            "/close" => {
                self.shells.end_all().await;
                self.place.end(false).await;
                Ok(json!({}))
            }
            "/is_alive" => Ok(json!({ "is_alive": true, "message": "" })),
            _ => Ok(json!({ "message": "mswea-host runtime" })),
        }
    }

    async fn execute(&self, body: ExecuteBody) -> Result<Value, RexFault> {
        let words = match body.command {
            CommandBody::Text(text) => vec![text],
            CommandBody::Words(words) => words,
        };
        let shown = words.join(" ");
        let own = body.env.unwrap_or_default();
        let all = || {
            words
                .iter()
                .chain(own.iter().flat_map(|(name, value)| [name, value]))
        };
        if words.is_empty() || all().any(|text| text.contains('\0')) {
            let why = "the command is empty, or has a null byte in it";
            return Err(RexFault::python("ValueError", why));
        }
        let shell = ["/bin/sh", "-c"].map(str::to_owned);
        let command = ServedCommand {
            argv: match body.shell {
                true => shell.into_iter().chain(words).collect(),
                false => words,
            },
            env: own.into_iter().collect(),
            cwd: body.cwd,
            limit: limit(body.timeout),
            apart: !body.merge_output_streams,
        };
        let ran = match self.place.perform(ServedTask::Run(command)).await {
            Err(ServedError::TimedOut) => {
                return Err(RexFault::timed_out(&shown, body.timeout, false));
            }
            ran => ran?,
        };
        let (stdout, stderr) = (decoded(&ran.stdout), decoded(&ran.stderr));
        if body.check && ran.status != 0 {
            let output = format!("{stdout}{stderr}");
            let told = &body.error_msg;
            return Err(RexFault::failed(&shown, told, ran.status, &output));
        }
        Ok(json!({ "stdout": stdout, "stderr": stderr, "exit_code": ran.status }))
    }

    async fn write(&self, body: WriteBody) -> Result<Value, RexFault> {
        let file = (|| {
            let mut file = tempfile::tempfile()?;
            file.write_all(body.content.as_bytes())?;
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        })();
        let task = ServedTask::Write {
            path: body.path,
            name: String::new(),
            content: file.map_err(|error| no_file(&error))?,
        };
        self.place.perform(task).await?;
        Ok(json!({}))
    }

    async fn upload(&self, request: Request<Incoming>) -> Result<Value, RexFault> {
        let kind = request.headers().get(CONTENT_TYPE);
        let kind = kind.map_or("", |kind| HeaderValue::to_str(kind).unwrap_or_default());
        let mut form = FormReader::new(kind).map_err(|why| RexFault::body(&why))?;
        let mut failed = None;
        each_piece(request, LARGEST_UPLOAD, |piece| {
            if failed.is_none() {
                failed = form.push(piece).err();
            }
        })
        .await?;
        let form = match failed {
            None => form.finish(),
            Some(why) => Err(why),
        };
        let form = form.map_err(|why| RexFault::body(&why))?;
        let task = match form.unzip {
            false => ServedTask::Write {
                path: form.target,
                name: form.name,
                content: form.content,
            },
            true => {
                let content = form.content;
                let packed = aside(move || zip::as_tar(content)).await;
                let packed = packed.unwrap_or_else(|| Err(std::io::ErrorKind::Other.into()));
                ServedTask::Unpack {
                    path: form.target,
                    archive: packed.map_err(|error| no_file(&error))?,
                }
            }
        };
        self.place.perform(task).await?;
        Ok(json!({}))
    }
}

fn no_file(error: &std::io::Error) -> RexFault {
    match error.kind() {
        std::io::ErrorKind::InvalidData => RexFault::python("ValueError", error.to_string()),
        _ => RexFault::python("OSError", error.to_string()),
    }
}

/// The body of a request, from JSON.
async fn json_of<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, RexFault> {
    let mut body = Vec::new();
    each_piece(request, LARGEST_JSON, |piece| body.extend_from_slice(piece)).await?;
    serde_json::from_slice(&body).map_err(|error| RexFault::body(&error.to_string()))
}

/// Reads the body of a request.
async fn each_piece(
    request: Request<Incoming>,
    most: usize,
    mut take: impl FnMut(&[u8]),
) -> Result<(), RexFault> {
    let mut body = request.into_body();
    let mut length = 0;
    loop {
        let frame = match timeout(BODY_PAUSE, body.frame()).await {
            Ok(None) => return Ok(()),
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Ok(Some(Err(error))) => {
                let why = format!("the body is broken: {error}");
                return Err(RexFault::refused(StatusCode::BAD_REQUEST, &why));
            }
            Err(_) => {
                let why = "the body comes too slowly";
                return Err(RexFault::refused(StatusCode::REQUEST_TIMEOUT, why));
            }
        };
        length += frame.len();
        if length > most {
            let why = format!("the body has more than {most} bytes");
            return Err(RexFault::refused(StatusCode::PAYLOAD_TOO_LARGE, &why));
        }
        take(&frame);
    }
}
