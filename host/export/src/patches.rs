//! The lines of patches, for colours.

/// What a line of a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchLine {
    /// It is not part of a patch, or has not changed.
    Plain,
    /// The name of a file, or the place of a change.
    Head,
    Added,
    Removed,
}

/// Whether the text is a patch from its beginning.
pub(crate) fn is_patch(text: &str) -> bool {
    let begins = ["diff --git ", "--- ", "Index: "];
    begins.iter().any(|it| text.starts_with(it)) && text.contains("\n@@ -")
}

/// The parts of a text, each of lines of one kind.
pub(crate) fn parts(text: &str) -> Vec<(PatchLine, &str)> {
    if !text.contains("@@ -") {
        return vec![(PatchLine::Plain, text)];
    }
    let mut parts = Vec::new();
    let (mut begin, mut at, mut last) = (0, 0, PatchLine::Plain);
    let mut is_in_hunk = false;
    for line in text.split_inclusive('\n') {
        let kind = kind(line, &mut is_in_hunk);
        if kind != last && at > begin {
            parts.push((last, &text[begin..at]));
            begin = at;
        }
        last = kind;
        at += line.len();
    }
    parts.push((last, &text[begin..]));
    parts
}

fn kind(line: &str, is_in_hunk: &mut bool) -> PatchLine {
    let heads = ["diff --git ", "--- ", "+++ ", "@@ -"];
    let is_head = heads.iter().any(|it| line.starts_with(it));
    match line.as_bytes().first() {
        Some(b'@') if line.starts_with("@@ -") => {
            *is_in_hunk = true;
            PatchLine::Head
        }
        Some(b'+') if *is_in_hunk => PatchLine::Added,
        Some(b'-') if *is_in_hunk => PatchLine::Removed,
        Some(b' ' | b'\\' | b'\n') if *is_in_hunk => PatchLine::Plain,
        _ => {
            *is_in_hunk = false;
            match is_head {
                true => PatchLine::Head,
                false => PatchLine::Plain,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PatchLine::{Added, Head, Plain, Removed};
    use super::*;

    #[test]
    fn lines_of_a_patch() {
        let patch = "diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n+d\nsaid\n- no";
        assert!(is_patch(patch));
        assert_eq!(
            parts(patch),
            [
                (Head, "diff --git a/x b/x\n"),
                (Plain, "index 1..2\n"),
                (Head, "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n"),
                (Plain, " a\n"),
                (Removed, "-b\n"),
                (Added, "+c\n+d\n"),
                (Plain, "said\n- no"),
            ]
        );
        for text in ["", "- a list\n+ x", "--- title"] {
            assert!(!is_patch(text));
            assert_eq!(parts(text), [(Plain, text)]);
        }
    }
}
