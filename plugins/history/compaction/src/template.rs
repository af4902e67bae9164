//! The template of the message with the summary. The host does not render it: the run's variables
//! change from step to step, and the view must be the same whenever it is made again.

/// The default template.
pub const DEFAULT: &str = "\
The older part of this conversation was taken out to save room. These notes on it are yours:

{{summary}}

What came after follows; go on from there.";

/// The texts around each place of the summary.
pub struct Template(Vec<String>);

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    ///
    /// A message if it is malformed.
    pub fn parse(source: &str) -> Result<Self, &'static str> {
        let mut texts = Vec::new();
        let mut rest = source;
        while let Some((text, after)) = rest.split_once("{{") {
            match after.split_once("}}") {
                Some((name, after)) if name.trim() == "summary" => {
                    texts.push(text.to_owned());
                    rest = after;
                }
                _ => return Err("has `{{` with a word other than `summary`"),
            }
        }
        if texts.is_empty() {
            return Err("has no place for the summary");
        }
        texts.push(rest.to_owned());
        match texts.iter().any(|text| text.contains("{%")) {
            true => Err("has `{%`, but it is not a Jinja template"),
            false => Ok(Self(texts)),
        }
    }

    /// The text with the summary in it.
    pub fn fill(&self, summary: &str) -> String {
        self.0.join(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates() {
        for (source, expected) in [
            ("a {{summary}} b", Some("a S b")),
            ("{{ summary }}", Some("S")),
            ("{{summary}}{{summary}}}", Some("SS}")),
            ("", None),
            ("summary", None),
            ("{{summary}} {{task}}", None),
            ("{{summary}} {{", None),
            ("{% if x %}{{summary}}{% endif %}", None),
        ] {
            let filled = Template::parse(source).map(|template| template.fill("S"));
            assert_eq!(filled.ok().as_deref(), expected, "{source}");
        }
        assert!(Template::parse(DEFAULT).is_ok());
    }
}
