//! The files that a patch has modified, with the lines around its changes: SWE-agent's
//! `edited_files30`, `edited_files50` and `edited_files70`, for the templates of reviewers and
//! choosers.

use serde_json::Value;

use crate::place::{ToolsPlace, quoted};
use mswea_core::Object;

/// The numbers of lines that are shown around each change, one text for each number.
const CONTEXTS: [usize; 3] = [30, 50, 70];

/// The limits of the bytes of a file and of the number of files that are read.
const LARGEST: usize = 1 << 20;
const MOST: usize = 100;

/// The separator of the files in the output: the character "record separator".
const SEPARATOR: char = '\u{1e}';

/// A file that a patch has modified, and not created or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedFile {
    path: String,
    /// The changed ranges of lines: the first line, and the line after the last one, from 1.
    places: Vec<(usize, usize)>,
}

/// The files that a patch in git's format has modified.
pub fn edited(patch: &str) -> Vec<EditedFile> {
    let mut files: Vec<EditedFile> = Vec::new();
    let mut before = None;
    // The lines of the current hunk that are still to come, in the old file and in the new one.
    let (mut old_left, mut new_left) = (0_usize, 0_usize);
    for line in patch.split('\n') {
        if old_left + new_left > 0 {
            let (of_old, of_new) = match line.chars().next() {
                Some('-') => (1, 0),
                Some('+') => (0, 1),
                Some('\\') => (0, 0),
                _ => (1, 1),
            };
            old_left = old_left.saturating_sub(of_old);
            new_left = new_left.saturating_sub(of_new);
        } else if let Some(name) = line.strip_prefix("--- ") {
            before = Some(name);
        } else if let Some(name) = line.strip_prefix("+++ ") {
            let path = name_of(name, "b/");
            // The hunks of a file without a usable name are skipped.
            let is_modified = before.take().is_some_and(|it| it != "/dev/null");
            files.push(EditedFile {
                path: path.filter(|_| is_modified).unwrap_or_default(),
                places: Vec::new(),
            });
        } else if line.starts_with("diff ") {
            before = None;
        } else if let Some(((old, old_count), (new, new_count))) = hunk(line) {
            (old_left, new_left) = (old_count, new_count);
            if let Some(file) = files.last_mut() {
                // An empty file before or after the patch was created or deleted.
                match (old, old_count, new, new_count) {
                    (0, 0, _, _) | (_, _, 0, 0) => file.path.clear(),
                    _ => file.places.push((new, new.saturating_add(new_count))),
                }
            }
        }
    }
    files.retain(|file| !file.path.is_empty() && !file.places.is_empty());
    files.truncate(MOST);
    files
}

/// The ranges of `@@ -1,2 +3,4 @@`: first lines and counts.
fn hunk(line: &str) -> Option<((usize, usize), (usize, usize))> {
    let (places, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = places.split_once(" +")?;
    let place = |text: &str| match text.split_once(',') {
        Some((first, count)) => Some((first.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    };
    Some((place(old)?, place(new)?))
}

/// The path in a line of a patch's header, without its prefix. git quotes unusual paths as in C.
fn name_of(name: &str, prefix: &str) -> Option<String> {
    // git puts a tab after a path with blanks.
    let name = name.trim_end_matches('\t');
    let quoted = name.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    let path = match quoted {
        None => name.to_owned(),
        Some(text) => unquoted(text)?,
    };
    path.strip_prefix(prefix).map(str::to_owned)
}

fn unquoted(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match (byte, byte == b'\\') {
            (byte, false) => byte,
            (_, true) => match rest.next()? {
                b'a' => 7,
                b'b' => 8,
                b't' => b'\t',
                b'n' => b'\n',
                b'v' => 11,
                b'f' => 12,
                b'r' => b'\r',
                digit @ b'0'..=b'3' => {
                    let mut digits = [digit, rest.next()?, rest.next()?].into_iter();
                    digits.try_fold(0_u8, |sum, it| match it {
                        b'0'..=b'7' => sum.checked_mul(8)?.checked_add(it - b'0'),
                        _ => None,
                    })?
                }
                other => other,
            },
        });
    }
    String::from_utf8(bytes).ok()
}

/// Shell text that prints the files, from the folder in which the run began.
pub fn reading(place: &ToolsPlace, files: &[EditedFile]) -> String {
    let names: Vec<String> = files.iter().map(|file| quoted(&file.path)).collect();
    let script = format!(
        ". {} >/dev/null 2>&1\ncd -- \"$ROOT\" || exit\n\
         cd -- \"$(git -c safe.directory='*' rev-parse --show-toplevel 2>/dev/null || pwd)\" || exit\n\
         for file in {}; do printf '\\036'; [ ! -f \"$file\" ] || head -c {LARGEST} <\"$file\"; done\nprintf '\\036'",
        quoted(&place.shell_file()),
        names.join(" ")
    );
    format!("bash -c {} 2>/dev/null", quoted(&script))
}

/// The texts, by their keys, from the output of [`reading`]; none if that is incomplete.
pub fn texts(files: &[EditedFile], printed: &str) -> Option<Object> {
    let parts: Vec<&str> = printed.split(SEPARATOR).collect();
    let [_, contents @ .., _] = parts.get(..)? else {
        return None;
    };
    if contents.len() != files.len() {
        return None;
    }
    let text = |context: usize| {
        let shown = files.iter().zip(contents).map(|(file, content)| {
            let windows = windows(&file.places, content, context);
            format!("[File: {}]\n{windows}", file.path)
        });
        shown.collect::<Vec<_>>().join("\n\n")
    };
    let texts = CONTEXTS.map(|context| {
        let key = format!("edited_files{context}");
        (key, Value::from(text(context)))
    });
    Some(texts.into_iter().collect())
}

/// The lines of a file around these ranges.
fn windows(places: &[(usize, usize)], content: &str, context: usize) -> String {
    let lines: Vec<&str> = content.lines().collect();
    let mut wide: Vec<(usize, usize)> = places
        .iter()
        .map(|(first, end)| (first.saturating_sub(context).max(1), end + context))
        .collect();
    wide.sort_unstable();
    let mut shown: Vec<(usize, usize)> = Vec::new();
    for (first, end) in wide {
        match shown.last_mut() {
            Some(last) if last.1 >= first => last.1 = last.1.max(end),
            _ => shown.push((first, end)),
        }
    }
    let mut parts = Vec::new();
    let mut next = 1;
    for (first, end) in shown {
        match first - next {
            0 => {}
            omitted if next == 1 => parts.push(format!("[{omitted} lines above omitted]")),
            omitted => parts.push(format!("\n[{omitted} lines omitted]\n")),
        }
        let numbered = lines.iter().enumerate().skip(first - 1).take(end - first);
        let numbered = numbered.map(|(index, line)| format!("{:6}: {line}", index + 1));
        parts.push(numbered.collect::<Vec<_>>().join("\n"));
        next = end;
    }
    if next <= lines.len() {
        parts.push(format!("[{} lines below omitted]", lines.len() - next + 1));
    }
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/new.py b/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x\n\
        diff --git a/gone.py b/gone.py\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
        diff --git a/empty b/empty\n--- a/empty\n+++ b/empty\n@@ -0,0 +1,2 @@\n+x\n+y\n\
        diff --git a/a b.py b/a b.py\n--- a/a b.py\t\n+++ b/a b.py\t\n@@ -5,2 +5,3 @@ def f():\n x\n--- a/fake.py\n+++ b/fake.py\n+@@ -1 +1 @@\n\
        @@ -20 +21 @@\n-old\n+new\n\\ No newline at end of file\n\
        diff --git \"a/\\303\\251\\\"\" \"b/\\303\\251\\\"\"\n--- \"a/\\303\\251\\\"\"\t\n+++ \"b/\\303\\251\\\"\"\t\n@@ -1 +1 @@\n-a\n+b\n\
        diff --git a/i.png b/i.png\nBinary files a/i.png and b/i.png differ\n\
        diff --git a/x.py b/y.py\nsimilarity index 90%\nrename from x.py\nrename to y.py\n--- a/x.py\n+++ b/y.py\n@@ -2 +2 @@\n-a\n+b\n";

    #[test]
    fn modified_files_of_a_patch() {
        let found: Vec<(String, Vec<(usize, usize)>)> = edited(PATCH)
            .into_iter()
            .map(|file| (file.path, file.places))
            .collect();
        let expected = [
            ("a b.py", vec![(5, 8), (21, 22)]),
            ("é\"", vec![(1, 2)]),
            ("y.py", vec![(2, 3)]),
        ];
        let expected = expected.map(|(path, places)| (path.to_owned(), places));
        assert_eq!(found, expected);
        for nothing in [
            "",
            "no patch",
            "@@ -1 +1 @@\n-a\n+b\n",
            "--- x\n+++ y\n@@ -1 +1 @@\n-a\n+b",
        ] {
            assert_eq!(edited(nothing), [], "{nothing}");
        }
    }

    #[test]
    fn windows_of_a_file() {
        let file = |count: usize| {
            (1..=count)
                .map(|line| format!("l{line}\n"))
                .collect::<String>()
        };
        for (places, count, context, expected) in [
            // SWE-agent counts 4 lines below.
            (
                &[(4, 6)][..],
                11,
                1,
                "[2 lines above omitted]\n     3: l3\n     4: l4\n     5: l5\n     6: l6\n[5 lines below omitted]",
            ),
            (
                &[(1, 2)],
                3,
                1,
                "     1: l1\n     2: l2\n[1 lines below omitted]",
            ),
            (&[(1, 2)], 3, 30, "     1: l1\n     2: l2\n     3: l3"),
            (
                &[(1, 2), (6, 7)],
                7,
                1,
                "     1: l1\n     2: l2\n\n[2 lines omitted]\n\n     5: l5\n     6: l6\n     7: l7",
            ),
            (
                &[(1, 2), (4, 5)],
                5,
                1,
                "     1: l1\n     2: l2\n     3: l3\n     4: l4\n     5: l5",
            ),
            // A file that has become shorter.
            (&[(90, 95)], 2, 1, "[88 lines above omitted]\n"),
            (&[(1, 2)], 0, 1, ""),
        ] {
            assert_eq!(
                windows(places, &file(count), context),
                expected,
                "{places:?}"
            );
        }
    }

    #[test]
    fn texts_of_what_was_printed() {
        let files = edited(
            "--- a/x\n+++ b/x\n@@ -2 +2 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
        );
        let made = |printed: &str| texts(&files, printed);
        let all = made("\u{1e}a\nb\n\u{1e}b\n\u{1e}").unwrap();
        let expected = "[File: x]\n     1: a\n     2: b\n\n[File: y]\n     1: b";
        for context in CONTEXTS {
            assert_eq!(all[&format!("edited_files{context}")], expected);
        }
        for cut in ["", "\u{1e}a\n\u{1e}", "\u{1e}a\u{1e}b\u{1e}c\u{1e}"] {
            assert_eq!(made(cut), None, "{cut:?}");
        }
    }
}
