//! One HTTP connection, with the limits that apply before its client has sent the token.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

/// The time limit of the handshake, and of the head of each request.
pub(super) const HEAD_TIME: Duration = Duration::from_secs(15);
/// The largest head of a request, in bytes.
const LARGEST_HEAD: usize = 16 * 1024;
/// The most headers of a request.
const HEADERS: usize = 64;

/// Answers the requests of a connection until it ends.
pub async fn talk<S, B, A, F>(stream: S, answer: A)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>>,
{
    let answer = service_fn(|request| {
        let answered = answer(request);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_header_size(LARGEST_HEAD)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), answer);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection was broken");
    }
}
