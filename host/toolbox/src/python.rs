//! Python by tree-sitter's grammar: finds the bodies of functions for an overview, and syntax
//! errors for images without Python.

use tree_sitter::{Node, Parser, Point, Tree};

use crate::problems::LintProblem;

fn parse(source: &[u8]) -> Option<Tree> {
    let mut parser = Parser::new();
    parser
        .set_language(&tree_sitter_python::LANGUAGE.into())
        .ok()?;
    parser.parse(source, None)
}

/// Calls `visit` with every node, from the root on; `visit` returns whether the children are
/// visited, too. Not recursive, because files may be nested arbitrarily deeply.
fn walk<'tree>(tree: &'tree Tree, mut visit: impl FnMut(Node<'tree>) -> bool) {
    let mut cursor = tree.walk();
    loop {
        if visit(cursor.node()) && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
        }
    }
}

/// The first and the last line of the body of each function, counted from 0. Empty if the file
/// can't be parsed.
pub fn bodies(source: &[u8]) -> Vec<(usize, usize)> {
    let Some(tree) = parse(source) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    walk(&tree, |node| {
        if node.kind() == "function_definition"
            && let Some(body) = node.child_by_field_name("body")
        {
            found.push((body.start_position().row, body.end_position().row));
        }
        true
    });
    found
}

/// The first syntax error.
pub fn problems(source: &[u8]) -> Vec<LintProblem> {
    let Some(tree) = parse(source) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    walk(&tree, |node| {
        if node.is_missing() {
            found.push((
                node.start_position(),
                format!("`{}` is missing", node.kind()),
            ));
        } else if node.is_error() {
            found.push((node.start_position(), "invalid syntax".to_owned()));
            // The node was not understood, so its children are skipped.
            return false;
        } else if matches!(node.kind(), "module" | "block") {
            found.extend(indentation(&tree, node));
        }
        true
    });
    found.sort();
    let first = found.into_iter().next().map(|(place, text)| LintProblem {
        line: place.row + 1,
        column: place.column + 1,
        text: format!("E999 SyntaxError: {text}"),
    });
    first.into_iter().collect()
}

/// Checks what the grammar does not: that a block has statements, and that they begin in the same
/// column.
fn indentation(tree: &Tree, block: Node) -> Option<(Point, String)> {
    let mut cursor = tree.walk();
    cursor.reset(block);
    let mut column = (block.kind() == "module").then_some(0);
    let (mut end, mut statements) = (None, 0);
    let mut more = cursor.goto_first_child();
    while more {
        let node = cursor.node();
        if node.is_named() && node.kind() != "comment" {
            let place = node.start_position();
            statements += 1;
            let own_line = end != Some(place.row);
            if own_line && place.column != *column.get_or_insert(place.column) {
                return Some((place, "unexpected indentation".to_owned()));
            }
            end = Some(node.end_position().row);
        }
        more = cursor.goto_next_sibling();
    }
    let empty = block.kind() == "block" && statements == 0;
    empty.then(|| {
        (
            block.start_position(),
            "expected an indented block".to_owned(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{bodies, problems};

    #[test]
    fn what_is_broken_is_found() {
        for (source, line) in [
            ("def f(:\n    pass\n", 1),
            ("x = 1\ny = (2\n", 2),
            ("x = [1, 2\nprint(x)\n", 1),
            ("def f():\nx = 1\n", 1),
            ("x = 1\n    y = 2\n", 2),
            ("if a:\n    b = 1\n  c = 2\n", 3),
            ("a = 1\nif a\n    b = 2\n", 2),
        ] {
            let found = problems(source.as_bytes());
            assert!(
                found.first().is_some_and(|found| found.line >= line),
                "{source:?}: {found:?}"
            );
        }
        for source in [
            "",
            "# a\n  # b\nif a: b; c\nelse:\n  # c\n  d = (1,\n2); e\n\n  f\n",
            "class A:\n\t'text'\n\tx = 1\n\n\t@d\n\tdef f(self): ...\n",
            "match x:\n    case [1, *_]:\n        pass\n",
            "type A[T] = list[T]\n",
            "try:\n    pass\nexcept* ValueError:\n    pass\n",
            "print(f'{x!r:>{w}} {y=}')\n",
            "async def f[T](a, /, *, b: int = 1) -> T:\n    return (yield a)\n",
            "if (n := 1) > 0: pass\n",
        ] {
            assert_eq!(problems(source.as_bytes()), [], "{source:?}");
        }
    }

    #[test]
    fn bodies_are_found() {
        let source = "class A:\n    def f(self):\n        a = 1\n        return a\n\nasync def g():\n    def h(): pass\n";
        assert_eq!(bodies(source.as_bytes()), [(2, 3), (6, 6), (6, 6)]);
        // Arbitrarily deep nesting.
        let deep = "(".repeat(200_000);
        assert!(bodies(deep.as_bytes()).is_empty());
    }
}
