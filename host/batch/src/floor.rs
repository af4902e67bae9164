//! The memory and the disk space that must be free on this machine before an instance begins.
//! Without this check, a batch could make the kernel kill processes of other users, or fill a disk
//! that others use.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mswea_executor::aside;

/// How long a measurement is used.
const FRESH: Duration = Duration::from_secs(1);
/// The interval between measurements while too little is free.
pub(crate) const RECHECK: Duration = Duration::from_secs(5);
/// The time after which the batch ends if too little is free and none of its instances runs.
const LONGEST_SHORTAGE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

/// The minimum that must be free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFloor {
    /// Memory in MiB; 0: any.
    pub memory: u64,
    /// Space on the disk of the batch, in MiB; 0: any.
    pub disk: u64,
}

/// Measures what is free, at most once per [`FRESH`].
pub(crate) struct FloorWatch {
    floor: MachineFloor,
    dir: PathBuf,
    seen: Option<(Instant, Option<String>)>,
    short_since: Option<Instant>,
    /// Whether the watcher was told that too little is free.
    told: bool,
}

/// Whether an instance may begin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MayBegin {
    Yes,
    NotYet,
    /// Too little has been free for too long, while nothing of this batch runs. The text says what.
    Never(String),
}

impl FloorWatch {
    pub(crate) fn new(floor: &MachineFloor, dir: &Path) -> Self {
        Self {
            floor: floor.clone(),
            dir: dir.to_owned(),
            seen: None,
            short_since: None,
            told: false,
        }
    }

    /// Whether an instance may begin while `running` others run. `said` is called once with what is
    /// too little.
    pub(crate) async fn may_begin(
        &mut self,
        running: usize,
        said: &(dyn Fn(&str) + Sync),
    ) -> MayBegin {
        if self.floor == MachineFloor::default() {
            return MayBegin::Yes;
        }
        let short = match &self.seen {
            Some((time, short)) if time.elapsed() < FRESH => short.clone(),
            _ => {
                let (floor, dir) = (self.floor.clone(), self.dir.clone());
                let looked = aside(move || short(&floor, &dir)).await;
                let short = looked.flatten();
                self.seen = Some((Instant::now(), short.clone()));
                short
            }
        };
        let Some(short) = short else {
            (self.short_since, self.told) = (None, false);
            return MayBegin::Yes;
        };
        let since = *self.short_since.get_or_insert_with(Instant::now);
        if running == 0 && since.elapsed() >= LONGEST_SHORTAGE {
            return MayBegin::Never(format!(
                "{short}; free some, or set a lower number, and the same command goes on"
            ));
        }
        if !std::mem::replace(&mut self.told, true) {
            said(&short);
        }
        MayBegin::NotYet
    }
}

/// The resource of which too little is free; none if enough is free, or if that can't be measured.
fn short(floor: &MachineFloor, dir: &Path) -> Option<String> {
    if let Some(free) = free_memory().filter(|free| *free < floor.memory) {
        return Some(format!(
            "{free} MiB of memory are free, and `--min-memory` is {}",
            floor.memory
        ));
    }
    let free = free_disk(dir).filter(|free| *free < floor.disk)?;
    Some(format!(
        "{free} MiB are free on the disk of `{}`, and `--min-disk` is {}",
        dir.display(),
        floor.disk
    ))
}

/// Free memory in MiB: of the machine, or of the control group that limits this process.
fn free_memory() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.and_then(|text| available(&text));
    let group = group_memory(Path::new("/sys/fs/cgroup"));
    match (machine, group) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (machine, group) => machine.or(group),
    }
}

fn available(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

/// The memory that a control group may still use. Pages of files count as free, because the kernel
/// frees them first.
fn group_memory(group: &Path) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        let text = std::fs::read_to_string(group.join(name)).ok()?;
        text.trim().parse().ok()
    };
    let (most, used) = (number("memory.max")?, number("memory.current")?);
    let stat = std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let files = stat
        .lines()
        .find_map(|line| line.strip_prefix("inactive_file "));
    let files: u64 = files.and_then(|it| it.trim().parse().ok()).unwrap_or(0);
    Some(most.saturating_sub(used.saturating_sub(files)) / MIB)
}

/// Free disk space in MiB, for a user who is not root.
fn free_disk(dir: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize) / MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_says() {
        let text = "MemTotal:       24000000 kB\nMemAvailable:    2097152 kB\n";
        assert_eq!(available(text), Some(2048));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
        let group = tempfile::tempdir().unwrap();
        assert_eq!(group_memory(group.path()), None);
        for (name, text) in [
            ("memory.max", "1073741824\n"),
            ("memory.current", "805306368\n"),
            ("memory.stat", "anon 1\ninactive_file 268435456\n"),
        ] {
            std::fs::write(group.path().join(name), text).unwrap();
        }
        assert_eq!(group_memory(group.path()), Some(512));
        std::fs::write(group.path().join("memory.max"), "max\n").unwrap();
        assert_eq!(group_memory(group.path()), None);
        assert!(free_memory().is_some() && free_disk(group.path()).is_some());
    }

    #[tokio::test]
    async fn too_little_is_said_once() {
        let folder = std::env::temp_dir();
        let told = std::sync::Mutex::new(Vec::new());
        let said = |short: &str| told.lock().unwrap().push(short.to_owned());
        let floor = |memory, disk| MachineFloor { memory, disk };
        let mut enough = FloorWatch::new(&floor(1, 1), &folder);
        assert_eq!(enough.may_begin(3, &said).await, MayBegin::Yes);
        let mut none = FloorWatch::new(&MachineFloor::default(), Path::new("/nonexistent"));
        assert_eq!(none.may_begin(0, &said).await, MayBegin::Yes);
        for (floor, name) in [
            (floor(1 << 40, 0), "--min-memory"),
            (floor(0, 1 << 50), "--min-disk"),
        ] {
            let mut short = FloorWatch::new(&floor, &folder);
            assert_eq!(short.may_begin(1, &said).await, MayBegin::NotYet);
            assert_eq!(short.may_begin(0, &said).await, MayBegin::NotYet);
            short.short_since = Instant::now().checked_sub(LONGEST_SHORTAGE);
            assert_eq!(short.may_begin(1, &said).await, MayBegin::NotYet);
            // The message must not propose a higher number: here that would not help.
            let MayBegin::Never(text) = short.may_begin(0, &said).await else {
                panic!("{name}")
            };
            assert!(
                text.contains(name) && text.contains("a lower number"),
                "{text}"
            );
            let texts = std::mem::take(&mut *told.lock().unwrap());
            assert!(texts.len() == 1 && texts[0].contains(name), "{texts:?}");
        }
    }
}
