//! Tests of start-up commands.

use super::*;

fn with(place: &Place, commands: &[&str]) -> WorkspaceSettings {
    WorkspaceSettings {
        startup_commands: commands.iter().map(|&command| startup(command)).collect(),
        startup_timeout: Duration::from_secs(20),
        ..place.settings("")
    }
}

#[tokio::test]
async fn they_run_in_order_in_the_repository() {
    let place = Place::new();
    let url = place.origin("origin");
    let settings = WorkspaceSettings {
        repo: Some(url),
        ..with(
            &place,
            &[
                "pwd >where; echo 1 >>order",
                "cat a >/dev/null && echo 2 >>order",
            ],
        )
    };
    let executor = place.started(settings).await.unwrap();
    assert_eq!(
        place.sh("work", "cat order where"),
        format!("1\n2\n{}", place.text("work"))
    );
    assert!(executor.salvage_command().is_some());
    let shown = place.shown();
    assert!(
        shown.contains("start-up command 2 of 2: cat a >/dev/null"),
        "{shown}"
    );
}

#[tokio::test]
async fn failures_are_told_with_the_end_of_the_output() {
    let place = Place::new();
    std::fs::create_dir(place.at("work")).unwrap();
    for (command, parts) in [
        (
            "echo why; exit 3",
            &[
                "`echo why; exit 3` (`workspace.startup_commands`) failed with exit code 3",
                "its output:\nwhy",
            ][..],
        ),
        ("exit 4", &["exit code 4", "it printed nothing"]),
        (
            "seq 1 5000; echo last; false",
            &["exit code 1", "the end of its output", "4999\n5000\nlast"],
        ),
        ("kill -9 $$", &["exit code -9"]),
        (
            "echo partial; sleep 100",
            &[
                "within 1 seconds: raise `workspace.startup_timeout`",
                "partial",
            ],
        ),
        ("echo https://u:sesame@h/; false", &["echo https://***@h/"]),
        ("a\0b", &["could not be run", "null byte"]),
    ] {
        let mut settings = with(&place, &["touch first", command, "touch never"]);
        if command.ends_with("sleep 100") {
            settings.startup_timeout = Duration::from_secs(1);
        }
        let message = place.refused(settings).await;
        for part in parts {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(
            message.len() < 2048 + 400 && !message.contains("sesame"),
            "{message}"
        );
        assert!(place.at("work/first").exists() && !place.at("work/never").exists());
    }
}

#[tokio::test]
async fn they_can_be_stopped() {
    let place = Place::new();
    std::fs::create_dir(place.at("work")).unwrap();
    let settings = WorkspaceSettings {
        startup_timeout: Duration::ZERO,
        ..with(&place, &["echo $$ >pid; sleep 100"])
    };
    let (source, stop) = StopSource::new();
    let mut executor = place.made(settings, "").unwrap();
    let context = place.context(stop);
    let pid = place.at("work/pid");
    let stopping = async {
        while std::fs::read_to_string(&pid).unwrap_or_default().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        source.stop();
    };
    let (done, ()) = tokio::join!(begin(&mut executor, &context), stopping);
    let message = done.unwrap_err().message;
    assert!(
        message.contains("stopped during the start-up command"),
        "{message}"
    );
    let pid = std::fs::read_to_string(pid).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists());
}

#[tokio::test]
async fn each_is_told_by_its_key() {
    let place = Place::new();
    std::fs::create_dir(place.at("work")).unwrap();
    let mut settings = with(&place, &["true"]);
    settings.startup_commands.push(StartupCommand {
        text: "exit 5".to_owned(),
        key: "run.env_startup_command",
    });
    let message = place.refused(settings).await;
    assert!(
        message.starts_with("start-up command `exit 5` (`run.env_startup_command`) failed"),
        "{message}"
    );
}
