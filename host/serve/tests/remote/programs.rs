//! Programs that stay open at another machine, also over connections that are cut.

use super::proxy::{Cut, Direction, Proxy};
use super::*;
use mswea_core::{ExpectEnd, Expectation, ProgramEnd, ProgramOutput, ProgramStart};

const LONG: Duration = Duration::from_secs(20);

async fn open(executor: &mut dyn Executor, name: &str, command: &str) {
    let start = ProgramStart {
        command,
        terminal: Some((24, 80)),
    };
    let mut programs = executor.programs().unwrap();
    programs.open(name, &start, &Stop::never()).await.unwrap();
}

async fn send(executor: &mut dyn Executor, name: &str, text: &str) {
    let (mut programs, never) = (executor.programs().unwrap(), Stop::never());
    let sent = programs.send(name, text.as_bytes(), LONG, &never).await;
    sent.unwrap();
}

async fn wait(executor: &mut dyn Executor, name: &str, patterns: &[&str]) -> ProgramOutput {
    let wanted = Expectation {
        patterns,
        quiet: None,
        limit: LONG,
    };
    let mut programs = executor.programs().unwrap();
    programs
        .expect(name, &wanted, &Stop::never())
        .await
        .unwrap()
}

/// The output up to `wanted`, which has to come.
async fn expect(executor: &mut dyn Executor, name: &str, wanted: &str) -> String {
    let output = wait(executor, name, &[wanted]).await;
    assert_eq!(output.end, ExpectEnd::Matched(0), "{wanted}: {output:?}");
    output.text
}

#[tokio::test]
async fn programs_stay_open_beside_the_actions() {
    let served = Served::start();
    let mut executor = started(&served.url, settings()).await;
    open(&mut *executor, "sh", "PS1='> ' sh -i").await;
    open(&mut *executor, "cat", "cat").await;
    expect(&mut *executor, "sh", "> ").await;
    send(&mut *executor, "sh", "pwd; echo $GREETING\n").await;
    let here = served.folder.path().display();
    let said = expect(&mut *executor, "sh", "> ").await;
    assert!(said.ends_with(&format!("{here}\na b='c'\n> ")), "{said}");
    assert_eq!(text(&mut *executor, "echo beside").await, "beside\n");
    // The terminal shows the input, too.
    let (begin, end) = TOKEN.split_at(9);
    send(&mut *executor, "sh", &format!("echo {begin}''{end}\n")).await;
    let said = expect(&mut *executor, "sh", "> ").await;
    assert!(said.starts_with("[token]"), "{said:?}");
    assert!(!said.contains(TOKEN), "{said}");
    // An interruption, an end by itself, and one that is wanted.
    let nap = nap();
    send(&mut *executor, "sh", &format!("sleep {nap}\n")).await;
    begun(&nap).await;
    executor.programs().unwrap().signal("sh", 2).await.unwrap();
    send(&mut *executor, "sh", "exit 3\n").await;
    let ended = wait(&mut *executor, "sh", &[]).await;
    assert_eq!(ended.end, ExpectEnd::Ended(ProgramEnd::Exited(3)));
    let closed = executor.programs().unwrap().close("cat").await.unwrap();
    assert_eq!(closed.end, ExpectEnd::Ended(ProgramEnd::Exited(0)));
    // All end with the environment.
    open(
        &mut *executor,
        "last",
        &format!("trap '' HUP TERM; setsid -f sleep {nap}; cat"),
    )
    .await;
    begun(&nap).await;
    executor.cleanup().await;
    assert_eq!(running(&nap), 0);
}

#[tokio::test]
async fn a_program_does_not_notice_that_connections_are_cut() {
    let served = Served::start();
    let proxy = Proxy::start(served.address()).await;
    let mut executor = started(&proxy.url, settings()).await;
    open(
        &mut *executor,
        "p",
        "while read -r x; do echo \"<$x>\"; done",
    )
    .await;
    let mut cuts = 0;
    for (number, direction) in [Direction::ToServer, Direction::ToClient]
        .repeat(30)
        .iter()
        .enumerate()
    {
        proxy.cut(Cut {
            direction: *direction,
            after: number as u64 * 7,
            times: 1,
        });
        send(&mut *executor, "p", &format!("{number}\n")).await;
        // Each line once, and in order.
        let said = expect(&mut *executor, "p", "<[0-9]+>\n").await;
        assert_eq!(said, format!("<{number}>\n"), "{direction:?}");
        cuts += proxy.cuts();
    }
    assert!(cuts > 20, "only {cuts} connections were cut");
    let closed = executor.programs().unwrap().close("p").await.unwrap();
    assert_eq!(closed.text, "");
    executor.cleanup().await;
}

#[tokio::test]
async fn a_program_whose_machine_stays_away_is_lost() {
    let mut served = Served::with(|it| it.keep = Duration::from_secs(4));
    let proxy = Proxy::start(served.address()).await;
    let server = endpoint(&proxy.url, TOKEN, None);
    let mut executor = remote_executor(server, Duration::from_secs(2), settings());
    executor.start(&context(), None).await.unwrap();
    let nap = nap();
    open(&mut executor, "p", &format!("echo on; sleep {nap}")).await;
    expect(&mut executor, "p", "on\n").await;
    proxy.close(true);
    let asked = Instant::now();
    let ended = wait(&mut executor, "p", &[]).await.end;
    let told = format!("{ended:?}");
    assert!(told.contains("can't be reached"), "{told}");
    assert!(
        asked.elapsed() < Duration::from_secs(12),
        "{:?}",
        asked.elapsed()
    );
    // The server ends what it hears nothing of.
    gone(&nap, Duration::from_secs(8)).await;
    executor.cleanup().await;
    served.end();
}

#[tokio::test]
async fn programs_of_a_machine_that_does_not_answer_end_at_once() {
    let mut served = Served::with(|it| it.keep = Duration::from_secs(4));
    let proxy = Proxy::start(served.address()).await;
    let server = endpoint(&proxy.url, TOKEN, None);
    let mut executor = remote_executor(server, Duration::from_secs(60), settings());
    executor.start(&context(), None).await.unwrap();
    let nap = nap();
    for name in ["a", "b", "c", "d"] {
        open(&mut executor, name, &format!("echo on; sleep {nap}")).await;
        expect(&mut executor, name, "on\n").await;
    }
    proxy.silence();
    let asked = Instant::now();
    executor.cleanup().await;
    // The programs together, and then the helper of the commands; each is waited for 8 s.
    assert!(
        asked.elapsed() < Duration::from_secs(24),
        "{:?}",
        asked.elapsed()
    );
    gone(&nap, Duration::from_secs(8)).await;
    served.end();
}

#[tokio::test]
async fn a_helper_that_is_killed_takes_one_program_along() {
    let served = Served::start();
    let mut executor = started(&served.url, settings()).await;
    let nap = nap();
    open(&mut *executor, "other", "cat").await;
    open(
        &mut *executor,
        "p",
        &format!("trap '' HUP; echo $PPID; sleep {nap}; :"),
    )
    .await;
    let helper = expect(&mut *executor, "p", "[0-9]+\n").await;
    begun(&nap).await;
    text(&mut *executor, &format!("kill -9 {helper}")).await;
    let ended = wait(&mut *executor, "p", &[]).await.end;
    assert!(
        format!("{ended:?}").contains("its helper has ended"),
        "{ended:?}"
    );
    gone(&nap, Duration::from_secs(3)).await;
    send(&mut *executor, "other", "still\n").await;
    expect(&mut *executor, "other", "still\n").await;
    executor.cleanup().await;
}
