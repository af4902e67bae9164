//! Kills the host at random moments, in several classes of environments. Afterwards no process, container
//! or temporary folder of it may be left, and every event that it printed must be in the journal.
//!
//! `MSWEA_KILLS=1000` sets the number of kills; `cargo bench --bench kills` asks for 1,000.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use scripted_server::{Scenario, Server, Turn};
use serde_json::Value;

/// Starts processes in several sessions that do not end by themselves, and takes a little time.
const COMMAND: &str = "(setsid sleep 401 &) ; (setsid sh -c 'sleep 402 & exec sleep 403' &); \
                       sleep 404 >/dev/null 2>&1 & echo $$; sleep 0.03";
/// A run is killed in its first milliseconds, up to this many; until then it has made some steps.
const MOMENT_MS: u64 = 1500;
/// How long the end of the process may take after the signal.
const PATIENCE: Duration = Duration::from_secs(20);

/// The sums over all rounds: what was left, and events that were printed and not recorded.
#[derive(Debug, Default)]
pub struct Report {
    pub rounds: usize,
    /// Rounds in which the kill came before the run had a journal.
    pub early: usize,
    pub replies: usize,
    pub containers: usize,
    pub processes: usize,
    pub folders: usize,
    pub events: usize,
    pub faults: Vec<String>,
}

/// Kills `rounds` runs of `program`, four at a time, in these classes of environments. `progress` is
/// called after each run with the number of runs so far.
pub fn soak(
    program: &Path,
    rounds: usize,
    classes: &[&str],
    progress: &(dyn Fn(usize) + Sync),
) -> Report {
    let report = Mutex::new(Report::default());
    let next = AtomicUsize::new(0);
    let server = Server::start(Scenario::always(Turn::commands(&[COMMAND]))).recording(false);
    // A run that compiles its plugins would be killed before it has done anything.
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tmp")).unwrap();
    let mut warm = run(
        program,
        folder.path(),
        &server.url(),
        "1",
        arguments("local"),
    );
    let _ = warm.stdout(Stdio::null()).status();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let round = next.fetch_add(1, Ordering::Relaxed);
                    if round >= rounds {
                        return;
                    }
                    let class = classes[round % classes.len()];
                    let found = one(program, &server.url(), class, round / classes.len());
                    let mut report = report.lock().unwrap();
                    report.rounds += 1;
                    report.early += found.early;
                    report.replies += found.replies;
                    report.containers += found.containers;
                    report.processes += found.processes;
                    report.folders += found.folders;
                    report.events += found.events;
                    report.faults.extend(found.faults);
                    progress(report.rounds);
                }
            });
        }
    });
    report.into_inner().unwrap()
}

/// `turn` is the number of kills in this class before.
fn one(program: &Path, url: &str, class: &str, turn: usize) -> Report {
    let folder = tempfile::Builder::new()
        .prefix("mswea-kill-")
        .tempdir()
        .unwrap();
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    // The clock gives a different moment in every run of the test.
    let chance = u64::from(
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .subsec_micros(),
    );
    let signal = [Signal::INT, Signal::TERM, Signal::KILL, Signal::KILL][turn % 4];
    let moment = Duration::from_millis(chance * 7919 % MOMENT_MS);
    let told = format!("{class}, {signal:?} after {moment:?}");

    let there = (class == "remote").then(|| OtherMachine::start(program, folder.path()));
    let arguments = match &there {
        Some(there) => there.arguments(),
        None => arguments(class),
    };
    let mut command = run(program, folder.path(), url, "200", arguments);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let output = child.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.collect::<Vec<String>>()
    });
    thread::sleep(moment);
    let pid = Pid::from_child(&child);
    let _ = kill_process(pid, signal);
    let begun = Instant::now();
    let mut report = Report::default();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > PATIENCE {
            report.faults.push(format!("{told}: it does not end"));
            let _ = child.kill();
        }
        thread::sleep(Duration::from_millis(2));
    }
    let shown = reader.join().unwrap();

    // `gc` cleans up as the next run would.
    let _ = host(program, folder.path())
        .arg("gc")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let journal = std::fs::read_to_string(folder.path().join("work/traj.events.jsonl"));
    let journal: Vec<Value> = journal
        .unwrap_or_default()
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let Some(id) = journal.first().and_then(|event| event["run_id"].as_str()) else {
        report.early = 1;
        return report;
    };
    // A guardian may still be working.
    let begun = Instant::now();
    loop {
        report.containers = containers(class, id);
        report.processes = super::processes::left_over(id).len();
        report.processes += there.as_ref().map_or(0, OtherMachine::left);
        // Podman, which `gc` asks, has folders of its own there for a user without a login.
        let of_podman =
            |name: &str| name.starts_with("podman-run-") || name.starts_with("containers-user-");
        let found = std::fs::read_dir(&temporary).unwrap().flatten();
        let names = found.map(|it| it.file_name().to_string_lossy().into_owned());
        report.folders = names.filter(|name| !of_podman(name)).count();
        let left = report.containers + report.processes + report.folders;
        if left == 0 || begun.elapsed() > Duration::from_secs(10) {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let of = |events: &[Value], key: &str, kind: &str| {
        events.iter().filter(|event| event[key] == kind).count()
    };
    let shown: Vec<Value> = shown
        .iter()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    for (event, recorded) in [("replied", "reply"), ("action_ended", "output")] {
        let lost = of(&shown, "type", event).saturating_sub(of(&journal, "event", recorded));
        report.events += lost;
    }
    let numbers: Vec<u64> = journal
        .iter()
        .filter_map(|event| event["seq"].as_u64())
        .collect();
    if !numbers.iter().copied().eq(1..=numbers.len() as u64) {
        report.events += 1;
        report.faults.push(format!("{told}: the journal has gaps"));
    }
    report.replies = of(&journal, "event", "reply");
    if report.containers + report.processes + report.folders + report.events > 0 {
        report.faults.push(format!(
            "{told}: run {id} left {} containers, {} processes ({:?}), {} folders, lost {} events",
            report.containers,
            report.processes,
            super::processes::left_over(id),
            report.folders,
            report.events
        ));
    }
    report
}

fn arguments(class: &str) -> Vec<String> {
    let class = match class {
        "landlock" => return vec!["-c".into(), "environment.sandbox=landlock".into()],
        "session" => {
            let settings = ["interpreter=[\"bash\", \"-c\"]", "session=true"];
            let pairs = settings.map(|setting| ["-c".to_owned(), format!("environment.{setting}")]);
            return pairs.into_iter().flatten().collect();
        }
        class => class,
    };
    let mut arguments = vec!["--environment-class".to_owned(), class.to_owned()];
    if matches!(class, "docker" | "podman") {
        arguments.extend(["--image".to_owned(), "mswea-test/bash".to_owned()]);
    }
    arguments
}

/// A server for the class `remote`. Its commands work in a folder of their own.
struct OtherMachine {
    server: Child,
    folder: PathBuf,
    token: PathBuf,
    url: String,
}

impl OtherMachine {
    fn start(program: &Path, folder: &Path) -> Self {
        let (token, served) = (folder.join("token"), folder.join("served"));
        std::fs::create_dir(&served).unwrap();
        std::fs::write(&token, "0123456789abcdef0123456789abcdef").unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&token, private).unwrap();
        let mut server = host(program, folder)
            .args(["runtime", "serve", "--keep-seconds", "1", "--cwd"])
            .arg(&served)
            .arg("--token-file")
            .arg(&token)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let output = server.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut url).unwrap();
        Self {
            server,
            folder: served,
            token,
            url: url.trim().to_owned(),
        }
    }

    fn arguments(&self) -> Vec<String> {
        let settings = [
            "environment_class=remote".to_owned(),
            format!("url={}", self.url),
            format!("token_file={}", self.token.display()),
        ];
        let pairs = settings.map(|setting| ["-c".to_owned(), format!("environment.{setting}")]);
        pairs.into_iter().flatten().collect()
    }

    /// How many processes of its sessions there are.
    fn left(&self) -> usize {
        super::processes::inside(&self.folder).len()
    }
}

impl Drop for OtherMachine {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.server), Signal::TERM);
        let _ = self.server.wait();
    }
}

/// A run with so many steps at most.
fn run(program: &Path, folder: &Path, url: &str, steps: &str, arguments: Vec<String>) -> Command {
    let mut command = host(program, folder);
    command
        .args(["--json", "-t", "x", "-o", "traj.json", "-m", "local/test"])
        .args(["--base-url", url, "-l", "0", "--step-limit", steps])
        .args(["-c", "environment.interpreter=[\"sh\", \"-c\"]"])
        .args(arguments)
        .stderr(Stdio::null());
    command
}

fn host(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    // SAFETY: gives a signal its default action, which is allowed between fork and exec. A script's `&`, which
    // may have started the tests, has SIGINT ignored: an early one would be lost.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let work = folder.join("work");
    std::fs::create_dir_all(&work).unwrap();
    command
        .env_clear()
        .env("HOME", folder)
        .env("TMPDIR", folder.join("tmp"))
        .env(
            "XDG_CACHE_HOME",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"),
        )
        .env("MSWEA_PLUGIN_CACHE", "trust")
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .current_dir(work)
        .stdin(Stdio::null());
    command
}

fn containers(class: &str, id: &str) -> usize {
    if !matches!(class, "docker" | "podman") {
        return 0;
    }
    let filter = format!("label=mswea.run={id}");
    let listed = Command::new(class)
        .args(["ps", "-aq", "--filter", &filter])
        .output()
        .unwrap();
    String::from_utf8_lossy(&listed.stdout).lines().count()
}
