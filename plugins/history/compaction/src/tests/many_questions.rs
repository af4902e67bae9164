//! Tests the number of questions in one step.

use super::*;

type Answer = fn(&Query) -> String;

/// Runs one step. Returns the number of questions, and the change of the view.
fn ask_all(
    processor: &mut Small,
    change: Change,
    answer: impl Fn(&Query) -> String,
    is_recorded: impl Fn(usize) -> bool,
) -> (usize, Change) {
    let mut asked = 0;
    let mut next = processor.apply(change).expect("it applies");
    loop {
        match next {
            Next::Done(change) => return (asked, change),
            Next::Ask(query) => {
                let mut reply = reply_text(&answer(&query));
                if is_recorded(asked) {
                    reply.extra = Some(r#"{"x":1,"remembered":true}"#.to_owned());
                }
                asked += 1;
                next = processor.resume(reply).expect("it goes on");
            }
        }
    }
}

#[test]
fn a_step_asks_few_new_questions() {
    // Each step is as large as half of the budget.
    assert_eq!(MOST_NEW, 8, "the contract says so");
    let history = run(&[(0, 2_000); 60]);
    let answers: [(&str, Answer); 4] = [
        ("notes", |_| "notes".to_owned()),
        ("none", |_| String::new()),
        ("the question", |query| query.messages[0].text()),
        ("long", |_| "much ".repeat(2_000)),
    ];
    for (name, answer) in answers {
        let fresh = || configure::<Small>(config()).expect("it is good");
        let whole = || Change::all(history.clone());
        // All queries are recorded, so the plugin reaches its view.
        let (all, ended) = ask_all(&mut fresh(), whole(), answer, |_| true);
        assert!(all > 20, "{name}: {all}");
        // Of the first queries, every second one is recorded.
        let mut processor = fresh();
        let (asked, change) = ask_all(&mut processor, whole(), answer, |n| n < 8 && n % 2 == 0);
        assert_eq!(asked, 4 + MOST_NEW, "{name}");
        assert_paired(&change.messages);
        // Each later step asks as many more, until all of them are asked.
        let mut total = asked;
        let mut view = change.messages;
        while total < all {
            let (asked, change) = ask_all(
                &mut processor,
                Change::tail(history.len(), vec![]),
                answer,
                |_| false,
            );
            assert_eq!(asked, (all - total).min(MOST_NEW), "{name}");
            total += asked;
            change.apply(&mut view);
            assert_paired(&view);
        }
        assert_eq!(view, ended.messages, "{name}");
        let (asked, _) = ask_all(
            &mut processor,
            Change::tail(history.len(), vec![]),
            answer,
            |_| false,
        );
        assert_eq!(asked, 0, "{name}");
    }
}

#[test]
fn what_a_reply_must_say_to_be_a_recorded_one() {
    for (extra, expected) in [
        (None, false),
        (Some("{}"), false),
        (Some(r#"{"remembered":true}"#), true),
        (Some(r#"{"remembered": true, "x": 1}"#), true),
        (Some(r#"{"remembered":false}"#), false),
        (Some(r#"{"x":{"remembered":true}}"#), false),
        (Some(r#"["remembered"]"#), false),
        (Some(r#"{"remembered":"#), false),
    ] {
        let mut reply = reply_text("x");
        reply.extra = extra.map(str::to_owned);
        assert_eq!(is_remembered(&reply), expected, "{extra:?}");
    }
}
