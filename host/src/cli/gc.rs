//! `gc`: removes the leftovers of killed runs, and lists those that it has not removed, with the
//! reason.

use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::runtime::Runtime;

use super::args::GcArgs;
use super::exit::ExitCode;
use super::output::{self, Failure};
use mswea_executor::guard::Orphaned;
use mswea_executor::leftovers::{self, Fate, Leftover};
use mswea_executor::{Transport, container};
use mswea_secrecy as secrecy;
use mswea_text::harmless;

/// How many of a kind are named on one line.
const NAMED: usize = 8;

/// The kinds of leftovers, with a function for each that searches and removes them. If it can't
/// search, it returns the reason and the remedy. A program that is not installed can't have left
/// anything, and is no error.
type LeftoverSearch = fn(&GcArgs, &Runtime) -> (Vec<Leftover>, Vec<String>);

/// All kinds. Processes come first, because they may use the others.
const SOURCES: &[LeftoverSearch] = &[processes, folders, containers];

fn processes(args: &GcArgs, _: &Runtime) -> (Vec<Leftover>, Vec<String>) {
    let found = match &args.run {
        Some(run) => leftovers::remove_leftover_processes_of(run, args.dry_run),
        None => leftovers::remove_leftover_processes(args.dry_run),
    };
    (found, Vec::new())
}

fn folders(args: &GcArgs, _: &Runtime) -> (Vec<Leftover>, Vec<String>) {
    let found = mswea_executor::remove_leftover_folders(args.run.as_deref(), args.dry_run);
    (found, Vec::new())
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

/// The container engines that may have containers of this program: those that were named, and those
/// that are installed.
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
    runtime.block_on(found).map_err(|error| error.message)
}

/// Removes the containers of a run, kept ones too. Returns their names, and why some may be left.
/// Engines without any are not asked.
pub(super) fn remove_containers_of(run: &str) -> (Vec<String>, Vec<String>) {
    let args = GcArgs {
        run: Some(run.to_owned()),
        ..GcArgs::default()
    };
    let (mut removed, mut errors) = (Vec::new(), Vec::new());
    for engine in container::engines_of_run(run) {
        let found = output::runtime()
            .map_err(|failure| failure.message)
            .and_then(|runtime| of_engine(&engine, &args, &runtime));
        match found {
            Ok(found) => {
                for left in found {
                    match left.fate {
                        Fate::Removed => removed.push(left.name),
                        Fate::Found => {}
                        Fate::Left(why) | Fate::Failed(why) => {
                            errors.push(format!("container `{}`: {why}", left.name));
                        }
                    }
                }
            }
            Err(error) => errors.push(error),
        }
    }
    (removed, errors)
}

/// How long the guardian searches for containers of its host: a container that is just being made
/// appears later, and a stopped daemon may be started again.
const LOOKING: Duration = Duration::from_secs(120);
/// The pause between two searches of the guardian: the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Called by the guardian after its host has ended: removes the host's leftovers.
pub(super) fn after_host(left: Orphaned) {
    let Ok(runtime) = output::runtime() else {
        return;
    };
    let args = GcArgs::default();
    // The guardian has no output; the next start searches again.
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

/// The leftovers of one kind, and what was done about them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Swept {
    /// Nothing was removed, because the user asked for a list only.
    dry_run: bool,
    /// All leftovers that were found.
    leftovers: Vec<Leftover>,
    /// The reasons why the list may be incomplete.
    errors: Vec<String>,
}

/// Removes leftovers and prints the results.
pub fn run(args: &GcArgs) -> Result<ExitCode, Failure> {
    let swept = Swept::make(args, SOURCES, &output::runtime()?);
    for error in &swept.errors {
        output::error(error);
    }
    output::data(|out| swept.write(args.json, out))?;
    Ok(swept.code())
}

impl Swept {
    fn make(args: &GcArgs, sources: &[LeftoverSearch], runtime: &Runtime) -> Self {
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

    /// The leftovers of all kinds, for `doctor`.
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

    /// Whether everything that should be removed was removed.
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
        // One line for each run, kind and result.
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
            // The names are those of processes, which may have any characters.
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
        let sources: &[LeftoverSearch] = &[
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
