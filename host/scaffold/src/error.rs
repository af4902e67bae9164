//! Errors of projects and builds, each with its remedy.

use std::io;
use std::path::PathBuf;

use crate::kinds::{Language, PluginKind};

/// Why a project could not be made, or a component not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text that can't be a plugin's name.
    #[error("`{name}` can't be a plugin's name: {why}; take something like `my-parser`")]
    Name {
        /// The name.
        name: String,
        /// The reason.
        why: &'static str,
    },

    /// Only Python's components can read their source.
    #[error("`--dev` is for Python, whose builds take long; in {language} build as usual")]
    NoDevelopment {
        /// The project's.
        language: Language,
    },

    /// The folder exists and is not empty.
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
        kind: PluginKind,
        /// The language.
        language: Language,
    },

    /// The embedded archive can't be read.
    #[error(
        "the embedded SDKs can't be unpacked: {why}; this is a fault of this build of mswea-host"
    )]
    Embedded {
        /// The reason.
        why: String,
    },

    /// A file or a folder could not be read or written.
    #[error("can't {what} `{}`: {source}", .path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// Its file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The folder is no plugin's project.
    #[error(
        "`{}` is not a plugin project: it has no `mswea-plugin.toml`; make one with `mswea-host \
         plugin new`, or name the project's folder",
        .folder.display()
    )]
    NotAProject {
        /// The folder.
        folder: PathBuf,
    },

    /// The project's file lacks something, or has a wrong value.
    #[error("`{}`: {why}", .path.display())]
    Project {
        /// `mswea-plugin.toml`.
        path: PathBuf,
        /// The error and its remedy.
        why: String,
    },

    /// A tool is missing.
    #[error("{what}; install it:\n{}", indented(.install))]
    Missing {
        /// What is missing, and its purpose.
        what: String,
        /// The commands that install it.
        install: Vec<String>,
    },

    /// A tool could not be started.
    #[error("`{command}` can't be started: {source}")]
    Start {
        /// The command.
        command: String,
        /// The reason.
        source: io::Error,
    },

    /// A tool failed.
    #[error("`{command}` failed ({status}):\n{output}")]
    Failed {
        /// The command.
        command: String,
        /// Its exit status.
        status: String,
        /// Its output, without the middle if it was long.
        output: String,
    },

    /// A tool succeeded without making a component.
    #[error("`{command}` succeeded, but has made no plugin: {why}")]
    NoComponent {
        /// The command.
        command: String,
        /// Where it was expected, and what may be wrong.
        why: String,
    },
}

impl Error {
    /// For `map_err` after file system operations.
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
