//! The templates that make words of a command line from the value of an argument.

/// An `argument_format`. Nearly all of these templates have one of two forms, which need no
/// template engine.
#[derive(Debug, PartialEq)]
pub struct Format {
    /// The template itself.
    pub template: String,
    /// Its form.
    pub shape: Shape,
}

/// The form of a template.
#[derive(Debug, PartialEq)]
pub enum Shape {
    /// `{{value}}` between two texts.
    Plain {
        /// The text before it.
        before: String,
        /// The text after it.
        after: String,
    },
    /// `{{value|join(' ')}}` between two texts.
    Join {
        /// The text before it.
        before: String,
        /// The text between two items.
        separator: String,
        /// The text after it.
        after: String,
    },
    /// Any other template, which the host renders.
    Template,
}

impl Format {
    /// Parses a template. With `strip_quotes`, quotes right around the value are removed, because
    /// the value has its own.
    pub fn new(template: &str, strip_quotes: bool) -> Self {
        Self {
            template: template.to_owned(),
            shape: shape(template, strip_quotes).unwrap_or(Shape::Template),
        }
    }
}

fn shape(template: &str, strip_quotes: bool) -> Option<Shape> {
    let (mut before, rest) = template.split_once("{{")?;
    let (expression, mut after) = rest.split_once("}}")?;
    let is_text = |text: &str| !text.contains(['{', '}', '\n']);
    if !is_text(before) || !is_text(after) {
        return None;
    }
    if strip_quotes {
        for mark in ['"', '\''] {
            if let (Some(first), Some(second)) =
                (before.strip_suffix(mark), after.strip_prefix(mark))
            {
                (before, after) = (first, second);
                break;
            }
        }
    }
    let (before, after) = (before.to_owned(), after.to_owned());
    let (name, filter) = match expression.split_once('|') {
        Some((name, filter)) => (name, Some(filter.trim())),
        None => (expression, None),
    };
    if name.trim() != "value" {
        return None;
    }
    let Some(filter) = filter else {
        return Some(Shape::Plain { before, after });
    };
    let inner = filter.strip_prefix("join(")?.strip_suffix(')')?.trim();
    let mark = inner.chars().next().filter(|mark| "'\"".contains(*mark))?;
    let separator = inner.strip_prefix(mark)?.strip_suffix(mark)?;
    let is_plain = !separator.contains(['\\', '\'', '"', '|']);
    is_plain.then(|| Shape::Join {
        before,
        separator: separator.to_owned(),
        after,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_formats() {
        let plain = |before: &str, after: &str| Shape::Plain {
            before: before.to_owned(),
            after: after.to_owned(),
        };
        let join = |before: &str, separator: &str, after: &str| Shape::Join {
            before: before.to_owned(),
            separator: separator.to_owned(),
            after: after.to_owned(),
        };
        for (template, expected) in [
            ("{{value}}", plain("", "")),
            ("--x {{ value }} y", plain("--x ", " y")),
            ("--x \"{{value}}\"", plain("--x ", "")),
            ("'{{value}}'", plain("", "")),
            ("'{{value}}\"", plain("'", "\"")),
            ("--r {{value|join(' ')}}", join("--r ", " ", "")),
            ("{{ value | join(\",\") }}", join("", ",", "")),
            ("{{value|join}}", Shape::Template),
            ("{{value|join('\\n')}}", Shape::Template),
            ("{{value|join('a')|upper}}", Shape::Template),
            ("{{value|upper}}", Shape::Template),
            ("{{-value}}", Shape::Template),
            ("{% if value %}{{value}}{% endif %}", Shape::Template),
            ("{{value}}{{value}}", Shape::Template),
            ("{{value}}\n", Shape::Template),
            ("{value}", Shape::Template),
            ("x", Shape::Template),
            ("{{", Shape::Template),
            ("", Shape::Template),
        ] {
            assert_eq!(Format::new(template, true).shape, expected, "{template}");
        }
        assert_eq!(Format::new("\"{{value}}\"", false).shape, plain("\"", "\""));
    }
}
