//! Histories that lose their end, and questions that get no answer.

use super::*;

#[test]
fn a_history_that_loses_its_end_gets_its_view_back() {
    let (mut driver, asked) = driver(config(), "notes");
    let steps = [(100, 800), (300, 800), (500, 800), (700, 800)];
    let long = run(&steps);
    driver.apply(Change::all(long.clone()));
    assert_eq!((asked.borrow().len(), driver.view().len()), (1, 7));
    // A change after the place of the decision: the decision stays valid.
    driver.apply(Change::tail(10, vec![Message::new("user", "go on")]));
    assert_eq!((driver.last_start(), driver.last_len()), (7, 1));
    driver.apply(Change::tail(10, vec![call(4, 300), output(4, 4)]));
    assert_eq!((driver.last_start(), driver.last_len()), (7, 2));
    // A change before that place: the decision is not valid, and the view is the whole history
    // again.
    let view = driver.apply(Change::tail(8, vec![])).to_vec();
    assert_eq!(view, long[..8]);
    assert_eq!(driver.last_start(), 2);
    // The same messages lead to the same query.
    driver.apply(Change::tail(8, long[8..].to_vec()));
    let asked = asked.borrow();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0], asked[1]);
}

#[test]
fn a_broken_off_question_is_asked_again() {
    let history = run(&[(100, 800), (300, 800), (500, 800), (700, 800)]);
    let mut processor = configure::<Small>(config()).expect("it is good");
    let ask = |next: Result<Next, PluginError>| match next {
        Ok(Next::Ask(query)) => query.messages,
        other => panic!("no question but {:?}", other.is_ok()),
    };
    let first = ask(processor.apply(Change::all(history.clone())));
    let again = ask(processor.apply(Change::all(history.clone())));
    assert_eq!(first, again);
    let later = ask(processor.apply(Change::tail(history.len(), vec![])));
    assert_eq!(first, later);
    match processor.resume(reply_text("notes")) {
        Ok(Next::Done(change)) => assert_eq!((change.start, change.messages.len()), (0, 7)),
        _ => panic!("it is not done"),
    }
    let refused = |processor: &mut Small| {
        let error = processor.resume(reply_text("notes")).err();
        assert_eq!(
            error.map(|error| error.code).as_deref(),
            Some("invalid-input")
        );
    };
    refused(&mut processor);

    // A question gets no answer, and then the history is too short for a question. The plugin sends
    // all messages that differ.
    let mut processor = configure::<Small>(config()).expect("it is good");
    processor
        .apply(Change::all(history[..6].to_vec()))
        .expect("it applies");
    let mut other = run(&[(100, 700), (300, 700), (500, 700), (700, 800)]);
    ask(processor.apply(Change::tail(2, other.split_off(2))));
    match processor.apply(Change::tail(4, vec![])) {
        Ok(Next::Done(change)) => assert_eq!((change.start, change.messages.len()), (2, 2)),
        _ => panic!("it is not done"),
    }
    refused(&mut processor);
    let error = processor.apply(Change::tail(11, vec![])).err();
    assert_eq!(
        error.map(|error| error.code).as_deref(),
        Some("invalid-input")
    );
}

#[test]
fn below_the_budget_it_never_asks() {
    let changes = [
        Change::all(run(&[(100, 400)])),
        Change::tail(4, vec![call(1, 200), output(1, 400)]),
        Change::tail(2, vec![]),
    ];
    let views = check_fresh_instances::<Small>(&config(), &changes);
    assert_eq!(views.iter().map(Vec::len).collect::<Vec<_>>(), [4, 6, 2]);
}
