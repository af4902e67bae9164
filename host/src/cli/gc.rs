//! `gc`: removes what killed runs have left behind, and tells what it has left and why.

use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::args::GcArgs;
use super::exit::ExitCode;
use super::front::harmless;
use super::output::{self, Failure};
use crate::executor::guard::Orphaned;
use crate::executor::leftovers::{self, Fate, Leftover};
use crate::executor::{self, Transport, container, secrecy};
use crate::roles::Stop;

/// How many of a kind are named on one line.
const NAMED: usize = 8;

/// Where leftovers are looked for: one function for each kind of them. One that can't look says
/// why, and what to do; what is not installed has left nothing, and is no error.
type Source = fn(&GcArgs, &Runtime) -> (Vec<Leftover>, Vec<String>);

/// All of them. Processes come first: they may hold the others.
const SOURCES: &[Source] = &[processes, folders, containers];

fn processes(args: &GcArgs, _: &Runtime) -> (Vec<Leftover>, Vec<String>) {
    let found = match &args.run {
        Some(run) => leftovers::remove_leftover_processes_of(run, args.dry_run),
        None => leftovers::remove_leftover_processes(args.dry_run),
    };
    (found, Vec::new())
}

fn folders(args: &GcArgs, _: &Runtime) -> (Vec<Leftover>, Vec<String>) {
    let found = executor::remove_leftover_folders(args.run.as_deref(), args.dry_run);
    let found = found.into_iter().map(|left| Leftover {
        kind: "folder",
        name: left.path.display().to_string(),
        run_id: left.run_id(),
        fate: match left.error {
            Some(error) => Fate::Failed(error),
            None if args.dry_run => Fate::Found,
            None => Fate::Removed,
        },
    });
    (found.collect(), Vec::new())
}

fn containers(args: &GcArgs, runtime: &Runtime) -> (Vec<Leftover>, Vec<String>) {
    let mut all = Vec::new();
    let mut errors = Vec::new();
    for engine in engines(args) {
        match of_engine(&engine, args, runtime) {
            Ok(found) => all.extend(found),
            Err(error) => errors.push(error),
        }
    }
    (all, errors)
}

/// The engines that may have containers of ours: those that are named, and those that are here.
fn engines(args: &GcArgs) -> Vec<String> {
    let named = secrecy::var("MSWEA_DOCKER_EXECUTABLE").filter(|name| !name.is_empty());
    let mut engines: Vec<String> = args.docker.iter().cloned().chain(named).collect();
    for engine in ["docker", "podman"] {
        if container::is_here(engine) {
            engines.push(engine.to_owned());
        }
    }
    engines.sort();
    engines.dedup();
    engines
}

fn of_engine(engine: &str, args: &GcArgs, runtime: &Runtime) -> Result<Vec<Leftover>, String> {
    let run = args.run.as_deref();
    let found = container::remove_leftovers(engine, Transport::Auto, run, args.dry_run);
    let found = runtime.block_on(found).map_err(|error| error.message)?;
    let found = found.into_iter().map(|left| Leftover {
        kind: "container",
        fate: match (left.goes, left.removed) {
            (true, true) => Fate::Removed,
            (true, false) if args.dry_run => Fate::Found,
            (true, false) => Fate::Failed(left.why),
            (false, _) => Fate::Left(left.why),
        },
        name: left.name,
        run_id: left.run,
    });
    Ok(found.collect())
}

/// How long a run that is over waits for its sweep. What is left of the work then is the next
/// start's: a folder may hold a million files.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// A sweep that goes on beside a run.
pub(super) struct Sweeping(oneshot::Receiver<()>);

impl Sweeping {
    /// Waits for its end, which normally lies long ago: not long, and not if somebody has asked
    /// the run to stop.
    pub(super) async fn wait(self, stop: &Stop) {
        tokio::select! {
            _ = self.0 => {}
            () = tokio::time::sleep(LAST_WAIT) => {}
            () = stop.stopped() => {}
        }
    }
}

/// What every run does as it starts: removes the processes and folders of hosts that were killed
/// together with their guardians. (Containers are the container executor's.) On a thread of its
/// own, and behind everything else: no run has to wait for it.
pub(super) fn beside() -> Sweeping {
    let (done, waiting) = oneshot::channel();
    let sweep = move || {
        let pid = rustix::thread::gettid();
        if let Err(error) = rustix::process::setpriority_process(Some(pid), 19) {
            tracing::debug!(%error, "the sweep can't step back");
        }
        for left in leftovers::remove_leftover_processes(false) {
            if left.fate == Fate::Removed {
                tracing::info!(process = left.name, run = left.run_id, "removed a leftover");
            }
        }
        for left in executor::remove_leftover_folders(None, false) {
            tracing::info!(folder = %left.path.display(), "removed a leftover");
        }
        let _ = done.send(());
    };
    // Without a thread there is no sweep, and nothing to wait for.
    drop(thread::Builder::new().name("gc".to_owned()).spawn(sweep));
    Sweeping(waiting)
}

/// How long the guardian looks for what its host has left with an engine: one that is just being
/// made turns up later, and a daemon that was stopped may come back.
const LOOKING: Duration = Duration::from_secs(120);
/// The pause before the guardian looks again: the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// What the guardian does last: its host is gone, and what that has left belongs to nobody.
pub(super) fn after_host(left: Orphaned) {
    let Ok(runtime) = output::runtime() else {
        return;
    };
    let args = GcArgs::default();
    // There is nobody to tell what became of it; the next start looks again.
    let _ = folders(&args, &runtime);
    let began = Instant::now();
    let mut pause = PAUSES.0;
    loop {
        for engine in left.engines.iter().filter(|engine| !engine.is_empty()) {
            let _ = of_engine(engine, &args, &runtime);
        }
        if !container::is_awaited(&left.runs) || began.elapsed() > LOOKING {
            return;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// What was found, and what became of it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Swept {
    /// Nothing was removed, on request.
    dry_run: bool,
    /// Everything that was found.
    leftovers: Vec<Leftover>,
    /// Why it may not be everything.
    errors: Vec<String>,
}

/// Removes leftovers and prints what became of them.
pub fn run(args: &GcArgs) -> Result<ExitCode, Failure> {
    let swept = Swept::make(args, SOURCES, &output::runtime()?);
    for error in &swept.errors {
        output::error(error);
    }
    output::data(|out| swept.write(args.json, out))?;
    Ok(swept.code())
}

impl Swept {
    fn make(args: &GcArgs, sources: &[Source], runtime: &Runtime) -> Self {
        let mut swept = Self {
            dry_run: args.dry_run,
            ..Self::default()
        };
        for source in sources {
            let (leftovers, errors) = source(args, runtime);
            swept.leftovers.extend(leftovers);
            swept.errors.extend(errors);
        }
        swept
    }

    /// What `doctor` has to know, from all sources.
    pub(super) fn look(runtime: &Runtime) -> Self {
        let args = GcArgs {
            dry_run: true,
            ..GcArgs::default()
        };
        Self::make(&args, SOURCES, runtime)
    }

    /// How many there are of each kind that would be removed: `3 processes, 1 folder`.
    pub(super) fn found(&self) -> String {
        let mut kinds: Vec<&str> = Vec::new();
        for leftover in self.leftovers.iter().filter(|one| one.fate == Fate::Found) {
            if !kinds.contains(&leftover.kind) {
                kinds.push(leftover.kind);
            }
        }
        let counted = kinds.iter().map(|kind| {
            let of_kind = |one: &&Leftover| one.fate == Fate::Found && one.kind == *kind;
            counted(self.leftovers.iter().filter(of_kind).count(), kind)
        });
        counted.collect::<Vec<_>>().join(", ")
    }

    /// Whether all was done that was to be done.
    fn code(&self) -> ExitCode {
        let failed = |leftover: &Leftover| matches!(leftover.fate, Fate::Failed(_));
        if self.errors.is_empty() && !self.leftovers.iter().any(failed) {
            ExitCode::Submitted
        } else {
            ExitCode::Failed
        }
    }

    fn write(&self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        if json {
            let text = serde_json::to_string_pretty(self).map_err(io::Error::other)?;
            return writeln!(out, "{text}");
        }
        if self.leftovers.is_empty() {
            return writeln!(out, "nothing is left behind");
        }
        // One line for each run, kind and fate.
        let mut groups: Vec<(&Leftover, Vec<&str>)> = Vec::new();
        for leftover in &self.leftovers {
            let alike = |(first, _): &&mut (&Leftover, _)| {
                (first.kind, &first.run_id, &first.fate)
                    == (leftover.kind, &leftover.run_id, &leftover.fate)
            };
            match groups.iter_mut().find(alike) {
                Some((_, names)) => names.push(&leftover.name),
                None => groups.push((leftover, vec![&leftover.name])),
            }
        }
        for (first, names) in groups {
            let word = match first.fate {
                Fate::Found => "would remove",
                _ => first.fate.word(),
            };
            let mut line = format!(
                "{word} {} of run {}: {}",
                counted(names.len(), first.kind),
                first.run_id,
                names[..names.len().min(NAMED)].join(", ")
            );
            if names.len() > NAMED {
                line.push_str(&format!(" and {} more", names.len() - NAMED));
            }
            if !first.fate.reason().is_empty() {
                line.push_str(&format!("; {}", first.fate.reason()));
            }
            // The names are those of other people's processes.
            writeln!(out, "{}", harmless(&line).replace('\n', " "))?;
        }
        Ok(())
    }
}

fn counted(count: usize, kind: &str) -> String {
    let ending = match (count, kind) {
        (1, _) => "",
        (_, "process") => "es",
        _ => "s",
    };
    format!("{count} {kind}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leftover(kind: &'static str, name: &str, run: &str, fate: Fate) -> Leftover {
        Leftover {
            kind,
            name: name.to_owned(),
            run_id: run.to_owned(),
            fate,
        }
    }

    fn written(swept: &Swept, json: bool) -> String {
        let mut out = Vec::new();
        swept.write(json, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn sources_are_asked_in_turn() {
        let sources: &[Source] = &[
            |args, _| {
                assert_eq!(args.run.as_deref(), Some("r"));
                (
                    vec![leftover("process", "1 (a)", "r", Fate::Removed)],
                    Vec::new(),
                )
            },
            |_, _| (Vec::new(), vec!["no daemon: start it".to_owned()]),
            |args, _| {
                let fate = if args.dry_run {
                    Fate::Found
                } else {
                    Fate::Removed
                };
                (vec![leftover("folder", "/tmp/x", "r", fate)], Vec::new())
            },
        ];
        let args = GcArgs {
            run: Some("r".into()),
            ..GcArgs::default()
        };
        let swept = Swept::make(&args, sources, &output::runtime().unwrap());
        assert_eq!(
            written(&swept, false),
            "removed 1 process of run r: 1 (a)\nremoved 1 folder of run r: /tmp/x\n"
        );
        assert_eq!(swept.errors, ["no daemon: start it"]);
        assert_eq!(swept.code(), ExitCode::Failed);
    }

    /// A folder of a killed run may hold a million files.
    #[test]
    fn a_sweep_that_takes_long_is_not_waited_for() {
        let runtime = output::runtime().unwrap();
        let (source, stop) = crate::roles::StopSource::new();
        let begun = Instant::now();
        let (_working, waiting) = oneshot::channel();
        runtime.block_on(Sweeping(waiting).wait(&stop));
        assert!(begun.elapsed() >= LAST_WAIT);
        source.stop();
        let begun = Instant::now();
        let (_working, waiting) = oneshot::channel();
        runtime.block_on(Sweeping(waiting).wait(&stop));
        assert!(begun.elapsed() < LAST_WAIT);
        // One that has ended, or was never begun.
        let (_, waiting) = oneshot::channel();
        runtime.block_on(Sweeping(waiting).wait(&Stop::never()));
    }

    #[test]
    fn what_belongs_together_is_one_line() {
        let lives = || Fate::Left("its host lives (process 7)".into());
        let failed = || Fate::Failed("it belongs to another: run this as root".into());
        let mut leftovers = vec![
            leftover("process", "1 (a)", "r", Fate::Found),
            leftover("process", "2 (b)", "r", lives()),
            leftover("process", "3 (c\x1b[2J\nd)", "r", lives()),
            leftover("process", "4 (d)", "s", Fate::Found),
            leftover("container", "c", "s", failed()),
        ];
        leftovers.extend((0..10).map(|n| leftover("folder", &n.to_string(), "s", Fate::Found)));
        let swept = Swept {
            dry_run: true,
            leftovers,
            errors: Vec::new(),
        };
        assert_eq!(
            written(&swept, false),
            "would remove 1 process of run r: 1 (a)\n\
             left 2 processes of run r: 2 (b), 3 (c d); its host lives (process 7)\n\
             would remove 1 process of run s: 4 (d)\n\
             failed 1 container of run s: c; it belongs to another: run this as root\n\
             would remove 10 folders of run s: 0, 1, 2, 3, 4, 5, 6, 7 and 2 more\n"
        );
        assert_eq!(swept.found(), "2 processes, 10 folders");
        assert_eq!(swept.code(), ExitCode::Failed);
        let json: serde_json::Value = serde_json::from_str(&written(&swept, true)).unwrap();
        assert_eq!(json["dry_run"], true);
        assert_eq!(json["leftovers"][1]["fate"], "left");
        assert_eq!(json["leftovers"][1]["reason"], "its host lives (process 7)");
        assert_eq!(json["leftovers"].as_array().map(Vec::len), Some(15));

        let nothing = Swept::default();
        assert_eq!(written(&nothing, false), "nothing is left behind\n");
        assert_eq!(
            (nothing.code(), nothing.found()),
            (ExitCode::Submitted, String::new())
        );
    }
}
