//! The body of a request, in chunks that one body shares with the next. While a history grows, most
//! of each body equals the body before.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

/// The size of a full chunk. Only full chunks are shared; all other bytes are copied. So a body
/// keeps only its own memory allocated, and between two full chunks there is at most one smaller
/// chunk, however often bodies are made of each other.
const CHUNK: usize = 64 << 10;

/// The bytes of a request's body. A clone costs nothing.
#[derive(Clone, Default)]
pub struct RequestBody {
    chunks: Arc<[Bytes]>,
    len: usize,
}

impl RequestBody {
    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes, in order; no chunk is empty.
    #[must_use]
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// The bytes in one piece: copied, unless the body has only one chunk.
    #[must_use]
    pub fn joined(&self) -> Bytes {
        match &*self.chunks {
            [] => Bytes::new(),
            [only] => only.clone(),
            chunks => chunks.concat().into(),
        }
    }

    /// A builder of a body from new bytes and bytes of another body, which will probably have `len` bytes.
    #[must_use]
    pub fn builder(len: usize) -> RequestBodyBuilder {
        RequestBodyBuilder {
            expected: len,
            ..RequestBodyBuilder::default()
        }
    }
}

impl From<Vec<u8>> for RequestBody {
    fn from(bytes: Vec<u8>) -> Self {
        let bytes = Bytes::from(bytes);
        let len = bytes.len();
        let chunks = (len > 0).then_some(bytes);
        Self {
            chunks: chunks.into_iter().collect(),
            len,
        }
    }
}

impl PartialEq for RequestBody {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.joined() == other.joined()
    }
}

impl std::fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.joined().fmt(f)
    }
}

/// A [`RequestBody`] in the making.
#[derive(Default)]
pub struct RequestBodyBuilder {
    chunks: Vec<Bytes>,
    /// The bytes of the next chunk.
    open: Vec<u8>,
    len: usize,
    /// How many bytes the body will probably have.
    expected: usize,
}

impl RequestBodyBuilder {
    /// How many bytes there are so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds new bytes.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = CHUNK - self.open.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            if self.open.is_empty() {
                let rest = self.expected.saturating_sub(self.len);
                self.open.reserve_exact(rest.clamp(now.len(), CHUNK));
            }
            self.open.extend_from_slice(now);
            self.len += now.len();
            if self.open.len() == CHUNK {
                self.close();
            }
            bytes = later;
        }
    }

    /// Adds some bytes of another body.
    ///
    /// # Panics
    /// When `range` exceeds the body.
    pub fn share(&mut self, body: &RequestBody, range: Range<usize>) {
        assert!(
            range.start <= range.end && range.end <= body.len,
            "invariant: the caller has checked the range"
        );
        let mut at = 0;
        for chunk in &*body.chunks {
            let begin = range.start.clamp(at, at + chunk.len()) - at;
            let end = range.end.clamp(at, at + chunk.len()) - at;
            at += chunk.len();
            if chunk.len() == CHUNK && end - begin == CHUNK {
                self.close();
                self.chunks.push(chunk.clone());
                self.len += CHUNK;
            } else {
                self.add(&chunk[begin..end]);
            }
        }
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            let mut chunk = std::mem::take(&mut self.open);
            // It has spare memory if shared chunks follow, or if the body has another length than expected.
            chunk.shrink_to_fit();
            self.chunks.push(chunk.into());
        }
    }

    /// The body.
    #[must_use]
    pub fn finish(mut self) -> RequestBody {
        self.close();
        RequestBody {
            chunks: self.chunks.into(),
            len: self.len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(len: usize, seed: u8) -> Vec<u8> {
        (0..len).map(|at| (at % 251) as u8 ^ seed).collect()
    }

    fn new(bytes: &[u8]) -> RequestBody {
        let mut builder = RequestBody::builder(0);
        builder.add(bytes);
        builder.finish()
    }

    #[test]
    fn what_is_put_together_is_what_was_meant() {
        let plain = bytes(3 * CHUNK + 5, 1);
        for body in [new(&plain), RequestBody::from(plain.clone())] {
            for range in [
                0..0,
                0..1,
                0..plain.len(),
                5..plain.len() - 5,
                CHUNK - 1..CHUNK + 1,
                CHUNK..2 * CHUNK,
                plain.len()..plain.len(),
            ] {
                for (before, expected) in [0, 1, CHUNK, CHUNK + 1].into_iter().flat_map(|before| {
                    let exact = before + range.len() + 3;
                    [0, exact, usize::MAX].map(|expected| (before, expected))
                }) {
                    let mut builder = RequestBody::builder(expected);
                    let mut meant = bytes(before, 2);
                    builder.add(&meant);
                    builder.share(&body, range.clone());
                    builder.add(b"end");
                    meant.extend_from_slice(&plain[range.clone()]);
                    meant.extend_from_slice(b"end");
                    let made = builder.finish();
                    assert_eq!(made.len(), meant.len());
                    assert!(
                        made.joined() == meant,
                        "{range:?} behind {before}, {expected} expected"
                    );
                    assert!(made.chunks().iter().all(|chunk| !chunk.is_empty()));
                    assert!(made == RequestBody::from(meant));
                }
            }
        }
        assert!(new(b"").is_empty() && new(b"").chunks().is_empty());
        assert_eq!(RequestBody::from(Vec::new()), new(b""));
    }

    #[test]
    fn most_of_a_body_that_grows_is_shared() {
        let mut meant = Vec::new();
        let mut body = RequestBody::default();
        let mut shared = 0;
        for step in 0..100 {
            let kept = meant.len().saturating_sub(2);
            let new = [bytes(20_000, step), b"]}".to_vec()].concat();
            let mut builder = RequestBody::builder(0);
            builder.share(&body, 0..kept);
            builder.add(&new);
            let next = builder.finish();
            meant.truncate(kept);
            meant.extend_from_slice(&new);
            assert!(next.joined() == meant);
            let is_old = |chunk: &&Bytes| {
                body.chunks()
                    .iter()
                    .any(|old| old.as_ptr() == chunk.as_ptr())
            };
            shared = next.chunks().iter().filter(is_old).map(Bytes::len).sum();
            body = next;
        }
        assert!(
            meant.len() - shared < 2 * CHUNK,
            "{shared} of {}",
            meant.len()
        );
    }

    #[test]
    fn chunks_stay_few() {
        // Each body is made of the one before, many times, with ranges that do not begin at chunks.
        let mut body = new(b"x");
        for round in 0..30 {
            let mut builder = RequestBody::builder([0, 1 << 20, usize::MAX][round % 3]);
            while builder.len() < body.len() * 4 && builder.len() < 2 << 20 {
                let len = body.len();
                builder.share(&body, 0..len);
                builder.add(b"y");
            }
            body = builder.finish();
            assert!(body.chunks().len() <= 2 * (body.len() / CHUNK) + 1);
        }
        assert!(body.len() > 2 << 20);
    }
}
