//! Data sets of the Hub: they are fetched from a server that answers as it does, kept in the cache, and what
//! a broken connection has left is not fetched again.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use scripted_server::{Scenario, Server};
use serde_json::{Value, json};

use crate::host::{Host, nobody};
use crate::readers::on_a_small_disk;
use crate::run::Run;

const SHA: &str = "0123456789abcdef0123456789abcdef01234567";
const REPO: &str = "princeton-nlp/SWE-Bench_Verified";
/// The folder for what is fetched, which no other test has.
const CACHE: &str = "fetched";

/// A server that answers as the Hub does for one data set.
struct FakeHub {
    url: String,
    /// The first line of each request, with its `Range` and whether it has the token.
    asked: Arc<Mutex<Vec<String>>>,
}

/// What is wrong with it.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    None,
    /// The first connection for a file ends after 100 bytes.
    Breaks,
    /// The file is another one than the list says.
    WrongFile,
    /// Everything is forbidden.
    Forbidden,
    /// Its list names no commit but a folder.
    Sha,
    /// A file comes in two parts, the second one after a while.
    Slow,
    /// The file has a mebibyte.
    Large,
}

impl FakeHub {
    fn start(trouble: Trouble) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let noted = noted.clone();
                thread::spawn(move || {
                    // A client that goes away is none of the server's faults.
                    let _ = answer(&stream, trouble, &noted);
                });
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// Two rows, as `datasets` writes them.
fn file() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("dataset/testdata/two_rows.parquet");
    std::fs::read(path).unwrap()
}

fn answer(stream: &TcpStream, trouble: Trouble, asked: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? < 3 {
            break;
        }
        lines.push(line.trim().to_lowercase());
    }
    let range = lines.iter().find_map(|it| it.strip_prefix("range: bytes="));
    let has_token = lines
        .iter()
        .any(|it| it == "authorization: bearer hf_secret");
    let path = lines[0].split(' ').nth(1).unwrap_or_default().to_owned();
    let is_first = {
        let mut asked = asked.lock().unwrap();
        asked.push(format!("{path} {} {has_token}", range.unwrap_or("-")));
        asked.len() <= 2
    };
    let whole = match trouble {
        Trouble::Large => vec![0; 1 << 20],
        _ => file(),
    };
    let listing = format!("/api/datasets/{REPO}/revision/main?blobs=true").to_lowercase();
    let place = format!("/datasets/{REPO}/resolve/{SHA}/data/test-00000-of-00001.parquet");
    let (status, body) = if trouble == Trouble::Forbidden {
        ("403 Forbidden", Vec::new())
    } else if path == listing {
        let sha256 = "4f2e".repeat(16);
        let lfs = match trouble {
            Trouble::WrongFile => json!({"sha256": sha256}),
            _ => Value::Null,
        };
        let sha = if trouble == Trouble::Sha {
            "../.."
        } else {
            SHA
        };
        let answer = json!({
            "id": REPO, "sha": sha,
            "cardData": {"configs": [{"config_name": "default", "data_files": [{"split": "test", "path": "data/test-*"}]}]},
            "siblings": [
                {"rfilename": "README.md", "size": 3},
                {"rfilename": "data/test-00000-of-00001.parquet", "size": whole.len(), "lfs": lfs},
            ],
        });
        ("200 OK", answer.to_string().into_bytes())
    } else if path == place.to_lowercase() {
        let from = range.and_then(|it| it.trim_end_matches('-').parse::<usize>().ok());
        match from {
            Some(from) => ("206 Partial Content", whole[from..].to_vec()),
            None => ("200 OK", whole),
        }
    } else {
        ("404 Not Found", Vec::new())
    };
    let mut stream = stream;
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    match trouble {
        Trouble::Breaks if is_first && path.contains("/resolve/") => stream.write_all(&body[..100]),
        Trouble::Slow if path.contains("/resolve/") => {
            stream.write_all(&body[..100])?;
            thread::sleep(Duration::from_secs(2));
            stream.write_all(&body[100..])
        }
        _ => stream.write_all(&body),
    }
}

/// `swebench` with the data set, in folders of this machine.
fn swebench(host: Host, server: &Server, hub: &str, more: &[&str]) -> Run {
    call(host, server, hub, more).run()
}

fn call(host: Host, server: &Server, hub: &str, more: &[&str]) -> Host {
    // The shell's own start-up file is that of the images.
    let flags = "swebench --subset verified --split test -o res -l 0 -c swebench -c environment.environment_class=local -c environment.cwd=. -c environment.env.BASH_ENV=/dev/null";
    host.args(flags.split(' '))
        .args(more)
        .env("HF_ENDPOINT", hub)
        .env("HF_TOKEN", "hf_secret")
        .env("MSWEA_DATASET_CACHE", CACHE)
        .server(server)
}

fn model() -> Server {
    let commands = ["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"];
    Server::start(Scenario::commands(&commands).by_history())
}

#[test]
fn a_data_set_is_fetched_once_and_used_without_the_hub() {
    let server = model();
    let hub = FakeHub::start(Trouble::Breaks);
    let run = swebench(Host::new(), &server, &hub.url, &[]).expect(0);
    let run = run.says(&["fetching `princeton-nlp/SWE-Bench_Verified` (test: 1 files"]);
    let list = format!("/api/datasets/{REPO}/revision/main?blobs=true - true").to_lowercase();
    let place =
        format!("/datasets/{REPO}/resolve/{SHA}/data/test-00000-of-00001.parquet").to_lowercase();
    let expected = vec![
        list.clone(),
        format!("{place} - true"),
        format!("{place} 100- true"),
    ];
    assert_eq!(hub.asked(), expected);
    let text = std::fs::read(run.dir.join("res/preds.json")).unwrap();
    let preds: Value = serde_json::from_slice(&text).unwrap();
    let ids: Vec<&String> = preds.as_object().unwrap().keys().collect();
    assert_eq!(ids, ["a__b-1", "a__b-2"]);
    let text = std::fs::read_to_string(run.dir.join("res/a__b-2/a__b-2.traj.json")).unwrap();
    assert!(text.contains("two"), "{text}");

    // The second call asks for the list alone, the third one for nothing.
    let run = swebench(Host::after(&run), &server, &hub.url, &[]).expect(0);
    assert_eq!(hub.asked(), [list]);
    let offline = Host::after(&run).env("HF_HUB_OFFLINE", "1");
    let run = swebench(offline, &server, &hub.url, &[]).expect(0);
    assert_eq!(hub.asked(), [""; 0]);
    let gone = nobody();
    let run = swebench(Host::after(&run), &server, &format!("http://{gone}"), &[]).expect(0);
    let run = run.says(&[
        "can't be reached",
        "the data set is used as it is in the cache",
    ]);

    // A cache that holds all files need not be writable: here the list can't be replaced.
    let kept = run.dir.join(CACHE).join(REPO.replace('/', "--"));
    std::fs::remove_file(kept.join("listing.json")).unwrap();
    std::fs::create_dir(kept.join("listing.json")).unwrap();
    let run = swebench(Host::after(&run), &server, &hub.url, &[]).expect(0);
    let run = run.says(&["the list of the data set is not kept"]);
    let names = std::fs::read_dir(run.dir.join(CACHE).join(REPO.replace('/', "--"))).unwrap();
    assert_eq!(names.count(), 2, "nothing else is left");
}

#[test]
fn a_batch_takes_a_data_set_too() {
    let server = model();
    let hub = FakeHub::start(Trouble::None);
    let call = |host: Host, command: &str, more: &[&str]| {
        host.args([
            "batch",
            command,
            "out",
            "-l",
            "0",
            "--instances",
            "verified",
        ])
        .args(more)
        .env("HF_ENDPOINT", &hub.url)
        .env("HF_TOKEN", "hf_secret")
        .env("MSWEA_DATASET_CACHE", CACHE)
        .server(&server)
        .run()
    };
    let run = call(Host::new(), "run", &[]).expect(2);
    let run = run.says(&["there is no file `verified`", "`--split test`"]);
    assert!(!run.dir.join("out").exists(), "{run}");
    let here = ["--environment-class", "local", "--split", "test"];
    let none = [here.as_slice(), &["--engine", "none"]].concat();
    let run = call(Host::after(&run), "submit", &none).expect(0);
    // A worker reads the manifest.
    assert!(!run.stdout.contains("verified"), "{run}");
    assert!(run.stdout.contains("2 instances have no result"), "{run}");
    let run = call(Host::after(&run), "run", &here).expect(0);
    let text = std::fs::read(run.dir.join("out/preds.json")).unwrap();
    let preds: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(preds.as_object().unwrap().len(), 2, "{run}");
}

#[test]
fn what_the_hub_refuses_is_said() {
    let server = model();
    let gone = nobody();
    let forbidden = FakeHub::start(Trouble::Forbidden);
    let wrong = FakeHub::start(Trouble::WrongFile);
    let sha = FakeHub::start(Trouble::Sha);
    let right = FakeHub::start(Trouble::None);
    for (hub, more, code, words) in [
        (
            format!("http://{gone}"),
            &[][..],
            1,
            ["can't be reached", "princeton-nlp"],
        ),
        (
            forbidden.url,
            &[],
            2,
            ["answers 403", "the token in `HF_TOKEN` may not read it"],
        ),
        (
            wrong.url,
            &[],
            1,
            ["can't be fetched", "not the file that the Hub lists"],
        ),
        (sha.url, &[], 1, ["names no commit", "HF_ENDPOINT"]),
        (
            right.url.clone(),
            &["--split", "dev"],
            2,
            ["has no split `dev`", "`test`"],
        ),
        (
            right.url.clone(),
            &["--subset", "me/other"],
            2,
            ["answers 404", "correct the name"],
        ),
        (
            right.url,
            &["--subset", "none.jsonl"],
            2,
            ["no file or folder", "`verified`"],
        ),
        (
            "hf-mirror".to_owned(),
            &[],
            2,
            ["HF_ENDPOINT", "is no address"],
        ),
    ] {
        let run = swebench(Host::new(), &server, &hub, more).expect(code);
        let run = run.says(&words);
        assert!(!run.dir.join("res").exists());
    }
}

/// The crate that reads parquet panics at this file.
#[test]
fn a_damaged_file_is_a_clear_error() {
    let server = model();
    let mut damaged = file();
    damaged[7] = 0;
    let host = Host::new().file("damaged.parquet", damaged);
    let run = swebench(
        host,
        &server,
        "http://127.0.0.1:1",
        &["--subset", "damaged.parquet"],
    );
    run.expect(2)
        .says(&["`damaged.parquet`", "damaged", "reader failed"]);
}

#[test]
fn two_that_fetch_into_one_cache_fetch_once() {
    let server = model();
    let hub = FakeHub::start(Trouble::Slow);
    let cache = tempfile::tempdir().unwrap();
    let start = || {
        let host = call(Host::new(), &server, &hub.url, &[]);
        host.env("MSWEA_DATASET_CACHE", cache.path()).spawn()
    };
    let both = [start(), start(), start()];
    for one in both {
        let run = one.wait().expect(0);
        let text = std::fs::read(run.dir.join("res/preds.json")).unwrap();
        let preds: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(preds.as_object().unwrap().len(), 2, "{run}");
    }
    let asked = hub.asked();
    let fetched = asked.iter().filter(|it| it.contains("/resolve/"));
    assert_eq!(fetched.count(), 1, "{asked:?}");
    let folder = cache.path().join(REPO.replace('/', "--"));
    let data = std::fs::read_dir(folder.join(SHA).join("data")).unwrap();
    assert_eq!(data.count(), 1, "nothing else is left");
}

#[test]
fn a_full_disk_is_said_with_what_to_do() {
    let server = model();
    let hub = FakeHub::start(Trouble::Large);
    let host = call(Host::new(), &server, &hub.url, &[]);
    let Some(host) = on_a_small_disk(host.env("MSWEA_DATASET_CACHE", "full/cache")) else {
        return;
    };
    let run = host.run().expect(1).says(&[
        "No space left on device",
        "`MSWEA_DATASET_CACHE`",
        "the same command goes on",
    ]);
    assert!(!run.dir.join("res").exists(), "{run}");
}
