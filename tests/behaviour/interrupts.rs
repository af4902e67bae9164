//! Ctrl-C ends a run soon also while something blocks or takes long: a reader that does not read, a
//! full disk, the removal of leftovers of earlier runs, the removal of the run's own folder.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mswea_host::executor::Owner;
use scripted_server::{Fault, Server, Turn};

use crate::host::{Host, Running, Signal};
use crate::needs::{Need, namespaces, tooling};
use crate::readers::on_a_small_disk;
use crate::run::Run;
use crate::story::turns;

/// Prints more than a pipe can hold.
const MUCH: &str = "seq 40000";

/// The time limit of a run's end after a signal. A loaded machine needs much less; without the signal
/// every case here would take much longer.
const SOON: Duration = Duration::from_secs(15);

/// A server that answers with one command, and does not answer the next request.
fn silent_after(command: &str) -> Server {
    turns([Turn::commands(&[command]), Turn::fault(Fault::Silence)])
}

/// Interrupts a run that waits for the model, and waits for its end.
#[track_caller]
fn interrupt(mut running: Running, server: &Server) -> Run {
    running.until("the second query", |_| server.served() == 2);
    end(running)
}

#[track_caller]
fn end(running: Running) -> Run {
    let asked = Instant::now();
    running.signal(Signal::INT);
    let run = running.wait();
    assert!(asked.elapsed() < SOON, "{:?}\n{run}", asked.elapsed());
    run
}

#[test]
fn while_one_of_its_readers_has_stopped_reading() {
    for (stdout, stderr, arguments) in [
        (true, false, &["--json"][..]),
        (false, true, &["-vv"]),
        (true, true, &["-vv"]),
        (true, true, &["--json"]),
    ] {
        let server = silent_after(MUCH);
        let host = Host::new().server(&server).task("x").args(arguments);
        let run = interrupt(host.stalled_on(stdout, stderr).spawn(), &server);
        // Exit code 1: with `--json` the output is data, and a part of it could not be written.
        assert!([1, 130].contains(&run.status), "{run}");
        assert_eq!(run.exit_status(), "Interrupted");
        assert_eq!(run.events("run_ended").len(), 1);
    }
}

/// Events are data: a reader that comes back finds all of them, however many there are.
#[test]
fn a_reader_that_comes_back_finds_every_event() {
    // The events are larger than the queue in memory.
    let large: Vec<Turn> = (0..12).map(|_| Turn::commands(&["seq 60000"])).collect();
    let server = turns(large);
    let host = Host::new()
        .server(&server)
        .task("x")
        .args(["--json", "-c", "environment.capture_bytes=400000"])
        .stalled_on(true, false);
    let mut running = host.spawn();
    running.until("the end of the run", |run| {
        run.journal()
            .iter()
            .any(|event| event["event"] == "run_ended")
    });
    // The pipes are read only from here on.
    let run = running.read().wait().expect(0);
    let events: Vec<serde_json::Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(count("lost"), 0);
    assert_eq!(count("action_ended"), 13);
    assert_eq!(count("ended"), 1);
    assert!(run.stdout.len() > 3 << 20, "{}", run.stdout.len());
}

/// A run whose trajectory goes to a pipe, and the end of the pipe that is not read.
fn into_a_pipe(server: &Server) -> (Running, fs::File, PathBuf) {
    let host = Host::new().server(server);
    let pipe = host.dir().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let reader = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&pipe)
        .unwrap();
    let runs = host.home().join(".local/state/mswea-host/runs");
    // Not `-o`, because `Host` would read the journal and the trajectory from that path.
    let output = format!("agent.output_path={}", pipe.display());
    let running = host.args(["-t", "x", "-c", &output]).spawn();
    (running, reader, runs)
}

/// The events of the only run whose files are in this folder.
fn events(runs: &Path) -> String {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let journal = paths.filter(|path| path.to_string_lossy().ends_with(".events.jsonl"));
    journal
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

#[test]
fn while_its_trajectory_goes_to_a_pipe_that_nobody_reads() {
    let server = silent_after(MUCH);
    let (running, reader, runs) = into_a_pipe(&server);
    let run = interrupt(running, &server).expect(1);
    let run = run.says(&[
        "the trajectory `",
        "the pipe has no reader",
        "is in the journal",
    ]);
    assert!(
        events(&runs).contains("\"exit_status\":\"Interrupted\""),
        "{run}"
    );
    drop(reader);

    // A signal during the wait at the end of the run.
    let server = turns([Turn::commands(&[MUCH])]);
    let (mut running, mut reader, runs) = into_a_pipe(&server);
    running.until("the end of the run", |_| {
        events(&runs).contains("run_ended")
    });
    // After the first byte, the trajectory is being written.
    let mut first = [0; 1];
    running.until("the trajectory", |_| {
        (&reader).read(&mut first).is_ok_and(|count| count == 1)
    });
    let asked = Instant::now();
    running.signal(Signal::INT);
    let run = running.wait().expect(1);
    assert!(asked.elapsed() < Duration::from_secs(8), "{run}");
    let run = run.says(&["a signal came before it was"]);
    let mut rest = Vec::new();
    let _ = reader.read_to_end(&mut rest);
    assert!(
        serde_json::from_slice::<serde_json::Value>(&rest).is_err(),
        "{run}"
    );
}

#[test]
fn while_the_disk_is_full() {
    let fill = "cat /dev/zero >full/zero";
    let server = silent_after(fill);
    let host = Host::new()
        .server(&server)
        .args(["-t", "x", "-o", "full/traj.json"]);
    let Some(host) = on_a_small_disk(host) else {
        return;
    };
    let mut running = host.spawn();
    running.until("the second query, or the end", |run| {
        server.served() == 2 || run.stderr().contains("No space left")
    });
    let run = end(running);
    assert!([1, 130].contains(&run.status), "{run}");
}

/// The `.owner` text of a host that has ended.
fn gone() -> String {
    let owner = Owner::current().to_string();
    let (process, start) = owner.rsplit_once('/').unwrap();
    format!("{process}/{}", start.parse::<u64>().unwrap() + 1)
}

#[test]
fn while_the_leftovers_of_killed_hosts_are_swept_away() {
    let server = silent_after("true");
    let host = Host::new().server(&server).task("x");
    let temporary = host.dir().join("../tmp");
    let owner = gone();
    for number in 0..400 {
        let folder = temporary.join(format!("mswea-r-x-{number:08x}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..100 {
            fs::write(folder.join(file.to_string()), "").unwrap();
        }
        fs::write(
            temporary.join(format!("mswea-r-x-{number:08x}.owner")),
            &owner,
        )
        .unwrap();
    }
    // The id of a run that began when this test began, whose host has ended.
    let began = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let mut ended = Command::new("true").spawn().unwrap();
    let run_id = format!("{began:x}-{:x}-abcdef", ended.id());
    ended.wait().unwrap();
    let mut left: Vec<_> = (0..200)
        .map(|_| {
            let mut command = Command::new("sleep");
            command.arg("320").env("MSWEA_RUN_ID", &run_id);
            command.current_dir(host.dir()).stdin(Stdio::null());
            command.process_group(0).spawn().unwrap()
        })
        .collect();
    let run = interrupt(host.spawn(), &server).expect(130);
    assert_eq!(run.exit_status(), "Interrupted");
    for child in &mut left {
        let _ = child.kill();
        child.wait().unwrap();
    }
}

#[test]
fn while_a_large_folder_of_its_own_is_removed() {
    if !Need::Bubblewrap.is_met() {
        return;
    }
    // No folder is named, so the run makes its own. Many folders in it take long to remove.
    let many = "for i in $(seq 300); do mkdir $i && (cd $i && seq 400 | xargs touch); done";
    let server = silent_after(many);
    let running = Host::new()
        .server(&server)
        .task("x")
        .args(["--environment-class", "bubblewrap"])
        .args(["-c", "environment.timeout=120"])
        .spawn();
    let mut running = running;
    running.until("the second query", |_| server.served() == 2);
    running.signal(Signal::INT);
    running.until("the salvage command's end", |run| {
        run.journal()
            .iter()
            .any(|event| event["event"] == "salvaged" || event["event"] == "run_ended")
    });
    let run = end(running).expect(130);
    assert_eq!(run.exit_status(), "Interrupted");
}

/// Mounts a file system at the folder `$1` that does not answer, for as long as descriptor 9 is open.
const DEAD: &str =
    "exec 9<>/dev/fuse && mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 none";

/// Runs the host where the folder `dead` does not answer; none if the test may not mount.
fn beside_a_dead_folder(host: Host) -> Option<Host> {
    let works = |script: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args([namespaces(), "sh", "-c", script]);
        unshare.status().is_ok_and(|status| status.success())
    };
    if !Need::Mounts.is_met() || !works(&format!("{DEAD} /mnt")) {
        return None;
    }
    Some(run_after(&format!("mkdir dead && {DEAD} dead"), host))
}

/// Runs the host after a command that mounts; none if the test may not mount.
fn after_mounting(mount: &str, host: Host) -> Option<Host> {
    let met = Need::Mounts.is_met()
        && Need::Python.is_met()
        && fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .is_ok();
    met.then(|| run_after(mount, host))
}

/// Runs the host after this command, in a name space of mounts of its own.
fn run_after(mount: &str, host: Host) -> Host {
    let user = namespaces();
    let script = format!(
        "#!/bin/sh\nexec unshare {user} sh -c '{mount} && exec \"$0\" \"$@\"' \"{}\" \"$@\"\n",
        env!("CARGO_BIN_EXE_mswea-host")
    );
    let host = host.file("beside", script);
    let program = host.dir().join("beside");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    host.program(&program)
}

/// A run whose working folder does not answer from its second command on.
fn in_a_dying_folder(turn: Turn, timeout: u32) -> Option<(Running, Server)> {
    let die = format!("{DEAD} \"$PWD\" && setsid sleep 300 >/dev/null 2>&1 &\nsleep 0.3");
    let server = turns([Turn::commands(&[&die]), turn, Turn::fault(Fault::Silence)]);
    let host = beside_a_dead_folder(Host::new().server(&server).task("x"))?;
    let place = host.dir().join("place");
    fs::create_dir(&place).unwrap();
    let running = host
        .args(["--cwd".as_ref(), place.as_os_str()])
        .args(["-c", &format!("environment.timeout={timeout}")])
        // The salvage command does not start, either.
        .args(["-c", "agent.salvage_timeout=1"])
        .spawn();
    Some((running, server))
}

#[test]
fn a_command_whose_folder_hangs_keeps_its_time_limit() {
    let hanging = Turn::commands(&["touch never"]);
    if let Some((running, server)) = in_a_dying_folder(hanging, 1) {
        has_a_second_command_that_times_out(running, &server);
    }
}

/// After the second command the run goes on, and can be interrupted.
#[track_caller]
fn has_a_second_command_that_times_out(mut running: Running, server: &Server) {
    running.until("the third query", |_| server.served() == 3);
    let run = end(running).expect(130);
    let outputs = run.events("output");
    assert!(outputs[1].to_string().contains("timed out"), "{outputs:?}");
    assert_eq!(run.exit_status(), "Interrupted");
}

/// A process can't be killed while it waits for a daemon that has read its request.
#[test]
fn a_command_whose_folder_hangs_for_good_keeps_its_time_limit() {
    let host = Host::new();
    let (place, stall) = (host.dir().join("place"), host.dir().join("stall"));
    let daemon = tooling().join("fuse.py");
    let mount = format!(
        "python3 \"{}\" \"{}\" \"{}\"",
        daemon.display(),
        place.display(),
        stall.display()
    );
    fs::create_dir(&place).unwrap();
    let server = turns([
        Turn::commands(&[&format!("touch '{}'", stall.display())]),
        Turn::commands(&["touch never"]),
        Turn::fault(Fault::Silence),
    ]);
    let Some(host) = after_mounting(&mount, host.server(&server).task("x")) else {
        return;
    };
    let running = host
        .args(["--cwd".as_ref(), place.as_os_str()])
        .args([
            "-c",
            "environment.timeout=2",
            "-c",
            "agent.salvage_timeout=1",
        ])
        .spawn();
    has_a_second_command_that_times_out(running, &server);
}

#[test]
fn while_a_command_does_not_start() {
    for signals in [1, 2] {
        let hanging = Turn::commands(&["touch never"]);
        let Some((mut running, server)) = in_a_dying_folder(hanging, 600) else {
            return;
        };
        running.until("the second command", |run| {
            let journal = run.journal();
            let actions = journal.iter().filter(|it| it["event"] == "action");
            actions.count() == 2
        });
        std::thread::sleep(Duration::from_millis(300));
        if signals == 2 {
            running.signal(Signal::INT);
        }
        let run = end(running).expect(130);
        assert_eq!(run.exit_status(), "Interrupted");
        assert_eq!(run.events("run_ended").len(), 1);
        assert_eq!(server.served(), 2);
    }
}

#[test]
fn while_the_working_folder_is_looked_at() {
    for is_stopped in [true, false] {
        let server = silent_after("true");
        let host = Host::new().server(&server).task("x");
        let Some(host) = beside_a_dead_folder(host) else {
            return;
        };
        let timeout = if is_stopped { 600 } else { 1 };
        let place = host.dir().join("dead/place");
        let mut running = host
            .args(["--cwd".as_ref(), place.as_os_str()])
            .args(["-c", &format!("environment.timeout={timeout}")])
            .spawn();
        if is_stopped {
            running.until("the start of the run", |run| !run.journal().is_empty());
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(end(running).expect(130).exit_status(), "Interrupted");
        } else {
            let run = running.wait();
            assert_eq!(run.status, 6, "{run}");
            run.says(&["dead/place` has not answered for 5 seconds"]);
        }
    }
}

/// A folder of `PATH` is looked at by the thread of the loop itself.
#[test]
fn while_the_thread_of_the_loop_is_blocked() {
    for (signals, limit) in [(1, 14), (2, 5)] {
        let server = silent_after("true");
        let host = Host::new().server(&server).task("x");
        let Some(host) = beside_a_dead_folder(host) else {
            return;
        };
        let dead = host.dir().join("dead");
        let mut running = host
            .args(["-c", &format!("environment.env.PATH={}", dead.display())])
            .spawn();
        running.until("the head", |run| run.stderr().contains("trajectory:"));
        std::thread::sleep(Duration::from_secs(1));
        let asked = Instant::now();
        if signals == 2 {
            running.signal(Signal::INT);
            std::thread::sleep(Duration::from_millis(100));
        }
        running.signal(Signal::INT);
        let run = running.wait().expect(130);
        assert!(asked.elapsed() < Duration::from_secs(limit), "{run}");
        run.says(&["has not answered to the signal", "recorded"]);
    }
}
