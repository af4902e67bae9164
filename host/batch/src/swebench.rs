//! The names of SWE-bench's images, as mini-swe-agent and SWE-agent make them.

/// The image of an instance that names none. An image's name can't contain the two underscores of
/// an id.
pub fn image_name(id: &str) -> String {
    let id = id.replace("__", "_1776_");
    format!("docker.io/swebench/sweb.eval.x86_64.{id}:latest").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images() {
        for (id, image) in [
            ("A__b-1", "a_1776_b-1"),
            ("a___b__c", "a_1776__b_1776_c"),
            ("django__django-11099", "django_1776_django-11099"),
        ] {
            let expected = format!("docker.io/swebench/sweb.eval.x86_64.{image}:latest");
            assert_eq!(image_name(id), expected);
        }
    }
}
