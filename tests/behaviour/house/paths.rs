//! Finds the paths in a Rust source without a parser. Comments, literals and test code are removed
//! first.

/// The attribute of test code; [`without_text`] writes `#[cfg(all(test, ...))]` so too.
pub(super) const TEST_ONLY: &str = "#[cfg(test)]";

/// A path that a module names.
pub(super) struct Use {
    pub(super) path: Vec<String>,
    /// Its name in the module, if it is imported by a `use`.
    pub(super) name: Option<String>,
    pub(super) line: usize,
}

/// The segments of a path.
pub(super) fn split(path: &str) -> Vec<String> {
    path.split("::")
        .map(str::trim)
        .filter(|segment| !segment.is_empty())
        .map(str::to_owned)
        .collect()
}

pub(super) fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The source with blanks in place of comments and literals; line breaks stay.
pub(super) fn without_text(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    let lines = |out: &mut String, from: usize, to: usize| {
        out.push(' ');
        out.extend(chars[from..to].iter().filter(|c| **c == '\n'));
    };
    while at < chars.len() {
        let rest = &chars[at..];
        let before_is_word = at > 0 && is_word(chars[at - 1]);
        let length = match rest {
            ['/', '/', ..] => rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
            ['/', '*', ..] => {
                let end = rest.windows(2).position(|pair| pair == ['*', '/']);
                end.map_or(rest.len(), |end| end + 2)
            }
            ['r', '"' | '#', ..] if !before_is_word && raw_length(rest).is_some() => {
                raw_length(rest).unwrap()
            }
            ['"', ..] => quoted_length(rest, '"'),
            ['\'', '\\', ..] => quoted_length(rest, '\''),
            ['\'', _, '\'', ..] => 3,
            _ => {
                out.push(chars[at]);
                at += 1;
                continue;
            }
        };
        lines(&mut out, at, at + length);
        at += length;
    }
    out.replace("#[cfg(all(test,", "#[cfg(test)]#[cfg(all(")
}

/// The length of the raw string that `rest` begins with.
fn raw_length(rest: &[char]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    (rest.get(1 + hashes) == Some(&'"')).then_some(())?;
    let end: Vec<char> = std::iter::once('"')
        .chain(std::iter::repeat_n('#', hashes))
        .collect();
    let body = &rest[2 + hashes..];
    let length = body.windows(end.len()).position(|part| part == end)?;
    Some(2 + hashes + length + end.len())
}

fn quoted_length(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// The source without test modules.
pub(super) fn without_tests(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find(TEST_ONLY) {
        out.push_str(&rest[..at]);
        let after = &rest[at..];
        let end = match (after.find('{'), after.find(';')) {
            (Some(open), semicolon) if semicolon.is_none_or(|semicolon| open < semicolon) => {
                block_end(after, open)
            }
            (_, Some(semicolon)) => semicolon + 1,
            _ => after.len(),
        };
        out.extend(after[..end].chars().filter(|c| *c == '\n'));
        rest = &after[end..];
    }
    out.push_str(rest);
    out
}

fn block_end(text: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, c) in text[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return open + at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}

/// All paths in a source: those of `use`, and those in code.
pub(super) fn uses(source: &str) -> Vec<Use> {
    let mut found = Vec::new();
    let mut rest = source;
    let mut line = 1;
    let mut after_word = false;
    while let Some(c) = rest.chars().next() {
        if c == '\n' {
            line += 1;
        }
        if !is_word(c) || after_word {
            after_word = is_word(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        if let Some(tree) = rest.strip_prefix("use ") {
            let (tree, after) = tree.split_once(';').unwrap_or((tree, ""));
            expand(tree.trim(), &mut Vec::new(), line, &mut found);
            line += tree.matches('\n').count();
            rest = after;
            continue;
        }
        let length = rest
            .find(|c: char| !(is_word(c) || c == ':'))
            .unwrap_or(rest.len());
        let path = &rest[..length];
        if path.contains("::") {
            found.push(Use {
                path: split(path),
                name: None,
                line,
            });
        }
        rest = &rest[length..];
    }
    found
}

/// Resolves the groups of a `use`.
fn expand(tree: &str, parents: &mut Vec<String>, line: usize, found: &mut Vec<Use>) {
    let tree = tree.trim();
    if let Some((prefix, group)) = tree.split_once('{') {
        let depth = parents.len();
        parents.extend(split(prefix));
        let group = group.strip_suffix('}').unwrap_or(group);
        let (mut nested, mut start) = (0, 0);
        for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
            match c {
                '{' => nested += 1,
                '}' => nested -= 1,
                ',' if nested == 0 => {
                    expand(&group[start..at], parents, line, found);
                    start = at + 1;
                }
                _ => {}
            }
        }
        parents.truncate(depth);
        return;
    }
    if tree.is_empty() {
        return;
    }
    let (path, renamed) = match tree.split_once(" as ") {
        Some((path, name)) => (path, Some(name.trim())),
        None => (tree, None),
    };
    let mut path = [&parents[..], &split(path)].concat();
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let name = renamed.map(str::to_owned).or_else(|| path.last().cloned());
    found.push(Use { path, name, line });
}
