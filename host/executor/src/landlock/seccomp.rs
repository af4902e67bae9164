//! A filter of system calls, for what Landlock does not control: UNIX sockets, set-user-id bits and
//! the input of terminals.
//!
//! A filter gets a call's numbers and not the memory that its pointers point to. So it can't
//! distinguish sockets by path: to keep a command from services, it has to refuse all UNIX sockets
//! except the two connected ends of `socketpair`. Datagram pairs are refused too, because their
//! ends can be connected again, or send to any path.

use std::io;

/// The permissions of a process besides those for files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    /// Whether it may make UNIX sockets.
    pub(super) sockets: bool,
}

/// A kind of machine code that a processor runs: the kernel's number for it, and its numbers of
/// calls.
struct Machine {
    /// `AUDIT_ARCH_*`.
    arch: u32,
    /// Calls from this number on belong to another kind with the same `arch`.
    end: Option<u32>,
    socket: u32,
    socketpair: u32,
    /// For old 32-bit programs: one call for all socket operations, with the arguments in memory.
    socketcall: Option<u32>,
    chmod: Option<u32>,
    fchmod: u32,
    fchmodat: u32,
    ioctl: u32,
}

/// Numbers that are the same for every machine.
const IO_URING_SETUP: u32 = 425;
const FCHMODAT2: u32 = 452;

/// The request of `ioctl` that inserts a character into the input of a terminal.
const TIOCSTI: u32 = 0x5412;
/// The request that does it on consoles, by pasting a selection.
const TIOCLINUX: u32 = 0x541c;

/// The numbers of `socket` and `socketpair` in `socketcall`.
const SOCKETCALL: [u32; 2] = [1, 8];

/// The kinds of datagram sockets are 2 and 3, below the flags.
const KIND: u32 = 0xe;
const DATAGRAMS: u32 = 2;

/// The code that this processor runs: its own, and that of its 32-bit predecessor.
#[cfg(target_arch = "x86_64")]
const MACHINES: &[Machine] = &[
    Machine {
        arch: 0xc000_003e,
        // The calls of x32.
        end: Some(0x4000_0000),
        socket: 41,
        socketpair: 53,
        socketcall: None,
        chmod: Some(90),
        fchmod: 91,
        fchmodat: 268,
        ioctl: 16,
    },
    Machine {
        arch: 0x4000_0003,
        end: None,
        socket: 359,
        socketpair: 360,
        socketcall: Some(102),
        chmod: Some(15),
        fchmod: 94,
        fchmodat: 306,
        ioctl: 54,
    },
];
#[cfg(target_arch = "aarch64")]
const MACHINES: &[Machine] = &[
    Machine {
        arch: 0xc000_00b7,
        end: None,
        socket: 198,
        socketpair: 199,
        socketcall: None,
        chmod: None,
        fchmod: 52,
        fchmodat: 53,
        ioctl: 29,
    },
    Machine {
        arch: 0x4000_0028,
        end: None,
        socket: 281,
        socketpair: 288,
        socketcall: None,
        chmod: Some(15),
        fchmod: 94,
        fchmodat: 333,
        ioctl: 54,
    },
];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINES: &[Machine] = &[];

/// Where the kernel stores what a filter may read: the call's number, the machine, and the lower
/// halves of its arguments.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const fn argument(place: u32) -> u32 {
    let lower = if cfg!(target_endian = "big") { 4 } else { 0 };
    16 + 8 * place + lower
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const IF_BITS: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const MASK: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;

/// The condition under which a call is refused.
enum When {
    Always,
    /// The argument at this index is this number.
    Equals(u32, u32),
    /// The bits of this mask in the argument at this index are this number.
    Masked(u32, u32, u32),
    /// The argument at this index has one of these bits.
    Has(u32, u32),
}

/// Applies the filter to this process, and to everything that it starts from now on. The process
/// must have set `no_new_privs` before, which Landlock requires too.
///
/// # Errors
/// A message if the kernel has no filters, or there is none for its processor.
pub(super) fn enforce(allowed: Allowed) -> Result<(), String> {
    if MACHINES.is_empty() {
        return Err(format!(
            "there is no filter of system calls for `{}`",
            std::env::consts::ARCH
        ));
    }
    let mut program = program(allowed);
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).expect("invariant: a few dozen instructions"),
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel copies the program, which exists during the call.
    let code = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::c_ulong::from(libc::SECCOMP_MODE_FILTER),
            &raw const filter,
        )
    };
    if code == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(format!(
        "the kernel takes no filter of system calls: {error}; it needs `CONFIG_SECCOMP_FILTER`, \
         and whatever is around this process (gVisor, an old container engine) has to let it"
    ))
}

/// The filter: for each machine the refused calls, and their errors.
fn program(allowed: Allowed) -> Vec<libc::sock_filter> {
    let sections: Vec<_> = MACHINES
        .iter()
        .map(|machine| (machine.arch, section(machine, allowed)))
        .collect();
    let mut program = vec![step(LOAD, ARCH)];
    for (arch, section) in sections {
        program.push(unless(IF_EQUAL, arch, section.len()));
        program.extend(section);
    }
    // Machine code of an unknown kind.
    program.push(refuse(libc::ENOSYS));
    program
}

/// The rules for the code of one machine; they end in an answer.
fn section(machine: &Machine, allowed: Allowed) -> Vec<libc::sock_filter> {
    const AF_UNIX: u32 = libc::AF_UNIX as u32;
    let mut calls = vec![
        // Characters that they insert into another terminal are run there.
        (machine.ioctl, When::Equals(1, TIOCSTI), libc::EPERM),
        (machine.ioctl, When::Equals(1, TIOCLINUX), libc::EPERM),
        (machine.fchmod, When::Has(1, libc::S_ISUID), libc::EPERM),
        (machine.fchmodat, When::Has(2, libc::S_ISUID), libc::EPERM),
        (FCHMODAT2, When::Has(2, libc::S_ISUID), libc::EPERM),
    ];
    if let Some(chmod) = machine.chmod {
        calls.push((chmod, When::Has(1, libc::S_ISUID), libc::EPERM));
    }
    if !allowed.sockets {
        let datagrams = When::Masked(1, KIND, DATAGRAMS);
        calls.push((machine.socket, When::Equals(0, AF_UNIX), libc::EACCES));
        calls.push((machine.socketpair, datagrams, libc::EACCES));
        // It can make and connect sockets without calls for that.
        calls.push((IO_URING_SETUP, When::Always, libc::EPERM));
        if let Some(socketcall) = machine.socketcall {
            for call in SOCKETCALL {
                calls.push((socketcall, When::Equals(0, call), libc::EACCES));
            }
        }
    }
    let mut section = vec![step(LOAD, NUMBER)];
    if let Some(end) = machine.end {
        section.push(unless(IF_AT_LEAST, end, 1));
        section.push(refuse(libc::ENOSYS));
    }
    for (number, when, error) in calls {
        let rule = match when {
            When::Always => vec![refuse(error)],
            When::Equals(place, value) => tested(place, u32::MAX, IF_EQUAL, value, error),
            When::Masked(place, mask, value) => tested(place, mask, IF_EQUAL, value, error),
            When::Has(place, bits) => tested(place, u32::MAX, IF_BITS, bits, error),
        };
        section.push(unless(IF_EQUAL, number, rule.len()));
        section.extend(rule);
    }
    section.push(step(RETURN, libc::SECCOMP_RET_ALLOW));
    section
}

/// Refuses if the argument passes the test; leaves the number of the call to the next rule, which
/// may be about the same call.
fn tested(place: u32, mask: u32, test: u32, value: u32, error: i32) -> Vec<libc::sock_filter> {
    vec![
        step(LOAD, argument(place)),
        step(MASK, mask),
        unless(test, value, 1),
        refuse(error),
        step(LOAD, NUMBER),
    ]
}

fn refuse(error: i32) -> libc::sock_filter {
    step(RETURN, libc::SECCOMP_RET_ERRNO | error.unsigned_abs())
}

/// Skips the next `count` instructions unless the test is true.
fn unless(test: u32, value: u32, count: usize) -> libc::sock_filter {
    libc::sock_filter {
        jf: u8::try_from(count).expect("invariant: a section has a few dozen instructions"),
        ..step(test, value)
    }
}

fn step(code: u32, value: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: u16::try_from(code).expect("invariant: the codes of a filter have 16 bits"),
        jt: 0,
        jf: 0,
        k: value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter program, as far as this file uses its instructions.
    fn answer(program: &[libc::sock_filter], data: &dyn Fn(u32) -> u32) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = program[at];
            let (code, value) = (u32::from(step.code), step.k);
            let holds = match code {
                LOAD => {
                    loaded = data(value);
                    true
                }
                MASK => {
                    loaded &= value;
                    true
                }
                RETURN => return value,
                IF_EQUAL => loaded == value,
                IF_AT_LEAST => loaded >= value,
                IF_BITS => loaded & value != 0,
                _ => unreachable!("{code:#x}"),
            };
            at += 1 + usize::from(if holds { step.jt } else { step.jf });
        }
    }

    #[test]
    fn calls_of_every_machine_are_judged() {
        let allow = libc::SECCOMP_RET_ALLOW;
        let refused = |error: i32| libc::SECCOMP_RET_ERRNO | error.unsigned_abs();
        let unix = libc::AF_UNIX.unsigned_abs();
        for machine in MACHINES {
            // Number, arguments, and the answers with UNIX sockets and without.
            let mut vectors = vec![
                (machine.socket, [unix, 1, 0], allow, refused(libc::EACCES)),
                (machine.socket, [2, 1, 0], allow, allow),
                (machine.socketpair, [unix, 0o2_000_001, 0], allow, allow),
                (machine.socketpair, [unix, 5, 0], allow, allow),
                (
                    machine.socketpair,
                    [unix, 0o2_000_002, 0],
                    allow,
                    refused(libc::EACCES),
                ),
                (
                    machine.socketpair,
                    [unix, 3, 0],
                    allow,
                    refused(libc::EACCES),
                ),
                (machine.fchmod, [3, 0o755, 0], allow, allow),
                (machine.fchmod, [3, 0o2755, 0], allow, allow),
                (FCHMODAT2, [3, 0, 0o755], allow, allow),
                (machine.ioctl, [3, 0x5401, 0], allow, allow),
                (IO_URING_SETUP, [8, 0, 0], allow, refused(libc::EPERM)),
                (0, [0; 3], allow, allow),
            ];
            let numbers = [
                (machine.fchmod, [3, 0o104_755, 0]),
                (machine.fchmodat, [3, 0, 0o4000]),
                (FCHMODAT2, [3, 0, 0o6755]),
                (machine.ioctl, [3, TIOCSTI, 0]),
                (machine.ioctl, [3, TIOCLINUX, 0]),
            ];
            let chmod = machine.chmod.map(|number| (number, [0, 0o4755, 0]));
            let socketcall = machine.socketcall.map(|number| (number, [1, 0, 0]));
            for (number, arguments) in numbers.into_iter().chain(chmod) {
                let eperm = refused(libc::EPERM);
                vectors.push((number, arguments, eperm, eperm));
            }
            if let Some((number, arguments)) = socketcall {
                vectors.push((number, arguments, allow, refused(libc::EACCES)));
                vectors.push((number, [8, 0, 0], allow, refused(libc::EACCES)));
                vectors.push((number, [3, 0, 0], allow, allow));
            }
            if let Some(end) = machine.end {
                let enosys = refused(libc::ENOSYS);
                vectors.push((end + machine.socket, [unix, 1, 0], enosys, enosys));
            }
            for (number, arguments, with, without) in vectors {
                for (sockets, wanted) in [(true, with), (false, without)] {
                    let data = |offset: u32| match offset {
                        NUMBER => number,
                        ARCH => machine.arch,
                        _ => (0..3)
                            .find(|place| argument(*place) == offset)
                            .map_or(0, |place| arguments[place as usize]),
                    };
                    let found = answer(&program(Allowed { sockets }), &data);
                    let arch = machine.arch;
                    assert_eq!(found, wanted, "{arch:#x} {number} {arguments:?} {sockets}");
                }
            }
        }
        let program = program(Allowed { sockets: true });
        let found = answer(&program, &|offset| if offset == ARCH { 1 } else { 0 });
        assert_eq!(found, refused(libc::ENOSYS));
    }
}
