//! JavaScript, by componentize-qjs or componentize-js in the project's own modules.

use std::path::Path;

use super::tools::{Tools, words};
use crate::error::Error;
use crate::project::Project;

/// The SDK's module that imports the author's.
const ENTRY: &str = "mswea-sdk/entry.js";

/// A JavaScript engine for components.
struct JavaScriptEngine {
    tool: &'static str,
    /// A module that must be installed as well.
    needs: &'static str,
    install: &'static [&'static str],
    /// The arguments before and after the world's name.
    args: (&'static [&'static str], &'static [&'static str]),
}

const QUICKJS: JavaScriptEngine = JavaScriptEngine {
    tool: "componentize-qjs",
    needs: "componentize-qjs",
    install: &["npm", "ci"],
    args: (
        &["--wit", "wit", "--js", ENTRY, "--module-root", ".", "-n"],
        &["--sync", "--opt-size"],
    ),
};

const STARLINGMONKEY: JavaScriptEngine = JavaScriptEngine {
    tool: "componentize-js",
    // componentize-js does not declare this dependency itself, and newer versions can't read
    // folders.
    needs: "@bytecodealliance/preview2-shim",
    install: &[
        "npm",
        "install",
        "--save-dev",
        "@bytecodealliance/componentize-js@0.23.0",
        "@bytecodealliance/preview2-shim@0.17.2",
    ],
    // Without these the component would import `wasi:http`, which plugins do not get.
    args: (
        &[ENTRY, "-w", "wit", "-n"],
        &["-d", "stdio", "random", "clocks", "http", "fetch-event"],
    ),
};

pub(super) fn build(
    project: &Project,
    made: &Path,
    tools: &mut Tools<'_>,
) -> Result<String, Error> {
    let engine = match project.engine.as_deref() {
        Some("starlingmonkey") => STARLINGMONKEY,
        _ => QUICKJS,
    };
    if tools.find("node", &[]).is_none() {
        return Err(no_node());
    }
    let own = format!("node_modules/.bin/{}", engine.tool);
    let needs = tools.folder.join("node_modules").join(engine.needs);
    let is_there = |tools: &Tools<'_>| tools.own(&own).filter(|_| needs.is_dir());
    if tools.options.install && is_there(tools).is_none() {
        let npm = tools.find(engine.install[0], &[]).ok_or_else(no_node)?;
        let command = tools.command(&npm, &engine.install[1..]);
        tools.run(command)?;
    }
    let tool = is_there(tools).ok_or_else(|| Error::Missing {
        what: format!(
            "there is no `{}` in the project's `node_modules`, or not with what it needs",
            engine.tool
        ),
        install: vec![engine.install.join(" ")],
    })?;
    let made = made.to_string_lossy();
    let (before, after) = engine.args;
    let args = [before, &[project.kind.word()], after, &["-o", &made]].concat();
    let command = tools.command(&tool, &args);
    let words = words(&command);
    tools.run(command)?;
    Ok(words)
}

fn no_node() -> Error {
    Error::Missing {
        what: "there is no `node` with `npm`, which build plugins in JavaScript".to_owned(),
        install: vec!["apt-get install nodejs npm".to_owned()],
    }
}
