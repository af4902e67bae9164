//! Test vectors; `multimodal_vectors.json` has the results of mini-swe-agent 2.4.6.

use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

#[derive(Deserialize)]
struct Vectors {
    default: String,
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    regex: String,
    text: String,
    parts: Vec<Value>,
}

fn multimodal(regex: &str) -> Multimodal {
    Multimodal::new(regex, true).expect(regex).unwrap()
}

/// Texts as strings, images as objects.
fn shown(message: &Message) -> Vec<Value> {
    let parts = message.content.iter().map(|part| match part {
        Part::Text { text } => json!(text),
        Part::Image { url, extra } if extra.is_empty() => json!({ "image": url }),
        other => panic!("{other:?}"),
    });
    parts.collect()
}

#[test]
fn texts_become_what_mini_swe_agent_makes_of_them() {
    let recorded: Vectors = serde_json::from_str(include_str!("multimodal_vectors.json")).unwrap();
    assert!(recorded.vectors.len() > 40);
    for vector in recorded.vectors {
        let regex = match vector.regex.as_str() {
            "DEFAULT" => &recorded.default,
            other => other,
        };
        let mut message = Message::new("user", vector.text.clone());
        multimodal(regex).expand(&mut message).unwrap();
        assert_eq!(
            shown(&message),
            vector.parts,
            "{regex} in {:?}",
            vector.text
        );
        let has_image = vector.parts.iter().any(Value::is_object);
        let expected = (!has_image).then_some(json!(true));
        assert_eq!(message.extra.get(CONTENT_LIST), expected.as_ref());
    }
}

#[test]
fn what_is_no_text_stays_where_it_is() {
    let image = Part::Image {
        url: "v".into(),
        extra: serde_json::Map::new(),
    };
    let mut message = Message::new("tool", "a image_url=u");
    message.content.extend([image.clone(), Part::text("b")]);
    message.extra.insert("returncode".into(), json!(0));
    multimodal(r"(image_url)=(\w)")
        .expand(&mut message)
        .unwrap();
    assert_eq!(
        shown(&message),
        [
            json!("a "),
            json!({"image": "u"}),
            json!({"image": "v"}),
            json!("b")
        ]
    );
    assert_eq!(message.extra.len(), 1);
}

#[test]
fn an_expression_that_finds_nothing_is_told_with_its_key() {
    assert!(Multimodal::new("", true).unwrap().is_none());
    for (regex, words) in [
        ("(", "no usable regular expression"),
        ("(a)(b)[", "no usable regular expression"),
        ("(a)(b)**", "no usable regular expression"),
        ("a", "0 of the 2 groups"),
        ("(?:a)(b)", "1 of the 2 groups"),
    ] {
        let error = Multimodal::new(regex, true).expect_err(regex).to_string();
        assert!(error.contains("`model.multimodal_regex`"), "{error}");
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn an_expression_that_gives_up_leaves_the_message_as_it_was() {
    let mut message = Message::new("user", format!("image_url=u {}", "a".repeat(60)));
    let before = message.clone();
    let error = multimodal(r"(image_url)=(u)|(?:(a|aa)+)+\3b").expand(&mut message);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("simpler"), "{error}");
    assert_eq!(message, before);
}

/// A screenshot in a long output, as in every step of some runs.
#[test]
fn a_large_image_is_found_in_time() {
    let recorded: Vectors = serde_json::from_str(include_str!("multimodal_vectors.json")).unwrap();
    let url = format!("data:image/png;base64,{}", "iVBO".repeat(500_000));
    let text = format!(
        "{}<MSWEA_MULTIMODAL_CONTENT><CONTENT_TYPE>image_url</CONTENT_TYPE>{url}</MSWEA_MULTIMODAL_CONTENT>end",
        "<line>\n".repeat(50_000)
    );
    let mut message = Message::new("tool", text);
    let begin = std::time::Instant::now();
    multimodal(&recorded.default).expand(&mut message).unwrap();
    let took = begin.elapsed();
    assert!(took.as_secs() < 20, "{took:?}");
    assert_eq!(message.content.len(), 3);
    assert_eq!(shown(&message)[1], json!({ "image": url }));
}
