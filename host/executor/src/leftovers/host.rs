//! Whether the host of a run is still running, as far as the run's id tells.
//!
//! The id of the program's runs is `TIME-PID-RANDOM`: when the run began, in milliseconds since
//! 1970, and the host's process number, both in hexadecimal. Process numbers are reused, so the
//! process that has the number now must be as old as the run. Wrong clocks and namespaces must not
//! make a running host look dead; the reverse does no harm.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use mswea_helper::processes::{self, NESTED, RUN_VARIABLE};
use mswea_helper::sys::TICKS;

/// The program's name in the kernel.
const PROGRAM: &str = "mswea-host";

/// How far off a clock may have been, in milliseconds.
const SLACK: u64 = 60_000;

/// The greatest process number of Linux.
const GREATEST_PID: i32 = 1 << 22;

/// The known state of the host of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// It is or may be running: the reason.
    Alive(String),
    /// It is gone.
    Gone,
    /// The id does not tell: the reason. The sentence begins with the id.
    Unknown(String),
}

/// A parsed run id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunId {
    /// When the run began, in milliseconds since 1970.
    began: u64,
    pid: i32,
}

impl RunId {
    fn parse(id: &str) -> Option<Self> {
        let parts: Vec<&str> = id.split('-').collect();
        let &[time, pid, chance] = parts.as_slice() else {
            return None;
        };
        let is_hex = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        // Milliseconds have eleven hexadecimal digits from 2004 until 2527.
        if ![time, pid, chance].iter().all(|part| is_hex(part))
            || (time.len(), chance.len()) != (11, 6)
        {
            return None;
        }
        let pid = i32::from_str_radix(pid, 16).ok()?;
        Some(Self {
            began: u64::from_str_radix(time, 16).ok()?,
            pid: (1..=GREATEST_PID).contains(&pid).then_some(pid)?,
        })
    }
}

/// The process that has a host's number now.
#[derive(Clone, Copy, Debug)]
struct Holder {
    /// When it started, in ticks since boot.
    start: u64,
    /// Whether it has the program's name.
    is_program: bool,
}

/// The facts by which hosts are judged.
#[derive(Debug)]
pub(super) struct World {
    /// When the machine was booted, in milliseconds since 1970.
    booted: u64,
    /// When the first process of this PID namespace started, in ticks since boot.
    first: u64,
    /// The runs that this process itself is part of.
    own: Vec<String>,
    /// The runs whose hosts are known to be gone.
    gone: Vec<String>,
    /// For each run, when the first of its processes started that still exists, in ticks since
    /// boot.
    starts: BTreeMap<String, u64>,
    /// The processes that have the hosts' numbers now.
    holders: BTreeMap<i32, Holder>,
}

impl World {
    /// The current facts; `starts` contains the runs in question, and when the first remaining
    /// process of each started; `gone`: runs whose hosts are known to be gone.
    pub(super) fn now(starts: &BTreeMap<String, u64>, gone: Vec<String>) -> Self {
        let since = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
        let booted = since(ClockId::Realtime).saturating_sub(since(ClockId::Boottime));
        let mut buffer = Vec::new();
        let mut holders = BTreeMap::new();
        for id in starts.keys().filter_map(|id| RunId::parse(id)) {
            if let Some(process) = processes::stat(id.pid, &mut buffer)
                && !process.is_gone()
            {
                let holder = Holder {
                    start: process.start,
                    is_program: is_program(id.pid),
                };
                holders.insert(id.pid, holder);
            }
        }
        Self {
            booted: u64::try_from(booted.as_millis()).unwrap_or_default(),
            first: processes::stat(1, &mut buffer).map_or(0, |process| process.start),
            own: std::env::var(RUN_VARIABLE)
                .unwrap_or_default()
                .split(NESTED)
                .filter(|id| !id.is_empty())
                .map(str::to_owned)
                .collect(),
            gone,
            starts: starts.clone(),
            holders,
        }
    }

    /// The known state of the host of the run `id`.
    pub(super) fn host_of(&self, id: &str) -> Host {
        if self.own.iter().any(|own| own == id) {
            return Host::Alive("this command is part of that run itself".to_owned());
        }
        if self.gone.iter().any(|gone| gone == id) {
            return Host::Gone;
        }
        let Some(run) = RunId::parse(id) else {
            return Host::Unknown(
                "is not a run id of the program, and does not tell which process is its host"
                    .to_owned(),
            );
        };
        if run.began < self.wall(self.first) {
            // A run outside starts the container first, and then the processes in it.
            return Host::Unknown(
                "began before the first process that can be seen from here: its host is outside \
                 of this PID namespace, or the clock was wrong"
                    .to_owned(),
            );
        }
        let Some(holder) = self.holders.get(&run.pid) else {
            return Host::Gone;
        };
        // Both are on the kernel's clock, which can't be set.
        if self
            .starts
            .get(id)
            .is_some_and(|start| holder.start > *start)
        {
            return Host::Gone;
        }
        if !holder.is_program && self.wall(holder.start) > run.began + SLACK {
            return Host::Gone;
        }
        Host::Alive(format!("its host lives (process {})", run.pid))
    }

    /// A start by wall-clock time, in milliseconds.
    fn wall(&self, ticks: u64) -> u64 {
        self.booted + ticks * 1000 / TICKS as u64
    }
}

/// The name of a process.
pub(super) fn name(pid: i32) -> String {
    let mut buffer = Vec::new();
    if !processes::read_proc(pid, "comm", &mut buffer) {
        return "?".to_owned();
    }
    String::from_utf8_lossy(&buffer).trim_end().to_owned()
}

/// Whether a process has the program's name, or this process's.
pub(super) fn is_program(pid: i32) -> bool {
    let name = name(pid);
    let own = self::name(std::process::id() as i32);
    name == PROGRAM || name != "?" && name == own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_the_program_are_known() {
        for (id, wanted) in [
            ("19aa64dd88f-1f3a-00ff11", Some((0x19a_a64d_d88f, 0x1f3a))),
            ("19aa64dd88f-1-abcdef", Some((0x19a_a64d_d88f, 1))),
            // From an embedder: nanoseconds, and a counter.
            ("187a1c7f0e0f2b3c-1f3a-0", None),
            ("187a1c7f0e0f2b3c-1f3a-000000", None),
            ("19aa64dd88f-1f3a-0", None),
            ("19AA64DD88F-1f3a-00ff11", None),
            ("19aa64dd88f-+f3a-00ff11", None),
            ("19aa64dd88f-0-00ff11", None),
            ("19aa64dd88f-400001-00ff11", None),
            ("19aa64dd88f-ffffffffff-00ff11", None),
            ("19aa64dd88f-1f3a-00ff11-x", None),
            ("run-1", None),
            ("", None),
        ] {
            let parsed = RunId::parse(id).map(|id| (id.began, id.pid));
            assert_eq!(parsed, wanted, "{id}");
        }
    }

    #[test]
    fn hosts_are_gone_only_when_that_is_certain() {
        const BOOTED: u64 = 0x19a_0000_0000;
        /// When the run began: 1,000 s after the boot, which is 100,000 ticks.
        const BEGAN: u64 = BOOTED + 1_000_000;
        let id = format!("{BEGAN:x}-64-abcdef");
        // start of the first process; the process with the number: its start, whether it is the
        // program; start of the first remaining process; expected result for the host
        for (first, holder, member, wanted) in [
            (0, None, 100_010, "gone"),
            (0, Some((99_999, true)), 100_010, "alive"),
            (0, Some((99_999, false)), 100_010, "alive"),
            // The number has been reused: its process is younger than the remaining one,
            (0, Some((100_011, true)), 100_010, "gone"),
            (0, Some((100_011, false)), 100_010, "gone"),
            // or far younger than the run,
            (0, Some((107_000, false)), 200_000, "gone"),
            // unless the clock may have been wrong.
            (0, Some((105_000, false)), 200_000, "alive"),
            (0, Some((107_000, true)), 200_000, "alive"),
            // The run began before this PID namespace.
            (100_100, None, 100_200, "unknown"),
            (99_900, None, 100_200, "gone"),
        ] {
            let world = World {
                booted: BOOTED,
                first,
                own: vec!["mine".into()],
                gone: vec!["ended.1".into()],
                starts: BTreeMap::from([(id.clone(), member)]),
                holders: holder
                    .map(|(start, is_program)| (0x64, Holder { start, is_program }))
                    .into_iter()
                    .collect(),
            };
            let got = match world.host_of(&id) {
                Host::Alive(_) => "alive",
                Host::Gone => "gone",
                Host::Unknown(_) => "unknown",
            };
            assert_eq!(got, wanted, "{first} {holder:?} {member}");
            assert!(matches!(world.host_of("mine"), Host::Alive(_)));
            assert!(matches!(world.host_of("other"), Host::Unknown(_)));
            assert_eq!(world.host_of("ended.1"), Host::Gone);
        }
    }

    #[test]
    fn the_current_facts_are_plausible() {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_millis() as u64;
        let me = std::process::id();
        let id = format!("{now:x}-{me:x}-000000");
        let start = processes::now() + 1000;
        let world = World::now(&BTreeMap::from([(id.clone(), start)]), Vec::new());
        assert!(matches!(world.host_of(&id), Host::Alive(_)));
        assert!(world.wall(processes::now()).abs_diff(now) < 1000);
        let old = format!("{:x}-{me:x}-000000", world.booted - 1000);
        assert!(matches!(world.host_of(&old), Host::Unknown(_)));
        let other = format!("{now:x}-{:x}-000000", GREATEST_PID);
        assert_eq!(world.host_of(&other), Host::Gone);
    }
}
