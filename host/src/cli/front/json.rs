//! The front of `--json`: one JSON object per line on stdout for each event.
//!
//! `events.md` beside this file lists the events and their keys. Keys and events may be added
//! in later versions, never taken away; a reader ignores what it does not know.

use std::io;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::outlet::Drain;
use super::sink::Sink;
use super::{CliFront, lock};
use crate::cli::exit::ExitCode;
use mswea_core::{Front, Progress};

/// Writes events as JSON lines.
pub struct JsonFront {
    out: Mutex<Sink>,
    /// The last event, which is written when the exit code of the process is known.
    ended: Mutex<Option<Value>>,
}

/// An event in place of events that were left out because the output was not read.
pub(super) fn lost(count: u64) -> String {
    format!("{}\n", json!({"type": "lost", "events": count}))
}

impl JsonFront {
    /// Writes to `out`.
    pub(super) fn new(out: impl Drain + 'static) -> Self {
        Self {
            out: Mutex::new(Sink::new(out)),
            ended: Mutex::new(None),
        }
    }
}

impl Front for JsonFront {
    fn show(&self, progress: &Progress<'_>) {
        let event = event(progress);
        // JSON has no raw newlines, so an event is a line.
        let line = format!("{event}\n");
        match progress {
            // Written only once, because a run may still show warnings after its end.
            Progress::Ended { .. } => *lock(&self.ended) = Some(event),
            Progress::Delta(_) => lock(&self.out).put_spare(&line),
            _ => lock(&self.out).put(&line),
        }
    }
}

impl CliFront for JsonFront {
    fn take_output_error(&self) -> Option<io::Error> {
        lock(&self.out).take_error()
    }

    fn conclude(&self, code: ExitCode, error: Option<&str>) {
        let Some(mut event) = lock(&self.ended).take() else {
            return;
        };
        event["exit_code"] = code.code().into();
        if let Some(error) = error {
            event["error"] = error.into();
        }
        lock(&self.out).put_data(&format!("{event}\n"));
    }
}

pub(super) fn event(progress: &Progress<'_>) -> Value {
    match progress {
        Progress::Recording {
            trajectory,
            journal,
        } => json!({
            "type": "recording",
            "trajectory": trajectory,
            "journal": journal,
        }),
        Progress::Preparing(text) => json!({"type": "preparing", "message": text}),
        Progress::StepStarted { step, cost, .. } => {
            json!({"type": "step_started", "step": step, "cost": cost})
        }
        Progress::Delta(delta) => {
            json!({"type": "delta", "kind": delta.kind, "text": delta.text})
        }
        Progress::DeltaReset => json!({"type": "delta_reset"}),
        // The provider's response is left out; the trajectory has it.
        Progress::Replied { reply, cost } => json!({
            "type": "replied",
            "message": reply.message,
            "finish_reason": reply.finish_reason,
            "model": reply.model,
            "usage": reply.usage,
            "cost": cost,
        }),
        Progress::HeldBack { wait } => json!({
            "type": "held_back",
            "wait_seconds": wait.as_secs_f64(),
        }),
        Progress::Retrying {
            class,
            message,
            attempt,
            of,
            wait,
        } => json!({
            "type": "retrying",
            "class": class,
            "message": message,
            "attempt": attempt,
            "of": of,
            "wait_seconds": wait.as_secs_f64(),
        }),
        Progress::Message(message) => json!({"type": "message", "message": message}),
        Progress::ActionStarted { action, index, of } => json!({
            "type": "action_started",
            "action": action,
            "index": index,
            "of": of,
        }),
        Progress::ActionEnded { output, index } => json!({
            "type": "action_ended",
            "output": output,
            "index": index,
        }),
        Progress::Asked { processor, purpose } => json!({
            "type": "asked",
            "processor": processor,
            "purpose": purpose,
        }),
        Progress::Answered {
            processor,
            reply,
            cost,
        } => json!({
            "type": "answered",
            "processor": processor,
            "message": reply.message,
            "usage": reply.usage,
            "cost": cost,
        }),
        Progress::Rewritten {
            policy,
            original,
            action,
            index,
        } => json!({
            "type": "rewritten",
            "policy": policy,
            "original": original,
            "action": action,
            "index": index,
        }),
        Progress::Denied {
            policy,
            action,
            reason,
        } => json!({
            "type": "denied",
            "policy": policy,
            "action": action,
            "reason": reason,
        }),
        Progress::Warning(text) => json!({"type": "warning", "message": text}),
        Progress::Withheld(names) => json!({"type": "withheld", "names": names}),
        Progress::Seen(text) => json!({"type": "seen", "message": text}),
        Progress::Ended {
            end,
            exit_status,
            submission,
            cost,
            steps,
            usage,
        } => json!({
            "type": "ended",
            "exit_status": exit_status,
            "exit_code": ExitCode::from(*end).code(),
            "submission": submission,
            "cost": cost,
            "steps": steps,
            "usage": usage,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::cli::front::testing::{Broken, Buffer};
    use mswea_core::Action;
    use mswea_core::{Delta, End, ErrorClass, Message, Output, Reply, Usage};

    #[test]
    fn events() {
        let action = Action {
            command: "ls\npwd".into(),
            ..Action::default()
        };
        let other = Action {
            command: "true".into(),
            ..Action::default()
        };
        let output = Output {
            output: "a\n".into(),
            returncode: 2,
            ..Output::default()
        };
        let delta = Delta {
            kind: "text".into(),
            text: "Hi\n".into(),
        };
        let reply = Reply {
            message: Message::new("assistant", "Hi"),
            finish_reason: "stop".into(),
            model: "m".into(),
            response: Some(json!({"huge": true})),
            ..Reply::default()
        };
        let message = Message::new("user", "x");
        let usage = Usage {
            input_tokens: 3,
            ..Usage::default()
        };
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        let tokens = |input: u64| {
            json!({"input_tokens": input, "cache_read_tokens": 0, "cache_write_tokens": 0,
                   "output_tokens": 0, "reasoning_tokens": 0})
        };
        let vectors = [
            (
                Progress::StepStarted {
                    step: 1,
                    cost: Some(0.5),
                    tokens: 0,
                },
                json!({"type": "step_started", "step": 1, "cost": 0.5}),
            ),
            (
                Progress::Delta(&delta),
                json!({"type": "delta", "kind": "text", "text": "Hi\n"}),
            ),
            (
                Progress::Recording {
                    trajectory: Path::new("a.traj.json"),
                    journal: Path::new("a.events.jsonl"),
                },
                json!({"type": "recording", "trajectory": "a.traj.json",
                       "journal": "a.events.jsonl"}),
            ),
            (
                Progress::Preparing("pulling `a`"),
                json!({"type": "preparing", "message": "pulling `a`"}),
            ),
            (Progress::DeltaReset, json!({"type": "delta_reset"})),
            (
                Progress::Replied {
                    reply: &reply,
                    cost: None,
                },
                json!({"type": "replied", "message": {"role": "assistant", "content": text("Hi")},
                       "finish_reason": "stop", "model": "m", "usage": null, "cost": null}),
            ),
            (
                Progress::Retrying {
                    class: &ErrorClass::RateLimited.into(),
                    message: "slow down",
                    attempt: 1,
                    of: 10,
                    wait: Duration::from_millis(1500),
                },
                json!({"type": "retrying", "class": "rate-limited", "message": "slow down",
                       "attempt": 1, "of": 10, "wait_seconds": 1.5}),
            ),
            (
                Progress::Message(&message),
                json!({"type": "message", "message": {"role": "user", "content": text("x")}}),
            ),
            (
                Progress::ActionStarted {
                    action: &action,
                    index: 0,
                    of: 2,
                },
                json!({"type": "action_started", "action": {"command": "ls\npwd"},
                       "index": 0, "of": 2}),
            ),
            (
                Progress::ActionEnded {
                    output: &output,
                    index: 0,
                },
                json!({"type": "action_ended", "output": {"output": "a\n", "returncode": 2,
                       "exception_info": ""}, "index": 0}),
            ),
            (
                Progress::Asked {
                    processor: "compaction",
                    purpose: "summary",
                },
                json!({"type": "asked", "processor": "compaction", "purpose": "summary"}),
            ),
            (
                Progress::Answered {
                    processor: "compaction",
                    reply: &reply,
                    cost: Some(0.25),
                },
                json!({"type": "answered", "processor": "compaction", "usage": null, "cost": 0.25,
                       "message": {"role": "assistant", "content": text("Hi")}}),
            ),
            (
                Progress::Rewritten {
                    policy: "stay-inside",
                    original: &action,
                    action: &other,
                    index: 1,
                },
                json!({"type": "rewritten", "policy": "stay-inside", "index": 1,
                       "original": {"command": "ls\npwd"}, "action": {"command": "true"}}),
            ),
            (
                Progress::Denied {
                    policy: "blocklist",
                    action: &action,
                    reason: "no",
                },
                json!({"type": "denied", "policy": "blocklist",
                       "action": {"command": "ls\npwd"}, "reason": "no"}),
            ),
            (
                Progress::Warning("w"),
                json!({"type": "warning", "message": "w"}),
            ),
            (
                Progress::Withheld(&["A".to_owned()]),
                json!({"type": "withheld", "names": ["A"]}),
            ),
            (Progress::Seen("s"), json!({"type": "seen", "message": "s"})),
            (
                Progress::Ended {
                    end: &End::LimitsExceeded,
                    exit_status: "LimitsExceeded",
                    submission: "",
                    cost: Some(f64::NAN),
                    steps: 4,
                    usage: &usage,
                },
                json!({"type": "ended", "exit_status": "LimitsExceeded", "exit_code": 3,
                       "submission": "", "cost": null, "steps": 4, "usage": tokens(3)}),
            ),
        ];
        let documented = include_str!("events.md");
        let out = Buffer::default();
        let front = JsonFront::new(out.clone());
        for (progress, expected) in vectors {
            front.show(&progress);
            if matches!(progress, Progress::Ended { .. }) {
                assert_eq!(out.take(), "", "what it ends with is not known yet");
                front.conclude(ExitCode::Limit, None);
            }
            let line = out.take();
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            let got: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(got, expected);

            let heading = format!("## `{}`", got["type"].as_str().unwrap());
            let section = documented.split_once(&heading).expect(&heading).1;
            let section = section.split("\n## ").next().unwrap();
            for key in got.as_object().unwrap().keys().filter(|key| *key != "type") {
                assert!(section.contains(&format!("`{key}`")), "{heading}: {key}");
            }
        }
    }

    /// The exit code of the process may differ from that of its run, if the trajectory can't be
    /// written.
    #[test]
    fn the_last_event_says_what_the_process_ends_with() {
        let out = Buffer::default();
        let front = JsonFront::new(out.clone());
        front.show(&Progress::Ended {
            end: &End::Submitted,
            exit_status: "Submitted",
            submission: "patch",
            cost: None,
            steps: 1,
            usage: &Usage::default(),
        });
        front.show(&Progress::Warning("late"));
        front.conclude(ExitCode::Failed, Some("no room"));
        front.conclude(ExitCode::Failed, None);
        let text = out.text();
        let events: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(events.len(), 2, "{text}");
        assert_eq!(events[1]["exit_code"], 1);
        assert_eq!(events[1]["error"], "no room");
        assert_eq!(events[1]["submission"], "patch");
        let lost: Value = serde_json::from_str(&lost(7)).unwrap();
        assert_eq!(lost, json!({"type": "lost", "events": 7}));
        assert!(include_str!("events.md").contains("\n## `lost`\n"));
    }

    #[test]
    fn a_closed_pipe_is_no_error_and_a_full_disk_is_one() {
        for (kind, told) in [
            (io::ErrorKind::BrokenPipe, false),
            (io::ErrorKind::StorageFull, true),
        ] {
            let front = JsonFront::new(Broken(kind));
            front.show(&Progress::DeltaReset);
            front.show(&Progress::DeltaReset);
            assert_eq!(front.take_output_error().is_some(), told, "{kind}");
            assert!(front.take_output_error().is_none());
        }
    }
}
