//! The requests that a server refuses, and the resources that a client can occupy.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::*;

/// Sends bytes, and returns what comes until the server closes the connection or says nothing for
/// `patience`.
fn say(served: &Served, bytes: &[u8], patience: Duration) -> String {
    let mut stream = TcpStream::connect(served.address()).unwrap();
    stream.set_read_timeout(Some(patience)).unwrap();
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// A request with the token; returns the status and the body.
fn ask(served: &Served, method: &str, path: &str, body: &[u8]) -> (u16, String) {
    ask_with(
        served,
        &format!("Authorization: Bearer {TOKEN}\r\n"),
        method,
        path,
        body,
    )
}

fn ask_with(
    served: &Served,
    headers: &str,
    method: &str,
    path: &str,
    body: &[u8],
) -> (u16, String) {
    let length = body.len();
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    )
    .into_bytes();
    request.extend_from_slice(body);
    let answer = say(served, &request, Duration::from_secs(5));
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status.unwrap_or(0), body.to_owned())
}

fn session(served: &Served) -> String {
    let (status, body) = ask(served, "POST", "/v1/sessions", b"");
    assert_eq!(status, 201, "{body}");
    let (_, rest) = body.split_once("\"id\":\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

#[test]
fn every_request_needs_the_token() {
    let served = Served::start();
    let id = session(&served);
    let output = format!("/v1/sessions/{id}/output?from=0");
    let input = format!("/v1/sessions/{id}/input?at=0");
    let own = format!("/v1/sessions/{id}");
    let wrong = format!("Bearer {}", TOKEN.replace('f', "e"));
    for (method, path) in [
        ("GET", "/v1/alive"),
        ("POST", "/v1/sessions"),
        ("GET", &output),
        ("POST", &input),
        ("DELETE", &own),
        ("GET", "/"),
        ("GET", "/nothing"),
    ] {
        for header in [
            "",
            "Bearer",
            "Bearer ",
            TOKEN,
            &format!("Basic {TOKEN}"),
            &wrong,
        ] {
            let headers = format!("Authorization: {header}\r\n");
            let (status, body) = ask_with(&served, &headers, method, path, b"");
            assert_eq!(
                (status, body.as_str()),
                (401, "{\"message\":\"unauthorized\"}"),
                "{method} {path} {header}"
            );
        }
    }
    // The session has noticed nothing.
    assert_eq!(ask(&served, "POST", &input, b"").0, 200);
    assert_eq!(ask(&served, "DELETE", &own, b"").0, 200);
}

#[test]
fn requests_have_to_make_sense() {
    let served = Served::start();
    let id = session(&served);
    let of = |rest: &str| format!("/v1/sessions/{id}/{rest}");
    let large = vec![b'x'; (1 << 20) + 1];
    let none = "/v1/sessions/00/output?from=0";
    for (method, path, body, status) in [
        ("GET", "/v1/alive".to_owned(), &b""[..], 200),
        ("PUT", "/v1/alive".to_owned(), b"", 404),
        ("GET", "/v2/alive".to_owned(), b"", 404),
        ("GET", none.to_owned(), b"", 404),
        ("GET", of("output"), b"", 400),
        ("GET", of("output?from=x"), b"", 400),
        ("GET", of("output?from=-1"), b"", 400),
        ("GET", of("output?from=99999999"), b"", 416),
        ("POST", of("input"), b"", 400),
        ("POST", of("input?at=1"), b"", 409),
        ("POST", of("input?at=1"), b"x", 409),
        ("POST", of("input?at=0&seen=99999999"), b"", 416),
        ("POST", of("input?at=18446744073709551615"), b"x", 409),
        ("POST", of("input?at=0"), &large, 413),
    ] {
        let (found, text) = ask(&served, method, &path, body);
        assert_eq!(found, status, "{method} {path}: {text}");
    }
}

#[test]
fn sessions_and_connections_have_limits() {
    let served = Served::with(|it| {
        it.max_sessions = 2;
        it.max_connections = 3;
    });
    let first = session(&served);
    let _second = session(&served);
    let (status, body) = ask(&served, "POST", "/v1/sessions", b"");
    assert_eq!(status, 429, "{body}");
    assert!(body.contains("--max-sessions"), "{body}");
    ask(&served, "DELETE", &format!("/v1/sessions/{first}"), b"");
    let _third = session(&served);
    // Connections that say nothing take no places of others, however many there are.
    let silent: Vec<_> = (0..400)
        .map(|_| TcpStream::connect(served.address()).unwrap())
        .collect();
    assert_eq!(ask(&served, "GET", "/v1/alive", b"").0, 200);
    drop(silent);
    // Clients that have shown the token keep their places until they end.
    let request =
        format!("GET /v1/alive HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    let held: Vec<_> = (0..3)
        .map(|_| {
            let mut held = TcpStream::connect(served.address()).unwrap();
            held.write_all(request.as_bytes()).unwrap();
            let mut first = [0; 12];
            held.read_exact(&mut first).unwrap();
            assert_eq!(&first, b"HTTP/1.1 200");
            held
        })
        .collect();
    let (status, body) = ask(&served, "GET", "/v1/alive", b"");
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("--max-connections"), "{body}");
    drop(held);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(ask(&served, "GET", "/v1/alive", b"").0, 200);
}

#[test]
fn a_slow_client_is_cut_off() {
    let served = Served::start();
    let asked = Instant::now();
    let patience = Duration::from_secs(40);
    let (none, part, idle) = std::thread::scope(|scope| {
        let none = scope.spawn(|| say(&served, b"", patience));
        let part = scope.spawn(|| {
            say(
                &served,
                b"GET /v1/alive HTTP/1.1\r\nHost: h\r\nX: ",
                patience,
            )
        });
        let idle = scope.spawn(|| {
            let request = format!(
                "GET /v1/alive HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            );
            say(&served, request.as_bytes(), patience)
        });
        (
            none.join().unwrap(),
            part.join().unwrap(),
            idle.join().unwrap(),
        )
    });
    assert!(
        asked.elapsed() < Duration::from_secs(25),
        "{:?}",
        asked.elapsed()
    );
    assert!(
        !none.contains("200") && !part.contains("200"),
        "{none} {part}"
    );
    assert!(idle.starts_with("HTTP/1.1 200"), "{idle}");
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    let answer = say(&served, long.as_bytes(), patience);
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[test]
fn a_session_without_its_client_ends_with_all_its_processes() {
    let served = Served::with(|it| it.keep = Duration::from_secs(2));
    let nap = nap();
    let runtime = runtime();
    runtime.block_on(async {
        let mut executor = started(&served.url, settings()).await;
        let command = format!("setsid sleep {nap} >/dev/null 2>&1 &");
        text(&mut *executor, &command).await;
        // Longer than the server waits for a client that says nothing.
        tokio::time::sleep(Duration::from_secs(4)).await;
        begun(&nap).await;
        // A client that is killed says no farewell.
        std::mem::forget(executor);
    });
    let sessions = |count: u32| {
        let (_, state) = ask(&served, "GET", "/v1/alive", b"");
        state.contains(&format!("\"sessions\":{count}"))
    };
    assert!(sessions(1));
    runtime.shutdown_background();
    super::runtime().block_on(gone(&nap, Duration::from_secs(6)));
    assert!(sessions(0));
}

#[test]
fn a_server_that_ends_takes_everything_along() {
    let mut served = Served::start();
    let nap = nap();
    runtime().block_on(async {
        let mut executor = started(&served.url, settings()).await;
        text(
            &mut *executor,
            &format!("setsid sleep {nap} >/dev/null 2>&1 &"),
        )
        .await;
        begun(&nap).await;
        std::mem::forget(executor);
    });
    served.end();
    assert_eq!(running(&nap), 0);
}
