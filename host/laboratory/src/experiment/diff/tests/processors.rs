//! Comparisons of history processors.

use super::*;

/// The last `count` messages, without separating a call from its result.
pub(super) fn last(count: usize) -> impl Fn() -> ConfiguredRole + Send + Sync + 'static {
    move || {
        testing::processor(move |input| {
            let keep = input.len().saturating_sub(count) & !1;
            Ok(input[keep..].to_vec())
        })
    }
}

#[test]
fn processors_follow_the_history() {
    let runs = runs(&[6, 2]);
    let found = compare(
        last(100),
        last(100),
        RoleKind::HistoryProcessor,
        &runs,
        &DiffOptions::default(),
    )
    .unwrap();
    assert_eq!(
        (found.counts.of(Degree::Same), found.counts.compared()),
        (8, 8)
    );
    let found = compare(
        last(100),
        last(6),
        RoleKind::HistoryProcessor,
        &runs,
        &DiffOptions::default(),
    )
    .unwrap();
    // Queries 1 to 3 see 2, 4 and 6 messages.
    assert_eq!(
        (
            found.counts.of(Degree::Same),
            found.counts.of(Degree::Different)
        ),
        (5, 3)
    );
    let case = &found.cases[0];
    assert_eq!(case.step, 4);
    assert_eq!(
        (&case.old["messages_in_view"], &case.new["messages_in_view"]),
        (&json!(8), &json!(6))
    );
    assert_eq!(case.new["between"], json!({}));
    assert_eq!(case.old["between"].as_object().unwrap().len(), 2);
    // An answer that breaks the pairing is a failure, as in a run; the next step is compared again.
    let tears = || {
        testing::processor(|input| match input.len() {
            6 => Ok(input[3..].to_vec()),
            8 => Err(PluginFault::new("not today")),
            _ => Ok(input),
        })
    };
    let found = compare(
        last(100),
        tears,
        RoleKind::HistoryProcessor,
        &runs,
        &DiffOptions::default(),
    )
    .unwrap();
    assert_eq!(
        (
            found.counts.of(Degree::Same),
            found.counts.of(Degree::OneFailed)
        ),
        (6, 2)
    );
    assert_eq!(
        (&found.cases[0].new["failed"], &found.cases[1].new["failed"]),
        (&json!("broke"), &json!("reported"))
    );
    assert!(
        found.cases[0].new["message"]
            .as_str()
            .unwrap()
            .contains("pairing")
    );
}

#[test]
fn questions_get_their_recorded_answers() {
    let mut runs = runs(&[3]);
    runs.runs[0].questions.push(RecordedQuestion {
        purpose: "summary".into(),
        messages: vec![Message::new("user", "known")],
        reply: mswea_core::Reply {
            message: Message::new("assistant", "recorded answer"),
            ..mswea_core::Reply::default()
        },
    });
    let asks = |question: &'static str| {
        move || {
            testing::processor(move |mut input| {
                input[0] = Message::new("ask", question);
                Ok(input)
            })
        }
    };
    let kind = RoleKind::HistoryProcessor;
    let found = compare(
        asks("known"),
        asks("unknown"),
        kind,
        &runs,
        &DiffOptions::default(),
    )
    .unwrap();
    assert_eq!((found.old.asked, found.old.unanswered), (3, 0));
    assert_eq!((found.new.asked, found.new.unanswered), (3, 3));
    let case = &found.cases[0];
    assert!(case.old.to_string().contains("recorded answer"));
    assert!(case.new.to_string().contains("stands in for it"));
    let text = found.to_text(super::super::super::TextOptions {
        width: 120,
        max_shown: 1,
    });
    assert!(
        text.contains("new asked the model 3 times, 3 without a recorded answer"),
        "{text}"
    );
}
