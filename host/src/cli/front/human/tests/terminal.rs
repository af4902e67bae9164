//! Tests of the output on a terminal: a line that is overwritten, and wrapped lines.

use super::*;

fn until(shown: &Shown, is_so: impl Fn(&str) -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so(&shown.err.text()) {
        assert!(Instant::now() < end, "{:?}", shown.err.text());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_wait_counts_down_and_leaves_no_trace() {
    let shown = with(LIVE);
    shown.retrying(Duration::from_millis(1100));
    let first = "retrying: rate-limited: slow down\n\r\x1b[2Kretry 1 of 10 in 2 s";
    assert!(shown.err.text().starts_with(first));
    until(&shown, |text| {
        text.ends_with("\r\x1b[2Kretry 1 of 10 in 1 s")
    });
    // Then the request is sent, and the line counts the wait for the model.
    until(&shown, |text| {
        text.ends_with("\r\x1b[2Kwaiting for the model: 1 s")
    });
    shown.err.take();
    shown.replied("Hi");
    let after = shown.err.take();
    assert!(after.ends_with("\r\x1b[2KHi\n"), "{after:?}");

    shown.retrying(Duration::from_secs(3600));
    shown.err.take();
    drop(shown.front);
    assert!(shown.err.take().ends_with("\r\x1b[2K"));
}

#[test]
fn signs_of_life() {
    let shown = with(Look {
        width: Width::Columns(24),
        ..LIVE
    });
    shown.step(1, None);
    until(&shown, |text| {
        text.ends_with("\r\x1b[2Kwaiting for the model: ")
    });
    shown.delta("text", "I look");
    shown.delta("tool-call", &"x".repeat(400));
    let text = shown.err.take();
    assert!(text.ends_with("\r\x1b[2KI look\n"), "{text:?}");
    // The part of the line that fits.
    until(&shown, |text| {
        text.ends_with("\r\x1b[2Kthe model answers: 2 s,")
    });
    // A warning does not end it.
    shown.front.show(&Progress::Warning("careful"));
    assert!(
        shown
            .err
            .text()
            .contains("\r\x1b[2Kwarning: careful\n\r\x1b[2Kthe model")
    );
    shown.replied("I look");
    shown.front.show(&Progress::ActionStarted {
        action: &action("sleep 100"),
        index: 0,
        of: 1,
    });
    until(&shown, |text| {
        text.ends_with("$ sleep 100\n\r\x1b[2K  running: 1 s")
    });
    let output = output("done\n", 0);
    shown.front.show(&Progress::ActionEnded {
        output: &output,
        index: 0,
    });
    assert!(shown.err.text().ends_with("\r\x1b[2K  done\n"));

    // The line that counts seconds is not shown if it can't be overwritten.
    let plain = with(Look {
        live: true,
        ..PLAIN
    });
    plain.step(1, None);
    thread::sleep(Duration::from_millis(1200));
    assert_eq!(plain.err.take().matches('\r').count(), 0);
}

#[test]
fn everything_fits_the_terminal() {
    let shown = with(Look {
        width: Width::Columns(40),
        stdout_terminal: true,
        ..LIVE
    });
    let long = "one two three four five six seven eight nine ten eleven twelve";
    shown.step(1, Some(0.5));
    for piece in long.split_inclusive('e') {
        shown.delta("text", piece);
    }
    shown.replied(long);
    shown.runs(
        &format!("echo {long}"),
        &output(&format!("{long}\n- {long}\n"), 3),
    );
    shown.front.show(&Progress::Warning(long));
    shown.front.show(&Progress::Denied {
        policy: "p",
        action: &action(long),
        reason: long,
    });
    let mark = mswea_core::MARK;
    shown.runs("submit", &output(&format!("{mark}\npatch\n"), 0));
    shown.front.show(&Progress::Ended {
        end: &End::Submitted,
        exit_status: "Submitted",
        submission: "patch\n",
        cost: Some(0.02),
        steps: 2,
        usage: &Usage {
            input_tokens: 1500,
            output_tokens: 20,
            ..Usage::default()
        },
    });
    let expected = "\
── step 1  $0.5000 ─────────────────────
one two three four five six seven eight
nine ten eleven twelve
$ echo one two three four five six seven
  eight nine ten eleven twelve
  one two three four five six seven
  eight nine ten eleven twelve
  - one two three four five six seven
    eight nine ten eleven twelve
  exit code 3
warning: one two three four five six
  seven eight nine ten eleven twelve
not run: $ one two three four five six
           seven eight nine ten eleven
           twelve
  denied by `p`: one two three four five
  six seven eight nine ten eleven twelve
$ submit
  (the submission: see below)


Submitted: 2 steps, $0.0200, 1,500
  tokens in, 20 out
";
    assert_eq!(shown.err.text(), expected);
    assert_eq!(shown.out.text(), "patch\n");
}

#[test]
fn tokens_stand_for_a_cost_that_nobody_knows() {
    let shown = with(PLAIN);
    for (step, tokens) in [(1, 0), (2, 1234)] {
        shown.front.show(&Progress::StepStarted {
            step,
            cost: None,
            tokens,
        });
        shown.replied("Hi");
    }
    assert_eq!(
        shown.err.text(),
        "── step 1  ─────────────────────────────────────────────────\nHi\n\n\
         ── step 2  1,234 tokens ────────────────────────────────────\nHi\n"
    );
}
