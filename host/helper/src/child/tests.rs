//! Tests of the start of programs.

use super::*;
use crate::sys;
use std::io::Read as _;
use std::os::fd::AsFd as _;

const WAYS: [CloneCall; 2] = [clone_without_handlers, |_, _| None];

extern "C" fn handler(_: libc::c_int) {}

/// The sets of signals that a child blocks, ignores and handles.
fn started_by(clone: CloneCall) -> Vec<u64> {
    let (mut reading, writing) = io::pipe().unwrap();
    let noted = StartNote::default();
    let pid = start_by(
        &ProcessSpec {
            program: c"/bin/grep",
            args: &[c"grep", c"-E", c"^Sig(Blk|Ign|Cgt)", c"/proc/self/status"],
            env: &[],
            cwd: Some(c"/"),
            descriptors: &[(writing.as_fd(), 1)],
            own_below: None,
            terminal: None,
            restored: &sys::signals([libc::SIGPIPE]),
            blocked: &sys::signals([libc::SIGHUP]),
            start: &noted,
        },
        clone,
    );
    assert_eq!(pid.as_ref().ok(), Some(&noted.pid()));
    drop(writing);
    let mut text = String::new();
    reading.read_to_string(&mut text).unwrap();
    // SAFETY: takes nothing by pointer.
    unsafe { libc::waitpid(pid.unwrap(), ptr::null_mut(), 0) };
    let sets = text.split_whitespace().skip(1).step_by(2);
    sets.map(|set| u64::from_str_radix(set, 16).unwrap())
        .collect()
}

#[test]
fn signals_of_a_child_are_the_same_in_either_way() {
    let bit = |signal: libc::c_int| 1_u64 << (signal - 1);
    let ignored = [libc::SIGPIPE, libc::SIGURG];
    // SAFETY: a function with the signature of handlers, which does nothing; no other test of this crate
    // looks at these signals.
    unsafe {
        for signal in ignored {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::signal(libc::SIGUSR2, handler as *const () as libc::sighandler_t);
    }
    for clone in WAYS {
        let sets = started_by(clone);
        assert_eq!(sets[0], bit(libc::SIGHUP));
        assert_eq!(sets[1] & bit(libc::SIGPIPE), 0);
        assert_ne!(sets[1] & bit(libc::SIGURG), 0);
        assert_eq!(sets[2] & bit(libc::SIGUSR2), 0);
    }
}

/// The file can be on a file system that does not answer.
#[test]
fn a_start_that_was_given_up_before_its_child_exists_opens_nothing() {
    for clone in WAYS {
        let noted = StartNote::default();
        assert_eq!(noted.give_up(), 0);
        let spec = ProcessSpec {
            program: c"/bin/true",
            args: &[c"true"],
            env: &[],
            cwd: Some(c"/no/such/folder"),
            descriptors: &[],
            own_below: None,
            terminal: None,
            restored: &sys::signals([]),
            blocked: &sys::signals([]),
            start: &noted,
        };
        let failed = start_by(&spec, clone).unwrap_err();
        assert_eq!(failed.stage, StartStage::Process);
        assert_eq!(failed.error.raw_os_error(), Some(libc::ECANCELED));
        assert_ne!(noted.pid(), 0);
    }
}

#[test]
fn what_is_refused_is_told_in_either_way() {
    for clone in WAYS {
        let spec = ProcessSpec {
            program: c"/no/such/program",
            args: &[c"x"],
            env: &[],
            cwd: None,
            descriptors: &[],
            own_below: None,
            terminal: None,
            restored: &sys::signals([]),
            blocked: &sys::signals([]),
            start: &StartNote::default(),
        };
        let failed = start_by(&spec, clone).unwrap_err();
        assert_eq!(failed.stage, StartStage::Program);
        assert_eq!(failed.error.kind(), io::ErrorKind::NotFound);
        let spec = ProcessSpec {
            cwd: Some(c"/no/such/folder"),
            ..spec
        };
        assert_eq!(
            start_by(&spec, clone).unwrap_err().stage,
            StartStage::Folder
        );
    }
}

/// As in an emulator of another processor.
#[test]
fn a_start_that_is_refused_with_a_part_of_the_table_is_tried_with_the_whole() {
    fn refusing(_: *mut u8, inside: &mut Inside<'_>) -> Option<libc::pid_t> {
        let is_refused = inside.spec.own_below.is_some();
        // SAFETY: the address of this thread's number of the last error.
        unsafe { *libc::__errno_location() = libc::EAGAIN };
        is_refused.then_some(-1)
    }
    let noted = StartNote::default();
    let spec = ProcessSpec {
        program: c"/bin/true",
        args: &[c"true"],
        env: &[],
        cwd: None,
        descriptors: &[],
        own_below: Some(64),
        terminal: None,
        restored: &sys::signals([]),
        blocked: &sys::signals([]),
        start: &noted,
    };
    let pid = start_by(&spec, refusing).unwrap();
    assert_eq!(noted.pid(), pid);
    // SAFETY: takes nothing by pointer.
    assert_eq!(unsafe { libc::waitpid(pid, ptr::null_mut(), 0) }, pid);
}

/// With a part of the table, the child sees nothing above it, and the parent's table is as it was.
#[test]
fn a_child_inherits_only_what_is_below() {
    let (mut reading, writing) = io::pipe().unwrap();
    // Not closed on exec: a child with the whole table would have it.
    // SAFETY: takes nothing by pointer.
    let above = unsafe { libc::fcntl(writing.as_raw_fd(), libc::F_DUPFD, 300) };
    assert_eq!(above, 300);
    for (clone, own_below) in WAYS
        .into_iter()
        .flat_map(|it| [(it, Some(200)), (it, None)])
    {
        let started = start_by(
            &ProcessSpec {
                program: c"/bin/sh",
                args: &[
                    c"sh",
                    c"-c",
                    c"[ -e /proc/self/fd/300 ] && echo whole || echo part",
                ],
                env: &[],
                cwd: None,
                descriptors: &[(writing.as_fd(), 1)],
                own_below,
                terminal: None,
                restored: &sys::signals([]),
                blocked: &sys::signals([]),
                start: &StartNote::default(),
            },
            clone,
        );
        let mut status = 0;
        // SAFETY: room for a status.
        unsafe { libc::waitpid(started.unwrap(), &raw mut status, 0) };
        let mut text = [0; 6];
        let count = reading.read(&mut text).unwrap();
        let expected = match own_below {
            Some(_) if !LACKS_TABLE.load(Ordering::Relaxed) => "part\n",
            _ => "whole\n",
        };
        assert_eq!(String::from_utf8_lossy(&text[..count]), expected);
        // SAFETY: takes nothing by pointer.
        assert!(unsafe { libc::fcntl(300, libc::F_GETFD) } >= 0);
    }
    // SAFETY: takes nothing by pointer.
    unsafe { libc::close(above) };
}
