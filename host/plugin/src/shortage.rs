//! Failures that look like a plugin's but are the machine's: the process's limits are too low for
//! the engine. wasmtime has no types for them, so they are recognised by the system's messages.

use rustix::process::{Resource, getrlimit};

/// The limit that is too low and the remedy, if an error's text is about one.
pub fn shortage(error: &str) -> Option<String> {
    let limit = |resource| getrlimit(resource).current;
    let has = |code: i32| error.contains(&format!("(os error {code})"));
    if has(libc::ENOMEM) {
        return Some(match limit(Resource::As) {
            Some(bytes) => format!(
                "this process may have {} MiB of addresses (`ulimit -v`), and the plugin engine \
                 reserves more than 4096 MiB for each plugin, most of it without ever using it as \
                 memory: run with `ulimit -v unlimited`, and limit memory with a cgroup instead",
                bytes >> 20
            ),
            None => "this machine gives the plugin engine no more memory or addresses: end other \
                     programs, or raise `vm.max_map_count` or `vm.overcommit_memory` with `sysctl`"
                .to_owned(),
        });
    }
    if has(libc::EMFILE) || error.contains("cannot create a memfd") {
        let files = limit(Resource::Nofile).map_or_else(|| "no more".into(), |n| n.to_string());
        return Some(format!(
            "this process may have {files} open files (`ulimit -n`), which is too few: raise the \
             limit, for example with `ulimit -n 1024`"
        ));
    }
    if has(libc::EFBIG) {
        let bytes = limit(Resource::Fsize).unwrap_or_default();
        return Some(format!(
            "a file of this process may have {bytes} bytes (`ulimit -f`), which is too few: raise \
             the limit, for example with `ulimit -f unlimited`"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortages_are_told_from_faults() {
        for (error, wanted) in [
            (
                "mmap failed: Cannot allocate memory (os error 12)",
                Some("memory"),
            ),
            (
                "x: Too many open files (os error 24)",
                Some("`ulimit -n 1024`"),
            ),
            ("cannot create a memfd", Some("`ulimit -n 1024`")),
            (
                "File too large (os error 27)",
                Some("`ulimit -f unlimited`"),
            ),
            ("unknown import: x", None),
            ("(os error 2)", None),
        ] {
            let found = shortage(error);
            assert_eq!(found.is_some(), wanted.is_some(), "{error}: {found:?}");
            if let (Some(found), Some(wanted)) = (found, wanted) {
                assert!(found.contains(wanted), "{found}");
            }
        }
    }
}
