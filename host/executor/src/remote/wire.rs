//! What a client and a server of another machine's runtime say to each other over HTTP.
//!
//! A session is a helper at the server, whose output and input are carried as bytes with offsets. So
//! a connection that was lost is replaced by one that asks for the missing bytes: each byte arrives
//! once and in order, and the helper does not notice.
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

/// How often a server sends something, and a client asks something, also if there is nothing to say.
pub const HEARTBEAT: Duration = Duration::from_secs(3);
/// A connection on which nothing came for this long is lost.
pub const LOST: Duration = Duration::from_secs(10);

/// How much output a server keeps that the client has not confirmed, in bytes. It does not read more
/// of the helper's output before.
pub const KEPT: usize = 4 << 20;
/// After how much output a client confirms it, in bytes.
pub(super) const CONFIRMED: u64 = (KEPT / 4) as u64;
/// The largest body of a request, in bytes.
pub const LARGEST_INPUT: usize = 1 << 20;
/// The most bytes of output in a record.
pub const LARGEST_RECORD: usize = 256 * 1024;

/// The bytes in front of a record's content: its length, big-endian.
pub const RECORD_HEAD: usize = 4;
/// The head of a record without content that says that the helper has ended.
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

/// The first record in `bytes`, if its head is whole; its content follows the head, maybe not whole.
///
/// # Errors
/// If it is longer than any record.
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
