//! Request bodies in pieces: an optional interface for adapters, whose requests repeat most of the
//! last one.

use crate::adapter::Adapter;
use crate::bindings::body_pieces::exports::mswea::plugin::body_pieces as wit;
use crate::plugin::Holder;

pub use wit::{Piece, Span};

/// Passes the body of a request in pieces, and refers to bytes of the last body in place of
/// repeating them. Export it beside the adapter: `export!(adapter: Mine, body_pieces: Mine)`.
///
/// `offer` comes before a `query` that may pass its body in pieces: its request then has an empty
/// `body`, and `pieces` returns the body. Without an `offer`, `query` returns the whole body. The
/// bytes must be the same in both cases.
pub trait BodyPieces: Adapter {
    /// Allows the next query to pass its body in pieces. `held` is the length in bytes of the last
    /// body, which the host has kept; 0 if it has none. If the adapter's own length of the last
    /// body differs, it must not refer to it.
    fn offer(&mut self, held: u64);

    /// The body of the request that the query has returned.
    fn pieces(&mut self) -> Vec<Piece>;
}

impl<H: Holder> wit::Guest for H
where
    H::Instance: BodyPieces,
{
    // Neither can report that the instance is missing; `query` does.
    fn offer(held: u64) {
        let _ = H::with(|adapter| adapter.offer(held));
    }

    fn pieces() -> Vec<Piece> {
        H::with(BodyPieces::pieces).unwrap_or_default()
    }
}
