//! The page of `view` in a real browser: order, groups, filters, labels and figures, by clicks and on a phone;
//! what is open or has the focus stays so while runs go on.

use scripted_server::Turn;
use serde_json::{Value, json};

use crate::browsers::Browser;
use crate::host::Host;
use crate::needs::Need;
use crate::story::turns;
use crate::views::View;

const ROWS: &str = "document.querySelectorAll('table.runs tbody tr').length";
/// The names in the list, in its order.
const NAMES: &str = "[...document.querySelectorAll('td.run')].map(it => it.textContent)";
const TITLE: &str = "document.querySelector('h1').textContent";

/// A trajectory of mini-swe-agent; without `end` it has a single time.
fn record(status: &str, task: &str, cost: f64, start: f64, end: Option<f64>) -> String {
    let mut reply = json!({"role": "assistant", "content": "a", "extra": {"cost": cost}});
    if let Some(end) = end {
        reply["extra"]["timestamp"] = end.into();
    }
    json!({"trajectory_format": "mini-swe-agent-1.1",
        "info": {"exit_status": status, "mini_version": "2.4.6", "submission": "",
            "config": {"agent": {"step_limit": 7}, "model": {"model_name": "m"}},
            "model_stats": {"api_calls": 1, "instance_cost": cost}},
        "messages": [{"role": "user", "content": task, "extra": {"timestamp": start}}, reply]})
    .to_string()
}

/// Four runs in two folders. The oldest one is the first one, the newest one is the dearest one but for `two`.
fn four() -> Host {
    let run = |status, task, cost, start| record(status, task, cost, start, Some(start + 10.0));
    let [one, two, three, four] = [1.0, 2.0, 3.0, 4.0].map(|it| 1_700_000_000.0 + it);
    Host::new()
        .file(
            "a/one.traj.json",
            run("Submitted", "echo n11 echo", 0.25, one),
        )
        .file(
            "a/two.traj.json",
            run("LimitsExceeded", "was not Submitted", 0.75, two),
        )
        .file(
            "b/three.traj.json",
            run("Submitted", "echo nothing", 0.375, three),
        )
        .file(
            "a/four.traj.json",
            run("AuthenticationError", "other", 0.5, four),
        )
}

/// Sets a field and says so to the page.
fn set(id: &str, text: &str, event: &str) -> String {
    format!(
        "(it => {{ it.value = {}; it.dispatchEvent(new Event('{event}')) }})(document.getElementById('{id}'))",
        json!(text)
    )
}

/// Clicks the element of this kind that has this text.
fn click(kind: &str, text: &str) -> String {
    format!(
        "[...document.querySelectorAll('{kind}')].find(it => it.textContent.includes('{text}')).click()"
    )
}

impl Browser {
    fn opened(view: &View) -> Self {
        let mut browser = Self::start();
        browser.go(&format!("http://{}/?token={}", view.address, view.token));
        browser.until("location.search", json!(""));
        browser
    }

    #[track_caller]
    fn finish(self, view: View) {
        assert_eq!(self.complaints, Vec::<String>::new());
        drop(self);
        view.end();
    }

    fn phone(&mut self) {
        let phone = json!({ "width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": true });
        self.call("Emulation.setDeviceMetricsOverride", phone);
    }
}

#[test]
fn the_list_keeps_its_order_groups_and_filter() {
    if !Need::Chromium.is_met() {
        return;
    }
    let view = View::of(four(), &["."]);
    let mut browser = Browser::opened(&view);
    browser.until(NAMES, json!(["a/four", "b/three", "a/two", "a/one"]));

    // By cost, then the other way round.
    browser.value(&click("th button", "Cost"));
    browser.until(NAMES, json!(["a/one", "b/three", "a/four", "a/two"]));
    browser.value(&click("th button", "Cost"));
    browser.until(NAMES, json!(["a/two", "a/four", "b/three", "a/one"]));
    browser.until("location.search", json!("?sort=cost&down=1"));

    // Words of one fact.
    for (words, found) in [
        ("submitted", json!(["a/two", "b/three", "a/one"])),
        ("status:submitted", json!(["b/three", "a/one"])),
        ("STATUS:\"Submitted\" folder:\"a\"", json!(["a/one"])),
        ("status:\"submitted\"", json!([])),
        ("folder:A status:auth", json!(["a/four"])),
        ("folder:\"b\" echo", json!(["b/three"])),
        (
            "model:m status:",
            json!(["a/two", "a/four", "b/three", "a/one"]),
        ),
        ("folder:\"a\"", json!(["a/two", "a/four", "a/one"])),
    ] {
        browser.value(&set("filter", words, "input"));
        browser.until(NAMES, found);
    }

    // The next and the previous run are those of the list as it is; `q` leads back to it, also after a new load.
    browser.value(&click("td.run a", "a/two"));
    browser.until(TITLE, json!("was not Submitted"));
    browser.key("L");
    browser.until(TITLE, json!("other"));
    browser.key("L");
    browser.until(TITLE, json!("echo n11 echo"));
    browser.key("H");
    browser.until(TITLE, json!("other"));
    browser.value("window.mark = 1; location.reload()");
    browser.until("window.mark ?? null", Value::Null);
    browser.until(TITLE, json!("other"));
    browser.key("q");
    browser.until(NAMES, json!(["a/two", "a/four", "a/one"]));
    let filter = "document.getElementById('filter').value";
    browser.until(filter, json!("folder:\"a\""));
    browser.until(
        "location.search",
        json!("?q=folder%3A%22a%22&sort=cost&down=1"),
    );
    browser.value("document.getElementById('to-search').click()");
    browser.until("!!document.getElementById('query')", json!(true));
    browser.value(&click("a", "← runs"));
    browser.until(NAMES, json!(["a/two", "a/four", "a/one"]));

    // Groups; what is open stays open.
    browser.value(&set("group", "status", "change"));
    browser.value(&set("filter", "", "input"));
    let groups = "[...document.querySelectorAll('summary b')].map(it => it.textContent).sort()";
    browser.until(
        groups,
        json!(["AuthenticationError", "LimitsExceeded", "Submitted"]),
    );
    browser.until(
        "document.querySelector('details').dataset.group",
        json!("Submitted"),
    );
    browser.value(&set("group", "", "change"));
    browser.until(ROWS, json!(4));

    // A label and a note are kept, and the list has the label.
    browser.value(&click("td.run a", "b/three"));
    let note = |name: &str| format!("document.getElementById('{name}').value");
    browser.until(TITLE, json!("echo nothing"));
    // What is kept is here before it is changed.
    let is_read = "performance.getEntriesByType('resource').some(it => it.name.includes('/api/note?id=' + new URLSearchParams(location.search).get('run')))";
    browser.until(is_read, json!(true));
    browser.value("document.getElementById('notes').open = true");
    browser.value(&set("label", "doubtful", "input"));
    browser.value(&set("note", "<b>look again</b>", "input"));
    browser.value("document.getElementById('keep').click()");
    browser.until("document.getElementById('kept').textContent", json!("kept"));
    browser.key("q");
    browser.until(
        "[...document.querySelectorAll('.label')].map(it => it.textContent)",
        json!(["doubtful"]),
    );
    browser.value(&set("group", "label", "change"));
    browser.until(groups, json!(["-", "doubtful"]));
    browser.value(&set("group", "", "change"));
    browser.value(&set("filter", "label:doubt", "input"));
    browser.until(NAMES, json!(["b/three"]));
    browser.value(&click("td.run a", "b/three"));
    browser.until(&note("note"), json!("<b>look again</b>"));
    browser.until(&note("label"), json!("doubtful"));

    // A regular expression.
    browser.go(&format!("http://{}/?search=", view.address));
    browser.until("!!document.getElementById('look')", json!(true));
    browser.value(&set("query", r"e[ck]ho n\d+", "input"));
    browser.value("document.getElementById('look').click()");
    let told = "document.getElementById('told').textContent.split(' · ')[0]";
    browser.until(told, json!("0 places found"));
    browser.value("document.getElementById('regex').click()");
    browser.value("document.getElementById('look').click()");
    let marks = "[...document.querySelectorAll('mark')].map(it => it.textContent)";
    browser.until(marks, json!(["echo n11"]));
    browser.finish(view);
}

#[test]
fn the_page_on_a_phone_and_in_the_dark() {
    if !Need::Chromium.is_met() {
        return;
    }
    let view = View::of(four(), &["."]);
    let mut browser = Browser::opened(&view);
    browser.until(ROWS, json!(4));
    // A wide window has the heads of the table for it.
    let is_seen = "document.getElementById('order').checkVisibility()";
    browser.until(is_seen, json!(false));
    browser.phone();
    browser.until(is_seen, json!(true));
    browser.value(&set("order", "cost", "change"));
    browser.until(NAMES, json!(["a/one", "b/three", "a/four", "a/two"]));
    browser.value("document.getElementById('turn').click()");
    browser.until(NAMES, json!(["a/two", "a/four", "b/three", "a/one"]));
    let width = "document.documentElement.scrollWidth";
    browser.until(width, json!(390));

    // No word of a status is broken. The page is as wide as the phone.
    browser.go(&format!("http://{}/?folder=a", view.address));
    let lines =
        "[...document.querySelectorAll('#statuses .badge')].map(it => it.getClientRects().length)";
    browser.until(lines, json!([1, 1, 1]));
    browser.until(width, json!(390));
    browser.call("Emulation.clearDeviceMetricsOverride", json!({}));

    // A status leads to the runs that have it, in this folder.
    browser.value(&click("#statuses a", "Submitted"));
    browser.until(NAMES, json!(["a/one"]));
    let filter = "document.getElementById('filter').value";
    browser.until(filter, json!("status:\"Submitted\" folder:\"a\""));

    let back = "getComputedStyle(document.body).backgroundColor";
    for (scheme, color) in [("dark", "rgb(21, 23, 26)"), ("light", "rgb(255, 255, 255)")] {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        browser.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        );
        browser.until(back, json!(color));
    }
    browser.finish(view);
}

#[test]
fn a_list_and_figures_that_are_renewed_keep_what_is_open_and_the_focus() {
    if !Need::Chromium.is_met() {
        return;
    }
    let host = four();
    let dir = host.dir();
    let add = |name: &str| {
        let alone = record("AuthenticationError", "more", 0.5, 1_700_000_020.0, None);
        std::fs::write(dir.join(name), alone).unwrap();
    };
    let view = View::of(host, &["."]);
    let mut browser = Browser::opened(&view);
    let focus = "document.activeElement?.dataset.key ?? document.activeElement?.nodeName";
    let renewed = |browser: &mut Browser, rows: u32| {
        browser.until(ROWS, json!(rows));
        // The element itself is another one.
        browser.until("window.old.isConnected", json!(false));
    };
    browser.until(ROWS, json!(4));
    browser.value("(window.old = document.querySelectorAll('td.run a')[2]).focus()");
    let before = browser.value(focus);
    assert!(before.as_str().unwrap().starts_with("run "), "{before}");
    add("a/five.traj.json");
    renewed(&mut browser, 5);
    assert_eq!(browser.value(focus), before);
    browser.value("(window.old = document.querySelectorAll('th button')[5]).focus()");
    add("a/six.traj.json");
    renewed(&mut browser, 6);
    assert_eq!(browser.value(focus), "head steps");

    // The figures: no run goes on, and a run with one time has ended.
    browser.go(&format!("http://{}/?folder=a", view.address));
    let text = "[...document.querySelectorAll('figure text')].map(it => it.textContent).find(it => it.endsWith('begun') || it.endsWith('on'))";
    browser.until(text, json!("5 runs begun"));
    let paths = "[...document.querySelectorAll('figure path')].every(it => !it.getAttribute('d').includes('NaN'))";
    assert_eq!(browser.value(paths), true);
    let failures = "[...document.querySelectorAll('details')].map(it => [it.open, it.querySelector('b').textContent])";
    browser.until(failures, json!([[false, "3"], [false, "1"]]));
    browser.value("document.querySelector('details summary').click()");
    browser.value("document.querySelector('details summary').focus()");
    add("a/seven.traj.json");
    browser.until(failures, json!([[true, "4"], [false, "1"]]));
    browser.until(text, json!("6 runs begun"));
    browser.until(
        "document.activeElement === document.querySelector('details summary')",
        json!(true),
    );
    browser.finish(view);
}

#[test]
fn a_run_that_goes_on_is_followed() {
    if !Need::Chromium.is_met() {
        return;
    }
    let wait = |name: &str| format!("while ! test -e {name}; do sleep 0.05; done; seq 20");
    let server = turns([
        Turn::commands(&["seq 20"]),
        Turn::commands(&[wait("go")]),
        Turn::commands(&[wait("on")]),
    ]);
    let host = four().server(&server);
    let mut live = host.args(["-t", "live", "-o", "a/live.traj.json"]).spawn();
    live.until("the second query", |_| server.served() == 2);
    let view = View::of(Host::beside(&live), &["."]);
    let mut browser = Browser::opened(&view);
    browser.until(
        NAMES,
        json!(["a/live", "a/four", "b/three", "a/two", "a/one"]),
    );

    // The figures say that it goes on.
    browser.go(&format!("http://{}/?folder=a", view.address));
    let goes_on = "[...document.querySelectorAll('figure text')].some(it => it.textContent === '4 runs begun, 1 of them goes on')";
    browser.until(goes_on, json!(true));

    browser.value(&click("a", "← runs"));
    browser.until(ROWS, json!(5));
    browser.value(&click("td.run a", "a/live"));
    let steps = "document.querySelectorAll('.step').length";
    browser.until(steps, json!(4));
    // What is opened in a step that grows stays open.
    let record = "document.querySelector('#step-3 > details[data-part=\"as recorded\"]')";
    browser.value(&format!("{record}.querySelector('summary').click()"));
    browser.until(&format!("!!{record}.querySelector('pre')"), json!(true));
    browser.value("document.getElementById('follow').click()");
    browser.value("window.old = document.getElementById('step-3')");
    std::fs::write(live.dir().join("go"), "").unwrap();
    browser.until(steps, json!(5));
    browser.until("window.old.isConnected", json!(false));
    browser.until(
        "document.getElementById('step-3').textContent.includes('exit code 0')",
        json!(true),
    );
    browser.until(&format!("{record}.open"), json!(true));
    browser.until(&format!("!!{record}.querySelector('pre')"), json!(true));
    let is_at_end =
        "scrollY > 0 && scrollY + innerHeight >= document.documentElement.scrollHeight - 3";
    browser.until(is_at_end, json!(true));
    let place = "document.getElementById('place').textContent";
    browser.until(place, json!("step 4 of 4"));
    std::fs::write(live.dir().join("on"), "").unwrap();
    live.wait().expect(0);
    browser.until(steps, json!(6));
    browser.until(place, json!("step 5 of 5"));
    browser.until(is_at_end, json!(true));
    browser.finish(view);
}
