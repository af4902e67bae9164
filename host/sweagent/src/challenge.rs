//! Problem statements of capture-the-flag challenges: `challenge.json`, as of SWE-agent 0.7 (EnIGMA).

use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::fault::SweAgentProblem;
use crate::given_at::GivenAt;

/// The name of the file, and the type of such a problem statement.
pub(crate) const FILE: &str = "challenge.json";
pub(crate) const TYPE: &str = "ctf_json";

/// The largest file.
const LIMIT: u64 = 16 << 20;

/// The most characters of a name, which is a part of the name of a folder.
const LONGEST_NAME: usize = 100;

/// The categories, and their names in prompts.
const CATEGORIES: &[(&str, &str)] = &[
    ("rev", "reverse engineering"),
    ("pwn", "binary exploitation"),
    ("web", "web security"),
    ("crypto", "cryptography"),
    ("misc", "miscellaneous"),
    ("forensics", "forensics"),
];

/// The files of a challenge, and its flag.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Challenge {
    /// The folder of `challenge.json`.
    folder: PathBuf,
    /// The files that the agent gets, below it.
    files: Vec<String>,
    /// The folder of their copies.
    staged: PathBuf,
    /// `sha256:` and the digest of the flag.
    pub(crate) flag: String,
    /// A description of services that the challenge needs.
    pub(crate) compose: Option<PathBuf>,
}

/// The content of a `challenge.json`.
pub(crate) struct ReadChallenge {
    pub(crate) challenge: Challenge,
    pub(crate) text: String,
    pub(crate) id: String,
    /// The variables of templates.
    pub(crate) fields: Map<String, Value>,
}

impl Challenge {
    /// Sets the folder of the copies of its files.
    pub fn place(&mut self, at: &Path) {
        self.staged = std::path::absolute(at).unwrap_or_else(|_| at.to_owned());
    }

    /// Copies the agent's files into the folder that was set, in place of earlier ones.
    ///
    /// # Errors
    /// [`SweAgentProblem`] if one can't be copied.
    pub fn stage(&self) -> Result<(), SweAgentProblem> {
        let to = self.staged.as_path();
        let failed = |path: &Path, error: std::io::Error| {
            let message = format!(
                "the file `{}` of the challenge can't be copied to `{}`: {error}",
                path.display(),
                to.display()
            );
            SweAgentProblem::new(message).hint("correct `files`, or the permissions of the folders")
        };
        // A folder from somebody else may contain a link here.
        if to.parent().is_some_and(Path::is_symlink) {
            return Err(failed(to, std::io::Error::other(LINKED)));
        }
        match fs::remove_dir_all(to) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(to, error));
            }
            _ => fs::create_dir_all(to).map_err(|error| failed(to, error))?,
        }
        let whole = fs::canonicalize(to).map_err(|error| failed(to, error))?;
        for name in &self.files {
            let from = self.folder.join(name);
            if fs::canonicalize(&from).is_ok_and(|from| whole.starts_with(from)) {
                let message = format!(
                    "the files of the run would be in the folder `{}` of the challenge, which is copied to them",
                    from.display()
                );
                let hint = "give an `--output_dir` outside of the challenge";
                return Err(SweAgentProblem::new(message).hint(hint));
            }
            let target = whole.join(name);
            let parents = target.ancestors().skip(1);
            // A copied link is not followed.
            let linked = parents.take_while(|it| **it != whole).any(Path::is_symlink);
            match linked {
                true => Err(std::io::Error::other(LINKED)),
                false => copy(&from, &target),
            }
            .map_err(|error| failed(&from, error))?;
        }
        Ok(())
    }

    /// The folder with the copies.
    pub(crate) fn staged(&self) -> &Path {
        &self.staged
    }

    /// The name of the challenge's folder.
    pub(crate) fn folder_name(&self) -> String {
        let whole = fs::canonicalize(&self.folder).unwrap_or_else(|_| self.folder.clone());
        let name = whole.file_name().unwrap_or_default().to_string_lossy();
        name.replace(' ', "-").replace('\'', "")
    }
}

const LINKED: &str = "there is a link in the way";

/// Copies a file or a folder, with permissions. Links are copied as links, because they may lead to
/// files outside of the challenge. No recursion: a challenge is from elsewhere, and a deep tree would
/// overflow the stack.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut open = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = open.pop() {
        copy_one(&from, &to, &mut open)?;
    }
    Ok(())
}

/// Copies a file or makes a folder, whose content is added to `open`.
fn copy_one(from: &Path, to: &Path, open: &mut Vec<(PathBuf, PathBuf)>) -> std::io::Result<()> {
    let kind = fs::symlink_metadata(from)?.file_type();
    if kind.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    if kind.is_file() {
        // The existing file was copied with its folder.
        return match fs::symlink_metadata(to) {
            Ok(there) if there.is_file() => Ok(()),
            Ok(_) => Err(std::io::Error::other(LINKED)),
            Err(_) => fs::copy(from, to).map(drop),
        };
    }
    if !kind.is_dir() {
        return Err(std::io::Error::other("it is no file and no folder"));
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        open.push((entry.path(), to.join(entry.file_name())));
    }
    Ok(())
}

/// Reads a `challenge.json`; `at` is the place where its path was given.
///
/// # Errors
/// [`SweAgentProblem`] if it can't be read, or lacks a value.
pub(crate) fn read(path: &Path, at: &GivenAt) -> Result<ReadChallenge, SweAgentProblem> {
    let shown = path.display().to_string();
    let text = mswea_files::read_text(path, LIMIT).map_err(|error| {
        SweAgentProblem::at(
            at,
            format!("the challenge `{shown}` can't be read: {error}"),
        )
    })?;
    let inside = |line: usize, column: usize| GivenAt::File {
        path: shown.clone(),
        line: line.max(1),
        column: column.max(1),
    };
    let value: Value = mswea_text::read_json(text.as_bytes()).map_err(|error| {
        let message = format!("the challenge is no JSON: {error}");
        let problem = SweAgentProblem::at(&inside(error.line(), error.column()), message);
        problem.hint("write one JSON object")
    })?;
    // The line of a key, for messages.
    let place = |key: &str| {
        let quoted = format!("\"{key}\"");
        let line = text.lines().position(|line| line.contains(&quoted));
        inside(line.map_or(1, |line| line + 1), 1)
    };
    let needed = |key: &str| match value[key].as_str() {
        Some(text) if !text.trim().is_empty() => Ok(text.to_owned()),
        _ => {
            let message = format!("the challenge has no text `{key}`");
            let hint = "it has `name`, `category`, `description` and `flag`, and if need be `files`, `points`, `box`, `internal_port` and `proto`";
            Err(SweAgentProblem::at(&place(key), message).hint(hint))
        }
    };
    let (name, category) = (needed("name")?, needed("category")?);
    let (description, flag) = (needed("description")?, needed("flag")?);
    if name.chars().count() > LONGEST_NAME {
        let message = format!("the `name` has {} characters", name.chars().count());
        let hint = format!("write at most {LONGEST_NAME}");
        return Err(SweAgentProblem::at(&place("name"), message).hint(&hint));
    }
    let Some((_, friendly)) = CATEGORIES.iter().find(|(known, _)| *known == category) else {
        let known: Vec<&str> = CATEGORIES.iter().map(|(name, _)| *name).collect();
        let message = format!("there is no category `{category}`");
        let hint = match mswea_text::nearest(&category, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the categories are `{}`", known.join("`, `")),
        };
        return Err(SweAgentProblem::at(&place("category"), message).hint(hint));
    };
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let files = files(&value, &folder, path).map_err(|message| {
        let problem = SweAgentProblem::at(&place("files"), message);
        problem.hint("`files` is a list of names, below the folder of the challenge")
    })?;
    let port = [&value["internal_port"], &value["port"]];
    let port = port.iter().find_map(|port| match port {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    });
    let server = match &value["box"] {
        Value::Null if value.get("box").is_none() => None,
        Value::String(text) if !text.is_empty() => Some(text.as_str()),
        _ => Some("127.0.0.1"),
    };
    let server = match (server, port) {
        (Some(server), Some(port)) => {
            let is_web = ["web", "misc"].contains(&category.as_str()) && value["proto"] != "nc";
            let command = match is_web {
                true => format!("curl http://{server}:{port}"),
                false => format!("connect_start {server} {port}"),
            };
            format!(
                "The server of the challenge is `{server}`, port `{port}`. You reach it from here by `{command}`."
            )
        }
        _ => String::new(),
    };
    let points = match value.get("points") {
        None | Some(Value::Null) => 10.into(),
        Some(points) => points.clone(),
    };
    let alphanumeric: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    let id = format!("{category}_{alphanumeric}");
    let text = format!("{name} {description}");
    let fields = [
        ("name", name.into()),
        ("category", category.into()),
        ("category_friendly", (*friendly).into()),
        ("description", description.into()),
        ("files", files.clone().into()),
        ("points", points),
        ("flag_format", flag_format(flag.trim()).into()),
        ("server_description", server.into()),
    ];
    let fields = fields.map(|(key, value): (&str, Value)| (key.to_owned(), value));
    // Blanks around a submission are ignored, too.
    let sum = mswea_text::hex(&Sha256::digest(flag.trim().as_bytes()));
    let compose = folder.join("docker-compose.yml");
    let challenge = Challenge {
        compose: compose.is_file().then_some(compose),
        folder,
        files,
        staged: PathBuf::new(),
        flag: format!("sha256:{sum}"),
    };
    Ok(ReadChallenge {
        challenge,
        text,
        id,
        fields: fields.into_iter().collect(),
    })
}

/// The files of the agent, without `challenge`, which contains the flag.
fn files(value: &Value, folder: &Path, challenge: &Path) -> Result<Vec<String>, String> {
    let challenge = fs::canonicalize(challenge).ok();
    let list = match value.get("files") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err("`files` is no list".to_owned()),
    };
    let files = list.iter().map(|item| {
        let name = item.as_str().unwrap_or_default();
        let mut parts = Path::new(name).components().peekable();
        let is_below =
            parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)));
        let file = folder.join(name);
        if !is_below || !file.exists() {
            return Err(format!("the challenge has no file {item}"));
        }
        match fs::canonicalize(file).ok() == challenge {
            true => Err(format!("`files` has `{name}`, which has the flag")),
            false => Ok(name.to_owned()),
        }
    });
    files.collect()
}

/// The format of a flag for prompts: the text before its braces.
fn flag_format(flag: &str) -> String {
    match flag.find('{') {
        Some(place) if flag.ends_with('}') => format!("{}{{...}}", &flag[..place]),
        _ => "...".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_text(folder: &Path, text: &str) -> Result<ReadChallenge, String> {
        let path = folder.join(FILE);
        fs::write(&path, text).unwrap();
        read(&path, &GivenAt::Flag("problem_statement.path".to_owned()))
            .map_err(|it| it.to_string())
    }

    #[test]
    fn what_templates_get_of_a_challenge() {
        let folder = tempfile::tempdir().unwrap();
        let base =
            json!({"name": "Warm Up!", "category": "pwn", "description": "d", "flag": "FLAG{a}b}"});
        for (more, server) in [
            (json!({}), ""),
            (json!({"box": "h"}), ""),
            (
                json!({"box": "h", "internal_port": 8000}),
                "connect_start h 8000",
            ),
            (json!({"box": "", "port": "9"}), "connect_start 127.0.0.1 9"),
            (
                json!({"box": "h", "port": 9, "category": "web"}),
                "curl http://h:9",
            ),
            (
                json!({"box": "h", "port": 9, "category": "misc", "proto": "nc"}),
                "connect_start h 9",
            ),
        ] {
            let mut value = base.clone();
            value
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            let read =
                read_text(folder.path(), &value.to_string()).unwrap_or_else(|it| panic!("{it}"));
            let said = read.fields["server_description"].as_str().unwrap();
            assert!(
                said.contains(server) && said.is_empty() == server.is_empty(),
                "{said}"
            );
            assert_eq!(read.fields["flag_format"], "FLAG{...}");
            assert_eq!(read.fields["points"], 10);
            assert!(!format!("{:?} {:?}", read.fields, read.challenge).contains("a}b"));
            assert_eq!(read.text, "Warm Up! d");
        }
        let read = read_text(folder.path(), &base.to_string()).unwrap_or_else(|it| panic!("{it}"));
        assert_eq!(read.id, "pwn_WarmUp");
        for (flag, expected) in [
            ("flag{x}", "flag{...}"),
            ("x", "..."),
            ("{x", "..."),
            ("a{b}c", "..."),
        ] {
            assert_eq!(flag_format(flag), expected);
        }
    }

    #[test]
    fn links_are_copied_as_links_and_devices_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("src")).unwrap();
        std::os::unix::fs::symlink(".", at("src/loop")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at("src/outside")).unwrap();
        let mut challenge = Challenge {
            folder: folder.path().to_owned(),
            files: vec!["src".to_owned()],
            ..Challenge::default()
        };
        challenge.place(&at("to"));
        challenge.stage().unwrap_or_else(|it| panic!("{it}"));
        for (name, target) in [("loop", "."), ("outside", "/etc/passwd")] {
            let link = fs::read_link(at("to/src").join(name)).unwrap();
            assert_eq!(link, Path::new(target));
        }
        let _socket = std::os::unix::net::UnixListener::bind(at("src/socket")).unwrap();
        let said = challenge.stage().err().unwrap().to_string();
        assert!(said.contains("no file and no folder"), "{said}");
    }

    #[test]
    fn no_link_leads_out_of_the_copies() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["src", "mine/id", "out"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("mine/id/kept"), "mine").unwrap();
        std::os::unix::fs::symlink(at("mine/id"), at("src/x")).unwrap();
        std::os::unix::fs::symlink(at("mine"), at("out/.challenges")).unwrap();
        for (files, to) in [
            (&["src/x", "src/x/kept"][..], "to"),
            (&["src", "src/x/new"], "to"),
            (&["src"], "out/.challenges/id"),
        ] {
            let mut challenge = Challenge {
                folder: folder.path().to_owned(),
                files: files.iter().map(|&it| it.to_owned()).collect(),
                ..Challenge::default()
            };
            challenge.place(&at(to));
            let said = challenge.stage().err().map(|it| it.to_string());
            let said = said.unwrap_or_else(|| panic!("{files:?}"));
            assert!(said.contains(LINKED), "{said}");
            let kept = fs::read_to_string(at("mine/id/kept")).unwrap();
            assert_eq!(kept, "mine", "{files:?}");
            assert_eq!(fs::read_dir(at("mine/id")).unwrap().count(), 1);
        }
        // A folder, and a file of it.
        fs::write(at("src/f"), "f").unwrap();
        let mut challenge = Challenge {
            folder: folder.path().to_owned(),
            files: vec!["src".to_owned(), "src/f".to_owned()],
            ..Challenge::default()
        };
        challenge.place(&at("to"));
        challenge.stage().unwrap_or_else(|it| panic!("{it}"));
    }

    #[test]
    fn mistakes_have_a_place() {
        let folder = tempfile::tempdir().unwrap();
        let of = |more: &str| {
            format!(
                "{{\n\"name\": \"n\",\n\"category\": \"pwn\",\n\"description\": \"d\",\n\"flag\": \"f\"{more}\n}}"
            )
        };
        for (text, parts) in [
            ("{".to_owned(), &["challenge.json:1:", "no JSON"][..]),
            (
                of("").replace("\"name\"", "\"nam\""),
                &["challenge.json:1:1", "`name`"],
            ),
            (
                of("").replace("pwn", "pwm"),
                &["challenge.json:3:1", "`pwm`", "did you mean `pwn`?"],
            ),
            (
                of("").replace("\"f\"", "1"),
                &["challenge.json:5:1", "no text `flag`"],
            ),
            (
                of(",\n\"files\": \"a\""),
                &["challenge.json:6:1", "`files` is no list"],
            ),
            (
                of(",\n\"files\": [\"../a\"]"),
                &["challenge.json:6:1", "no file \"../a\""],
            ),
            (
                of(",\n\"files\": [\"none\"]"),
                &["no file \"none\"", "below the folder"],
            ),
            (of(",\n\"files\": [\"\"]"), &["no file \"\""]),
        ] {
            let said = read_text(folder.path(), &text).err().unwrap();
            for part in parts {
                assert!(said.contains(part), "{said}");
            }
        }
    }
}
