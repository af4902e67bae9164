//! The protocol with a living bash that gets one command after the other: the text that is written
//! to it, and its reports. This module does no I/O.
//!
//! The shell reads lines from its standard input, which is a pipe. The command itself is in a file
//! without a name at descriptor [`TEXT`]; the line tells the shell to source that file. So the
//! shell parses the whole command by itself, and unbalanced quotes are an error of the command, as
//! with `bash -c`. The output of the shell and of commands is a pipe ([`OUTPUT`], and 1); the
//! standard error of the shell itself is another pipe, which gets the shell's prompts and its
//! report. A command has `/dev/null` as its input, and the first pipe as its output and its error.
//! With a terminal, the terminal takes the place of all three, and is the shell's controlling
//! terminal, so that the shell has job control: each command is a process group of its own, in the
//! foreground while it runs. The lines and reports never go through the terminal. Bash keeps its
//! own descriptors at other numbers, which are closed in the programs that it starts.
//!
//! The report is the message of a failed expansion (`${NAME:?MESSAGE}`). An expansion needs no
//! command that a function could replace: a shell whose user has redefined `printf` or `builtin`
//! still reports. The shell is an interactive one, because only an interactive shell returns to its
//! next line on SIGINT; while it sources a file, it does not behave as interactive for the command
//! (no `exit` and no `[1] 123` in the output).

use std::fmt::Write as _;

/// The descriptor of a second output of the shell, which is duplicated for commands.
pub const OUTPUT: i32 = 203;
/// The descriptor of the file to which the shell writes its exported variables.
pub const STATE: i32 = 204;
/// The descriptor of the file with the command.
pub const TEXT: i32 = 205;

/// The descriptor of a file with [`PROOF_TEXT`].
pub const PROOF: i32 = 206;
/// The file that is sourced before each command. It proves that the shell can read commands, and
/// resets the option that would end the shell at its report.
pub const PROOF_TEXT: &[u8] =
    b"__mswea_read=$__mswea_asked; [[ ${__mswea_strict-} != e ]] || { __mswea_strict=; \\set -e; }\n";

/// The arguments of bash.
pub const ARGUMENTS: &[&str] = &[
    "--noprofile",
    "--norc",
    "--noediting",
    "+o",
    "history",
    "+H",
    "-i",
];

/// Reads the files that a login shell reads. Bash's own option is not used, because a file that
/// reads its standard input would then read the lines that are meant for the shell.
const LOGIN: &str = "[[ ! -r /etc/profile ]] || \\. /etc/profile; \
    for __mswea_file in ~/.bash_profile ~/.bash_login ~/.profile; do \
    [[ ! -r $__mswea_file ]] || { \\. \"$__mswea_file\"; break; }; done; unset __mswea_file; ";

/// The longest line of the shell's standard error that is kept.
const LONGEST_LINE: usize = 64 * 1024;

/// The variables of the shell that a new shell does not take over, because it has its own.
const OWN: &[&str] = &["PWD", "OLDPWD", "SHLVL", "MSWEA_"];

/// The protocol state of one shell.
#[derive(Debug)]
pub struct Dialogue {
    /// A text that only this shell's reports contain.
    nonce: String,
    /// Whether commands have a terminal.
    has_terminal: bool,
    /// The number of the last command.
    number: u64,
    /// Bytes of the shell that are not a complete line yet.
    rest: Vec<u8>,
}

/// A shell's report of the end of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The exit code.
    pub status: i32,
    /// Whether the shell has sourced the command. It has not if a function has the name `.`, or if
    /// the shell's descriptors are gone.
    pub was_read: bool,
    /// The shell's working directory.
    pub folder: Vec<u8>,
}

impl Dialogue {
    /// The state for a shell that was just started; `nonce` consists of letters and digits. With a
    /// terminal, [`OUTPUT`] is that terminal.
    pub fn new(nonce: &str, has_terminal: bool) -> Self {
        Self {
            nonce: nonce.to_owned(),
            has_terminal,
            number: 0,
            rest: Vec::new(),
        }
    }

    /// The text for the shell before the first command: with `login`, the shell reads the files
    /// that a login shell reads; it takes over the variables in its file of exported variables.
    pub fn opening(&self, login: bool) -> Vec<u8> {
        let files = match login {
            true => LOGIN,
            false => "",
        };
        format!("{{ {files}\\. /dev/fd/{STATE}; }} </dev/null >/dev/null 2>&1\n").into_bytes()
    }

    /// The content of the file for the next command, and the line for the shell; `action` becomes
    /// the value of `MSWEA_ACTION`.
    pub fn ask(&mut self, command: &str, action: &str) -> (Vec<u8>, Vec<u8>) {
        self.number += 1;
        let input = match self.has_terminal {
            true => format!("<&{OUTPUT}"),
            false => "</dev/null".to_owned(),
        };
        let mut line = format!(
            "MSWEA_ACTION={} __mswea_status=130 __mswea_asked={}; \\. /dev/fd/{PROOF} 2>/dev/null; \\. /dev/fd/{TEXT} {input} >&{OUTPUT} 2>&{OUTPUT} {OUTPUT}>&- {STATE}>&-; ",
            quoted(action),
            self.number
        );
        // A prompt may run commands, which would read the lines that are meant for the shell.
        line.push_str("__mswea_status=$? PS1= PS2= PS0= PROMPT_COMMAND=\n");
        line.push_str(&self.question());
        (format!("{command}\n").into_bytes(), line.into_bytes())
    }

    /// The line for the shell after an interruption, at which it may have lost the end of a line:
    /// asks for the report again.
    pub fn ask_again(&self) -> Vec<u8> {
        format!("\n{}", self.question()).into_bytes()
    }

    fn question(&self) -> String {
        let mut line = String::new();
        // A failed expansion ends a shell with `set -e`.
        let _ = writeln!(
            line,
            "[[ $- != *e* ]] || {{ __mswea_strict=e; \\set +e; }}; \\declare -px >|/dev/fd/{STATE}"
        );
        let _ = writeln!(
            line,
            "__mswea_none=${{__mswea_report:?{} {} ${{__mswea_status-}} ${{__mswea_read-}} $PWD}}",
            self.nonce, self.number
        );
        line
    }

    /// Adds bytes of the shell's standard error; returns the report of the last command if it is
    /// complete.
    pub fn hear(&mut self, bytes: &[u8]) -> Option<Report> {
        self.rest.extend_from_slice(bytes);
        let mut report = None;
        let mut done = 0;
        while let Some(length) = self.rest[done..].iter().position(|byte| *byte == b'\n') {
            let line = &self.rest[done..done + length];
            done += length + 1;
            report = self.report(line).or(report);
        }
        self.rest.drain(..done);
        if self.rest.len() > LONGEST_LINE {
            self.rest.clear();
        }
        report
    }

    fn report(&self, line: &[u8]) -> Option<Report> {
        let mark = format!("__mswea_report: {} {} ", self.nonce, self.number);
        let at = line
            .windows(mark.len())
            .position(|part| part == mark.as_bytes())?;
        let mut words = line[at + mark.len()..].splitn(3, |byte| *byte == b' ');
        let mut number = || std::str::from_utf8(words.next()?).ok()?.parse::<u64>().ok();
        let status = number();
        let read = number();
        Some(Report {
            status: status
                .and_then(|status| status.try_into().ok())
                .unwrap_or(1),
            was_read: status.is_some() && read == Some(self.number),
            folder: words.next().unwrap_or_default().to_vec(),
        })
    }
}

/// The text with which a new shell takes over the exported variables of an earlier one, as that
/// shell wrote them.
pub fn taken_over(state: &[u8]) -> Vec<u8> {
    let is_own = |line: &[u8]| {
        let mut words = line.splitn(3, |byte| *byte == b' ').skip(2);
        let name = words.next().unwrap_or_default();
        OWN.iter().any(|own| {
            name.strip_prefix(own.as_bytes())
                .is_some_and(|rest| own.ends_with('_') || rest.is_empty() || rest[0] == b'=')
        })
    };
    let lines = state.split_inclusive(|byte| *byte == b'\n');
    lines
        .filter(|line| !is_own(line.strip_suffix(b"\n").unwrap_or(line)))
        .collect::<Vec<_>>()
        .concat()
}

/// Quotes a text as one word of a shell.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_that_of_the_last_command() {
        let mut dialogue = Dialogue::new("n0", false);
        let _ = dialogue.ask("true", "a.1");
        let (text, line) = dialogue.ask("echo 'x", "a.2");
        assert_eq!(text, b"echo 'x\n");
        assert!(line.starts_with(b"MSWEA_ACTION='a.2' "), "{line:?}");
        assert_eq!(
            dialogue.hear(b"bash: __mswea_report: n0 1 0 1 /a\n$ bash: __mswea_rep"),
            None
        );
        let heard = dialogue.hear(b"ort: n0 2 7 2 /a b\n> ").unwrap();
        assert_eq!(
            heard,
            Report {
                status: 7,
                was_read: true,
                folder: b"/a b".to_vec()
            }
        );
        // Lines that `set -v` prints, and lines of another shell.
        let other = b"__mswea_none=${__mswea_report:?n0 2 $? \nbash: __mswea_report: n1 2 0 2 /\n";
        assert_eq!(dialogue.hear(other), None);
        let heard = dialogue
            .hear(b"bash: __mswea_report: n0 2 0 1 /\n")
            .unwrap();
        assert!(!heard.was_read);
        let heard = dialogue.hear(b"bash: __mswea_report: n0 2   /\n").unwrap();
        assert!(!heard.was_read);
    }

    #[test]
    fn a_flood_without_lines_is_not_kept() {
        let mut dialogue = Dialogue::new("n", false);
        let _ = dialogue.ask(":", "a");
        for _ in 0..100 {
            assert_eq!(dialogue.hear(&[b'x'; 4096]), None);
        }
        assert!(dialogue.rest.len() <= LONGEST_LINE);
        assert!(dialogue.hear(b"\n__mswea_report: n 1 0 1 /\n").is_some());
    }

    #[test]
    fn a_new_shell_keeps_what_is_its_own() {
        let state = b"declare -x A=\"1\"\ndeclare -x PWD=\"/x\"\ndeclare -x OLDPWD\n\
                      declare -rx PWDS=\"y\nz\"\ndeclare -x MSWEA_ACTION=\"q\"\n";
        let wanted = b"declare -x A=\"1\"\ndeclare -rx PWDS=\"y\nz\"\n";
        assert_eq!(taken_over(state), wanted);
        assert_eq!(taken_over(b""), b"");
    }
}
