//! The user's answer to a policy's question is recorded, and the question is asked once.

use super::boundaries::{position, resumed};
use super::person::{Attending, attended};
use super::*;

fn edit(command: &str) -> Answer {
    Answer::Edit {
        command: command.into(),
    }
}

#[tokio::test]
async fn an_edited_command_runs_instead_and_later_policies_judge_it() {
    let answers = vec![edit("edited"), Answer::Yes];
    let (ran, asked) = attended(
        &["calls:ask", "calls:submit x"],
        RunLimits::default(),
        answers,
    )
    .await;
    assert!(matches!(&asked[0], Question::Confirm { action, .. } if action.command == "ask"));
    assert!(
        ran.commands.contains(&"edited".to_owned()),
        "{:?}",
        ran.commands
    );
    assert!(
        !ran.commands.contains(&"ask".to_owned()),
        "{:?}",
        ran.commands
    );
    let records = ran.journal.records();
    let events: Vec<String> = records
        .iter()
        .filter_map(|it| match &it.event {
            Event::Confirmed { policy, answer, .. } => Some(format!("{policy}: {answer:?}")),
            Event::Rewritten { policy, action, .. } => {
                Some(format!("{policy} > {}", action.command))
            }
            Event::Allowed { index } => Some(format!("allowed {index}")),
            Event::Action { action, .. } => Some(action.command.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(
        events[..4],
        [
            "guard: Edit { command: \"edited\" }",
            "user > edited",
            "allowed 0",
            "edited"
        ]
    );
    assert_eq!(fold(&records).messages, ran.ended.state.messages);
}

#[tokio::test]
async fn an_answer_holds_if_the_host_is_killed_behind_it() {
    for answer in [
        Answer::Yes,
        edit("edited"),
        Answer::No {
            reason: "no".into(),
        },
    ] {
        let (ran, _) = attended(
            &["calls:ask", "calls:submit x"],
            RunLimits::default(),
            vec![answer.clone(), Answer::Yes],
        )
        .await;
        let whole = ran.journal.records();
        let confirmed = |event: &Event| matches!(event, Event::Confirmed { .. });
        let end = position(&whole, confirmed) + 1;
        // The next process has a person who is not asked this question again.
        let person = Arc::new(Attending {
            answers: Mutex::new([Answer::Yes].into()),
            ..Attending::default()
        });
        let own = person.clone();
        let (state, commands) = resumed(&whole[..end], &["calls:submit x"], false, |parts| {
            parts.person = own;
        })
        .await;
        let asked = person.asked.lock().unwrap().clone();
        assert!(
            matches!(asked[..], [Question::Submission { .. }]),
            "{asked:?}"
        );
        let expected = match &answer {
            Answer::Yes => vec!["ask"],
            Answer::Edit { command } => vec![command.as_str()],
            _ => Vec::new(),
        };
        let own: Vec<&str> = commands.iter().map(String::as_str).collect();
        assert!(own.starts_with(&expected), "{answer:?}: {own:?}");
        let texts = |messages: &[Arc<Message>]| -> Vec<String> {
            messages.iter().map(|it| it.text()).collect()
        };
        assert_eq!(
            texts(&state.messages),
            texts(&ran.ended.state.messages),
            "{answer:?}"
        );
    }
}
