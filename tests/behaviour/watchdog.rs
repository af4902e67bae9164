//! Ends the hosts of a test program that is killed: `kill -9`, a time limit of the caller. A process with an
//! open pipe to the tests has the numbers of their process groups, and kills these when the pipe ends.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Reads `+ GROUP` and `- GROUP`.
const SCRIPT: &str = "all=' '
while read -r sign group; do
    case $sign in
        +) all=\"$all$group \" ;;
        -) all=\"${all%% $group *} ${all#* $group }\" ;;
    esac
done
for group in $all; do kill -9 -- \"-$group\"; done";

static WATCHDOG: Mutex<Option<Child>> = Mutex::new(None);

/// A process group that ends with the tests.
pub struct WatchedGroup(u32);

impl WatchedGroup {
    pub fn new(group: u32) -> Self {
        tell('+', group);
        Self(group)
    }
}

impl Drop for WatchedGroup {
    fn drop(&mut self) {
        tell('-', self.0);
    }
}

fn tell(sign: char, group: u32) {
    let mut watchdog = WATCHDOG.lock().unwrap_or_else(PoisonError::into_inner);
    let process = watchdog.get_or_insert_with(|| {
        Command::new("sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Not in the tests' own group, which may be killed with them.
            .process_group(0)
            .spawn()
            .unwrap()
    });
    writeln!(process.stdin.as_ref().unwrap(), "{sign} {group}").unwrap();
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::path::Path;
    use std::time::{Duration, Instant};

    use scripted_server::{Fault, Scenario, Server, Turn};

    use super::*;
    use crate::host::Host;

    /// The test below starts this one in a process of its own, and kills it.
    #[test]
    fn in_a_process_of_its_own() {
        if std::env::var_os("MSWEA_TEST_WATCHED").is_none() {
            return;
        }
        let server = Server::start(Scenario::always(Turn::fault(Fault::Silence)));
        let ended = Host::new().arg("--version").run().expect(0);
        let mut running = Host::new().server(&server).task("wait").spawn();
        running.until("the query", |_| server.served() == 1);
        drop(ended);
        println!("\nhost {}", running.pid());
        std::thread::sleep(Duration::from_secs(60));
    }

    #[test]
    fn a_host_ends_with_the_tests_that_are_killed() {
        let mut tests = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("watchdog::tests::in_a_process_of_its_own")
            .env("MSWEA_TEST_WATCHED", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(tests.stdout.take().unwrap()).lines();
        let pid: u32 = loop {
            let line = lines.next().unwrap().unwrap();
            if let Some(pid) = line.strip_prefix("host ") {
                break pid.parse().unwrap();
            }
        };
        let lives = || Path::new(&format!("/proc/{pid}/cmdline")).exists() && !is_zombie(pid);
        assert!(lives());
        tests.kill().unwrap();
        tests.wait().unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while lives() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!lives());
    }

    fn is_zombie(pid: u32) -> bool {
        let mut text = String::new();
        let file = std::fs::File::open(format!("/proc/{pid}/stat"));
        let _ = file.and_then(|mut file| file.read_to_string(&mut text));
        text.contains(") Z ")
    }
}
