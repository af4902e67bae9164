//! Failures of connections and responses, and their messages.

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::*;
use mswea_core::ErrorClass;

use super::server::{Server, Step, ok, read_request, response};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n";

/// No retries, so that each fault is seen once.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.settings.network_retries = 0;
    bench.settings.rate_limit_retries = 0;
    bench
}

#[tokio::test]
async fn each_fault_has_its_class_and_words() {
    use ErrorClass::{MalformedResponse, Network, Timeout};
    let flood = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";
    for (step, class, part) in [
        (
            Step::Hang,
            Network,
            "closed the connection without a response",
        ),
        (
            Step::Say(Vec::new()),
            Network,
            "closed the connection without a response",
        ),
        (
            Step::Say(b"HTTP/1.1 200 OK\r\nx".to_vec()),
            Network,
            "closed the connection without",
        ),
        (
            Step::Say(format!("{HEAD}half").into()),
            Network,
            "in the middle of the response",
        ),
        (
            Step::Say(CHUNKED.into()),
            Network,
            "in the middle of the response",
        ),
        (
            Step::Say(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec()),
            MalformedResponse,
            "does not answer in HTTP",
        ),
        (
            Step::Say(b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nx".to_vec()),
            MalformedResponse,
            "does not answer in HTTP",
        ),
        (
            Step::Flood(flood),
            MalformedResponse,
            "`model.max_response_bytes`",
        ),
        (
            Step::Say(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n".to_vec()),
            MalformedResponse,
            "larger than 100000 bytes",
        ),
        (
            Step::Slowly(vec![(3000, HEAD)]),
            Timeout,
            "`model.first_byte_timeout`",
        ),
        (
            Step::Slowly(vec![(0, CHUNKED), (3000, "0\r\n\r\n")]),
            Timeout,
            "`model.idle_timeout`",
        ),
    ] {
        let server = Server::start(vec![step]);
        let mut bench = bench();
        bench.settings.max_response_bytes = 100_000;
        // Short only where it has to expire: the machine may be busy.
        let limit = |key| Limit {
            time: Duration::from_millis(100),
            key,
        };
        if part.contains("first_byte") {
            bench.settings.first_byte_timeout = Some(limit("model.first_byte_timeout"));
        } else if part.contains("idle") {
            bench.settings.idle_timeout = Some(limit("model.idle_timeout"));
        }
        let error = bench.fails(&server.url).await;
        assert_eq!(error.class, class, "{part}: {}", error.message);
        assert!(error.message.contains(part), "{}", error.message);
        let origin = server.url.trim_end_matches("/v1");
        assert!(error.message.contains(origin), "{}", error.message);
    }
}

#[tokio::test]
async fn a_trickle_ends_with_the_total_timeout() {
    let mut pieces = vec![(0, CHUNKED)];
    pieces.extend(std::iter::repeat_n((30, "1\r\na\r\n"), 100));
    let server = Server::start(vec![Step::Slowly(pieces)]);
    let mut bench = bench();
    bench.settings.total_timeout.time = Duration::from_millis(150);
    let start = Instant::now();
    let error = bench.fails(&server.url).await;
    assert_eq!(error.class, ErrorClass::Timeout);
    assert!(
        error.message.contains("`model.total_timeout`"),
        "{}",
        error.message
    );
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn a_response_over_the_cap_is_not_asked_for_again() {
    let server = Server::start(vec![ok("0123456789"), ok("short")]);
    let mut bench = Bench::new();
    bench.settings.max_response_bytes = 9;
    let error = bench.fails(&server.url).await;
    assert_eq!(error.class, ErrorClass::MalformedResponse);
    assert_eq!(server.requests().len(), 1);
    bench.settings.max_response_bytes = 5;
    assert!(bench.query(&server.url).await.is_ok());
}

#[tokio::test]
async fn nothing_listens() {
    // The port is that of a connection's own end, so no other process gets it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let held = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let port = held.local_addr().unwrap().port();
    let mut bench = Bench::new();
    for (budget, is_patient, attempts, lines) in [
        (9, false, "2 attempts", 2),
        (0, false, "1 attempt", 0),
        // The user set the number of retries.
        (3, true, "4 attempts", 6),
    ] {
        bench.settings.network_retries = budget;
        bench.settings.is_patient = is_patient;
        let error = bench.fails(&format!("http://127.0.0.1:{port}/v1")).await;
        assert_eq!(error.class, ErrorClass::Network);
        let start = format!(
            "nothing listens at `http://127.0.0.1:{port}`: is the server running? check \
             `--base-url` (gave up after {attempts} over "
        );
        assert!(error.message.starts_with(&start), "{}", error.message);
        assert_eq!(bench.lines().len(), lines);
    }
}

#[tokio::test]
async fn a_server_that_is_about_to_listen_is_found() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let mut bench = Bench::new();
    bench.settings.retry_wait = Duration::from_secs(2);
    bench.settings.max_wait = Duration::from_secs(2);
    let starting = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        std::thread::spawn(move || {
            use std::io::Write;
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&mut stream);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nup");
        });
    };
    let url = format!("http://127.0.0.1:{port}/v1");
    let (reply, ()) = tokio::join!(bench.query(&url), starting);
    assert_eq!(reply.unwrap().message.text(), "up");
    assert_eq!(
        bench.lines(),
        [
            "journal retry 1 network",
            "retrying 1/1 network",
            "delta up"
        ]
    );
}

/// Answers `up` on one connection, is down until the client has been refused `refusals` times, and
/// then answers once more.
fn restarting(refusals: usize, recorder: Arc<Recorder>) -> String {
    use std::io::Write;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut listener = Some(listener);
        for _ in 0..2 {
            let (mut stream, _) = match listener.take() {
                Some(listener) => listener.accept().unwrap(),
                None => {
                    let refused = || {
                        let lines = recorder.lines.lock().unwrap();
                        let retries = lines.iter().filter(|line| line.starts_with("retrying"));
                        retries.count()
                    };
                    while refused() < refusals {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    TcpListener::bind(address).unwrap().accept().unwrap()
                }
            };
            read_request(&mut stream);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nup");
        }
    });
    format!("http://{address}/v1")
}

/// In the middle of a run, no server listens for a while.
#[tokio::test]
async fn a_server_that_restarts_is_waited_for() {
    for (budget, refusals, survives) in [(9, 6, true), (2, 3, false)] {
        let mut bench = Bench::new();
        bench.settings.network_retries = budget;
        bench.settings.retry_wait = Duration::from_millis(20);
        bench.settings.max_wait = Duration::from_secs(2);
        let url = restarting(refusals, bench.recorder.clone());
        let mut model = bench.model(&url);
        let change = |start| Change {
            start,
            messages: vec![Message::new("user", "hi").into()],
        };
        let context = bench.context();
        let first = model.query(change(0), &[], &context).await.unwrap();
        assert_eq!(first.message.text(), "up");
        let second = model.query(change(1), &[], &context).await;
        assert_eq!(second.is_ok(), survives, "{second:?}");
        if let Err(error) = second {
            for part in ["nothing listens at", "`model.network_retries` is 2"] {
                assert!(error.message.contains(part), "{error}");
            }
        }
    }
}

/// A failure that a wrong address would explain is retried like a temporary one, once a reply has
/// come from the address.
#[tokio::test]
async fn a_server_that_has_answered_is_asked_again_whatever_it_says() {
    let page = "<title>Restarting</title>";
    let server = Server::start(vec![
        ok("one"),
        ok(page),
        Step::Say(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec()),
        ok("garbled"),
        response(999, "", "garbled"),
        response(200, "content-encoding: br\r\n", "?"),
        ok(page),
        ok("garbled"),
        ok("two"),
    ]);
    let bench = Bench::new();
    let mut model = bench.model(&server.url);
    for (start, expected) in [(0, "one"), (1, "two")] {
        let change = Change {
            start,
            messages: vec![Message::new("user", "hi").into()],
        };
        let reply = model.query(change, &[], &bench.context()).await.unwrap();
        assert_eq!(reply.message.text(), expected);
    }
}

#[tokio::test]
async fn a_packed_answer_is_unpacked() {
    let packed = |coding: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Step::Say([head.as_bytes(), body].concat())
    };
    let deflated = miniz_oxide::deflate::compress_to_vec_zlib(b"whole", 6);
    let server = Server::start(vec![
        packed("deflate", &deflated),
        packed("deflate", &deflated[..9]),
        packed("gzip", b"plain after all"),
        packed("deflate", &deflated),
    ]);
    let bench = Bench::new();
    for _ in 0..2 {
        let reply = bench.query(&server.url).await.unwrap();
        assert_eq!(reply.message.text(), "whole");
    }
    assert_eq!(
        bench
            .lines()
            .iter()
            .filter(|line| line.starts_with("journal"))
            .count(),
        2,
        "torn, and no gzip"
    );
    let heads = std::mem::take(&mut bench.log.lock().unwrap().heads);
    let mut headers = heads.iter().flat_map(|(_, headers)| headers);
    assert!(
        !headers.any(|(name, _)| name.starts_with("content-")),
        "{heads:?}"
    );

    let server = Server::start(vec![packed("br", b"?"), ok("never")]);
    let error = bench.fails(&server.url).await;
    assert_eq!(error.class, ErrorClass::MalformedResponse);
    assert!(
        error.message.contains("compresses its response as `br`"),
        "{error}"
    );

    let bomb = miniz_oxide::deflate::compress_to_vec_zlib(&vec![b'x'; 1 << 20], 6);
    let server = Server::start(vec![packed("deflate", &bomb)]);
    let mut bench = Bench::new();
    bench.settings.max_response_bytes = 100_000;
    let error = bench.fails(&server.url).await;
    assert!(
        error.message.contains("larger than 100000 bytes"),
        "{error}"
    );
}

#[tokio::test]
async fn a_wrong_address_is_not_asked_again() {
    let ssh = || Step::Say(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec());
    let page = " \n<!doctype html><title>Welcome</title>";
    for (steps, part) in [
        ([ssh(), ssh()], "does not answer in HTTP"),
        ([ok(page), ok(page)], "Welcome"),
    ] {
        let server = Server::start(steps.into());
        let bench = Bench::new();
        let error = bench.fails(&server.url).await;
        assert_eq!(error.class, ErrorClass::MalformedResponse);
        assert!(error.message.contains(part), "{error}");
        assert_eq!(server.requests().len(), 1, "{part}");
        assert!(!bench.lines().iter().any(|line| line.contains("retry")));
    }
    // A proxy's page while the server behind it restarts.
    let server = Server::start(vec![response(502, "", page), ok("done")]);
    assert!(Bench::new().query(&server.url).await.is_ok());
}

#[tokio::test]
async fn a_name_that_does_not_exist() {
    let mut bench = bench();
    bench.grants.hosts = vec!["*.invalid".parse().unwrap()];
    let error = bench.fails("http://api.invalid/v1?key=hidden").await;
    assert_eq!(error.class, ErrorClass::Network);
    assert!(
        error
            .message
            .contains("`http://api.invalid` could not be resolved"),
        "{}",
        error.message
    );
    assert!(!error.message.contains("hidden"), "{}", error.message);
}

#[tokio::test]
async fn a_server_that_comes_back_is_found() {
    let server = Server::start(vec![
        Step::Hang,
        Step::Say(format!("{HEAD}half").into()),
        ok("garbled"),
        ok("done"),
    ]);
    let reply = Bench::new().query(&server.url).await.unwrap();
    assert_eq!(reply.message.text(), "done");
}
