//! Shortens text for users: the first and the last of many lines, the beginning of long lines,
//! always with the amount that is left out.

/// How much of a text is shown.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Lines from the beginning.
    pub head: usize,
    /// Lines from the end.
    pub tail: usize,
    /// Characters of one line.
    pub width: usize,
}

impl Size {
    /// All lines.
    pub const ALL: Self = Self {
        head: usize::MAX,
        tail: 0,
        width: usize::MAX,
    };

    /// The lines of a command's output, for a number of `-v` flags.
    pub fn of_output(verbose: u8) -> Self {
        match verbose {
            0 => Self {
                head: 10,
                tail: 10,
                width: 300,
            },
            1 => Self {
                head: 50,
                tail: 50,
                width: 1000,
            },
            _ => Self::ALL,
        }
    }

    /// The lines of a command, for a number of `-v` flags: more than of an output, because users
    /// should see what runs on their machine.
    pub fn of_command(verbose: u8) -> Self {
        match verbose {
            0 => Self {
                head: 30,
                tail: 10,
                width: 1000,
            },
            _ => Self::ALL,
        }
    }
}

/// The lines to show. Lines that are left out are replaced by one line; if only one line would be
/// left out, it is shown.
pub fn shorten(text: &str, size: Size) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let room = size.head.saturating_add(size.tail).saturating_add(1);
    if lines.len() <= room {
        return lines
            .into_iter()
            .map(|line| cut(line, size.width))
            .collect();
    }
    let left_out = lines.len() - size.head - size.tail;
    let mut shown: Vec<String> = lines[..size.head]
        .iter()
        .map(|line| cut(line, size.width))
        .collect();
    shown.push(format!("... {left_out} lines left out ..."));
    shown.extend(
        lines[lines.len() - size.tail..]
            .iter()
            .map(|line| cut(line, size.width)),
    );
    shown
}

/// The beginning of a line, with a mark where it is cut.
pub fn cut_to(line: &str, width: usize) -> String {
    match line.char_indices().nth(width) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}...", &line[..end]),
    }
}

fn cut(line: &str, width: usize) -> String {
    match line.char_indices().nth(width) {
        None => line.to_owned(),
        Some((end, _)) => {
            let more = line[end..].chars().count();
            format!("{}... ({more} more characters)", &line[..end])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        let size = Size {
            head: 2,
            tail: 1,
            width: 5,
        };
        let vectors: [(&str, &[&str]); 7] = [
            ("", &[]),
            ("a\n", &["a"]),
            ("a\n\nb", &["a", "", "b"]),
            ("1\n2\n3\n4\n", &["1", "2", "3", "4"]),
            (
                "1\n2\n3\n4\n5",
                &["1", "2", "... 2 lines left out ...", "5"],
            ),
            ("12345", &["12345"]),
            ("größe 7", &["größe... (2 more characters)"]),
        ];
        for (text, expected) in vectors {
            assert_eq!(shorten(text, size), expected, "{text:?}");
        }
        let long = "x\n".repeat(1000);
        assert_eq!(shorten(&long, Size::ALL).len(), 1000);
        assert_eq!(shorten(&long, size)[2], "... 997 lines left out ...");
    }
}
