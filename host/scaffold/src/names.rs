//! The rules for a plugin's name, and its forms for places where dashes are not allowed.

use crate::error::Error;

const LONGEST: usize = 64;

/// Reserved words of the languages, and names that a project uses itself.
const TAKEN: &[&str] = &[
    "abstract",
    "alloc",
    "and",
    "as",
    "assert",
    "async",
    "auto",
    "await",
    "become",
    "bool",
    "box",
    "break",
    "build",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "continue",
    "core",
    "crate",
    "debugger",
    "def",
    "default",
    "del",
    "delete",
    "do",
    "double",
    "dyn",
    "elif",
    "else",
    "enum",
    "except",
    "export",
    "extends",
    "extern",
    "false",
    "final",
    "finally",
    "float",
    "fn",
    "for",
    "from",
    "function",
    "gen",
    "global",
    "goto",
    "if",
    "impl",
    "import",
    "in",
    "inline",
    "instanceof",
    "int",
    "interface",
    "is",
    "json",
    "lambda",
    "let",
    "long",
    "loop",
    "macro",
    "main",
    "match",
    "mod",
    "move",
    "mswea_sdk",
    "mut",
    "new",
    "nonlocal",
    "not",
    "null",
    "or",
    "override",
    "package",
    "pass",
    "priv",
    "pub",
    "raise",
    "ref",
    "register",
    "restrict",
    "return",
    "self",
    "serde",
    "serde_json",
    "short",
    "signed",
    "sizeof",
    "static",
    "std",
    "str",
    "struct",
    "super",
    "switch",
    "test",
    "this",
    "throw",
    "trait",
    "true",
    "try",
    "type",
    "typedef",
    "typeof",
    "union",
    "unsafe",
    "unsigned",
    "use",
    "var",
    "virtual",
    "void",
    "volatile",
    "where",
    "while",
    "wit_bindgen",
    "wit_world",
    "with",
    "yield",
];

/// Checks a plugin's name.
pub(crate) fn check(name: &str) -> Result<(), Error> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > LONGEST {
        "it is longer than 64 characters"
    } else if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        "it has to begin with a letter from `a` to `z`"
    } else if name.contains(|other: char| {
        !(other.is_ascii_lowercase() || other.is_ascii_digit() || other == '-' || other == '_')
    }) {
        "it may have only `a` to `z`, digits, `-` and `_`"
    } else if TAKEN.binary_search(&&*snake(name)).is_ok() {
        "the language or the SDK already uses this word"
    } else {
        return Ok(());
    };
    Err(Error::Name {
        name: name.to_owned(),
        why,
    })
}

/// `my-parser` as `my_parser`.
pub(crate) fn snake(name: &str) -> String {
    name.replace('-', "_")
}

/// `my-parser` as `MyParser`.
pub(crate) fn pascal(name: &str) -> String {
    name.split(['-', '_'])
        .flat_map(|word| {
            let mut letters = word.chars();
            let first = letters.next().map(|first| first.to_ascii_uppercase());
            first.into_iter().chain(letters)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        let long = "a".repeat(65);
        for (name, why) in [
            ("", "empty"),
            (&*long, "longer"),
            ("1st", "begin"),
            ("-x", "begin"),
            ("Hello", "begin"),
            ("heLLo", "only"),
            ("a b", "only"),
            ("a/b", "only"),
            ("a.b", "only"),
            ("../a", "begin"),
            ("caf\u{e9}", "only"),
            ("fn", "already"),
            ("lambda", "already"),
            ("mswea-sdk", "already"),
        ] {
            let error = check(name).expect_err(name).to_string();
            assert!(error.contains(why), "{name:?}: {error}");
        }
        for name in ["a", "my-parser", "my_parser", "p2", "a-", &"a".repeat(64)] {
            check(name).expect(name);
        }
    }

    #[test]
    fn the_list_is_sorted() {
        assert!(TAKEN.is_sorted());
    }

    #[test]
    fn names_are_written_in_other_ways() {
        for (name, in_snake, in_pascal) in [
            ("a", "a", "A"),
            ("my-parser", "my_parser", "MyParser"),
            ("my_parser2-x", "my_parser2_x", "MyParser2X"),
            ("a--b-", "a__b_", "AB"),
        ] {
            assert_eq!((&*snake(name), &*pascal(name)), (in_snake, in_pascal));
        }
    }
}
