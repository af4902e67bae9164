//! The course of a query: round trips, retries, fresh instances, interruptions.

use std::time::{Duration, Instant};

use super::*;
use mswea_core::{ErrorClass, ModelFailure};

use super::adapter::usage;
use super::server::{Server, Step, ok, response};

fn change(start: usize, texts: &[&str]) -> Change {
    Change {
        start,
        messages: texts
            .iter()
            .map(|text| Message::new("user", *text).into())
            .collect(),
    }
}

/// Waits for something that another part of the test does.
async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn a_reply_streams_in_pieces() {
    let server = Server::start(vec![Step::Slowly(vec![
        (
            0,
            "HTTP/1.1 200 OK\r\nX-Upper: Yes\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
        ),
        (15, "3\r\ndef\r\n0\r\n\r\n"),
    ])]);
    let bench = Bench::new();
    let reply = bench.query(&server.url).await.unwrap();
    assert_eq!(reply.message.text(), "abcdef");
    assert_eq!(bench.lines(), ["delta abc", "delta def"]);
    let heads = &bench.log.lock().unwrap().heads;
    assert!(
        heads[0]
            .1
            .contains(&("x-upper".to_owned(), "Yes".to_owned()))
    );
    let request = &server.requests()[0];
    assert!(request.starts_with("POST /v1 HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\nhi"), "{request}");
    for part in [
        "x-fake: 1\r\n",
        "user-agent: mswea-host/",
        "content-length: 2\r\n",
    ] {
        assert!(request.contains(part), "{request}");
    }
}

#[tokio::test]
async fn a_complete_reply_ends_the_reading() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    // What is sent when, the beginning of the reply, and after how many seconds it comes at the earliest. It comes before
    // the server's last piece; one without a pause comes before the end of the pause of the others.
    type Pieces = Vec<(u64, &'static str)>;
    let alive = (1500, "1\r\n:\r\n");
    let table: Vec<(Pieces, &str, u64)> = vec![
        (
            vec![(0, HEAD), (0, "6\r\na<end>\r\n"), (9000, "")],
            "a<end>",
            0,
        ),
        (
            vec![(0, HEAD), (0, "b\r\na<finished>\r\n"), (30_000, "")],
            "a<finished>",
            3,
        ),
        // Token counts may follow; what only keeps the connection alive does not prolong the wait.
        (
            [&[(0, HEAD), (0, "b\r\na<finished>\r\n")], &[alive; 20][..]].concat(),
            "a<finished>:",
            3,
        ),
        (
            vec![
                (0, HEAD),
                (0, "b\r\na<finished>\r\n"),
                (50, "1\r\n:\r\n0\r\n\r\n"),
                (9000, ""),
            ],
            "a<finished>:",
            0,
        ),
        // A server that goes on after an end may do so again.
        (
            vec![
                (0, HEAD),
                (0, "b\r\na<finished>\r\n"),
                (50, "1\r\nb\r\n"),
                (3500, "6\r\nc<end>\r\n"),
                (30_000, ""),
            ],
            "a<finished>bc<end>",
            3,
        ),
        (
            vec![
                (0, HEAD),
                (0, "12\r\na<likely-finished>\r\n"),
                (4000, "6\r\nb<end>\r\n"),
                (30_000, ""),
            ],
            "a<likely-finished>b<end>",
            4,
        ),
        // The connection breaks after the reply.
        (
            vec![(0, HEAD), (0, "b\r\na<finished>\r\n")],
            "a<finished>",
            0,
        ),
    ];
    for (pieces, expected, least) in table {
        let server = Server::start(vec![Step::Slowly(pieces), Step::Hang]);
        let start = Instant::now();
        let reply = Bench::new().query(&server.url).await.unwrap();
        let text = reply.message.text();
        assert!(text.starts_with(expected), "{expected}: {text}");
        let took = start.elapsed().as_secs();
        let most = if least == 0 { 3 } else { 30 };
        assert!((least..most).contains(&took), "{expected}: {took}");
        assert_eq!(server.requests().len(), 1);
    }
    // An idle time-out after the reply.
    for (chunk, text) in [
        ("b\r\na<finished>\r\n", "a<finished>"),
        ("12\r\na<likely-finished>\r\n", "a<likely-finished>"),
    ] {
        let hangs = vec![(0, HEAD), (0, chunk), (9000, "")];
        let server = Server::start(vec![Step::Slowly(hangs), Step::Hang]);
        let mut bench = Bench::new();
        bench.settings.idle_timeout = Some(Limit {
            time: Duration::from_millis(100),
            key: "model.idle_timeout",
        });
        let reply = bench.query(&server.url).await.unwrap();
        assert_eq!(reply.message.text(), text);
        assert_eq!(bench.lines(), [format!("delta {text}")]);
    }
}

#[tokio::test]
async fn only_changes_travel() {
    let server = Server::start(vec![ok("1"), ok("2"), ok("3")]);
    let bench = Bench::new();
    let mut model = bench.model(&server.url);
    let context = bench.context();
    for change in [change(0, &["a"]), change(1, &["b", "c"]), change(2, &["d"])] {
        model.query(change, &[], &context).await.unwrap();
    }
    assert_eq!(
        bench.log.lock().unwrap().queries,
        [
            (0, texts(&["a"])),
            (1, texts(&["a", "b", "c"])),
            (2, texts(&["a", "b", "d"]))
        ]
    );
    assert!(server.requests()[2].ends_with("a|b|d"));
    let beyond = change(9, &["x"]);
    let error = model.query(beyond, &[], &context).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Other("internal".to_owned()));
}

#[tokio::test]
async fn everything_travels_after_a_failure() {
    let server = Server::start(vec![ok("1"), response(400, "", "no"), ok("3"), ok("4")]);
    let bench = Bench::new();
    let mut model = bench.model(&server.url);
    let context = bench.context();
    model.query(change(0, &["a"]), &[], &context).await.unwrap();
    let error = model
        .query(change(1, &["b"]), &[], &context)
        .await
        .unwrap_err();
    assert_eq!(error.class, ErrorClass::BadRequest);
    assert_eq!(error.message, "status 400: no");
    model.query(change(2, &["c"]), &[], &context).await.unwrap();
    // an error of `query` itself
    bench.log.lock().unwrap().fail_query = vec![ErrorClass::ContextWindowExceeded.into()];
    let error = model
        .query(change(3, &["d"]), &[], &context)
        .await
        .unwrap_err();
    assert_eq!(error.class, ErrorClass::ContextWindowExceeded);
    model.query(change(1, &["e"]), &[], &context).await.unwrap();
    let starts: Vec<usize> = bench
        .log
        .lock()
        .unwrap()
        .queries
        .iter()
        .map(|q| q.0)
        .collect();
    assert_eq!(starts, [0, 1, 0, 3, 0]);
    assert!(server.requests()[3].ends_with("\r\n\r\na|e"));
}

#[tokio::test]
async fn a_dropped_query_leaves_no_half_used_instance() {
    let server = Server::start(vec![ok("1"), ok("2"), ok("3")]);
    let bench = Bench::new();
    let mut model = bench.model(&server.url);
    let context = bench.context();
    model.query(change(0, &["a"]), &[], &context).await.unwrap();
    bench.log.lock().unwrap().stuck = true;
    let second = change(1, &["b"]);
    let log = &bench.log;
    tokio::select! {
        _ = model.query(second, &[], &context) => panic!("it is stuck"),
        () = until(|| log.lock().unwrap().queries.len() == 2) => {}
    }
    bench.log.lock().unwrap().stuck = false;
    model.query(change(2, &["c"]), &[], &context).await.unwrap();
    let log = bench.log.lock().unwrap();
    assert_eq!(log.discards, 1);
    assert_eq!(log.queries.last().unwrap(), &(0, texts(&["a", "b", "c"])));
}

#[tokio::test]
async fn a_rate_limit_is_waited_out() {
    let server = Server::start(vec![
        response(429, "retry-after: 0.1\r\n", "slow down"),
        response(503, "", "busy"),
        ok("done"),
    ]);
    let bench = Bench::new();
    let start = Instant::now();
    let reply = bench.query(&server.url).await.unwrap();
    assert_eq!(reply.message.text(), "done");
    assert!(start.elapsed() >= Duration::from_millis(100));
    assert_eq!(
        bench.lines(),
        [
            "journal retry 1 rate-limited",
            "retrying 1/10 rate-limited",
            "journal retry 2 overloaded",
            "retrying 2/10 overloaded",
            "delta done",
        ]
    );
}

#[tokio::test]
async fn a_wait_beyond_ten_minutes_is_not_waited_for() {
    let server = Server::start(vec![response(429, "retry-after: 3600\r\n", "quota")]);
    let error = Bench::new().fails(&server.url).await;
    assert_eq!(error.class, ErrorClass::RateLimited);
    assert_eq!(error.retry_after, Some(Duration::from_secs(3600)));
    assert_eq!(
        error.message,
        "status 429: quota (gave up after 1 attempt: the provider asks to wait 60 min, and \
         the host waits at most 10 min; run it again later)"
    );
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn budgets_are_separate_and_bills_are_summed() {
    let server = Server::start(vec![
        response(429, "", "billed"),
        Step::Hang,
        response(200, "", "garbled"),
        response(500, "", "billed"),
        response(500, "", "billed"),
        ok("never"),
    ]);
    let mut bench = Bench::new();
    bench.settings.rate_limit_retries = 2;
    bench.settings.network_retries = 2;
    let error = bench.fails(&server.url).await;
    assert_eq!(error.class, ErrorClass::Overloaded);
    assert!(
        error
            .message
            .starts_with("status 500: billed (gave up after 5 attempts over "),
        "{}",
        error.message
    );
    assert!(error.message.contains("`model.rate_limit_retries` is 2"));
    assert_eq!(error.usage, Some(usage(300, Some(0.75))));
}

#[tokio::test]
async fn what_failed_attempts_cost_is_charged_with_the_reply() {
    let server = Server::start(vec![response(500, "", "billed"), ok("done")]);
    let reply = Bench::new().query(&server.url).await.unwrap();
    assert_eq!(reply.usage, Some(usage(110, Some(0.75))));
}

#[tokio::test]
async fn what_a_dropped_query_was_billed_is_not_lost() {
    for asks in [false, true] {
        let late = || response(429, "retry-after: 3\r\n", "billed");
        let server = Server::start(vec![
            response(500, "", "billed"),
            late(),
            late(),
            ok("done"),
        ]);
        let bench = Bench::new();
        let mut model = bench.model(&server.url);
        let context = bench.context();
        for taken in [true, false] {
            let whole = change(0, &["a"]);
            let question = async {
                if asks {
                    let messages = whole.messages.iter().map(|it| it.light()).collect();
                    model.ask(messages, &[], &context).await
                } else {
                    model.query(whole, &[], &context).await
                }
            };
            // The second question waits before it is sent.
            let waits = || {
                let lines = bench.recorder.lines.lock().unwrap();
                !taken || lines.iter().any(|line| line.starts_with("retrying 2/"))
            };
            tokio::select! {
                biased;
                _ = question => panic!("it waits"),
                () = until(waits) => {}
            }
            if taken {
                let billed = Some(usage(200, Some(0.5)));
                assert_eq!(model.take_unreported_usage(), billed);
                assert_eq!(model.take_unreported_usage(), None);
            }
        }
        // The provider asked all queries to wait, so the second one was not sent; this one gets what is left.
        let reply = model.query(change(0, &["a"]), &[], &context).await.unwrap();
        assert_eq!(reply.usage, Some(usage(110, Some(0.75))));
        assert_eq!(model.take_unreported_usage(), None);
    }
}

#[tokio::test]
async fn shown_text_is_taken_back_before_a_retry() {
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";
    let server = Server::start(vec![Step::Say(half.into()), ok("whole")]);
    let bench = Bench::new();
    assert_eq!(
        bench.query(&server.url).await.unwrap().message.text(),
        "whole"
    );
    assert_eq!(
        bench.lines(),
        [
            "delta half",
            "journal retry 1 network",
            "reset",
            "retrying 1/9 network",
            "delta whole",
        ]
    );
}

#[tokio::test]
async fn round_trips_are_bounded() {
    let again = |count: usize| (0..count).map(|_| ok("again"));
    let server = Server::start(again(1).chain([ok("two")]).collect());
    let reply = Bench::new().query(&server.url).await.unwrap();
    assert_eq!(reply.message.text(), "two");

    let server = Server::start(again(7).chain([ok("eight")]).collect());
    let reply = Bench::new().query(&server.url).await.unwrap();
    assert_eq!(reply.message.text(), "eight");

    let server = Server::start(again(9).collect());
    let error = Bench::new().fails(&server.url).await;
    assert_eq!(error.class, ErrorClass::MalformedResponse);
    assert!(error.message.contains("8 requests"), "{}", error.message);
    assert_eq!(server.requests().len(), 8);
}

#[tokio::test]
async fn a_broken_adapter_is_replaced_once() {
    use ModelFailure::Plugin;
    for (fail_query, fail_finish, steps) in [
        (vec![Plugin], vec![], vec![ok("done")]),
        (vec![], vec![Plugin], vec![ok("lost"), ok("done")]),
    ] {
        let server = Server::start(steps.into_iter().chain([ok("later")]).collect());
        let bench = Bench::new();
        {
            let mut log = bench.log.lock().unwrap();
            (log.fail_query, log.fail_finish) = (fail_query, fail_finish);
        }
        let mut model = bench.model(&server.url);
        let context = bench.context();
        let reply = model
            .query(change(0, &["a", "b"]), &[], &context)
            .await
            .unwrap();
        assert_eq!(reply.message.text(), "done");
        let lines = bench.lines();
        let journal = lines
            .iter()
            .position(|line| line == "journal fault fake")
            .unwrap();
        assert_eq!(lines[journal + 1], "warning");
        model.query(change(2, &["c"]), &[], &context).await.unwrap();
        let log = bench.log.lock().unwrap();
        let starts: Vec<usize> = log.queries.iter().map(|query| query.0).collect();
        assert_eq!((starts, log.discards), (vec![0, 0, 2], 1));
    }
}

#[tokio::test]
async fn an_adapter_that_breaks_twice_ends_the_query() {
    use ModelFailure::Plugin;
    let server = Server::start(vec![ok("lost"), ok("later")]);
    let bench = Bench::new();
    bench.log.lock().unwrap().fail_query = vec![Plugin];
    bench.log.lock().unwrap().fail_finish = vec![Plugin];
    let mut model = bench.model(&server.url);
    let context = bench.context();
    let error = model
        .query(change(0, &["a"]), &[], &context)
        .await
        .unwrap_err();
    assert_eq!(error.class, Plugin);
    assert!(
        error.message.contains("fresh instance"),
        "{}",
        error.message
    );
    model.query(change(1, &["b"]), &[], &context).await.unwrap();
    let log = bench.log.lock().unwrap();
    assert_eq!(log.discards, 2);
    assert_eq!(log.queries.last().unwrap(), &(0, texts(&["a", "b"])));
}

#[tokio::test]
async fn a_question_does_not_touch_the_history() {
    let server = Server::start(vec![ok("1"), ok("answer"), ok("2"), ok("answer 2")]);
    let bench = Bench::new();
    let mut model = bench.model(&server.url);
    let context = bench.context();
    let question = |text: &str| vec![Message::new("user", text)];
    model.query(change(0, &["a"]), &[], &context).await.unwrap();
    let reply = model.ask(question("why?"), &[], &context).await.unwrap();
    assert_eq!(reply.message.text(), "answer");
    model.query(change(1, &["b"]), &[], &context).await.unwrap();
    model.ask(question("how?"), &[], &context).await.unwrap();
    let log = bench.log.lock().unwrap();
    let expected = [
        (0, texts(&["a"])),
        (0, texts(&["why?"])),
        (1, texts(&["a", "b"])),
        (0, texts(&["how?"])),
    ];
    assert_eq!(log.queries, expected);
}

#[tokio::test]
async fn a_journal_that_fails_ends_the_query() {
    let server = Server::start(vec![Step::Hang]);
    let mut bench = Bench::new();
    bench.recorder = Arc::new(Recorder {
        broken: true,
        ..Recorder::default()
    });
    let error = bench.fails(&server.url).await;
    assert_eq!(error.class, ModelFailure::Journal);
    assert!(error.message.contains("no space left"), "{}", error.message);
    assert!(
        bench.lines().is_empty(),
        "nothing is shown that is not recorded"
    );
}

#[tokio::test]
async fn a_stop_ends_every_wait_at_once() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n";
    for (name, step) in [
        ("head", Step::Slowly(vec![(60_000, head)])),
        ("body", Step::Slowly(vec![(0, head), (60_000, "123456789")])),
        ("adapter", ok("stuck")),
        ("retry", response(429, "retry-after: 300\r\n", "")),
    ] {
        let server = Server::start(vec![step]);
        let bench = Bench::new();
        bench.log.lock().unwrap().stuck = name == "adapter";
        let start = Instant::now();
        let stopping = async {
            until(|| match name {
                "retry" => !bench.recorder.lines.lock().unwrap().is_empty(),
                "head" => server.requests().len() == 1,
                _ => !bench.log.lock().unwrap().heads.is_empty(),
            })
            .await;
            bench.source.stop();
        };
        let (error, ()) = tokio::join!(bench.fails(&server.url), stopping);
        assert_eq!(error.class, ModelFailure::Interrupted, "{name}");
        assert!(start.elapsed() < Duration::from_secs(50), "{name}");
        assert_eq!(bench.log.lock().unwrap().discards, 1, "{name}");
    }
    let bench = Bench::new();
    bench.source.stop();
    let error = bench.fails("http://127.0.0.1:1/").await;
    assert_eq!(error.class, ModelFailure::Interrupted);
    assert!(bench.log.lock().unwrap().queries.is_empty());
}
