//! Commands of the model may be processes of the user who owns the cache of compiled plugins. Code that a
//! command writes into the cache is not run.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use mswea_host::plugin::digest;
use scripted_server::{Scenario, Server};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::guests::{hostile, parser_xml};
use crate::host::Host;

/// A file of the cache begins with a mark and the code's HMAC.
const MARK: &[u8] = b"mswea-compiled-1";
const HEAD: usize = MARK.len() + 32;

/// Gives this thread and the processes that it starts a new session keyring, as a login does. False if the
/// system has no keyrings.
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

/// Code with an HMAC under an empty key, which an attacker can compute.
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

/// The name in the descriptor of the plugin in `file`; planted code would return another one.
fn name(host: Host, file: &Path) -> String {
    let run = host
        .args(["plugin", "call", file.to_str().unwrap(), "describe"])
        .run()
        .expect(0);
    let told: Value = serde_json::from_str(&run.stdout).unwrap();
    told["name"].as_str().unwrap().to_owned()
}

/// The attack: a command of a run replaces a pinned plugin's code in the cache. Returns the plugin's name
/// in the next call of the program. With `protected` the cache needs a key; with `replay` the planted file
/// is the authentic file of another plugin.
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
    // The user's programs may compile any plugin, also the attacker's.
    assert_eq!(name(host(), &pinned), "hostile");
    let own = compiled(&cache);
    assert_eq!(name(host(), parser_xml()), "xml");
    let others: Vec<PathBuf> = compiled(&cache)
        .into_iter()
        .filter(|file| !own.contains(file))
        .collect();
    let evil = match others.first() {
        Some(file) => fs::read(file).unwrap()[HEAD..].to_vec(),
        // Without a key nothing is kept in the cache, so there is no file to replace.
        None => return name(host(), &pinned),
    };
    let evil_file = folder.path().join("evil");
    let target = &own[0];
    let text = match replay {
        // The file has an HMAC that is valid for the other plugin.
        true => fs::read(&others[0]).unwrap(),
        false => forged(target, &evil),
    };
    fs::write(&evil_file, text).unwrap();
    let command = format!(
        "cp '{0}' '{1}'; echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; grep -c compiled-plugins /proc/keys; cmp '{0}' '{1}' && echo planted",
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
    // Commands of a run do not see the key in `/proc/keys`.
    assert!(run.stdout.starts_with('0'), "{run}");
    name(host(), &pinned)
}

#[test]
fn planted_machine_code_is_not_run() {
    let sessions = log_in();
    // Without protection (`MSWEA_PLUGIN_CACHE=trust`) the attack succeeds.
    assert_eq!(attacked(false, false), "xml");
    assert_eq!(attacked(true, false), "hostile");
    // Authentic code of another plugin is refused.
    assert_eq!(attacked(true, true), "hostile");
    assert_eq!(attacked(false, true), "hostile");
    if !sessions {
        return;
    }
    // Authentic code is used: the second call does not compile and write it again.
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
    // Another login has another key, so it does not use the file of the first.
    assert!(log_in());
    assert_eq!(name(host(), hostile()), "hostile");
    assert_eq!(compiled(cache.path()).len(), 2);
}

/// Gives this thread a keyring that every process of the user can use, as in a cron job or a container.
fn without_a_login() {
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    const SETPERM: libc::c_long = 5;
    const THE_SESSION: libc::c_long = -3;
    // SAFETY: a null name, and numbers.
    unsafe {
        libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, 0);
        libc::syscall(libc::SYS_keyctl, SETPERM, THE_SESSION, 0x3f3f_0000);
    }
}

/// A copy of the program in `folder`.
fn program_in(folder: &Path) -> PathBuf {
    let mode = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(folder).unwrap();
    mode(folder);
    let program = folder.join("mswea-host");
    // Copied by another process: a descriptor of this one could be inherited by a child of another test while it
    // is open for writing, and the program could not be run.
    let mut copy = Command::new("cp");
    copy.arg(env!("CARGO_BIN_EXE_mswea-host")).arg(&program);
    assert!(copy.status().unwrap().success());
    mode(&program);
    program
}

#[test]
fn without_a_login_no_compiled_code_is_kept() {
    without_a_login();
    let folder = tempfile::tempdir().unwrap();
    let program = program_in(&folder.path().join("usr/bin"));
    let host = || {
        Host::new()
            .program(&program)
            .env_remove("MSWEA_PLUGIN_CACHE")
            .empty_cache()
    };
    let call = host().args(["plugin", "inspect", hostile().to_str().unwrap()]);
    let cache = call.home().join(".cache");
    let running = call.spawn();
    let run = running.wait().expect(0);
    assert!(compiled(&cache).is_empty(), "{run}");
    let beside = fs::read_dir(folder.path().join("usr/bin")).unwrap();
    assert_eq!(beside.count(), 1, "{run}");
    let run = host().arg("doctor").run();
    assert!(
        run.stdout.contains("are compiled in every run") && run.stdout.contains("--plugin FILE"),
        "{run}"
    );
}

/// Those who can write there can change the program itself.
#[test]
fn without_a_login_a_program_of_a_build_keeps_code_beside_itself() {
    without_a_login();
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("target/debug");
    let program = program_in(&profile);
    fs::write(folder.path().join("target/CACHEDIR.TAG"), "").unwrap();
    let inspect = || {
        let host = Host::new()
            .program(&program)
            .env_remove("MSWEA_PLUGIN_CACHE")
            .empty_cache();
        let cache = host.home().join(".cache");
        assert_eq!(name(host, hostile()), "hostile");
        assert!(compiled(&cache).is_empty());
    };
    let kept = || {
        let files = fs::read_dir(profile.join("plugin-code")).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let mut files = files.filter(|path| path.extension().is_some_and(|it| it == "cwasm"));
        let file = files.next().unwrap();
        assert_eq!(files.next(), None);
        let inode = fs::symlink_metadata(&file).unwrap().ino();
        (file, inode)
    };
    inspect();
    let first = kept();
    inspect();
    assert_eq!(kept(), first, "it was compiled again");
    // What others may have written is not used, and replaced.
    let file = &first.0;
    let elsewhere = folder.path().join("code");
    let is_root = rustix::process::geteuid().is_root();
    let changes: [&dyn Fn(); 3] = [
        &|| fs::set_permissions(file, fs::Permissions::from_mode(0o646)).unwrap(),
        &|| {
            fs::rename(file, &elsewhere).unwrap();
            symlink(&elsewhere, file).unwrap();
        },
        &|| chown(file, is_root.then_some(12345), None).unwrap(),
    ];
    for change in &changes[..2 + usize::from(is_root)] {
        let before = kept();
        change();
        inspect();
        let now = kept();
        assert!(now.0 == before.0 && now.1 != before.1, "{now:?}");
    }
    // Code in the folder of the first program is not that of one that was built anew.
    let before = kept();
    fs::rename(&program, profile.join("old")).unwrap();
    program_in(&profile);
    inspect();
    assert_ne!(kept().0, before.0);
    // Where others may write, nothing is used.
    fs::remove_dir_all(profile.join("plugin-code")).unwrap();
    fs::set_permissions(&profile, fs::Permissions::from_mode(0o777)).unwrap();
    inspect();
    assert!(!profile.join("plugin-code").exists());
}

#[test]
fn one_line_says_what_was_compiled() {
    let server = Server::start(Scenario::commands(&[
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
    ]));
    let run = Host::new().server(&server).task("x");
    let run = run.env("MSWEA_PLUGIN_CACHE", "off").run().expect(0);
    let lines = run.stderr.lines().filter(|line| line.contains("compiled"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 1, "{run}");
    assert!(lines[0].contains(" plugins were compiled in "), "{run}");
    assert!(lines[0].len() < 130, "{run}");
}
