//! `view`: the page's server, asked over real HTTP.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use scripted_server::{Fault, Turn};
use serde_json::{Value, json};

use crate::host::{Host, Running, Signal};
use crate::story::{commands, turns};

/// A server of the page.
pub struct View {
    running: Running,
    /// Address and port.
    pub address: String,
    pub token: String,
}

/// An answer.
pub struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    pub body: String,
}

impl Answer {
    #[track_caller]
    fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl View {
    /// Starts it in the folder of `host`.
    pub fn of(host: Host, paths: &[&str]) -> Self {
        let mut running = host.arg("view").args(paths).spawn();
        running.until("the address", |it| it.stdout().contains('\n'));
        let url = running.stdout();
        let (address, token) = url
            .trim()
            .strip_prefix("http://")
            .and_then(|it| it.split_once("/?token="))
            .expect("an address with a token");
        Self {
            address: address.to_owned(),
            token: token.to_owned(),
            running,
        }
    }

    fn cookie(&self) -> String {
        let (_, port) = self.address.rsplit_once(':').unwrap();
        format!("mswea-view-{port}={}", self.token)
    }

    /// A request with these headers and nothing else.
    fn bare(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).expect("all answers are text");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head[9..12].parse().unwrap();
        let headers = head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "));
        Answer {
            status,
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            body: body.to_owned(),
        }
    }

    /// A request of the page itself.
    pub fn get(&self, path: &str) -> Answer {
        let cookie = self.cookie();
        let headers = [("Host", self.address.as_str()), ("Cookie", &cookie)];
        self.bare("GET", path, &headers, "")
    }

    pub fn runs(&self) -> Vec<Value> {
        let list = self.get("/api/runs?since=0").json();
        list["runs"].as_array().unwrap().clone()
    }

    /// The id of the run with this task.
    #[track_caller]
    pub fn id(&self, task: &str) -> String {
        let runs = self.runs();
        let run = runs.iter().find(|run| run["task"] == task);
        let run = run.unwrap_or_else(|| panic!("no run `{task}`: {runs:?}"));
        run["id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn until(&self, what: &str, mut found: impl FnMut() -> Option<Value>) -> Value {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(value) = found() {
                return value;
            }
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ctrl-C ends it.
    pub fn end(self) {
        self.running.signal(Signal::INT);
        self.running.wait().expect(0);
    }
}

#[test]
fn only_the_own_page_with_the_token_is_answered() {
    let server = commands(&["echo one"]);
    let run = Host::new()
        .server(&server)
        .task("secret task")
        .run()
        .expect(0);
    let view = View::of(Host::after(&run), &["."]);
    let host = ("Host", view.address.as_str());
    let cookie = view.cookie();
    let own = ("Cookie", cookie.as_str());
    let origin = format!("http://{}", view.address);
    let paths = ["/", "/main.js", "/api/runs?since=0", "/nothing", "/../x"];
    let wrong = ("Cookie", "mswea-view-1=0123456789abcdef");
    let evil = ("Host", "evil.example:80");
    for path in paths {
        for headers in [
            &[host][..],
            &[host, wrong],
            &[own],
            &[evil, own],
            &[host, own, ("Origin", "http://evil.example")],
            &[host, own, ("Origin", "null")],
            &[host, own, ("Sec-Fetch-Site", "cross-site")],
        ] {
            let answer = view.bare("GET", path, headers, "");
            // Without a host it is no request of HTTP/1.1 at all.
            assert!(
                matches!(answer.status, 400 | 403),
                "{path} {headers:?}: {}",
                answer.status
            );
            assert!(!answer.body.contains("secret task"));
        }
    }
    let token = format!("/?token={}", view.token);
    assert_eq!(view.bare("GET", &token, &[evil], "").status, 403);
    assert_eq!(view.bare("GET", "/?token=x", &[host], "").status, 403);
    // The address that was printed leads to the page, and leaves the token behind.
    let token = format!("{token}&q=a");
    let answer = view.bare("GET", &token, &[host], "");
    assert_eq!(answer.status, 303);
    assert_eq!(answer.headers["location"], "/?q=a");
    let kept = &answer.headers["set-cookie"];
    assert!(kept.starts_with(&cookie), "{kept}");
    assert!(
        kept.contains("HttpOnly") && kept.contains("SameSite=Strict"),
        "{kept}"
    );

    // After another site's link the page goes on by itself: a redirect would come without the cookie.
    let linked = ("Sec-Fetch-Site", "cross-site");
    let path = format!("/?token={}&q=%22%3E%3Cscript%3E", view.token);
    let answer = view.bare("GET", &path, &[host, linked], "");
    assert_eq!(answer.status, 200);
    assert!(answer.headers["set-cookie"].starts_with(&cookie));
    assert!(
        answer.body.contains("0;url=/?q=%22%3E%3Cscript%3E\""),
        "{}",
        answer.body
    );
    assert!(!answer.body.contains(&view.token));

    let own_page = [host, own, ("Origin", origin.as_str())];
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/main.js", "text/javascript; charset=utf-8"),
        ("/style.css", "text/css; charset=utf-8"),
        ("/api/runs?since=0", "application/json"),
    ] {
        let answer = view.bare("GET", path, &own_page, "");
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.headers["content-type"], kind);
        let policy = &answer.headers["content-security-policy"];
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"));
        assert!(!policy.contains("unsafe"));
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["referrer-policy"], "no-referrer");
    }
    for path in [
        "/nothing",
        "/../traj.json",
        "/api/file?id=../traj.json",
        "/api/run?id=/etc/passwd",
    ] {
        assert_eq!(view.bare("GET", path, &own_page, "").status, 404, "{path}");
    }
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(view.bare(method, "/", &own_page, "").status, 405);
    }
    view.end();
}

#[test]
fn runs_are_listed_and_read() {
    let server = commands(&["echo one; exit 3", "echo two"]);
    let run = Host::new().server(&server).task("the first\nof all");
    let run = run.run().expect(0);
    // The same, as mini-swe-agent would have written it, in a folder below.
    let mut mini = run.trajectory();
    mini["info"].as_object_mut().unwrap().remove("mswea");
    fs::create_dir(run.dir.join("below")).unwrap();
    fs::write(run.dir.join("below/mini.traj.json"), mini.to_string()).unwrap();
    fs::write(run.dir.join("below/broken.traj.json"), "{\"info\": ").unwrap();
    let view = View::of(Host::after(&run), &["."]);

    let mut runs = view.runs();
    runs.sort_by_key(|run| run["name"].as_str().unwrap().to_owned());
    let names: Vec<&Value> = runs.iter().map(|run| &run["name"]).collect();
    assert_eq!(
        names,
        [
            "below/broken.traj.json",
            "below/mini.traj.json",
            "traj.events.jsonl"
        ]
    );
    assert_eq!(runs[0]["status"], "unreadable");
    for run in &runs[1..] {
        assert_eq!(run["task"], "the first", "{run}");
        assert_eq!(run["status"], "Submitted");
        assert_eq!(run["steps"], 3);
        assert_eq!(run["running"], false);
    }
    // Nothing new is sent until something changes.
    let list = view.get("/api/runs?since=0");
    let (host, cookie) = (("Host", view.address.as_str()), view.cookie());
    let known = ("If-None-Match", list.headers["etag"].as_str());
    let headers = [host, ("Cookie", cookie.as_str()), known];
    let revision = list.json()["revision"].as_u64().unwrap();
    let path = format!("/api/runs?since={revision}");
    assert_eq!(view.bare("GET", &path, &headers, "").status, 304);
    fs::remove_file(run.dir.join("below/broken.traj.json")).unwrap();
    let gone = view.until("the file is gone", || {
        let answer = view.bare("GET", &path, &headers, "");
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(gone["gone"], json!([runs[0]["id"]]));
    assert_eq!(gone["runs"], json!([]));

    let id = runs[2]["id"].as_str().unwrap();
    let whole = view.get(&format!("/api/run?id={id}")).json();
    assert_eq!(whole["total"], 5, "{whole}");
    assert_eq!(whole["exit_status"], "Submitted");
    let step = &whole["steps"][2];
    assert_eq!(step["calls"][0]["text"], "echo one; exit 3");
    assert_eq!(step["shown"][0]["returncode"], 3);
    assert!(step["shown"][0]["text"].as_str().unwrap().contains("one"));
    assert!(step["asked"].as_f64().unwrap() <= step["time"].as_f64().unwrap());
    assert_eq!(step["view"], json!({ "start": 0, "messages": 2 }));
    let rest = view.get(&format!("/api/run?id={id}&from=4")).json();
    assert_eq!(rest["steps"].as_array().unwrap().len(), 1);
    let record = view.get(&format!("/api/record?id={id}&step=2"));
    for part in ["query_started", "\"reply\"", "echo one; exit 3", "observed"] {
        assert!(record.body.contains(part), "{part}: {}", record.body);
    }
    assert!(!record.body.contains("echo two"));
    let text = view.get(&format!("/api/text?id={id}&step=2&part=call-0"));
    assert_eq!(text.body, "echo one; exit 3");
    assert_eq!(text.headers["content-type"], "text/plain; charset=utf-8");

    // The other program's file is the same conversation.
    let other = runs[1]["id"].as_str().unwrap();
    let rows = view.get(&format!("/api/compare?a={id}&b={other}")).json();
    assert_eq!(rows["first"], Value::Null, "{rows}");
    assert_eq!(rows["rows"].as_array().unwrap().len(), 5);

    let found = view.get("/api/search?q=ECHO%20TWO").json();
    assert_eq!(found["runs"].as_array().unwrap().len(), 2, "{found}");
    let hit = &found["runs"][0]["hits"][0];
    assert_eq!(
        (&hit["step"], &hit["match"]),
        (&json!(3), &json!("echo two"))
    );
    let found = view.get("/api/search?regex=1&q=exit%20%5Cd%24").json();
    assert_eq!(found["runs"][0]["hits"][0]["match"], "exit 3");
    let bad = view.get("/api/search?regex=1&q=%28");
    assert_eq!(bad.status, 400);
    assert!(bad.body.contains("regular expression"), "{}", bad.body);

    let note = json!({ "label": "good", "note": "</script>" }).to_string();
    let path = format!("/api/note?id={id}");
    let (host, kind) = (
        ("Host", view.address.as_str()),
        ("Content-Type", "application/json"),
    );
    let own = ("Cookie", cookie.as_str());
    assert_eq!(view.bare("POST", &path, &[host, kind], &note).status, 403);
    assert_eq!(view.bare("POST", &path, &[host, own], &note).status, 415);
    assert_eq!(
        view.bare("POST", &path, &[host, own, kind], &note).status,
        200
    );
    assert_eq!(view.get(&path).json()["note"], "</script>");
    assert!(view.runs().iter().any(|run| run["label"] == "good"));
    let kept = fs::read(run.dir.join("view-notes.json")).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(kept["runs"][run.run_id()]["label"], "good");
    view.end();
}

#[test]
fn a_run_that_goes_on_grows_on_the_page() {
    let second = Turn::commands(&["while ! test -e go; do sleep 0.05; done"]);
    let server = turns([Turn::commands(&["echo one"]), second]);
    let mut running = Host::new().server(&server).task("live").spawn();
    running.until("the second query", |_| server.served() == 2);
    // Without a path, the runs are those of `runs list`.
    let view = View::of(Host::beside(&running), &[]);
    let id = view.id("live");
    let path = format!("/api/run?id={id}&from=0");
    let seen = view.until("the second command runs", || {
        let run = view.get(&path).json();
        let now = run["about"]["now"]["event"].as_str();
        now.is_some_and(|it| it.starts_with("runs: while"))
            .then_some(run)
    });
    assert_eq!(seen["total"], 4, "{seen}");
    assert_eq!(seen["card"]["running"], true);
    assert_eq!(seen["open"], 3);
    assert_eq!(seen["steps"][3]["shown"], json!([]));
    assert_eq!(seen["exit_status"], Value::Null);
    fs::write(running.dir().join("go"), "").unwrap();
    running.wait().expect(0);
    let path = format!("/api/run?id={id}&from=3");
    let seen = view.until("the end", || {
        let run = view.get(&path).json();
        (run["exit_status"] == "Submitted").then_some(run)
    });
    assert_eq!(seen["total"], 5);
    assert_eq!(seen["steps"][0]["shown"][0]["returncode"], 0, "{seen}");
    let listed = view.until("the list knows", || {
        let run = view.runs().remove(0);
        (run["running"] == false).then_some(run)
    });
    assert_eq!(
        (&listed["status"], &listed["steps"]),
        (&json!("Submitted"), &json!(3))
    );
    view.end();
}

#[test]
fn a_killed_run_is_shown_with_what_it_had() {
    let server = turns([Turn::commands(&["echo one"]), Turn::fault(Fault::Silence)]);
    let mut running = Host::new().server(&server).task("killed").spawn();
    running.until("the second query", |_| server.served() == 2);
    running.signal(Signal::KILL);
    let run = running.wait();
    // A last line that was being written.
    let journal = run.dir.join("traj.events.jsonl");
    let mut file = fs::OpenOptions::new().append(true).open(journal).unwrap();
    file.write_all(b"{\"seq\":99,\"t\":1").unwrap();
    let view = View::of(Host::after(&run), &["traj.json"]);
    let listed = view.runs().remove(0);
    assert_eq!(
        (&listed["status"], &listed["steps"]),
        (&json!("killed"), &json!(2))
    );
    let id = listed["id"].as_str().unwrap();
    let shown = view.get(&format!("/api/run?id={id}")).json();
    assert_eq!(shown["total"], 3);
    assert_eq!(shown["about"]["damage"], Value::Null);
    view.end();
}

/// What a repository or a model may put into a record is data and nothing else.
#[test]
fn hostile_content_stays_text() {
    let script = "</script><script>alert(1)</script><img src=x onerror=alert(1)>";
    let long =
        "head -c 10000000 /dev/zero | tr '\\0' x; echo; printf '\\033]0;title\\007\\033[31mred'";
    let command = format!("printf '%s' '{script}'; echo hunter2-hunter2");
    let server = commands(&[&command, long]);
    let run = Host::new().server(&server).task(script);
    let run = run.args(["-c", "environment.capture_bytes=20000000"]);
    let run = run.run().expect(0);
    let host = Host::after(&run).env("OTHER_API_KEY", "hunter2-hunter2");
    let view = View::of(host, &["."]);
    let page = view.get("/");
    let listed = view.get("/api/runs?since=0");
    assert_eq!(listed.headers["content-type"], "application/json");
    let id = view.runs()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(view.runs()[0]["task"], script);
    let mut all = String::new();
    for path in [
        format!("/?run={id}"),
        "/?q=%3C/script%3E%3Cscript%3Ealert(1)%3C/script%3E".to_owned(),
        "/?run=%3C/script%3E".to_owned(),
    ] {
        // The page is the same whatever it shows.
        assert_eq!(view.get(&path).body, page.body, "{path}");
    }
    for (path, kind) in [
        (format!("/api/run?id={id}"), "application/json"),
        (
            format!("/api/record?id={id}&step=2"),
            "text/plain; charset=utf-8",
        ),
        (
            format!("/api/text?id={id}&step=2&part=shown-0"),
            "text/plain; charset=utf-8",
        ),
        (
            format!("/api/text?id={id}&step=3&part=shown-0"),
            "text/plain; charset=utf-8",
        ),
        (format!("/api/file?id={id}"), "text/plain; charset=utf-8"),
        ("/api/search?q=onerror".to_owned(), "application/json"),
    ] {
        let answer = view.get(&path);
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.headers["content-type"], kind, "{path}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert!(!answer.body.contains('\u{1b}'), "{path}");
        // In a file that is shown as text, an escape sequence is JSON's escape of it.
        let is_escaped = answer.body.contains("\\u001b");
        assert!(kind != "application/json" || !is_escaped, "{path}");
        assert!(!answer.body.contains("hunter2"), "{path}");
        if path.starts_with("/api/run?") {
            assert!(answer.body.len() < 1_000_000, "{}", answer.body.len());
        }
        all += &answer.body;
    }
    assert!(all.contains("[secret removed]"));
    assert!(all.contains("onerror"));
    view.end();
}

#[test]
fn bad_arguments_are_told() {
    for (args, parts) in [
        (
            &["view", "nowhere"][..],
            &["nowhere", "No such file", "name a folder"][..],
        ),
        (
            &["view", "--listen", "x"],
            &["can't listen on `x`", "ADDRESS:PORT"],
        ),
        (&["view", "--listen", "127.0.0.1:99999"], &["can't listen"]),
    ] {
        Host::new().args(args).run().expect(2).says(parts);
    }
}
