//! An action has the same results at another machine as on this one.

use super::*;

#[tokio::test]
async fn actions_are_fresh_processes_there() {
    let served = Served::start();
    let mut executor = started(&served.url, settings()).await;
    let here = served.folder.path().to_str().unwrap();
    for (command, returncode, expected) in [
        ("echo out; echo err >&2", 0, "out\nerr\n"),
        ("exit 3", 3, ""),
        ("kill -9 $$", 137, ""),
        ("pwd", 0, &format!("{here}\n")),
        ("cd /; X=1", 0, ""),
        ("pwd; echo ${X-none}", 0, &format!("{here}\nnone\n")),
        ("echo $GREETING", 0, "a b='c'\n"),
        ("echo a >file", 0, ""),
        ("cat", 0, ""),
        ("head -c 3 /dev/zero | od -An -c", 0, "  \\0  \\0  \\0\n"),
    ] {
        let output = run(&mut *executor, command).await;
        let found = (output.returncode, output.output.as_str());
        assert_eq!(found, (returncode, expected), "{command}");
    }
    let file = served.folder.path().join("file");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "a\n");
    executor.cleanup().await;
}

#[tokio::test]
async fn one_shell_for_all_actions() {
    let served = Served::start();
    let settings = StreamSettings {
        session: true,
        ..settings()
    };
    let mut executor = started(&served.url, settings).await;
    text(&mut *executor, "cd /tmp; X=5; f() { echo f$X; }").await;
    assert_eq!(text(&mut *executor, "pwd; f").await, "/tmp\nf5\n");
    let ended = run(&mut *executor, "exit 4").await;
    assert_eq!(ended.returncode, 4);
    assert!(ended.output.contains("new shell"), "{}", ended.output);
    // A command that ends the helper: the next one runs in a new session.
    let killed = run(&mut *executor, "kill -9 $PPID").await;
    assert!(
        exception(&killed).contains("ended the helper"),
        "{killed:?}"
    );
    let next = text(&mut *executor, "echo next").await;
    assert!(next.starts_with("next\n[a new shell"), "{next}");
    executor.cleanup().await;
}

#[tokio::test]
async fn limits_and_stops_end_what_was_started() {
    let served = Served::start();
    let mut executor = started(&served.url, settings()).await;
    let nap = nap();
    let command = format!("echo begun; sleep {nap} & sleep {nap}");
    let limited = Command {
        timeout: Some(Duration::from_millis(400)),
        ..Command::new(&command)
    };
    let output = executor.execute(&limited, &Stop::never()).await;
    assert_eq!(output.output, "begun\n");
    assert!(exception(&output).contains("timed out"), "{output:?}");
    assert_eq!(running(&nap), 0);
    let (source, stop) = StopSource::new();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        source.stop();
    });
    let output = executor.execute(&Command::new(&command), &stop).await;
    assert!(exception(&output).contains("was interrupted"), "{output:?}");
    assert_eq!(running(&nap), 0);
    // Given up in the middle: the next action has a helper of its own.
    let given_up = Command::new(&command);
    let never = Stop::never();
    let giving_up = executor.execute(&given_up, &never);
    let _ = tokio::time::timeout(Duration::from_millis(300), giving_up).await;
    assert_eq!(text(&mut *executor, "echo next").await, "next\n");
    assert_eq!(running(&nap), 0);
    // Background processes end with the environment.
    text(
        &mut *executor,
        &format!("setsid sleep {nap} >/dev/null 2>&1 &"),
    )
    .await;
    begun(&nap).await;
    executor.cleanup().await;
    assert_eq!(running(&nap), 0);
}

#[tokio::test]
async fn much_output_is_whole_and_much_input_arrives() {
    let served = Served::start();
    let settings = StreamSettings {
        capture_bytes: 64 << 20,
        ..settings()
    };
    let mut executor = started(&served.url, settings).await;
    let output = text(&mut *executor, "seq 1 2000000").await;
    let expected: String = (1..=2_000_000)
        .map(|number| format!("{number}\n"))
        .collect();
    assert_eq!(output.len(), expected.len());
    assert!(output == expected);
    let long = format!("printf %s '{}' | wc -c", "x".repeat(3_000_000));
    assert_eq!(text(&mut *executor, &long).await.trim(), "3000000");
    executor.cleanup().await;
}

#[tokio::test]
async fn what_is_wrong_is_told_at_the_start() {
    let served = Served::start();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody_url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let foreign = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let foreign_url = format!("http://{}", foreign.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut client, _) = foreign.accept().unwrap();
        let _ = client.read(&mut [0; 1024]);
        let _ = client.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    });
    let with = |change: fn(&mut StreamSettings)| {
        let mut settings = settings();
        change(&mut settings);
        settings
    };
    for (url, token, settings, told) in [
        (&served.url, "f".repeat(32), settings(), "refuses the token"),
        (
            &nobody_url,
            TOKEN.to_owned(),
            settings(),
            "runtime serve` running there",
        ),
        (
            &foreign_url,
            TOKEN.to_owned(),
            settings(),
            "is no `mswea-host runtime serve`",
        ),
        (
            &served.url,
            TOKEN.to_owned(),
            with(|it| it.cwd = "/none/such".to_owned()),
            "there is no folder `/none/such`",
        ),
        (
            &served.url,
            TOKEN.to_owned(),
            with(|it| it.interpreter = vec!["nonesuch".to_owned()]),
            "`environment.interpreter`",
        ),
    ] {
        let again = Duration::from_secs(1);
        let mut executor = remote_executor(endpoint(url, &token, None), again, settings);
        let error = executor.start(&context(), None).await.unwrap_err();
        assert!(error.message.contains(told), "{told}: {}", error.message);
        executor.cleanup().await;
    }
    for (url, told) in [
        ("127.0.0.1:80", "does not begin with"),
        ("ftp://h", "does not begin with"),
        ("https://", "no URL"),
        ("https://u:p@h", "token_file"),
        ("https://h/?x", "query"),
    ] {
        let token = AccessToken::new(TOKEN).unwrap();
        let why = Endpoint::new(url, &token, None).unwrap_err();
        assert!(why.contains(told), "{url}: {why}");
    }
}

#[tokio::test]
async fn a_run_goes_on_where_it_was() {
    let served = Served::start();
    let mut executor = remote(&served.url, settings());
    let ready = executor.start(&context(), None).await.unwrap();
    assert_eq!(ready.replaced, None);
    executor.cleanup().await;
    let again = executor
        .start(&context(), Some(&ready.handle))
        .await
        .unwrap();
    assert_eq!((again.replaced, &again.handle), (None, &ready.handle));
    executor.cleanup().await;
    let elsewhere = StreamSettings {
        cwd: "/".to_owned(),
        ..settings()
    };
    let mut executor = remote(&served.url, elsewhere);
    let moved = executor
        .start(&context(), Some(&ready.handle))
        .await
        .unwrap();
    assert!(moved.replaced.unwrap().contains("in `/` now"));
    executor.cleanup().await;
}

/// The benchmark `executors` has the limit of 2 ms; this is an unoptimised build on a busy machine.
#[tokio::test]
async fn an_action_costs_little_more_than_here() {
    let served = Served::start();
    let mut there = started(&served.url, settings()).await;
    let mut here = mswea_executor::LocalExecutor::new(LocalSettings {
        interpreter: vec!["bash".to_owned(), "-c".to_owned()],
        ..LocalSettings::default()
    });
    here.start(&context(), None).await.unwrap();
    let mut over = Vec::new();
    for _ in 0..60 {
        let mut times = [0.0, 0.0];
        for (time, executor) in times
            .iter_mut()
            .zip([&mut here as &mut dyn Executor, &mut *there])
        {
            let begun = Instant::now();
            text(executor, "true").await;
            *time = begun.elapsed().as_secs_f64() * 1e3;
        }
        over.push(times[1] - times[0]);
    }
    over.sort_by(f64::total_cmp);
    let median = over[over.len() / 2];
    eprintln!("an action over loopback takes {median:.2} ms more than here");
    assert!(median < 5.0, "{median} ms");
    here.cleanup().await;
    there.cleanup().await;
}
