//! A request's body for the HTTP client: its chunks one after the other, never joined.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use mswea_core::RequestBody;

/// A body of a known length, so that the request has a `content-length` header. A body of one chunk
/// is passed as plain bytes: reqwest can send those again by itself if an HTTP/2 server reports
/// that it did not process the request.
pub(super) fn body(body: &RequestBody) -> reqwest::Body {
    match body.chunks() {
        [] => Bytes::new().into(),
        [only] => only.clone().into(),
        _ => reqwest::Body::wrap(Outgoing {
            body: body.clone(),
            next: 0,
            left: body.len() as u64,
        }),
    }
}

struct Outgoing {
    body: RequestBody,
    /// The index of the next chunk.
    next: usize,
    /// The number of bytes from that chunk to the end.
    left: u64,
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.body.chunks().get(self.next).cloned();
        Poll::Ready(chunk.map(|chunk| {
            self.next += 1;
            self.left -= chunk.len() as u64;
            Ok(Frame::data(chunk))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
