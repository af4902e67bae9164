//! The shell of a run: it is detected if the config does not set it, and named to the model in the
//! prompts, because `[[` and `source` work in bash and not in every `sh`.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mswea_config::EnvironmentConfig;

/// The folders of programs if `PATH` is missing or empty.
const STANDARD_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The interpreter of a run: the configured one; if that is empty, bash, which models know best, or
/// `/bin/sh` if there is no bash.
pub fn interpreter(environment: &EnvironmentConfig) -> Vec<String> {
    if !environment.interpreter.is_empty() {
        return environment.interpreter.clone();
    }
    // The `PATH` of commands.
    let path = match environment.env.get("PATH") {
        Some(path) => path.into(),
        None => std::env::var_os("PATH")
            .filter(|path| !path.is_empty())
            .unwrap_or_else(|| STANDARD_PATH.into()),
    };
    let shell = bash_on(&path).unwrap_or_else(|| "/bin/sh".to_owned());
    vec![shell, "-c".to_owned()]
}

fn bash_on(path: &OsStr) -> Option<String> {
    std::env::split_paths(path)
        // A relative folder would be another one for each working directory.
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("bash"))
        .find(|program| is_program(program))
        .and_then(|program| program.to_str().map(str::to_owned))
}

fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The name of an interpreter in prompts: its first word that is a shell's name (`env -i bash -c`),
/// else the program's name.
pub fn name(interpreter: &[String]) -> &str {
    let names = || interpreter.iter().map(|word| file_name(word));
    names()
        .find(|name| name.ends_with("sh"))
        .or_else(|| names().next())
        .unwrap_or("sh")
}

/// A line that makes these the arguments of the script that follows; empty without any.
pub fn arguments(words: impl IntoIterator<Item = String>) -> String {
    let words = words.into_iter();
    let quoted: String = words
        .map(|word| format!(" '{}'", word.replace('\'', r"'\''")))
        .collect();
    match quoted.as_str() {
        "" => String::new(),
        quoted => format!("set --{quoted}\n"),
    }
}

fn file_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Sets the arguments of a script to git's pathspecs of files that are written for a run.
pub(super) fn own_files(names: &[String]) -> String {
    arguments(names.iter().map(|name| format!(":(top,glob)**/{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_config::{Layers, ProcessEnvironment, Sources};

    fn environment(configs: &[String]) -> EnvironmentConfig {
        let sources = Sources {
            configs: configs.to_vec(),
            ..Sources::default()
        };
        let layers = Layers::load(&sources, &ProcessEnvironment).unwrap();
        layers.resolve().unwrap().environment
    }

    #[test]
    fn bash_is_taken_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, mode: u32| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        };
        file("plain/bash", 0o644);
        file("good/bash", 0o755);
        file("other/sh", 0o755);
        std::fs::create_dir_all(folder.path().join("folder/bash")).unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        for (path, found) in [
            (String::new(), false),
            ("relative:.".into(), false),
            (at("plain"), false),
            (at("folder"), false),
            (at("other"), false),
            (at("missing"), false),
            (at("good"), true),
            (format!("::{}:{}", at("plain"), at("good")), true),
        ] {
            // The presets do not set the interpreter.
            let environment = environment(&[format!("environment.env.PATH=\"{path}\"")]);
            let shell = match found {
                true => at("good/bash"),
                false => "/bin/sh".to_owned(),
            };
            assert_eq!(interpreter(&environment), [shell.as_str(), "-c"], "{path}");
        }
    }

    #[test]
    fn a_configured_interpreter_stays() {
        let configured = environment(&["environment.interpreter=[\"zsh\", \"-c\"]".to_owned()]);
        assert_eq!(interpreter(&configured), ["zsh", "-c"]);
        let standard = Layers::load(
            &Sources {
                no_default_config: true,
                configs: vec![
                    "agent.system_template=x".into(),
                    "agent.instance_template=x".into(),
                ],
                ..Sources::default()
            },
            &ProcessEnvironment,
        );
        let standard = standard.unwrap().resolve().unwrap();
        assert_eq!(interpreter(&standard.environment), ["/bin/sh", "-c"]);
    }

    #[test]
    fn shells_have_names() {
        for (interpreter, expected) in [
            (&[][..], "sh"),
            (&["/bin/sh", "-c"], "sh"),
            (&["/usr/bin/bash", "-c"], "bash"),
            (&["bash", "-lc"], "bash"),
            (&["/usr/bin/env", "-i", "zsh", "-c"], "zsh"),
            (&["python3", "-c"], "python3"),
        ] {
            let interpreter: Vec<String> = interpreter.iter().map(|&word| word.into()).collect();
            assert_eq!(name(&interpreter), expected);
        }
    }
}
