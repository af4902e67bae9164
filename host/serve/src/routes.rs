//! The requests: the check of their token, and their answers.

use std::sync::Arc;

use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use mswea_executor::HELPER_PROTOCOL;
use mswea_executor::remote::AccessToken;
use mswea_executor::remote::wire::{LARGEST_INPUT, RUNTIME_HEADER, RUNTIME_VERSION};
use serde_json::json;
use tokio::time::timeout;

use crate::answers::{AnswerBody, BODY_PAUSE, jsoned};
use crate::newcomers::ConnectionPlace;
use crate::output::OffsetError;
use crate::rex::{KEY_HEADER, RexRoutes};
use crate::session::{InputError, ServedSession};
use crate::table::{ServedSessions, SessionRefused};

/// The values that all requests share.
pub(super) struct Routes {
    token: AccessToken,
    table: Arc<ServedSessions>,
    /// None if SWE-ReX's clients are not served.
    rex: Option<RexRoutes>,
}

impl Routes {
    pub(super) fn new(token: AccessToken, table: ServedSessions, rex: Option<RexRoutes>) -> Self {
        Self {
            token,
            table: Arc::new(table),
            rex,
        }
    }

    /// Whether a request shows the token.
    fn is_allowed(&self, request: &Request<Incoming>) -> bool {
        let shown = request.headers().get(AUTHORIZATION);
        let shown = shown.map_or(&b""[..], HeaderValue::as_bytes);
        // Compared also without a token, so that this takes the same time.
        self.token
            .is(shown.strip_prefix(b"Bearer ").unwrap_or_default())
    }

    /// Ends the sessions whose clients are gone.
    pub(super) fn end_abandoned(&self) {
        self.table.end_abandoned();
        if let Some(rex) = &self.rex {
            rex.end_abandoned();
        }
    }

    /// Ends all sessions, and refuses new ones.
    pub(super) async fn end_all(&self) {
        self.table.end_all().await;
        if let Some(rex) = &self.rex {
            rex.end_all().await;
        }
    }
}

/// Answers a request.
pub(super) async fn answer(
    routes: &Arc<Routes>,
    place: &ConnectionPlace,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    if let Some(rex) = &routes.rex
        && !request.uri().path().starts_with("/v1/")
    {
        let shown = request.headers().get(KEY_HEADER);
        return match routes
            .token
            .is(shown.map_or(&b""[..], HeaderValue::as_bytes))
        {
            true if !place.keep() => too_many(),
            true => rex.answer(request).await,
            false => {
                let detail = json!({ "detail": "Invalid API Key" });
                let mut answer = jsoned(StatusCode::UNAUTHORIZED, &detail);
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(CONNECTION, close);
                answer
            }
        };
    }
    let mut answer = match routes.is_allowed(&request) {
        true if !place.keep() => too_many(),
        true => route(routes, request).await,
        false => refused(),
    };
    let version = HeaderValue::from_static(RUNTIME_VERSION);
    answer.headers_mut().insert(RUNTIME_HEADER, version);
    answer
}

fn too_many() -> Response<AnswerBody> {
    tracing::warn!("a connection was closed: there are too many (`--max-connections`)");
    let text = "there are too many connections: start the server with a larger `--max-connections`";
    let mut answer = told(StatusCode::SERVICE_UNAVAILABLE, text);
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(CONNECTION, close);
    answer
}

/// The answer to a request without the token. Its body is not read.
fn refused() -> Response<AnswerBody> {
    let mut answer = told(StatusCode::UNAUTHORIZED, "unauthorized");
    let headers = answer.headers_mut();
    headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

async fn route(routes: &Arc<Routes>, request: Request<Incoming>) -> Response<AnswerBody> {
    let path = request.uri().path().to_owned();
    let words: Vec<&str> = path.split('/').skip(1).collect();
    let table = &routes.table;
    match (request.method(), words.as_slice()) {
        (&Method::GET, ["v1", "alive"]) => alive(table),
        (&Method::POST, ["v1", "sessions"]) => open(table).await,
        (&Method::DELETE, ["v1", "sessions", id]) => match table.end(id).await {
            true => told(StatusCode::OK, "ended"),
            false => unknown_session(),
        },
        (&Method::GET, ["v1", "sessions", id, "output"]) => match table.find(id) {
            Some(session) => output(&session, &request),
            None => unknown_session(),
        },
        (&Method::POST, ["v1", "sessions", id, "input"]) => match table.find(id) {
            Some(session) => input(&session, request).await,
            None => unknown_session(),
        },
        _ => told(StatusCode::NOT_FOUND, "there is nothing of this name"),
    }
}

fn alive(table: &ServedSessions) -> Response<AnswerBody> {
    let state = json!({
        "service": "mswea-host runtime",
        "version": env!("CARGO_PKG_VERSION"),
        "protocol": HELPER_PROTOCOL,
        "sessions": table.count(),
    });
    jsoned(StatusCode::OK, &state)
}

/// Starts a session on a task of its own, so that a dropped request does not leave an incomplete
/// one.
async fn open(table: &Arc<ServedSessions>) -> Response<AnswerBody> {
    let keep = table.keep.as_secs_f64();
    let table = table.clone();
    let opened = tokio::spawn(async move { table.open().await });
    match opened.await.unwrap_or(Err(SessionRefused::Closed)) {
        Ok(id) => {
            let session = json!({
                "id": id,
                "keep_seconds": keep,
                "protocol": HELPER_PROTOCOL,
                "version": env!("CARGO_PKG_VERSION"),
            });
            jsoned(StatusCode::CREATED, &session)
        }
        Err(why) => {
            tracing::warn!(%why, "a session was refused");
            let status = match why {
                SessionRefused::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
                SessionRefused::Closed => StatusCode::SERVICE_UNAVAILABLE,
                SessionRefused::NotStarted(_) => StatusCode::INTERNAL_SERVER_ERROR,
            };
            told(status, &why.to_string())
        }
    }
}

fn output(session: &ServedSession, request: &Request<Incoming>) -> Response<AnswerBody> {
    let Some(from) = offset(request, "from") else {
        return no_offset("from");
    };
    match session.output.stream(from) {
        Ok(stream) => Response::new(UnsyncBoxBody::new(stream)),
        Err(OffsetError::Forgotten) => told(
            StatusCode::GONE,
            "this output was confirmed before, and is forgotten",
        ),
        Err(OffsetError::Future) => not_sent(),
    }
}

async fn input(session: &ServedSession, request: Request<Incoming>) -> Response<AnswerBody> {
    let Some(mut at) = offset(&request, "at") else {
        return no_offset("at");
    };
    if let Some(seen) = offset(&request, "seen")
        && session.output.confirm(seen).is_err()
    {
        return not_sent();
    }
    let mut body = request.into_body();
    // Checked before any byte is written, if the length is known.
    if body.size_hint().lower() > LARGEST_INPUT as u64 {
        return too_large();
    }
    let mut length = 0;
    // Written as it comes, so that a client whose body was cut off need not send all of it again.
    let mut written = session.write(at, &[]).await;
    let error = loop {
        let done = match written {
            Ok(done) => done,
            Err(error) => break error,
        };
        let bytes = match timeout(BODY_PAUSE, body.frame()).await {
            Ok(None) => return jsoned(StatusCode::OK, &json!({ "at": done })),
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Ok(Some(Err(error))) => {
                let text = format!("the body is broken: {error}");
                return told(StatusCode::BAD_REQUEST, &text);
            }
            Err(_) => return told(StatusCode::REQUEST_TIMEOUT, "the body comes too slowly"),
        };
        length += bytes.len();
        if length > LARGEST_INPUT {
            return too_large();
        }
        written = session.write(at, &bytes).await;
        at += bytes.len() as u64;
    };
    let status = match error {
        InputError::Gap(_) => StatusCode::CONFLICT,
        InputError::Ended => StatusCode::GONE,
    };
    told(status, &error.to_string())
}

/// The value of a number in the query.
fn offset(request: &Request<Incoming>, name: &str) -> Option<u64> {
    let pairs = request.uri().query()?.split('&');
    let mut pairs = pairs.filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    value.parse().ok()
}

fn no_offset(name: &str) -> Response<AnswerBody> {
    let text = format!("`{name}` is missing or no number of bytes");
    told(StatusCode::BAD_REQUEST, &text)
}

fn too_large() -> Response<AnswerBody> {
    let text = format!("a request may have {LARGEST_INPUT} bytes: send several");
    told(StatusCode::PAYLOAD_TOO_LARGE, &text)
}

fn not_sent() -> Response<AnswerBody> {
    told(
        StatusCode::RANGE_NOT_SATISFIABLE,
        "so much output was not sent yet",
    )
}

fn unknown_session() -> Response<AnswerBody> {
    told(StatusCode::NOT_FOUND, "there is no such session")
}

/// An answer whose text says what happened.
fn told(status: StatusCode, text: &str) -> Response<AnswerBody> {
    jsoned(status, &json!({ "message": text }))
}
