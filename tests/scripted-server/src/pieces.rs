//! The pieces of a text that is streamed.

/// Characters of one delta in a stream.
const DELTA: usize = 24;

/// Cuts text into deltas, never within a character.
pub(crate) fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let end = text
            .char_indices()
            .nth(DELTA)
            .map_or(text.len(), |(index, _)| index);
        let (piece, rest) = text.split_at(end);
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}
