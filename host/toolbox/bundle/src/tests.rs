//! Tests of the bundles as they are installed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{bundle, bytes, names, packed_size, write};

/// Its assertions in C and in Rust name places in sources.
#[test]
fn it_names_no_folder_of_this_machine() {
    let bytes = bytes();
    let holds = |text: &str| bytes.windows(text.len()).any(|it| it == text.as_bytes());
    assert!(holds("/cargo/registry/"));
    let here = env!("CARGO_MANIFEST_DIR");
    let root = here.strip_suffix("/host/toolbox/bundle").unwrap();
    let variable = |name| std::env::var(name).unwrap_or_default();
    let of_cargo = match variable("CARGO_HOME") {
        home if home.is_empty() => format!("{}/.cargo", variable("HOME")),
        home => home,
    };
    for folder in [format!("{root}/host"), format!("{of_cargo}/registry")] {
        assert!(!holds(&folder), "{folder}");
    }
}

/// A folder with all bundles and the program, which is removed in the end.
struct Installed(PathBuf);

impl Installed {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("mswea-bundles-{name}-{}", std::process::id()));
        let names: Vec<&str> = names().collect();
        write(&names, &folder).unwrap();
        Self(folder)
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn the_program_is_small_and_has_no_marks() {
    assert!(bytes().starts_with(b"\x7fELF"));
    assert!(packed_size() <= 500_000, "{}", packed_size());
    // Printing it ends no run.
    for mark in [
        "<<SWE_AGENT_SUBMISSION>>",
        "###SWE-AGENT-EXIT-FORFEIT###",
        "<<INTERACTIVE||",
    ] {
        let found = bytes()
            .windows(mark.len())
            .any(|part| part == mark.as_bytes());
        assert!(!found, "{mark}");
    }
}

#[test]
fn every_file_in_bin_starts_its_tool() {
    let installed = Installed::new("bin");
    for name in names() {
        let files = bundle(name).unwrap().files;
        for file in files.iter().filter(|it| it.path.starts_with("bin/")) {
            let path = installed.0.join(name).join(&file.path);
            let mut run = Command::new(&path);
            run.current_dir(&installed.0);
            run.env("MSWEA_TOOLS_HOME", installed.0.join("home"));
            // More arguments than any tool takes: it says so, and does nothing.
            let output = run.args(["a", "b", "c", "d", "e"]).output().unwrap();
            let code = output.status.code().unwrap();
            assert!(code < 126, "{}: {output:?}", path.display());
        }
    }
}

#[test]
fn bundles_in_python_find_the_registry() {
    let installed = Installed::new("python");
    let script = "from registry import registry; registry['A'] = [1]; \
                  print(registry['A'], registry.get('B', 2), registry.get('HOME') is not None, registry.get_if_none(None, 'A'))";
    let mut run = Command::new("python3");
    run.args(["-c", script]);
    run.env("PYTHONPATH", installed.0.join("registry/lib"));
    run.env("PYTHONDONTWRITEBYTECODE", "1");
    run.env("HOME", "/");
    run.env("SWE_AGENT_ENV_FILE", installed.0.join("env.json"));
    let Ok(output) = run.output() else {
        eprintln!("SKIPPED: there is no python3");
        return;
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, "[1] 2 True [1]\n", "{output:?}");
}

/// The names of the tools in a manifest.
fn tools(manifest: &str) -> Vec<&str> {
    let lines = manifest
        .lines()
        .take_while(|line| !line.starts_with("state_command") && !line.starts_with("interactive"));
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'));
    names.filter(|name| !name.starts_with([' ', '#'])).collect()
}

#[test]
fn manifests_name_what_is_in_bin() {
    let mut all = 0;
    for name in names() {
        let bundle = bundle(name).unwrap();
        let manifest = String::from_utf8(bundle.manifest().to_owned()).unwrap();
        let has = |tool: &str| {
            bundle
                .files
                .iter()
                .any(|file| file.path == format!("bin/{tool}"))
        };
        let tools = tools(&manifest);
        all += tools.len();
        assert!(tools.iter().all(|tool| has(tool)), "{name}: {tools:?}");
        if let Some((_, state)) = manifest.split_once("state_command: \"") {
            assert!(has(state.split('"').next().unwrap()), "{name}: {state}");
        }
        // Docstrings are formats: a brace would be a field.
        for line in manifest
            .lines()
            .filter(|line| !line.contains("argument_format"))
        {
            assert!(
                !line.contains(['{', '}']) || line == "tools: {}",
                "{name}: {line}"
            );
        }
    }
    assert_eq!(all, 31);
}

#[test]
fn other_names_are_refused_with_a_reason() {
    let refusal = bundle("web_browser").unwrap_err().to_string();
    assert!(refusal.contains("needs a browser"), "{refusal}");
    // In this case nothing is written.
    let folder = std::env::temp_dir().join("mswea-bundles-none");
    let error = write(&["registry", "web_browser"], &folder).unwrap_err();
    assert_eq!((error.to_string(), folder.exists()), (refusal, false));
    let refusal = bundle("windowd").unwrap_err().to_string();
    assert!(
        refusal.contains("debug, diff_state, edit_anthropic, "),
        "{refusal}"
    );
}
