//! Tests which messages are searched for images.

use serde_json::{Value, json};

use super::*;
use mswea_core::{CONTENT_LIST, Part};

/// `text`, `list` for a list of texts, or `image`, for each message.
fn forms(messages: &[Arc<Message>]) -> Vec<String> {
    let form = |message: &Arc<Message>| {
        let has_image = |part: &Part| matches!(part, Part::Image { .. });
        let form = match message.extra.get(CONTENT_LIST) {
            _ if message.content.iter().any(has_image) => "image",
            Some(mark) if *mark == json!(true) => "list",
            None => "text",
            Some(other) => panic!("{other}"),
        };
        format!("{} {form}", message.role)
    };
    messages.iter().map(form).collect()
}

async fn run(replies: &[&str], observations: bool) -> Ran {
    run_changed(replies, RunLimits::default(), |parts| {
        parts.prompts.instance = "see <image_url:u>".into();
        parts.prompts.format_error = "no <image_url:v>: {{error}}".into();
        parts.multimodal = Multimodal::new("<(image_url):(.*?)>", observations).unwrap();
    })
    .await
}

#[tokio::test]
async fn prompts_and_observations_are_and_what_the_model_writes_is_not() {
    let replies = [
        "calls:echo <image_url:w>|echo",
        "text:<image_url:x>",
        "calls:submit <image_url:y>",
    ];
    for (observations, with, without) in [
        (true, "tool image", "tool list"),
        (false, "tool text", "tool text"),
    ] {
        let ran = run(&replies, observations).await;
        let expected = [
            "system list",
            "user image",
            "assistant text",
            with,
            without,
            "user text",
            "assistant text",
            without,
            "exit text",
        ];
        assert_eq!(forms(&ran.ended.state.messages), expected);
        // The journal has what was sent to the model.
        let recorded: Vec<Message> = ran
            .journal
            .records()
            .into_iter()
            .flat_map(|record| match record.event {
                Event::Opening { messages } | Event::Observed { messages, .. } => messages,
                Event::Rejected { feedback, .. } => feedback.into_iter().collect(),
                _ => Vec::new(),
            })
            .collect();
        let sent = ran
            .ended
            .state
            .messages
            .iter()
            .filter(|message| !["assistant", "exit"].contains(&message.role.as_str()));
        let of = |it: &Message| (it.role.clone(), it.content.clone(), it.tool_call_id.clone());
        assert!(recorded.iter().map(of).eq(sent.map(|it| of(it))));
        let output = &ran.ended.state.messages[3];
        assert_eq!(output.extra["raw_output"], json!("echo <image_url:w>"));
    }
}

#[tokio::test]
async fn of_the_endings_only_a_failure_is() {
    let ran = run(&["error:auth"], true).await;
    let exit = ran.ended.state.messages.last().unwrap();
    assert_eq!(forms(std::slice::from_ref(exit)), ["exit list"]);
    assert!(
        exit.extra["exception_str"]
            .as_str()
            .is_some_and(|text| text == exit.text())
    );
    let shown: Value = serde_json::to_value(&exit.content).unwrap();
    assert_eq!(shown.as_array().map(Vec::len), Some(1));
}
