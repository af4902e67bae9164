//! `plugin pin`: digests of plugins in a lock file.

use std::fmt::Write as _;

use super::super::args::PinArgs;
use super::super::exit::ExitCode;
use super::super::output::{self, Failure};
use super::load;
use mswea_plugin_host::{FoundPlugin, Loader};
use mswea_session::pins::{Lock, Pin, PinError};

/// Writes pins, removes pins, or lists and checks them.
pub fn run(args: &PinArgs) -> Result<ExitCode, Failure> {
    let mut lock = Lock::read(&args.lock).map_err(refused)?;
    if args.plugins.is_empty() {
        if args.remove {
            return Err(Failure::usage(
                "`--remove` needs the plugins whose pins are to be removed: name them",
            ));
        }
        return list(&lock);
    }
    let mut text = String::new();
    for spec in &args.plugins {
        if args.remove {
            remove(&mut lock, spec, &mut text)?;
            continue;
        }
        let plugin = load(spec)?;
        let before = lock
            .pins
            .iter()
            .find(|pin| lock.is_of(pin, &plugin.source, &plugin.name))
            .cloned();
        let name = lock.pin(&plugin);
        let digest = &plugin.digest;
        let _ = match before {
            Some(Pin { sha256, .. }) if sha256 == *digest => {
                writeln!(text, "{name} is as it was pinned: {digest}")
            }
            Some(Pin { sha256, .. }) => {
                writeln!(text, "pinned {name}: {digest} (it was {sha256})")
            }
            None => writeln!(text, "pinned {name}: {digest}"),
        };
    }
    lock.write().map_err(|error| {
        Failure::new(
            ExitCode::Failed,
            format!(
                "can't write the lock file `{}`: {error}",
                args.lock.display()
            ),
        )
    })?;
    output::note(text.trim_end());
    Ok(ExitCode::Submitted)
}

fn remove(lock: &mut Lock, spec: &str, text: &mut String) -> Result<(), Failure> {
    // The file may have been removed, so the plugin is not loaded.
    let called = lock.called(spec.as_ref());
    let before = lock.pins.len();
    lock.pins
        .retain(|pin| pin.plugin != spec && pin.plugin != called);
    if lock.pins.len() == before {
        let known: Vec<String> = lock
            .pins
            .iter()
            .map(|pin| format!("`{}`", pin.plugin))
            .collect();
        return Err(Failure::usage(format!(
            "`{spec}` is not pinned in `{}`: pinned are {}",
            lock.path().display(),
            if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            }
        )));
    }
    let _ = writeln!(text, "{spec} is no longer pinned");
    Ok(())
}

/// Prints all pins, each with the result of its check.
fn list(lock: &Lock) -> Result<ExitCode, Failure> {
    if lock.pins.is_empty() {
        output::note(&format!(
            "nothing is pinned in `{}`: `mswea-host plugin pin FILE` pins a plugin",
            lock.path().display()
        ));
        return Ok(ExitCode::Submitted);
    }
    let mut text = String::new();
    let mut all_hold = true;
    for pin in &lock.pins {
        let spec = match pin.plugin.contains('/') {
            true => lock
                .path()
                .parent()
                .unwrap_or(std::path::Path::new(""))
                .join(&pin.plugin)
                .display()
                .to_string(),
            false => pin.plugin.clone(),
        };
        let state = match Loader::new(None).find(&spec) {
            Ok(found) => how(lock, &found),
            Err(error) => Err(error.to_string()),
        };
        let word = match &state {
            Ok(()) => "holds".to_owned(),
            Err(why) => why.clone(),
        };
        all_hold &= state.is_ok();
        let _ = writeln!(text, "{}  {}  {word}", pin.plugin, pin.sha256);
    }
    output::text(&text)?;
    Ok(match all_hold {
        true => ExitCode::Submitted,
        false => ExitCode::Plugin,
    })
}

fn how(lock: &Lock, found: &FoundPlugin) -> Result<(), String> {
    match lock.check(&found.source, &found.label, &found.digest) {
        Ok(()) => Ok(()),
        Err(PinError::Changed { found, .. }) => Err(format!("CHANGED: now {found}")),
        Err(error) => Err(error.to_string()),
    }
}

fn refused(error: PinError) -> Failure {
    Failure::usage(error.to_string())
}
