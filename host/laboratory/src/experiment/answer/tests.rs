use super::*;
use mswea_core::{Action, Problem};

fn actions(commands: &[(&str, Option<&str>)]) -> RoleAnswer {
    let actions = commands.iter().map(|(command, id)| Action {
        command: (*command).to_owned(),
        tool_call_id: id.map(str::to_owned),
        ..Action::default()
    });
    RoleAnswer::Outcome(Outcome::Actions(actions.collect()))
}

fn malformed(code: &str, message: &str) -> RoleAnswer {
    RoleAnswer::Outcome(Outcome::Malformed(Problem {
        code: code.into(),
        message: message.into(),
        ..Problem::default()
    }))
}

/// As [`malformed`], with a variable of the feedback's template.
fn detailed(actions: u64, message: &str) -> RoleAnswer {
    let mut problem = Problem {
        code: "x".into(),
        message: message.into(),
        ..Problem::default()
    };
    problem.details.insert("n_actions".into(), actions.into());
    RoleAnswer::Outcome(Outcome::Malformed(problem))
}

fn failed() -> RoleAnswer {
    RoleAnswer::fault(PluginFault::new("no"))
}

fn message(text: &str, extra: bool) -> Message {
    let mut message = Message::new("user", text);
    if extra {
        message.extra.insert("k".into(), true.into());
    }
    message
}

fn send(url: &str, headers: &[(&str, &str)], body: &str) -> RoleAnswer {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), HeaderValue::Plain((*value).to_owned())));
    RoleAnswer::Next(Box::new(AdapterNext::Send(HttpRequest {
        method: "POST".into(),
        url: url.into(),
        headers: headers.collect(),
        body: body.as_bytes().to_vec().into(),
    })))
}

#[test]
fn degrees() {
    let deny = |text: &str| RoleAnswer::Verdict(Verdict::Deny(text.into()));
    let rewrite = |extra: &str| {
        let mut action = Action {
            command: "c".into(),
            ..Action::default()
        };
        action.extra.insert(extra.into(), 1.into());
        RoleAnswer::Verdict(Verdict::Rewrite(action))
    };
    let messages = |list: &[(&str, bool)]| {
        RoleAnswer::Messages(
            list.iter()
                .map(|(text, extra)| message(text, *extra))
                .collect(),
        )
    };
    let view = |extra| RoleAnswer::View(vec![message("a", extra).into()]);
    use Degree::*;
    let table = [
        (actions(&[("a", None)]), actions(&[("a", None)]), Same),
        (
            actions(&[("a", Some("1"))]),
            actions(&[("a", Some("2"))]),
            Different,
        ),
        (
            actions(&[("a", None)]),
            actions(&[("a", None), ("b", None)]),
            Different,
        ),
        (actions(&[]), malformed("x", ""), Different),
        (malformed("x", "one"), malformed("x", "two"), Wording),
        (malformed("x", "one"), malformed("y", "one"), Different),
        (detailed(2, "one"), detailed(2, "two"), Wording),
        (detailed(2, "one"), detailed(0, "one"), Different),
        (detailed(2, "one"), malformed("x", "one"), Different),
        (malformed("x", "one"), failed(), OneFailed),
        (failed(), actions(&[]), OneFailed),
        (failed(), failed(), BothFailed),
        (messages(&[("a", false)]), messages(&[("a", true)]), Wording),
        (
            messages(&[("a", false)]),
            messages(&[("b", false)]),
            Different,
        ),
        (deny("a"), deny("a"), Same),
        (deny("a"), deny("b"), Different),
        (
            deny("a"),
            RoleAnswer::Verdict(Verdict::Ask("a".into())),
            Different,
        ),
        (rewrite("x"), rewrite("y"), Wording),
        (view(false), view(false), Same),
        (view(false), view(true), Different),
        (
            send("u", &[("A", "1"), ("b", "2")], "{\"x\":1,\"y\":2}"),
            send("u", &[("B", "2"), ("a", "1")], "{\"y\": 2, \"x\": 1}"),
            Wording,
        ),
        (send("u", &[], "{}"), send("v", &[], "{}"), Different),
        (
            send("u", &[("a", "1")], "{}"),
            send("u", &[], "{}"),
            Different,
        ),
        (
            send("u", &[], "{\"x\":1}"),
            send("u", &[], "{\"x\":2}"),
            Different,
        ),
    ];
    for (old, new, expected) in table {
        assert_eq!(degree(&old, &new), expected, "{old:?} {new:?}");
    }
}

#[test]
fn only_what_differs_is_shown() {
    let old = send(
        "u",
        &[("a", "1")],
        r#"{"m":[{"c":"x"},{"c":"y"}],"t":1,"k":"same"}"#,
    );
    let new = send(
        "u",
        &[("a", "2")],
        r#"{"m":[{"c":"x"},{"c":"z"},{"c":"w"}],"k":"same"}"#,
    );
    let (left, right) = show(&old, &new);
    assert_eq!(
        left,
        json!({"/headers/a": "1", "/body/m/1/c": "y", "/body/t": 1})
    );
    assert_eq!(
        right,
        json!({"/headers/a": "2", "/body/m/1/c": "z", "/body/m/2": {"c": "w"}})
    );
    let list = |texts: &[&str]| {
        let texts = texts.iter().map(|text| message(text, false).into());
        RoleAnswer::View(texts.collect())
    };
    let (old, new) = (list(&["a", "b", "c"]), list(&["a", "x", "y", "c"]));
    let (left, right) = show(&old, &new);
    assert_eq!(
        left["between"],
        json!({"message 1": {"role": "user", "content": "b"}})
    );
    assert_eq!(right["between"].as_object().unwrap().len(), 2);
    assert_eq!(
        (&left["same_before"], &left["same_after"]),
        (&json!(1), &json!(1))
    );
    // The common beginning does not count for the end as well.
    let (old, new) = (list(&["a"]), list(&["a", "a"]));
    let (left, right) = show(&old, &new);
    assert_eq!(
        (
            &left["between"],
            right["between"].as_object().unwrap().len()
        ),
        (&json!({}), 1)
    );
}

#[test]
fn words_come_back() {
    for degree in Degree::ALL {
        assert_eq!(Degree::of_word(degree.as_str()), degree);
        assert_eq!(serde_json::to_value(degree).unwrap(), degree.as_str());
    }
}
