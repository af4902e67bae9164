//! Slurm: writes the script of an array of workers, and submits, cancels and queries it with
//! Slurm's own commands.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::Serialize;

use crate::engine::TIME_LIMIT;
use crate::error::BatchError;
use crate::manifest::BatchInstance;
use crate::whole_file;

const SCRIPT: &str = "worker.sh";
const JOBS: &str = "jobs";
const LOGS: &str = "logs";

/// An array of workers.
#[derive(Clone, Debug, Default)]
pub struct SlurmArray {
    /// How many workers.
    pub elements: u32,
    /// How many of them run at the same time; none: all.
    pub at_a_time: Option<u32>,
    /// How many seconds before its time limit a worker gets a signal, so that it gives up its
    /// instances.
    pub warning: u32,
    /// Options of `sbatch`, each as one word: `--partition=gpu`.
    pub options: Vec<String>,
    /// The working directory of the workers.
    pub folder: PathBuf,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Environment variables of the workers. The rest of `sbatch`'s environment is not passed on,
    /// so the controller does not store it.
    pub variables: Vec<(String, String)>,
}

impl SlurmArray {
    fn script(&self, logs: &Path) -> String {
        let limit = self
            .at_a_time
            .map_or(String::new(), |most| format!("%{most}"));
        let last = self.elements.saturating_sub(1);
        let mut text = format!(
            "#!/bin/bash\n#SBATCH --job-name=mswea-batch\n#SBATCH --array=0-{last}{limit}\n#SBATCH --requeue\n\
             #SBATCH --open-mode=append\n#SBATCH --export=NONE\n#SBATCH --signal=B:USR1@{}\n",
            self.warning
        );
        let output = logs.join("%A_%a.log");
        let _ = writeln!(
            text,
            "#SBATCH --output={}",
            quoted(&output.to_string_lossy())
        );
        for option in &self.options {
            let _ = writeln!(text, "#SBATCH {option}");
        }
        for (name, value) in &self.variables {
            let _ = writeln!(text, "export {name}={}", quoted(value));
        }
        let _ = writeln!(
            text,
            "cd {} || exit 1",
            quoted(&self.folder.to_string_lossy())
        );
        // `exec` replaces the shell, so that signals reach the program.
        let _ = writeln!(text, "exec {}", shell_line(&self.command));
        text
    }

    /// Submits the array for the batch in `dir`. Returns the id of the job.
    ///
    /// # Errors
    /// [`BatchError`] if `sbatch` is missing or refuses it, the array has too many elements, or a file can't
    /// be written.
    pub fn submit(&self, dir: &Path) -> Result<String, BatchError> {
        if let Some(most) = most_elements()
            && self.elements >= most
        {
            return Err(BatchError::Refused(format!(
                "`--array {}` is too large for this cluster, whose `MaxArraySize` is {most}: each worker takes many instances, so fewer workers do the same",
                self.elements
            )));
        }
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        let logs = dir.join(LOGS);
        fs::create_dir_all(&logs).map_err(BatchError::io("make", &logs))?;
        let script = dir.join(SCRIPT);
        whole_file::replace(&script, self.script(&logs).as_bytes())
            .map_err(BatchError::io("write", &script))?;
        let output = run("sbatch", &["--parsable", &script.to_string_lossy()])?;
        if !output.status.success() {
            return Err(BatchError::Refused(format!(
                "`sbatch` has refused the job: {}; `sinfo` shows the partitions, and the script is `{}`",
                said(&output),
                script.display()
            )));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let job = text.trim().split(';').next().unwrap_or_default().to_owned();
        let jobs = dir.join(JOBS);
        let mut all = fs::read_to_string(&jobs).unwrap_or_default();
        let _ = writeln!(all, "{job}");
        whole_file::replace(&jobs, all.as_bytes()).map_err(BatchError::io("write", &jobs))?;
        Ok(job)
    }
}

/// Checks that no instance has the name of a file that [`SlurmArray::submit`] makes in the directory.
///
/// # Errors
/// [`BatchError`] with the id.
pub fn check_slurm_ids(instances: &[BatchInstance]) -> Result<(), BatchError> {
    let own = [SCRIPT, JOBS, LOGS];
    match instances.iter().find(|it| own.contains(&it.id.as_str())) {
        None => Ok(()),
        Some(taken) => Err(BatchError::Refused(format!(
            "the id `{}` is the name of a file of the batch's jobs, and each instance has a folder of its name: change it, or make another one with `--id-template`",
            taken.id
        ))),
    }
}

/// Checks that jobs can be submitted from this machine.
///
/// # Errors
/// [`BatchError`] if there is no `sbatch`.
pub fn check_slurm() -> Result<(), BatchError> {
    run("sbatch", &["--version"]).map(drop)
}

/// The jobs that were submitted for a batch.
pub fn slurm_jobs(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(dir.join(JOBS)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Cancels the jobs of a batch. Returns how many workers were running or waiting, if `squeue`
/// reports it. Those that were running give up their instances.
///
/// # Errors
/// [`BatchError`] if there are none, or `scancel` fails.
pub fn slurm_cancel(dir: &Path) -> Result<Option<usize>, BatchError> {
    let jobs = slurm_jobs(dir);
    if jobs.is_empty() {
        return Err(BatchError::Refused(format!(
            "no job was submitted for `{}`: `mswea-host batch submit` does that; Ctrl-C ends `batch run` and `batch worker`",
            dir.display()
        )));
    }
    let queue = slurm_queue(dir).and_then(Result::ok);
    for job in &jobs {
        let output = run("scancel", &[job])?;
        let text = said(&output);
        // Slurm does not know a job that has ended.
        if !output.status.success() && !text.contains("Invalid job id") {
            return Err(BatchError::Refused(format!(
                "`scancel {job}` has failed: {text}"
            )));
        }
    }
    Ok(queue.map(|lines| lines.iter().map(|line| line.count).sum()))
}

/// Elements of a batch's jobs that have the same state, place and reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueLine {
    /// `running`, `pending`, ...
    pub state: String,
    /// The node; empty if they do not run.
    pub node: String,
    /// Why they do not run, in Slurm's words; empty if they run.
    pub reason: String,
    /// The number of elements.
    pub count: usize,
    /// Their names if Slurm holds them: they do not begin until somebody releases them.
    pub held: Vec<String>,
}

/// The elements of a batch's jobs that have not ended; none if no job was submitted.
///
/// # Errors
/// [`BatchError`] if Slurm does not answer.
pub fn slurm_queue(dir: &Path) -> Option<Result<Vec<QueueLine>, BatchError>> {
    let jobs = slurm_jobs(dir);
    if jobs.is_empty() {
        return None;
    }
    let output = run("squeue", &["-h", "-r", "-o", "%i|%A|%F|%T|%N|%r"]);
    Some(output.and_then(|output| {
        if !output.status.success() {
            let text = format!("`squeue` has failed: {}", said(&output));
            return Err(BatchError::Refused(text));
        }
        Ok(queue(&String::from_utf8_lossy(&output.stdout), &jobs))
    }))
}

/// Reads the output of `squeue` for these jobs.
fn queue(text: &str, jobs: &[String]) -> Vec<QueueLine> {
    let mut lines = BTreeMap::<_, QueueLine>::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.trim().splitn(6, '|').collect();
        let [element, job, array, state, node, reason] = fields[..] else {
            continue;
        };
        if !jobs.iter().any(|it| it == job || it == array) {
            continue;
        }
        let state = state.to_lowercase();
        // `squeue` prints `None` for an element that runs.
        let reason = if state == "pending" { reason } else { "" };
        let key = (state.clone(), node.to_owned(), reason.to_owned());
        let entry = lines.entry(key).or_default();
        (entry.state, entry.node) = (state, node.to_owned());
        reason.clone_into(&mut entry.reason);
        entry.count += 1;
        if reason.to_lowercase().contains("held") {
            entry.held.push(element.to_owned());
        }
    }
    lines.into_values().collect()
}

fn most_elements() -> Option<u32> {
    let output = run("scontrol", &["show", "config"]).ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with("MaxArraySize"))?;
    line.split_once('=')?.1.trim().parse().ok()
}

/// Runs one of Slurm's commands, with a time limit, because it may wait for a controller that does
/// not answer.
fn run(program: &'static str, arguments: &[&str]) -> Result<Output, BatchError> {
    // A job may have been submitted although the answer is missing. So `sbatch` has no time limit
    // here; it gives up by itself.
    let limit = (program != "sbatch").then_some(TIME_LIMIT);
    run_within(limit, program, arguments)
}

fn run_within(
    limit: Option<Duration>,
    program: &'static str,
    arguments: &[&str],
) -> Result<Output, BatchError> {
    let failed = |error: io::Error| {
        BatchError::Refused(match error.kind() {
            io::ErrorKind::NotFound if program != "sbatch" => {
                format!("there is no `{program}` here: use a machine with Slurm's commands")
            }
            io::ErrorKind::NotFound => format!(
                "there is no `{program}` here: submit on a machine with Slurm's commands, or start `mswea-host batch worker DIR` with what you have (`--engine none` prepares the directory)"
            ),
            _ => format!("can't start `{program}`: {error}"),
        })
    };
    let mut command = Command::new(program);
    let command = command.args(arguments).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().map_err(failed)?;
    let Some(limit) = limit else {
        return child.wait_with_output().map_err(failed);
    };
    let pid = Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(limit) {
        Ok(output) => output.map_err(failed),
        Err(_) => {
            // The thread has not reaped the process yet, so no other process has its id.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            Err(BatchError::Refused(format!(
                "`{program}` has not answered for {} s: Slurm's controller may be down (`scontrol ping`)",
                limit.as_secs_f64()
            )))
        }
    }
}

fn said(output: &Output) -> String {
    mswea_text::one_line(&String::from_utf8_lossy(&output.stderr))
}

/// A command as a line for a shell.
pub fn shell_line(command: &[String]) -> String {
    let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// Quotes a text as one word for a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_instance_has_the_name_of_a_file_of_the_jobs() {
        let of = |id: &str| BatchInstance {
            id: id.to_owned(),
            ..BatchInstance::default()
        };
        check_slurm_ids(&[of("a"), of("logs.1")]).unwrap();
        for id in ["jobs", "logs", "worker.sh"] {
            let error = check_slurm_ids(&[of("a"), of(id)]).unwrap_err().to_string();
            assert!(error.contains(&format!("the id `{id}`")), "{error}");
        }
    }

    #[test]
    fn elements_that_wait_have_a_reason() {
        let text = "7_0|8|7|RUNNING|node1|None\n7_1|9|7|RUNNING|node1|None\n7_2|10|7|PENDING||Resources\n\
                    7_3|11|7|PENDING||launch failed requeued held\n7_4|7|7|PENDING||JobHeldUser\n9|9|9|RUNNING|n|None\n";
        let line = |state: &str, node: &str, reason: &str, count, held: &[&str]| QueueLine {
            state: state.to_owned(),
            node: node.to_owned(),
            reason: reason.to_owned(),
            count,
            held: held.iter().map(|&it| it.to_owned()).collect(),
        };
        let wanted = [
            line("pending", "", "JobHeldUser", 1, &["7_4"]),
            line("pending", "", "Resources", 1, &[]),
            line("pending", "", "launch failed requeued held", 1, &["7_3"]),
            line("running", "node1", "", 2, &[]),
        ];
        assert_eq!(queue(text, &["7".to_owned()]), wanted);
        assert_eq!(queue(text, &["6".to_owned()]), []);
    }

    #[test]
    fn a_command_that_does_not_answer_is_ended() {
        let limit = Some(Duration::from_millis(50));
        let begun = std::time::Instant::now();
        let error = run_within(limit, "sleep", &["60"]).unwrap_err().to_string();
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert!(
            error.contains("`sleep` has not answered for 0.05 s"),
            "{error}"
        );
        let limit = Some(TIME_LIMIT);
        let output = run_within(limit, "seq", &["100000"]).unwrap();
        assert!(output.stdout.ends_with(b"\n100000\n"));
    }

    #[test]
    fn the_script_of_an_array() {
        let array = SlurmArray {
            elements: 16,
            at_a_time: Some(4),
            warning: 120,
            options: vec!["--partition=gpu".to_owned()],
            folder: "/home/me/my work".into(),
            command: ["/opt/mswea-host", "batch", "worker", "out", "-t", "it's"]
                .map(str::to_owned)
                .to_vec(),
            variables: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        };
        assert_eq!(
            array.script(Path::new("/home/me/out/logs")),
            "#!/bin/bash\n#SBATCH --job-name=mswea-batch\n#SBATCH --array=0-15%4\n#SBATCH --requeue\n\
             #SBATCH --open-mode=append\n#SBATCH --export=NONE\n#SBATCH --signal=B:USR1@120\n\
             #SBATCH --output=/home/me/out/logs/%A_%a.log\n#SBATCH --partition=gpu\n\
             export PATH=/usr/bin:/bin\ncd '/home/me/my work' || exit 1\n\
             exec /opt/mswea-host batch worker out -t 'it'\\''s'\n"
        );
    }
}
