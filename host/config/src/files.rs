//! Finds and reads what a `-c` names.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{ConfigProblem, Files, ProblemKind, Snippet};
use super::host_env::HostEnvironment;
use super::keys::{self, Names, Type};
use super::mini_files::{self, OfMini};
use super::node::{Content, Node};
use super::{presets, toml_file, yaml_file};

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Toml,
    Yaml,
}

impl Format {
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// The file or the preset that a `-c` names.
#[derive(Debug)]
pub(super) enum Named {
    File {
        path: String,
        format: Format,
        node: Node,
        warnings: Vec<String>,
    },
    Preset {
        name: String,
        /// A remark for users who know the name from mini-swe-agent.
        notice: Option<String>,
    },
}

/// Finds and reads what `name` names.
///
/// A name without a `/` and without a config file's suffix is a file of the user's own config
/// folder (`$MSWEA_CONFIG_DIR`) or a preset, and never a file of the current folder: that folder
/// may be a repository written by others, and a config can run commands and send keys elsewhere.
/// Any other name is looked up as a file, as given or with another suffix, relative to the current
/// folder and then in the config folder; then as a preset with the name of mini-swe-agent's file.
/// `asked` is the argument as the user wrote it, for messages.
pub(super) fn load(
    name: &str,
    asked: &str,
    env: &dyn HostEnvironment,
    files: &mut Files,
) -> Result<Named, ConfigProblem> {
    let mut tried = Vec::new();
    for path in candidates(name, env) {
        let shown = path.display().to_string();
        let format = Format::of(&path);
        match env.read(&env.cwd().join(&path)) {
            Ok(bytes) => {
                let Some(format) = format else {
                    tried.push(format!(
                        "`{shown}` (exists, but is neither .toml nor .yaml)"
                    ));
                    continue;
                };
                return read(&shown, &path, format, bytes, env, files);
            }
            Err(error) if is_absent(&error) => tried.push(format!("`{shown}`")),
            // A folder of that name does not end the search, nor does a file without a config
            // file's suffix.
            Err(_) if format.is_none() => tried.push(format!("`{shown}` (no file)")),
            Err(error) => {
                let message = format!("can't read `{shown}`: {error}");
                return Err(ConfigProblem::new(ProblemKind::Unreadable, message)
                    .hint("check that it is a file and that you may read it"));
            }
        }
    }
    let of_mini = OfMini::find(name);
    let preset = match of_mini {
        _ if presets::NAMES.contains(&name) => Some(name),
        Some(of_mini) => of_mini.preset,
        None => None,
    };
    if let Some(preset) = preset {
        return Ok(Named::Preset {
            name: preset.to_owned(),
            // `default` is also a preset of this host, so it needs no remark.
            notice: of_mini
                .filter(|_| name != presets::DEFAULT)
                .map(|of_mini| of_mini.notice(asked)),
        });
    }
    let tried = match tried.is_empty() {
        true => String::new(),
        false => format!("; tried {}", tried.join(", ")),
    };
    if let Some(of_mini) = of_mini {
        let message = format!(
            "`{asked}` is a config in mini-swe-agent's package, for which this program has no \
             preset{tried}"
        );
        let hint = format!("copy it from there: {}", of_mini.copying());
        return Err(ConfigProblem::new(ProblemKind::NotFound, message).hint(hint));
    }
    let message = format!("`{asked}` names neither a file nor a preset{tried}");
    Err(ConfigProblem::new(ProblemKind::NotFound, message).hint(remedy(name, env)))
}

/// The remedy for a name that was not found.
fn remedy(name: &str, env: &dyn HostEnvironment) -> String {
    if is_bare(name) {
        let here = with_suffixes(Path::new(name));
        let mut here = here.filter(|path| env.read(&env.cwd().join(path)).is_ok());
        if let Some(path) = here.next() {
            return format!(
                "a file of the current folder is named with its suffix or with a `/`: `-c ./{}`",
                path.display()
            );
        }
    }
    let presets: Vec<_> = presets::NAMES
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    let known = presets::NAMES.iter().copied();
    let known = known.chain(mini_files::names());
    match mswea_text::nearest(name, known) {
        Some(near) if presets::NAMES.contains(&near) => {
            format!("did you mean the preset `{near}`?")
        }
        Some(near) => format!("did you mean mini-swe-agent's `{near}`?"),
        None => format!(
            "presets are {}; a single value is given as `-c dotted.key=value`",
            presets.join(", ")
        ),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Whether a name has neither a `/` nor a config file's suffix.
fn is_bare(name: &str) -> bool {
    !name.contains('/') && Format::of(Path::new(name)).is_none()
}

/// The path with each suffix that a config file may have.
fn with_suffixes(path: &Path) -> impl Iterator<Item = PathBuf> {
    ["toml", "yaml", "yml"]
        .map(|suffix| path.with_extension(suffix))
        .into_iter()
}

fn candidates(name: &str, env: &dyn HostEnvironment) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut add = |path: PathBuf| {
        if !paths.contains(&path) {
            paths.push(path);
        }
    };
    let given = Path::new(name);
    let own = env.var("MSWEA_CONFIG_DIR").filter(|own| !own.is_empty());
    let here = (!is_bare(name)).then(PathBuf::new);
    for folder in here.into_iter().chain(own.map(PathBuf::from)) {
        let path = folder.join(given);
        add(path.clone());
        if given.file_name().is_some() && !name.ends_with('/') {
            with_suffixes(&path).for_each(&mut add);
        }
    }
    paths
}

fn read(
    shown: &str,
    path: &Path,
    format: Format,
    bytes: Vec<u8>,
    env: &dyn HostEnvironment,
    files: &mut Files,
) -> Result<Named, ConfigProblem> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let lossy = String::from_utf8_lossy(error.as_bytes());
        let before = String::from_utf8_lossy(&error.as_bytes()[..valid]);
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .map_or(0, |last| last.chars().count())
            + 1;
        ConfigProblem::new(ProblemKind::Syntax, format!("`{shown}` is not UTF-8"))
            .snippet(Snippet::new(shown, &lossy, line, column, 1))
            .hint("save the file as UTF-8")
    })?;
    let text: Arc<str> = text.into();
    files.add(shown, text.clone());
    let (mut node, warnings) = match format {
        Format::Toml => (toml_file::parse(shown, &text)?, Vec::new()),
        Format::Yaml => yaml_file::parse(shown, &text)?,
    };
    let folder = env.cwd().join(path.parent().unwrap_or(Path::new("")));
    anchor(&mut Vec::new(), &mut node, &folder, env);
    Ok(Named::File {
        path: shown.to_owned(),
        format,
        node,
        warnings,
    })
}

/// Makes the paths in a config file absolute. They are relative to that file, and which file it was
/// is no longer known after merging.
fn anchor(path: &mut Vec<String>, node: &mut Node, folder: &Path, env: &dyn HostEnvironment) {
    let segments: Vec<&str> = path.iter().map(String::as_str).collect();
    match keys::find(&segments) {
        keys::Found::Key(key) if key.names != Names::Nothing => match &mut node.content {
            Content::Scalar(value) => anchor_text(value, key.names, folder, env),
            Content::List(items) if key.kind == Type::TextList => {
                for item in items {
                    if let Content::Scalar(value) = &mut item.content {
                        anchor_text(value, key.names, folder, env);
                    }
                }
            }
            _ => {}
        },
        keys::Found::Group { .. } => {
            if let Content::Map(entries) = &mut node.content {
                for entry in entries {
                    path.push(entry.key.clone());
                    anchor(path, &mut entry.node, folder, env);
                    path.pop();
                }
            }
        }
        _ => {}
    }
}

fn anchor_text(
    value: &mut serde_json::Value,
    names: Names,
    folder: &Path,
    env: &dyn HostEnvironment,
) {
    let Some(text) = value.as_str() else { return };
    let is_name = match names {
        Names::Plugin => !text.ends_with(".wasm"),
        Names::Bundle => !text.contains('/'),
        Names::File | Names::Nothing => false,
    };
    if text.is_empty() || is_name {
        return;
    }
    let path = match (text.strip_prefix("~/"), env.var("HOME")) {
        (Some(rest), Some(home)) if !home.is_empty() => Path::new(&home).join(rest),
        _ => folder.join(text),
    };
    // `parsers/text_regex.wasm` may also be the name of a built-in plugin, so only an existing file
    // counts as a file.
    if names == Names::Plugin && !env.is_file(&path) {
        return;
    }
    // `a/./b` becomes `a/b`, because these paths are shown to the user. `..` stays: behind a
    // symbolic link it leads elsewhere.
    let tidy: PathBuf = path.components().collect();
    *value = tidy.display().to_string().into();
}

#[cfg(test)]
mod tests {
    use super::super::testing::Memory;
    use super::*;

    fn name(spec: &str, env: &Memory) -> Result<String, String> {
        match load(spec, &format!("-c {spec}"), env, &mut Files::default()) {
            Ok(Named::File { path, .. }) => Ok(path),
            Ok(Named::Preset { name, .. }) => Ok(format!("preset {name}")),
            Err(problem) => Err(problem.to_string()),
        }
    }

    #[test]
    fn a_name_is_looked_for_in_order() {
        let env = Memory::new()
            .file("/work/a.toml", "")
            .file("/work/b.yaml", "")
            .file("/work/both.toml", "")
            .file("/work/both.yaml", "")
            .file("/work/old.yml", "")
            .file("/work/noted", "")
            .file("/work/noted.toml", "")
            .file("/abs/x.toml", "")
            .file("/work/../abs/x.toml", "")
            .file("/conf/c.toml", "")
            .file("/conf/a.toml", "")
            .folder("/work/text")
            .var("MSWEA_CONFIG_DIR", "/conf");
        for (spec, expected) in [
            ("a.toml", "a.toml"),
            ("a", "/conf/a.toml"),
            ("./a", "./a.toml"),
            ("./b", "./b.yaml"),
            ("b.toml", "b.yaml"),
            ("./both", "./both.toml"),
            ("both.yaml", "both.yaml"),
            ("./old", "./old.yml"),
            ("./noted", "./noted.toml"),
            ("../abs/x.toml", "../abs/x.toml"),
            ("/abs/x", "/abs/x.toml"),
            ("c", "/conf/c.toml"),
            ("text", "preset text"),
            ("default", "preset default"),
            ("mini.yaml", "preset default"),
            ("mini", "preset default"),
            ("mini_textbased.yaml", "preset text"),
            ("mini_textbased", "preset text"),
            ("default.yaml", "preset default.yaml"),
            ("swebench", "preset swebench"),
            ("swebench.yaml", "preset swebench"),
            ("benchmarks/swebench_backticks", "preset swebench_backticks"),
            ("benchmarks/swebench_xml.yaml", "preset swebench_xml"),
            ("programbench.yaml", "preset programbench"),
        ] {
            assert_eq!(name(spec, &env), Ok(expected.to_owned()), "{spec}");
        }
        let own = env.file("/conf/mini.yaml", "");
        assert_eq!(name("mini", &own), Ok("/conf/mini.yaml".to_owned()));
    }

    /// The current folder may be a repository that others wrote.
    #[test]
    fn a_bare_name_is_no_file_of_the_current_folder() {
        let mut env = Memory::new();
        for preset in presets::NAMES.iter().copied().chain(["mini", "mine"]) {
            for suffix in ["", ".toml", ".yaml", ".yml"] {
                env = env.file(&format!("/work/{preset}{suffix}"), "");
            }
        }
        for preset in presets::NAMES {
            assert_eq!(name(preset, &env), Ok(format!("preset {preset}")));
        }
        assert_eq!(name("mini", &env), Ok("preset default".to_owned()));
        let error = name("mine", &env).unwrap_err();
        assert!(error.contains("`-c mine` names neither"), "{error}");
        assert!(error.contains("`-c ./mine.toml`"), "{error}");
        // A path that is typed out is deliberate.
        assert_eq!(name("text.toml", &env), Ok("text.toml".to_owned()));
        assert_eq!(name("./text", &env), Ok("./text.toml".to_owned()));
    }

    #[test]
    fn what_is_not_there_is_told_with_where_it_was_looked_for() {
        let env = Memory::new()
            .file("/work/plain", "x")
            .file("/work/secret.toml", "")
            .deny("/work/secret.toml")
            .folder("/work/dir.toml")
            .raw("/work/latin.toml", b"a = 1\nb = \"\xe9\"\n");
        for (spec, parts) in [
            (
                "nothing.toml",
                &[
                    "names neither a file nor a preset",
                    "`nothing.toml`, `nothing.yaml`",
                    "presets are `default`, `text`, `swebench`",
                ][..],
            ),
            ("defualt", &["did you mean the preset `default`?"]),
            ("swebnch", &["did you mean the preset `swebench`?"]),
            ("swebench_modl", &["mini-swe-agent's `swebench_modal`?"]),
            (
                "swebench_modal",
                &[
                    "`-c swebench_modal` is a config in mini-swe-agent's package",
                    "/config/benchmarks/swebench_modal.yaml",
                    "`-c ./swebench_modal.yaml`",
                ],
            ),
            (
                "swebench_modal.yaml",
                &["tried `swebench_modal.yaml`, `swebench_modal.toml`"],
            ),
            (
                "./plain",
                &["`./plain` (exists, but is neither .toml nor .yaml)"],
            ),
            (
                "secret.toml",
                &["can't read `secret.toml`: permission denied"],
            ),
            ("dir.toml", &["can't read `dir.toml`: is a directory"]),
            (
                "latin.toml",
                &["`latin.toml` is not UTF-8", "latin.toml:2:6", "hint: save"],
            ),
        ] {
            let text = name(spec, &env).unwrap_err();
            for part in parts {
                assert!(text.contains(part), "{spec}: {text}");
            }
        }
    }

    #[test]
    fn files_that_a_file_names_are_relative_to_it() {
        let env = Memory::new().var("HOME", "/home/u").file(
            "/work/conf/x.toml",
            "[plugins.a]\npath = \"./a.wasm\"\n[plugins.b]\npath = \"/b.wasm\"\n\
             [plugins.c]\npath = \"~/c.wasm\"\nconfig = {path = \"keep\"}\n\
             [pipeline]\nparser = \"p.wasm\"\nformatter = \"jinja\"\npolicies = [\"q.wasm\", \"name\"]\n\
             [model]\nsecrets_file = \"secrets\"\n[agent]\noutput_path = \"out\"\n\
             [providers.x]\nadapter = \"models/openai.wasm\"\n",
        );
        let env = env
            .file("/work/conf/p.wasm", "")
            .file("/work/conf/q.wasm", "");
        let Named::File { node, .. } =
            load("conf/x.toml", "-c conf/x.toml", &env, &mut Files::default()).unwrap()
        else {
            panic!("no file");
        };
        assert_eq!(
            node.to_value(),
            serde_json::json!({
                "plugins": {
                    "a": {"path": "/work/conf/a.wasm"},
                    "b": {"path": "/b.wasm"},
                    "c": {"path": "/home/u/c.wasm", "config": {"path": "keep"}},
                },
                "pipeline": {
                    "parser": "/work/conf/p.wasm",
                    "formatter": "jinja",
                    "policies": ["/work/conf/q.wasm", "name"],
                },
                "model": {"secrets_file": "/work/conf/secrets"},
                "agent": {"output_path": "out"},
                "providers": {"x": {"adapter": "models/openai.wasm"}},
            })
        );
    }
}
