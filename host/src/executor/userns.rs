//! Why a user namespace was refused, and what to do about it: sandboxes begin with one.

use std::fs;
use std::path::Path;

/// Settings of kernels, when they forbid, and what to do then.
const SETTINGS: &[(&str, &str, &str)] = &[
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "user namespaces are for root only here: `sudo sysctl kernel.unprivileged_userns_clone=1` allows them",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "no user namespaces are allowed here: `sudo sysctl user.max_user_namespaces=10000` allows them",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor keeps user namespaces from programs without a profile: `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0` allows them, or a profile with `userns,` for the program",
    ),
];

/// What to do where a user namespace was refused.
pub(super) fn advice() -> String {
    advice_below(Path::new("/"), rustix::process::geteuid().is_root())
}

fn advice_below(root: &Path, is_root: bool) -> String {
    let at = |path: &str| root.join(path.trim_start_matches('/'));
    for (file, forbids, advice) in SETTINGS {
        // The last one does not hold for root, nor does the first.
        let holds = !is_root || file.contains("max_");
        if holds && fs::read_to_string(at(file)).is_ok_and(|value| value.trim() == *forbids) {
            return (*advice).to_owned();
        }
    }
    if ["/.dockerenv", "/run/.containerenv"]
        .iter()
        .any(|sign| at(sign).exists())
    {
        return "this is a container, and its engine does not let it: start it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined`, or use its isolation and the local environment".to_owned();
    }
    "nothing in `/proc/sys` says why: ask who runs this machine whether something (a container, a service's `RestrictNamespaces=`, a security module) forbids user namespaces".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_found() {
        type Files<'a> = &'a [(&'a str, &'a str)];
        let vectors: &[(Files<'_>, bool, &str)] = &[
            (&[], false, "ask who runs"),
            (
                &[("/proc/sys/kernel/unprivileged_userns_clone", "0\n")],
                false,
                "userns_clone=1",
            ),
            (
                &[("/proc/sys/kernel/unprivileged_userns_clone", "0\n")],
                true,
                "ask who runs",
            ),
            (
                &[("/proc/sys/kernel/unprivileged_userns_clone", "1\n")],
                false,
                "ask who runs",
            ),
            (
                &[("/proc/sys/user/max_user_namespaces", "0\n")],
                true,
                "max_user_namespaces=",
            ),
            (
                &[
                    ("/proc/sys/user/max_user_namespaces", "96365\n"),
                    (
                        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
                        "1\n",
                    ),
                    ("/.dockerenv", ""),
                ],
                false,
                "AppArmor",
            ),
            (&[("/run/.containerenv", "")], false, "--security-opt"),
        ];
        for (files, is_root, wanted) in vectors {
            let root = tempfile::tempdir().unwrap();
            for (file, text) in *files {
                let path = root.path().join(file.trim_start_matches('/'));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let advice = advice_below(root.path(), *is_root);
            assert!(advice.contains(wanted), "{files:?}: {advice}");
        }
    }
}
