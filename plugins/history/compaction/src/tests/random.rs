//! Random and hostile histories: a fresh instance has the same view, and nothing panics.

use mswea_sdk::testing::check_fresh_instances_answering;

use super::*;

/// A small generator, the same numbers every time.
struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    /// A step of the agent, of any sort, with calls and results paired.
    fn step(&mut self, id: usize) -> Vec<Message> {
        let tokens = [0, 300, 600, 790, 850, 1_200][self.below(6)];
        let bytes = [0, 40, 400, 1_500][self.below(4)];
        match self.below(8) {
            0 => vec![Message::new("user", "u".repeat(bytes))],
            1 => vec![
                Message {
                    extra: usage(tokens),
                    ..Message::new("assistant", "plain")
                },
                Message {
                    extra: Some(r#"{"returncode":0}"#.to_owned()),
                    ..Message::new("user", "x".repeat(bytes))
                },
            ],
            2 => vec![Message {
                extra: usage(tokens),
                ..Message::new("user", "malformed")
            }],
            3 => {
                let mut both = call(id, tokens);
                both.tool_calls.extend(call(id + 1_000, 0).tool_calls);
                vec![both, output(id + 1_000, bytes), output(id, 7)]
            }
            _ => vec![call(id, tokens), output(id, bytes)],
        }
    }
}

/// A reply that depends only on the query: of any length, or empty.
fn some_answer(query: &Query) -> Reply {
    let text = query.messages[0].text();
    let hash = text.bytes().fold(7_u64, |hash, byte| {
        hash.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte)
    });
    reply_text(&match hash % 5 {
        0 => String::new(),
        1 => "much ".repeat(1_000),
        _ => format!("notes {hash:x} {}", "n".repeat((hash % 300) as usize)),
    })
}

#[test]
fn a_fresh_instance_sees_the_same_in_random_histories() {
    let mut random = Random(7);
    let asked = Rc::new(Cell::new(0));
    let mut compacted = 0;
    for _ in 0..200 {
        let mut history = Vec::new();
        let mut changes = Vec::new();
        let mut bounds = Vec::new();
        for id in 0..20 {
            // Sometimes the history loses its end, or a message in it changes.
            let from = match random.below(8) {
                0 if !bounds.is_empty() => bounds[random.below(bounds.len())],
                _ => history.len(),
            };
            history.truncate(from);
            bounds.retain(|bound| *bound < from);
            if history.is_empty() {
                history = start();
            }
            for number in 0..random.below(3) {
                bounds.push(history.len());
                history.extend(random.step(10 * id + number));
            }
            let start = from.min(history.len());
            changes.push(Change::tail(start, history[start..].to_vec()));
        }
        let count = Rc::clone(&asked);
        let views = check_fresh_instances_answering::<Small>(&config(), &changes, move |query| {
            count.set(count.get() + 1);
            some_answer(query)
        });
        let mut whole: Vec<Message> = Vec::new();
        for (change, view) in changes.into_iter().zip(views) {
            change.apply(&mut whole);
            assert_paired(&view);
            assert!(view.len() <= whole.len());
            compacted += usize::from(view.len() < whole.len());
        }
    }
    assert!(
        asked.get() > 200 && compacted > 500,
        "{} {compacted}",
        asked.get()
    );
}

#[test]
fn hostile_histories() {
    let mut random = Random(3);
    let mut config = config();
    config["instructions"] = json!("é");
    for _ in 0..200 {
        let mut known = 0;
        let mut changes = Vec::new();
        for _ in 0..15 {
            let start = match random.below(4) {
                0 => random.below(known + 1),
                _ => known,
            };
            let message = |random: &mut Random| Message {
                role: ["", "user", "tool", "assistant", "system", "exit", "x\u{0}"]
                    [random.below(7)]
                .to_owned(),
                tool_call_id: (random.below(2) == 0).then(|| "c0".to_owned()),
                tool_calls: call(0, 0).tool_calls[random.below(2)..].to_vec(),
                extra: [
                    None,
                    Some("no \"usage\" JSON".to_owned()),
                    Some(r#"{"mswea":{"usage":[1]}}"#.to_owned()),
                    usage(900),
                    usage(u64::MAX),
                    Some(r#"{"is_demo":true,"returncode":{}}"#.to_owned()),
                ][random.below(6)]
                .clone(),
                ..Message::new("", "é\u{0}".repeat([0, 1, 300, 2_000][random.below(4)]))
            };
            let messages: Vec<Message> =
                (0..random.below(5)).map(|_| message(&mut random)).collect();
            known = start + messages.len();
            changes.push(Change::tail(start, messages));
        }
        check_fresh_instances_answering::<Small>(&config, &changes, some_answer);
    }
}
