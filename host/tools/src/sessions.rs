//! Executes the requests of a bundle's commands to a program that stays open. As in SWE-agent 0.7,
//! such a command prints lines `<<INTERACTIVE||TEXT||INTERACTIVE>>`: `SESSION=NAME` names the
//! program, `START` (with a text for its title) and `STOP` start and end it, and any other text is
//! a line of its input. The answer of the program replaces the command's output. At most one
//! program is open.

use std::time::Duration;

use mswea_core::{
    ExpectEnd, Expectation, InteractivePrograms, Output, ProgramEnd, ProgramError, ProgramOutput,
    ProgramStart, Stop,
};

use crate::session_spec::SessionSpec;

const BEGIN: &str = "<<INTERACTIVE||";
const END: &str = "||INTERACTIVE>>";

/// The title if no program is open.
const NONE: &str = "n/a";

/// The time limit for a program to end after a line that ends it.
const QUITTING: Duration = Duration::from_secs(1);

/// The requests of a command.
#[derive(Debug, PartialEq, Eq)]
enum SessionRequest {
    Start(String),
    Stop,
    Line(String),
}

/// The result of sending a line of input.
enum LineEnd {
    /// The program is ready for the next one.
    Ready(String),
    /// The program was interrupted because it took too long, and is ready for the next line.
    Late(String),
    /// The program has ended or was ended.
    Over(String),
}

/// The programs that the bundles' commands keep open.
pub(crate) struct ToolSessions {
    specs: Vec<SessionSpec>,
    /// The first input of each program's shell.
    prologue: String,
    /// The time limit of an answer.
    limit: Duration,
    /// The open program, and its title.
    open: Option<(SessionSpec, String)>,
}

impl ToolSessions {
    /// The programs that `specs` describe.
    pub(crate) fn new(specs: Vec<SessionSpec>, prologue: String, limit: Duration) -> Self {
        Self {
            specs,
            prologue,
            limit,
            open: None,
        }
    }

    /// Whether no bundle has such a program.
    pub(crate) fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// The name and the arguments of the open program; `n/a` if none is open.
    pub(crate) fn title(&self) -> &str {
        self.open.as_ref().map_or(NONE, |open| &open.1)
    }

    /// Executes the requests in the output of the command line `action`; returns false if there are
    /// none.
    pub(crate) async fn attend(
        &mut self,
        action: &str,
        output: &mut Output,
        programs: &mut dyn InteractivePrograms,
        stop: &Stop,
    ) -> bool {
        let Some((name, requests)) = requests(&output.output) else {
            return false;
        };
        let spec = self.specs.iter().find(|spec| spec.name == name);
        let Some(spec) = spec.filter(|spec| spec.is_named_in(action)).cloned() else {
            tracing::warn!("a command that has no interactive session `{name}` has asked for it");
            return false;
        };
        output.output = self.answer(&spec, requests, programs, stop).await;
        true
    }

    async fn answer(
        &mut self,
        spec: &SessionSpec,
        requests: Vec<SessionRequest>,
        programs: &mut dyn InteractivePrograms,
        stop: &Stop,
    ) -> String {
        let refused = |open: &SessionSpec| {
            format!(
                "The interactive session `{}` is open, and only one can be open: close it with `{}` first.\n",
                open.name, open.exit_command
            )
        };
        let is_start = matches!(requests.first(), Some(SessionRequest::Start(_)));
        let mut said = String::new();
        if let Some((open, _)) = self.open.clone()
            && (is_start || open.name != spec.name)
        {
            let late = expect(&open.name, &[], None, Duration::ZERO, programs, stop).await;
            match late {
                Ok(late) if !matches!(late.end, ExpectEnd::Ended(_)) => {
                    return refused(&open) + &cleaned(&late, &open.prompt);
                }
                _ => self.close(&open.name, programs).await,
            }
        }
        let mut has_quit = false;
        let mut requests = requests.into_iter();
        while let Some(request) = requests.next() {
            match request {
                SessionRequest::Start(_) if self.open.is_some() => return refused(spec),
                SessionRequest::Start(arguments) => {
                    if let Err(why) = self.start(spec, programs, stop).await {
                        return why;
                    }
                    let title = format!("{} {arguments}", spec.name).trim_end().to_owned();
                    self.open = Some((spec.clone(), title));
                }
                SessionRequest::Stop if self.open.is_some() || has_quit => {
                    self.close(&spec.name, programs).await;
                    said = format!("The interactive session `{}` is closed.\n", spec.name);
                }
                SessionRequest::Line(line) if self.open.is_some() => {
                    match self.line(spec, &line, programs, stop).await {
                        LineEnd::Ready(text) => said.push_str(&text),
                        // Each of the following lines could take as long.
                        LineEnd::Late(text) => {
                            let left = requests.filter(|it| matches!(it, SessionRequest::Line(_)));
                            let note = match left.count() {
                                0 => String::new(),
                                1 => "1 line was not sent.\n".to_owned(),
                                count => format!("{count} lines were not sent.\n"),
                            };
                            return note + &text + &said;
                        }
                        LineEnd::Over(text) => {
                            self.close(&spec.name, programs).await;
                            said.push_str(&text);
                            has_quit = spec.quit_lines.iter().any(|it| *it == line.trim());
                            if !has_quit {
                                return said;
                            }
                        }
                    }
                }
                SessionRequest::Stop | SessionRequest::Line(_) => {
                    said.push_str(&format!(
                        "The interactive session `{}` is not running: start it with `{}` first.\n",
                        spec.name, spec.start_command
                    ));
                    return said;
                }
            }
        }
        said
    }

    /// Starts the program, and waits until it is ready; its output until then is dropped.
    async fn start(
        &self,
        spec: &SessionSpec,
        programs: &mut dyn InteractivePrograms,
        stop: &Stop,
    ) -> Result<(), String> {
        let failed = |why: &str| {
            format!(
                "The interactive session `{}` can't be started: {why}\n",
                spec.name
            )
        };
        let command = format!("{}\nexec {}", self.prologue, spec.cmdline);
        let start = ProgramStart {
            command: &command,
            terminal: None,
        };
        let opened = programs.open(&spec.name, &start, stop).await;
        opened.map_err(|error| failed(&error.to_string()))?;
        let ready = self.prompt(spec, self.limit, programs, stop).await;
        let why = match ready {
            Ok(output) => match output.end {
                ExpectEnd::Matched(_) => return Ok(()),
                ExpectEnd::Ended(end) => {
                    format!("it has ended ({})\n{}", ended(&end), output.text)
                }
                _ => format!("it has printed no prompt\n{}", output.text),
            },
            Err(error) => error.to_string(),
        };
        let _ = programs.close(&spec.name).await;
        Err(failed(why.trim_end()))
    }

    /// Sends a line, and waits for the answer.
    async fn line(
        &self,
        spec: &SessionSpec,
        line: &str,
        programs: &mut dyn InteractivePrograms,
        stop: &Stop,
    ) -> LineEnd {
        let mut said = String::new();
        // Reads the output after the last prompt.
        match expect(&spec.name, &[], None, Duration::ZERO, programs, stop).await {
            Ok(late) => {
                said.push_str(&cleaned(&late, &spec.prompt));
                if let ExpectEnd::Ended(end) = late.end {
                    return LineEnd::Over(said + &self.over(spec, &ended(&end)));
                }
            }
            Err(error) => return LineEnd::Over(said + &self.over(spec, &error.to_string())),
        }
        let bytes = format!("{line}\n").into_bytes();
        let sent = programs.send(&spec.name, &bytes, self.limit, stop).await;
        let is_quit = spec.quit_lines.iter().any(|quit| quit == line.trim());
        let answered = match sent {
            Err(ProgramError::InputClosed) | Ok(()) if is_quit => {
                expect(&spec.name, &[], None, QUITTING, programs, stop).await
            }
            Err(ProgramError::InputClosed) | Ok(()) => {
                self.prompt(spec, self.limit, programs, stop).await
            }
            Err(error) => Err(error),
        };
        let answer = match answered {
            Ok(answer) => answer,
            Err(error) => return LineEnd::Over(said + &self.over(spec, &error.to_string())),
        };
        if is_quit {
            return match answer.end {
                ExpectEnd::Ended(_) => LineEnd::Over(String::new()),
                _ => LineEnd::Ready(String::new()),
            };
        }
        said.push_str(&cleaned(&answer, &spec.prompt));
        match answer.end {
            ExpectEnd::Matched(_) | ExpectEnd::Stopped => LineEnd::Ready(said),
            ExpectEnd::Ended(end) => LineEnd::Over(said + &self.over(spec, &ended(&end))),
            ExpectEnd::TimedOut | ExpectEnd::Quiet => {
                let was_quiet = answer.end == ExpectEnd::Quiet;
                self.interrupt(spec, said, was_quiet, programs, stop).await
            }
        }
    }

    /// Interrupts a program that does not answer in time.
    async fn interrupt(
        &self,
        spec: &SessionSpec,
        mut said: String,
        was_quiet: bool,
        programs: &mut dyn InteractivePrograms,
        stop: &Stop,
    ) -> LineEnd {
        let why = match (was_quiet, spec.no_output_timeout) {
            (true, Some(quiet)) => format!(
                "it has printed nothing for {} seconds, and was interrupted: use a command that prints something in \
                 this time",
                quiet.as_secs_f64()
            ),
            _ => format!(
                "it did not come to an end within {} seconds, and was interrupted: use a command that takes less time",
                self.limit.as_secs_f64()
            ),
        };
        const INTERRUPTION: i32 = 2;
        for _ in 0..spec.interrupts {
            if programs.signal(&spec.name, INTERRUPTION).await.is_err() {
                break;
            }
            let wait = spec.interrupt_timeout / spec.interrupts;
            match self.prompt(spec, wait, programs, stop).await {
                Ok(answer) => {
                    said.push_str(&cleaned(&answer, &spec.prompt));
                    match answer.end {
                        ExpectEnd::Matched(_) => {
                            // Before the output, whose end may be cut.
                            return LineEnd::Late(format!("The command timed out: {why}.\n{said}"));
                        }
                        ExpectEnd::Ended(_) | ExpectEnd::Stopped => break,
                        ExpectEnd::Quiet | ExpectEnd::TimedOut => {}
                    }
                }
                Err(_) => break,
            }
        }
        let text = format!(
            "The command timed out: {why}. It has not come back to its prompt, so the interactive session `{}` is \
             closed: start it again with `{}`.\n{said}",
            spec.name, spec.start_command
        );
        LineEnd::Over(text)
    }

    async fn prompt(
        &self,
        spec: &SessionSpec,
        limit: Duration,
        programs: &mut dyn InteractivePrograms,
        stop: &Stop,
    ) -> Result<ProgramOutput, ProgramError> {
        let prompt = literal(&spec.prompt);
        let quiet = spec.no_output_timeout;
        expect(&spec.name, &[&prompt], quiet, limit, programs, stop).await
    }

    async fn close(&mut self, name: &str, programs: &mut dyn InteractivePrograms) {
        if self.open.take().is_some() {
            let _ = programs.close(name).await;
        }
    }

    fn over(&self, spec: &SessionSpec, how: &str) -> String {
        format!(
            "The interactive session `{}` is closed, because its program has ended ({how}): start it again with `{}`.\n",
            spec.name, spec.start_command
        )
    }
}

async fn expect(
    name: &str,
    patterns: &[&str],
    quiet: Option<Duration>,
    limit: Duration,
    programs: &mut dyn InteractivePrograms,
    stop: &Stop,
) -> Result<ProgramOutput, ProgramError> {
    let wanted = Expectation {
        patterns,
        quiet,
        limit,
    };
    programs.expect(name, &wanted, stop).await
}

/// The program that an output names, and the requests to it; none if there are no requests.
fn requests(output: &str) -> Option<(String, Vec<SessionRequest>)> {
    let mut name = None;
    let mut requests = Vec::new();
    for line in output.lines() {
        let Some((_, rest)) = line.split_once(BEGIN) else {
            continue;
        };
        let Some((text, _)) = rest.rsplit_once(END) else {
            continue;
        };
        if let Some(session) = text.strip_prefix("SESSION=") {
            name = Some(session.to_owned());
            continue;
        }
        requests.push(match (text, text.strip_prefix("START ")) {
            ("START", _) => SessionRequest::Start(String::new()),
            (_, Some(arguments)) => SessionRequest::Start(arguments.trim().to_owned()),
            ("STOP", _) => SessionRequest::Stop,
            (line, _) => SessionRequest::Line(line.to_owned()),
        });
    }
    Some((name?, requests))
}

/// The output of a program, without its prompts.
fn cleaned(output: &ProgramOutput, prompt: &str) -> String {
    let text = output.text.replace("\r\n", "\n");
    let text = text.strip_suffix(prompt).unwrap_or(&text);
    let mut cleaned = match output.dropped {
        0 => String::new(),
        count => format!("[{count} bytes of the output are left out]\n"),
    };
    for mut line in text.lines() {
        let is_prompted = line.starts_with(prompt);
        while let Some(rest) = line.strip_prefix(prompt) {
            line = rest;
        }
        if !(is_prompted && line.is_empty()) {
            cleaned.push_str(line);
            cleaned.push('\n');
        }
    }
    cleaned
}

fn ended(end: &ProgramEnd) -> String {
    match end {
        ProgramEnd::Exited(code) => format!("exit code {code}"),
        ProgramEnd::Closed => "it was closed".to_owned(),
        ProgramEnd::Lost(why) => why.clone(),
    }
}

/// A regular expression that matches exactly this text.
fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_output_asks_for() {
        let line = |text: &str| SessionRequest::Line(text.to_owned());
        for (output, expected) in [
            ("hello\n", None),
            ("<<INTERACTIVE||break main||INTERACTIVE>>\n", None),
            (
                "<<INTERACTIVE||SESSION=gdb||INTERACTIVE>>\n<<INTERACTIVE||START ./a < in||INTERACTIVE>>\nnoise\n\
                 <<INTERACTIVE||p \"||INTERACTIVE>>\"||INTERACTIVE>>\n<<INTERACTIVE||STOP||INTERACTIVE>>",
                Some(vec![
                    SessionRequest::Start("./a < in".to_owned()),
                    line("p \"||INTERACTIVE>>\""),
                    SessionRequest::Stop,
                ]),
            ),
            (
                "<<INTERACTIVE||SESSION=gdb||INTERACTIVE>>\n<<INTERACTIVE||START||INTERACTIVE>>\n\
                 <<INTERACTIVE||STARTER||INTERACTIVE>>\n<<INTERACTIVE||||INTERACTIVE>>\n<<INTERACTIVE||open",
                Some(vec![
                    SessionRequest::Start(String::new()),
                    line("STARTER"),
                    line(""),
                ]),
            ),
        ] {
            let expected = expected.map(|requests| ("gdb".to_owned(), requests));
            assert_eq!(requests(output), expected, "{output}");
        }
    }

    #[test]
    fn prompts_are_left_out() {
        for (text, expected) in [
            ("a\r\nb\n(gdb) ", "a\nb\n"),
            ("(gdb) (gdb) ", ""),
            ("(gdb) late\n(gdb) ", "late\n"),
            ("no line end(gdb) ", "no line end\n"),
            ("", ""),
            ("\n(gdb) ", "\n"),
        ] {
            let output = ProgramOutput {
                text: text.to_owned(),
                dropped: 0,
                end: ExpectEnd::TimedOut,
            };
            assert_eq!(cleaned(&output, "(gdb) "), expected, "{text:?}");
        }
        let pattern = literal("(gdb) $é");
        assert_eq!(pattern, r"\(gdb\) \$é");
    }
}
