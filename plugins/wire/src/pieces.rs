//! Bodies in pieces: each body repeats the encoded messages of the last one, as far as the history
//! has only grown.

use mswea_sdk::body_pieces::{Piece, Span};

/// The part of the encoded messages that is unchanged in the last body.
#[derive(Clone, Copy, Debug)]
pub struct Unchanged {
    /// Where the messages begin in the last body.
    pub at: usize,
    /// How many of their bytes, from the first on, are the same.
    pub len: usize,
}

/// A body that was written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The new bytes.
    pub(crate) fresh: Vec<u8>,
    /// The range of the last body that is kept, and its place in `fresh`.
    pub(crate) kept: Option<Kept>,
    /// The start of the messages in the body; none if the body has no messages of this plugin.
    pub(crate) messages_at: Option<usize>,
}

/// Bytes of the last body.
#[derive(Debug, PartialEq, Eq)]
pub struct Kept {
    /// The number of new bytes before the messages.
    pub(crate) behind: usize,
    /// The index of the first of them in the last body.
    pub(crate) start: usize,
    /// How many there are.
    pub(crate) len: usize,
}

impl Written {
    /// How many bytes the body has.
    pub fn size(&self) -> usize {
        self.fresh.len() + self.kept.as_ref().map_or(0, |kept| kept.len)
    }

    /// The body in pieces, for a host that has the last body.
    pub fn into_pieces(mut self) -> Vec<Piece> {
        let Some(kept) = self.kept else {
            return vec![Piece::Fresh(self.fresh)];
        };
        let rest = self.fresh.split_off(kept.behind);
        let span = Span {
            start: kept.start as u64,
            length: kept.len as u64,
        };
        vec![
            Piece::Fresh(self.fresh),
            Piece::Kept(span),
            Piece::Fresh(rest),
        ]
    }
}
