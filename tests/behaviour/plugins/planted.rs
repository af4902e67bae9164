//! A command of the model may be a process of the same user, and the cache of compiled plugins
//! belongs to that user. What it plants there is not run.

use std::fs;
use std::path::{Path, PathBuf};

use mswea_host::plugin::digest;
use scripted_server::{Scenario, Server};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::guests::{hostile, parser_xml};
use crate::host::Host;

/// What stands in front of compiled code: a mark, and the code's authentication.
const MARK: &[u8] = b"mswea-compiled-1";
const HEAD: usize = MARK.len() + 32;

/// Puts this thread, and so what it starts, into a session as a login would make it. Whether there
/// is such a thing here.
fn log_in() -> bool {
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: a null name asks for a new keyring.
    unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, 0) >= 0 }
}

fn compiled(cache: &Path) -> Vec<PathBuf> {
    let folder = cache.join("mswea-host/wasm");
    let files = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "cwasm"));
    files.sort();
    files
}

/// Code with an authentication that whoever has read the source can make.
fn forged(file: &Path, code: &[u8]) -> Vec<u8> {
    let stem = file.file_stem().unwrap().to_str().unwrap();
    let name = stem.split('-').next().unwrap();
    let inner = Sha256::new_with_prefix([0x36; 64])
        .chain_update(MARK)
        .chain_update(name)
        .chain_update(code)
        .finalize();
    let outer = Sha256::new_with_prefix([0x5c; 64])
        .chain_update(inner)
        .finalize();
    [MARK, &outer, code].concat()
}

/// What the plugin in `file` says its name is, which code from the cache can say as well.
fn name(host: Host, file: &Path) -> String {
    let run = host
        .args(["plugin", "call", file.to_str().unwrap(), "describe"])
        .run()
        .expect(0);
    let told: Value = serde_json::from_str(&run.stdout).unwrap();
    told["name"].as_str().unwrap().to_owned()
}

/// The attack: a run in which a command puts other code into the place of a pinned plugin's. What
/// the plugin is for the next program.
fn attacked(protected: bool, replay: bool) -> String {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let host = || {
        let host = Host::new().env("XDG_CACHE_HOME", &cache);
        match protected {
            true => host.env_remove("MSWEA_PLUGIN_CACHE"),
            false => host,
        }
    };
    let pinned = folder.path().join("pinned.wasm");
    fs::copy(hostile(), &pinned).unwrap();
    // The attacker's code, as any program of this user may have it compiled.
    assert_eq!(name(host(), &pinned), "hostile");
    let own = compiled(&cache);
    assert_eq!(name(host(), parser_xml()), "xml");
    let others: Vec<PathBuf> = compiled(&cache)
        .into_iter()
        .filter(|file| !own.contains(file))
        .collect();
    let evil = match others.first() {
        Some(file) => fs::read(file).unwrap()[HEAD..].to_vec(),
        // Nothing is kept here, so nothing can be replaced; but it can be put there.
        None => return name(host(), &pinned),
    };
    let evil_file = folder.path().join("evil");
    let target = &own[0];
    let text = match replay {
        // As it lies there, with an authentication that is good for the other plugin.
        true => fs::read(&others[0]).unwrap(),
        false => forged(target, &evil),
    };
    fs::write(&evil_file, text).unwrap();
    let command = format!(
        "cp {} {}; echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; grep -c compiled-plugins /proc/keys; cmp {} {} && echo planted",
        evil_file.display(),
        target.display(),
        evil_file.display(),
        target.display(),
    );
    let server = Server::start(Scenario::commands(&[&command]));
    let pin = format!(
        "[plugins.hostile]\npath = {:?}\nsha256 = \"{}\"\n",
        pinned.display().to_string(),
        digest(&fs::read(&pinned).unwrap())
    );
    let run = host()
        .server(&server)
        .task("t")
        .file("pin.toml", pin)
        .args(["-c", "pin.toml", "-c", "pipeline.policies=[\"hostile\"]"])
        .run()
        .expect(0);
    assert!(run.stdout.contains("planted"), "{run}");
    // The key's name can't even be seen by what a run starts.
    assert!(run.stdout.starts_with('0'), "{run}");
    name(host(), &pinned)
}

#[test]
fn planted_machine_code_is_not_run() {
    let sessions = log_in();
    // With trust in the folder the attack works, so it is one.
    assert_eq!(attacked(false, false), "xml");
    assert_eq!(attacked(true, false), "hostile");
    // Authentic code of another plugin is not this plugin's.
    assert_eq!(attacked(true, true), "hostile");
    assert_eq!(attacked(false, true), "hostile");
    if !sessions {
        return;
    }
    // What is authentic is used, from the second time on: it is not compiled and written again.
    let cache = tempfile::tempdir().unwrap();
    let host = || {
        Host::new()
            .env_remove("MSWEA_PLUGIN_CACHE")
            .env("XDG_CACHE_HOME", cache.path())
    };
    assert_eq!(name(host(), hostile()), "hostile");
    let written = |file: &Path| fs::metadata(file).unwrap().modified().unwrap();
    let files = compiled(cache.path());
    let at = written(&files[0]);
    assert_eq!(name(host(), hostile()), "hostile");
    assert_eq!(compiled(cache.path()), files);
    assert_eq!(written(&files[0]), at);
    // Another login has another key, and does not take it.
    assert!(log_in());
    assert_eq!(name(host(), hostile()), "hostile");
    assert_eq!(compiled(cache.path()).len(), 2);
}

#[test]
fn without_a_login_nothing_is_kept() {
    // As in a cron job or a container: a keyring that every process of the user can use.
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    const SETPERM: libc::c_long = 5;
    const THE_SESSION: libc::c_long = -3;
    // SAFETY: a null name, and numbers.
    unsafe {
        libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, 0);
        libc::syscall(libc::SYS_keyctl, SETPERM, THE_SESSION, 0x3f3f_0000);
    }
    let host = || Host::new().env_remove("MSWEA_PLUGIN_CACHE").empty_cache();
    let call = host().args(["plugin", "inspect", hostile().to_str().unwrap()]);
    let cache = call.home().join(".cache");
    let running = call.spawn();
    let run = running.wait().expect(0);
    assert!(compiled(&cache).is_empty(), "{run}");
    let run = host().arg("doctor").run();
    assert!(
        run.stdout.contains("are compiled in every run") && run.stdout.contains("--plugin FILE"),
        "{run}"
    );
}
