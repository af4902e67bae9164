//! Makes a project, completely or not at all.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use crate::build::test_words;
use crate::error::Error;
use crate::kinds::{Language, PluginKind};
use crate::names;
use crate::project::{MANIFEST, Project};
use crate::sources::{self, ArchiveFile};

/// The properties of a new project.
#[derive(Clone, Debug)]
pub struct New {
    /// The plugin's kind.
    pub kind: PluginKind,
    /// The language to write it in.
    pub language: Language,
    /// Its name: `[a-z][a-z0-9_-]*`, at most 64 characters.
    pub name: String,
    /// Its folder; none: `./NAME`.
    pub folder: Option<PathBuf>,
}

/// A new project.
#[derive(Clone, Debug)]
pub struct Created {
    /// The project's folder.
    pub folder: PathBuf,
    /// Its files, relative to it, in order.
    pub files: Vec<PathBuf>,
    /// The author's files among them; the others are the SDK and the contract.
    pub own: Vec<PathBuf>,
    /// The commands for the next steps.
    pub next: Vec<String>,
}

/// Makes a project. On failure, nothing of it is left.
///
/// # Errors
///
/// [`Error::Name`], [`Error::Exists`], [`Error::NoTemplate`], [`Error::Io`].
pub fn new(request: &New) -> Result<Created, Error> {
    names::check(&request.name)?;
    let folder = request
        .folder
        .clone()
        .unwrap_or_else(|| PathBuf::from(&request.name));
    let exists = is_empty_folder(&folder)?;
    let (files, own) = content(request)?;
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    // On the file system of the project's folder, so that only a rename remains.
    let home = if exists { folder.clone() } else { parent };
    fs::create_dir_all(&home).map_err(Error::io("make the folder", &home))?;
    let unfinished = UnfinishedProject::in_folder(&home)?;
    for file in &files {
        write(&unfinished.0, file)?;
    }
    if exists {
        unfinished.move_into(&folder)?;
    } else {
        fs::rename(&unfinished.0, &folder).map_err(|error| taken_or(&folder, error))?;
    }
    Ok(Created {
        next: next(request, &folder),
        folder,
        files: files.into_iter().map(|file| file.path).collect(),
        own,
    })
}

/// Whether the folder exists and is empty.
fn is_empty_folder(folder: &Path) -> Result<bool, Error> {
    match fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(true),
            Some(_) => Err(Error::Exists {
                folder: folder.to_owned(),
            }),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotADirectory => Err(Error::Exists {
            folder: folder.to_owned(),
        }),
        Err(error) => Err(Error::io("read the folder", folder)(error)),
    }
}

/// Another process may have created it in between.
fn taken_or(folder: &Path, error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
            Error::Exists {
                folder: folder.to_owned(),
            }
        }
        _ => Error::io("make the folder", folder)(error),
    }
}

/// A temporary folder, which is removed unless it was renamed.
struct UnfinishedProject(PathBuf);

impl UnfinishedProject {
    fn in_folder(home: &Path) -> Result<Self, Error> {
        let path = home.join(format!(".mswea-plugin-new-{}", std::process::id()));
        fs::create_dir(&path).map_err(Error::io("make the folder", &path))?;
        Ok(Self(path))
    }

    /// Moves its content into an empty folder, completely or not at all.
    fn move_into(self, folder: &Path) -> Result<(), Error> {
        let mut moved: Vec<PathBuf> = Vec::new();
        let mut go = || -> io::Result<()> {
            for entry in fs::read_dir(&self.0)? {
                let entry = entry?;
                let place = folder.join(entry.file_name());
                fs::rename(entry.path(), &place)?;
                moved.push(place);
            }
            Ok(())
        };
        let Err(error) = go() else {
            return Ok(());
        };
        for place in moved {
            // The first error is the one to report.
            let _ = fs::remove_dir_all(&place).or_else(|_| fs::remove_file(&place));
        }
        Err(Error::io("write into", folder)(error))
    }
}

impl Drop for UnfinishedProject {
    fn drop(&mut self) {
        // If it was renamed, it does not exist any more.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write(folder: &Path, file: &ArchiveFile) -> Result<(), Error> {
    let path = folder.join(&file.path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(Error::io("make the folder", parent))?;
    }
    fs::write(&path, &file.bytes).map_err(Error::io("write", &path))?;
    if file.executable {
        let mut mode = fs::metadata(&path)
            .map_err(Error::io("read", &path))?
            .permissions();
        mode.set_mode(mode.mode() | 0o111);
        fs::set_permissions(&path, mode).map_err(Error::io("write", &path))?;
    }
    Ok(())
}

/// The project's files, and the author's among them.
fn content(request: &New) -> Result<(Vec<ArchiveFile>, Vec<PathBuf>), Error> {
    let New {
        kind,
        language,
        name,
        ..
    } = request;
    let sources = sources::all()?;
    let contract = sources::contract(&sources)?;
    let sdk = Path::new("sdk").join(language.word());
    let template = sdk.join("template");
    let own_template = template.join(kind.word());
    if !sources
        .iter()
        .any(|source| source.path.starts_with(&own_template))
    {
        return Err(Error::NoTemplate {
            kind: *kind,
            language: *language,
        });
    }
    let mut files = Vec::new();
    let mut own = Vec::new();
    for mut source in sources {
        // Files that all kinds share come from `template/all`.
        let from_template = source
            .path
            .strip_prefix(&own_template)
            .or_else(|_| source.path.strip_prefix(template.join("all")))
            .map(Path::to_owned);
        if let Ok(path) = from_template {
            source.path = PathBuf::from(fill(&path.to_string_lossy(), name));
            if let Ok(text) = std::str::from_utf8(&source.bytes) {
                source.bytes = fill(text, name).into_bytes();
            }
            own.push(source.path.clone());
            files.push(source);
        } else if let Ok(path) = source.path.strip_prefix(&sdk) {
            if let Some(place) = sdk_place(*language, path) {
                source.path = place;
                files.push(source);
            }
        } else if source.path.starts_with("wit") {
            files.push(source);
        }
    }
    for (path, text) in [
        (MANIFEST, Project::text(name, *kind, *language, &contract)),
        (".gitignore", ignored(*language).to_owned()),
    ] {
        // A template may have a file of its own in place of it.
        if !own.iter().any(|there| there == Path::new(path)) {
            own.push(path.into());
            files.push(ArchiveFile {
                path: path.into(),
                bytes: text.into_bytes(),
                executable: false,
            });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    own.sort();
    Ok((files, own))
}

/// The path of an SDK's file in a project; none if projects do not contain it.
fn sdk_place(language: Language, path: &Path) -> Option<PathBuf> {
    let first = match path.components().next() {
        Some(Component::Normal(first)) => first.to_str()?,
        _ => return None,
    };
    match language {
        // It can be imported from there.
        Language::Python => (first == "mswea_sdk").then(|| path.to_owned()),
        _ => (first != "template").then(|| Path::new("mswea-sdk").join(path)),
    }
}

fn fill(text: &str, name: &str) -> String {
    text.replace("{{name}}", name)
        .replace("{{snake_name}}", &names::snake(name))
        .replace("{{pascal_name}}", &names::pascal(name))
}

fn ignored(language: Language) -> &'static str {
    match language {
        Language::Rust => "/build\n/target\n",
        Language::Python => "/build\n/.venv\n__pycache__/\n",
        Language::Js => "/build\n/node_modules\n",
        Language::C => "/build\n",
    }
}

fn next(request: &New, folder: &Path) -> Vec<String> {
    let mut next = Vec::new();
    if folder != Path::new(".") {
        next.push(format!("cd {}", quoted(&folder.to_string_lossy())));
    }
    next.push(test_words(request.language).join(" "));
    // New projects in these languages have no tools yet: they come from the registries.
    let fetches = matches!(request.language, Language::Python | Language::Js);
    let install = if fetches { " --install" } else { "" };
    next.push(format!("mswea-host plugin build{install}"));
    next.push(format!(
        "mswea-host plugin check build/{}.wasm",
        request.name
    ));
    next
}

/// A word quoted for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(folder: &Path) -> New {
        New {
            kind: PluginKind::Parser,
            language: Language::Rust,
            name: "my-parser".to_owned(),
            folder: Some(folder.to_owned()),
        }
    }

    fn entries(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_project_has_the_sdk_the_contract_and_the_name() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("deep/er");
        let created = new(&request(&folder)).unwrap();
        assert_eq!(entries(&root.path().join("deep")), ["er"]);
        for file in &created.files {
            assert!(folder.join(file).is_file(), "{}", file.display());
            let text = fs::read_to_string(folder.join(file)).unwrap();
            assert!(!text.contains("{{name}}"), "{}", file.display());
        }
        for file in ["Cargo.toml", ".gitignore", MANIFEST, "src/lib.rs"] {
            assert!(created.own.contains(&PathBuf::from(file)), "{file}");
        }
        for file in ["wit/types.wit", "mswea-sdk/src/lib.rs"] {
            assert!(created.files.contains(&PathBuf::from(file)), "{file}");
            assert!(!created.own.contains(&PathBuf::from(file)), "{file}");
        }
        assert!(!folder.join("mswea-sdk/template").exists());
        assert_eq!(Project::read(&folder).unwrap().name, "my-parser");
        assert_eq!(created.next.len(), 4);
    }

    #[test]
    fn an_empty_folder_is_filled_and_a_full_one_left_alone() {
        let root = tempfile::tempdir().unwrap();
        new(&request(root.path())).unwrap();
        assert!(
            !entries(root.path())
                .iter()
                .any(|name| name.contains("mswea-plugin-new"))
        );
        let before = entries(root.path());
        let error = new(&request(root.path())).unwrap_err();
        assert!(matches!(error, Error::Exists { .. }), "{error}");
        assert_eq!(entries(root.path()), before);
        let file = root.path().join(MANIFEST);
        let error = new(&request(&file)).unwrap_err();
        assert!(matches!(error, Error::Exists { .. }), "{error}");
    }

    #[test]
    fn a_failure_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("bad");
        let bad = New {
            name: "Bad".to_owned(),
            ..request(&folder)
        };
        assert!(matches!(new(&bad), Err(Error::Name { .. })));
        assert_eq!(entries(root.path()), Vec::<String>::new());
        // Files that were moved before one that can't be are moved back.
        let unfinished = UnfinishedProject::in_folder(root.path()).unwrap();
        fs::write(unfinished.0.join("a"), "").unwrap();
        fs::create_dir(unfinished.0.join("b")).unwrap();
        let target = root.path().join("target");
        fs::create_dir_all(target.join("b/full")).unwrap();
        unfinished.move_into(&target).unwrap_err();
        assert!(!target.join("a").exists());
        assert_eq!(entries(root.path()), ["target"]);
    }

    #[test]
    fn words_for_a_shell() {
        for (word, expected) in [("a/b-c", "a/b-c"), ("a b", "'a b'"), ("it's", r"'it'\''s'")] {
            assert_eq!(quoted(word), expected);
        }
    }
}
