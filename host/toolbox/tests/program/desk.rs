//! A folder with a registry of its own, in which the tools are run.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The result of a tool.
#[derive(Debug, PartialEq, Eq)]
pub struct Run {
    pub code: i32,
    pub text: String,
}

/// The folder `work` is the working directory; `home` has the registry, the state and the patches.
pub struct Desk {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

impl Desk {
    /// With the programs of this machine.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["work", "home", "bin"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self {
            folder,
            variables: Vec::new(),
        }
    }

    /// With git and what every system has, and without Python or any linter.
    pub fn bare() -> Self {
        let mut desk = Self::new();
        for name in [
            "sh", "git", "awk", "cat", "cmp", "cp", "cut", "date", "du", "env", "find", "grep",
            "head", "mkdir", "mktemp", "od", "rm", "sed", "sort", "stat", "tail", "touch", "tr",
            "wc", "xargs",
        ] {
            desk.link(name);
        }
        let path = desk.folder.path().join("bin").display().to_string();
        desk.set("PATH", &path);
        desk
    }

    /// Puts a program of this machine into a bare desk.
    pub fn link(&self, name: &str) {
        let found = program(name).unwrap_or_else(|| panic!("there is no {name}"));
        let place = self.folder.path().join("bin").join(name);
        if !place.exists() {
            symlink(found, place).unwrap();
        }
    }

    /// Puts a script into a bare desk.
    pub fn script(&self, name: &str, text: &str) {
        let path = self.folder.path().join("bin").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Sets a variable for all tools.
    pub fn set(&mut self, name: &str, value: &str) -> &mut Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.folder.path())
            .unwrap()
            .join("work")
            .join(name)
    }

    pub fn home(&self, name: &str) -> PathBuf {
        self.folder.path().join("home").join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// The content of a file, with other bytes than UTF-8 replaced.
    pub fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).unwrap()).into_owned()
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mswea-toolbox"));
        command.args(words).current_dir(self.path(""));
        command.env_remove("ROOT").env_remove("LINT_COMMAND");
        command.env("MSWEA_TOOLS_HOME", self.home(""));
        for name in ["GIT_AUTHOR", "GIT_COMMITTER"] {
            command
                .env(format!("{name}_NAME"), "n")
                .env(format!("{name}_EMAIL"), "e");
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn run(&self, words: &[&str]) -> Run {
        self.run_with(words, "")
    }

    /// Runs a tool with this on stdin.
    pub fn run_with(&self, words: &[&str], input: &str) -> Run {
        let mut command = self.command(words);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A tool that does not read its input ends before it is written.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        assert!(output.stderr.is_empty(), "{words:?}: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Run {
            code: output.status.code().unwrap(),
            text: text.strip_suffix('\n').unwrap_or(&text).to_owned(),
        }
    }

    /// Runs a tool that has to do what it is asked.
    pub fn good(&self, words: &[&str]) -> String {
        let run = self.run(words);
        assert_eq!(run.code, 0, "{words:?}: {}", run.text);
        run.text
    }

    /// Runs a program in the working directory.
    pub fn shell(&self, script: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(self.path(""));
        for name in ["GIT_AUTHOR", "GIT_COMMITTER"] {
            command
                .env(format!("{name}_NAME"), "n")
                .env(format!("{name}_EMAIL"), "e");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The program of this machine.
pub fn program(name: &str) -> Option<PathBuf> {
    // The program in `PATH` may be a script that looks for the real one.
    if name == "python3" {
        let output = Command::new(name)
            .args(["-c", "import sys; print(sys.executable)"])
            .output();
        let text = String::from_utf8(output.ok()?.stdout).ok()?;
        return Some(PathBuf::from(text.trim()));
    }
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// `count` lines, each with its number.
pub fn numbers(count: usize) -> String {
    (1..=count)
        .map(|number| format!("line {number}\n"))
        .collect()
}

/// The numbers of the first and the last shown line, and those of the lines above and below.
pub fn shown(text: &str) -> (usize, usize, usize, usize) {
    let number = |line: &str| line.split_once(':')?.0.parse::<usize>().ok();
    let lines: Vec<usize> = text.lines().filter_map(number).collect();
    let more = |end: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix('(')?.strip_suffix(end));
        line.map_or(0, |number| number.parse().unwrap())
    };
    let above = more(" more lines above)");
    (
        *lines.first().unwrap(),
        *lines.last().unwrap(),
        above,
        more(" more lines below)"),
    )
}
