//! The task: given as text, or read from stdin.

use std::io::Read;

/// Why there is no task.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// No task was given.
    #[error("no task given: pass it with `-t TEXT`, or with `-t -` and the text on stdin")]
    Missing,
    /// The text is blank.
    #[error("the task given by {source_name} is empty: describe what the model should do")]
    Empty {
        /// `--task` or `stdin`.
        source_name: &'static str,
    },
    /// Stdin does not hold text.
    #[error("the task on stdin is not UTF-8 (byte {offset} is not): convert it, or pass `-t TEXT`")]
    NotText {
        /// Index of the first bad byte.
        offset: usize,
    },
    /// Stdin can't be read.
    #[error("can't read the task from stdin: pass it with `-t TEXT` instead")]
    Stdin(#[source] std::io::Error),
}

/// The task of a run, from the command line. `stdin` is read only if the task is `-`, so that
/// nothing else waits for input.
///
/// The text is kept unchanged, except that a byte order mark, Windows line ends and the newlines at
/// its end are removed, which editors and `echo` add.
///
/// # Errors
/// [`TaskError`] if there is no task, or an empty one.
pub fn read_task(typed: Option<&str>, mut stdin: impl Read) -> Result<String, TaskError> {
    let (task, source_name) = match typed {
        None => return Err(TaskError::Missing),
        Some("-") => {
            let mut bytes = Vec::new();
            stdin.read_to_end(&mut bytes).map_err(TaskError::Stdin)?;
            let text = String::from_utf8(bytes).map_err(|error| TaskError::NotText {
                offset: error.utf8_error().valid_up_to(),
            })?;
            let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
            let text = text.replace("\r\n", "\n");
            (text.trim_end_matches('\n').to_owned(), "stdin")
        }
        Some(text) => (text.to_owned(), "`--task`"),
    };
    if task.trim().is_empty() {
        return Err(TaskError::Empty { source_name });
    }
    Ok(task)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails the test when it is read.
    struct Untouchable;

    impl Read for Untouchable {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            panic!("stdin was read")
        }
    }

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("gone"))
        }
    }

    #[test]
    fn stdin_is_read_only_for_a_dash() {
        assert_eq!(
            read_task(Some("fix it\n"), Untouchable).unwrap(),
            "fix it\n"
        );
        assert_eq!(read_task(Some("--"), Untouchable).unwrap(), "--");
        assert!(matches!(
            read_task(None, Untouchable),
            Err(TaskError::Missing)
        ));
    }

    #[test]
    fn stdin_vectors() {
        let vectors: [(&[u8], Result<&str, &str>); 7] = [
            (b"fix it", Ok("fix it")),
            (b"fix it\n", Ok("fix it")),
            (b"  two\n\nlines\n\n", Ok("  two\n\nlines")),
            (b"\xef\xbb\xbfa\r\nb\r\n", Ok("a\nb")),
            (b"", Err("the task given by stdin is empty")),
            (b" \r\n\t\n", Err("the task given by stdin is empty")),
            (b"ab\xff", Err("(byte 2 is not)")),
        ];
        for (input, expected) in vectors {
            let got = read_task(Some("-"), input).map_err(|error| error.to_string());
            match (expected, got) {
                (Ok(expected), Ok(got)) => assert_eq!(got, expected),
                (Err(part), Err(message)) => assert!(message.contains(part), "{message}"),
                (expected, got) => panic!("{input:?}: expected {expected:?}, got {got:?}"),
            }
        }
    }

    #[test]
    fn blank_and_broken() {
        let error = read_task(Some(" \n"), Untouchable).unwrap_err();
        assert!(error.to_string().contains("`--task` is empty"), "{error}");
        assert!(matches!(
            read_task(Some("-"), Broken),
            Err(TaskError::Stdin(_))
        ));
    }
}
