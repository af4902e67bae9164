//! The sessions for the guardian, in memory that it shares with the host.
//!
//! There is a new session in every step. Sent through a pipe, it would wake the guardian each time,
//! which costs more than all other bookkeeping of a step; here it is one small write, and the
//! guardian reads the table once, when the host is gone.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::MemfdFlags;

use mswea_helper::processes::Session;

/// Bytes of an entry: number, padding, start.
const ENTRY: usize = 16;

/// The host's side.
#[derive(Debug)]
pub(super) struct SessionTable {
    memory: OwnedFd,
    /// Entries that may be in use.
    used: usize,
}

impl SessionTable {
    /// # Errors
    /// [`io::Error`] if the kernel can't make such memory.
    pub(super) fn new() -> io::Result<Self> {
        let memory = rustix::fs::memfd_create("mswea-sessions", MemfdFlags::CLOEXEC)?;
        Ok(Self { memory, used: 0 })
    }

    /// The memory, which the guardian inherits.
    pub(super) fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Adds `session` after the others.
    pub(super) fn add(&mut self, session: Session) -> io::Result<()> {
        self.write(self.used, &entry(session))?;
        self.used += 1;
        Ok(())
    }

    /// Keeps only `sessions`, a part of those that were added, in the same order.
    ///
    /// If the host is killed in the middle, each of them is still in the table: entries only move
    /// to the front, so an entry's new place is written before its old one is overwritten.
    pub(super) fn keep(&mut self, sessions: &[Session]) -> io::Result<()> {
        let mut bytes: Vec<u8> = sessions.iter().copied().flat_map(entry).collect();
        bytes.resize(self.used.max(sessions.len()) * ENTRY, 0);
        self.write(0, &bytes)?;
        self.used = sessions.len();
        Ok(())
    }

    fn write(&self, position: usize, mut bytes: &[u8]) -> io::Result<()> {
        let mut offset = (position * ENTRY) as u64;
        while !bytes.is_empty() {
            let written = rustix::io::pwrite(&self.memory, bytes, offset)?;
            bytes = &bytes[written..];
            offset += written as u64;
        }
        Ok(())
    }
}

fn entry(session: Session) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[..4].copy_from_slice(&session.id.to_le_bytes());
    entry[8..].copy_from_slice(&session.start.to_le_bytes());
    entry
}

/// The guardian's side: the sessions in `memory`, at any file position.
pub(super) fn read(memory: BorrowedFd<'_>) -> io::Result<Vec<Session>> {
    let mut bytes = Vec::new();
    loop {
        bytes.reserve(1 << 16);
        let offset = bytes.len() as u64;
        let space = rustix::buffer::spare_capacity(&mut bytes);
        if rustix::io::pread(memory, space, offset)? == 0 {
            break;
        }
    }
    let number = |part: &[u8]| part.iter().rev().fold(0_u64, |n, b| n << 8 | u64::from(*b));
    Ok(bytes
        .chunks_exact(ENTRY)
        .filter_map(|entry| {
            Some(Session {
                // 0 is an empty entry, 1 the system's own session.
                id: i32::try_from(number(&entry[..4]))
                    .ok()
                    .filter(|id| *id > 1)?,
                start: number(&entry[8..]),
            })
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_sessions_are_the_ones_that_are_read() {
        let session = |id| Session {
            id,
            start: u64::MAX - u64::from(id.unsigned_abs()),
        };
        let mut table = SessionTable::new().unwrap();
        let read = |table: &SessionTable| read(table.memory()).unwrap();
        assert_eq!(read(&table), []);
        for id in 2..10_000 {
            table.add(session(id)).unwrap();
        }
        assert_eq!(read(&table).len(), 9_998);
        table.keep(&[session(3), session(i32::MAX)]).unwrap();
        assert_eq!(read(&table), [session(3), session(i32::MAX)]);
        table.add(session(7)).unwrap();
        assert_eq!(read(&table), [session(3), session(i32::MAX), session(7)]);
        table.keep(&[]).unwrap();
        assert_eq!(read(&table), []);
    }
}
