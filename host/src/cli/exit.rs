//! Exit codes: what a script learns from `$?`. They are interface, so they never change.

use crate::roles::ErrorClass;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ExitCode {
    /// The model submitted; also: a command did what it was asked for.
    Submitted = 0,
    /// The run ended in another way, or failed in one that has no code of its own.
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
    /// Ended by a signal.
    Interrupted = 130,
}

/// Exit statuses (of runs and of the SWE-agent profile) and what they mean to a script.
const STATUSES: [(&str, ExitCode); 35] = [
    ("Submitted", ExitCode::Submitted),
    ("submitted", ExitCode::Submitted),
    // Templates are config: one that names an unknown variable shows when the run begins.
    ("TemplateError", ExitCode::Usage),
    ("LimitsExceeded", ExitCode::Limit),
    ("TimeExceeded", ExitCode::Limit),
    ("exit_cost", ExitCode::Limit),
    ("exit_total_execution_time", ExitCode::Limit),
    ("RepeatedFormatError", ExitCode::Format),
    ("FormatError", ExitCode::Format),
    ("exit_format", ExitCode::Format),
    ("ProviderError", ExitCode::Provider),
    ("AuthenticationError", ExitCode::Provider),
    ("PermissionError", ExitCode::Provider),
    ("PermissionDeniedError", ExitCode::Provider),
    ("NotFoundError", ExitCode::Provider),
    ("BadRequestError", ExitCode::Provider),
    ("UnsupportedParamsError", ExitCode::Provider),
    ("ContextWindowExceededError", ExitCode::Provider),
    ("RateLimitError", ExitCode::Provider),
    ("OverloadedError", ExitCode::Provider),
    ("ServiceUnavailableError", ExitCode::Provider),
    ("InternalServerError", ExitCode::Provider),
    ("APIConnectionError", ExitCode::Provider),
    ("APIError", ExitCode::Provider),
    ("NetworkError", ExitCode::Provider),
    ("Timeout", ExitCode::Provider),
    ("ContentPolicyViolationError", ExitCode::Provider),
    ("MalformedResponseError", ExitCode::Provider),
    ("exit_api", ExitCode::Provider),
    ("exit_context", ExitCode::Provider),
    ("EnvironmentError", ExitCode::Environment),
    ("exit_environment_error", ExitCode::Environment),
    ("PluginError", ExitCode::Plugin),
    ("Interrupted", ExitCode::Interrupted),
    ("KeyboardInterrupt", ExitCode::Interrupted),
];

/// Which of the endings a script can tell apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ExitCodes {
    /// All of them: each kind has a code of its own
    #[default]
    Mswea,
    /// As with mini-swe-agent: 0 however the run ended, 1 if an error ended it
    Mini,
}

impl ExitCodes {
    /// The code of a run that ended with `status`.
    pub fn of_run(self, status: &str) -> ExitCode {
        match (self, ExitCode::from_exit_status(status)) {
            (Self::Mswea, code) => code,
            // Of what ends a run there, these are no exceptions.
            (Self::Mini, ExitCode::Submitted | ExitCode::Limit | ExitCode::Format) => {
                ExitCode::Submitted
            }
            // Python's own for that.
            (Self::Mini, ExitCode::Interrupted) => ExitCode::Interrupted,
            (Self::Mini, _) => ExitCode::Failed,
        }
    }

    /// The code of a run that never began.
    pub fn of_setup(self, code: ExitCode) -> ExitCode {
        match (self, code) {
            (Self::Mswea, code) | (Self::Mini, code @ ExitCode::Usage) => code,
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

    /// The code of a run that ended with `status`. A submission that was only made because
    /// something else ended the run (`submitted (exit_cost)`) has the code of that.
    pub fn from_exit_status(status: &str) -> Self {
        let cause = status
            .strip_prefix("submitted (")
            .and_then(|rest| rest.strip_suffix(')'))
            .unwrap_or(status);
        STATUSES
            .iter()
            .find(|(known, _)| *known == cause)
            .map_or(Self::Failed, |(_, code)| *code)
    }
}

impl From<&ErrorClass> for ExitCode {
    fn from(class: &ErrorClass) -> Self {
        match class {
            ErrorClass::Plugin => Self::Plugin,
            ErrorClass::Interrupted => Self::Interrupted,
            // `Refused` too: its usual cause is a missing key.
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

    #[test]
    fn the_numbers_are_fixed() {
        let numbers = ExitCode::ALL.map(ExitCode::code);
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 130]);
    }

    #[test]
    fn statuses() {
        let vectors = [
            ("Submitted", 0),
            ("submitted", 0),
            ("submitted (exit_cost)", 3),
            ("submitted (exit_context)", 5),
            ("submitted (exit_error)", 1),
            ("submitted (", 1),
            ("TemplateError", 2),
            ("LimitsExceeded", 3),
            ("TimeExceeded", 3),
            ("RepeatedFormatError", 4),
            ("exit_format", 4),
            ("AuthenticationError", 5),
            ("ProviderError", 5),
            ("EnvironmentError", 6),
            ("PluginError", 7),
            ("Interrupted", 130),
            ("", 1),
            ("SomethingElse", 1),
            ("exit_forfeit", 1),
        ];
        for (status, code) in vectors {
            assert_eq!(ExitCode::from_exit_status(status).code(), code, "{status}");
        }
    }

    #[test]
    fn as_with_mini_swe_agent() {
        for (status, code) in [
            ("Submitted", 0),
            ("LimitsExceeded", 0),
            ("TimeExceeded", 0),
            ("RepeatedFormatError", 0),
            ("TemplateError", 1),
            ("AuthenticationError", 1),
            ("EnvironmentError", 1),
            ("PluginError", 1),
            ("SomethingElse", 1),
            ("Interrupted", 130),
        ] {
            assert_eq!(ExitCodes::Mini.of_run(status).code(), code, "{status}");
            let ours = ExitCode::from_exit_status(status);
            assert_eq!(ExitCodes::Mswea.of_run(status), ours);
        }
        assert_eq!(ExitCodes::Mini.of_setup(ExitCode::Usage), ExitCode::Usage);
        assert_eq!(ExitCodes::Mini.of_setup(ExitCode::Plugin), ExitCode::Failed);
        assert_eq!(
            ExitCodes::Mswea.of_setup(ExitCode::Plugin),
            ExitCode::Plugin
        );
    }

    #[test]
    fn no_status_is_listed_twice() {
        for (index, (status, _)) in STATUSES.iter().enumerate() {
            assert!(STATUSES[..index].iter().all(|(other, _)| other != status));
        }
    }

    #[test]
    fn classes() {
        let vectors = [
            (ErrorClass::Authentication, 5),
            (ErrorClass::RateLimited, 5),
            (ErrorClass::Other("new".into()), 5),
            (ErrorClass::Plugin, 7),
            (ErrorClass::Refused, 5),
            (ErrorClass::Interrupted, 130),
        ];
        for (class, code) in vectors {
            assert_eq!(ExitCode::from(&class).code(), code, "{class}");
        }
    }
}
