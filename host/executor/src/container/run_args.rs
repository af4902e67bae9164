//! What the host has to know of `environment.run_args`. Only the engine's command line client
//! understands these arguments, so it makes the container if there are any besides `--rm`.

use super::engine::ContainerSpec;

/// The settings for which the command line client has to make the container, for messages. They are
/// named without values, which may be secrets. None: keys of the config and `--rm` describe it.
pub(super) fn for_client(spec: &ContainerSpec) -> Option<String> {
    let mut keys = spec.typed.iter();
    // A network with options.
    if let Some(network) = keys.find(|typed| typed.arg == "network" && typed.value.contains('=')) {
        return Some(format!("`{}`", network.key));
    }
    let is_plain = |arg: &&String| matches!(arg.as_str(), "--rm" | "--rm=true");
    let args: Vec<&String> = spec.run_args.iter().filter(|arg| !is_plain(arg)).collect();
    let names = args.iter().filter(|arg| arg.starts_with('-'));
    let names: Vec<String> = names.map(|arg| format!("`{}`", name_of(arg))).collect();
    match (args.is_empty(), names.is_empty()) {
        (true, _) => None,
        (_, true) => Some("`environment.run_args`".to_owned()),
        _ => Some(format!("{} in `environment.run_args`", names.join(", "))),
    }
}

/// An argument without its value.
pub(super) fn name_of(arg: &str) -> &str {
    arg.split('=').next().unwrap_or(arg)
}

/// The name that the user chose for the container.
pub(super) fn name(args: &[String]) -> Option<&str> {
    values(args, "--name", None).pop()
}

/// The host's variables that arguments pass by name.
pub(super) fn variables(args: &[String]) -> Vec<&str> {
    let mut names = values(args, "--env", Some("-e"));
    names.retain(|value| !value.is_empty() && !value.contains('='));
    names
}

/// The values of an argument, in the forms `--env A`, `--env=A`, `-e A` and `-eA`.
fn values<'a>(args: &'a [String], long: &str, short: Option<&str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        let rest = arg.strip_prefix(long);
        found.extend(match short.and_then(|short| arg.strip_prefix(short)) {
            _ if rest == Some("") => args.next(),
            Some("") => args.next(),
            Some(value) => Some(value),
            None => rest.and_then(|rest| rest.strip_prefix('=')),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::engine::TypedArg;

    fn list(args: &[&str]) -> Vec<String> {
        args.iter().map(|&arg| arg.to_owned()).collect()
    }

    #[test]
    fn only_the_default_needs_no_client() {
        for (args, wanted) in [
            (&[][..], None),
            (&["--rm"], None),
            (&["--rm=true"], None),
            (&["--rm=false"], Some("`--rm` in `environment.run_args`")),
            (
                &["--rm", "-e", "A_KEY=1", "--env=B_KEY=1", "--init"],
                Some("`-e`, `--env`, `--init` in `environment.run_args`"),
            ),
            (&["ubuntu"], Some("`environment.run_args`")),
        ] {
            let mut spec = ContainerSpec {
                run_args: list(args),
                ..ContainerSpec::default()
            };
            assert_eq!(for_client(&spec).as_deref(), wanted, "{args:?}");
            let network = |value: &str| TypedArg {
                key: "environment.network",
                arg: "network",
                value: value.to_owned(),
            };
            spec.typed = vec![network("none")];
            assert_eq!(for_client(&spec).as_deref(), wanted, "{args:?}");
            spec.typed = vec![network("name=none,alias=a")];
            assert_eq!(for_client(&spec).as_deref(), Some("`environment.network`"));
        }
    }

    #[test]
    fn variables_of_the_host_are_found() {
        let args = [
            "-e",
            "A",
            "--env=B",
            "-eC",
            "-e",
            "D=1",
            "--env",
            "E",
            "--rm",
            "--env-file",
            "f",
            "-e",
        ];
        assert_eq!(variables(&list(&args)), ["A", "B", "C", "E"]);
    }

    #[test]
    fn of_several_names_the_last_one_counts() {
        for (args, wanted) in [
            (&["--init", "--name", "a", "--name=b"][..], Some("b")),
            (&["--name=b", "--name", "a"], Some("a")),
            (&["--name"], None),
            (&["--names=b"], None),
        ] {
            assert_eq!(name(&list(args)), wanted, "{args:?}");
        }
    }
}
