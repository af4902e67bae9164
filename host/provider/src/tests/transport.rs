//! TLS, proxies and connection reuse.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::*;
use mswea_core::ErrorClass;

use super::server::{Server, Step, ok, read_request};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n";

/// Speaks TLS with the certificate in `server.pem` for `localhost`, signed by the authority in
/// `ca.pem`.
fn tls_step(body: &'static str) -> Step {
    tls_step_with(include_bytes!("server.pem"), body)
}

/// Speaks TLS with this certificate, whose key is `server.key`.
fn tls_step_with(certificate: &'static [u8], body: &'static str) -> Step {
    Step::Custom(Box::new(move |mut stream: TcpStream| {
        let mut session = tls_session(certificate, &[]);
        let mut tls = rustls::Stream::new(&mut session, &mut stream);
        let request = read_request(&mut tls);
        if !request.is_empty() {
            assert!(
                request.contains("authorization: Bearer sk-hidden\r\n"),
                "{request}"
            );
            let _ = tls.write_all(format!("{OK}{body}").as_bytes());
            tls.conn.send_close_notify();
            let _ = tls.flush();
        }
    }))
}

fn tls_session(certificate: &[u8], protocols: &[&[u8]]) -> rustls::ServerConnection {
    let certificates = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    rustls::ServerConnection::new(Arc::new(config)).unwrap()
}

/// Speaks HTTP/2; answers each request with these frames, until the client is gone.
fn http2_step(frames: Vec<Vec<u8>>) -> Step {
    Step::Custom(Box::new(move |mut stream: TcpStream| {
        let mut session = tls_session(include_bytes!("server.pem"), &[b"h2"]);
        let mut tls = rustls::Stream::new(&mut session, &mut stream);
        tls.read_exact(&mut [0; 24]).unwrap();
        tls.write_all(&frame(4, 0, 0, &[])).unwrap();
        let mut head = [0; 9];
        while tls.read_exact(&mut head).is_ok() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let _ = tls.read_exact(&mut vec![0; length as usize]);
            if head[3] == 1 {
                for mut frame in frames.clone() {
                    if frame[8] > 0 {
                        frame[8] = head[8];
                    }
                    let _ = tls.write_all(&frame);
                }
            }
        }
    }))
}

/// A frame of HTTP/2 for the connection (0) or the stream of the request.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let head = [0, 0, length, kind, flags, 0, 0, 0, stream];
    [&head[..], payload].concat()
}

#[tokio::test]
async fn an_http2_stream_that_ends_says_how_and_whether_it_may_have_begun() {
    let reset = |reason| frame(3, 0, 1, &[0, 0, 0, reason]);
    // `:status: 200`
    let head = frame(1, 4, 1, &[0x88]);
    let begun = "may have begun";
    for (frames, parts) in [
        (vec![reset(2)], ["stream error", "internal error", begun]),
        (vec![reset(8)], ["stream error", "no longer needed", begun]),
        (
            vec![frame(7, 0, 0, b"\0\0\0\0\0\0\0\x0bslow down")],
            ["excessive load", "slow down", begun],
        ),
        (vec![reset(7)], ["stream error", "refused", "has not begun"]),
        // A text of the server decides nothing.
        (
            vec![frame(7, 0, 0, b"\0\0\0\0\0\0\0\x0brefused stream")],
            ["excessive load", "refused stream", begun],
        ),
        (
            vec![frame(
                7,
                0,
                0,
                &[b"\0\0\0\0\0\0\0\x0b".as_slice(), &[b'a'; 240]].concat(),
            )],
            ["excessive load", "aaa...)", begun],
        ),
        (
            vec![head, frame(0, 0, 1, b"a"), reset(2)],
            ["in the middle of the response", "stream error", "internal"],
        ),
    ] {
        // The client repeats a refused request by itself.
        let server = Server::start((0..4).map(|_| http2_step(frames.clone())).collect());
        let (mut bench, _ca) = bench(&[]);
        bench.settings.network_retries = 0;
        let error = bench.fails(&https(&server, "localhost")).await;
        assert_eq!(error.class, ErrorClass::Network);
        for part in parts {
            assert!(error.message.contains(part), "{part}: {error}");
        }
        assert!(!error.message.contains("could not be sent"), "{error}");
    }
}

fn bench(variables: &[(&str, &str)]) -> (Bench, tempfile::NamedTempFile) {
    let mut ca = tempfile::NamedTempFile::new().unwrap();
    ca.write_all(include_bytes!("ca.pem")).unwrap();
    let mut bench = Bench::new();
    let mut all = vec![
        ("KEY", "sk-hidden"),
        ("SSL_CERT_FILE", ca.path().to_str().unwrap()),
    ];
    all.extend_from_slice(variables);
    bench.environment = environment(&all);
    bench.secret = Some("KEY");
    bench.settings.network_retries = 1;
    (bench, ca)
}

fn https(server: &Server, host: &str) -> String {
    server
        .url
        .replace("http://127.0.0.1", &format!("https://{host}"))
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_reply_that_ends_before_its_body() {
    let server = Server::start(vec![Step::Custom(Box::new(|mut stream: TcpStream| {
        for _ in 0..2 {
            read_request(&mut stream);
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\na<end>\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(30));
            stream.write_all(b"0\r\n\r\n").unwrap();
        }
    }))]);
    let bench = Bench::new();
    let mut model = bench.model(&server.url);
    for start in 0..2 {
        let messages = vec![Message::new("user", "a").into()];
        let change = Change { start, messages };
        model.query(change, &[], &bench.context()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn https_with_an_authority_of_ones_own() {
    let server = Server::start(vec![tls_step("safe")]);
    let (bench, _ca) = bench(&[]);
    let reply = bench.query(&https(&server, "localhost")).await.unwrap();
    assert_eq!(reply.message.text(), "safe");
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for() {
    let server = Server::start(vec![tls_step("never"), tls_step("never")]);
    let (mut bench, _ca) = bench(&[]);
    // the system's authorities do not include the test's
    bench.environment = environment(&[("KEY", "sk-hidden")]);
    let error = bench.fails(&https(&server, "localhost")).await;
    assert_eq!(error.class, ErrorClass::Network);
    for part in ["certificate of `https://localhost:", "`SSL_CERT_FILE`"] {
        assert!(error.message.contains(part), "{error}");
    }
    assert!(bench.lines().is_empty(), "it would be refused again");
}

/// A certificate as `openssl req -x509` makes it for one machine: its own authority, used by the
/// server and named by the user.
#[tokio::test]
async fn a_certificate_that_is_its_own_authority() {
    let own = include_bytes!("own.pem");
    let expired = include_bytes!("own_expired.pem");
    let ca = include_bytes!("ca.pem");
    for (shown, named, host, refusal) in [
        (&own[..], &[&own[..]][..], "localhost", None),
        (&own[..], &[&ca[..], &own[..]], "localhost", None),
        (&own[..], &[&ca[..]], "localhost", Some("`SSL_CERT_FILE`")),
        (
            &own[..],
            &[&own[..]],
            "[::ffff:127.0.0.1]",
            Some("`subjectAltName`"),
        ),
        (&expired[..], &[&expired[..]], "localhost", Some("clock")),
        // With the same key and name, but another certificate than the one that was named.
        (&expired[..], &[&own[..]], "localhost", Some("clock")),
    ] {
        let server = Server::start(vec![tls_step_with(shown, "safe")]);
        let (mut bench, mut ca) = bench(&[]);
        ca.as_file_mut().set_len(0).unwrap();
        let mut file = std::fs::File::create(ca.path()).unwrap();
        file.write_all(&named.concat()).unwrap();
        bench
            .grants
            .hosts
            .push("[::ffff:127.0.0.1]".parse().unwrap());
        let outcome = bench.query(&https(&server, host)).await;
        match refusal {
            None => assert_eq!(outcome.unwrap().message.text(), "safe"),
            Some(part) => {
                let error = outcome.unwrap_err();
                assert!(error.message.contains(part), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_certificate_for_another_host() {
    let server = Server::start(vec![tls_step("never")]);
    let (mut bench, _ca) = bench(&[]);
    // the same server by a name that the certificate lacks
    bench
        .grants
        .hosts
        .push("[::ffff:127.0.0.1]".parse().unwrap());
    let error = bench.fails(&https(&server, "[::ffff:127.0.0.1]")).await;
    assert_eq!(error.class, ErrorClass::Network);
    assert!(error.message.contains("is not accepted"), "{error}");
    assert!(!error.message.contains("SSL_CERT_FILE"), "{error}");
}

#[tokio::test]
async fn https_to_a_server_without_tls() {
    let server = Server::start(vec![Step::Custom(Box::new(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        std::thread::sleep(Duration::from_millis(50));
    }))]);
    let (bench, _ca) = bench(&[]);
    let error = bench.fails(&https(&server, "localhost")).await;
    assert!(error.message.contains("does not speak TLS"), "{error}");
}

#[tokio::test]
async fn certificates_that_do_not_exist() {
    let (mut bench, _ca) = bench(&[]);
    bench.environment = environment(&[("KEY", "sk-hidden"), ("SSL_CERT_FILE", "/nonexistent")]);
    let error = bench.fails("https://localhost:9/").await;
    assert!(
        error
            .message
            .contains("`/nonexistent`, which `SSL_CERT_FILE`"),
        "{error}"
    );
}

#[tokio::test]
async fn a_proxy_is_used_and_named() {
    // plain http: the proxy gets the whole URL
    let proxy = Server::start(vec![ok("proxied"), Step::Hang, Step::Hang]);
    let address = proxy
        .url
        .replace("/v1", "")
        .replace("http://", "http://me:hidden@");
    let mut bench = Bench::new();
    bench.grants.hosts = vec!["a.invalid".parse().unwrap()];
    bench.environment = environment(&[("http_proxy", &address), ("HTTPS_PROXY", &address)]);
    let reply = bench.query("http://a.invalid/v1").await.unwrap();
    assert_eq!(reply.message.text(), "proxied");
    let request = &proxy.requests()[0];
    assert!(
        request.starts_with("POST http://a.invalid/v1 HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(request.contains("proxy-authorization: Basic "), "{request}");

    // https: a tunnel, which this proxy refuses
    bench.settings.network_retries = 0;
    let error = bench.fails("https://a.invalid/v1").await;
    assert_eq!(error.class, ErrorClass::Network);
    for part in [
        "the proxy `http://127.0.0.1:",
        "(from `HTTPS_PROXY`)",
        "`NO_PROXY`",
    ] {
        assert!(error.message.contains(part), "{error}");
    }
    assert!(!error.message.contains("hidden"), "{error}");
}

#[tokio::test]
async fn a_local_server_is_reached_past_the_proxy() {
    let server = Server::start(vec![ok("direct")]);
    let mut bench = Bench::new();
    bench.environment = environment(&[("ALL_PROXY", "http://127.0.0.1:1")]);
    assert_eq!(
        bench.query(&server.url).await.unwrap().message.text(),
        "direct"
    );
    bench.grants.hosts = vec!["a.invalid".parse().unwrap()];
    bench.environment = environment(&[("ALL_PROXY", "nonsense://x")]);
    let error = bench.fails("http://a.invalid/").await;
    assert!(
        error.message.contains("`ALL_PROXY` is not a proxy address"),
        "{error}"
    );
}

#[tokio::test]
async fn one_connection_serves_many_queries() {
    let server = Server::start(vec![Step::Custom(Box::new(|mut stream| {
        for _ in 0..3 {
            assert!(read_request(&mut stream).starts_with("POST "));
            stream.write_all(format!("{OK}same").as_bytes()).unwrap();
        }
    }))]);
    let bench = Bench::new();
    let mut model = bench.model(&server.url);
    for _ in 0..3 {
        let change = Change::all(vec![Message::new("user", "hi")]);
        let reply = model.query(change, &[], &bench.context()).await.unwrap();
        assert_eq!(reply.message.text(), "same");
    }
    assert!(bench.lines().iter().all(|line| !line.contains("retry")));
}

#[tokio::test]
async fn plain_http_loads_no_certificates() {
    let server = Server::start(vec![ok("done")]);
    let mut bench = Bench::new();
    bench.environment = environment(&[("SSL_CERT_FILE", "/nonexistent")]);
    assert!(bench.query(&server.url).await.is_ok());
}

/// A server may close a connection that is idle at any time, also while a request is on its way.
#[tokio::test]
async fn a_request_on_a_connection_that_was_closed_is_sent_again_at_once() {
    let closes = |answers: usize| {
        Step::Custom(Box::new(move |mut stream: TcpStream| {
            for _ in 0..answers {
                read_request(&mut stream);
                stream.write_all(format!("{OK}same").as_bytes()).unwrap();
            }
            read_request(&mut stream);
        }))
    };
    let server = Server::start(vec![closes(1), closes(1), closes(1), closes(1)]);
    let mut bench = Bench::new();
    bench.settings.network_retries = 0;
    let mut model = bench.model(&server.url);
    let mut query = async || {
        let change = Change::all(vec![Message::new("user", "hi")]);
        model.query(change, &[], &bench.context()).await
    };
    for _ in 0..4 {
        assert_eq!(query().await.unwrap().message.text(), "same");
    }
    assert!(bench.lines().iter().all(|line| !line.contains("retry")));

    // A connection of its own that is closed counts.
    let server = Server::start(vec![closes(0), closes(0)]);
    bench.settings.network_retries = 1;
    let error = bench.fails(&server.url).await;
    assert!(error.message.contains("2 attempts"), "{error}");
}
