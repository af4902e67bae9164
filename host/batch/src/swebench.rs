//! What mini-swe-agent and SWE-agent know of SWE-bench: the names of its images.

/// The image of an instance that names none: an id can't have two underscores in an image's name.
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
