//! A real terminal: the binary in a window of tmux, with keys that are sent and a screen that is read.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::host::Host;
use crate::needs::Need;
use crate::run::journal;

const PATIENCE: Duration = Duration::from_secs(180);

/// The beginnings of what is shown while a question is open.
const HINTS: [&str; 11] = [
    "Enter: run this",
    "Enter: run these",
    "your command ·",
    "interrupted ·",
    "the agent wants to finish ·",
    "new step limit",
    "new cost limit",
    "several lines: ",
    "take back these changes?",
    "in this run, always",
    "What is to be done?",
];

/// A window of tmux in which the binary runs.
pub struct Terminal {
    socket: PathBuf,
    root: Arc<TempDir>,
    /// The socket's path has to be short.
    _short: TempDir,
}

impl Terminal {
    /// Runs the host in a window of this size; none without tmux.
    pub fn start(host: Host, columns: u16, rows: u16) -> Option<Self> {
        if !Need::Tmux.is_met() {
            return None;
        }
        let host = match host.env.contains_key(OsStr::new("TERM")) {
            true => host,
            false => host.env("TERM", "tmux-256color"),
        };
        let (root, script) = script(host);
        let file = root.path().join("run.sh");
        // The prompt of a shell is there at the end, so that jobs can be controlled.
        std::fs::write(&file, script).unwrap();
        let short = tempfile::Builder::new()
            .prefix("m")
            .tempdir_in("/tmp")
            .unwrap();
        let this = Self {
            socket: short.path().join("s"),
            root,
            _short: short,
        };
        let shell = "env PS1='shell> ' bash --norc --noprofile";
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let size = ["-x", &columns, "-y", &rows];
        this.tmux(
            &[
                &["-f", "/dev/null", "new-session", "-d"],
                &size[..],
                &[shell],
            ]
            .concat(),
        );
        this.until("shell>");
        this.keys(&[&format!("clear; . '{}'", file.display()), "Enter"]);
        Some(this)
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(args);
        // Its client prints only what the locale has.
        command.env("LC_ALL", "C.UTF-8");
        let done = command.stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "tmux {args:?}: {done:?}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Presses keys, by tmux's names, or types texts.
    pub fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a line.
    pub fn line(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.keys(&["Enter"]);
    }

    /// Waits until this text is on the screen and a question is open, and answers it. An answer of several lines
    /// is pasted, and sent with Ctrl-D.
    #[track_caller]
    pub fn answer(&self, shown: &str, answer: &str) {
        let is_open = |screen: &str| {
            let mut rows = screen.lines().rev().take(10);
            rows.any(|row| HINTS.iter().any(|hint| row.contains(hint)))
        };
        self.until_so(shown, |screen| screen.contains(shown) && is_open(screen));
        // The program knows a moment later that the terminal has shown the question.
        thread::sleep(Duration::from_millis(30));
        let before = self.all();
        if answer.contains('\n') {
            self.paste(answer);
            self.keys(&["C-d"]);
        } else {
            self.line(answer);
        }
        // The question is over: the answer stands above other lines.
        let last = answer.lines().last().unwrap_or_default();
        self.until_so("the end of the question", |_| {
            let all = self.all();
            all != before && (last.is_empty() || !all.ends_with(last))
        });
    }

    /// Pastes a text as a user does.
    pub fn paste(&self, text: &str) {
        let mut command = Command::new("tmux");
        command
            .arg("-S")
            .arg(&self.socket)
            .args(["load-buffer", "-"])
            .env("LC_ALL", "C.UTF-8");
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        assert!(child.wait().unwrap().success());
        self.tmux(&["paste-buffer", "-p"]);
    }

    /// Changes the size of the window.
    pub fn resize(&self, columns: u16, rows: u16) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows]);
    }

    /// The visible lines.
    pub fn screen(&self) -> String {
        let screen = self.tmux(&["capture-pane", "-p"]);
        screen.trim_end().to_owned()
    }

    /// All lines, those that have scrolled away included.
    pub fn all(&self) -> String {
        let all = self.tmux(&["capture-pane", "-p", "-J", "-S", "-"]);
        all.trim_end().to_owned()
    }

    /// Waits until the screen has this text.
    #[track_caller]
    pub fn until(&self, text: &str) -> String {
        self.until_so(text, |screen| screen.contains(text))
    }

    /// Waits until the screen is as wanted; `what` describes it.
    #[track_caller]
    pub fn until_so(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "no sign of {what:?}:\n{screen}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the end of the program with this exit code.
    #[track_caller]
    pub fn ends(&self, code: i32) -> String {
        // What the program shows may have the words "exit code", too.
        let number = |screen: &str| {
            let mut lines = screen.lines().rev();
            lines.find_map(|line| line.rsplit_once("exit code ")?.1.parse::<i32>().ok())
        };
        let screen = self.until_so("the exit code", |screen| number(screen).is_some());
        assert_eq!(number(&screen), Some(code), "{screen}");
        self.all()
    }

    /// The texts of the messages of the run, with their roles.
    pub fn messages(&self) -> Vec<(String, String)> {
        let text = std::fs::read_to_string(self.root.path().join("work/traj.json")).unwrap();
        let trajectory: Value = serde_json::from_str(&text).unwrap();
        let messages = trajectory["messages"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        messages
            .map(|message| (text(&message["role"]), text(&message["content"])))
            .collect()
    }

    /// The folder of the test.
    pub fn root(&self) -> Arc<TempDir> {
        self.root.clone()
    }

    /// Ends the terminal, as a closed window or a lost connection does.
    pub fn vanish(&self) {
        self.tmux(&["kill-server"]);
    }

    /// The events of the run.
    pub fn journal(&self) -> Vec<Value> {
        journal(&self.root.path().join("work/traj.json"))
    }
}

/// The folder of a host, and a shell script that runs it there and prints its exit code. What a shell says of the
/// job is short: the program is in a script of its own.
fn script(host: Host) -> (Arc<TempDir>, String) {
    let quoted = |text: &OsStr| format!("'{}'", text.to_str().unwrap().replace('\'', "'\\''"));
    let mut command = "exec env -i".to_owned();
    for (name, value) in &host.env {
        command += &format!(" {}={}", name.to_str().unwrap(), quoted(value));
    }
    command += &format!(" {}", quoted(host.program.as_os_str()));
    for arg in &host.args {
        command += &format!(" {}", quoted(arg));
    }
    std::fs::write(host.root.path().join("host.sh"), command + "\n").unwrap();
    let script = format!(
        "cd {}\nsh ../host.sh\necho \"exit code $?\"\n",
        quoted(host.dir().as_os_str())
    );
    (host.root, script)
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).arg("kill-server");
        let _ = command.stdin(Stdio::null()).output();
    }
}
