//! The place at which a value was set.

use std::fmt;

use super::redact;

/// The place where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The built-in default of the key.
    BuiltIn,
    /// A built-in preset, by name.
    Preset {
        /// The preset's name.
        name: String,
    },
    /// A file; line and column count from 1.
    File {
        /// The path as it was found.
        path: String,
        /// Line.
        line: usize,
        /// Column, in characters.
        column: usize,
    },
    /// A `-c key=value` argument.
    Set {
        /// The argument as it was written.
        spec: String,
    },
    /// A command line flag.
    Flag {
        /// Its name, for example `--model`.
        name: String,
    },
    /// An environment variable.
    Variable {
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in default"),
            Self::Preset { name } => write!(f, "preset {name}"),
            Self::File { path, line, .. } => write!(f, "{path}:{line}"),
            Self::Set { spec } => write!(f, "-c {}", shortened(&redact::spec(spec))),
            Self::Flag { name } => write!(f, "flag {name}"),
            Self::Variable { name } => write!(f, "environment variable {name}"),
        }
    }
}

/// One line of at most 60 characters: a spec may hold a whole template.
fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= 60 && line.len() == text.len() {
        return line.to_owned();
    }
    let mut short: String = line.chars().take(57).collect();
    short.push_str("...");
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_people_write_places() {
        let set = |spec: &str| Origin::Set { spec: spec.into() };
        for (origin, text) in [
            (Origin::BuiltIn, "built-in default"),
            (
                Origin::Preset {
                    name: "text".into(),
                },
                "preset text",
            ),
            (
                Origin::File {
                    path: "a/b.toml".into(),
                    line: 3,
                    column: 9,
                },
                "a/b.toml:3",
            ),
            (set("agent.step_limit=3"), "-c agent.step_limit=3"),
            (
                set("model.model_kwargs.api_key=sk-123"),
                "-c model.model_kwargs.api_key=[redacted]",
            ),
            (set("run.task=a\nb"), "-c run.task=a..."),
            (
                Origin::Flag {
                    name: "--model".into(),
                },
                "flag --model",
            ),
            (
                Origin::Variable {
                    name: "MSWEA_MODEL_NAME".into(),
                },
                "environment variable MSWEA_MODEL_NAME",
            ),
        ] {
            assert_eq!(origin.to_string(), text);
        }
    }
}
