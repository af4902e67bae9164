//! Finds tools, runs them, and keeps their output.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crate::error::Error;

use super::Build;

/// How much of a tool's output is kept from its beginning, where the first error is, and from its
/// end.
const KEPT: usize = 16 * 1024;

/// The environment of a build.
pub(super) struct Tools<'a> {
    pub(super) options: &'a Build,
    /// Their working directory.
    pub(super) folder: PathBuf,
    pub(super) progress: &'a mut dyn FnMut(&str),
}

impl Tools<'_> {
    fn path(&self) -> Option<OsString> {
        self.options.path.clone().or_else(|| env::var_os("PATH"))
    }

    /// A program in `PATH`, or else in these folders.
    pub(super) fn find(&self, name: &str, elsewhere: &[PathBuf]) -> Option<PathBuf> {
        let path = self.path().unwrap_or_default();
        env::split_paths(&path)
            .chain(elsewhere.iter().cloned())
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(|file| is_program(file))
    }

    /// A program that is installed in the project.
    pub(super) fn own(&self, path: &str) -> Option<PathBuf> {
        Some(self.folder.join(path)).filter(|file| is_program(file))
    }

    /// A command that runs in the project's folder.
    pub(super) fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.folder);
        if let Some(path) = &self.options.path {
            command.env("PATH", path);
        }
        command
    }

    /// Runs a command to its end and returns its standard output.
    pub(super) fn run(&mut self, command: Command) -> Result<String, Error> {
        (self.progress)(&format!("running `{}`", words(&command)));
        self.watch(command, self.options.verbose)
    }

    /// Runs a command that only queries something.
    pub(super) fn ask(&mut self, command: Command) -> Result<String, Error> {
        self.watch(command, false)
    }

    fn watch(&mut self, mut command: Command, verbose: bool) -> Result<String, Error> {
        let words = words(&command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| Error::Start {
                command: words.clone(),
                source,
            })?;
        let (lines, printed) = channel();
        forward(child.stdout.take(), true, lines.clone());
        forward(child.stderr.take(), false, lines);
        let mut output = String::new();
        let mut shown = Shown::default();
        for (is_output, line) in printed {
            if is_output {
                output.push_str(&line);
                output.push('\n');
            }
            // Cargo's messages for programs are not shown.
            if !(is_output && line.starts_with("{\"reason\":")) {
                if verbose {
                    (self.progress)(&line);
                }
                shown.push(&line);
            }
        }
        let status = child.wait().map_err(|source| Error::Start {
            command: words.clone(),
            source,
        })?;
        if status.success() {
            return Ok(output);
        }
        Err(Error::Failed {
            command: words,
            status: status.to_string(),
            output: shown.text(),
        })
    }
}

fn is_program(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// The command as a user would type it, with the program's name only.
pub(super) fn words(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    let words: Vec<_> = std::iter::once(program)
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect();
    words.join(" ")
}

/// Reads lines as they come; invalid UTF-8 is replaced.
fn forward(
    pipe: Option<impl Read + Send + 'static>,
    is_output: bool,
    lines: Sender<(bool, String)>,
) {
    let Some(pipe) = pipe else { return };
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe
            .read_until(b'\n', &mut line)
            .is_ok_and(|count| count > 0)
        {
            let text = String::from_utf8_lossy(&line);
            if lines
                .send((is_output, text.trim_end_matches(['\n', '\r']).to_owned()))
                .is_err()
            {
                break;
            }
            line.clear();
        }
    });
}

/// The beginning and the end of an output.
#[derive(Default)]
struct Shown {
    head: String,
    tail: String,
    dropped: bool,
}

impl Shown {
    fn push(&mut self, line: &str) {
        if self.tail.is_empty() && self.head.len() + line.len() < KEPT {
            self.head.push_str(line);
            self.head.push('\n');
            return;
        }
        self.tail.push_str(line);
        self.tail.push('\n');
        if self.tail.len() > 2 * KEPT {
            let mut cut = self.tail.len() - KEPT;
            while !self.tail.is_char_boundary(cut) {
                cut += 1;
            }
            self.tail.drain(..cut);
            self.dropped = true;
        }
    }

    fn text(&self) -> String {
        let between = if self.dropped { "[...]\n" } else { "" };
        let text = format!("{}{between}{}", self.head, self.tail);
        text.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<R>(options: &Build, test: impl FnOnce(&mut Tools<'_>) -> R) -> (R, Vec<String>) {
        let mut lines = Vec::new();
        let result = test(&mut Tools {
            options,
            folder: env::temp_dir(),
            progress: &mut |line| lines.push(line.to_owned()),
        });
        (result, lines)
    }

    fn shell(tools: &mut Tools<'_>, script: &str) -> Result<String, Error> {
        let command = tools.command(Path::new("/bin/sh"), &["-c", script]);
        tools.run(command)
    }

    #[test]
    fn output_is_shown_only_when_it_is_wanted() {
        let quiet = Build::default();
        let (output, lines) = with(&quiet, |tools| shell(tools, "echo a; echo b >&2"));
        assert_eq!(output.unwrap(), "a\n");
        assert_eq!(lines, ["running `sh -c echo a; echo b >&2`"]);
        let (error, _) = with(&quiet, |tools| shell(tools, "echo a; echo b >&2; exit 3"));
        let error = error.unwrap_err().to_string();
        for part in ["exit status: 3", "a", "b"] {
            assert!(error.contains(part), "{error}");
        }
        let verbose = Build {
            verbose: true,
            ..Build::default()
        };
        let (_, lines) = with(&verbose, |tools| shell(tools, "echo a"));
        assert_eq!(lines.last().map(String::as_str), Some("a"));
    }

    #[test]
    fn much_output_keeps_its_ends() {
        let (error, _) = with(&Build::default(), |tools| {
            shell(tools, "seq 1 200000; printf '\\377'; exit 1")
        });
        let error = error.unwrap_err().to_string();
        assert!(error.len() < 4 * KEPT, "{}", error.len());
        for part in ["\n1\n2\n", "[...]", "\n200000\n\u{fffd}"] {
            assert!(error.contains(part), "{part}");
        }
    }

    #[test]
    fn programs_are_found_on_the_path_and_elsewhere() {
        let none = Build {
            path: Some("/nonexistent:relative".into()),
            ..Build::default()
        };
        let (found, _) = with(&none, |tools| {
            (
                tools.find("sh", &[]),
                tools.find("sh", &["/bin".into()]),
                tools.own("nothing"),
            )
        });
        assert_eq!(found, (None, Some("/bin/sh".into()), None));
        let (found, _) = with(&Build::default(), |tools| tools.find("sh", &[]));
        assert!(found.is_some());
        let (error, _) = with(&none, |tools| {
            let command = tools.command(Path::new("/nonexistent/tool"), &[]);
            tools.run(command)
        });
        assert!(
            error
                .unwrap_err()
                .to_string()
                .starts_with("`tool` can't be started")
        );
    }
}
