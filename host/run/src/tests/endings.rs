//! Tests of the ends of a run, and of the history after them.

use super::*;

#[tokio::test]
async fn endings_and_what_the_history_holds() {
    let table: [(&[&str], &str, &[&str]); 13] = [
        (
            &["unused:none", "calls:submit x"],
            "Submitted",
            &[
                "system",
                "user",
                "assistant",
                "tool(u0)",
                "assistant",
                "tool(c0)",
                "exit",
            ],
        ),
        (
            &["calls:ls", "calls:submit x"],
            "Submitted",
            &[
                "system",
                "user",
                "assistant",
                "tool(c0)",
                "assistant",
                "tool(c0)",
                "exit",
            ],
        ),
        (
            &["calls:a|submit x|c"],
            "Submitted",
            &[
                "system",
                "user",
                "assistant",
                "tool(c0)",
                "tool(c1)",
                "tool(c2)",
                "exit",
            ],
        ),
        (
            &["text:what", "calls:submit x"],
            "Submitted",
            &["system", "user", "user", "assistant", "tool(c0)", "exit"],
        ),
        (
            &["text:a", "text:b", "text:c"],
            "RepeatedFormatError",
            &["system", "user", "user", "user", "user", "exit"],
        ),
        (
            &[
                "text:a",
                "text:b",
                "calls:ls",
                "text:c",
                "text:d",
                "calls:submit x",
            ],
            "Submitted",
            &[
                "system",
                "user",
                "user",
                "user",
                "assistant",
                "tool(c0)",
                "user",
                "user",
                "assistant",
                "tool(c0)",
                "exit",
            ],
        ),
        (
            &["text:none", "calls:submit x"],
            "Submitted",
            &[
                "system",
                "user",
                "assistant",
                "assistant",
                "tool(c0)",
                "exit",
            ],
        ),
        (
            &["calls:a|stop|c"],
            "Interrupted",
            &[
                "system",
                "user",
                "assistant",
                "tool(c0)",
                "tool(c1)",
                "tool(c2)",
                "exit",
            ],
        ),
        (
            &["error:authentication"],
            "AuthenticationError",
            &["system", "user", "exit"],
        ),
        (
            &["text:fault", "calls:submit x"],
            "Submitted",
            &["system", "user", "user", "assistant", "tool(c0)", "exit"],
        ),
        (
            &["error:plugin"],
            "PluginError",
            &["system", "user", "exit"],
        ),
        // A third reply would be useless.
        (
            &["text:fault", "text:fault"],
            "PluginError",
            &["system", "user", "user", "exit"],
        ),
        (
            &["text:fault", "calls:ls", "text:fault", "calls:submit x"],
            "Submitted",
            &[
                "system",
                "user",
                "user",
                "assistant",
                "tool(c0)",
                "user",
                "assistant",
                "tool(c0)",
                "exit",
            ],
        ),
    ];
    for (replies, status, shape) in table {
        let ran = run(replies).await;
        assert_eq!(ran.ended.end.exit_status(), status, "{replies:?}");
        assert_eq!(ran.shape(), shape, "{replies:?}");
        // Failed, malformed and rejected replies are charged like the others.
        assert_eq!(ran.ended.account.queries as usize, replies.len());
        #[allow(clippy::cast_precision_loss)]
        let paid = replies.len() as f64;
        assert_eq!(ran.ended.account.cost, paid, "{replies:?}");
        let [.., before_last, last] = &ran.commands[..] else {
            panic!("too few commands: {:?}", ran.commands)
        };
        assert_eq!(
            (&**before_last, &**last),
            ("salvage", "cleanup"),
            "{replies:?}"
        );
        // The journal alone gives the same history.
        assert_eq!(
            fold(&ran.journal.records()).messages,
            ran.ended.state.messages
        );
    }
}

#[tokio::test]
async fn a_panic_of_a_part_ends_the_run_and_its_work_is_saved() {
    let words = "this is a bug in mswea-host, please report it: this executor has a bug";
    for (command, saved) in [("panic", None), ("panic twice", Some(words))] {
        let ran = run(&["calls:a", &format!("calls:{command}|b")]).await;
        let end = End::Crashed {
            message: words.into(),
        };
        assert_eq!(ran.ended.end, end);
        assert_eq!(ran.commands, ["a", command, "salvage", "cleanup"]);
        let salvage = ran.ended.state.salvage.as_ref().unwrap();
        assert_eq!(salvage.exception_info, saved.unwrap_or_default());
        let records = ran.journal.records();
        assert_eq!(fold(&records).messages, ran.ended.state.messages);
        let Event::RunEnded { exit_status, .. } = &records.last().unwrap().event else {
            panic!("{:?}", records.last());
        };
        assert_eq!(exit_status, "InternalError");
    }
}

#[test]
fn time_between_two_processes_is_not_the_run_s() {
    let mut state = State::default();
    let query = || Event::QueryStarted {
        query: 1,
        view: None,
    };
    let resumed = Event::RunResumed {
        host_version: String::new(),
        config: Value::Null,
        plugins: Value::Null,
    };
    for (t, event) in [
        (100.0, boundaries::started()),
        (110.0, query()),
        (1000.0, resumed),
        // The clock is set back.
        (500.0, query()),
        (505.0, query()),
    ] {
        state.apply(t, event);
    }
    assert_eq!(state.account.elapsed(507.0), 17.0);
}
