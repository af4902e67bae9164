//! `doctor`: prints what works on this machine, and the remedies for the rest. `self check` prints
//! the same, and checks the installed program.

mod checks;
mod program;

use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;
use tokio::runtime::Runtime;

use super::args::{DoctorArgs, SelfCommand};
use super::exit::ExitCode;
use super::front::{Colour, Look};
use super::gc::Swept;
use super::output::{self, Failure};
use mswea_config::PROVIDERS;
use mswea_core::Event;
use mswea_core::{Context, ExecutorError, Front, Journal, Progress, Stop};
use mswea_executor::probe::{self, Probe, ProbeState};
use mswea_executor::remote::{AccessToken, Endpoint};
use mswea_executor::swerex::RexClient;
use mswea_executor::{Transport, container};
use mswea_plugin_host::{Cache, cache_use};
use mswea_secrecy as secrecy;
use mswea_text::harmless;

/// The result of one check.
#[derive(Debug, Serialize)]
struct DoctorReport {
    version: &'static str,
    system: String,
    /// The checks of the program itself; none with `doctor`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    program: Vec<Probe>,
    /// The environments for commands.
    executors: Vec<Probe>,
    /// The checks of other requirements of the program and its commands.
    machine: Vec<Probe>,
}

/// Runs all checks and prints the results.
pub fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let runtime = output::runtime()?;
    let mut report = DoctorReport::make(&runtime);
    report.executors.extend(runtime.block_on(server(args)));
    report.print(args.json)
}

/// Checks this installation. No check needs a network.
pub fn check_self(command: &SelfCommand) -> Result<ExitCode, Failure> {
    let SelfCommand::Check { json } = command;
    let runtime = output::runtime()?;
    let mut report = DoctorReport::make(&runtime);
    report.program = program::probes(&runtime);
    report.print(*json)
}

/// A front that shows nothing.
pub(super) struct SilentFront;

impl Front for SilentFront {
    fn show(&self, _: &Progress<'_>) {}
}

impl Journal for SilentFront {
    fn record(&self, _: &Event) -> io::Result<f64> {
        Ok(0.0)
    }
}

fn quiet() -> Context {
    Context::new(Arc::new(SilentFront), Arc::new(SilentFront), Stop::never())
}

/// The environments, in the order of their requirements.
async fn executors() -> Vec<Probe> {
    let guard = std::env::current_exe().ok();
    let mut probes = vec![checks::local(guard.as_deref()).await];
    for engine in ["docker", "podman"] {
        let tried = container::probe(engine, Transport::Auto).await;
        probes.push(Probe::of(engine, tried));
    }
    probes.extend(probe::sandboxes(guard, &quiet()).await);
    probes
}

/// The server that the flags name.
async fn server(args: &DoctorArgs) -> Option<Probe> {
    let (url, file) = (args.url.as_deref()?, args.token_file.as_deref()?);
    let ca_file = args.ca_file.as_deref();
    let checked = match args.swerex {
        true => {
            let client =
                AccessToken::read_foreign(file).and_then(|key| RexClient::new(url, &key, ca_file));
            match client {
                Ok(client) => client.check().await.map(|is_ours| match is_ours {
                    true => format!("`{url}` is mswea-host with SWE-ReX's interface"),
                    false => format!("`{url}` is a server of SWE-ReX"),
                }),
                Err(why) => Err(why),
            }
        }
        false => {
            let endpoint =
                AccessToken::read(file).and_then(|token| Endpoint::new(url, &token, ca_file));
            match endpoint {
                Ok(endpoint) => match endpoint.check().await {
                    Ok(version) => Ok(format!("`{url}` is mswea-host {version}")),
                    Err(fault) => Err(fault.to_string()),
                },
                Err(why) => Err(why),
            }
        }
    };
    let name = if args.swerex { "swerex" } else { "remote" };
    let tried = checked.map_err(|message| ExecutorError { message });
    Some(Probe::of(name, tried))
}

fn machine(runtime: &Runtime) -> Vec<Probe> {
    let guard = std::env::current_exe().ok();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cache = Cache::of_user();
    let keys = PROVIDERS.iter().flat_map(|provider| provider.keys.iter());
    let keys = keys
        .copied()
        .filter(|name| secrecy::var(name).is_some_and(|value| !value.trim().is_empty()));
    let swept = Swept::look(runtime);
    vec![
        checks::interpreter(&path),
        checks::git(&path),
        checks::guardian(guard.as_deref()),
        checks::cgroups(std::path::Path::new("/")),
        checks::cache(cache.as_ref().map(Cache::folder), &cache_use()),
        checks::temporary(&std::env::temp_dir()),
        checks::terminal(Look::detect(0)),
        checks::keys(keys),
        checks::leftovers(&swept.found()),
    ]
}

impl DoctorReport {
    fn make(runtime: &Runtime) -> Self {
        let system = rustix::system::uname();
        let text = |value: &std::ffi::CStr| value.to_string_lossy().into_owned();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            system: [system.sysname(), system.release(), system.machine()]
                .map(text)
                .join(" "),
            program: Vec::new(),
            executors: runtime.block_on(executors()),
            machine: machine(runtime),
        }
    }

    fn print(&self, is_json: bool) -> Result<ExitCode, Failure> {
        output::data(|out| match is_json {
            true => self.write_json(out),
            false => self.write(Look::of_stdout(), out),
        })?;
        Ok(self.code())
    }

    /// Whether tasks can be run.
    fn code(&self) -> ExitCode {
        let is_broken = |probe: &&Probe| probe.state == ProbeState::Missing;
        let broken = self.program.iter().find(is_broken);
        if let Some(probe) = broken {
            return match probe.name {
                program::PLUGINS => ExitCode::Plugin,
                _ => ExitCode::Failed,
            };
        }
        let local = |probe: &&Probe| probe.name == checks::LOCAL;
        match self.executors.iter().find(local) {
            Some(probe) if probe.state != ProbeState::Missing => ExitCode::Submitted,
            _ => ExitCode::Environment,
        }
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(io::Error::other)?;
        writeln!(out, "{text}")
    }

    fn write(&self, look: Look, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "mswea-host {} on {}", self.version, self.system)?;
        let all = || {
            let program = self.program.iter();
            program.chain(&self.executors).chain(&self.machine)
        };
        let width = all().map(|probe| probe.name.len()).max().unwrap_or(0);
        for (title, probes) in [
            ("Program", &self.program),
            ("Executors", &self.executors),
            ("Machine", &self.machine),
        ] {
            if probes.is_empty() {
                continue;
            }
            writeln!(out, "\n{}", look.paint(Colour::Bold, title))?;
            for probe in probes {
                let (word, colour) = match probe.state {
                    ProbeState::Works => ("works  ", Colour::Green),
                    ProbeState::Limited => ("limited", Colour::Yellow),
                    ProbeState::Missing => ("missing", Colour::Red),
                };
                let word = look.paint(colour, word);
                let line = |text: &str| harmless(text.trim()).replace('\n', " ");
                writeln!(
                    out,
                    "  {word}  {:width$}  {}",
                    probe.name,
                    line(&probe.detail)
                )?;
                if !probe.remedy.is_empty() {
                    let arrow = look.paint(Colour::Dim, "->");
                    writeln!(
                        out,
                        "           {:width$}  {arrow} {}",
                        "",
                        line(&probe.remedy)
                    )?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(name: &'static str, state: ProbeState, detail: &str, remedy: &str) -> Probe {
        Probe {
            name,
            state,
            detail: detail.to_owned(),
            remedy: remedy.to_owned(),
        }
    }

    fn report(local: ProbeState) -> DoctorReport {
        DoctorReport {
            version: "1.2.3",
            system: "Linux 6 x".to_owned(),
            program: Vec::new(),
            executors: vec![
                probe("local", local, "all of it", ""),
                probe(
                    "bubblewrap",
                    ProbeState::Limited,
                    "no\nnamespaces",
                    "allow them",
                ),
            ],
            machine: vec![probe(
                "git",
                ProbeState::Missing,
                "not \x1b[2Jthere",
                "install it",
            )],
        }
    }

    #[test]
    fn a_table_for_people() {
        let text = |look| {
            let mut out = Vec::new();
            report(ProbeState::Works).write(look, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let plain = "\
mswea-host 1.2.3 on Linux 6 x

Executors
  works    local       all of it
  limited  bubblewrap  no namespaces
                       -> allow them

Machine
  missing  git         not there
                       -> install it
";
        assert_eq!(text(Look::default()), plain);
        let coloured = text(Look {
            colour: true,
            ..Look::default()
        });
        assert!(coloured.contains("  \x1b[32mworks  \x1b[0m  local       all of it\n"));
        assert_eq!(harmless(&coloured), plain);
    }

    #[test]
    fn an_object_for_machines() {
        let mut out = Vec::new();
        report(ProbeState::Works).write_json(&mut out).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["executors"][1]["state"], "limited");
        assert_eq!(json["machine"][0]["name"], "git");
        assert_eq!(json["machine"][0]["remedy"], "install it");
    }

    #[test]
    fn the_code_says_whether_tasks_can_run() {
        for (state, code) in [
            (ProbeState::Works, ExitCode::Submitted),
            (ProbeState::Limited, ExitCode::Submitted),
            (ProbeState::Missing, ExitCode::Environment),
        ] {
            assert_eq!(report(state).code(), code);
        }
        for (name, code) in [
            ("state", ExitCode::Failed),
            (program::PLUGINS, ExitCode::Plugin),
        ] {
            let mut report = report(ProbeState::Works);
            report.program = vec![probe(name, ProbeState::Missing, "", "")];
            assert_eq!(report.code(), code);
        }
    }
}
