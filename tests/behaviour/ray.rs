//! Workers of a batch on a real cluster of Ray, by the driver of `examples/ray`: a lost node loses nothing.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use scripted_server::{After, Scenario, Server, Turn};

use crate::host::Host;
use crate::needs::{Need, RAY, tooling};

const COUNT: usize = 40;

/// A cluster, which ends with it.
struct RayCluster {
    child: Child,
    stdin: Option<ChildStdin>,
    address: String,
}

impl RayCluster {
    fn start(home: &Path) -> Self {
        let mut child = Command::new(Path::new(RAY).join("bin/python"))
            .arg(tooling().join("ray_cluster.py"))
            // The workers have its environment.
            .env("HOME", home)
            .env(
                "XDG_CACHE_HOME",
                Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"),
            )
            .env("MSWEA_PLUGIN_CACHE", "trust")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.next().expect("the cluster starts").unwrap();
        // The other lines are not needed.
        thread::spawn(move || lines.count());
        Self {
            child,
            stdin,
            address,
        }
    }

    fn kill_node(&mut self) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(b"kill\n").unwrap();
    }
}

impl Drop for RayCluster {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

fn results(out: &Path) -> usize {
    let folders = fs::read_dir(out).into_iter().flatten().flatten();
    folders
        .filter(|it| it.path().join("result.json").exists())
        .count()
}

#[test]
fn ray_starts_the_workers_and_a_lost_node_loses_nothing() {
    if !Need::Ray.is_met() {
        return;
    }
    let commands = [
        "echo one >> steps; sleep 0.2",
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat steps",
    ];
    let turns = commands.map(|it| Turn::commands(&[it]).with_delay(Duration::from_millis(100)));
    let server = Server::start(Scenario::new(turns).by_history().then(After::Repeat));
    let lines = (0..COUNT).map(|i| format!("{{\"id\": \"i{i:02}\", \"task\": \"t\"}}\n"));
    let run = Host::new()
        .file("i.jsonl", lines.collect::<String>())
        .args(["batch", "submit", "out", "--engine", "none"])
        .args(["--instances", "i.jsonl", "-l", "0", "-q"])
        .server(&server)
        .run()
        .expect(0);
    let mut cluster = RayCluster::start(&run.dir.join("home"));
    let out = run.dir.join("out");
    let driver = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/ray/batch.py");
    let mut child = Command::new(Path::new(RAY).join("bin/python"))
        .arg(driver)
        .args([out.as_os_str(), "--workers".as_ref(), "4".as_ref()])
        .args(["--", "-l", "0", "-q", "--lease", "8"])
        .args(["-m", "local/test", "--base-url", &server.url()])
        .current_dir(&run.dir)
        .env("RAY_ADDRESS", &cluster.address)
        .env("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        .env("MSWEA_HOST_BINARY", env!("CARGO_BIN_EXE_mswea-host"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(150);
    let until = |what: &str, is_so: &mut dyn FnMut() -> bool| {
        while !is_so() {
            assert!(Instant::now() < end, "no {what}: {} results", results(&out));
            thread::sleep(Duration::from_millis(100));
        }
    };
    until("third of the results", &mut || {
        assert_eq!(child.try_wait().unwrap(), None);
        results(&out) > COUNT / 3
    });
    cluster.kill_node();
    let mut code = None;
    until("end of the driver", &mut || {
        code = child.try_wait().unwrap();
        code.is_some()
    });
    assert_eq!(code.and_then(|it| it.code()), Some(0));
    assert_eq!(results(&out), COUNT);
    let text = fs::read_to_string(out.join("manifest.jsonl")).unwrap();
    assert_eq!(text.lines().count(), COUNT);
    for number in 0..COUNT {
        let result = fs::read_to_string(out.join(format!("i{number:02}/result.json"))).unwrap();
        assert!(result.contains("\"Submitted\""), "{result}");
        assert!(result.contains("one\\n"), "{result}");
    }
}
