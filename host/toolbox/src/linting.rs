//! Chooses the linter for a file by the file's name and by the programs in the image. A file of
//! another type, or one whose linter is missing, has no problems.

use std::env;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::problems::{EditSpan, LintProblem, brought_in, read_colons};
use crate::python;
use crate::registry::Values;

/// The time limit of a linter, after which it counts as having found nothing. A host stops a
/// command after about 30 s.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The checks of flake8 that find a broken edit, not bad style: unknown names, indentation, syntax.
const FLAKE8: [&str; 2] = [
    "--isolated",
    "--select=F821,F822,F831,E111,E112,E113,E999,E902",
];

/// Compiles a file without running it.
const COMPILE: &str = "\
import sys
path = sys.argv[1]
with open(path, 'rb') as file:
    source = file.read()
try:
    compile(source, path, 'exec', dont_inherit=True)
except SyntaxError as error:
    print('%s:%d:%d: E999 %s: %s' % (path, error.lineno or 1, error.offset or 0, type(error).__name__, error.msg))
except ValueError as error:
    print('%s:1:0: E999 %s' % (path, error))
print('done')
";

/// A method of finding problems.
enum Linter {
    /// A command line of the registry.
    Configured(String),
    /// A program that prints `PATH:LINE:COLUMN: TEXT`.
    Colons(PathBuf, Vec<&'static str>),
    /// Python's own compiler.
    Python(PathBuf),
    /// The grammar in this program.
    Grammar,
    /// The JSON parser in this program.
    Json,
    /// A shell with `-n`.
    Shell(PathBuf),
    /// Node with `--check`.
    Node(PathBuf),
}

/// The problems that an edit adds: `candidate` has the new content of the file at `path`.
pub fn new_problems(
    values: &Values,
    path: &Path,
    candidate: &Path,
    span: Option<EditSpan>,
) -> Vec<LintProblem> {
    let Some(linter) = linter(values, path) else {
        return Vec::new();
    };
    let after = linter.problems(candidate);
    if after.is_empty() {
        return after;
    }
    let before = linter.problems(path);
    // These linters stop at the first problem. If they already find one in the file before the edit
    // (JSON with comments, another dialect), they can't tell which problems the edit has added.
    if !before.is_empty() && matches!(linter, Linter::Json | Linter::Shell(_) | Linter::Node(_)) {
        return Vec::new();
    }
    brought_in(&before, &after, span)
}

fn linter(values: &Values, path: &Path) -> Option<Linter> {
    let extension = path.extension().and_then(|text| text.to_str());
    match extension.unwrap_or_default() {
        "py" => Some(python_linter(values)),
        "json" => Some(Linter::Json),
        "sh" | "bash" => shell(path, extension == Some("bash")),
        "js" | "mjs" | "cjs" => program("node").map(Linter::Node),
        "" => shell(path, false).filter(|_| shebang(path).is_some_and(|line| line.contains("sh"))),
        _ => None,
    }
}

fn python_linter(values: &Values) -> Linter {
    if let Some(command) = values.text("LINT_COMMAND") {
        return Linter::Configured(command);
    }
    if let Some(flake8) = program("flake8") {
        return Linter::Colons(flake8, FLAKE8.to_vec());
    }
    if let Some(pyflakes) = program("pyflakes") {
        return Linter::Colons(pyflakes, Vec::new());
    }
    let python = program("python3").or_else(|| program("python"));
    python.map_or(Linter::Grammar, Linter::Python)
}

/// The shell for which a script is written, if the image has it.
fn shell(path: &Path, bash: bool) -> Option<Linter> {
    let line = shebang(path).unwrap_or_default();
    let name = match line.rsplit(['/', ' ']).next().unwrap_or_default() {
        "bash" => "bash",
        "sh" | "dash" | "ash" => "sh",
        _ if bash => "bash",
        "" => return program("bash").or_else(|| program("sh")).map(Linter::Shell),
        _ => return None,
    };
    program(name).map(Linter::Shell)
}

/// The interpreter that the first line of a file names, without its options.
fn shebang(path: &Path) -> Option<String> {
    let mut start = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(200).read_to_end(&mut start).ok()?;
    let line = start.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line.strip_prefix(b"#!")?).into_owned();
    let words = line
        .split_whitespace()
        .take_while(|word| !word.starts_with('-'));
    Some(words.collect::<Vec<_>>().join(" "))
}

/// The program of this name in `PATH`.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| {
            fs::metadata(file)
                .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        })
}

impl Linter {
    fn problems(&self, path: &Path) -> Vec<LintProblem> {
        let shown = path.to_string_lossy();
        match self {
            Self::Configured(line) => {
                let mut command = Command::new("sh");
                command.arg("-c").arg(filled(line, &shown));
                read_colons(&output(command).0, &shown)
            }
            Self::Colons(program, options) => {
                let mut command = Command::new(program);
                command.args(options).arg(path);
                let (text, errors) = output(command);
                // pyflakes prints syntax errors to stderr, where Python also prints warnings about
                // other files.
                let own = |line: &&str| line.starts_with(&*shown);
                let lines: Vec<&str> = text.lines().chain(errors.lines()).filter(own).collect();
                read_colons(&lines.join("\n"), &shown)
            }
            Self::Python(python) => {
                let mut command = Command::new(python);
                command.args(["-c", COMPILE]).arg(path);
                let (text, _) = output(command);
                // A linter that can't run, because a part of it is missing, does not print `done`:
                // no problems.
                if !text.lines().any(|line| line == "done") {
                    return Self::Grammar.problems(path);
                }
                read_colons(&text, &shown)
            }
            Self::Grammar => python::problems(&fs::read(path).unwrap_or_default()),
            Self::Json => json(&fs::read(path).unwrap_or_default()),
            Self::Shell(shell) => {
                let mut command = Command::new(shell);
                command.arg("-n").arg(path);
                shell_problems(&output(command).1, &shown)
            }
            Self::Node(node) => {
                let mut command = Command::new(node);
                command.arg("--check").arg(path);
                node_problems(&output(command).1, &shown)
            }
        }
    }
}

/// The command line with the path, which is quoted for the shell where necessary.
fn filled(line: &str, path: &str) -> String {
    const PLACE: &str = "{file_path}";
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%,=".contains(c);
    let quoted = line.contains("'{file_path}'") || line.contains("\"{file_path}\"");
    if quoted || path.chars().all(plain) {
        return line.replace(PLACE, path);
    }
    line.replace(PLACE, &format!("'{}'", path.replace('\'', "'\\''")))
}

/// The output of a linter on stdout and on stderr; empty if it can't be run or takes too long.
fn output(mut command: Command) -> (String, String) {
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        return Default::default();
    };
    let (send, receive) = mpsc::channel();
    let streams = [
        child
            .stdout
            .take()
            .map(|it| Box::new(it) as Box<dyn std::io::Read + Send>),
        child
            .stderr
            .take()
            .map(|it| Box::new(it) as Box<dyn std::io::Read + Send>),
    ];
    for (place, stream) in streams.into_iter().flatten().enumerate() {
        let send = send.clone();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stream.take(4 << 20).read_to_end(&mut bytes);
            let _ = send.send((place, bytes));
        });
    }
    let end = Instant::now() + TIME_LIMIT;
    let mut texts = [Vec::new(), Vec::new()];
    for _ in 0..texts.len() {
        match receive.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok((place, bytes)) => texts[place] = bytes,
            Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Default::default();
            }
        }
    }
    let _ = child.wait();
    let [stdout, stderr] = texts.map(|text| String::from_utf8_lossy(&text).into_owned());
    (stdout, stderr)
}

fn json(content: &[u8]) -> Vec<LintProblem> {
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    if content.trim_ascii().is_empty() {
        return Vec::new();
    }
    let Err(error) = serde_json::from_slice::<&serde_json::value::RawValue>(content) else {
        return Vec::new();
    };
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    let text = format!("JSON: {text} (column {column})");
    vec![LintProblem { line, column, text }]
}

/// Reads `PATH: line 3: TEXT` of bash and busybox, `PATH: 3: TEXT` of dash.
fn shell_problems(output: &str, path: &str) -> Vec<LintProblem> {
    let first = output.lines().find_map(|line| {
        let rest = line.strip_prefix(path)?.strip_prefix(": ")?;
        let (number, text) = rest.split_once(": ")?;
        let number = number.strip_prefix("line ").unwrap_or(number);
        Some(LintProblem {
            line: number.parse().ok()?,
            column: 0,
            text: format!("shell: {text}"),
        })
    });
    first.into_iter().collect()
}

/// Reads `PATH:3`, the line with a mark below, and `SyntaxError: TEXT`.
fn node_problems(output: &str, path: &str) -> Vec<LintProblem> {
    let line = output.lines().find_map(|line| {
        let (_, number) = line.split_once(path)?;
        number.strip_prefix(':')?.parse().ok()
    });
    let text = output
        .lines()
        .find(|line| line.starts_with("SyntaxError: "));
    let found = line.zip(text).map(|(line, text)| LintProblem {
        line,
        column: 0,
        text: text.to_owned(),
    });
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::{filled, json, node_problems, shell_problems};

    #[test]
    fn outputs_are_read() {
        for (output, line, text) in [
            (
                "p.sh: line 3: syntax error near `fi'",
                3,
                "shell: syntax error near `fi'",
            ),
            (
                "p.sh: 12: Syntax error: \"fi\" unexpected",
                12,
                "shell: Syntax error: \"fi\" unexpected",
            ),
        ] {
            let read = shell_problems(output, "p.sh");
            assert_eq!((read[0].line, read[0].text.as_str()), (line, text));
        }
        assert!(shell_problems("p.sh: not found\n", "p.sh").is_empty());
        let node =
            "/t/p.js:3\nlet = ;\n    ^\n\nSyntaxError: Unexpected token ';'\n    at x (node:1:2)\n";
        let read = node_problems(node, "/t/p.js");
        assert_eq!(
            (read[0].line, read[0].text.as_str()),
            (3, "SyntaxError: Unexpected token ';'")
        );
        let read = json(b"{\n  \"a\": 1,\n}\n");
        assert_eq!(
            (read[0].line, read[0].text.as_str()),
            (3, "JSON: key must be a string (column 1)")
        );
        assert!(json(b"\xef\xbb\xbf[1]").is_empty() && json(b" \n").is_empty());
        let deep = ["[".repeat(100_000), "]".repeat(100_000)].concat();
        assert!(json(deep.as_bytes()).is_empty());
    }

    #[test]
    fn a_path_is_quoted_where_it_must_be() {
        assert_eq!(filled("lint {file_path} -q", "/a/b.py"), "lint /a/b.py -q");
        assert_eq!(
            filled("lint {file_path}", "/a b/it's.py"),
            "lint '/a b/it'\\''s.py'"
        );
        assert_eq!(filled("lint '{file_path}'", "/a b.py"), "lint '/a b.py'");
    }
}
