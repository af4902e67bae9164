//! Translates the arguments of `docker run` for the daemon's API.
//!
//! Only common arguments are translated. For [`ArgumentProblem::Unknown`] the caller makes the container
//! with the command line client, which supports all of them.

mod making;
mod values;

use serde_json::Value;

use super::engine::ContainerSpec;
use making::Making;
use values::boolean;

/// Why arguments have no translation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ArgumentProblem {
    /// An argument that is not supported here, but may be valid.
    Unknown(String),
    /// A wrong argument: the message names it, and the reason.
    Bad(String),
}

/// When the image is pulled before the container is made. The executor itself has pulled a missing
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PullPolicy {
    Never,
    Missing,
    Always,
}

/// A container in the form of the daemon's API.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) name: String,
    pub(super) platform: Option<String>,
    pub(super) pull: PullPolicy,
    /// The body of the request that creates it.
    pub(super) body: Value,
}

/// Finds the value of a variable of the host, for `-e NAME`.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The long names of the arguments that have one letter.
const LETTERS: &[(char, &str)] = &[
    ('c', "cpu-shares"),
    ('d', "detach"),
    ('e', "env"),
    ('h', "hostname"),
    ('i', "interactive"),
    ('l', "label"),
    ('m', "memory"),
    ('p', "publish"),
    ('P', "publish-all"),
    ('q', "quiet"),
    ('t', "tty"),
    ('u', "user"),
    ('v', "volume"),
    ('w', "workdir"),
];

/// The arguments without a value.
const SWITCHES: &[&str] = &[
    "detach",
    "init",
    "interactive",
    "no-healthcheck",
    "oom-kill-disable",
    "privileged",
    "publish-all",
    "quiet",
    "read-only",
    "rm",
    "sig-proxy",
    "tty",
];

/// The container that `spec` describes.
///
/// # Errors
/// [`ArgumentProblem`] if an argument is not supported, or wrong.
pub(super) fn translate(
    spec: &ContainerSpec,
    variable: Lookup<'_>,
) -> Result<Translated, ArgumentProblem> {
    let mut making = Making::new(spec);
    let mut args = spec.run_args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        for (name, value) in split(arg)? {
            let is_switch = SWITCHES.contains(&name);
            let value = match value {
                Some(value) => value,
                None if is_switch => "true",
                None if !making.knows(name) => {
                    return Err(ArgumentProblem::Unknown(spec.origin(arg)));
                }
                None => args.next().ok_or_else(|| {
                    ArgumentProblem::Bad(format!(
                        "`{arg}` in `environment.run_args` needs a value after it"
                    ))
                })?,
            };
            let applied = if is_switch {
                boolean(value).and_then(|on| making.switch(name, on))
            } else {
                making.apply(name, value, variable)
            };
            applied.map_err(|wrong| match wrong {
                Wrong::Unknown => ArgumentProblem::Unknown(spec.origin(arg)),
                Wrong::Value(why) => ArgumentProblem::Bad(match spec.is_typed(arg) {
                    true => format!("{} is not usable: {why}", spec.origin(arg)),
                    false => format!(
                        "`{}` in `environment.run_args` is not usable: {why}",
                        if name == "env" { "--env" } else { arg }
                    ),
                }),
            })?;
        }
    }
    Ok(making.finish())
}

/// The host's variables that arguments pass by name.
pub(super) fn variables(args: &[String]) -> Vec<&str> {
    let mut names = Vec::new();
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        let value = match arg {
            "-e" | "--env" => args.next(),
            _ => arg
                .strip_prefix("--env=")
                .or_else(|| arg.strip_prefix("-e")),
        };
        names.extend(value.filter(|value| !value.is_empty() && !value.contains('=')));
    }
    names
}

/// The arguments that have an effect before there is a container.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Choices {
    pub(super) name: Option<String>,
    pub(super) platform: Option<String>,
    pub(super) pull: Option<PullPolicy>,
}

/// The choices in `args`, which may also contain arguments without a translation. Of several, the
/// last one counts.
pub(super) fn choices(args: &[String]) -> Choices {
    let mut choices = Choices::default();
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg, None),
        };
        if !["--name", "--platform", "--pull"].contains(&name) {
            continue;
        }
        let Some(value) = value.or_else(|| args.next()) else {
            break;
        };
        match name {
            "--name" => choices.name = Some(value.to_owned()),
            "--platform" => choices.platform = Some(value.to_owned()),
            _ => choices.pull = pull_policy(value),
        }
    }
    choices
}

fn pull_policy(value: &str) -> Option<PullPolicy> {
    match value {
        "always" => Some(PullPolicy::Always),
        "missing" => Some(PullPolicy::Missing),
        "never" => Some(PullPolicy::Never),
        _ => None,
    }
}

/// An argument for messages: without its value, which may be a secret.
fn shown(arg: &str) -> String {
    arg.split('=').next().unwrap_or(arg).to_owned()
}

/// The error in an argument's value.
#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    /// The form of the value is not supported here.
    Unknown,
    Value(String),
}

/// The arguments in one word: `--a`, `--a=b`, `-ab`, `-a=b`, `-abVALUE`.
fn split(word: &str) -> Result<Vec<(&str, Option<&str>)>, ArgumentProblem> {
    if let Some(long) = word.strip_prefix("--")
        && !long.is_empty()
    {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        if name.contains(char::is_whitespace) {
            return Err(two_in_one(word));
        }
        return Ok(vec![(name, value)]);
    }
    let Some(letters) = word
        .strip_prefix('-')
        .filter(|rest| !rest.is_empty() && *rest != "-")
    else {
        return Err(two_in_one(word));
    };
    let mut found = Vec::new();
    for (at, letter) in letters.char_indices() {
        let known = LETTERS.iter().find(|(known, _)| *known == letter);
        let Some((_, name)) = known else {
            return Err(ArgumentProblem::Unknown(format!(
                "`{}` in `environment.run_args`",
                shown(word)
            )));
        };
        let rest = &letters[at + letter.len_utf8()..];
        if let Some(value) = rest.strip_prefix('=') {
            found.push((*name, Some(value)));
            break;
        }
        if !SWITCHES.contains(name) {
            found.push((*name, Some(rest).filter(|rest| !rest.is_empty())));
            break;
        }
        found.push((*name, None));
    }
    Ok(found)
}

fn two_in_one(word: &str) -> ArgumentProblem {
    ArgumentProblem::Bad(format!(
        "`{word}` in `environment.run_args` is not an argument of `run`: write an argument and its value as two entries of the list, or as one with `=`"
    ))
}

#[cfg(test)]
mod tests;
