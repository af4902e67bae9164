//! SWE-agent's rules: when the model is asked again, what it sees then, and how the run ends.

use super::boundaries::{Recorded, go, running};
use super::histories::{forks_the_same, replays_under};
use super::*;

const WITH: &str = "###SWE-AGENT-RETRY-WITH-OUTPUT###";
const WITHOUT: &str = "###SWE-AGENT-RETRY-WITHOUT-OUTPUT###";
const FORFEIT: &str = "###SWE-AGENT-EXIT-FORFEIT###";

fn limits() -> RunLimits {
    RunLimits {
        consecutive_format_errors: 3,
        ..RunLimits::default()
    }
}

async fn under_its_rules(replies: &[&str], limits: RunLimits) -> (Vec<Vec<String>>, Ended) {
    let run = Recorded {
        replies: replies.iter().map(|&reply| reply.to_owned()).collect(),
        limits,
        rules: AgentRules::SweAgent,
        ..Recorded::default()
    };
    let left = go(&run, State::default(), &run.replies).await;
    let state = fold(&left.records);
    assert_eq!(state.messages, left.ended.state.messages);
    // The messages of each query, as the journal rebuilds them.
    let mut seen = Vec::new();
    for (end, record) in left.records.iter().enumerate() {
        if matches!(record.event, Event::QueryStarted { .. }) {
            let state = fold(&left.records[..=end]);
            seen.push(shown(&state.messages[2..]));
        }
    }
    (seen, left.ended)
}

/// `role: text` of each message; a message without text is `role`.
fn shown(messages: &[Arc<Message>]) -> Vec<String> {
    let lines = messages.iter().map(|message| {
        let text = message.text();
        // The formatter's tags are not of interest.
        let output = message.extra.get("raw_output").and_then(Value::as_str);
        let text = output.unwrap_or(&text).trim();
        let role = &message.role;
        if text.is_empty() {
            role.clone()
        } else {
            format!("{role}: {text}")
        }
    });
    lines.collect()
}

/// The replies, what the last query sees after the task, how many queries there are, the exit status, and
/// the submission.
type Vector = (
    &'static [&'static str],
    &'static [&'static str],
    u32,
    &'static str,
    &'static str,
);

#[tokio::test]
async fn the_ladder() {
    let vectors: &[Vector] = &[
        // Only the latest failure is shown, and none of it stays.
        (
            &["text:one", "text:two", "calls:a", "calls:submit x"],
            &["assistant", "tool: a"],
            4,
            "submitted",
            "x",
        ),
        (
            &["text:one", "text:two", "calls:submit x"],
            &["assistant: two", "user: what is two?"],
            3,
            "submitted",
            "x",
        ),
        // The number of tries in all.
        (
            &["text:one", "text:two", "text:three"],
            &["assistant: two", "user: what is two?"],
            3,
            "submitted (exit_format)",
            "salvage",
        ),
        // A blocked action counts; its call is not in the question, because it has no result.
        (
            &["calls:rm", "calls:submit x"],
            &["user: not that"],
            2,
            "submitted",
            "x",
        ),
        (
            &["calls:rm", "text:two", "calls:rm"],
            &["assistant: two", "user: what is two?"],
            3,
            "submitted (exit_format)",
            "salvage",
        ),
        // A usable reply ends the count.
        (
            &[
                "text:1",
                "text:2",
                "calls:a",
                "text:1",
                "text:2",
                "calls:submit x",
            ],
            &["assistant", "tool: a", "assistant: 2", "user: what is 2?"],
            6,
            "submitted",
            "x",
        ),
        // The content policy: the same history again.
        (
            &["calls:a", "error:content-filtered", "calls:submit x"],
            &["assistant", "tool: a"],
            3,
            "submitted",
            "x",
        ),
        (
            &[
                "error:content-filtered",
                "error:content-filtered",
                "error:content-filtered",
            ],
            &[],
            3,
            "submitted (exit_format)",
            "salvage",
        ),
        // The marks of tools do not count.
        (
            &[
                WITHOUT_CALL,
                WITHOUT_CALL,
                WITHOUT_CALL,
                WITHOUT_CALL,
                "calls:submit x",
            ],
            &[],
            5,
            "submitted",
            "x",
        ),
        (
            &["text:one", WITHOUT_CALL, "calls:submit x"],
            &["assistant: one", "user: what is one?"],
            3,
            "submitted",
            "x",
        ),
        (&["calls:exit"], &[], 1, "exit_command", ""),
        (
            &["error:context-window-exceeded"],
            &[],
            1,
            "submitted (exit_context)",
            "salvage",
        ),
        (
            &["error:authentication"],
            &[],
            1,
            "submitted (exit_error)",
            "salvage",
        ),
        (
            &[FORFEIT_CALL],
            &[],
            1,
            "submitted (exit_forfeit)",
            "salvage",
        ),
    ];
    for (replies, last, queries, status, submission) in vectors {
        let (seen, ended) = under_its_rules(replies, limits()).await;
        assert_eq!(seen.last().unwrap(), last, "{replies:?}");
        assert_eq!(ended.account.queries, *queries, "{replies:?}");
        assert_eq!(ended.exit_status, *status, "{replies:?}");
        assert_eq!(ended.submission, *submission, "{replies:?}");
    }
}

const WITHOUT_CALL: &str = "calls:###SWE-AGENT-RETRY-WITHOUT-OUTPUT###";
const FORFEIT_CALL: &str = "calls:###SWE-AGENT-EXIT-FORFEIT###";

#[tokio::test]
async fn a_tool_s_output_is_shown_with_the_question() {
    let reply = format!("calls:look\n{WITH}");
    let (seen, ended) = under_its_rules(&[&reply, "calls:submit x"], limits()).await;
    let question = seen.last().unwrap();
    assert_eq!(question.len(), 1, "{question:?}");
    assert!(
        question[0].contains("look") && !question[0].contains(WITH),
        "{question:?}"
    );
    assert_eq!(ended.submission, "x");
    assert!(
        ended
            .state
            .messages
            .iter()
            .all(|message| !message.text().contains("look"))
    );
}

#[tokio::test]
async fn the_same_marks_mean_nothing_under_mini_s_rules() {
    let replies = [
        WITHOUT_CALL,
        FORFEIT_CALL,
        "calls:rm",
        "calls:exit",
        "calls:submit x",
    ];
    let ran = run(&replies).await;
    assert_eq!(ran.ended.exit_status, "Submitted");
    assert_eq!(ran.ended.account.queries, 5);
    assert_eq!(
        ran.commands,
        [WITHOUT, FORFEIT, "exit", "submit x", "salvage", "cleanup"]
    );
}

#[tokio::test]
async fn limits_of_time_end_the_run() {
    let of_commands = RunLimits {
        // The clock of the tests goes on by a quarter of a second.
        execution_seconds: 0.3,
        ..limits()
    };
    let (_, ended) = under_its_rules(&["calls:a", "calls:b", "calls:c"], of_commands).await;
    assert_eq!(ended.exit_status, "submitted (exit_total_execution_time)");
}

fn generated(seed: u64) -> Recorded {
    let mut random = fastrand::Rng::with_seed(seed);
    let with = format!("calls:shown {seed}\n{WITH}");
    let mut replies: Vec<String> = (0..random.u32(1..7))
        .map(|count| match random.u8(0..10) {
            0 | 1 => format!("text:what {count}"),
            2 => "text:fault".to_owned(),
            3 => "calls:rm".to_owned(),
            4 => WITHOUT_CALL.to_owned(),
            5 => with.clone(),
            6 => "text:none".to_owned(),
            _ => format!("calls:c{count}"),
        })
        .collect();
    replies.push(["calls:submit x", FORFEIT_CALL, "calls:exit"][random.usize(0..3)].to_owned());
    Recorded {
        replies,
        limits: limits(),
        rules: AgentRules::SweAgent,
        ..Recorded::default()
    }
}

#[tokio::test]
async fn a_run_that_is_stopped_anywhere_goes_on_as_if_it_were_not() {
    for seed in 0..30 {
        let run = generated(seed);
        let whole = go(&run, State::default(), &run.replies).await;
        let place = format!("seed {seed}: {:?}", run.replies);
        replays_under(AgentRules::SweAgent, &whole.records, Chain::default, &place).await;
        forks_the_same(&whole.records, &place);
        for end in 1..whole.records.len() {
            let records = &whole.records[..end];
            let state = fold(records);
            // The model is told of an action that was running, so its later replies may differ.
            if running(&state).is_some() || state.end.is_some() {
                continue;
            }
            let used = records
                .iter()
                .filter(|record| matches!(record.event, Event::Reply { .. }))
                .count();
            let rest = go(&run, state, &run.replies[used..]).await;
            let place = format!("seed {seed}, event {end}: {:?}", run.replies);
            assert_eq!(rest.ended.exit_status, whole.ended.exit_status, "{place}");
            assert_eq!(
                shown(&rest.ended.state.messages),
                shown(&whole.ended.state.messages),
                "{place}"
            );
            assert_eq!(
                rest.ended.account.queries, whole.ended.account.queries,
                "{place}"
            );
            let began = records
                .iter()
                .filter(|record| matches!(record.event, Event::Action { .. }))
                .count();
            let own = |commands: &[String]| {
                let own = |command: &&String| !["salvage", "cleanup"].contains(&command.as_str());
                commands.iter().filter(own).count()
            };
            assert_eq!(began + own(&rest.commands), own(&whole.commands), "{place}");
        }
    }
}
