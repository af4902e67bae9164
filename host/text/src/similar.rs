//! Suggestions for names that are misspelt.

/// The candidate most similar to `word`, if it is similar enough to be a typing error. Of equally
/// similar ones it is the first.
///
/// ```
/// let keys = ["step_limit", "cost_limit"];
/// assert_eq!(mswea_text::nearest("step_limt", keys), Some("step_limit"));
/// assert_eq!(mswea_text::nearest("environment", keys), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    near(word, candidates, 1).pop()
}

/// The candidates that `word` may be a typing error for: the most similar first, each once, at most
/// `most` of them.
pub fn near<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<&'a str> {
    let length = word.chars().count();
    // A third of the word's length: `step_limt` counts as a typing error for `step_limit`, `cwd`
    // does not count as one for `env`.
    let allowed = (length / 3).clamp(1, 4);
    let mut found: Vec<(usize, &str)> = Vec::new();
    for candidate in candidates {
        // Each character that one has more is a change. A very long word is never compared: that would
        // take its length times that of every candidate.
        if candidate.chars().count().abs_diff(length) > allowed {
            continue;
        }
        let distance = strsim::damerau_levenshtein(word, candidate);
        if distance <= allowed
            && distance < length.max(candidate.chars().count())
            && !found.contains(&(distance, candidate))
        {
            found.push((distance, candidate));
        }
    }
    found.sort_by_key(|(distance, _)| *distance);
    found.truncate(most);
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_found_and_other_words_are_not() {
        for (word, candidates, expected) in [
            (
                "step_limt",
                &["step_limit", "cost_limit"][..],
                Some("step_limit"),
            ),
            ("steplimit", &["step_limit"], Some("step_limit")),
            ("evn", &["env", "cwd"], Some("env")),
            ("x", &["cwd", "y"], None),
            ("environment", &["run", "agent"], None),
            ("defualt", &["default", "text"], Some("default")),
            ("poling", &["timeout", "polling"], Some("polling")),
            ("toolcal", &["text_regex", "toolcall"], Some("toolcall")),
        ] {
            let found = nearest(word, candidates.iter().copied());
            assert_eq!(found, expected, "{word}");
        }
    }

    #[test]
    fn several_come_in_the_order_of_similarity_and_each_once() {
        let names = ["outputs", "stdout", "output", "outputs"];
        assert_eq!(near("outptu", names, 3), ["output", "outputs"]);
        assert_eq!(near("outptu", names, 1), ["output"]);
    }
}
