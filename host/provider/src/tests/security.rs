//! Grants, secrets and redirects in requests.

use super::*;
use mswea_core::{ErrorClass, ModelFailure};

use super::server::{Server, Step, ok, response};

#[tokio::test]
async fn a_host_without_a_grant_sees_nothing() {
    let server = Server::start(vec![ok("never")]);
    let mut bench = Bench::new();
    bench.environment = environment(&[("KEY", "sk-hidden")]);
    bench.secret = Some("KEY");
    bench.grants.hosts = vec!["api.example.com".parse().unwrap()];
    let error = bench.fails(&server.url).await;
    assert_eq!(error.class, ModelFailure::Refused);
    assert!(
        error
            .message
            .contains("[plugins.fake]\nallow_hosts = [\"127.0.0.1:"),
        "{error}"
    );
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_granted_secret_reaches_a_granted_host() {
    let server = Server::start(vec![ok("done")]);
    let mut bench = Bench::new();
    bench.environment = environment(&[("KEY", "sk-hidden")]);
    bench.secret = Some("KEY");
    bench.query(&server.url).await.unwrap();
    assert!(server.requests()[0].contains("authorization: Bearer sk-hidden\r\n"));
}

#[tokio::test]
async fn a_missing_secret_is_named_before_anything_is_sent() {
    let server = Server::start(vec![ok("never")]);
    let mut bench = Bench::new();
    bench.secret = Some("KEY");
    let error = bench.fails(&server.url).await;
    assert_eq!(error.class, ErrorClass::Authentication);
    assert_eq!(
        error.message,
        "no API key: set the environment variable `KEY`, or write `KEY=...` into a file (mode \
         0600) that `model.secrets_file` names"
    );
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_key_that_a_server_repeats_is_redacted() {
    for (status, class) in [
        (401, ErrorClass::Authentication),
        (429, ErrorClass::RateLimited),
    ] {
        let steps = (0..2).map(|_| response(status, "", "bad key sk-hidden"));
        let server = Server::start(steps.collect());
        let mut bench = Bench::new();
        bench.settings.rate_limit_retries = 1;
        bench.environment = environment(&[("KEY", "sk-hidden")]);
        bench.secret = Some("KEY");
        let error = bench.fails(&server.url).await;
        assert_eq!(error.class, class);
        assert!(error.message.contains("bad key [KEY]"), "{error}");
        if status == 401 {
            assert!(
                error.message.ends_with("(the key is the value of `KEY`)"),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn a_key_that_is_cut_on_its_way_is_redacted() {
    // The adapter repeats 40 characters.
    for (padding, expected) in [
        (20, "[KEY]…"),
        (29, "[KEY]…"),
        (33, "[KEY]…"),
        (34, "sk-hi…"),
    ] {
        let body = format!("{}sk-hidden-and-long-enough", " ".repeat(padding + 1));
        let server = Server::start(vec![response(401, "", &body)]);
        let mut bench = Bench::new();
        bench.environment = environment(&[("KEY", "sk-hidden-and-long-enough")]);
        bench.secret = Some("KEY");
        let error = bench.fails(&server.url).await;
        assert!(error.message.contains(&format!(" {expected}")), "{error}");
    }
}

/// What may be the beginning of a key does not wait for longer than its text.
#[tokio::test]
async fn what_looks_like_a_key_is_shown_in_its_place() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (pieces, is_whole, expected) in [
        (
            vec!["6\r\na sk-h\r\n"],
            false,
            &["delta a ", "delta sk-h"][..],
        ),
        (
            vec!["6\r\n?sk-hi\r\n", "1\r\na\r\n", "2\r\n?d\r\n", "0\r\n\r\n"],
            true,
            &["delta ?", "delta sk-hi", "delta a", "delta ?d"],
        ),
        (
            vec!["9\r\n?sk-hidde\r\n", "1\r\na\r\n", "0\r\n\r\n"],
            true,
            &["delta ?", "delta [KEY]", "delta a"],
        ),
    ] {
        let steps = std::iter::once((0, HEAD)).chain(pieces.into_iter().map(|piece| (30, piece)));
        let server = Server::start(vec![Step::Slowly(steps.collect())]);
        let mut bench = Bench::new();
        bench.settings.network_retries = 0;
        bench.environment = environment(&[("KEY", "sk-hidden")]);
        bench.secret = Some("KEY");
        assert_eq!(bench.query(&server.url).await.is_ok(), is_whole);
        assert_eq!(bench.lines(), expected);
    }
}

#[tokio::test]
async fn a_key_is_named_once() {
    for (body, times) in [("the key in `KEY`", 1), ("the key", 1)] {
        let server = Server::start(vec![response(401, "", body)]);
        let mut bench = Bench::new();
        bench.environment = environment(&[("KEY", "sk-hidden")]);
        bench.secret = Some("KEY");
        let error = bench.fails(&server.url).await;
        assert_eq!(error.message.matches("`KEY`").count(), times, "{error}");
    }
}

#[tokio::test]
async fn redirects() {
    let elsewhere = Server::start(vec![ok("never")]);
    // other origin, method that would change, missing target, same origin
    for (method, status, location, followed) in [
        ("POST", 307, elsewhere.url.as_str(), false),
        ("GET", 302, elsewhere.url.as_str(), false),
        ("POST", 308, "https://example.com/v1", false),
        ("POST", 301, "/v2", false),
        ("POST", 303, "/v2", false),
        ("POST", 307, "http://u:p@127.0.0.1/v2", false),
        ("POST", 307, "/v2", true),
        ("POST", 308, "v2", true),
        ("GET", 301, "/v2", true),
        ("GET", 303, "/v2", true),
    ] {
        let header = format!("location: {location}\r\n");
        let server = Server::start(vec![response(status, &header, ""), ok("there")]);
        let mut bench = Bench::new();
        bench.method = method;
        bench.environment = environment(&[("KEY", "sk-hidden")]);
        bench.secret = Some("KEY");
        let outcome = bench.query(&server.url).await;
        if followed {
            assert_eq!(
                outcome.unwrap().message.text(),
                "there",
                "{method} {status}"
            );
            let second = &server.requests()[1];
            assert!(second.starts_with(&format!("{method} /v2 ")), "{second}");
            assert!(
                second.ends_with("\r\n\r\nhi") && second.contains("sk-hidden"),
                "{second}"
            );
        } else {
            let error = outcome.unwrap_err();
            let origin = server.url.trim_end_matches("/v1");
            let start = format!("`{origin}` redirects (status {status}) to `http");
            assert!(error.message.starts_with(&start), "{error}");
            let end = "which is not followed: if that is the right address, set `--base-url` \
                       accordingly";
            assert!(error.message.ends_with(end), "{error}");
            assert_eq!(bench.log.lock().unwrap().heads[0].0, status);
            assert_eq!(server.requests().len(), 1);
        }
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_loop_ends() {
    let steps = (0..9).map(|_| response(307, "location: /v1\r\n", ""));
    let server = Server::start(steps.collect());
    let error = Bench::new().fails(&server.url).await;
    assert_eq!(error.class, ErrorClass::Network);
    assert!(error.message.contains("more than 5 times"), "{error}");
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn a_redirect_without_a_grant_for_its_port_is_not_followed() {
    let elsewhere = Server::start(vec![Step::Hang]);
    let header = format!("location: {}\r\n", elsewhere.url);
    let server = Server::start(vec![response(307, &header, "")]);
    let mut bench = Bench::new();
    let own: url::Url = server.url.parse().unwrap();
    bench.grants.hosts = vec![super::super::HostPattern::of_url(&own).unwrap()];
    let error = bench.fails(&server.url).await;
    assert_eq!(error.class, ErrorClass::BadRequest);
    assert!(elsewhere.requests().is_empty());
}
