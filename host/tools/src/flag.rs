//! Whether a submission is the flag of a challenge.

use sha2::{Digest as _, Sha256};

/// The beginning of a flag that is given by its SHA-256 sum, so that no file of a run contains the
/// flag.
const SUM: &str = "sha256:";

/// Whether a submission is the flag, with or without `flag{}` around either of them, and without
/// regard to blanks around them. `flag` is the flag, or `sha256:` and its sum in hexadecimal
/// digits.
pub fn is_flag(submission: &str, flag: &str) -> bool {
    let sum = match flag.strip_prefix(SUM) {
        Some(sum) => sum.to_ascii_lowercase(),
        None => sum_of(flag.trim()),
    };
    let submission = submission.trim();
    let inside = submission.strip_prefix("flag{");
    let inside = inside.and_then(|rest| rest.strip_suffix('}'));
    let forms = [submission.to_owned(), format!("flag{{{submission}}}")];
    let mut forms = forms.into_iter().chain(inside.map(str::to_owned));
    forms.any(|form| sum_of(&form) == sum)
}

fn sum_of(text: &str) -> String {
    mswea_text::hex(&Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_known_in_three_forms() {
        for (flag, submission, expected) in [
            ("flag{a}", "flag{a}", true),
            ("flag{a}", " a\n", true),
            ("flag{a} ", "flag{a}", true),
            ("a", "flag{a}", true),
            ("FLAG{a}", "FLAG{a}", true),
            ("FLAG{a}", "a", false),
            ("flag{a}", "flag{flag{a}}", true),
            ("flag{a}", "A", false),
            ("flag{a}", "", false),
            ("flag{IoDJ\\tu{z}", "IoDJ\\tu{z", true),
        ] {
            assert_eq!(is_flag(submission, flag), expected, "{flag} {submission}");
            let sum = format!("{SUM}{}", sum_of(flag.trim()).to_uppercase());
            assert_eq!(is_flag(submission, &sum), expected, "{flag} {submission}");
        }
    }
}
