//! Sessions at a real terminal of several sizes, compared with golden screens in `tests/screens`.
//!
//! `MSWEA_WRITE_SCREENS=1` writes the files anew. Seconds, ports, folders and the ids of runs are replaced. Each
//! screen is one that has come to rest; the last one of a session has all lines, those that scrolled away included.

mod sessions;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fancy_regex::{Captures, Regex};
use scripted_server::{Scenario, Server, Turn};

use self::sessions::{SESSIONS, Step};
use crate::host::{Host, Signal};
use crate::needs::Need;
use crate::processes;
use crate::story::repository;
use crate::terminal::Terminal;

/// How many terminals there are at a time.
const AT_ONCE: usize = 6;
/// Writes the files anew.
const WRITE: &str = "MSWEA_WRITE_SCREENS";
/// How long a screen stays as it is before it is compared.
const REST: Duration = Duration::from_millis(120);
/// The same for a session that looked different: a machine with much else to do draws late.
const LONG_REST: Duration = Duration::from_secs(1);

/// A user's session.
struct Session {
    name: &'static str,
    /// Columns and rows.
    sizes: &'static [(u16, u16)],
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// Whether a task is given with `-t`.
    has_task: bool,
    /// Whether commands run in a repository.
    in_repository: bool,
    turns: fn() -> Vec<Turn>,
    steps: &'static [Step],
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/screens")
}

fn file(session: &Session, (columns, rows): (u16, u16)) -> String {
    format!("{}.{columns}x{rows}.txt", session.name)
}

#[test]
fn every_golden_screen_belongs_to_a_session() {
    let entries = fs::read_dir(folder()).unwrap();
    let there: BTreeSet<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let sessions = SESSIONS.iter();
    let wanted = sessions.flat_map(|session| session.sizes.iter().map(|size| file(session, *size)));
    assert_eq!(there, wanted.collect());
}

#[test]
fn sessions_show_their_golden_screens() {
    if !Need::Tmux.is_met() {
        return;
    }
    let sessions = SESSIONS.iter();
    let waiting =
        sessions.flat_map(|session| session.sizes.iter().map(move |size| (session, *size)));
    let waiting: Mutex<Vec<_>> = Mutex::new(waiting.collect());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((session, size)) = next() {
                    // The other sessions are compared, too.
                    let played = panic::catch_unwind(|| compare(session, size));
                    let failure = played.unwrap_or_else(|_| Some("(see above)".to_owned()));
                    if let Some(failure) = failure {
                        let failure = format!("{}:\n{failure}", file(session, size));
                        lock(&failures).push(failure);
                    }
                }
            });
        }
    });
    let failures = lock(&failures);
    assert!(
        failures.is_empty(),
        "{} sessions look different (after a look at them: {WRITE}=1 writes the files anew)\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Plays a session, a second time and slower if it looks different; answers how its screens differ.
fn compare(session: &Session, size: (u16, u16)) -> Option<String> {
    let quick = panic::catch_unwind(|| compare_once(session, size, REST));
    match quick {
        Ok(None) => None,
        _ => compare_once(session, size, LONG_REST),
    }
}

fn compare_once(session: &Session, size: (u16, u16), rest: Duration) -> Option<String> {
    let shown = play_session(session, size, rest);
    let path = folder().join(file(session, size));
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, &shown).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    (golden != shown).then(|| first_difference(&golden, &shown))
}

/// The first line that differs, with the lines around it.
fn first_difference(golden: &str, shown: &str) -> String {
    let (golden, shown): (Vec<&str>, Vec<&str>) =
        (golden.lines().collect(), shown.lines().collect());
    let most = golden.len().max(shown.len());
    let at = (0..most)
        .find(|at| golden.get(*at) != shown.get(*at))
        .unwrap_or(most);
    let around = |lines: &[&str]| {
        let from = at.saturating_sub(8).min(lines.len());
        lines[from..lines.len().min(at + 12)].join("\n")
    };
    format!(
        "line {} differs; expected:\n{}\n--- shown:\n{}\n",
        at + 1,
        around(&golden),
        around(&shown)
    )
}

/// What is replaced in a screen.
struct Normal {
    /// Texts of one length, whose place of a line break stays.
    names: Vec<Regex>,
    rules: Vec<(Regex, &'static str)>,
}

impl Normal {
    fn new(names: &[&str]) -> Self {
        let broken = |name: &&str| {
            let letters: Vec<String> = name.chars().map(String::from).collect();
            Regex::new(&letters.join("\n?")).unwrap()
        };
        let rules = [
            (r"[0-9a-f]{10,}-[0-9a-f]+-[0-9a-z]{6}", "RUN"),
            (r"(?m)^(waiting for the model|running): \d+ s", "$1"),
            (
                r"(?m)^the model answers: \d+ s, about \d+ tokens",
                "the model answers",
            ),
            (r"in \d+ s ·", "in N s ·"),
            (r"(?m)· \d+ s( ·|$)", "· N s$1"),
        ];
        let rules = rules.map(|(rule, text)| (Regex::new(rule).unwrap(), text));
        Self {
            names: names.iter().map(broken).collect(),
            rules: rules.into(),
        }
    }

    fn of(&self, screen: &str, columns: usize) -> String {
        let mut text = screen.to_owned();
        // Of a port that a line break has cut, the beginning may have scrolled away.
        let rest = Regex::new(r"\A\d{1,4}(?=/v1)").unwrap();
        let length = rest.find(&text).unwrap().map_or(0, |found| found.end());
        text.replace_range(..length, &"X".repeat(length));
        for name in &self.names {
            let hidden = |found: &Captures<_>| found[0].replace(|c| c != '\n', "X");
            text = name.replace_all(&text, hidden).into_owned();
        }
        for (rule, replacement) in &self.rules {
            text = rule.replace_all(&text, *replacement).into_owned();
        }
        // The line that counts seconds is cut at the edge, at a place that depends on the seconds.
        let cut = |line: &str| {
            let is_footer = [
                "waiting for the model",
                "running",
                "the model answers",
                "retry ",
            ]
            .iter()
            .any(|start| line.starts_with(start));
            match is_footer && columns < 60 {
                true => line.split(" · ").next().unwrap_or_default().to_owned(),
                false => line.trim_end().to_owned(),
            }
        };
        text.lines().map(|line| cut(line) + "\n").collect()
    }
}

fn play_session(session: &Session, (columns, rows): (u16, u16), rest: Duration) -> String {
    let server = Server::start(Scenario::new((session.turns)()));
    // The length of the folder's name decides where lines are broken.
    let root = tempfile::Builder::new()
        .prefix("mswea-test-")
        .tempdir_in("/tmp")
        .unwrap();
    fs::create_dir(root.path().join("work")).unwrap();
    let folder = root.path().to_str().unwrap().to_owned();
    let port = server.address().port().to_string();
    assert_eq!(port.len(), 5);
    let normal = Normal::new(&[folder.rsplit('-').next().unwrap(), &port]);
    let host = Host::inside(Arc::new(root))
        .server(&server)
        .args(session.args);
    let host = match session.has_task {
        true => host.task("fix it"),
        false => host.args(["-o", "traj.json"]),
    };
    let host = session
        .env
        .iter()
        .fold(host, |host, (name, value)| host.env(name, value));
    if session.in_repository {
        repository(&host.dir());
    }
    let terminal = Terminal::start(host, columns, rows).unwrap();
    let mut width = usize::from(columns);
    let mut out = String::new();
    for step in session.steps {
        match step {
            Step::Answer(shown, answer) => terminal.answer(shown, answer),
            Step::Until(shown) => drop(terminal.until(shown)),
            Step::Type(text) => terminal.keys(&["-l", text]),
            Step::Keys(keys) => terminal.keys(keys),
            Step::Line(text) => terminal.line(text),
            Step::Paste(count) => {
                let lines: Vec<String> = (1..=*count).map(|n| format!("line {n}")).collect();
                terminal.paste(&lines.join("\n"));
            }
            Step::Resize(columns, rows) => {
                terminal.resize(*columns, *rows);
                width = usize::from(*columns);
            }
            Step::Screen(what, shown) => {
                let screen = at_rest(&terminal, shown, rest, |screen| normal.of(screen, width));
                let _ = write!(out, "==== {what}\n{screen}");
            }
            Step::End(code) => {
                terminal.ends(*code);
                let all = normal.of(&terminal.all(), width);
                let _ = write!(out, "==== all of it\n{all}");
            }
            Step::Touch(name) => {
                fs::write(terminal.root().path().join("work").join(name), "").unwrap();
            }
            Step::Asked(count) => assert!(server.wait_for(*count, Duration::from_secs(60))),
            Step::Terminate => terminate(&terminal),
        }
    }
    out
}

/// The screen with this text, once it stays as it is for `rest`.
#[track_caller]
fn at_rest(
    terminal: &Terminal,
    shown: &str,
    rest: Duration,
    normal: impl Fn(&str) -> String,
) -> String {
    let mut before = normal(&terminal.until(shown));
    let mut since = Instant::now();
    while since.elapsed() < rest {
        thread::sleep(Duration::from_millis(30));
        let screen = normal(&terminal.screen());
        if screen != before || !screen.contains(shown) {
            before = screen;
            since = Instant::now();
        }
    }
    before
}

/// Ends the program by a signal from elsewhere, and waits until the run has ended.
fn terminate(terminal: &Terminal) {
    let root = terminal.root();
    let hosts = processes::called(root.path(), " -o traj.json");
    assert_eq!(hosts.len(), 1);
    rustix::process::kill_process(hosts[0], Signal::TERM).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    let has_ended = || {
        terminal
            .journal()
            .iter()
            .any(|event| event["event"] == "run_ended")
    };
    while !has_ended() {
        assert!(
            Instant::now() < end,
            "the run goes on\n{}",
            terminal.screen()
        );
        thread::sleep(Duration::from_millis(20));
    }
}
