//! The body of a request to a daemon: bytes, or a file that is read while it is sent, so that
//! memory does not depend on its size.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, ReadBuf};

/// How many bytes of a file are in memory at once.
const PIECE: usize = 64 * 1024;

/// The body of a request.
pub(super) enum Body {
    Bytes(Full<Bytes>),
    File {
        file: tokio::fs::File,
        /// How many bytes are still to be sent.
        left: u64,
        buffer: Box<[u8]>,
    },
}

impl Body {
    /// The first `size` bytes of a file, from its current position.
    pub(super) fn file(file: tokio::fs::File, size: u64) -> Self {
        Self::File {
            file,
            left: size,
            buffer: vec![0; PIECE].into_boxed_slice(),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(Full::new(bytes))
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let (file, left, buffer) = match self.get_mut() {
            Self::Bytes(bytes) => {
                let frame = ready!(Pin::new(bytes).poll_frame(context));
                return Poll::Ready(frame.map(|frame| frame.map_err(|never| match never {})));
            }
            Self::File { file, left, buffer } => (file, left, buffer),
        };
        if *left == 0 {
            return Poll::Ready(None);
        }
        let room = buffer.len().min(usize::try_from(*left).unwrap_or(PIECE));
        let mut into = ReadBuf::new(&mut buffer[..room]);
        ready!(Pin::new(file).poll_read(context, &mut into))?;
        let read = into.filled();
        if read.is_empty() {
            // The file is shorter than announced: an error makes the daemon refuse the archive.
            return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
        }
        *left -= read.len() as u64;
        let piece = Bytes::copy_from_slice(read);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.is_end_stream(),
            Self::File { left, .. } => *left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Bytes(bytes) => bytes.size_hint(),
            Self::File { left, .. } => SizeHint::with_exact(*left),
        }
    }
}
