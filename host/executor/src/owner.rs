//! The owner of things that outlive a killed host: containers, temporary folders.
//!
//! An owner is one process in one boot of one machine, seen from one PID namespace. Its leftovers
//! may be removed only when it is certain that the owner is gone.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use mswea_helper::processes;

/// A host process, written as `HOSTNAME/MACHINE/BOOT/NAMESPACE/PID/START`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The machine's name.
    pub host: String,
    /// The id of the machine's installation: several machines may have the same name.
    machine: String,
    /// The kernel's id of the boot.
    boot: String,
    /// The number of the PID namespace.
    namespace: String,
    /// The process number in that namespace.
    pub pid: i32,
    /// When it started, in ticks since boot.
    start: u64,
}

/// Whether an owner is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs.
    Alive,
    /// It is gone.
    Gone,
    /// The owner is, or was, where this process can't check: on another machine or in another PID
    /// namespace.
    Unknown,
}

impl Owner {
    /// This process.
    pub fn current() -> Self {
        static CURRENT: OnceLock<Owner> = OnceLock::new();
        CURRENT.get_or_init(Self::read).clone()
    }

    fn read() -> Self {
        let pid = std::process::id() as i32;
        let read = |path: &str| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.trim().replace('/', "_")
        };
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let namespace = namespace.to_string_lossy();
        Self {
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .replace('/', "_"),
            machine: read("/etc/machine-id"),
            boot: read("/proc/sys/kernel/random/boot_id"),
            namespace: namespace.chars().filter(char::is_ascii_digit).collect(),
            pid,
            start: processes::stat(pid, &mut Vec::new()).map_or(0, |process| process.start),
        }
    }

    /// Whether the owner is still running, as far as this process can tell.
    pub fn life(&self) -> Life {
        self.seen_by(&Self::current())
    }

    fn seen_by(&self, me: &Self) -> Life {
        if self.host != me.host || self.machine != me.machine {
            return Life::Unknown;
        }
        if self.boot != me.boot {
            // Without an id, this may be another machine with the same name.
            let is_told = ![&self.machine, &self.boot, &me.boot]
                .iter()
                .any(|id| id.is_empty());
            return match is_told {
                true => Life::Gone,
                false => Life::Unknown,
            };
        }
        if self.namespace != me.namespace {
            return Life::Unknown;
        }
        match processes::stat(self.pid, &mut Vec::new()) {
            Some(process) if process.start == self.start && !process.is_gone() => Life::Alive,
            _ => Life::Gone,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            host,
            machine,
            boot,
            namespace,
            pid,
            start,
        } = self;
        write!(f, "{host}/{machine}/{boot}/{namespace}/{pid}/{start}")
    }
}

impl FromStr for Owner {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let parts: Vec<&str> = text.split('/').collect();
        let &[host, machine, boot, namespace, pid, start] = parts.as_slice() else {
            return Err(());
        };
        Ok(Self {
            host: host.to_owned(),
            machine: machine.to_owned(),
            boot: boot.to_owned(),
            namespace: namespace.to_owned(),
            pid: pid.parse().map_err(drop)?,
            start: start.parse().map_err(drop)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_gone_only_when_that_is_certain() {
        let me = Owner::current();
        assert_eq!(me.to_string().parse(), Ok(me.clone()));
        assert_eq!(me.life(), Life::Alive);
        let with = |change: &dyn Fn(&mut Owner)| {
            let mut other = me.clone();
            change(&mut other);
            other.life()
        };
        assert_eq!(with(&|owner| owner.start += 1), Life::Gone);
        assert_eq!(with(&|owner| owner.pid = i32::MAX), Life::Gone);
        assert_eq!(with(&|owner| owner.boot.push('x')), Life::Gone);
        assert_eq!(with(&|owner| owner.namespace.push('1')), Life::Unknown);
        assert_eq!(with(&|owner| owner.host.push('x')), Life::Unknown);
        // After a reboot of another machine with the same name.
        let other = |owner: &mut Owner| {
            owner.machine.push('x');
            owner.boot.push('x');
        };
        assert_eq!(with(&other), Life::Unknown);
        // Machines without an id (many images have none) can't be distinguished by it.
        let nameless = |owner: &mut Owner| {
            owner.machine.clear();
            owner.boot.push('x');
        };
        let mut here = me.clone();
        here.machine.clear();
        let mut there = me.clone();
        nameless(&mut there);
        assert_eq!(there.seen_by(&here), Life::Unknown);
        there.boot = here.boot.clone();
        assert_eq!(there.seen_by(&here), Life::Alive);
        assert_eq!(with(&|owner| owner.boot.clear()), Life::Unknown);
        for bad in ["", "a/b/c/d/1", "a/b/c/d/x/1", "a/b/c/d/1/2/3"] {
            assert_eq!(bad.parse::<Owner>(), Err(()), "{bad}");
        }
    }
}
