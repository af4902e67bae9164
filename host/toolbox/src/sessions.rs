//! The tools of programs that stay open: a debugger, a network connection. The host runs these
//! programs. A tool prints its requests to them in lines with a mark, and the host replaces these
//! lines by the answer.

use std::os::unix::fs::PermissionsExt as _;

use crate::answer::{Readable, TextParts, ToolRefusal, ToolResult};
use crate::call::{ToolInput, os};
use crate::submitting::mark;

const GDB: &str = "gdb";
const CONNECT: &str = "connect";

/// The line that ends a debugger or a connection client.
const QUIT: &[u8] = b"quit";

/// Prints lines for the session `name`.
fn ask(name: &str, lines: &[&[u8]]) -> ToolResult {
    let (begin, end) = (mark("ACTIVE||", "<<INTER"), mark("ACTIVE>>", "||INTER"));
    let mut text = TextParts::default();
    let session = format!("SESSION={name}");
    for line in [session.as_bytes()].iter().chain(lines) {
        if line.contains(&b'\n') {
            return Err(ToolRefusal::new(
                2,
                "Error: This must be one line, without line breaks.",
            ));
        }
        text.line([begin.as_bytes(), line, end.as_bytes()].concat());
    }
    Ok(text.finish())
}

fn usage(text: &str) -> ToolRefusal {
    ToolRefusal::new(2, format!("Usage: {text}"))
}

/// The arguments as one text; none if it is empty.
fn joined(input: &ToolInput) -> Option<Vec<u8>> {
    let text = input.bytes().join(&b' ');
    (!text.trim_ascii().is_empty()).then_some(text)
}

/// `debug_start BINARY [ARGUMENTS]`
pub fn debug_start(input: &ToolInput) -> ToolResult {
    let words = input.bytes();
    let Some((binary, arguments)) = words.split_first() else {
        return Err(usage("debug_start <binary> [<args>]"));
    };
    let refused = |what: &str| {
        let binary = Readable(binary);
        Err(ToolRefusal::one(format!("Error: {binary} {what}.")))
    };
    let Ok(path) = std::fs::canonicalize(os(binary)) else {
        return refused("does not exist");
    };
    match path.metadata() {
        Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => {}
        _ => return refused("is not an executable file"),
    }
    let arguments = arguments.join(&b' ');
    let path = path.to_string_lossy().replace('\\', "\\\\");
    let file = format!("file \"{}\"", path.replace('"', "\\\""));
    let start = [b"START ", &words.join(&b' ')[..]].concat();
    let set = [b"set args ", &arguments[..]].concat();
    let mut lines: Vec<&[u8]> = vec![&start, b"set confirm off", file.as_bytes()];
    if !arguments.is_empty() {
        lines.push(&set);
    }
    lines.push(b"starti");
    ask(GDB, &lines)
}

/// `debug_add_breakpoint PLACE`
pub fn debug_add_breakpoint(input: &ToolInput) -> ToolResult {
    let place = joined(input).ok_or_else(|| usage("debug_add_breakpoint <breakpoint>"))?;
    ask(GDB, &[&[b"break ", &place[..]].concat()])
}

/// `debug_continue`
pub fn debug_continue(_: &ToolInput) -> ToolResult {
    ask(GDB, &[b"continue"])
}

/// `debug_step [NUMBER]`
pub fn debug_step(input: &ToolInput) -> ToolResult {
    let Some(number) = joined(input) else {
        return ask(GDB, &[b"stepi"]);
    };
    let number = String::from_utf8(number).unwrap_or_default();
    match number.trim().parse::<u64>() {
        Ok(number) if number > 0 => ask(GDB, &[format!("stepi {number}").as_bytes()]),
        _ => Err(usage(
            "debug_step [<number>]\n<number> is the number of instructions, 1 or more.",
        )),
    }
}

/// `debug_exec COMMAND`
pub fn debug_exec(input: &ToolInput) -> ToolResult {
    let command = joined(input).ok_or_else(|| usage("debug_exec '<command>'"))?;
    ask(GDB, &[&command])
}

/// `debug_stop`
pub fn debug_stop(_: &ToolInput) -> ToolResult {
    ask(GDB, &[QUIT, b"STOP"])
}

/// `connect_start HOST PORT`
pub fn connect_start(input: &ToolInput) -> ToolResult {
    let words = input.bytes();
    let [host, port] = words[..] else {
        return Err(usage("connect_start <server_address> <port>"));
    };
    let start = [b"START ", host, b" ", port].concat();
    let connect = [b"connect ", host, b" ", port].concat();
    ask(CONNECT, &[&start, &connect])
}

/// `connect_sendline [LINE]`; line breaks in it are sent as such.
pub fn connect_sendline(input: &ToolInput) -> ToolResult {
    let mut line = b"sendline ".to_vec();
    for byte in input.bytes().join(&b' ') {
        match byte {
            b'\n' => line.extend(b"\\n"),
            byte => line.push(byte),
        }
    }
    ask(CONNECT, &[&line])
}

/// `connect_exec COMMAND`
pub fn connect_exec(input: &ToolInput) -> ToolResult {
    let command = joined(input).ok_or_else(|| usage("connect_exec '<command>'"))?;
    ask(CONNECT, &[&command])
}

/// `connect_stop`
pub fn connect_stop(_: &ToolInput) -> ToolResult {
    ask(CONNECT, &[QUIT, b"STOP"])
}
