//! `_read_env` and `_write_env`: values of the registry for scripts.

use crate::answer::{ToolRefusal, ToolResult};
use crate::call::ToolInput;
use crate::registry::{ObjectFile, Values, plain};

/// `_read_env NAME [DEFAULT]`: prints a value of the registry or the environment.
pub fn read(input: &ToolInput) -> ToolResult {
    let (name, default) = match input.words() {
        [name] => (name, String::new()),
        [name, default] => (name, default.to_string_lossy().into_owned()),
        _ => return Err(ToolRefusal::one("Usage: _read_env <name> [<default>]")),
    };
    let value = Values::read()?.get(&name.to_string_lossy());
    Ok(value.as_ref().map_or(default, plain).into_bytes())
}

/// `_write_env NAME [VALUE]`: sets a value of the registry.
pub fn write(input: &ToolInput) -> ToolResult {
    let (name, value) = match input.words() {
        [name] => (name, String::new()),
        [name, value] => (name, value.to_string_lossy().into_owned()),
        _ => return Err(ToolRefusal::one("Usage: _write_env <name> [<value>]")),
    };
    ObjectFile::registry().change(|values| {
        values.insert(name.to_string_lossy().into_owned(), value.into());
    })?;
    Ok(Vec::new())
}
