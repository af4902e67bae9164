//! Builds a project with the tools of its language.

mod c;
mod js;
mod python;
mod rust;
mod tools;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::error::Error;
use crate::kinds::Language;
use crate::project::Project;
use tools::Tools;

/// The options of a build.
#[derive(Clone, Debug, Default)]
pub struct Build {
    /// Install what is missing if that needs no root: rustup's target, and the project's packages
    /// in the project.
    pub install: bool,
    /// Show the tools' output as it comes; otherwise only if they fail.
    pub verbose: bool,
    /// Make a component that reads its source when it is started, for languages that can: it is
    /// made once, and edits need no build.
    pub development: bool,
    /// The folders in which tools are looked for, instead of `PATH`.
    pub path: Option<OsString>,
}

/// The result of a build.
#[derive(Clone, Debug)]
pub struct BuiltComponent {
    /// The component: `build/NAME.wasm` in the project's folder.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Builds the project in a folder. `progress` gets lines about the progress.
///
/// # Errors
///
/// [`Error::NotAProject`], [`Error::Missing`] with the commands that install what is missing,
/// [`Error::Failed`] with what the tool said.
pub fn build(
    folder: &Path,
    options: &Build,
    progress: &mut dyn FnMut(&str),
) -> Result<BuiltComponent, Error> {
    let begin = Instant::now();
    let mut project = Project::read(folder)?;
    // Tools are run in it.
    project.folder = folder
        .canonicalize()
        .map_err(Error::io("find the folder", folder))?;
    let mut tools = Tools {
        options,
        folder: project.folder.clone(),
        progress,
    };
    let out = project.folder.join("build");
    fs::create_dir_all(&out).map_err(Error::io("make the folder", &out))?;
    if options.development && project.language != Language::Python {
        return Err(Error::NoDevelopment {
            language: project.language,
        });
    }
    let file = match options.development {
        true => format!("{}.dev.wasm", project.name),
        false => format!("{}.wasm", project.name),
    };
    let made = out.join(&file);
    // A component from before must not be taken for a new one.
    if made.exists() {
        fs::remove_file(&made).map_err(Error::io("remove", &made))?;
    }
    let command = match project.language {
        Language::Rust => rust::build(&project, &made, &mut tools),
        Language::C => c::build(&project, &mut tools),
        Language::Python => python::build(&project, &made, &mut tools),
        Language::Js => js::build(&project, &made, &mut tools),
    }?;
    let why = match fs::read(&made) {
        Ok(bytes) => no_plugin(&bytes).map(|why| format!("`{}` {why}", made.display())),
        Err(_) => Some(format!("`{}` was not written", made.display())),
    };
    if let Some(why) = why {
        return Err(Error::NoComponent { command, why });
    }
    let size = fs::metadata(&made).map_err(Error::io("read", &made))?.len();
    Ok(BuiltComponent {
        // As the user would type it.
        path: match folder.strip_prefix(".") {
            Ok(rest) => rest.join("build").join(file),
            Err(_) => folder.join("build").join(file),
        },
        size,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// Why these bytes are no plugin, as far as it shows without compiling them.
fn no_plugin(bytes: &[u8]) -> Option<&'static str> {
    // Version 1 in layer 0 is a core module; components have layer 1.
    if !bytes.starts_with(b"\0asm") || bytes.get(6) != Some(&1) {
        return Some("is no WebAssembly component");
    }
    let name = b"mswea:plugin/plugin@";
    let is_there = bytes.windows(name.len()).any(|part| part == name);
    (!is_there).then_some(
        "is no plugin, because it exports none: the code has to export one (in Rust with `mswea_sdk::export!`)",
    )
}

/// The command that runs a project's own tests, in its folder.
pub fn test_command(folder: &Path) -> Result<Vec<String>, Error> {
    let project = Project::read(folder)?;
    let words = test_words(project.language);
    Ok(words.iter().map(|&word| word.to_owned()).collect())
}

pub(crate) fn test_words(language: Language) -> &'static [&'static str] {
    match language {
        Language::Rust => &["cargo", "test"],
        Language::Python => &["python3", "-m", "unittest"],
        Language::Js => &["node", "--test"],
        Language::C => &["make", "test"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plugin_is_told() {
        for (bytes, wanted) in [
            (&b""[..], Some("no WebAssembly component")),
            (b"#!/bin/sh", Some("no WebAssembly component")),
            (b"\0asm\x01\0\0\0", Some("no WebAssembly component")),
            (
                b"\0asm\x0d\0\x01\0 wasi:cli/run@0.2.0",
                Some("exports none"),
            ),
            (b"\0asm\x0d\0\x01\0 mswea:plugin/plugin@0.1.0", None),
        ] {
            let found = no_plugin(bytes);
            assert_eq!(found.is_some(), wanted.is_some(), "{bytes:?}");
            assert!(
                found
                    .unwrap_or_default()
                    .contains(wanted.unwrap_or_default())
            );
        }
    }
}
