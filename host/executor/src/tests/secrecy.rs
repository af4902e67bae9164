//! Tests with keys in the host's own environment.

use super::*;
use mswea_secrecy as secrecy;

#[tokio::test]
#[ignore = "a role in another test"]
async fn protected_body() {
    if !plays("protected_body") {
        return;
    }
    secrecy::protect();
    secrecy::hide(&["MYLLM", "NOT_SET"]);
    let mut executor = LocalExecutor::new(LocalSettings {
        env_allow: vec!["ALLOWED_TOKEN".into(), "*".into()],
        secret_names: vec!["MYLLM".into()],
        ..settings()
    });
    let seen = run(&mut executor, "tr '\\0' '\\n' </proc/$PPID/environ; env").await;
    assert!(seen.output.contains("PLAIN=plain"), "{}", seen.output);
    assert!(!seen.output.contains("sk-"), "{}", seen.output);
    // A variable that the user named is passed, with its value.
    assert!(seen.output.contains("ALLOWED_TOKEN=allowed"));
    for (name, value) in [
        ("OPENAI_API_KEY", Some("sk-1")),
        ("MYLLM", Some("sk-2=x")),
        ("EMPTY_TOKEN", Some("")),
        ("PLAIN", Some("plain")),
        ("NOT_SET", None),
    ] {
        assert_eq!(secrecy::var(name).as_deref(), value, "{name}");
    }
    assert_eq!(std::env::var("MYLLM").as_deref(), Ok(""));
    assert!(secrecy::vars().contains(&("MYLLM".into(), "sk-2=x".into())));
    // A second call removes nothing.
    secrecy::hide(&["MYLLM"]);
    assert_eq!(secrecy::var("MYLLM").as_deref(), Some("sk-2=x"));
    // Files that this process needs are still accessible.
    assert!(std::env::current_exe().is_ok());
    assert!(std::fs::read_dir("/proc/self/fd").is_ok());
    executor.cleanup().await;
}

#[test]
fn commands_find_no_key_in_the_host() {
    let status = in_its_own_process(module_path!(), "protected_body")
        .envs([
            ("OPENAI_API_KEY", "sk-1"),
            ("MYLLM", "sk-2=x"),
            ("ALLOWED_TOKEN", "allowed"),
            ("EMPTY_TOKEN", ""),
            ("PLAIN", "plain"),
        ])
        .status();
    assert!(status.unwrap().success());
}
