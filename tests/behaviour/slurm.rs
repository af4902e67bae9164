//! A batch on a real cluster of Slurm: a node is lost, the controller is killed, elements are preempted, and every
//! instance gets exactly one result.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::host::{Host, Signal};
use crate::needs::{Need, tooling};
use crate::workers::{flags, instance, instances, server, whole};

/// A cluster of Slurm on this machine, until it is dropped.
pub(crate) struct Cluster {
    folder: TempDir,
    pub(crate) variables: Vec<(String, String)>,
}

impl Cluster {
    /// `is_patient`: nodes that answer late, because the machine is busy for a long time, are not given up.
    pub(crate) fn start(is_patient: bool) -> Self {
        // Slurm takes no path with a space.
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let extra = folder.path().join("extra.conf");
        let patience = "MessageTimeout=60\nBatchStartTimeout=120\nUnkillableStepTimeout=300\nKillWait=30\nSlurmdTimeout=120\n";
        fs::write(&extra, if is_patient { patience } else { "" }).unwrap();
        let up = Command::new("bash")
            .arg(tooling().join("slurm-up.sh"))
            .arg(folder.path())
            .env("DOWN_AFTER", "5")
            .env("EXTRA_CONF", &extra)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&up.stderr);
        assert!(up.status.success(), "{text}");
        let conf = folder.path().join("etc/slurm.conf").display().to_string();
        let variables = vec![("SLURM_CONF".to_owned(), conf)];
        Self { folder, variables }
    }

    fn script(&self, name: &str, more: &[&str]) {
        let mut command = Command::new("bash");
        command.arg(tooling().join(name)).arg(self.folder.path());
        let output = command.args(more).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {text}");
    }

    /// Kills the controller and starts it again, with the state that it has saved.
    fn restart_controller(&self) {
        let file = self.folder.path().join("run/slurmctld.pid");
        let id = fs::read_to_string(file).unwrap();
        kill(&Path::new("/proc").join(id.trim()));
        self.script("slurm-up.sh", &["slurmctld"]);
    }

    fn call(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        let output = command
            .envs(self.variables.iter().cloned())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Goes on after failed launches, as an operator does: an element that is told to stop while it is launched
    /// is held, and its node is drained.
    fn release_held(&self) {
        let queue = self.call("squeue", &["-h", "-o", "%i %r"]);
        for line in queue.lines().filter(|line| line.contains("held")) {
            let nodes = self.call("sinfo", &["-h", "-N", "-o", "%N %t"]);
            let drained = nodes.lines().filter(|it| it.contains("drain"));
            for node in drained.filter_map(|it| it.split(' ').next()) {
                let node = format!("nodename={node}");
                self.call("scontrol", &["update", &node, "state=resume"]);
            }
            let element = line.split(' ').next().unwrap_or_default();
            self.call("scontrol", &["release", element]);
        }
    }

    /// Ends a node with all that runs on it, as a power failure does.
    fn kill_node(&self, node: &str) {
        let spool = self
            .folder
            .path()
            .join("spool")
            .join(node)
            .display()
            .to_string();
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let path = process.path();
            let line = fs::read(path.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let is_daemon = line.contains("slurmd") && line.contains(&format!(" {node} "));
            if is_daemon || line.contains(&format!("{spool}/")) || is_of_node(&path, node) {
                kill(&path);
            }
        }
        self.call(
            "scontrol",
            &[
                "update",
                &format!("nodename={node}"),
                "state=down",
                "reason=test",
            ],
        );
    }
}

fn is_of_node(process: &Path, node: &str) -> bool {
    let variables = fs::read(process.join("environ")).unwrap_or_default();
    let wanted = format!("SLURMD_NODENAME={node}");
    variables
        .split(|byte| *byte == 0)
        .any(|it| it == wanted.as_bytes())
}

fn kill(process: &Path) {
    let id = process.file_name().and_then(|it| it.to_str()?.parse().ok());
    if let Some(id) = id.and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(id, Signal::KILL);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.script("slurm-down.sh", &[]);
    }
}

/// How many instances have a result.
fn done(out: &Path) -> usize {
    let folders = fs::read_dir(out).into_iter().flatten().flatten();
    folders
        .filter(|it| it.path().join("result.json").exists())
        .count()
}

/// How many attempts were given back by workers that had to stop.
fn released(out: &Path, count: usize) -> usize {
    let folders = (0..count).map(|i| out.join(instance(i)));
    let free =
        folders.flat_map(|folder| (1..20).map(move |i| folder.join(format!("claim.{i}.free"))));
    free.filter(|file| fs::read(file).is_ok_and(|text| text == b"released"))
        .count()
}

/// Waits, a minute longer for each hundred instances.
fn until(what: &str, count: usize, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    let most = Duration::from_secs(120 + count as u64 * 60 / 100);
    while !is_so() {
        assert!(begun.elapsed() < most, "waited for {what}");
        thread::sleep(Duration::from_millis(200));
    }
}

/// What happened when, for the plot of the run.
#[derive(Default)]
struct Happened(Vec<Value>);

impl Happened {
    fn note(&mut self, what: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        self.0.push(json!({"at": now.as_secs_f64(), "what": what}));
    }

    /// Keeps the times of all results and events in the file that a variable names.
    fn keep(&self, out: &Path, count: usize) {
        let Ok(file) = std::env::var("MSWEA_SLURM_RECORD") else {
            return;
        };
        let results = (0..count).map(|i| {
            let made = fs::metadata(out.join(instance(i)).join("result.json")).unwrap();
            let made = made.modified().unwrap().duration_since(UNIX_EPOCH);
            made.unwrap().as_secs_f64()
        });
        let record = json!({"results": results.collect::<Vec<_>>(), "events": self.0});
        fs::write(file, record.to_string()).unwrap();
    }
}

#[test]
fn slurm_starts_the_workers_and_a_lost_node_loses_nothing() {
    if !Need::Slurm.is_met() {
        return;
    }
    let count: usize = std::env::var("MSWEA_SLURM_INSTANCES").map_or(60, |it| it.parse().unwrap());
    // The proof: see `CLUSTER.md`.
    let is_large = count >= 1000;
    let workers = if is_large { "16" } else { "2" };
    let cluster = Cluster::start(is_large);
    let server = server(40);
    // The proof takes another binary, because builds replace this one.
    let program = std::env::var_os("MSWEA_SLURM_PROGRAM").map(PathBuf::from);
    let of = |host: Host| {
        let host = match &program {
            Some(program) => host.program(program),
            None => host,
        };
        let variables = cluster.variables.iter();
        variables.fold(host, |host, (name, value)| host.env(name, value))
    };
    let host = of(Host::new().file("i.jsonl", instances(count)));
    let host = host.args(["batch", "submit", "out", "--instances", "i.jsonl"]);
    let host = host.args(["--array", "4", "-w", workers, "--mem", "200"]);
    let host = host.args(["--cpus-per-task", "4"]);
    // Not that of a login shell, which may be slow here.
    let variable = format!("--export=ALL,SLURM_CONF={}", cluster.variables[0].1);
    let host = host.args([
        format!("--sbatch={variable}"),
        "--sbatch=--chdir=/".to_owned(),
    ]);
    let mut happened = Happened::default();
    happened.note("submitted");
    let run = flags(host, &server).run().expect(0).says(&[]);
    assert!(run.stdout.contains("4 workers for"), "{run}");
    let out: PathBuf = run.dir.join("out");
    let job = fs::read_to_string(out.join("jobs")).unwrap();
    let mut turn = 0;
    let mut preempt = || {
        turn += 1;
        cluster.call(
            "scontrol",
            &["requeue", &format!("{}_{}", job.trim(), turn % 4)],
        );
    };
    // Elements are told to stop, and are started again, until a twentieth of the instances was preempted.
    let (mut node, mut controller, mut next) = (false, false, count / 10);
    let mut looked = Instant::now();
    until("all results", count, || {
        let now = done(&out);
        if looked.elapsed() > Duration::from_secs(5) {
            looked = Instant::now();
            cluster.release_held();
        }
        if now > count / 3 && !node {
            node = true;
            happened.note("node1 killed");
            cluster.kill_node("node1");
            let host = of(Host::after(&run)).args(["batch", "status", "out"]);
            let status = host.run().expect(0);
            assert!(status.stdout.contains("jobs in the queue: "), "{status}");
        } else if now > count * 2 / 3 && !controller {
            controller = true;
            happened.note("controller killed and started");
            cluster.restart_controller();
        } else if now > next && released(&out, count) < count / 20 {
            next = now + (count / 150).max(1);
            happened.note("preemption");
            preempt();
        }
        now == count
    });
    happened.note("all results");
    let given_back = released(&out, count);
    println!("{count} results, {given_back} attempts were given back");
    happened.keep(&out, count);
    whole(&out, count, &run);
    assert!(
        node && controller && given_back >= count / 20,
        "{given_back}"
    );
    // An element that Slurm holds back would not end.
    let host = of(Host::after(&run)).args(["batch", "cancel", "out"]);
    let run = host.run().expect(0);
    until("the end of the jobs", count, || {
        cluster.call("squeue", &["-h"]).trim().is_empty()
    });
    let host = of(Host::after(&run)).args(["batch", "cancel", "out"]);
    let run = host.run().expect(0);
    assert!(run.stdout.starts_with("nothing to cancel"), "{run}");
    let host = of(Host::after(&run)).args(["batch", "submit", "out", "--array", "2"]);
    let host = flags(host.args(["--partition", "none", "-w", "2"]), &server);
    let run = host.run().expect(0);
    assert!(run.stderr.is_empty() && run.stdout.is_empty(), "{run}");
    // A partition that is not there.
    let host = of(Host::new().file("i.jsonl", instances(1)));
    let host = host.args(["batch", "submit", "out", "--instances", "i.jsonl"]);
    let host = flags(host.args(["--partition", "nowhere"]), &server);
    host.run()
        .expect(2)
        .says(&["`sbatch` has refused the job", "partition", "sinfo"]);
}

#[test]
fn elements_that_slurm_holds_are_named_with_what_lets_them_begin() {
    if !Need::Slurm.is_met() {
        return;
    }
    let cluster = Cluster::start(false);
    let server = server(0);
    let variables = cluster.variables.iter();
    let of = |host: Host| {
        let variables = variables.clone();
        variables.fold(host, |host, (name, value)| host.env(name, value))
    };
    let host = of(Host::new().file("i.jsonl", instances(4)));
    let host = host.args(["batch", "submit", "out", "--instances", "i.jsonl"]);
    let host = host.args(["--array", "2", "--sbatch=--hold"]).args([
        format!(
            "--sbatch=--export=ALL,SLURM_CONF={}",
            cluster.variables[0].1
        ),
        "--sbatch=--chdir=/".to_owned(),
    ]);
    let run = flags(host, &server).run().expect(0);
    let out = run.dir.join("out");
    let job = fs::read_to_string(out.join("jobs")).unwrap();
    let elements = format!("{0}_0,{0}_1", job.trim());
    let status = of(Host::after(&run).args(["batch", "status", "out"]));
    let status = status.run().expect(0);
    for part in [
        "jobs in the queue: 2 pending (JobHeld",
        "Slurm holds 2 of them",
        &format!("`scontrol release {elements}`"),
    ] {
        assert!(status.stdout.contains(part), "{part}: {status}");
    }
    let host = of(Host::after(&run).args(["batch", "status", "out", "--json"]));
    let status = host.run().expect(0);
    let shown: Value = serde_json::from_str(&status.stdout).unwrap();
    let line = &shown["queue"][0];
    assert_eq!(
        (&line["state"], &line["count"]),
        (&"pending".into(), &2.into())
    );
    assert_eq!(
        line["held"],
        json!([format!("{}_0", job.trim()), format!("{}_1", job.trim())])
    );
    assert!(line["reason"].as_str().unwrap().contains("Held"), "{shown}");
    cluster.call("scontrol", &["release", &elements]);
    until("all results", 4, || done(&out) == 4);
    until("the end of the jobs", 4, || {
        cluster.call("squeue", &["-h"]).trim().is_empty()
    });
    let host = of(Host::after(&run).args(["batch", "status", "out"]));
    let status = host.run().expect(0);
    assert!(
        status.stdout.contains("jobs in the queue: none"),
        "{status}"
    );
}
