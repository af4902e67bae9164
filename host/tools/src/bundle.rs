//! One bundle: its folder, its manifest, and the programs that it needs in the environment.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::fault::ManifestFault;
use crate::manifest::Manifest;

/// The number of bytes of a program that are read to find its first line.
const HEAD: u64 = 256;

/// A bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// The last part of the folder's path, which names the bundle's folder in the environment.
    pub name: String,
    /// The bundle's folder on this machine; the name of a first-party bundle.
    pub folder: PathBuf,
    /// Whether it is a first-party bundle, which is embedded in the host.
    pub is_first_party: bool,
    /// Its manifest.
    pub manifest: Manifest,
    /// Whether the bundle has an `install.sh`.
    pub has_install: bool,
    /// Whether Python finds modules in the bundle's `lib/`. The bundles of others say so in their `install.sh`.
    pub has_modules: bool,
    /// The names of the programs in `bin/`, without links that lead out of the bundle.
    pub programs: Vec<String>,
    /// The interpreters in the first lines of the bundle's programs, each with the name of one such
    /// program.
    pub interpreters: Vec<(String, String)>,
}

impl Bundle {
    /// Reads a bundle: `source` is the path of a folder, with a `/` in it, or the name of a first-party
    /// bundle.
    ///
    /// # Errors
    /// [`ManifestFault`] if the bundle can't be read or has a mistake.
    pub fn named(source: &Path) -> Result<Self, ManifestFault> {
        match source.to_str() {
            Some(name) if !name.contains('/') => Self::first_party(name),
            _ => Self::read(source),
        }
    }

    fn first_party(name: &str) -> Result<Self, ManifestFault> {
        let folder = Path::new(name);
        let bundle = mswea_toolbox_bundle::bundle(name).map_err(|error| {
            let remedy =
                "correct the name; the path of a bundle's folder has a `/` in it (`./NAME`)";
            ManifestFault::of(folder, error.to_string(), remedy)
        })?;
        let source = String::from_utf8_lossy(bundle.manifest()).into_owned();
        let programs = bundle.files.iter();
        let programs = programs.filter_map(|file| file.path.strip_prefix("bin/"));
        let programs: Vec<String> = programs.map(str::to_owned).collect();
        let has_modules = bundle
            .files
            .iter()
            .any(|file| file.path.starts_with("lib/"));
        let first = programs.first().cloned().unwrap_or_default();
        Ok(Self {
            name: bundle.name.to_owned(),
            folder: folder.to_owned(),
            is_first_party: true,
            manifest: Manifest::parse(&folder.join(crate::manifest::FILE), &source)?,
            has_install: false,
            has_modules,
            programs,
            interpreters: vec![("/bin/sh".to_owned(), first)],
        })
    }

    /// Reads the bundle in `folder`.
    ///
    /// # Errors
    /// [`ManifestFault`] if the folder can't be read as a bundle.
    pub fn read(folder: &Path) -> Result<Self, ManifestFault> {
        let manifest = Manifest::read(folder)?;
        let name = folder.canonicalize().ok();
        let name = name.as_deref().and_then(Path::file_name);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.+".contains(c);
        let name = name.and_then(|name| name.to_str());
        let Some(name) = name.filter(|name| name.chars().all(is_plain) && !name.starts_with('.'))
        else {
            return Err(ManifestFault::of(
                folder,
                "the name of this folder can't be that of a bundle",
                "rename it: letters, digits, `_`, `-`, `.` and `+`",
            ));
        };
        let mut programs = Vec::new();
        let mut interpreters: Vec<(String, String)> = Vec::new();
        let bin = folder.join("bin");
        for entry in entries(&bin).map_err(|error| {
            ManifestFault::of(
                &bin,
                format!("this folder can't be read ({error})"),
                "a bundle has its programs in `bin/`",
            )
        })? {
            if let Some(interpreter) = interpreter(&bin.join(&entry))
                && !interpreters.iter().any(|(known, _)| *known == interpreter)
            {
                interpreters.push((interpreter, entry.clone()));
            }
            // The mode of a file outside of the bundle, to which a link leads, must not be changed.
            if is_inside(&bin.join(&entry), folder) {
                programs.push(entry);
            }
        }
        Ok(Self {
            name: name.to_owned(),
            folder: folder.to_owned(),
            is_first_party: false,
            manifest,
            has_install: folder.join("install.sh").is_file(),
            has_modules: false,
            programs,
            interpreters,
        })
    }
}

/// Whether a file is in a folder after resolving all links.
fn is_inside(file: &Path, folder: &Path) -> bool {
    match (file.canonicalize(), folder.canonicalize()) {
        (Ok(file), Ok(folder)) => file.starts_with(folder),
        _ => false,
    }
}

/// The names of the files in a folder, sorted; empty if the folder does not exist.
fn entries(folder: &Path) -> io::Result<Vec<String>> {
    let read = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    let mut names = BTreeSet::new();
    for entry in read {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string()
            && entry.path().is_file()
        {
            names.insert(name);
        }
    }
    Ok(names.into_iter().collect())
}

/// The interpreter in the first line of a program: a name to be found in `PATH`, or an absolute
/// path.
fn interpreter(file: &Path) -> Option<String> {
    let mut head = Vec::new();
    let opened = mswea_files::open(file, u64::MAX).ok()?;
    opened.take(HEAD).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_whitespace();
    let first = words.next()?;
    if !first.ends_with("/env") {
        return Some(first.to_owned());
    }
    let is_option = |word: &&str| word.starts_with('-') || word.contains('=');
    words.find(|word| !is_option(word)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn programs_and_what_runs_them() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("mine");
        fs::create_dir_all(bundle.join("bin/sub")).unwrap();
        fs::write(bundle.join("config.yaml"), "tools: {}\n").unwrap();
        for (name, text) in [
            ("a", "#!/usr/bin/env python3\nx"),
            ("b", "#!/usr/bin/env -S python3 -u\n"),
            ("c", "#! /bin/sh -e\n"),
            ("d", "main() { :; }\n"),
            ("e", "#!/opt/python/bin/python"),
            ("f", ""),
        ] {
            fs::write(bundle.join("bin").join(name), text).unwrap();
        }
        let read = Bundle::read(&bundle).unwrap();
        assert_eq!((read.name.as_str(), read.has_install), ("mine", false));
        assert_eq!(read.programs, ["a", "b", "c", "d", "e", "f"]);
        let needs: Vec<_> = read
            .interpreters
            .iter()
            .map(|(interpreter, program)| (interpreter.as_str(), program.as_str()))
            .collect();
        assert_eq!(
            needs,
            [
                ("python3", "a"),
                ("/bin/sh", "c"),
                ("/opt/python/bin/python", "e")
            ]
        );
        // `chmod` would follow the link, and change a file that is not the bundle's.
        let outside = folder.path().join("outside");
        fs::write(&outside, "").unwrap();
        std::os::unix::fs::symlink(&outside, bundle.join("bin/out")).unwrap();
        std::os::unix::fs::symlink("a", bundle.join("bin/in")).unwrap();
        let programs = Bundle::read(&bundle).unwrap().programs;
        assert_eq!(programs, ["a", "b", "c", "d", "e", "f", "in"]);
        fs::write(bundle.join("install.sh"), "").unwrap();
        assert!(Bundle::read(&bundle).unwrap().has_install);
        // A bundle without programs, as the one that only prepares an image.
        fs::remove_dir_all(bundle.join("bin")).unwrap();
        assert_eq!(
            Bundle::read(&bundle).unwrap().programs,
            Vec::<String>::new()
        );
        let text = Bundle::read(&folder.path().join("none"))
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("none/config.yaml: a bundle needs this file"),
            "{text}"
        );
        fs::rename(&bundle, folder.path().join("a b")).unwrap();
        let text = Bundle::read(&folder.path().join("a b"))
            .unwrap_err()
            .to_string();
        assert!(text.contains("the name of this folder"), "{text}");
    }
}
