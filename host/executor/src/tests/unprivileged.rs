//! Tests the sandboxes again, as an unprivileged user.

use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use super::*;
use crate::probe::{self, ProbeState};
use crate::{adopt_orphans, folders};

/// The user `nobody`.
const NOBODY: u32 = 65534;

#[tokio::test]
#[ignore = "a role in another test"]
async fn nobody_body() {
    if !plays("nobody_body") {
        return;
    }
    assert_eq!(rustix::process::geteuid().as_raw(), NOBODY);
    mswea_secrecy::protect();
    adopt_orphans();
    folders::tests::locked_folders_are_removed();
    singularity::everything().await;
    if std::env::var_os("MSWEA_TEST_LANDLOCK").is_some() {
        landlock::everything(&[false]).await;
    }
    if std::env::var_os("MSWEA_TEST_BUBBLEWRAP").is_some() {
        bubblewrap::everything().await;
    }
}

#[tokio::test]
async fn sandboxes_need_no_root() {
    let name = "sandboxes_need_no_root";
    let is_root = rustix::process::geteuid().is_root();
    let can = Command::new("setpriv").arg("--version").output();
    let found = match can {
        Ok(_) if is_root => Ok(()),
        Ok(_) => Err("not root, so the other tests were unprivileged".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    if !needs::has("setpriv", name, found) {
        return;
    }
    // Only what works here for root is tested for nobody.
    let me = std::env::current_exe().unwrap();
    let probes = probe::sandboxes(Some(me.clone()), &context()).await;
    let works = |name: &str| {
        probes
            .iter()
            .any(|probe| probe.name == name && probe.state == ProbeState::Works)
    };

    // A place that `nobody` can reach, unlike the build's folder, home folders and perhaps `TMPDIR`.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open.clone()).unwrap();
    let program = folder.path().join("program");
    executables::install(&me, &program, "755");
    let outside = tempfile::tempdir_in("/run").unwrap();
    std::fs::set_permissions(outside.path(), open).unwrap();
    chown(outside.path(), Some(NOBODY), Some(NOBODY)).unwrap();

    let role = module_path!().split_once("::").unwrap().1;
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&program)
        .args([
            "--exact",
            "--ignored",
            "--quiet",
            &format!("{role}::nobody_body"),
        ])
        .env("MSWEA_TEST_ROLE", "nobody_body")
        .env("MSWEA_TEST_OUTSIDE", outside.path())
        .env("HOME", "/nonexistent")
        .env_remove("TMPDIR")
        .current_dir("/usr");
    for (name, variable) in [
        ("landlock", "MSWEA_TEST_LANDLOCK"),
        ("bubblewrap", "MSWEA_TEST_BUBBLEWRAP"),
    ] {
        if works(name) {
            command.env(variable, "1");
        }
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn probes_say_what_there_is() {
    let probes = probe::sandboxes(std::env::current_exe().ok(), &context()).await;
    let names: Vec<_> = probes.iter().map(|probe| probe.name).collect();
    assert_eq!(names, ["bubblewrap", "singularity", "landlock"]);
    for probe in probes {
        let expected = match (probe.name, probe.state) {
            // Cause and remedy.
            (_, ProbeState::Missing) => "`",
            ("bubblewrap", _) => "bubblewrap 0.",
            ("singularity", _) => "version",
            ("landlock", ProbeState::Works) => "network can be switched off",
            ("landlock", ProbeState::Limited) => "the network can't be switched off",
            (name, _) => unreachable!("{name}"),
        };
        assert!(probe.detail.contains(expected), "{probe:?}");
    }
}
