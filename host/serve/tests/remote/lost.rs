//! Connections that are lost: no byte is lost or doubled, and no command runs twice.

use super::proxy::{Cut, Direction, Proxy};
use super::*;

/// One action per position of a cut. Each appends a line to a file and prints one.
async fn sweep(
    settings: StreamSettings,
    direction: Direction,
    positions: impl Iterator<Item = u64>,
) {
    let served = Served::start();
    let proxy = Proxy::start(served.address()).await;
    let mut executor = started(&proxy.url, settings).await;
    let file = served.folder.path().join("lines");
    let mut cuts = 0;
    for after in positions {
        let _ = std::fs::remove_file(&file);
        proxy.cut(Cut {
            direction,
            after,
            times: 1,
        });
        let command = "echo once >>lines; echo said";
        let output = run(&mut *executor, command).await;
        let found = (
            output.returncode,
            output.output.as_str(),
            exception(&output),
        );
        assert_eq!(found, (0, "said\n", ""), "{direction:?} {after}");
        let lines = std::fs::read_to_string(&file).unwrap();
        assert_eq!(lines, "once\n", "{direction:?} {after}");
        cuts += proxy.cuts();
    }
    assert!(cuts > 20, "only {cuts} connections were cut");
    executor.cleanup().await;
}

#[tokio::test]
async fn requests_that_are_cut_anywhere_run_a_command_once() {
    sweep(settings(), Direction::ToServer, (0..480).step_by(5)).await;
}

#[tokio::test]
async fn answers_that_are_cut_anywhere_run_a_command_once() {
    sweep(settings(), Direction::ToClient, (0..320).step_by(3)).await;
}

#[tokio::test]
async fn a_shell_survives_cuts_too() {
    let settings = || StreamSettings {
        session: true,
        ..settings()
    };
    sweep(settings(), Direction::ToServer, (0..480).step_by(11)).await;
    sweep(settings(), Direction::ToClient, (0..320).step_by(7)).await;
}

#[tokio::test]
async fn much_output_over_many_cuts_is_whole() {
    let served = Served::start();
    let proxy = Proxy::start(served.address()).await;
    let settings = StreamSettings {
        capture_bytes: 16 << 20,
        ..settings()
    };
    let mut executor = started(&proxy.url, settings).await;
    let expected: String = (1..=300_000).map(|number| format!("{number}\n")).collect();
    for after in [1_000, 70_001, 300_000] {
        proxy.cut(Cut {
            direction: Direction::ToClient,
            after,
            times: 25,
        });
        let output = text(&mut *executor, "seq 1 300000").await;
        assert!(output == expected, "{after}: {} bytes", output.len());
        assert!(proxy.cuts() > 3, "{after}: {} cuts", proxy.cuts());
    }
    executor.cleanup().await;
}

#[tokio::test]
async fn a_connection_that_stalls_is_replaced() {
    let served = Served::start();
    let proxy = Proxy::start(served.address()).await;
    let mut executor = started(&proxy.url, settings()).await;
    let file = served.folder.path().join("lines");
    proxy.stall();
    let output = text(&mut *executor, "echo once >>lines; echo said").await;
    assert_eq!(output, "said\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "once\n");
    executor.cleanup().await;
}

#[tokio::test]
async fn a_network_that_comes_back_in_time_is_not_noticed() {
    let served = Served::start();
    let proxy = Arc::new(Proxy::start(served.address()).await);
    let mut executor = started(&proxy.url, settings()).await;
    let other = proxy.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        other.close(true);
        tokio::time::sleep(Duration::from_secs(3)).await;
        other.close(false);
    });
    let command = "for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.2; done";
    assert_eq!(
        text(&mut *executor, command).await,
        "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
    );
    executor.cleanup().await;
}

#[tokio::test]
async fn a_network_that_stays_away_ends_the_run_in_the_stated_time() {
    let mut served = Served::with(|it| it.keep = Duration::from_secs(4));
    let proxy = Arc::new(Proxy::start(served.address()).await);
    let again = Duration::from_secs(2);
    let server = endpoint(&proxy.url, TOKEN, None);
    let mut executor = remote_executor(server, again, settings());
    executor.start(&context(), None).await.unwrap();
    let nap = nap();
    let other = proxy.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        other.close(true);
    });
    let asked = Instant::now();
    let output = run(&mut executor, &format!("echo begun; sleep {nap}")).await;
    let took = asked.elapsed();
    assert_eq!(output.output, "begun\n");
    let why = exception(&output);
    assert!(why.contains("the command had begun"), "{why}");
    assert!(why.contains("heard nothing for 4 s"), "{why}");
    assert!(output.extra.contains_key("environment_gone"), "{output:?}");
    assert!((2..6).contains(&took.as_secs()), "{took:?}");
    // The server ends what it hears nothing of.
    gone(&nap, Duration::from_secs(8)).await;
    let next = run(&mut executor, "true").await;
    assert!(exception(&next).contains("had begun"), "{next:?}");
    executor.cleanup().await;
    served.end();
}

/// The server's answer to the command, its output, or none of both, before the network stays away.
#[tokio::test]
async fn what_is_known_of_a_lost_command_is_said() {
    for (is_late, is_mute, expected) in [
        (false, false, "the command has not begun"),
        (true, false, "the command had begun"),
        (true, true, "the command had begun"),
    ] {
        let served = Served::start();
        let proxy = Arc::new(Proxy::start(served.address()).await);
        let server = endpoint(&proxy.url, TOKEN, None);
        let mut executor = remote_executor(server, Duration::from_secs(1), settings());
        executor.start(&context(), None).await.unwrap();
        assert_eq!(text(&mut executor, "echo before").await, "before\n");
        if is_mute {
            proxy.mute();
        }
        let begun = served.folder.path().join("begun");
        let command = format!("echo begun; sleep 0.2; touch {}; sleep 9", begun.display());
        if !is_late {
            proxy.close(true);
        }
        let (other, file) = (proxy.clone(), begun.clone());
        let closing = tokio::spawn(async move {
            while is_late && !file.exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            other.close(true);
        });
        let output = run(&mut executor, &command).await;
        let why = exception(&output);
        assert!(why.contains(expected), "{is_late} {is_mute}: {why}");
        assert_eq!(begun.exists(), is_late);
        closing.abort();
        executor.cleanup().await;
    }
}

#[tokio::test]
async fn a_server_that_was_started_anew_is_told() {
    let mut served = Served::start();
    let proxy = Proxy::start(served.address()).await;
    let mut executor = started(&proxy.url, settings()).await;
    let nap = nap();
    let address = served.address().to_owned();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        // All sessions end with the server.
        served.end();
        Served::with(|it| it.listen = address)
    });
    let output = run(&mut *executor, &format!("sleep {nap}")).await;
    let why = exception(&output);
    assert!(why.contains("was started anew"), "{why}");
    assert!(why.contains("ended with the session"), "{why}");
    assert!(!output.extra.contains_key("environment_gone"), "{output:?}");
    assert_eq!(running(&nap), 0);
    assert_eq!(text(&mut *executor, "echo next").await, "next\n");
    executor.cleanup().await;
    drop(thread.join().unwrap());
}

/// Also if the client has not noticed it yet.
#[tokio::test]
async fn a_server_that_was_started_anew_between_two_commands_is_used_as_before() {
    let mut served = Served::start();
    let mut executor = started(&served.url, settings()).await;
    for pause in [0, 0, 700] {
        let address = served.address().to_owned();
        served = tokio::task::spawn_blocking(move || {
            served.end();
            Served::with(|it| it.listen = address)
        })
        .await
        .unwrap();
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let count = served.folder.path().join("count");
        let command = format!("echo x >>'{}'; echo next", count.display());
        assert_eq!(text(&mut *executor, &command).await, "next\n");
        assert_eq!(std::fs::read_to_string(count).unwrap(), "x\n");
    }
    executor.cleanup().await;
}
