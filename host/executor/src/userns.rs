//! Why a user namespace was refused, and the remedy; sandboxes need one.

use std::fs;
use std::path::Path;

/// Settings of kernels, the values with which they forbid it, and the remedies.
const SETTINGS: &[(&str, &str, &str)] = &[
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "only root may make user namespaces on this machine: `sudo sysctl kernel.unprivileged_userns_clone=1` allows them",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "this machine allows no user namespaces: `sudo sysctl user.max_user_namespaces=10000` allows them",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor denies user namespaces to programs without a profile: `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0` allows them, or a profile with `userns,` for the program",
    ),
];

/// The remedy if a user namespace was refused.
pub(super) fn advice() -> String {
    advice_below(Path::new("/"), rustix::process::geteuid().is_root())
}

fn advice_below(root: &Path, is_root: bool) -> String {
    let at = |path: &str| root.join(path.trim_start_matches('/'));
    for (file, forbids, advice) in SETTINGS {
        // The first and the last do not apply to root.
        let holds = !is_root || file.contains("max_");
        if holds && fs::read_to_string(at(file)).is_ok_and(|value| value.trim() == *forbids) {
            return (*advice).to_owned();
        }
    }
    if ["/.dockerenv", "/run/.containerenv"]
        .iter()
        .any(|sign| at(sign).exists())
    {
        return "this is a container whose engine does not allow user namespaces: start it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined`, or use its isolation and the local environment".to_owned();
    }
    "`/proc/sys` does not show the reason: ask the administrator of this machine whether something (a container, a service's `RestrictNamespaces=`, a security module) forbids user namespaces".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_found() {
        type Files<'a> = &'a [(&'a str, &'a str)];
        let vectors: &[(Files<'_>, bool, &str)] = &[
            (&[], false, "ask the administrator"),
            (
                &[("/proc/sys/kernel/unprivileged_userns_clone", "0\n")],
                false,
                "userns_clone=1",
            ),
            (
                &[("/proc/sys/kernel/unprivileged_userns_clone", "0\n")],
                true,
                "ask the administrator",
            ),
            (
                &[("/proc/sys/kernel/unprivileged_userns_clone", "1\n")],
                false,
                "ask the administrator",
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
