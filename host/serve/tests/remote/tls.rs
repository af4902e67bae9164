//! TLS, with certificates that `openssl` makes.

use super::*;

/// Makes a certificate that is its own authority, and its key.
fn certificate(folder: &Path, name: &str, names: &str) -> (PathBuf, PathBuf) {
    let (cert, key) = (
        folder.join(format!("{name}.pem")),
        folder.join(format!("{name}.key")),
    );
    let made = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ])
        .args(["-nodes", "-days", "2", "-subj", "/CN=test", "-addext"])
        .arg(format!("subjectAltName={names}"))
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    (cert, key)
}

#[tokio::test]
async fn only_the_named_certificate_is_trusted() {
    let openssl = std::process::Command::new("openssl")
        .arg("version")
        .output();
    let openssl = openssl.map(drop).map_err(|error| error.to_string());
    if !needs::has("openssl", "only_the_named_certificate_is_trusted", openssl) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = certificate(folder.path(), "own", "IP:127.0.0.1");
    let (other, other_key) = certificate(folder.path(), "other", "IP:127.0.0.1");
    let (elsewhere, elsewhere_key) = certificate(folder.path(), "elsewhere", "DNS:example.org");
    let served = Served::with(|it| it.tls = Some((cert.clone(), key.clone())));
    assert!(served.url.starts_with("https://"));
    let misnamed = Served::with(|it| it.tls = Some((elsewhere.clone(), elsewhere_key)));
    let plain = Served::start();
    let plain_url = plain.url.replace("http:", "https:");
    let open_url = served.url.replace("https:", "http:");
    for (url, ca_file, told) in [
        (&served.url, Some(&cert), ""),
        (&served.url, Some(&other), "`environment.ca_file`"),
        (&served.url, None, "`environment.ca_file`"),
        (&misnamed.url, Some(&elsewhere), "subjectAltName"),
        (&plain_url, Some(&cert), "without TLS"),
        (&open_url, None, "can't be reached"),
    ] {
        let server = endpoint(url, TOKEN, ca_file.map(PathBuf::as_path));
        let mut executor = remote_executor(server, Duration::from_secs(1), settings());
        match executor.start(&context(), None).await {
            Ok(_) => {
                assert_eq!(told, "", "{url}");
                assert_eq!(text(&mut executor, "echo safe").await, "safe\n");
            }
            Err(error) => {
                let is_told = !told.is_empty() && error.message.contains(told);
                assert!(is_told, "{url} {told}: {}", error.message);
            }
        }
        executor.cleanup().await;
    }
    // The key of another certificate, and a file without one.
    let empty = private(folder.path().join("empty"), "");
    for (cert, key) in [(&cert, &other_key), (&empty, &key), (&cert, &empty)] {
        let settings = ServeSettings {
            swerex: false,
            listen: "127.0.0.1:0".to_owned(),
            token: AccessToken::new(TOKEN).unwrap(),
            tls: Some((cert.clone(), key.clone())),
            insecure: false,
            local: LocalSettings::default(),
            keep: Duration::from_secs(1),
            max_sessions: 1,
            max_connections: 1,
        };
        let bound = RuntimeServer::bind(settings).await;
        let why = bound.err().unwrap().to_string();
        assert!(why.contains("TLS can't be set up"), "{why}");
    }
    let token = AccessToken::new(TOKEN).unwrap();
    let why = Endpoint::new("https://h", &token, Some(&empty)).unwrap_err();
    assert!(why.contains("has no certificate"), "{why}");
}
