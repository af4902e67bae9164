//! The messages of an attended run, which are those of mini-swe-agent's interactive agent.

use super::boundaries::{position, resumed};
use super::*;
use mswea_core::{Errand, PersonMode};

/// Gives these answers in order, and stores the questions.
#[derive(Default)]
pub(super) struct Attending {
    pub(super) answers: Mutex<VecDeque<Answer>>,
    pub(super) asked: Mutex<Vec<Question>>,
    pub(super) mode: PersonMode,
}

#[async_trait]
impl Person for Attending {
    fn is_present(&self) -> bool {
        true
    }

    fn mode(&self) -> PersonMode {
        self.mode
    }

    async fn answer(&self, question: &Question) -> Option<Answer> {
        self.asked.lock().unwrap().push(question.clone());
        self.answers.lock().unwrap().pop_front()
    }
}

pub(super) async fn attended(
    replies: &[&str],
    limits: RunLimits,
    answers: Vec<Answer>,
) -> (Ran, Vec<Question>) {
    let person = Arc::new(Attending {
        answers: Mutex::new(answers.into()),
        ..Attending::default()
    });
    let own = person.clone();
    let ran = run_changed(replies, limits, |parts| parts.person = own).await;
    let asked = person.asked.lock().unwrap().clone();
    (ran, asked)
}

#[tokio::test]
async fn a_person_is_asked_and_what_is_answered_is_recorded() {
    let say = |text: &str| Answer::Say { text: text.into() };
    // The first Ctrl-C of `stop-step` ends the step only.
    let (ran, asked) = attended(
        &["calls:a|stop-step|c", "calls:submit x"],
        RunLimits::default(),
        vec![say("do better"), Answer::Yes],
    )
    .await;
    assert_eq!(asked[0], Question::Interrupted);
    assert_eq!(ran.ended.end, End::Submitted);
    assert!(
        !ran.commands.contains(&"c".to_owned()),
        "{:?}",
        ran.commands
    );
    let texts: Vec<String> = ran
        .ended
        .state
        .messages
        .iter()
        .map(|it| it.text())
        .collect();
    assert_eq!(texts[6], "Interrupted by user: do better", "{texts:?}");
    assert_eq!(
        fold(&ran.journal.records()).messages,
        ran.ended.state.messages
    );

    // A refused submission does not count, and a raised limit applies.
    let limits = RunLimits {
        steps: 1,
        ..RunLimits::default()
    };
    let raise = Answer::Raise {
        steps: 1,
        cost: 0.0,
    };
    let (ran, asked) = attended(
        &["calls:submit x", "calls:submit y"],
        limits,
        vec![say("not yet"), raise, Answer::Yes],
    )
    .await;
    assert!(matches!(asked[0], Question::Submission { .. }));
    assert!(matches!(asked[1], Question::Limit { .. }));
    assert_eq!(ran.ended.submission, "y");
    assert_eq!(ran.ended.end, End::Submitted);

    // Without an answer the run ends, and a policy's question is a denial.
    let (ran, _) = attended(&["calls:ask|stop-step"], RunLimits::default(), Vec::new()).await;
    assert_eq!(ran.ended.end, End::Interrupted);
    assert!(!ran.commands.contains(&"ask".to_owned()));
    let (ran, _) = attended(
        &["calls:ask|submit x"],
        RunLimits::default(),
        vec![Answer::Yes],
    )
    .await;
    assert!(ran.commands.contains(&"ask".to_owned()));
}

/// Writes to the model while an errand runs.
#[derive(Default)]
struct Writing {
    has_written: Arc<Mutex<bool>>,
    is_done: Mutex<bool>,
}

#[async_trait]
impl Person for Writing {
    fn is_present(&self) -> bool {
        true
    }

    fn has_message(&self) -> bool {
        *self.has_written.lock().unwrap()
    }

    fn said(&self) -> Option<String> {
        std::mem::take(&mut *self.has_written.lock().unwrap()).then(|| "wait".into())
    }

    async fn errand(&self) -> Errand {
        if std::mem::replace(&mut *self.is_done.lock().unwrap(), true) {
            return std::future::pending().await;
        }
        let written = self.has_written.clone();
        Errand {
            script: "errand".into(),
            done: Box::new(move |_| *written.lock().unwrap() = true),
        }
    }

    async fn answer(&self, _: &Question) -> Option<Answer> {
        Some(Answer::Yes)
    }
}

#[tokio::test]
async fn what_is_written_during_an_errand_comes_before_the_query() {
    let ran = run_changed(&["calls:submit x"], RunLimits::default(), |parts| {
        parts.person = Arc::new(Writing::default());
    });
    let ran = ran.await;
    assert_eq!(
        shape(&ran.ended.state.messages)[..2],
        ["user wait", "assistant"]
    );
    assert_eq!(ran.ended.end, End::Submitted);
}

/// The messages behind the first two, shortened: `role text`.
fn shape(messages: &[Arc<Message>]) -> Vec<String> {
    let messages = messages.iter().skip(2);
    let text = |message: &Message| match message.role.as_str() {
        "assistant" | "exit" => message.role.clone(),
        role => format!("{role} {}", message.text().replace('\n', " ")),
    };
    messages.map(|message| text(message)).collect()
}

fn say(text: &str) -> Answer {
    Answer::Say { text: text.into() }
}

fn no(reason: &str) -> Answer {
    Answer::No {
        reason: reason.into(),
    }
}

fn act(command: &str) -> Answer {
    Answer::Act {
        command: command.into(),
    }
}

struct Case {
    replies: &'static [&'static str],
    mode: PersonMode,
    answers: Vec<Answer>,
    /// The beginnings of the messages that are added to the history.
    expected: &'static [&'static str],
}

async fn check(case: Case) {
    let person = Arc::new(Attending {
        answers: Mutex::new(case.answers.clone().into()),
        mode: case.mode,
        ..Attending::default()
    });
    let own = person.clone();
    let ran = run_changed(case.replies, RunLimits::default(), |parts| {
        parts.person = own;
    })
    .await;
    let found = shape(&ran.ended.state.messages);
    let is_so = found.len() == case.expected.len()
        && found
            .iter()
            .zip(case.expected)
            .all(|(found, it)| found.starts_with(it));
    assert!(is_so, "{:?} {:?}:\n{found:#?}", case.replies, case.answers);
    assert!(person.answers.lock().unwrap().is_empty());
    // The journal folds to the same messages, and has them as they are on disk.
    assert_eq!(
        fold(&ran.journal.records()).messages,
        ran.ended.state.messages
    );
}

#[tokio::test]
async fn mini_swe_agents_messages() {
    const SKIPPED: &str = "tool <exception>action was not executed";
    const REJECTED: &str = "user Commands not executed. The user rejected your commands with the \
                            following message: no";
    let cases = [
        // Rejected: every call gets a result, and the rejection follows.
        Case {
            replies: &["calls:a|b", "calls:submit x"],
            mode: PersonMode::Confirm,
            answers: vec![no("no"), Answer::Yes, Answer::Yes],
            expected: &[
                "assistant",
                SKIPPED,
                SKIPPED,
                REJECTED,
                "assistant",
                SKIPPED,
                "exit",
            ],
        },
        // A new task: what submitted is reported as not executed.
        Case {
            replies: &["calls:a|submit x|c", "calls:submit y"],
            mode: PersonMode::Yolo,
            answers: vec![say("more"), Answer::Yes],
            expected: &[
                "assistant",
                "tool <returncode>0</returncode> <output> a",
                SKIPPED,
                SKIPPED,
                "user The user added a new task: more",
                "assistant",
                SKIPPED,
                "exit",
            ],
        },
        Case {
            replies: &["calls:submit x", "calls:submit y"],
            mode: PersonMode::Yolo,
            answers: vec![Answer::TakeOver, Answer::Yes],
            expected: &[
                "assistant",
                SKIPPED,
                "user Switched to human mode.",
                "assistant",
                SKIPPED,
                "exit",
            ],
        },
        // An interruption: what has run is reported, then what the user says.
        Case {
            replies: &["calls:a|stop-step|c", "calls:submit x"],
            mode: PersonMode::Yolo,
            answers: vec![say("wait"), Answer::Yes],
            expected: &[
                "assistant",
                "tool <returncode>0</returncode> <output> a",
                "tool <returncode>0</returncode> <output> stop-step",
                SKIPPED,
                "user Interrupted by user: wait",
                "assistant",
                SKIPPED,
                "exit",
            ],
        },
        Case {
            replies: &["calls:stop-step|c", "calls:submit x"],
            mode: PersonMode::Yolo,
            answers: vec![Answer::Yes, Answer::Yes],
            expected: &[
                "assistant",
                "tool <returncode>0</returncode> <output> stop-step",
                SKIPPED,
                "user Interrupted by user: Temporary interruption caught.",
                "assistant",
                SKIPPED,
                "exit",
            ],
        },
        // Human mode never calls the model. This parser reads no tool calls, so a command that submits
        // needs no result.
        Case {
            replies: &[],
            mode: PersonMode::Human,
            answers: vec![act("a"), act("submit x"), Answer::Yes],
            expected: &[
                "user User command:  ```bash a ```",
                "user <returncode>0</returncode> <output> a",
                "user User command:  ```bash submit x ```",
                "exit",
            ],
        },
        Case {
            replies: &["calls:a|b", "calls:submit x"],
            mode: PersonMode::Confirm,
            answers: vec![Answer::TakeOver, Answer::Yes, Answer::Yes],
            expected: &[
                "assistant",
                SKIPPED,
                SKIPPED,
                "user Commands not executed. Switching to human mode",
                "assistant",
                SKIPPED,
                "exit",
            ],
        },
        // Edited commands run in the place of the model's.
        Case {
            replies: &["calls:a|b", "calls:submit x"],
            mode: PersonMode::Confirm,
            answers: vec![
                Answer::EditAll {
                    commands: vec!["a".into(), "edited".into()],
                },
                Answer::Yes,
                Answer::Yes,
            ],
            expected: &[
                "assistant",
                "tool <returncode>0</returncode> <output> a",
                "tool <returncode>0</returncode> <output> edited",
                "assistant",
                SKIPPED,
                "exit",
            ],
        },
    ];
    for case in cases {
        check(case).await;
    }
}

#[tokio::test]
async fn a_limit_that_is_raised_too_little_ends_the_run() {
    let limits = RunLimits {
        steps: 1,
        ..RunLimits::default()
    };
    let raise = |steps| Answer::Raise { steps, cost: 0.0 };
    for (by, end) in [(0, End::LimitsExceeded), (1, End::Submitted)] {
        let answers = vec![raise(by), Answer::Yes];
        let (ran, asked) = attended(&["calls:a", "calls:submit x"], limits.clone(), answers).await;
        assert_eq!(ran.ended.end, end);
        let Question::Limit { account } = &asked[0] else {
            panic!("{asked:?}");
        };
        assert_eq!((account.queries, account.query_limit), (1, 1));
    }
}

#[tokio::test]
async fn a_policy_judges_the_model_s_action_after_a_resume() {
    let whole = run(&["calls:old", "calls:submit x"])
        .await
        .journal
        .records();
    let end = position(&whole, |event| matches!(event, Event::Rewritten { .. })) + 1;
    let (state, commands) = resumed(&whole[..end], &["calls:submit x"], false, |_| {}).await;
    assert_eq!(commands[0], "new");
    let output = &state.messages[3].extra["raw_output"];
    assert_eq!(output, "new");
}
