//! Finds in `/proc` the processes that a run has left behind.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// The processes that carry a run's id in their environment, as `PID COMMAND LINE`.
pub fn left_over(run_id: &str) -> Vec<String> {
    let wanted = format!("MSWEA_RUN_ID={run_id}");
    found(|process| {
        fs::read(process.join("environ")).is_ok_and(|environ| {
            environ
                .split(|byte| *byte == 0)
                .any(|entry| entry == wanted.as_bytes())
        })
    })
    .into_iter()
    .map(|(_, shown)| shown)
    .collect()
}

/// The processes whose working directory is inside a folder, as `PID COMMAND LINE`.
pub fn inside(folder: &Path) -> Vec<String> {
    processes_inside(folder)
        .into_iter()
        .map(|(_, shown)| shown)
        .collect()
}

/// The processes whose working directory is inside a folder and whose command line has this text in it.
pub fn called(folder: &Path, text: &str) -> Vec<Pid> {
    let mut found = processes_inside(folder);
    found.retain(|(_, shown)| shown.contains(text));
    found.into_iter().map(|(pid, _)| pid).collect()
}

/// Kills the processes whose working directory is inside a folder.
pub fn kill_inside(folder: &Path) {
    for (pid, _) in processes_inside(folder) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn processes_inside(folder: &Path) -> Vec<(Pid, String)> {
    found(|process| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder)))
}

fn found(wanted: impl Fn(&Path) -> bool) -> Vec<(Pid, String)> {
    let own = std::process::id();
    let mut out = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok());
        let Some(pid) = number.and_then(Pid::from_raw) else {
            continue;
        };
        // A zombie has neither environment nor folder, so it is not found.
        if pid.as_raw_nonzero().get().unsigned_abs() != own && wanted(&entry.path()) {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            out.push((pid, format!("{} {}", pid.as_raw_nonzero(), line.trim_end())));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn processes_are_found_and_killed() {
        let folder = tempfile::tempdir().unwrap();
        let id = format!("probe-{}", std::process::id());
        assert!(left_over(&id).is_empty() && inside(folder.path()).is_empty());
        let mut child = Command::new("sleep")
            .arg("61")
            .env("MSWEA_RUN_ID", &id)
            .current_dir(folder.path())
            .spawn()
            .unwrap();
        let want = vec![format!("{} sleep 61", child.id())];
        // Between fork and exec it still looks like its parent.
        let end = Instant::now() + Duration::from_secs(5);
        while left_over(&id) != want && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(left_over(&id), want);
        assert_eq!(inside(folder.path()), want);
        assert!(left_over(&id[..id.len() - 1]).is_empty());
        kill_inside(folder.path());
        assert!(!child.wait().unwrap().success());
        assert!(left_over(&id).is_empty() && inside(folder.path()).is_empty());
    }
}
