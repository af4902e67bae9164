//! The paths of the tools' files in the environment, and their settings.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

/// The longest text in one variable: the kernel does not start a program with a longer one.
const LONGEST_VARIABLE: usize = 100_000;

/// The files of the tools in the environment, and their settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolsPlace {
    /// The folder of the tools' files, without a slash at its end. SWE-agent's own bundles need `/root`.
    pub root: String,
    /// The environment variables of the tools.
    pub variables: BTreeMap<String, String>,
    /// The id of the run, which is in the names of temporary folders.
    pub run_id: String,
    /// The initial values of the registry, a file in which tools keep values.
    pub registry: Map<String, Value>,
    /// The task, for tools that show it.
    pub task: String,
    /// The time limit of the installation of one bundle.
    pub install_timeout: Duration,
    /// The time limit of the state commands together.
    pub state_timeout: Duration,
    /// Whether bash must be able to parse a command before it runs.
    pub checks_syntax: bool,
    /// Whether the files that the submission has modified are read at the end of the run.
    pub reads_edited: bool,
    /// The time limit of a command, and of an answer of a program that stays open.
    pub command_timeout: Duration,
    /// The flag that a submission must be, or its sum; none if any submission is accepted.
    pub flag: Option<String>,
    /// The handling of long outputs; none: they are shown unchanged.
    pub long_outputs: Option<LongOutputs>,
}

/// The handling of long outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongOutputs {
    /// The largest number of lines of an output that is shown unchanged.
    pub lines: usize,
    /// Whether a history processor adds a summary; else the file is opened.
    pub is_summarised: bool,
}

impl ToolsPlace {
    /// The folder of all bundles.
    pub fn folder(&self) -> String {
        format!("{}/tools", self.root)
    }

    /// The folder of a bundle.
    pub fn bundle(&self, name: &str) -> String {
        format!("{}/{name}", self.folder())
    }

    /// The folder with the program of the first-party bundles.
    pub fn program_folder(&self) -> String {
        let program = mswea_toolbox_bundle::PROGRAM_PATH;
        let folder = program
            .split_once('/')
            .map_or(program, |(folder, _)| folder);
        self.bundle(folder)
    }

    /// The program of the first-party bundles.
    pub fn program(&self) -> String {
        self.bundle(mswea_toolbox_bundle::PROGRAM_PATH)
    }

    /// The file with the registry.
    pub fn registry_file(&self) -> String {
        format!("{}/.swe-agent-env", self.root)
    }

    /// The file with the state, a JSON object.
    pub fn state_file(&self) -> String {
        format!("{}/state.json", self.root)
    }

    /// The file into which the tool `submit` writes the submission.
    pub fn patch_file(&self) -> String {
        format!("{}/model.patch", self.root)
    }

    /// The file for an output that is too long to be shown.
    pub fn output_file(&self, name: &str) -> String {
        format!("{}/output/{name}", self.root)
    }

    /// The file with the variables and functions of the shell after the installation.
    pub fn shell_file(&self) -> String {
        format!("{}/tools/.mswea-shell", self.root)
    }

    /// The variables that are exported before the installation, as shell text.
    pub fn exports(&self) -> String {
        let task = without_images(&self.task);
        let mut task = task.as_str();
        if task.len() > LONGEST_VARIABLE {
            tracing::warn!(
                "the task is longer than a variable may be: `PROBLEM_STATEMENT` has its beginning"
            );
            let end = (0..=LONGEST_VARIABLE)
                .rev()
                .find(|end| task.is_char_boundary(*end));
            task = &task[..end.unwrap_or_default()];
        }
        let mut text = String::new();
        let mut export = |name: &str, value: &str| {
            text.push_str(&format!("export {name}={}\n", quoted(value)));
        };
        export("PROBLEM_STATEMENT", task);
        export("SWE_AGENT_ENV_FILE", &self.registry_file());
        for (name, value) in &self.variables {
            export(name, value);
        }
        if !self.variables.contains_key("ROOT") {
            text.push_str("export ROOT=\"$(pwd -P)\"\n");
        }
        text
    }
}

/// A text without the data of images (`![NAME](data:...)`), which are useless in a variable.
fn without_images(text: &str) -> String {
    const DATA: &str = "](data:image/";
    let mut whole = String::with_capacity(text.len().min(LONGEST_VARIABLE));
    let mut rest = text;
    while let Some(place) = rest.find(DATA) {
        let Some(end) = rest[place..].find(')') else {
            break;
        };
        let before = &rest[..place];
        let begin = before.rfind("![").unwrap_or(place);
        whole.push_str(before[..begin].trim_end_matches('\n'));
        rest = &rest[place + end + 1..];
    }
    whole + rest
}

/// A text as one word of the shell.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_left_out_of_the_variable() {
        for (text, expected) in [
            ("a", "a"),
            ("a\n\n![u](data:image/png;base64,AA==)", "a"),
            (
                "a\n\n![u](data:image/png;base64,AA==)\n\n![v](data:image/webp;base64,BB)",
                "a",
            ),
            (
                "see ![u](data:image/png;base64,AA==), then ![w](w.png)",
                "see , then ![w](w.png)",
            ),
            (
                "](data:image/ without an end",
                "](data:image/ without an end",
            ),
        ] {
            assert_eq!(without_images(text), expected);
        }
    }
}
