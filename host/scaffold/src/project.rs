//! `mswea-plugin.toml`, which marks a folder as a plugin's project.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;
use crate::kinds::{Language, PluginKind, UnknownKind, UnknownLanguage};
use crate::names;

/// The file's name.
pub const MANIFEST: &str = "mswea-plugin.toml";

/// The most bytes that it may have.
const LARGEST: u64 = 1 << 20;

/// The content of a project's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The project's folder.
    pub folder: PathBuf,
    /// The plugin's name.
    pub name: String,
    /// Its kind.
    pub kind: PluginKind,
    /// Its language.
    pub language: Language,
    /// The version of the contract that it contains.
    pub contract: String,
    /// The engine that runs JavaScript: `quickjs` or `starlingmonkey`.
    pub engine: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    kind: String,
    language: String,
    contract: String,
    engine: Option<String>,
}

impl Project {
    /// Reads a project's file.
    ///
    /// # Errors
    ///
    /// [`Error::NotAProject`] if there is none, [`Error::Project`] if it is not understood.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(MANIFEST);
        // A regular file only: opening a pipe would wait, and a device may have no end.
        let regular = fs::metadata(&path).and_then(|meta| match meta.is_file() {
            true if meta.len() <= LARGEST => Ok(()),
            true => Err(io::Error::other("it is larger than 1 MiB")),
            false => Err(io::Error::other("it is not a regular file")),
        });
        let text = match regular.and_then(|()| fs::read_to_string(&path)) {
            Ok(text) => text,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Err(Error::NotAProject {
                    folder: folder.to_owned(),
                });
            }
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        let wrong = |why: String| Error::Project {
            path: path.clone(),
            why,
        };
        let file: File =
            toml::from_str(&text).map_err(|error| wrong(error.to_string().trim().to_owned()))?;
        names::check(&file.name).map_err(|error| wrong(error.to_string()))?;
        let project = Self {
            folder: folder.to_owned(),
            kind: file
                .kind
                .parse()
                .map_err(|error: UnknownKind| wrong(error.to_string()))?,
            language: file
                .language
                .parse()
                .map_err(|error: UnknownLanguage| wrong(error.to_string()))?,
            name: file.name,
            contract: file.contract,
            engine: file.engine,
        };
        match project.engine.as_deref() {
            None => {}
            Some("quickjs" | "starlingmonkey") if project.language == Language::Js => {}
            Some(engine) => {
                return Err(wrong(format!(
                    "`engine = \"{engine}\"` does not fit; it is for `language = \"js\"`, and \
                     either `quickjs` or `starlingmonkey`"
                )));
            }
        }
        Ok(project)
    }

    /// The text of a new project's file.
    pub(crate) fn text(name: &str, kind: PluginKind, language: Language, contract: &str) -> String {
        let mut text = format!(
            "# The settings of `mswea-host plugin build`.\n\
             name = \"{name}\"\n\
             kind = \"{}\"\n\
             language = \"{language}\"\n\
             contract = \"{contract}\"\n",
            kind.interface(),
        );
        if language == Language::Js {
            text.push_str("# Or `starlingmonkey`: all of the language, in a component of 12 MB.\nengine = \"quickjs\"\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Project, Error> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(MANIFEST), text).unwrap();
        Project::read(folder.path())
    }

    #[test]
    fn what_is_written_is_read() {
        for kind in PluginKind::ALL {
            for language in Language::ALL {
                let project = read(&Project::text("my-plugin", kind, language, "0.1.0")).unwrap();
                assert_eq!(
                    (
                        &*project.name,
                        project.kind,
                        project.language,
                        &*project.contract
                    ),
                    ("my-plugin", kind, language, "0.1.0")
                );
                assert_eq!(
                    project.engine.as_deref(),
                    (language == Language::Js).then_some("quickjs")
                );
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let base = "name = \"a\"\nkind = \"parser\"\nlanguage = \"c\"\ncontract = \"0.1.0\"\n";
        for (text, expected) in [
            ("name = ", "line 1"),
            ("kind = \"parser\"", "`name`"),
            (&*base.replace("parser", "parsers"), "`parsers`"),
            (&*base.replace("\"c\"", "\"go\""), "`go`"),
            (&*base.replace("\"a\"", "\"../a\""), "`../a`"),
            (
                &*format!("{base}engine = \"quickjs\""),
                "`language = \"js\"`",
            ),
            (&*format!("{base}flags = 1"), "`flags`"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(
                error.contains(expected) && error.contains(MANIFEST),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn a_folder_without_the_file_is_no_project() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("nowhere")] {
            assert!(matches!(
                Project::read(&path),
                Err(Error::NotAProject { .. })
            ));
        }
    }
}
