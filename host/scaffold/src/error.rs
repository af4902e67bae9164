//! Everything that can go wrong with a project, each with what to do about it.

use std::io;
use std::path::PathBuf;

use crate::kinds::{Kind, Language};

/// Why there is no project, or no component.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not a kind of plugin.
    #[error(
        "`{word}` is no kind of plugin; the kinds are `adapter`, `parser`, `formatter`, \
         `processor` and `policy`"
    )]
    UnknownKind {
        /// What was asked for.
        word: String,
    },

    /// Not a language of ours.
    #[error(
        "there is no SDK for `{word}`; the languages are `rust`, `python`, `js` and `c`. The \
         contract is plain WIT, so others work too: see `wit/README.md`"
    )]
    UnknownLanguage {
        /// What was asked for.
        word: String,
    },

    /// A name that is none.
    #[error("`{name}` can't be a plugin's name: {why}; take something like `my-parser`")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },

    /// Only Python's components can read their source.
    #[error("`--dev` is for Python, whose builds take long; in {language} build as usual")]
    NoDevelopment {
        /// The project's.
        language: Language,
    },

    /// The folder is taken.
    #[error(
        "`{}` exists and is not empty; choose another name or folder, or remove it",
        .folder.display()
    )]
    Exists {
        /// The folder.
        folder: PathBuf,
    },

    /// The SDK has no template of this kind.
    #[error(
        "this build of mswea-host has no template for a {kind} in {language}; build it from \
         sources that have `sdk/{language}/template/{kind}`"
    )]
    NoTemplate {
        /// The kind.
        kind: Kind,
        /// The language.
        language: Language,
    },

    /// What is embedded can't be read.
    #[error("the embedded SDKs can't be unpacked: {why}; this is a fault of the build")]
    Embedded {
        /// What was wrong.
        why: String,
    },

    /// A file or a folder could not be read or written.
    #[error("can't {what} `{}`: {source}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What came of it.
        source: io::Error,
    },

    /// The folder is no plugin's project.
    #[error(
        "`{}` is no plugin project: it has no `mswea-plugin.toml`; make one with `mswea-host \
         plugin new`, or name the project's folder",
        .folder.display()
    )]
    NotAProject {
        /// The folder.
        folder: PathBuf,
    },

    /// The project's file does not say what it has to.
    #[error("`{}`: {why}", .path.display())]
    Project {
        /// `mswea-plugin.toml`.
        path: PathBuf,
        /// What is wrong, and what to write instead.
        why: String,
    },

    /// A tool is missing.
    #[error("{what}; install it:\n{}", indented(.install))]
    Missing {
        /// What is missing and what it is for.
        what: String,
        /// The commands that bring it.
        install: Vec<String>,
    },

    /// A tool could not be started.
    #[error("`{command}` can't be started: {source}")]
    Start {
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },

    /// A tool failed.
    #[error("`{command}` failed ({status}):\n{output}")]
    Failed {
        /// The command.
        command: String,
        /// How it ended.
        status: String,
        /// What it printed, without its middle if that was much.
        output: String,
    },

    /// A tool succeeded, but there is nothing.
    #[error("`{command}` succeeded, but there is no component: {why}")]
    NoComponent {
        /// The command.
        command: String,
        /// Where it was expected, and what may be wrong.
        why: String,
    },
}

impl Error {
    /// For `map_err` of what goes through the file system.
    pub(crate) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}

fn indented(lines: &[String]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}
