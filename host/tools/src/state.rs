//! The state of the tools: makes the command that reads it, and parses the output.
//!
//! A state command updates a JSON object in a file. Some commands print an object instead; both
//! forms are accepted.

use serde_json::Value;

use crate::install;
use crate::place::{ToolsPlace, quoted};
use mswea_core::Object;

/// The separator of the parts of the output: the character "record separator".
const SEPARATOR: char = '\u{1e}';

/// The command that runs the state commands and prints the state. It first restores the variables
/// in a new shell, and leaves the exit code of the previous action in `$?`.
pub fn command(place: &ToolsPlace, commands: &[String]) -> String {
    // The trace of an earlier `set -x` is not part of the state.
    let mut text = format!("mswea_status=$?\n{{ {}\n", install::revive(place));
    for command in commands {
        text.push_str(&format!("printf '\\036'\n{{ {command}\n}} </dev/null\n"));
    }
    // Without starting a program, which would take longer than most actions. Commands may have put a pipe or a device in
    // the file's place.
    text.push_str(&format!(
        "printf '\\036'\n[ ! -f {0} ] || printf '%s' \"$(<{0})\"\nprintf '\\036'\n\
         mswea_leave() {{ unset -f mswea_leave; return \"$mswea_status\"; }}\nmswea_leave; }} 2>/dev/null",
        quoted(&place.state_file())
    ));
    text
}

/// The state in the output of [`command`], which has run `count` state commands.
///
/// # Errors
/// The problem, if the output has no valid state.
pub fn read(output: &str, count: usize) -> Result<Object, String> {
    let parts: Vec<&str> = output.split(SEPARATOR).collect();
    // The parts before the first separator and after the last one are messages of the host about
    // the shell.
    let Some([_, printed @ .., file, _]) = parts.get(..).filter(|all| all.len() == count + 3)
    else {
        return Err("it did not run to its end".to_owned());
    };
    let mut state = match file.trim() {
        "" => Object::new(),
        text => object(text)?,
    };
    let mut noise = None;
    for text in printed {
        match mswea_text::read_json(text.trim().as_bytes()) {
            Ok(Value::Object(printed)) => state.extend(printed),
            _ if text.trim().is_empty() => {}
            _ => noise = noise.or(Some(text.trim())),
        }
    }
    match noise {
        // If there is a state, other output of a command is ignored.
        Some(noise) if state.is_empty() => {
            let shown: String = noise.chars().take(80).collect();
            Err(format!("it wrote no state, and printed `{shown}`"))
        }
        _ => Ok(state),
    }
}

fn object(text: &str) -> Result<Object, String> {
    let shown: String = text.chars().take(80).collect();
    match mswea_text::read_json(text.as_bytes()) {
        Ok(Value::Object(state)) => Ok(state),
        Ok(_) => Err(format!("its file has no JSON object, but `{shown}`")),
        Err(error) => Err(format!("its file is no JSON ({error}): `{shown}`")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn vectors() {
        for (output, count, expected) in [
            ("\u{1e}{\"a\": 1}\u{1e}", 0, Ok(json!({"a": 1}))),
            ("\u{1e}\u{1e}", 0, Ok(json!({}))),
            ("\u{1e}\u{1e} \n\u{1e}", 1, Ok(json!({}))),
            (
                "\u{1e}noise\u{1e}{\"b\": \"x\"}\n\u{1e}{\"a\": 1, \"b\": 2}\u{1e}[a note]\n",
                2,
                Ok(json!({"a": 1, "b": "x"})),
            ),
            ("\u{1e}oops\u{1e}\u{1e}", 1, Err("printed `oops`")),
            ("\u{1e}oops\u{1e}{}\u{1e}", 1, Err("printed `oops`")),
            ("\u{1e}[1]\u{1e}", 0, Err("no JSON object, but `[1]`")),
            ("\u{1e}{\"a\": \u{1e}", 0, Err("is no JSON (")),
            ("\u{1e}", 0, Err("did not run to its end")),
            ("", 1, Err("did not run to its end")),
        ] {
            match (read(output, count), expected) {
                (Ok(state), Ok(expected)) => assert_eq!(Value::Object(state), expected, "{output}"),
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
                (got, _) => panic!("{output:?}: {got:?}"),
            }
        }
    }

    /// An earlier `set -x` stays active, and prints each command of the host to the same output.
    #[test]
    fn a_shell_that_traces_its_commands_tells_its_state() {
        let folder = tempfile::tempdir().unwrap();
        let place = ToolsPlace {
            root: folder.path().display().to_string(),
            ..ToolsPlace::default()
        };
        std::fs::write(place.state_file(), "{\"a\": 1}").unwrap();
        let commands = ["printf '{\"b\": \"%s\"}' \"$x\"; echo noise >&2".to_owned()];
        for set in ["", "set -x", "set -v", "set -xv"] {
            let text = command(&place, &commands);
            let text = format!("exec 2>&1\nx=y\n{set}\n(exit 7)\n{text}\necho \"status $?\"");
            let output = std::process::Command::new("bash")
                .args(["-c", &text])
                .env("MSWEA_TOOLS", "1")
                .output()
                .unwrap();
            let output = String::from_utf8(output.stdout).unwrap();
            assert!(output.trim_end().ends_with("status 7"), "{output}");
            let state = read(&output, 1).unwrap_or_else(|why| panic!("{set}: {why}: {output}"));
            assert_eq!(Value::Object(state), json!({"a": 1, "b": "y"}), "{set}");
        }
    }
}
