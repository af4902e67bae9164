//! Programs that stay open beside the actions.

use super::*;
use mswea_core::{ExpectEnd, Expectation, ProgramEnd, ProgramError, ProgramOutput, ProgramStart};

const LONG: Duration = Duration::from_secs(20);
const TERMINAL: Option<(u16, u16)> = Some((24, 80));

pub(crate) async fn open(
    executor: &mut impl Executor,
    name: &str,
    command: &str,
    terminal: Option<(u16, u16)>,
) -> Result<(), ProgramError> {
    let start = ProgramStart { command, terminal };
    let mut programs = executor.programs().unwrap();
    programs.open(name, &start, &Stop::never()).await
}

type Sent = Result<(), ProgramError>;

pub(crate) async fn send(executor: &mut impl Executor, name: &str, text: &str) -> Sent {
    let mut programs = executor.programs().unwrap();
    let (bytes, never) = (text.as_bytes(), Stop::never());
    programs.send(name, bytes, LONG, &never).await
}

async fn waits(
    executor: &mut impl Executor,
    name: &str,
    wanted: &Expectation<'_>,
) -> Result<ProgramOutput, ProgramError> {
    let mut programs = executor.programs().unwrap();
    programs.expect(name, wanted, &Stop::never()).await
}

fn pattern<'a>(patterns: &'a [&'a str]) -> Expectation<'a> {
    Expectation {
        patterns,
        quiet: None,
        limit: LONG,
    }
}

/// The output up to `wanted`, which has to come.
pub(crate) async fn expect(executor: &mut impl Executor, name: &str, wanted: &str) -> String {
    let output = waits(executor, name, &pattern(&[wanted])).await.unwrap();
    assert_eq!(output.end, ExpectEnd::Matched(0), "{wanted}: {output:?}");
    output.text
}

pub(crate) async fn end(executor: &mut impl Executor, name: &str) -> (String, ExpectEnd) {
    let output = waits(executor, name, &pattern(&[])).await.unwrap();
    (output.text, output.end)
}

async fn close(executor: &mut impl Executor, name: &str) -> ProgramOutput {
    executor.programs().unwrap().close(name).await.unwrap()
}

async fn interrupt(executor: &mut impl Executor, name: &str) {
    let mut programs = executor.programs().unwrap();
    programs.signal(name, libc::SIGINT).await.unwrap();
}

fn exited(status: i32) -> ExpectEnd {
    ExpectEnd::Ended(ProgramEnd::Exited(status))
}

/// Each program: how it is started, its prompt, what it is told, and what it then prints.
async fn answer(executor: &mut impl Executor, programs: &[(&str, &str, &str, &str)]) {
    for terminal in [TERMINAL, None] {
        for (number, (command, prompt, told, answer)) in programs.iter().enumerate() {
            let name = format!("p{number}");
            open(executor, &name, command, terminal).await.unwrap();
            let ready = expect(executor, &name, prompt).await;
            send(executor, &name, told).await.unwrap();
            let heard = expect(executor, &name, answer).await;
            assert!(!heard.contains('\r'), "{command}: {ready:?} {heard:?}");
        }
        // All of them are open at once, and actions run beside them.
        let names = executor.programs().unwrap().names();
        assert_eq!(names.len(), programs.len());
        assert_eq!(run(executor, "echo beside").await.output, "beside\n");
        for name in names {
            let closed = close(executor, &name).await;
            assert!(
                matches!(closed.end, ExpectEnd::Ended(_)),
                "{name}: {closed:?}"
            );
        }
        assert!(executor.programs().unwrap().names().is_empty());
    }
}

/// The cases that need only a shell.
pub(crate) async fn shells(executor: &mut impl Executor) {
    let simple = [
        ("cat", "", "a b\n", "a b\n"),
        ("PS1='> ' sh -i", "> ", "echo $((6*7))\n", "42\n> "),
        (
            "while read -r x; do echo \"<$x>\"; done",
            "",
            "é\n",
            "<é>\n",
        ),
    ];
    answer(executor, &simple).await;
    // The program starts in the actions' folder.
    open(executor, "sh", "exec sh", TERMINAL).await.unwrap();
    // Behind a stream, the mark of the run has the program's number at its end.
    let asked = "cd /tmp; pwd; id -u; echo ${MSWEA_RUN_ID%.[0-9]*}";
    let place = run(executor, asked).await.output;
    let asked = format!("{asked}; stty size; echo $TERM\n");
    send(executor, "sh", &asked).await.unwrap();
    let found = expect(executor, "sh", "dumb\n").await;
    let found = found
        .rsplit_once("# ")
        .map_or(found.as_str(), |(_, rest)| rest);
    let found = found.rsplit_once("$ ").map_or(found, |(_, rest)| rest);
    assert_eq!(found, format!("{place}24 80\ndumb\n"));
    // The program is resized, interrupted, and ends by itself.
    executor
        .programs()
        .unwrap()
        .resize("sh", 5, 33)
        .await
        .unwrap();
    send(executor, "sh", "stty size; sleep 60; echo on\n")
        .await
        .unwrap();
    expect(executor, "sh", "5 33\n").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    interrupt(executor, "sh").await;
    send(executor, "sh", "echo done; exit 3\n").await.unwrap();
    let (text, ended) = end(executor, "sh").await;
    assert!(
        text.contains("done\n") && !text.contains("on\n"),
        "{text:?}"
    );
    assert_eq!(ended, exited(3));
    // Nothing is lost between an end and the next call, and the name can be used again.
    assert_eq!(
        send(executor, "sh", "x").await,
        Err(ProgramError::InputClosed)
    );
    assert_eq!(end(executor, "sh").await, (String::new(), exited(3)));
    open(executor, "sh", "echo last; exit 4", None)
        .await
        .unwrap();
    assert_eq!(end(executor, "sh").await, ("last\n".to_owned(), exited(4)));
    assert_eq!(close(executor, "sh").await.end, exited(4));
}

#[tokio::test]
async fn programs_stay_open_beside_the_actions() {
    let mut executor = LocalExecutor::new(settings());
    shells(&mut executor).await;
    let more = [
        ("python3 -q -i", ">>> ", "print(6*7)\n", "42\n(>>> )?"),
        ("bc -q", "", "6*7\n", "42\n"),
        (
            "gdb -q -nx -ex 'set confirm off'",
            r"\(gdb\) ",
            "print 6*7\n",
            r"\$1 = 42\n\(gdb\) ",
        ),
    ];
    let has = |program: &str| crate::programs::find(program).is_some();
    let more: Vec<_> = more
        .into_iter()
        .filter(|(command, ..)| has(command.split(' ').next().unwrap()))
        .collect();
    assert!(!more.is_empty());
    answer(&mut executor, &more).await;
    executor.cleanup().await;
}

#[tokio::test]
async fn a_wait_ends_with_the_first_of_its_reasons() {
    let mut executor = LocalExecutor::new(settings());
    open(&mut executor, "p", "exec sh 2>&1", None)
        .await
        .unwrap();
    // Of several patterns the one that begins first; the rest stays for the next wait.
    send(&mut executor, "p", "printf 'one two three\\n'\n")
        .await
        .unwrap();
    let output = waits(&mut executor, "p", &pattern(&["thr", "t.o", "(?=z)"])).await;
    let wanted = ProgramOutput {
        text: "one two".to_owned(),
        dropped: 0,
        end: ExpectEnd::Matched(1),
    };
    assert_eq!(output, Ok(wanted));
    assert_eq!(expect(&mut executor, "p", "\n").await, " three\n");
    // A match in two pieces.
    send(
        &mut executor,
        "p",
        "printf 'do'; sleep 0.3; printf 'ne. '\n",
    )
    .await
    .unwrap();
    assert_eq!(expect(&mut executor, "p", r"done\. ").await, "done. ");
    // A pause.
    send(
        &mut executor,
        "p",
        "echo a; sleep 0.1; echo b; sleep 2; echo c\n",
    )
    .await
    .unwrap();
    let quiet = Expectation {
        quiet: Some(Duration::from_millis(600)),
        ..pattern(&["never"])
    };
    let output = waits(&mut executor, "p", &quiet).await.unwrap();
    assert_eq!(
        (output.text.as_str(), output.end),
        ("a\nb\n", ExpectEnd::Quiet)
    );
    // The time is over.
    let short = Expectation {
        limit: Duration::from_millis(100),
        ..quiet
    };
    let output = waits(&mut executor, "p", &short).await.unwrap();
    assert_eq!(
        (output.text.as_str(), output.end),
        ("", ExpectEnd::TimedOut)
    );
    // A stop; what came is not lost.
    expect(&mut executor, "p", "c\n").await;
    send(&mut executor, "p", "echo x; sleep 60\n")
        .await
        .unwrap();
    let (source, stop) = mswea_core::StopSource::new();
    let mut programs = executor.programs().unwrap();
    let never = pattern(&["never"]);
    let waiting = programs.expect("p", &never, &stop);
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        source.stop();
    };
    let (output, ()) = tokio::join!(waiting, stopping);
    let output = output.unwrap();
    assert_eq!(
        (output.text.as_str(), output.end),
        ("x\n", ExpectEnd::Stopped)
    );
    let full = vec![b'x'; 1 << 20];
    assert_eq!(
        programs.send("p", &full, LONG, &stop).await,
        Err(ProgramError::Stopped)
    );
    let start = ProgramStart {
        command: "cat",
        terminal: None,
    };
    assert_eq!(
        programs.open("q", &start, &stop).await,
        Err(ProgramError::Stopped)
    );
    drop(programs);
    executor.cleanup().await;
}

#[tokio::test]
async fn what_can_t_be_done_is_said() {
    let mut executor = LocalExecutor::new(settings());
    let error = send(&mut executor, "p", "x").await.unwrap_err().to_string();
    assert_eq!(error, "no program is open under the name `p`");
    open(&mut executor, "p", "exec sleep 60", None)
        .await
        .unwrap();
    let error = executor.programs().unwrap().close("q").await;
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "no program is open under the name `q`; open are `p`");
    let twice = open(&mut executor, "p", "cat", None)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        twice.contains("close it first, or choose another name"),
        "{twice}"
    );
    let error = open(&mut executor, "z", "a\0b", None)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("null byte"), "{error}");
    let error = waits(&mut executor, "p", &pattern(&["("]))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("the pattern `(` can't be used: "),
        "{error}"
    );
    // The program does not read its input.
    let million = "x".repeat(1 << 20);
    let mut programs = executor.programs().unwrap();
    let limit = Duration::from_millis(200);
    let sent = programs
        .send("p", million.as_bytes(), limit, &Stop::never())
        .await;
    let Err(ProgramError::NotTaken { taken, of }) = sent else {
        panic!("{sent:?}");
    };
    assert!((taken, of) == (65536, 1 << 20), "{taken} of {of}");
    let sent = programs
        .send("p", million.as_bytes(), limit, &Stop::never())
        .await;
    assert!(
        matches!(sent, Err(ProgramError::InputFull { .. })),
        "{sent:?}"
    );
    drop(programs);
    assert_eq!(
        close(&mut executor, "p").await.end,
        ExpectEnd::Ended(ProgramEnd::Closed)
    );
    for number in 0..16 {
        open(&mut executor, &format!("p{number}"), "cat", None)
            .await
            .unwrap();
    }
    let error = open(&mut executor, "p16", "cat", None)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("16 programs are open already"), "{error}");
    executor.cleanup().await;
    assert!(executor.programs().unwrap().names().is_empty());
}

/// The pids in `file` when there are `count`. The conversations go on meanwhile.
async fn noted(file: &Path, count: usize) -> Vec<String> {
    let read = || std::fs::read_to_string(file).unwrap_or_default();
    let began = Instant::now();
    while read().lines().count() < count {
        assert!(began.elapsed() < LONG, "no pids");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    read().lines().map(str::to_owned).collect()
}

/// Programs that behave badly, each with how it ends when it is closed; none: it is killed.
#[tokio::test]
async fn whatever_a_program_does_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let note = format!("echo $$ >>'{}'", file.display());
    let daemon = format!(
        "setsid sh -c 'echo $$ >>\"{}\"; sleep 60' >/dev/null 2>&1 &",
        file.display()
    );
    let mut executor = LocalExecutor::new(settings());
    let mut count = 0;
    for terminal in [TERMINAL, None] {
        for (command, status) in [
            ("exec cat", Some(0)),
            ("while :; do sleep 1; done", None),
            ("trap '' INT HUP TERM PIPE; while :; do sleep 1; done", None),
            ("exec yes", None),
            ("exec 0<&- 1>&- 2>&-; exec sleep 60", None),
            (&format!("{daemon} exec cat"), Some(0)),
            (&format!("({daemon}) ; sleep 0.1; exit 5"), Some(5)),
            ("kill -9 $$", Some(137)),
        ] {
            count += 1 + command.matches("setsid").count();
            open(&mut executor, "p", &format!("{note}; {command}"), terminal)
                .await
                .unwrap();
            noted(&file, count).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            let began = Instant::now();
            let closed = close(&mut executor, "p").await;
            let wanted = status.map_or(ExpectEnd::Ended(ProgramEnd::Closed), exited);
            assert_eq!(closed.end, wanted, "{command} {terminal:?}");
            assert!(began.elapsed() < Duration::from_secs(4), "{command}");
            assert!(closed.text.len() <= 3 << 20, "{command}");
            wait_for("end of all", || {
                !pids(&file, count).iter().any(|pid| lives(pid))
            });
        }
    }
    executor.cleanup().await;
}

#[tokio::test]
async fn output_that_nobody_reads_is_drained_and_bounded() {
    let mut executor = LocalExecutor::new(settings());
    for terminal in [TERMINAL, None] {
        open(&mut executor, "p", "seq 1 2000000; echo end; cat", terminal)
            .await
            .unwrap();
        // The program ends without a request to end.
        send(&mut executor, "p", "over\n").await.unwrap();
        let output = waits(&mut executor, "p", &pattern(&["over\n"]))
            .await
            .unwrap();
        assert_eq!(output.end, ExpectEnd::Matched(0));
        assert!(output.text.ends_with("1999999\n2000000\nend\nover\n"));
        assert!(output.text.len() <= 2 << 20);
        let all = (1..=2_000_000)
            .map(|n: u32| n.to_string().len() + 1)
            .sum::<usize>()
            + 9;
        assert_eq!(output.dropped as usize + output.text.len(), all);
        assert_eq!(close(&mut executor, "p").await.end, exited(0));
    }
    executor.cleanup().await;
}

/// The end of the helper ends the program, and neither the actions nor the other programs.
/// `is_shielded`: actions can't signal it.
pub(crate) async fn loses_a_helper(executor: &mut impl Executor, is_shielded: bool) {
    open(executor, "other", "cat", None).await.unwrap();
    open(
        executor,
        "p",
        "trap '' HUP; echo $$ $PPID; while :; do sleep 1; done",
        TERMINAL,
    )
    .await
    .unwrap();
    let both = expect(executor, "p", "[0-9]+ [0-9]+\n").await;
    let (program, helper) = both.trim().split_once(' ').unwrap();
    let children = format!(
        "ps -A -o ppid=,pid=,args= 2>/dev/null | grep '^ *{} '",
        helper
    );
    let kill = format!("kill -9 {}", helper);
    let killed = run(executor, &kill).await.returncode;
    assert_eq!(killed, i32::from(is_shielded));
    if is_shielded {
        let kill = ["-9", helper];
        let killed = std::process::Command::new("kill").args(kill).status();
        assert!(killed.unwrap().success());
    }
    let (_, ended) = end(executor, "p").await;
    assert!(
        matches!(&ended, ExpectEnd::Ended(ProgramEnd::Lost(why)) if why.contains("helper has ended")),
        "{ended:?}"
    );
    assert_eq!(run(executor, &children).await.output, "");
    let living = format!("grep -sc '^State:.[^Z]' /proc/{program}/status");
    assert_ne!(run(executor, &living).await.output, "1\n");
    assert_eq!(
        send(executor, "p", "x").await,
        Err(ProgramError::InputClosed)
    );
    send(executor, "other", "still\n").await.unwrap();
    expect(executor, "other", "still\n").await;
    open(executor, "p", "echo new", None).await.unwrap();
    assert_eq!(end(executor, "p").await, ("new\n".to_owned(), exited(0)));
    close(executor, "p").await;
    close(executor, "other").await;
}

#[tokio::test]
async fn a_helper_that_is_killed_takes_one_program_along() {
    let mut executor = LocalExecutor::new(settings());
    loses_a_helper(&mut executor, false).await;
    executor.cleanup().await;
}

#[tokio::test]
async fn programs_end_with_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let command = format!(
        "trap '' HUP INT TERM; echo $$ >>'{}'; while :; do sleep 1; done",
        file.display()
    );
    // By the cleanup, also while an action has a shell, and without one.
    for (count, session) in [(2, true), (4, false)] {
        let mut executor = LocalExecutor::new(LocalSettings {
            session,
            ..settings()
        });
        run(&mut executor, "true").await;
        open(&mut executor, "a", &command, TERMINAL).await.unwrap();
        open(&mut executor, "b", &command, None).await.unwrap();
        noted(&file, count).await;
        executor.cleanup().await;
        assert!(!pids(&file, count).iter().any(|pid| lives(pid)));
    }
    // Without one.
    let mut executor = LocalExecutor::new(settings());
    open(&mut executor, "a", &command, TERMINAL).await.unwrap();
    noted(&file, 5).await;
    drop(executor);
    wait_for("end", || !pids(&file, 5).iter().any(|pid| lives(pid)));
}
