//! The page of `view` in a real browser: a click through list, run, search, comparison and a run that goes
//! on; hostile content does nothing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use scripted_server::Turn;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::host::Host;
use crate::needs::Need;
use crate::story::{commands, turns};
use crate::views::View;

/// A browser without a window, which is told what to do over a pipe (the DevTools protocol).
pub struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    number: u64,
    session: Option<String>,
    /// What the page has complained about.
    pub complaints: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    pub fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The browser reads from descriptor 3 and writes to 4.
        let script = format!(
            "exec chromium --headless=new --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage \
             --remote-debugging-pipe --user-data-dir='{}' about:blank 3<&0 4>&1 </dev/null >/dev/null 2>&1",
            profile.path().display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut browser = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            number: 0,
            session: None,
            complaints: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for part in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{part}.enable"), json!({}));
        }
        browser
    }

    pub fn call(&mut self, method: &str, values: Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": values });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.input
            .write_all(format!("{message}\0").as_bytes())
            .unwrap();
        loop {
            let mut bytes = Vec::new();
            self.output.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser has ended");
            let answer: Value = serde_json::from_slice(&bytes).unwrap();
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            if matches!(
                answer["method"].as_str(),
                Some("Log.entryAdded" | "Runtime.exceptionThrown" | "Runtime.consoleAPICalled")
            ) {
                self.complaints.push(answer["params"].to_string());
            }
        }
    }

    pub fn go(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, script: &str) -> Value {
        let values = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", values);
        match answer["exceptionDetails"].is_null() {
            true => answer["result"]["value"].clone(),
            // An element may not be there yet.
            false => Value::Null,
        }
    }

    /// Waits until an expression has this value.
    #[track_caller]
    pub fn until(&mut self, script: &str, expected: Value) {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let found = self.value(script);
            if found == expected {
                return;
            }
            assert!(
                Instant::now() < end,
                "`{script}` is {found} and not {expected}; {:?}",
                self.complaints
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn key(&mut self, key: &str) {
        let text = if key.len() == 1 { key } else { "" };
        let values = json!({ "type": "keyDown", "key": key, "text": text });
        self.call("Input.dispatchKeyEvent", values);
        let values = json!({ "type": "keyUp", "key": key });
        self.call("Input.dispatchKeyEvent", values);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_click_through_all_parts_of_the_page() {
    if !Need::Chromium.is_met() {
        return;
    }
    let script = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">";
    let say = format!("printf '%s' '{}'", script.replace('\'', "\"'\""));
    let server = commands(&[&say, "echo two"]);
    let first = Host::new()
        .server(&server)
        .args(["-t", script, "-o", "first.traj.json"]);
    let first = first.run().expect(0);
    let server = commands(&[&say, "echo three", "echo four"]);
    let second = Host::after(&first).server(&server);
    let second = second.args(["-t", script, "-o", "second.traj.json"]);
    second.run().expect(0);
    let wait = Turn::commands(&["while ! test -e go; do sleep 0.05; done"]);
    let server = turns([Turn::commands(&["echo one"]), wait]);
    let live = Host::after(&first).server(&server);
    let mut live = live.args(["-t", "live", "-o", "live.traj.json"]).spawn();
    live.until("the second query", |_| server.served() == 2);

    let waits = json!({"id": "waits <img src=x>", "task": "t"}).to_string();
    std::fs::write(first.dir.join("manifest.jsonl"), waits + "\n").unwrap();

    let view = View::of(Host::after(&first), &["."]);
    let mut browser = Browser::start();
    browser.go(&format!("http://{}/?token={}", view.address, view.token));
    let rows = "document.querySelectorAll('table.runs tbody tr').length";
    browser.until(rows, json!(3));
    browser.until("location.search", json!(""));
    browser.until("document.querySelectorAll('.badge.going').length", json!(1));

    // The list: a filter.
    let filter = |text: &str| {
        format!(
            "(f => {{ f.value = '{text}'; f.dispatchEvent(new Event('input')) }})(document.getElementById('filter'))"
        )
    };
    browser.value(&filter("owned"));
    browser.until(rows, json!(2));
    browser.value(&filter(""));
    browser.until(rows, json!(3));

    // A run that goes on: it grows, and its end comes, without a new load.
    browser.value("[...document.querySelectorAll('table.runs a')].at(0).click()");
    let steps = "document.querySelectorAll('.step').length";
    browser.until(steps, json!(4));
    let now = "document.getElementById('now').textContent.startsWith('runs: while')";
    browser.until(now, json!(true));
    browser.value("window.mark = 1");
    std::fs::write(live.dir().join("go"), "").unwrap();
    live.wait().expect(0);
    browser.until(steps, json!(5));
    let end = "document.getElementById('end').textContent.includes('Submitted')";
    browser.until(end, json!(true));
    assert_eq!(browser.value("window.mark"), 1);

    // Keys and the chart lead to steps.
    for (key, hash) in [
        ("0", "#step-0"),
        ("$", "#step-4"),
        ("h", "#step-3"),
        ("ArrowRight", "#step-4"),
    ] {
        browser.key(key);
        browser.until("location.hash", json!(hash));
    }
    // The place follows what is in sight.
    let place = "document.getElementById('place').textContent";
    browser.until(place, json!("step 4 of 4"));
    browser.value(
        "document.body.style.paddingBottom = '3000px'; window.settled = new Promise(it => setTimeout(it, 500))",
    );
    browser.value(
        "window.settled.then(() => scrollTo(0, document.getElementById('step-2').offsetTop - 60))",
    );
    browser.until(place, json!("step 2 of 4"));
    browser.value("scrollTo(0, 0)");
    browser.until(place, json!("step 0 of 4"));
    browser.value("document.body.style.paddingBottom = ''");
    browser.value(
        "document.querySelectorAll('.chart .hit')[1].dispatchEvent(new MouseEvent('click', { bubbles: true }))",
    );
    browser.until("document.querySelector('.step.here').id", json!("step-3"));
    browser.key("q");
    browser.until(rows, json!(3));

    // Two runs side by side.
    browser.value("document.querySelectorAll('table.runs input')[1].click()");
    browser.value("document.querySelectorAll('table.runs input')[2].click()");
    browser.value("document.getElementById('compare').click()");
    let told = "document.getElementById('told').textContent";
    browser.until(told, json!("the first difference is at step 3"));
    browser.until(
        "document.querySelectorAll('.pair.first .step').length",
        json!(2),
    );
    // Each side names its run, and says where it has no such step.
    let sides =
        "[...document.querySelectorAll('.pair.first .side')].map(it => it.textContent).sort()";
    browser.until(sides, json!(["first", "second"]));
    let missing = "[...document.querySelectorAll('.pair .soft')].filter(it => it.textContent === 'no such step in this run').length";
    browser.until(missing, json!(1));

    // The search.
    browser.value("history.back()");
    browser.until(rows, json!(3));
    browser.value("document.getElementById('to-search').click()");
    browser.value("document.getElementById('query').value = 'ECHO THREE'");
    browser.value("document.getElementById('look').click()");
    browser.until(
        "document.querySelector('mark').textContent",
        json!("echo three"),
    );
    browser.value("document.querySelector('.hit-text a').click()");
    browser.until("document.querySelector('.step.here').id", json!("step-3"));

    // The figures, with what has not begun.
    let hit = browser.value("location.href");
    browser.go(&format!("http://{}/?folder=", view.address));
    browser.until(
        "document.getElementById('waiting')?.textContent",
        json!("1 of 1 instances have not begunwaits <img src=x>"),
    );
    let over_time =
        "[...document.querySelectorAll('figure .area title')].map(it => it.textContent)";
    browser.until(over_time, json!(["Submitted"]));
    // They fit on a phone.
    let phone = json!({ "width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": true });
    browser.call("Emulation.setDeviceMetricsOverride", phone);
    browser.until(
        "document.querySelectorAll('figure').length > 1 && document.documentElement.scrollWidth",
        json!(390),
    );
    let columns = "[...document.querySelectorAll('#statuses th')].every(it => it.getBoundingClientRect().right <= 390)";
    browser.until(columns, json!(true));
    browser.go(hit.as_str().unwrap());
    browser.until("document.querySelectorAll('.step').length > 0", json!(true));
    let buttons =
        "new Set([...document.querySelectorAll('.bar > button')].map(it => it.offsetTop)).size";
    browser.until(buttons, json!(1));
    browser.call("Emulation.clearDeviceMetricsOverride", json!({}));

    // What the record says is text, and the page has loaded nothing else.
    browser.value("for (const it of document.querySelectorAll('details')) it.open = true");
    let shown = "document.getElementById('steps').textContent.includes('<img src=x onerror=')";
    browser.until(shown, json!(true));
    assert_eq!(browser.value("document.images.length"), 0);
    assert_eq!(browser.value("document.scripts.length"), 1);
    assert_ne!(browser.value("document.title"), "owned");
    let outside = "performance.getEntriesByType('resource').filter(it => !it.name.startsWith(location.origin)).length";
    assert_eq!(browser.value(outside), 0);
    assert_eq!(browser.complaints, Vec::<String>::new());
    drop(browser);
    view.end();
}

#[test]
fn a_request_is_shown_as_it_was_sent() {
    if !Need::Chromium.is_met() {
        return;
    }
    let hostile = "<img src=x onerror=document.title=1></script>";
    let say = format!("echo '{hostile}'");
    let server = commands(&["seq 3000", &say, "echo three"]);
    let run = Host::new()
        .server(&server)
        .args(["-t", hostile, "-o", "run.traj.json"])
        .args(["-c", "pipeline.processors=[\"last_n_observations\"]"])
        .args(["-c", "plugins.last_n_observations.config.n=1"])
        .run()
        .expect(0);
    let view = View::of(Host::after(&run), &["."]);
    let mut browser = Browser::start();
    browser.go(&format!("http://{}/?token={}", view.address, view.token));
    browser.until("document.querySelectorAll('table.runs a').length", json!(1));
    browser.value("document.querySelector('table.runs a').click()");
    let requests = "document.querySelectorAll('details.request').length";
    browser.until(requests, json!(4));
    let first = "document.querySelectorAll('details.request')[0]";
    browser.value(&format!("{first}.open = true"));
    let told = |it: &str| format!("{it}.querySelector('p').textContent");
    browser.until(
        &told(first),
        json!("2 messages sent; the whole history".replace(';', ",")),
    );
    let last = "document.querySelectorAll('details.request')[3]";
    browser.value(&format!("{last}.open = true"));
    browser.until(
        &told(last),
        json!("8 messages sent; against the history: 2 changed"),
    );
    // What was changed is open, with the text of the history before it.
    browser.value(&format!(
        "for (const it of {last}.querySelectorAll('details')) it.open = true"
    ));
    let shown = browser.value(&format!(
        "[...{last}.querySelectorAll('.sent')].map(it => [...it.querySelectorAll('pre')].at(-1).textContent)"
    ));
    let sent = server.requests()[3].json();
    for (index, message) in sent["messages"].as_array().unwrap().iter().enumerate() {
        if message["role"] == "assistant" {
            continue;
        }
        let content = &message["content"];
        let text = content.as_str().or_else(|| content[0]["text"].as_str());
        assert_eq!(shown[index].as_str(), text, "message {index}");
    }
    let before = browser.value(&format!(
        "{last}.querySelector('.sent.changed .before').textContent.length"
    ));
    assert!(before.as_u64() > shown[3].as_str().map(|it| it.len() as u64));
    let tools = browser.value(&format!("{last}.textContent.includes('\"bash\"')"));
    assert_eq!(tools, true, "the tools");
    assert_eq!(browser.value("document.images.length"), 0);
    assert_ne!(browser.value("document.title"), "1");
    assert_eq!(browser.complaints, Vec::<String>::new());
    drop(browser);
    view.end();
}

/// Four runs: two with a price, of which one has other settings, one of SWE-agent without times, and one in ATIF
/// without a price.
fn with_unknowns() -> Host {
    let mini = |limit: u32, cost: f64| {
        json!({"trajectory_format": "mini-swe-agent-1.1",
            "info": {"exit_status": "Submitted", "mini_version": "2.4.6", "submission": "",
                "config": {"agent": {"step_limit": limit}, "model": {"model_name": "m"}},
                "model_stats": {"api_calls": 1, "instance_cost": cost}},
            "messages": [{"role": "user", "content": "t", "extra": {"timestamp": 1_795_585_214.5}},
                {"role": "assistant", "content": "a", "extra": {"cost": cost, "timestamp": 1_795_585_224.5}}]})
        .to_string()
    };
    let sweagent = json!({"trajectory": [{"action": "ls", "observation": "", "response": "r", "thought": "r"}],
        "history": [{"role": "user", "content": "t"}], "environment": "e",
        "replay_config": "{\"agent\":{\"model\":{\"name\":\"other\"}}}",
        "info": {"exit_status": "submitted", "model_stats": {"api_calls": 1, "instance_cost": 0.5}}});
    let atif = json!({"schema_version": "ATIF-v1.7", "agent": {"name": "x", "version": "1"},
        "steps": [{"step_id": 1, "source": "user", "message": "t"}, {"step_id": 2, "source": "agent", "message": "a"}]});
    let host = Host::new().file("one.traj.json", mini(7, 0.25));
    host.file("two.traj.json", mini(8, 0.25))
        .file("three.traj", sweagent.to_string())
        .file("four.atif.json", atif.to_string())
}

#[test]
fn what_is_not_known_is_shown_as_unknown() {
    if !Need::Chromium.is_met() {
        return;
    }
    let view = View::of(with_unknowns(), &["."]);
    let mut browser = Browser::start();
    browser.go(&format!("http://{}/?token={}", view.address, view.token));
    let rows = "document.querySelectorAll('table.runs tbody tr').length";
    browser.until(rows, json!(4));
    browser.until(
        "document.getElementById('summary').textContent",
        json!("4 of 4 runs · at least $1.0000, 1 run without a known price"),
    );
    // Cost, tokens, took, age of a run.
    let cells = |name: &str| {
        format!(
            "[...document.querySelector('td[title^=\"{name}\"]').parentNode.querySelectorAll('td.number')].map(it => it.textContent)"
        )
    };
    let of = |browser: &mut Browser, name: &str| browser.value(&cells(name));
    assert_eq!(
        of(&mut browser, "three.traj"),
        json!(["1", "$0.5000", "0", "?", "?"])
    );
    assert_eq!(
        of(&mut browser, "four.atif.json"),
        json!(["1", "?", "0", "?", "?"])
    );
    assert_eq!(of(&mut browser, "one.traj.json")[3], "10 s");

    // By settings: the two of mini-swe-agent differ in one.
    let group = |name: &str| {
        format!(
            "(g => {{ g.value = '{name}'; g.dispatchEvent(new Event('change')) }})(document.getElementById('group'))"
        )
    };
    browser.value(&group("config"));
    let heads = "[...document.querySelectorAll('summary')].map(it => it.textContent)";
    browser.until(&format!("{heads}.length"), json!(3));
    let heads = browser.value(heads);
    let has = |text: &str| {
        let mut heads = heads.as_array().unwrap().iter();
        heads.any(|it| it.as_str().unwrap().contains(text))
    };
    for text in [
        " · step_limit 7 · 1 runs · $0.2500",
        " · step_limit 8 · 1 runs",
        "- · 2 runs · at least $0.5000, 1 run without a known price",
    ] {
        assert!(has(text), "{text}: {heads}");
    }
    browser.value(&group("model"));
    let names = "[...document.querySelectorAll('summary b')].map(it => it.textContent).sort()";
    browser.until(names, json!(["-", "m", "other"]));
    browser.value(&group(""));
    let texts = heads.as_array().unwrap().iter().filter_map(Value::as_str);
    let mut of_limit = texts.filter(|it| it.contains("step_limit 8"));
    let digest = of_limit.find_map(|it| it.split(' ').next()).unwrap();
    browser.value(&format!(
        "(f => {{ f.value = '{digest}'; f.dispatchEvent(new Event('input')) }})(document.getElementById('filter'))"
    ));
    browser.until(rows, json!(1));

    // The page of a run, and the figures.
    browser.value(
        "(f => { f.value = 'three'; f.dispatchEvent(new Event('input')) })(document.getElementById('filter'))",
    );
    browser.until(rows, json!(1));
    browser.value("document.querySelector('table.runs a').click()");
    browser.until(
        "[...document.querySelectorAll('.facts span')].map(it => it.textContent).filter(it => /^(took|started)/.test(it))",
        json!(["took ?"]),
    );
    browser.go(&format!("http://{}/?folder=", view.address));
    let titles = "[...document.querySelectorAll('figcaption')].map(it => it.textContent)";
    browser.until(
        titles,
        json!([
            "Statuses over time",
            "Cost against steps (not of 1 without a known one)",
            "Time against steps (not of 2 without a known one)",
            "Steps",
            "Cost (not of 1 without a known one)"
        ]),
    );
    let dots =
        "[...document.querySelectorAll('figure')].map(it => it.querySelectorAll('circle').length)";
    assert_eq!(browser.value(dots), json!([0, 3, 2, 0, 0]));
    let medians = browser.value("document.getElementById('statuses').textContent");
    assert!(
        medians.as_str().unwrap().contains("ATIF1cost unknown?1?"),
        "{medians}"
    );
    assert_eq!(browser.complaints, Vec::<String>::new());
    drop(browser);
    view.end();
}
