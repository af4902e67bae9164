//! Answers to requests. The headers of each answer prevent the page's content from doing anything
//! else.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderValue};
use hyper::{Response, StatusCode};
use mswea_export::SecretValues;
use serde_json::{Value, json};

/// The body of an answer.
pub(crate) type PageAnswer = Response<Full<Bytes>>;

/// The permissions of the page: its own scripts and styles, requests to its own server, and images
/// that are embedded in the record.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// An answer of this content type.
pub(crate) fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> PageAnswer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE.as_str(), kind),
        (CONTENT_SECURITY_POLICY.as_str(), POLICY),
        (CACHE_CONTROL.as_str(), "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Plain text, which a browser shows as text.
pub(crate) fn plain(status: StatusCode, text: impl Into<Bytes>) -> PageAnswer {
    answer(status, "text/plain; charset=utf-8", text)
}

/// JSON, without secrets: whatever field holds one, and wherever the answer was made.
pub(crate) fn jsoned(mut value: Value, secrets: &SecretValues) -> PageAnswer {
    secrets.remove_from_value(&mut value);
    answer(
        StatusCode::OK,
        "application/json",
        value.to_string().into_bytes(),
    )
}

/// A JSON answer that stays valid as long as its tag does.
pub(crate) fn tagged(tag: &str, value: Value, secrets: &SecretValues) -> PageAnswer {
    let mut answer = jsoned(value, secrets);
    if let Ok(tag) = HeaderValue::from_str(tag) {
        answer.headers_mut().insert(ETAG, tag);
    }
    answer
}

/// A refusal, whose text has the reason.
pub(crate) fn refused(status: StatusCode, why: &str) -> PageAnswer {
    let text = json!({ "message": why }).to_string();
    answer(status, "application/json", text.into_bytes())
}
