//! Descriptors with low numbers, for starts of processes.
//!
//! The kernel copies this process's table of descriptors for each process that it starts, and the new process closes
//! all of them but its own. With a hundred runs the table has more than a thousand entries. If all descriptors of the
//! new process have low numbers, it needs only the beginning of the table ([`ProcessSpec::own_below`]).
//!
//! [`ProcessSpec::own_below`]: mswea_helper::child::ProcessSpec::own_below

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use rustix::io::{DupFlags, dup3, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

/// The end of the low numbers.
pub(super) const LOW: u32 = 64;

/// The number of reserved descriptors: for starts at the same time, each of which needs one or two.
const RESERVED: usize = 16;

/// The reserved descriptors that no start uses now; each is one of `/dev/null`.
static FREE: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// `/dev/null`, for reading and writing.
pub(super) fn null() -> io::Result<BorrowedFd<'static>> {
    static NULL: OnceLock<File> = OnceLock::new();
    if let Some(file) = NULL.get() {
        return Ok(file.as_fd());
    }
    let file = File::options().read(true).write(true).open("/dev/null")?;
    Ok(NULL.get_or_init(|| file).as_fd())
}

fn free() -> MutexGuard<'static, Vec<OwnedFd>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_low(fd: BorrowedFd<'_>) -> bool {
    u32::try_from(fd.as_raw_fd()).is_ok_and(|number| number < LOW)
}

/// Reserves low numbers, the first time that it is called. It must be called before a program opens many files;
/// later, fewer numbers or none are low. The program must not close descriptors that it has not opened.
pub fn reserve_low_descriptors() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A shell may allow few descriptors, and then the table is short, too.
        let allowed = getrlimit(Resource::Nofile).current;
        let has_many = allowed.is_none_or(|allowed| allowed >= u64::from(8 * LOW));
        if !has_many {
            return;
        }
        let Ok(null) = null() else {
            return;
        };
        let reserved = (0..RESERVED).map_while(|_| fcntl_dupfd_cloexec(null, 3).ok());
        free().extend(reserved.take_while(|fd| is_low(fd.as_fd())));
    });
}

/// The descriptors of a process that is being started, some of them copied to low numbers while this exists.
pub(super) struct LowDescriptors {
    copies: Vec<OwnedFd>,
    /// For each descriptor of the process, which of the copies it is; none if it has a low number itself.
    places: Vec<Option<usize>>,
}

impl LowDescriptors {
    /// None if no low number is free.
    pub(super) fn of(descriptors: &[(BorrowedFd<'_>, i32)]) -> Option<Self> {
        let mut low = Self {
            copies: Vec::new(),
            places: Vec::with_capacity(descriptors.len()),
        };
        let mut sources: Vec<i32> = Vec::new();
        for (fd, _) in descriptors {
            let number = fd.as_raw_fd();
            let known = sources.iter().position(|it| *it == number);
            low.places.push(match (is_low(*fd), known) {
                (true, _) => None,
                (false, Some(at)) => Some(at),
                (false, None) => {
                    let mut copy = free().pop()?;
                    let copied = dup3(fd, &mut copy, DupFlags::CLOEXEC);
                    sources.push(number);
                    low.copies.push(copy);
                    copied.ok()?;
                    Some(low.copies.len() - 1)
                }
            });
        }
        Some(low)
    }

    /// The descriptors, each with a low number of this process and the number that it has in the new one.
    pub(super) fn of_process<'a>(
        &'a self,
        descriptors: &'a [(BorrowedFd<'a>, i32)],
    ) -> Vec<(BorrowedFd<'a>, i32)> {
        let places = descriptors.iter().zip(&self.places);
        let low = places.map(|((fd, number), place)| match place {
            Some(at) => (self.copies[*at].as_fd(), *number),
            None => (*fd, *number),
        });
        low.collect()
    }
}

impl Drop for LowDescriptors {
    fn drop(&mut self) {
        let Ok(null) = null() else {
            return;
        };
        for mut copy in self.copies.drain(..) {
            // Otherwise the copy of a pipe would keep it open.
            if dup3(null, &mut copy, DupFlags::CLOEXEC).is_ok() {
                free().push(copy);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, pipe};

    #[test]
    fn descriptors_get_low_numbers_for_a_while() {
        reserve_low_descriptors();
        let (mut reading, writing) = pipe().unwrap();
        let high = fcntl_dupfd_cloexec(&writing, 300).unwrap();
        drop(writing);
        let null = null().unwrap();
        for _ in 0..3 {
            let descriptors = [(null, 0), (high.as_fd(), 1), (high.as_fd(), 2)];
            let Some(low) = LowDescriptors::of(&descriptors) else {
                panic!("the other tests of this program use few descriptors");
            };
            let given = low.of_process(&descriptors);
            assert!(given.iter().all(|(fd, _)| is_low(*fd)), "{given:?}");
            assert_eq!(given.iter().map(|it| it.1).collect::<Vec<_>>(), [0, 1, 2]);
            assert_eq!(given[1].0.as_raw_fd(), given[2].0.as_raw_fd());
            rustix::io::write(given[2].0, b"x").unwrap();
        }
        drop(high);
        // The copies of the writing end are gone.
        let mut text = String::new();
        reading.read_to_string(&mut text).unwrap();
        assert_eq!(text, "xxx");
    }
}
