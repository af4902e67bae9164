//! Histories that no correct host produces, or only in the worst case.

use mswea_core::{Message, Part};
use serde_json::json;

use super::{Course, HistoryStep, MessageWriter, boundary};
use crate::conformance::options::Scale;
use crate::conformance::texts;
use crate::conformance::values::{odd_extra, odd_parts, odd_usage, tool_call};

/// Courses that no correct host produces, or only in the worst case.
pub(in crate::conformance) fn hostile(random: fastrand::Rng, scale: &Scale) -> Vec<Course> {
    let mut courses = Vec::new();
    let mut add = |label: &str, histories: Vec<Vec<Message>>| {
        let whole = |messages| HistoryStep { start: 0, messages };
        let steps = histories.into_iter().map(whole).collect();
        courses.push(Course {
            label: label.to_owned(),
            steps,
        });
    };
    let opening = || vec![Message::new("system", "s"), Message::new("user", "u")];
    let with = |message: Message| {
        let mut history = opening();
        history.push(message);
        history
    };
    let result = |id: &str, text: &str| {
        let mut result = Message::new("tool", text);
        result.tool_call_id = Some(id.to_owned());
        result
    };
    let called = |calls: &[(&str, &str)], text: &str| {
        let mut says = Message::new("assistant", text);
        says.tool_calls = calls
            .iter()
            .map(|(id, args)| tool_call(id, "bash", *args))
            .collect();
        let mut history = with(says);
        history.extend(calls.iter().map(|(id, _)| result(id, text)));
        history
    };
    add("an empty history", vec![vec![]]);
    add(
        "a history that becomes empty, and comes back",
        vec![opening(), vec![], opening()],
    );
    add(
        "unknown roles",
        vec![vec![
            Message::new("developer", "x"),
            Message::new("", "x"),
            Message::new("exit", "x"),
            Message::new("\u{0}\u{1f980}", "x"),
        ]],
    );
    add(
        "no message of the user's",
        vec![vec![Message::new("assistant", "x"); 3]],
    );
    add(
        "a result of no tool call",
        vec![with(result("call_1", "x"))],
    );
    add(
        "a result without an id",
        vec![with(Message::new("tool", "x"))],
    );
    let mut open = called(&[("call_1", "{}")], "x");
    open.truncate(3);
    add("a tool call without a result", vec![open]);
    add(
        "one id twice",
        vec![called(&[("call_1", "{}"), ("call_1", "{}")], "x")],
    );
    add("empty ids", vec![called(&[("", "{}"), ("", "")], "")]);
    let mut nameless = called(&[("call_1", "{}")], "x");
    nameless[2].tool_calls[0].name.clear();
    add("a tool call without a name", vec![nameless]);
    let mut bare = opening();
    bare.iter_mut().for_each(|message| message.content.clear());
    add("messages without content", vec![bare]);
    for role in ["system", "user", "assistant"] {
        let mut parts = Message::new(role, "");
        parts.content = odd_parts();
        let label = format!("odd parts in a message of role {role}");
        add(&label, vec![with(parts)]);
    }
    let mut extra = called(&[("call_1", "{}")], "x");
    for message in &mut extra {
        message.extra = odd_extra();
    }
    extra[2].tool_calls[0].extra = odd_extra();
    add("odd extra", vec![extra]);
    let mut usage = called(&[("call_1", "{}")], "x");
    usage[2]
        .extra
        .insert("mswea".into(), json!({ "usage": odd_usage() }));
    add("usage without bounds", vec![usage]);
    for marks in [
        json!(null),
        json!({}),
        json!({"type": 1, "ttl": []}),
        json!("ephemeral"),
    ] {
        let mut marked = called(&[("call_1", "{}")], "x");
        for message in &mut marked {
            message.extra.insert("cache_control".into(), marks.clone());
            message.extra.insert("content_list".into(), json!(true));
        }
        add("odd marks for the provider's cache", vec![marked]);
    }
    for (label, text) in texts::odd().into_iter().chain(texts::deep(5000)) {
        let arguments = format!("{label}, as arguments and content");
        add(&arguments, vec![called(&[("call_1", &text)], &text)]);
        if text.len() < 200 {
            let id = format!("{label}, as id of a tool call");
            add(&id, vec![called(&[(&text, "{}")], "x")]);
        }
    }
    for (label, text) in texts::huge(scale.huge) {
        add(
            &format!("{label}, as content"),
            vec![called(&[("call_1", "{}")], &text)],
        );
    }
    let mut writer = MessageWriter::new(random);
    let mut many = writer.opening();
    while many.len() < scale.many {
        let turn = writer.turn();
        many.extend(turn);
    }
    let mut shorter = many.clone();
    shorter.truncate(boundary(&many, many.len() / 2));
    add(
        "very many messages, and then half as many",
        vec![many, shorter],
    );
    let parts = Message {
        content: vec![Part::text("x"); scale.many],
        ..Message::new("user", "")
    };
    add("very many parts", vec![with(parts)]);
    // Fewer than elsewhere, because a plugin that searches for each result's call is slow, but
    // correct.
    let ids: Vec<String> = (0..scale.many / 3).map(|n| format!("call_{n}")).collect();
    let calls: Vec<(&str, &str)> = ids.iter().map(|id| (id.as_str(), "{}")).collect();
    add(
        "very many tool calls in one message",
        vec![called(&calls, "x")],
    );
    courses
}
