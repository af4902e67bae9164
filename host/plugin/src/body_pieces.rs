//! Bodies that an adapter passes in pieces: joins the new bytes and the bytes of the last body of
//! the same instance.

use std::ops::Range;

use wasmtime::Store;
use wasmtime::component::Instance as WasmInstance;

use super::bindings::adapter::AdapterKind;
use super::bindings::body_pieces::BodyPiecesAbility;
use super::bindings::body_pieces::exports::mswea::plugin::body_pieces::{Piece, Span};
use super::error::CallFailure;
use super::store::Guest;
use mswea_core::RequestBody;

/// The interface, as a component names it.
const INTERFACE: &str = "mswea:plugin/body-pieces@0.1.0";

/// The most pieces of one body.
const MOST_PIECES: usize = 1024;

/// The functions of an adapter.
pub struct AdapterExports {
    /// The kind of the adapter.
    pub adapter: AdapterKind,
    /// The interface `body-pieces`, if the adapter exports it.
    pub pieces: Option<BodyPiecesAbility>,
    /// The body of the last request that this instance returned; empty if the instance has no
    /// interface `body-pieces`. It is dropped with the instance, so no instance can refer to the
    /// body of another one.
    pub last: RequestBody,
}

impl AdapterExports {
    /// Finds the functions in an instance.
    ///
    /// # Errors
    /// When the kind is missing, or one of the two interfaces has other types than the contract.
    pub fn new(store: &mut Store<Guest>, instance: &WasmInstance) -> wasmtime::Result<Self> {
        let has_pieces = instance
            .get_export_index(&mut *store, None, INTERFACE)
            .is_some();
        let pieces = has_pieces.then(|| BodyPiecesAbility::new(&mut *store, instance));
        Ok(Self {
            adapter: AdapterKind::new(&mut *store, instance)?,
            pieces: pieces.transpose()?,
            last: RequestBody::default(),
        })
    }
}

/// Puts a body of at most `most` bytes together.
///
/// # Errors
/// When there are too many pieces or bytes, or `last` does not hold what a piece keeps.
pub fn join(
    last: &RequestBody,
    pieces: Vec<Piece>,
    most: usize,
) -> Result<RequestBody, CallFailure> {
    if pieces.len() > MOST_PIECES {
        return Err(CallFailure::Broken(format!(
            "a body in {} pieces, where {MOST_PIECES} are allowed",
            pieces.len()
        )));
    }
    let len = pieces.iter().fold(0, |len: usize, piece| {
        len.saturating_add(match piece {
            Piece::Fresh(bytes) => bytes.len(),
            Piece::Kept(span) => usize::try_from(span.length).unwrap_or(usize::MAX),
        })
    });
    let mut body = RequestBody::builder(len);
    let check = |so_far: usize, more: usize| match more <= most.saturating_sub(so_far) {
        true => Ok(()),
        false => Err(CallFailure::Output(most)),
    };
    for piece in pieces {
        match piece {
            Piece::Fresh(bytes) => {
                check(body.len(), bytes.len())?;
                body.add(&bytes);
            }
            Piece::Kept(span) => {
                let range = range(last, &span).ok_or_else(|| beyond(last, &span))?;
                check(body.len(), range.len())?;
                body.share(last, range);
            }
        }
    }
    Ok(body.finish())
}

/// The range of a span in the last body; `None` if the span exceeds the body.
fn range(last: &RequestBody, span: &Span) -> Option<Range<usize>> {
    let end = span.start.checked_add(span.length)?;
    let (start, end) = (span.start.try_into().ok()?, end.try_into().ok()?);
    (end <= last.len()).then_some(start..end)
}

fn beyond(last: &RequestBody, span: &Span) -> CallFailure {
    let Span { start, length } = span;
    CallFailure::Broken(match last.is_empty() {
        true => format!("it keeps {length} bytes of the last body, but there is no last body"),
        false => format!(
            "it keeps {length} bytes of the last body from byte {start} on, which has {} bytes",
            last.len()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(start: u64, length: u64) -> Piece {
        Piece::Kept(Span { start, length })
    }

    fn fresh(bytes: &str) -> Piece {
        Piece::Fresh(bytes.as_bytes().to_vec())
    }

    #[test]
    fn bodies_are_put_together_or_refused() {
        let last = RequestBody::from(b"0123456789".to_vec());
        let (all, most) = (u64::MAX, usize::MAX);
        let table = [
            (vec![], Ok("")),
            (vec![fresh("")], Ok("")),
            (
                vec![fresh("a"), kept(0, 10), fresh("b")],
                Ok("a0123456789b"),
            ),
            (vec![kept(7, 3), kept(0, 2), kept(10, 0)], Ok("78901")),
            (vec![kept(7, 4)], Err("from byte 7 on, which has 10 bytes")),
            (vec![kept(11, 0)], Err("from byte 11 on")),
            (vec![kept(all, 1)], Err("which has 10 bytes")),
            (vec![kept(1, all)], Err("which has 10 bytes")),
            (
                vec![kept(0, 1); MOST_PIECES + 1],
                Err("in 1025 pieces, where 1024"),
            ),
            (
                vec![kept(0, 10), kept(0, 2), fresh("abcd")],
                Err("more than"),
            ),
            (vec![kept(0, 10), kept(0, 7)], Err("more than")),
        ];
        for (pieces, expected) in table {
            let most = match expected {
                Err("more than") => 15,
                _ => most,
            };
            match (join(&last, pieces, most), expected) {
                (Ok(body), Ok(expected)) => assert_eq!(body.joined(), expected.as_bytes()),
                (Err(failure), Err(expected)) => {
                    let said = failure.describe("p", "pieces");
                    assert!(said.contains(expected), "{said}");
                }
                (came, expected) => panic!("{expected:?}, but {:?}", came.is_ok()),
            }
        }
        let none = join(&RequestBody::default(), vec![kept(0, 1)], most);
        let said = none.map(|_| ()).unwrap_err().describe("p", "pieces");
        assert!(said.contains("but there is no last body"), "{said}");
    }
}
