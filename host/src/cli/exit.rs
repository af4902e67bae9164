//! Exit codes. Scripts depend on them, so they never change.

use mswea_core::{End, ModelFailure};

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ExitCode {
    /// The model submitted; also: a command did what it was asked for.
    Submitted = 0,
    /// The run ended or failed in a way that has no exit code of its own.
    Failed = 1,
    /// Wrong flags, task or config.
    Usage = 2,
    /// A limit of steps, money or time.
    Limit = 3,
    /// Too many replies in a row were malformed.
    Format = 4,
    /// The provider gave no answer or refused the key.
    Provider = 5,
    /// The environment that commands run in is not usable.
    Environment = 6,
    /// A plugin could not be loaded or failed.
    Plugin = 7,
    /// A worker of a batch had to stop, and has given up its claims: it should be started again.
    GivenBack = 75,
    /// Ended by a signal.
    Interrupted = 130,
}

/// Which ends have exit codes of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ExitCodes {
    /// All exit statuses: each kind has an exit code of its own.
    #[default]
    Mswea,
    /// As with mini-swe-agent: 0 however the run ended, 1 if an error ended it
    Mini,
}

impl ExitCodes {
    /// The exit code of a run with this end.
    pub fn of_run(self, end: &End) -> ExitCode {
        match (self, ExitCode::from(end)) {
            (Self::Mswea, code) => code,
            // In mini-swe-agent these ends are no exceptions.
            (Self::Mini, ExitCode::Submitted | ExitCode::Limit | ExitCode::Format) => {
                ExitCode::Submitted
            }
            // Python has the same exit code for it.
            (Self::Mini, ExitCode::Interrupted) => ExitCode::Interrupted,
            (Self::Mini, _) => ExitCode::Failed,
        }
    }

    /// The code of a run that never began.
    pub fn of_setup(self, code: ExitCode) -> ExitCode {
        match (self, code) {
            (Self::Mswea, code)
            | (Self::Mini, code @ (ExitCode::Usage | ExitCode::Interrupted)) => code,
            (Self::Mini, _) => ExitCode::Failed,
        }
    }
}

impl ExitCode {
    /// Every code, in order.
    pub const ALL: [Self; 9] = [
        Self::Submitted,
        Self::Failed,
        Self::Usage,
        Self::Limit,
        Self::Format,
        Self::Provider,
        Self::Environment,
        Self::Plugin,
        Self::Interrupted,
    ];

    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<&End> for ExitCode {
    fn from(end: &End) -> Self {
        match end {
            End::Submitted => Self::Submitted,
            End::LimitsExceeded
            | End::TimeExceeded
            | End::RepeatedTimeouts
            | End::ExecutionTimeExceeded => Self::Limit,
            End::RepeatedFormatError => Self::Format,
            End::Interrupted => Self::Interrupted,
            End::Environment { .. } => Self::Environment,
            // Templates are part of the config: an unknown variable in one is found when the run
            // begins.
            End::Template { .. } => Self::Usage,
            End::Plugin { .. } => Self::Plugin,
            End::Query { class, .. } => Self::from(class),
            End::Forfeited
            | End::ExitCommand
            | End::GlobalLimit { .. }
            | End::Journal { .. }
            | End::Crashed { .. } => Self::Failed,
        }
    }
}

impl From<&ModelFailure> for ExitCode {
    fn from(failure: &ModelFailure) -> Self {
        match failure {
            ModelFailure::Plugin => Self::Plugin,
            ModelFailure::Interrupted => Self::Interrupted,
            // `Refused` is included, because its usual cause is a missing key.
            _ => Self::Provider,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_core::ErrorClass;

    #[test]
    fn the_numbers_are_fixed() {
        let numbers = ExitCode::ALL.map(ExitCode::code);
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 130]);
    }

    /// The exit codes of all ends, those of this host and of mini-swe-agent.
    #[test]
    fn ends() {
        let query = |class| End::Query {
            class,
            status: None,
            message: String::new(),
        };
        let message = String::new;
        let vectors = [
            (End::Submitted, 0, 0),
            (End::LimitsExceeded, 3, 0),
            (End::TimeExceeded, 3, 0),
            (End::RepeatedFormatError, 4, 0),
            (End::Interrupted, 130, 130),
            (End::Environment { message: message() }, 6, 1),
            (End::Template { message: message() }, 2, 1),
            (End::Plugin { message: message() }, 7, 1),
            (query(ErrorClass::Authentication.into()), 5, 1),
            (query(ModelFailure::Plugin), 7, 1),
            (End::GlobalLimit { message: message() }, 1, 1),
            (End::Journal { message: message() }, 1, 1),
            (End::Crashed { message: message() }, 1, 1),
        ];
        for (end, ours, mini) in vectors {
            assert_eq!(ExitCodes::Mswea.of_run(&end).code(), ours, "{end:?}");
            assert_eq!(ExitCodes::Mini.of_run(&end).code(), mini, "{end:?}");
        }
        assert_eq!(ExitCodes::Mini.of_setup(ExitCode::Usage), ExitCode::Usage);
        assert_eq!(ExitCodes::Mini.of_setup(ExitCode::Plugin), ExitCode::Failed);
        assert_eq!(
            ExitCodes::Mswea.of_setup(ExitCode::Plugin),
            ExitCode::Plugin
        );
    }

    #[test]
    fn classes() {
        let vectors = [
            (ErrorClass::Authentication.into(), 5),
            (ErrorClass::RateLimited.into(), 5),
            (ErrorClass::Other("new".into()).into(), 5),
            (ModelFailure::Plugin, 7),
            (ModelFailure::Refused, 5),
            (ModelFailure::Interrupted, 130),
        ];
        for (class, code) in vectors {
            assert_eq!(ExitCode::from(&class).code(), code, "{class}");
        }
    }
}
