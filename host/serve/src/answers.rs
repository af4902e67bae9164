//! Answers to requests, and functions that requests of all kinds share.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::Value;

use crate::output::ReplacedStream;

/// The longest pause within the body of a request.
pub(super) const BODY_PAUSE: Duration = Duration::from_secs(15);

/// The body of an answer.
pub(super) type AnswerBody = UnsyncBoxBody<Bytes, ReplacedStream>;

/// An answer with a JSON value.
pub(super) fn jsoned(status: StatusCode, value: &Value) -> Response<AnswerBody> {
    let body = Full::new(Bytes::from(value.to_string()));
    let body = body.map_err(|never| match never {});
    let mut answer = Response::new(UnsyncBoxBody::new(body));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}
