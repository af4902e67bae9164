//! The form of the output: whether it goes to a terminal, in colours, and how much of it is shown.

use std::ffi::OsString;
use std::io::IsTerminal;

/// The abilities of the terminal and the wishes of the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Stderr is a terminal: answers are shown while they arrive.
    pub live: bool,
    /// A line may be overwritten (not with `TERM=dumb`).
    pub redraw: bool,
    /// ANSI colours may be used. No information is shown only by colour.
    pub colour: bool,
    /// Stdout is a terminal: the submission is made harmless for it.
    pub stdout_terminal: bool,
    /// How often `-v` was given.
    pub verbose: u8,
    /// How wide the lines may be.
    pub width: Width,
}

/// The source of the width of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Width {
    /// There is no screen: lines are not wrapped.
    #[default]
    Any,
    /// The terminal of stderr, which may be resized at any time.
    Stderr,
    /// A fixed number of columns.
    Columns(usize),
}

/// A reported width below this is not plausible, and is ignored.
const NARROWEST: usize = 20;

impl Width {
    /// How many columns a line may have; `None` without a limit.
    pub fn columns(self) -> Option<usize> {
        match self {
            Self::Any => None,
            Self::Columns(columns) => Some(columns),
            Self::Stderr => rustix::termios::tcgetwinsize(rustix::stdio::stderr())
                .ok()
                .map(|size| usize::from(size.ws_col))
                .filter(|columns| *columns >= NARROWEST),
        }
    }
}

impl Look {
    /// Reads the properties of stdout and stderr, and the environment variables.
    pub fn detect(verbose: u8) -> Self {
        Self::decide(
            std::io::stderr().is_terminal(),
            std::io::stdout().is_terminal(),
            verbose,
            |name| std::env::var_os(name),
        )
    }

    /// The same look; with `plain`, no line is overwritten.
    #[must_use]
    pub fn plainly(self, plain: bool) -> Self {
        Self {
            redraw: self.redraw && !plain,
            ..self
        }
    }

    /// The same for a command whose data go to stdout: the terminal of stdout counts, not that of
    /// stderr.
    pub fn of_stdout() -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self::decide(terminal, terminal, 0, |name| std::env::var_os(name))
    }

    fn decide(
        stderr_terminal: bool,
        stdout_terminal: bool,
        verbose: u8,
        env: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let is = |name: &str, wanted: &str| env(name).is_some_and(|value| value == wanted);
        // By both conventions, an empty variable counts as unset.
        let given = |name: &str| env(name).is_some_and(|value| !value.is_empty());
        let clever = stderr_terminal && !is("TERM", "dumb");
        let forced = given("CLICOLOR_FORCE") && !is("CLICOLOR_FORCE", "0");
        Self {
            live: stderr_terminal,
            redraw: clever,
            colour: !given("NO_COLOR") && (forced || clever && !is("CLICOLOR", "0")),
            stdout_terminal,
            verbose,
            width: match stderr_terminal {
                true => Width::Stderr,
                false => Width::Any,
            },
        }
    }

    /// `text` in `colour`, if colours are on.
    pub(crate) fn paint(self, colour: Colour, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let code = match colour {
            Colour::Bold => "1",
            Colour::Dim => "2",
            Colour::Reversed => "7",
            Colour::Red => "31",
            Colour::Green => "32",
            Colour::Yellow => "33",
            Colour::Blue => "34",
            Colour::Magenta => "35",
            Colour::Cyan => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// The few colours in use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Colour {
    Bold,
    Dim,
    Reversed,
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours() {
        type Env = &'static [(&'static str, &'static str)];
        // terminal, environment, colour, redraw
        let vectors: [(bool, Env, bool, bool); 12] = [
            (true, &[], true, true),
            (false, &[], false, false),
            (true, &[("NO_COLOR", "1")], false, true),
            (true, &[("NO_COLOR", "0")], false, true),
            (true, &[("NO_COLOR", "")], true, true),
            (true, &[("TERM", "dumb")], false, false),
            (true, &[("TERM", "xterm")], true, true),
            (true, &[("CLICOLOR", "0")], false, true),
            (false, &[("CLICOLOR_FORCE", "1")], true, false),
            (false, &[("CLICOLOR_FORCE", "0")], false, false),
            (
                true,
                &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")],
                true,
                false,
            ),
            (
                true,
                &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")],
                false,
                true,
            ),
        ];
        for (terminal, env, colour, redraw) in vectors {
            let look = Look::decide(terminal, false, 0, |name| {
                env.iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| OsString::from(value))
            });
            assert_eq!((look.colour, look.redraw), (colour, redraw), "{env:?}");
            assert_eq!(look.live, terminal);
        }
    }
}
