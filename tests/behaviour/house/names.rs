//! Each type's name says in the whole house which type is meant: no two files of `host/*/src` define
//! the same name. Types in functions and in test code are left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::paths::{is_word, without_tests, without_text};
use super::{house_files, root};

#[test]
fn type_names_are_unique() {
    let root = root();
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in house_files() {
        let shown = file.strip_prefix(&root).unwrap();
        if !shown.starts_with("host") || !shown.iter().any(|part| part == "src") || is_test(shown) {
            continue;
        }
        for (line, name) in types(&fs::read_to_string(&file).unwrap()) {
            let place = format!("{}:{line}", shown.display());
            places.entry(name).or_default().push(place);
        }
    }
    assert!(places.len() > 500, "only {} types were found", places.len());
    places.retain(|_, places| places.len() > 1);
    assert!(
        places.is_empty(),
        "names of several types, of which all but one have to be renamed: {places:#?}"
    );
}

/// Whether the path is that of test code: a part of it is named `tests`, `testing`, `layers_tests` or
/// the like.
fn is_test(path: &Path) -> bool {
    path.with_extension("").iter().any(|part| {
        let last = part
            .to_str()
            .unwrap()
            .rsplit('_')
            .next()
            .unwrap_or_default();
        matches!(last, "test" | "tests" | "testing")
    })
}

/// The types that a source defines at its top level, with their lines.
fn types(source: &str) -> Vec<(usize, String)> {
    let code = without_tests(&without_text(source));
    let lines = code.lines().zip(1..);
    lines
        .filter_map(|(line, number)| Some((number, type_name(line)?)))
        .collect()
}

/// The name of the type whose definition begins with this line, if it is at the top level, which means
/// that it is not indented.
fn type_name(line: &str) -> Option<String> {
    let line = match line.strip_prefix("pub") {
        Some(rest) => match rest.strip_prefix('(') {
            Some(scope) => scope.split_once(") ")?.1,
            None => rest.strip_prefix(' ')?,
        },
        None => line,
    };
    let line = line.strip_prefix("unsafe ").unwrap_or(line);
    let (word, rest) = line.split_once(' ')?;
    matches!(word, "struct" | "enum" | "union" | "trait" | "type").then_some(())?;
    let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
    (!name.is_empty()).then_some(name)
}

#[test]
fn a_type_is_found_at_the_top_level_outside_of_test_code() {
    let source = r#"/// pub struct Comment;
pub(in a::b) struct A<'a> {
    type Indented = ();
}
enum B {}
pub type C = ();
#[cfg(test)]
mod tests {
struct Tested;
}
unsafe trait D {}
const TEXT: &str = "
struct Text;";
pub use x as union;
struct E(u8);
"#;
    let found = types(source);
    let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["A", "B", "C", "D", "E"]);
    assert_eq!(found[4].0, 15);
    let is_test = |path: &str| is_test(Path::new(path));
    assert!(is_test("host/a/src/tests/b.rs") && is_test("host/a/src/testing.rs"));
    assert!(is_test("host/a/src/b_tests.rs") && !is_test("host/a/src/latest.rs"));
}
