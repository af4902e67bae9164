//! `sweagent` and what is around a run: GitHub's API and images, from a server of the test; variables of this
//! process; the inspector.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::{Host, Signal};
use crate::run::Run;
use crate::sweagent::{read, repository};

/// A path, the status, the type and the body of its answer.
type Route = (&'static str, u16, &'static str, Vec<u8>);

/// A server that answers by the paths of requests.
pub(crate) struct Answers {
    pub(crate) url: String,
    /// The first line and the body of each request.
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Answers {
    fn of(routes: Vec<Route>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &routes, &kept);
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, routes: &[Route], asked: &Mutex<Vec<(String, String)>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or_default() == 0 {
            return;
        }
    }
    let length = head.to_lowercase();
    let length = length
        .lines()
        .find_map(|it| it.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |it| it.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let first = head.lines().next().unwrap().to_owned();
    let path = first.split(' ').nth(1).unwrap();
    let route = routes.iter().find(|route| route.0 == path);
    let (status, kind, said) = match route {
        Some((_, status, kind, said)) => (*status, *kind, said.clone()),
        None => (404, "application/json", b"{}".to_vec()),
    };
    let body = String::from_utf8(body).unwrap();
    asked.lock().unwrap().push((first.clone(), body));
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        said.len()
    );
    let _ = stream.write_all(&[head.as_bytes(), &said].concat());
}

fn json_route(path: &'static str, status: u16, body: &Value) -> Route {
    (
        path,
        status,
        "application/json",
        body.to_string().into_bytes(),
    )
}

const CONFIG: &str = "
agent:
  templates: {system_template: s, instance_template: 'Do: {{problem_statement}}', next_step_template: 'saw {{observation}}'}
  tools:
    bundles: [{path: tools/registry}, {path: tools/submit}]
  history_processors: [{type: image_parsing}]
";

pub(crate) fn model(commands: &[&str]) -> Server {
    let run = |command: &&str| Turn::tool_call("bash", json!({"command": command}));
    let mut turns: Vec<Turn> = commands.iter().map(run).collect();
    turns.push(Turn::tool_call("submit", json!({})));
    Server::start(Scenario::new(turns))
}

pub(crate) fn words(server: &Server, more: &[&str]) -> Vec<String> {
    let mut words: Vec<String> = [
        "sweagent",
        "run",
        "--config=mine.yaml",
        "--agent.model.name=openai/m",
        "--agent.model.api_key=k",
        "--agent.model.per_instance_cost_limit=0",
        "--env.deployment.type=local",
        "--env.repo.path=repo",
        "--output_dir=out",
    ]
    .map(str::to_owned)
    .into();
    words.push(format!("--agent.model.api_base={}", server.url()));
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words
}

pub(crate) fn git(folder: &Path, words: &[&str]) -> String {
    let done = Command::new("git")
        .current_dir(folder)
        .args(words)
        .output()
        .unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// A host with a repository whose remote is a bare one beside it.
pub(crate) fn host() -> Host {
    let host = Host::new().file("mine.yaml", CONFIG).env("USER", "me");
    let repo = repository(&host);
    git(&host.dir(), &["init", "-q", "--bare", "origin.git"]);
    let origin = host.dir().join("origin.git").display().to_string();
    git(&repo, &["checkout", "-q", "-B", "main"]);
    git(&repo, &["remote", "add", "origin", &origin]);
    git(&repo, &["push", "-q", "origin", "main"]);
    host
}

pub(crate) const ISSUE: &str = "--problem_statement.github_url=https://github.com/o/r/issues/5";

/// An API with the issue, its events, and the name of the main branch.
pub(crate) fn api(issue: &Value, events: &Value, branch: &str) -> Answers {
    let commit = json!({"commit": {"message": "Something\n\nFixes #5"}});
    Answers::of(vec![
        json_route("/repos/o/r/issues/5", 200, issue),
        json_route("/repos/o/r/issues/5/events?per_page=100", 200, events),
        json_route("/repos/o/r/commits/abc1", 200, &commit),
        json_route(
            "/repos/o/r/commits/abc2",
            200,
            &json!({"commit": {"message": "see #5"}}),
        ),
        json_route("/repos/o/r", 200, &json!({"default_branch": branch})),
        json_route(
            "/repos/o/r/pulls",
            201,
            &json!({"html_url": "http://pull/7"}),
        ),
        (
            "/o/r.git/info/refs?service=git-upload-pack",
            401,
            "text/plain",
            Vec::new(),
        ),
    ])
}

/// Runs with `open_pr`; `issue` and `events` are what the API says.
fn opened(issue: &Value, events: &Value, commands: &[&str]) -> (Run, Vec<(String, String)>) {
    let api = api(issue, events, "main");
    let server = model(commands);
    let run = host()
        .env("GITHUB_API_URL", &api.url)
        .env("GITHUB_TOKEN", "some-secret-token")
        .args(words(&server, &[ISSUE, "--actions.open_pr=true"]))
        .run();
    (run, api.asked())
}

#[test]
fn a_patch_becomes_a_pull_request() {
    let issue = json!({"title": "It is slow", "body": "Make it fast.", "state": "open", "assignee": null, "locked": false});
    let events = json!([{"commit_id": null}, {"commit_id": "abc2"}]);
    let (run, asked) = opened(&issue, &events, &["echo two >>a.txt; echo '```'"]);
    let run = run.expect(0);
    assert!(
        run.stderr.contains("pull request: http://pull/7"),
        "{}",
        run.stderr
    );
    let (first, body) = asked.last().unwrap();
    assert_eq!(first, "POST /repos/o/r/pulls HTTP/1.1");
    let body: Value = serde_json::from_str(body).unwrap();
    let branch = body["head"].as_str().unwrap();
    assert!(branch.starts_with("swe-agent-fix-#5-"), "{branch}");
    assert_eq!(body["base"], "main");
    assert_eq!(body["draft"], true);
    assert_eq!(body["title"], "Fix: It is slow");
    assert!(body["body"].as_str().unwrap().contains("echo two >>a.txt"));
    let origin = run.dir.join("origin.git");
    let shown = git(&origin, &["show", &format!("{branch}:a.txt")]);
    assert_eq!(shown, "one\ntwo\n");
    let log = git(&origin, &["log", "--format=%s %b", "-1", branch]);
    assert!(log.starts_with("Fix: It is slow Closes #5"), "{log}");
    assert_eq!(git(&origin, &["show", "main:a.txt"]), "one\n");
}

#[test]
fn no_pull_request_is_opened_where_none_is_wanted() {
    let open = json!({"title": "t", "body": "b", "state": "open"});
    let with = |key: &str, value: Value| {
        let mut issue = open.clone();
        issue[key] = value;
        issue
    };
    let change = &["echo two >>a.txt"][..];
    for (issue, events, commands, why) in [
        (
            with("state", json!("closed")),
            json!([]),
            change,
            "is closed",
        ),
        (
            with("assignee", json!({"login": "ann"})),
            json!([]),
            change,
            "is assigned to `ann`",
        ),
        (with("locked", json!(true)), json!([]), change, "is locked"),
        (
            open.clone(),
            json!([{"commit_id": "abc1"}]),
            change,
            "the commit `abc1` refers to",
        ),
        (open.clone(), json!([]), &[], "nothing was submitted"),
    ] {
        let (run, asked) = opened(&issue, &events, commands);
        let run = run.expect(0);
        assert!(
            run.stderr.contains("no pull request is opened") && run.stderr.contains(why),
            "{why}: {}",
            run.stderr
        );
        assert!(
            asked.iter().all(|(first, _)| first.starts_with("GET ")),
            "{asked:?}"
        );
        let branches = git(&run.dir.join("origin.git"), &["branch", "--list"]);
        assert_eq!(branches.lines().count(), 1, "{branches}");
    }
}

#[test]
fn a_pull_request_needs_an_issue_and_a_remote() {
    let server = model(&[]);
    for (more, part) in [
        (
            &["--problem_statement.text=x", "--actions.open_pr=true"][..],
            "needs an issue of GitHub",
        ),
        (
            &[ISSUE, "--actions.open_pr=true", "--env.repo.base_commit=-x"],
            "can't begin with `-`",
        ),
    ] {
        let api = Answers::of(vec![json_route(
            "/repos/o/r/issues/5",
            200,
            &json!({"title": "t"}),
        )]);
        let call = host()
            .env("GITHUB_API_URL", &api.url)
            .args(words(&server, more));
        let run = call.run().expect(2);
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
    assert!(server.requests().is_empty());
}

#[test]
fn images_of_a_statement_are_shown_to_the_model() {
    let images = Answers::of(vec![
        ("/a.png", 200, "image/png; charset=utf-8", vec![1, 2, 3]),
        ("/b.html", 200, "text/html", b"<p>".to_vec()),
        ("/large.webp", 200, "image/webp", vec![0; (10 << 20) + 1]),
    ]);
    let urls =
        ["a.png", "b.html", "large.webp", "nothing"].map(|it| format!("{}/{it}", images.url));
    let flag = format!("--problem_statement.issue_images={}", json!(urls));
    let server = model(&["echo \"<$PROBLEM_STATEMENT>\""]);
    let more = [
        "--problem_statement.text=see",
        "--problem_statement.id=one",
        &flag,
    ];
    let run = host().args(words(&server, &more)).run().expect(0);
    for (name, why) in [
        ("b.html", "`text/html`"),
        ("large.webp", "10 MiB"),
        ("nothing", "404"),
    ] {
        let line = run.stderr.lines().find(|line| line.contains(name));
        assert!(
            line.is_some_and(|line| line.contains(why)),
            "{name}: {}",
            run.stderr
        );
    }
    let request = server.requests()[0].json();
    let parts = request["messages"][1]["content"].as_array().unwrap();
    assert_eq!(parts[1]["image_url"]["url"], "data:image/png;base64,AQID");
    let made = read(&run.dir.join("out/one/one.traj"));
    assert_eq!(made["trajectory"][0]["observation"], "<see>\n");
    // Switched off.
    let server = model(&[]);
    let off = "--agent.templates.disable_image_processing=true";
    let more = [
        "--problem_statement.text=see",
        "--problem_statement.id=two",
        &flag,
        off,
    ];
    host().args(words(&server, &more)).run().expect(0);
    let content = server.requests()[0].json()["messages"][1]["content"].clone();
    assert_eq!(content, "Do: see");
    assert_eq!(images.asked().len(), 4);
}

#[test]
fn the_images_of_a_statement_have_a_limit_together() {
    let images = Answers::of(vec![
        ("/a.png", 200, "image/png", vec![1, 2, 3]),
        ("/large.webp", 200, "image/webp", vec![0; 10 << 20]),
    ]);
    let url = |name: &str| format!("{}/{name}", images.url);
    let many = vec![url("a.png"); 21];
    let large = [url("a.png"), url("large.webp"), url("large.webp")];
    for (urls, left_out) in [
        (json!(many), "there are 20 images before it"),
        (json!(large), "the images together are larger than 20 MiB"),
    ] {
        let server = model(&[]);
        let flag = format!("--problem_statement.issue_images={urls}");
        let more = ["--problem_statement.text=see", &flag];
        let run = host().args(words(&server, &more)).run().expect(0);
        assert_eq!(run.stderr.matches("is left out").count(), 1, "{run}");
        assert!(run.stderr.contains(left_out), "{run}");
    }
}

/// The images of a batch are fetched when an instance begins: what has ended does not need them again.
#[test]
fn a_batch_goes_on_without_the_server_of_its_images() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a.png", listener.local_addr().unwrap());
    // It answers once.
    thread::spawn(move || {
        let routes = [("/a.png", 200, "image/png", vec![1, 2, 3])];
        answer(
            listener.accept().unwrap().0,
            &routes,
            &Mutex::new(Vec::new()),
        );
    });
    let submit = || Turn::tool_call("submit", json!({}));
    let server = Server::start(Scenario::new(vec![submit(), submit()]));
    let mut words = words(&server, &[]);
    words[1] = "run-batch".to_owned();
    words.retain(|word| !word.starts_with("--env"));
    words.extend(["type=expert_file", "path=all.yaml"].map(|it| format!("--instances.{it}")));
    let instance = |id: &str| {
        json!({"env": {"deployment": {"type": "local"}, "repo": {"path": "repo"}},
            "problem_statement": {"text": "see", "id": id, "issue_images": [url]}})
    };
    let first = host()
        .file("all.yaml", json!([instance("one")]).to_string())
        .args(&words)
        .run()
        .expect(0);
    let parts = server.requests()[0].json()["messages"][1]["content"].clone();
    assert_eq!(parts[1]["image_url"]["url"], "data:image/png;base64,AQID");
    let again = Host::after(&first)
        .file(
            "all.yaml",
            json!([instance("one"), instance("two")]).to_string(),
        )
        .args(&words)
        .run()
        .expect(0);
    assert_eq!(again.stderr.matches("is left out").count(), 1, "{again}");
    assert!(again.stderr.contains("two: the image `http"), "{again}");
    assert_eq!(
        read(&again.dir.join("out/preds.json"))
            .as_object()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn the_inspector_is_the_page_of_runs() {
    let words = ["sweagent", "inspector", "--directory", ".", "--port", "0"];
    let mut running = Host::new().args(words).spawn();
    running.until("the address", |it| it.stdout().contains('\n'));
    let url = running.stdout();
    let rest = url.trim().strip_prefix("http://").unwrap();
    let (address, path) = rest.split_at(rest.find('/').unwrap());
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    assert!(!answer.starts_with("HTTP/1.1 4"), "{answer}");
    running.signal(Signal::INT);
    running.wait();
}

#[test]
fn variables_reach_the_tools_only_where_they_are_named() {
    let server = model(&["echo \"$MINE,${OTHER-unset},${NOWHERE-unset}\""]);
    let flag = "--agent.tools.propagate_env_variables=[\"MINE\", \"NOWHERE\"]";
    let more = [
        "--problem_statement.text=x",
        "--problem_statement.id=one",
        flag,
    ];
    let call = host().env("MINE", "a b").env("OTHER", "o");
    let run = call.args(words(&server, &more)).run().expect(0);
    let made = read(&run.dir.join("out/one/one.traj"));
    // SWE-agent sets one that is not there to the text `None`.
    assert_eq!(made["trajectory"][0]["observation"], "a b,unset,unset\n");
}
