//! A filter of system calls, for what Landlock does not control: UNIX sockets, sockets that no network
//! namespace contains, set-user-id bits, the input of terminals, and calls that change another process (its
//! limits, priority and processors).
//!
//! A filter gets a call's numbers and not the memory that its pointers point to. So it can't
//! distinguish sockets by path: to keep a command from services, it has to refuse all UNIX sockets
//! except the two connected ends of `socketpair`. Datagram pairs are refused too, because their
//! ends can be connected again, or send to any path. Nor does it know which process a number belongs to: of
//! the calls that take one it allows only 0, the caller. Signals, and all that requires the right to debug a
//! process (`ptrace`, `process_vm_writev`, `pidfd_getfd`, `move_pages`, `kcmp`, ...), are Landlock's.

use std::io;

/// What a process may not do, besides what Landlock refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RefusedCalls {
    /// To set set-user-id bits, and to type into other terminals.
    pub(super) modes: bool,
    /// To make UNIX sockets.
    pub(super) sockets: bool,
    /// To make sockets that reach further than its network namespace.
    pub(super) networks: bool,
    /// To change the limits, the priority and the processors of other processes.
    pub(super) processes: bool,
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
    /// The calls whose first argument is the process that they change: `prlimit64`, `sched_setparam`,
    /// `sched_setscheduler`, `sched_setaffinity`, `sched_setattr`.
    of_process: [u32; 5],
    /// The calls with a kind (a process, a group, a user) and its number: `setpriority`, `ioprio_set`.
    of_kind: [u32; 2],
    perf_event_open: u32,
    keyctl: u32,
}

/// Numbers that are the same for every machine.
const IO_URING_SETUP: u32 = 425;
const FCHMODAT2: u32 = 452;
/// They name a process by a descriptor. Of root, they do not require the right to debug it.
const OF_DESCRIPTOR: [u32; 2] = [PROCESS_MADVISE, PROCESS_MRELEASE];
const PROCESS_MADVISE: u32 = 440;
const PROCESS_MRELEASE: u32 = 448;

/// The request of `ioctl` that inserts a character into the input of a terminal.
const TIOCSTI: u32 = 0x5412;
/// The request that does it on consoles, by pasting a selection.
const TIOCLINUX: u32 = 0x541c;

/// The numbers of `socket` and `socketpair` in `socketcall`.
const SOCKETCALL: [u32; 2] = [1, 8];

/// The families of sockets that a network namespace contains, or that reach no other machine: `AF_UNIX`,
/// `AF_INET`, `AF_INET6`, `AF_NETLINK`, `AF_PACKET`, `AF_ALG`. Others (`AF_VSOCK`, `AF_QIPCRTR`, ...) reach
/// further.
const CONTAINED: &[u32] = &[1, 2, 10, 16, 17, 38];

/// The kind of `setpriority` and `ioprio_set` for all processes of a user, by their numbers.
const OF_USER: [u32; 2] = [2, 3];
/// The flag of `perf_event_open` with which its process is a descriptor of a control group.
const PERF_FLAG_PID_CGROUP: u32 = 4;
/// The operation of `keyctl` that replaces the keyring of the parent.
const KEYCTL_SESSION_TO_PARENT: u32 = 18;

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
        of_process: [302, 142, 144, 203, 314],
        of_kind: [141, 251],
        perf_event_open: 298,
        keyctl: 250,
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
        of_process: [340, 154, 156, 241, 351],
        of_kind: [97, 289],
        perf_event_open: 336,
        keyctl: 288,
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
        of_process: [261, 118, 119, 122, 274],
        of_kind: [140, 30],
        perf_event_open: 241,
        keyctl: 219,
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
        of_process: [369, 154, 156, 241, 380],
        of_kind: [97, 314],
        perf_event_open: 364,
        keyctl: 311,
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
    /// The argument at this index is none of these numbers.
    NoneOf(u32, &'static [u32]),
}

/// The condition that the argument at this index is not 0.
const fn is_not_zero(place: u32) -> When {
    When::Has(place, u32::MAX)
}

/// Applies the filter to this process, and to everything that it starts from now on. The process
/// must have set `no_new_privs` before, which Landlock requires too.
///
/// # Errors
/// A message if the kernel has no filters, or there is none for its processor.
pub(super) fn enforce(refused: RefusedCalls) -> Result<(), String> {
    if MACHINES.is_empty() {
        return Err(format!(
            "there is no filter of system calls for `{}`",
            std::env::consts::ARCH
        ));
    }
    let mut program = program(refused);
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).expect("invariant: a few hundred instructions"),
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
fn program(refused: RefusedCalls) -> Vec<libc::sock_filter> {
    let sections: Vec<_> = MACHINES
        .iter()
        .map(|machine| (machine.arch, section(machine, refused)))
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
fn section(machine: &Machine, refused: RefusedCalls) -> Vec<libc::sock_filter> {
    const AF_UNIX: u32 = libc::AF_UNIX as u32;
    let mut calls = Vec::new();
    if refused.modes {
        // Characters that they insert into another terminal are run there.
        calls.push((machine.ioctl, When::Equals(1, TIOCSTI), libc::EPERM));
        calls.push((machine.ioctl, When::Equals(1, TIOCLINUX), libc::EPERM));
        let chmod = machine.chmod.map(|number| (number, 1));
        let others = [(machine.fchmod, 1), (machine.fchmodat, 2), (FCHMODAT2, 2)];
        for (number, place) in others.into_iter().chain(chmod) {
            calls.push((number, When::Has(place, libc::S_ISUID), libc::EPERM));
        }
    }
    if refused.processes {
        for number in machine.of_process {
            calls.push((number, is_not_zero(0), libc::EPERM));
        }
        for (number, user) in machine.of_kind.into_iter().zip(OF_USER) {
            calls.push((number, When::Equals(0, user), libc::EPERM));
            calls.push((number, is_not_zero(1), libc::EPERM));
        }
        // For root it is no question of the right to debug; and it can send a signal.
        let perf = machine.perf_event_open;
        calls.push((perf, is_not_zero(1), libc::EPERM));
        calls.push((perf, When::Has(4, PERF_FLAG_PID_CGROUP), libc::EPERM));
        for number in OF_DESCRIPTOR {
            calls.push((number, When::Always, libc::EPERM));
        }
        let parent = When::Equals(0, KEYCTL_SESSION_TO_PARENT);
        calls.push((machine.keyctl, parent, libc::EPERM));
    }
    if refused.sockets {
        let datagrams = When::Masked(1, KIND, DATAGRAMS);
        calls.push((machine.socket, When::Equals(0, AF_UNIX), libc::EACCES));
        calls.push((machine.socketpair, datagrams, libc::EACCES));
    }
    if refused.networks {
        for number in [machine.socket, machine.socketpair] {
            calls.push((number, When::NoneOf(0, CONTAINED), libc::EAFNOSUPPORT));
        }
    }
    if refused.sockets || refused.networks {
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
            When::NoneOf(place, values) => unlisted(place, values, error),
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

/// Refuses if the argument is none of `values`; leaves the number of the call, too.
fn unlisted(place: u32, values: &[u32], error: i32) -> Vec<libc::sock_filter> {
    let mut rule = vec![step(LOAD, argument(place))];
    rule.extend(values.iter().enumerate().map(|(index, value)| {
        // Over the remaining values and the refusal.
        let skipped = u8::try_from(values.len() - index);
        libc::sock_filter {
            jt: skipped.expect("invariant: a list has a few values"),
            ..step(IF_EQUAL, *value)
        }
    }));
    rule.extend([refuse(error), step(LOAD, NUMBER)]);
    rule
}

fn refuse(error: i32) -> libc::sock_filter {
    step(RETURN, libc::SECCOMP_RET_ERRNO | error.unsigned_abs())
}

/// Skips the next `count` instructions unless the test is true.
fn unless(test: u32, value: u32, count: usize) -> libc::sock_filter {
    libc::sock_filter {
        jf: u8::try_from(count).expect("invariant: a section has less than 256 instructions"),
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

    /// What refuses a call of a vector.
    #[derive(Clone, Copy, PartialEq)]
    enum By {
        Nothing,
        Modes(i32),
        Sockets(i32),
        Networks(i32),
        /// Either of these two.
        SocketsOrNetworks(i32),
        Processes(i32),
        Everything(i32),
    }

    #[test]
    fn calls_of_every_machine_are_judged() {
        use By::*;
        let unix = libc::AF_UNIX.unsigned_abs();
        let (perm, access) = (libc::EPERM, libc::EACCES);
        for machine in MACHINES {
            let pair = machine.socketpair;
            let perf = machine.perf_event_open;
            let [nice, ioprio] = machine.of_kind;
            let mut vectors = vec![
                (machine.socket, [unix, 1, 0, 0, 0], Sockets(access)),
                (machine.socket, [2, 1, 0, 0, 0], Nothing),
                (machine.socket, [10, 2, 0, 0, 0], Nothing),
                (machine.socket, [38, 5, 0, 0, 0], Nothing),
                (pair, [unix, 0o2_000_001, 0, 0, 0], Nothing),
                (pair, [unix, 5, 0, 0, 0], Nothing),
                (pair, [unix, 0o2_000_002, 0, 0, 0], Sockets(access)),
                (pair, [unix, 3, 0, 0, 0], Sockets(access)),
                (pair, [30, 1, 0, 0, 0], Networks(libc::EAFNOSUPPORT)),
                (machine.fchmod, [3, 0o755, 0, 0, 0], Nothing),
                (machine.fchmod, [3, 0o2755, 0, 0, 0], Nothing),
                (FCHMODAT2, [3, 0, 0o755, 0, 0], Nothing),
                (machine.ioctl, [3, 0x5401, 0, 0, 0], Nothing),
                (IO_URING_SETUP, [8, 0, 0, 0, 0], SocketsOrNetworks(perm)),
                (0, [0; 5], Nothing),
                (machine.fchmod, [3, 0o104_755, 0, 0, 0], Modes(perm)),
                (machine.fchmodat, [3, 0, 0o4000, 0, 0], Modes(perm)),
                (FCHMODAT2, [3, 0, 0o6755, 0, 0], Modes(perm)),
                (machine.ioctl, [3, TIOCSTI, 0, 0, 0], Modes(perm)),
                (machine.ioctl, [3, TIOCLINUX, 0, 0, 0], Modes(perm)),
                // Processes and their groups: its own.
                (nice, [0, 0, 5, 0, 0], Nothing),
                (nice, [1, 0, 5, 0, 0], Nothing),
                (nice, [0, 77, 5, 0, 0], Processes(perm)),
                (nice, [1, 77, 5, 0, 0], Processes(perm)),
                (nice, [2, 0, 5, 0, 0], Processes(perm)),
                (ioprio, [1, 0, 5, 0, 0], Nothing),
                (ioprio, [2, 0, 5, 0, 0], Nothing),
                (ioprio, [1, 77, 5, 0, 0], Processes(perm)),
                (ioprio, [3, 0, 5, 0, 0], Processes(perm)),
                (perf, [9, 0, u32::MAX, u32::MAX, 8], Nothing),
                (perf, [9, 77, 0, u32::MAX, 8], Processes(perm)),
                (perf, [9, u32::MAX, 0, u32::MAX, 8], Processes(perm)),
                (perf, [9, 0, 0, u32::MAX, 4], Processes(perm)),
                (PROCESS_MADVISE, [5, 0, 0, 20, 0], Processes(perm)),
                (PROCESS_MRELEASE, [5, 0, 0, 0, 0], Processes(perm)),
                (machine.keyctl, [0, 0, 0, 0, 0], Nothing),
                (machine.keyctl, [18, 0, 0, 0, 0], Processes(perm)),
            ];
            for family in [40, 42, 31, 21, 43, 0, u32::MAX] {
                let refused = Networks(libc::EAFNOSUPPORT);
                vectors.push((machine.socket, [family, 1, 0, 0, 0], refused));
            }
            for number in machine.of_process {
                vectors.push((number, [0, 7, 1, 1, 0], Nothing));
                vectors.push((number, [77, 7, 1, 1, 0], Processes(perm)));
                vectors.push((number, [u32::MAX, 7, 1, 1, 0], Processes(perm)));
            }
            if let Some(number) = machine.chmod {
                vectors.push((number, [0, 0o4755, 0, 0, 0], Modes(perm)));
            }
            if let Some(number) = machine.socketcall {
                vectors.push((number, [1, 0, 0, 0, 0], SocketsOrNetworks(access)));
                vectors.push((number, [8, 0, 0, 0, 0], SocketsOrNetworks(access)));
                vectors.push((number, [3, 0, 0, 0, 0], Nothing));
            }
            if let Some(end) = machine.end {
                let other = Everything(libc::ENOSYS);
                vectors.push((end + machine.socket, [unix, 1, 0, 0, 0], other));
                vectors.push((end + machine.of_process[0], [0; 5], other));
            }
            for (number, arguments, by) in vectors {
                for bits in 0..16_u8 {
                    let has = |bit: u8| bits & (1 << bit) != 0;
                    let refused = RefusedCalls {
                        modes: has(0),
                        sockets: has(1),
                        networks: has(2),
                        processes: has(3),
                    };
                    let error = match by {
                        Modes(error) => Some(error).filter(|_| refused.modes),
                        Sockets(error) => Some(error).filter(|_| refused.sockets),
                        Networks(error) => Some(error).filter(|_| refused.networks),
                        SocketsOrNetworks(error) => {
                            Some(error).filter(|_| refused.sockets || refused.networks)
                        }
                        Processes(error) => Some(error).filter(|_| refused.processes),
                        Everything(error) => Some(error),
                        Nothing => None,
                    };
                    let wanted = error.map_or(libc::SECCOMP_RET_ALLOW, |error| {
                        libc::SECCOMP_RET_ERRNO | error.unsigned_abs()
                    });
                    let data = |offset: u32| match offset {
                        NUMBER => number,
                        ARCH => machine.arch,
                        _ => (0..5)
                            .find(|place| argument(*place) == offset)
                            .map_or(0, |place| arguments[place as usize]),
                    };
                    let found = answer(&program(refused), &data);
                    let arch = machine.arch;
                    assert_eq!(
                        found, wanted,
                        "{arch:#x} {number} {arguments:?} {refused:?}"
                    );
                }
            }
        }
        let program = program(RefusedCalls {
            modes: false,
            sockets: false,
            networks: false,
            processes: false,
        });
        let found = answer(&program, &|offset| if offset == ARCH { 1 } else { 0 });
        assert_eq!(found, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs());
    }
}
