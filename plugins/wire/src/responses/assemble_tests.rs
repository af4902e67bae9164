//! Vectors for streams whose last event is incomplete.

use super::*;
use crate::Assembly as _;

fn assemble(events: &[Value]) -> (Assembly, Vec<Delta>) {
    let mut assembly = Assembly::default();
    let mut deltas = Vec::new();
    for event in events {
        let event = Event {
            name: String::new(),
            data: event.to_string(),
        };
        assembly.take(&event, &mut deltas);
    }
    (assembly, deltas)
}

#[test]
fn an_empty_end_is_filled_from_what_came_before() {
    let events = [
        json!({"type": "response.created", "response": {"id": "r", "object": "response", "status": "in_progress", "output": []}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs", "summary": []}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "a"}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "b"}),
        json!({"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 1, "part": {"type": "summary_text", "text": ""}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1, "delta": "c"}),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "x"}),
        json!({"type": "response.refusal.delta", "output_index": 1, "content_index": 1, "delta": "no"}),
        json!({"type": "response.output_item.added", "output_index": 3, "item": {"type": "function_call", "call_id": "c", "name": "bash", "arguments": ""}}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 3, "delta": "{"}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 3, "delta": "}"}),
        json!({"type": "response.reasoning_text.delta", "output_index": 4, "content_index": 0, "delta": "raw"}),
        json!({"type": "response.output_item.done", "output_index": 4, "item": {"type": "reasoning", "encrypted_content": "e"}}),
        json!({"type": "response.unheard_of.delta", "output_index": 0, "delta": "?"}),
    ];
    let last = json!({"type": "response.incomplete", "response": {
        "id": "r", "status": "incomplete", "output": [], "usage": {"input_tokens": 3}}});
    let (assembly, deltas) = assemble(&[&events[..], &[last]].concat());
    assert!(assembly.is_complete() && assembly.has_answer() && assembly.error().is_none());
    assert_eq!(assembly.usage()["input_tokens"], 3);
    let shown: Vec<(&str, &str)> = deltas.iter().map(|d| (&*d.kind, &*d.text)).collect();
    assert_eq!(
        shown,
        [
            ("reasoning", "ab\n\nc"),
            ("text", "xno"),
            ("tool-call", "{}"),
            ("reasoning", "raw")
        ]
    );
    let response = assembly.into_response();
    assert_eq!(response["status"], "incomplete");
    assert_eq!(
        response["output"],
        json!([
            {"type": "reasoning", "id": "rs", "summary": [
                {"type": "summary_text", "text": "ab"}, {"type": "summary_text", "text": "c"}]},
            {"content": [{"type": "output_text", "text": "x"}, {"type": "refusal", "refusal": "no"}]},
            {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"},
            {"type": "reasoning", "encrypted_content": "e"},
        ])
    );
    // Without the last event, the response is incomplete.
    let (assembly, _) = assemble(&events);
    assert!(assembly.has_answer() && !assembly.is_complete());
}

#[test]
fn items_with_one_index_are_told_apart() {
    let call = |id: &str, arguments: &str| json!({"type": "function_call", "id": id, "call_id": id, "name": "b", "arguments": arguments});
    let event = |kind: &str, item: Value| json!({"type": format!("response.output_item.{kind}"), "output_index": 0, "item": item});
    let delta = |text: &str| json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": text});
    let (one, two) = (call("c", "1"), call("d", "2"));
    for (events, expected) in [
        (
            vec![event("done", one.clone()), event("done", two.clone())],
            vec![&one, &two],
        ),
        (
            vec![event("done", one.clone()), event("done", one.clone())],
            vec![&one],
        ),
        (
            vec![
                event("added", call("c", "")),
                delta("1"),
                event("done", one.clone()),
                event("added", call("d", "")),
                delta("2"),
                event("done", two.clone()),
            ],
            vec![&one, &two],
        ),
        // No end of an item, and no beginning.
        (
            vec![
                event("added", call("c", "")),
                delta("1"),
                event("added", call("d", "")),
                delta("2"),
            ],
            vec![&one, &two],
        ),
        (
            vec![
                delta("1"),
                event("done", one.clone()),
                delta("2"),
                event("done", two.clone()),
            ],
            vec![&one, &two],
        ),
        // An id that changes.
        (
            vec![event("added", call("e", "")), event("done", one.clone())],
            vec![&one],
        ),
        (
            vec![
                event("done", call("c", "2")),
                event("added", call("c", "")),
                json!({"type": "response.content_part.done", "output_index": 0, "part": {}}),
                json!({"type": "response.reasoning_summary_part.done", "output_index": 0, "part": {}}),
                event("done", one.clone()),
            ],
            vec![&one],
        ),
        (
            vec![event("done", call("", "1")), event("done", call("", "2"))],
            vec![&call("", "1"), &call("", "2")],
        ),
    ] {
        let without = events.iter().map(|event| {
            let mut event = event.clone();
            event["output_index"] = Value::Null;
            event
        });
        let end = json!({"type": "response.completed", "response": {"output": []}});
        for mut events in [without.collect::<Vec<_>>(), events.clone()] {
            events.push(end.clone());
            let response = assemble(&events).0.into_response();
            assert_eq!(response["output"], json!(expected), "{events:?}");
        }
    }
}

#[test]
fn a_full_end_counts_as_it_is() {
    let end =
        json!({"id": "r", "status": "completed", "output": [{"type": "message", "content": []}]});
    let (assembly, _) = assemble(&[
        json!({"type": "response.output_text.delta", "delta": "x"}),
        json!({"type": "response.completed", "response": end}),
        json!({"type": "response.output_text.delta", "delta": "late"}),
    ]);
    assert_eq!(assembly.into_response(), end);
}

#[test]
fn errors_are_seen_in_every_form() {
    for event in [
        json!({"type": "error", "code": "server_error", "message": "m", "param": null}),
        json!({"type": "error", "error": {"type": "x", "message": "m"}}),
        json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "c", "message": "m"}}}),
        json!({"type": "response.failed", "response": {"error": null}}),
        json!({"type": "response.error", "error": {"code": "server_error", "message": "m"}}),
        json!({"error": {"code": 502, "message": "m"}}),
    ] {
        let (assembly, _) = assemble(std::slice::from_ref(&event));
        assert!(assembly.error().is_some(), "{event}");
    }
    let (assembly, _) = assemble(&[json!({"type": "response.created", "error": null})]);
    assert!(assembly.error().is_none());
    let (assembly, _) = assemble(&[json!({"type": "response.output_text.delta",
        "output_index": u64::MAX, "content_index": 1_000_000_000u64, "delta": "x"})]);
    assert!(assembly.items.len() <= MAX_INDEX + 1);
}
