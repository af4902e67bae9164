//! The HTTP interface between a client and a server of another machine's runtime.
//!
//! A session is a helper at the server, whose output and input are carried as bytes with offsets. A
//! connection that was lost is replaced by one that asks for the missing bytes: so each byte
//! arrives once and in order, and the helper does not notice.
//!
//! ```text
//! GET    /v1/alive                                    what the server is
//! POST   /v1/sessions                                 starts a helper: its id, and how long it is kept
//! GET    /v1/sessions/ID/output?from=OFFSET           its output from there on, as records
//! POST   /v1/sessions/ID/input?at=OFFSET&seen=OFFSET  adds input; output before `seen` is forgotten
//! DELETE /v1/sessions/ID                              ends it, with all processes
//! ```

use std::time::Duration;

/// The header of every answer; its value is the version of this interface.
pub const RUNTIME_HEADER: &str = "mswea-runtime";
/// The version of this interface.
pub const RUNTIME_VERSION: &str = "1";

/// The interval at which a server sends an empty record, and a client an empty request, if there is
/// no data.
pub const HEARTBEAT: Duration = Duration::from_secs(3);
/// A connection on which no byte came for this long is lost.
pub const LOST: Duration = Duration::from_secs(10);

/// The most bytes of output that a server keeps while the client has not confirmed them. Then it
/// reads no more of the helper's output.
pub const KEPT: usize = 4 << 20;
/// After how much output a client confirms it, in bytes.
pub(super) const CONFIRMED: u64 = (KEPT / 4) as u64;
/// The largest body of a request, in bytes.
pub const LARGEST_INPUT: usize = 1 << 20;
/// The most bytes of output in a record.
pub const LARGEST_RECORD: usize = 256 * 1024;

/// The bytes in front of a record's content: its length, big-endian.
pub const RECORD_HEAD: usize = 4;
/// The head of a record without content: the helper has ended.
pub const END: [u8; RECORD_HEAD] = [0xff; RECORD_HEAD];
/// A record without content: the connection lives.
pub const ALIVE: [u8; RECORD_HEAD] = [0; RECORD_HEAD];

/// The content of one record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamRecord {
    Output(usize),
    Alive,
    End,
}

/// The first record in `bytes`, if its head is complete. The content follows the head, and may be
/// incomplete.
///
/// # Errors
/// `()` if it is longer than any record may be.
pub(super) fn record(bytes: &[u8]) -> Result<Option<StreamRecord>, ()> {
    let Some(head) = bytes.first_chunk::<RECORD_HEAD>() else {
        return Ok(None);
    };
    match (*head, u32::from_be_bytes(*head) as usize) {
        (END, _) => Ok(Some(StreamRecord::End)),
        (_, 0) => Ok(Some(StreamRecord::Alive)),
        (_, length) if length <= LARGEST_RECORD => Ok(Some(StreamRecord::Output(length))),
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_told_by_their_heads() {
        for (bytes, expected) in [
            (&b""[..], Ok(None)),
            (b"\0\0\0", Ok(None)),
            (b"\0\0\0\0", Ok(Some(StreamRecord::Alive))),
            (b"\0\0\0\x03ab", Ok(Some(StreamRecord::Output(3)))),
            (
                b"\0\x04\0\0",
                Ok(Some(StreamRecord::Output(LARGEST_RECORD))),
            ),
            (b"\0\x04\0\x01", Err(())),
            (b"\xff\xff\xff\xff", Ok(Some(StreamRecord::End))),
            (b"HTTP", Err(())),
        ] {
            assert_eq!(record(bytes), expected, "{bytes:?}");
        }
    }
}
