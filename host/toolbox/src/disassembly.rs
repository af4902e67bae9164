//! `disassemble` and `decompile`: functions of a program, by radare2.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::answer::{Readable, ToolRefusal, ToolResult};
use crate::call::{ToolInput, os};

const RADARE: &str = "r2";

/// The names to look for, in this order, if `main` is asked for.
const ENTRIES: &[&str] = &["main", "_start", "invoke_main", "entry", "entry0"];

/// The prefixes that radare2 puts before names of symbols.
const PREFIXES: &[&str] = &["", "sym.", "dbg.", "sym._", "sym.imp.", "loc."];

/// The largest number of function names that a refusal lists.
const LISTED: usize = 200;

/// A function of a program.
struct CodeFunction {
    name: String,
    address: u64,
}

/// `disassemble BINARY [--function_name NAME]`
pub fn disassemble(input: &ToolInput) -> ToolResult {
    show(input, "disassemble", &["pdf"])
}

/// `decompile BINARY [--function_name NAME]`: by the decompilers that radare2 has as plugins, else by its own.
pub fn decompile(input: &ToolInput) -> ToolResult {
    show(input, "decompile", &["pdg", "pdd", "pdc"])
}

fn show(input: &ToolInput, tool: &str, commands: &[&str]) -> ToolResult {
    let words = input.bytes();
    let (binary, wanted) = match words[..] {
        [binary] => (binary, "main".to_owned()),
        [binary, b"--function_name", name] => (binary, Readable(name).to_string()),
        [b"--function_name", name, binary] => (binary, Readable(name).to_string()),
        _ => {
            let usage = format!("Usage: {tool} <binary_path> [--function_name <function_name>]");
            return Err(ToolRefusal::new(2, usage));
        }
    };
    let path = std::fs::canonicalize(os(binary)).ok();
    let Some(path) = path.filter(|path| path.is_file()) else {
        let text = format!("Error: {} is no file.", Readable(binary));
        return Err(ToolRefusal::one(text));
    };
    let functions = functions(&path)?;
    let Some(found) = found(&functions, &wanted) else {
        let names = functions.iter().map(|it| it.name.as_str()).take(LISTED);
        let names: Vec<&str> = names.collect();
        return Err(ToolRefusal::one(format!(
            "Error: {} has no function {wanted}. The functions are: {}",
            Readable(binary),
            names.join(", ")
        )));
    };
    for command in commands {
        let script = format!("aaa;s {};{command}", found.address);
        let text = radare(&path, &script)?;
        let text = text.trim_matches('\n');
        if text.trim().is_empty() || is_unknown(text) {
            continue;
        }
        let title = match found.name == wanted {
            true => String::new(),
            false => format!("The function {wanted} is {} here.\n", found.name),
        };
        return Ok(format!("{title}{text}").into_bytes());
    }
    Err(ToolRefusal::one(format!(
        "Error: radare2 shows nothing of the function {} of {}.",
        found.name,
        Readable(binary)
    )))
}

/// Whether radare2 reports an unknown command, because the decompiler is not installed.
fn is_unknown(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default().to_lowercase();
    ["unknown command", "install", "cannot find", "usage: pd"]
        .iter()
        .any(|part| first.contains(part))
}

fn functions(path: &Path) -> Result<Vec<CodeFunction>, ToolRefusal> {
    let text = radare(path, "aaa;aflj")?;
    let list = text.lines().rev().find(|line| line.starts_with('['));
    let list: Value = list
        .and_then(|line| serde_json::from_str(line).ok())
        .unwrap_or_default();
    let functions = list.as_array().into_iter().flatten().filter_map(|entry| {
        // Later versions call the address `addr`.
        let address = entry["offset"].as_u64().or_else(|| entry["addr"].as_u64());
        Some(CodeFunction {
            name: entry["name"].as_str()?.to_owned(),
            address: address?,
        })
    });
    let functions: Vec<CodeFunction> = functions.collect();
    match functions.is_empty() {
        true => Err(ToolRefusal::one(format!(
            "Error: radare2 finds no functions in {}.",
            path.display()
        ))),
        false => Ok(functions),
    }
}

/// The function of this name. `main` may have another name in the program, and `fcn.ADDRESS` is an
/// address.
fn found<'f>(functions: &'f [CodeFunction], wanted: &str) -> Option<&'f CodeFunction> {
    let named = |name: &str| {
        PREFIXES.iter().find_map(|prefix| {
            let is_it = |it: &&CodeFunction| it.name.strip_prefix(prefix) == Some(name);
            functions.iter().find(is_it)
        })
    };
    let names: &[&str] = match wanted {
        "main" => ENTRIES,
        _ => &[wanted],
    };
    names.iter().find_map(|name| named(name)).or_else(|| {
        let digits = wanted
            .strip_prefix("fcn.")
            .or_else(|| wanted.strip_prefix("0x"))?;
        let address = u64::from_str_radix(digits, 16).ok()?;
        functions.iter().find(|it| it.address == address)
    })
}

/// The output of radare2.
fn radare(path: &Path, script: &str) -> Result<String, ToolRefusal> {
    let Some(program) = program() else {
        return Err(ToolRefusal::one(
            "Error: radare2 (`r2`) is not installed here, which this tool needs.",
        ));
    };
    let mut command = Command::new(program);
    // Without the user's settings and without colours.
    command.args([
        "-N",
        "-2",
        "-q",
        "-e",
        "scr.color=0",
        "-e",
        "scr.utf8=false",
    ]);
    command.args(["-c", script]).arg(path);
    let output = command.stdin(Stdio::null()).output();
    let output = output
        .map_err(|error| ToolRefusal::one(format!("Error: radare2 can't be started ({error}).")))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = [RADARE, "radare2"].map(OsStr::new);
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::{CodeFunction, found};

    #[test]
    fn functions_are_found_by_names_and_addresses() {
        let of = |names: &[&str]| -> Vec<CodeFunction> {
            let functions = names.iter().enumerate();
            let functions = functions.map(|(index, name)| CodeFunction {
                name: (*name).to_owned(),
                address: 0x400 + index as u64,
            });
            functions.collect()
        };
        for (names, wanted, expected) in [
            (&["entry0", "main", "sym.check"][..], "main", Some("main")),
            (&["entry0", "sym.check"], "main", Some("entry0")),
            (&["entry0", "sym._start"], "main", Some("sym._start")),
            (&["main", "sym.check"], "check", Some("sym.check")),
            (&["main", "sym.check"], "sym.check", Some("sym.check")),
            (&["main", "sym.check"], "fcn.00000401", Some("sym.check")),
            (&["main", "sym.check"], "0x401", Some("sym.check")),
            (&["main"], "fcn.0999", None),
            (&["main"], "other", None),
            (&["sym.check"], "main", None),
        ] {
            let functions = of(names);
            let name = found(&functions, wanted).map(|it| it.name.as_str());
            assert_eq!(name, expected, "{names:?} {wanted}");
        }
    }
}
