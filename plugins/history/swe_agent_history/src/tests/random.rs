//! Random and hostile histories, for every type.

use mswea_sdk::testing::check_fresh_instances;

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

    fn text(&mut self) -> String {
        const PIECES: [&str; 16] = [
            "[File: a (3 lines total)]",
            "[File: b (1 lines total)]\n",
            "\n",
            "1:x\n",
            "22:",
            "é",
            "<diff>",
            "</diff>",
            "![",
            "](data:",
            "image/png",
            ";base64,",
            "QQ==)",
            "\u{0}",
            "\r\n",
            "]",
        ];
        (0..self.below(8)).map(|_| PIECES[self.below(16)]).collect()
    }

    fn message(&mut self) -> Message {
        const EXTRAS: [&str; 9] = [
            r#"{"returncode":0}"#,
            r#"{"returncode":1,"tags":["x"]}"#,
            r#"{"actions":[{"command":"open"},{"command":"ls","tool_call_id":"c0"}]}"#,
            r#"{"is_demo":true,"returncode":0}"#,
            "{}",
            "no JSON",
            r#"{"returncode":"#,
            "[]",
            r#"{"tags":7,"actions":7,"is_demo":7,"returncode":7}"#,
        ];
        let role = ["user", "user", "tool", "assistant", "system", "", "exit"][self.below(7)];
        let mut message = Message::new(role, self.text());
        for _ in 0..self.below(3) {
            let part = match self.below(3) {
                0 => image("data:,"),
                _ => ContentPart::text(self.text()),
            };
            message.content.push(part);
        }
        message.extra = EXTRAS.get(self.below(12)).map(|extra| (*extra).to_owned());
        if role == "tool" {
            message.tool_call_id = Some(format!("c{}", self.below(2)));
        }
        if role == "assistant" {
            message.tool_calls = called(&[("c0", "open"), ("c1", "bash")], None).tool_calls;
            message.tool_calls.truncate(self.below(3));
        }
        message
    }
}

#[test]
fn any_change_gives_the_same_view_as_the_whole_history() {
    let tag = json!({"type": "tag_tool_call_observations", "function_names": ["open"]});
    let mut configs = vec![
        json!({ "type": "default" }),
        tag.clone(),
        json!({ "type": "closed_window" }),
        json!({ "type": "remove_regex" }),
        json!({ "type": "remove_regex", "keep_last": 3 }),
        json!({ "type": "image_parsing" }),
    ];
    for config in [tag, json!({ "type": "closed_window" })] {
        let mut config = config;
        config["compat"] = json!(true);
        configs.push(config);
    }
    let mut random = Random(7);
    for config in configs {
        for _ in 0..25 {
            let mut known = 0;
            let mut changes = Vec::new();
            for _ in 0..30 {
                let start = match random.below(4) {
                    0 => random.below(known + 1),
                    _ => known,
                };
                let messages: Vec<Message> =
                    (0..random.below(4)).map(|_| random.message()).collect();
                known = start + messages.len();
                changes.push(Change::tail(start, messages));
            }
            check_fresh_instances::<SweAgentHistory>(&config, &changes);
        }
    }
}
