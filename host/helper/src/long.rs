//! Commands that are longer than a process's argument may be: the shell reads them from an
//! inherited descriptor.

/// The length of the longest argument, including the null byte at its end: 32 pages of 4 KiB.
pub const LONGEST_ARGUMENT: usize = 128 * 1024;

/// The descriptor with the command. Descriptor 3 is used for the options of sandboxes.
pub const DESCRIPTOR: i32 = 4;

/// The command that the shell gets instead.
pub const SOURCE: &str = ". /proc/self/fd/4";

/// Written before the command in the file, so that the processes it starts do not inherit the
/// descriptor.
const CLOSE: &[u8] = b"exec 4<&-; ";

/// Shells that can read a command this way.
const SHELLS: &[&[u8]] = &[
    b"sh", b"bash", b"dash", b"ash", b"zsh", b"ksh", b"mksh", b"yash",
];
/// Programs that may precede the shell.
const LAUNCHERS: &[&[u8]] = &[b"busybox", b"env"];

/// Whether a command of this length has to be passed in a file.
pub fn is_long(command: &[u8]) -> bool {
    command.len() >= LONGEST_ARGUMENT
}

/// Whether `interpreter`, to which a command would be appended, is a shell that can read it from a
/// descriptor instead: `bash -lc`, `busybox sh -c`.
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

/// The content of the file.
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
            // `sudo` closes other descriptors.
            (&["sudo", "bash", "-c"], false),
            (&["bash", "script", "-c"], false),
            (&[], false),
        ] {
            assert_eq!(takes_file(interpreter), wanted, "{interpreter:?}");
        }
    }
}
