//! Commands that are longer than an argument of a process may be: a shell reads them from a
//! descriptor that it is given.

/// How long an argument may be, with the null byte at its end: 32 pages of 4 KiB.
pub const LONGEST_ARGUMENT: usize = 128 * 1024;

/// The descriptor with the command. On 3, sandboxes read what is for them.
pub const DESCRIPTOR: i32 = 4;

/// The command that a shell gets instead.
pub const SOURCE: &str = ". /proc/self/fd/4";

/// What goes before the command in the file: nothing that it starts is to inherit the descriptor.
const CLOSE: &[u8] = b"exec 4<&-; ";

/// The shells that do so.
const SHELLS: &[&[u8]] = &[
    b"sh", b"bash", b"dash", b"ash", b"zsh", b"ksh", b"mksh", b"yash",
];
/// What may stand before one.
const LAUNCHERS: &[&[u8]] = &[b"busybox", b"env"];

/// Whether a command of this length has to be handed over so.
pub fn is_long(command: &[u8]) -> bool {
    command.len() >= LONGEST_ARGUMENT
}

/// Whether `interpreter`, to which a command would be appended, is a shell that reads it from a
/// descriptor as well: `bash -lc`, `busybox sh -c`.
pub fn takes_file<T: AsRef<[u8]>>(interpreter: &[T]) -> bool {
    let name = |word: &T| {
        let name = word.as_ref().rsplit(|byte| *byte == b'/').next();
        name.unwrap_or_default().to_vec()
    };
    let is_option = |word: &T| word.as_ref().starts_with(b"-");
    let Some(at) = interpreter
        .iter()
        .position(|word| SHELLS.contains(&name(word).as_slice()))
    else {
        return false;
    };
    let (before, rest) = (&interpreter[..at], &interpreter[at + 1..]);
    before
        .iter()
        .all(|word| LAUNCHERS.contains(&name(word).as_slice()))
        && rest.iter().all(is_option)
        && rest
            .last()
            .is_some_and(|last| !last.as_ref().starts_with(b"--") && last.as_ref().ends_with(b"c"))
}

/// What the file holds.
pub fn file(command: &[u8]) -> Vec<u8> {
    [CLOSE, command].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_are_known() {
        for (interpreter, wanted) in [
            (&["bash", "-c"][..], true),
            (&["/bin/sh", "-c"], true),
            (&["bash", "-l", "-c"], true),
            (&["bash", "-lc"], true),
            (&["busybox", "sh", "-c"], true),
            (&["/usr/bin/env", "bash", "-c"], true),
            (&["bash"], false),
            (&["bash", "--norc"], false),
            (&["python3", "-c"], false),
            // It closes what it does not know.
            (&["sudo", "bash", "-c"], false),
            (&["bash", "script", "-c"], false),
            (&[], false),
        ] {
            assert_eq!(takes_file(interpreter), wanted, "{interpreter:?}");
        }
    }
}
