//! Python, by componentize-py in the project's own environment.

use std::path::Path;

use super::tools::{Tools, words};
use crate::error::Error;
use crate::project::Project;

const TOOL: &str = "componentize-py";
const VENV: [&str; 4] = ["python3", "-m", "venv", ".venv"];
const INSTALL: [&str; 4] = [".venv/bin/pip", "install", "-r", "requirements.txt"];

pub(super) fn build(
    project: &Project,
    made: &Path,
    tools: &mut Tools<'_>,
) -> Result<String, Error> {
    let own = format!(".venv/bin/{TOOL}");
    if tools.options.install && tools.own(&own).is_none() {
        install(tools)?;
    }
    let tool = tools
        .own(&own)
        .or_else(|| tools.find(TOOL, &[]))
        .ok_or_else(missing)?;
    let made = made.to_string_lossy();
    let command = tools.command(
        &tool,
        &[
            "-d",
            "wit",
            "-w",
            project.kind.word(),
            "componentize",
            match tools.options.development {
                true => "mswea_sdk.dev",
                false => "mswea_sdk.app",
            },
            "-o",
            &made,
        ],
    );
    let words = words(&command);
    tools.run(command)?;
    Ok(words)
}

fn install(tools: &mut Tools<'_>) -> Result<(), Error> {
    let python = tools.find(VENV[0], &[]).ok_or_else(|| Error::Missing {
        what: "there is no `python3`".to_owned(),
        install: vec!["apt-get install python3 python3-venv".to_owned()],
    })?;
    let command = tools.command(&python, &VENV[1..]);
    tools.run(command)?;
    let pip = tools.own(INSTALL[0]).ok_or_else(missing)?;
    let command = tools.command(&pip, &INSTALL[1..]);
    tools.run(command)?;
    Ok(())
}

fn missing() -> Error {
    Error::Missing {
        what: format!("there is no `{TOOL}`, neither in the project's `.venv` nor in the path"),
        install: vec![VENV.join(" "), INSTALL.join(" ")],
    }
}
