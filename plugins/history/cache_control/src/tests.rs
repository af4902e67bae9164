//! Test vectors of both rules, and random changes compared with a plain function of the history.

use super::*;
use mswea_sdk::testing::{Driver, check_fresh_instances, configure};

fn messages(roles: &str) -> Vec<Message> {
    let message = |role: char| match role {
        's' => Message::new("system", "s"),
        'u' => Message::new("user", "u"),
        'a' => Message::new("assistant", "a"),
        't' => Message {
            extra: Some(r#"{"returncode":0}"#.to_owned()),
            ..Message::tool("c", "t")
        },
        // A mark that another processor has set.
        'm' => Message {
            extra: Some(r#"{"cache_control":{"type":"other"},"x":[1]}"#.to_owned()),
            ..Message::new("user", "m")
        },
        other => panic!("no role `{other}`"),
    };
    roles.chars().map(message).collect()
}

/// The indexes of the marked messages, and their marks.
fn marks(view: &[Message]) -> Vec<(usize, Value)> {
    let mark = |message: &Message| message.extra_value().get("cache_control").cloned();
    view.iter()
        .enumerate()
        .filter_map(|(index, message)| Some((index, mark(message)?)))
        .collect()
}

#[test]
fn the_rules_mark_the_end() {
    let last_n = |n: usize, offset: usize| json!({"mode": "last_n", "last_n_messages": n, "last_n_messages_offset": offset});
    let vectors = [
        // mini-swe-agent's: the last message, and no other.
        (json!({}), "", vec![]),
        (json!({}), "s", vec![0]),
        (json!({}), "su", vec![1]),
        (json!({}), "suatt", vec![4]),
        (json!({}), "sua", vec![2]),
        (json!({}), "smam", vec![3]),
        // SWE-agent's: the last ones of some roles, counted from the end.
        (json!({"mode": "last_n"}), "suatatat", vec![5, 7]),
        (json!({"mode": "last_n"}), "sua", vec![1]),
        (json!({"mode": "last_n"}), "sa", vec![]),
        (last_n(1, 0), "suat", vec![3]),
        (last_n(3, 0), "suat", vec![1, 3]),
        (last_n(0, 0), "smam", vec![]),
        (last_n(2, 1), "suatat", vec![1, 3]),
        (last_n(2, 2), "suatat", vec![1, 3]),
        (last_n(2, 9), "suatat", vec![]),
        // The offset counts messages of every role; other marks are removed everywhere.
        (last_n(1, 1), "suaata", vec![4]),
        (last_n(2, 3), "suaata", vec![1]),
        (last_n(1, 0), "mmamt", vec![4]),
        (last_n(4, 0), "suatatat", vec![1, 3, 5, 7]),
        (
            json!({"mode": "last_n", "tagged_roles": []}),
            "smut",
            vec![],
        ),
        (
            json!({"mode": "last_n", "tagged_roles": ["system", "user"]}),
            "suatat",
            vec![0, 1],
        ),
    ];
    for (config, roles, expected) in vectors {
        let mut driver = Driver::<CacheControl>::new(config.clone());
        let view = driver.apply(Change::all(messages(roles)));
        let mark = json!({"type": "ephemeral"});
        let expected: Vec<_> = expected.into_iter().map(|i| (i, mark.clone())).collect();
        assert_eq!(marks(view), expected, "{config} {roles}");
    }
}

#[test]
fn a_mark_has_the_shape_of_the_api() {
    for (ttl, mark) in [
        ("5m", json!({"type": "ephemeral"})),
        ("1h", json!({"type": "ephemeral", "ttl": "1h"})),
    ] {
        let mut driver = Driver::<CacheControl>::new(json!({ "ttl": ttl }));
        assert_eq!(
            marks(driver.apply(Change::all(messages("su")))),
            [(1, mark)]
        );
    }
}

#[test]
fn all_else_stays() {
    let mut driver = Driver::<CacheControl>::new(json!({}));
    let view = driver.apply(Change::all(messages("mt"))).to_vec();
    assert_eq!(view[0].extra.as_deref(), Some(r#"{"x":[1]}"#));
    let extra = r#"{"cache_control":{"type":"ephemeral"},"returncode":0}"#;
    assert_eq!(view[1].extra.as_deref(), Some(extra));
    let mut expected = messages("mt");
    for (message, seen) in expected.iter_mut().zip(&view) {
        message.extra.clone_from(&seen.extra);
    }
    assert_eq!(view, expected);
}

#[test]
fn only_what_turned_is_sent_again() {
    // A step appends two messages; the view changes from the oldest mark that moves.
    for (config, expected) in [
        (json!({}), [3, 5, 7]),
        (json!({"mode": "last_n"}), [1, 3, 5]),
        (json!({"mode": "last_n", "last_n_messages": 0}), [4, 6, 8]),
    ] {
        let mut driver = Driver::<CacheControl>::new(config.clone());
        driver.apply(Change::all(messages("suat")));
        let starts = [4, 6, 8].map(|len| {
            driver.apply(Change::tail(len, messages("at")));
            driver.last_start()
        });
        assert_eq!(starts, expected, "{config}");
        // Without new messages nothing is sent.
        let len = driver.apply(Change::tail(10, vec![])).len();
        assert_eq!((driver.last_start(), len), (10, 10));
    }
}

#[test]
fn any_change_gives_the_same_view_as_the_whole_history() {
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for config in [
        json!({}),
        json!({"mode": "last_n"}),
        json!({"mode": "last_n", "last_n_messages": 3, "last_n_messages_offset": 2, "ttl": "1h"}),
    ] {
        let mut changes = Vec::new();
        let mut known = 0;
        for _ in 0..200 {
            let start = match random(3) {
                0 => random(known + 1),
                _ => known,
            };
            let roles: String = (0..random(4))
                .map(|_| ['s', 'u', 'a', 't', 'm'][random(5)])
                .collect();
            known = start + roles.len();
            changes.push(Change::tail(start, messages(&roles)));
        }
        let views = check_fresh_instances::<CacheControl>(&config, &changes);
        let mut whole = Vec::new();
        for (change, view) in changes.into_iter().zip(views) {
            change.apply(&mut whole);
            assert_eq!(view.len(), whole.len());
            let texts = |list: &[Message]| list.iter().map(Message::text).collect::<Vec<_>>();
            assert_eq!(texts(&view), texts(&whole));
        }
    }
}

#[test]
fn bad_configs() {
    for (config, pointer) in [
        (json!({"mode": "off"}), None),
        (json!({"ttl": "2h"}), None),
        (json!({"n": 1}), None),
        (
            json!({"last_n_messages": 5}),
            Some(r#"{"pointer":"/last_n_messages"}"#),
        ),
    ] {
        let error = configure::<CacheControl>(config.clone())
            .err()
            .expect("it is bad");
        assert_eq!(error.code, "invalid-config");
        assert_eq!(error.extra.as_deref(), pointer, "{config}");
    }
    let mut good = configure::<CacheControl>(json!({})).expect("it is good");
    let error = good.apply(Change::tail(1, vec![])).err();
    assert_eq!(
        error.map(|error| error.code).as_deref(),
        Some("invalid-input")
    );
}
