//! The settings of a container environment, and values that follow from them.

use std::path::PathBuf;
use std::time::Duration;

use indexmap::IndexMap;
use serde_json::Value;

use super::connect::Transport;
use super::engine::TypedArg;
use super::mounts::{check_mount, with_path};
use crate::{environment, machine};
use mswea_core::Object;
use mswea_helper::processes::RUN_VARIABLE;
use mswea_secrecy as secrecy;

/// The settings of a container environment.
#[derive(Clone, Debug)]
pub struct ContainerSettings {
    /// The image that the container is made from.
    pub image: String,
    /// The working directory of commands, inside the container.
    pub cwd: String,
    /// Variables for every command; they take precedence over `forward_env`.
    pub env: IndexMap<String, String>,
    /// Variables of the host that commands get, by their names; unset ones stay unset.
    pub forward_env: Vec<String>,
    /// The default time limit of a command.
    pub timeout: Duration,
    /// The program of the container engine: `docker`, `podman`, or a compatible one.
    pub executable: String,
    /// Further arguments of `docker run`.
    pub run_args: Vec<String>,
    /// The longest life of the container, as an argument of `sleep`.
    pub container_timeout: String,
    /// The time limit of pulling the image.
    pub pull_timeout: Duration,
    /// The time limit of starting the container.
    pub start_timeout: Duration,
    /// Program and arguments to which the command is appended.
    pub interpreter: Vec<String>,
    /// Whether all actions run in one bash.
    pub session: bool,
    /// Whether that bash has a terminal.
    pub pty: bool,
    /// How the engine is reached.
    pub transport: Transport,
    /// Whether a helper that stays in the container starts the commands, if it can run there.
    pub fast_path: bool,
    /// Whether the container is kept after the run.
    pub keep: bool,
    /// The user of commands: `--user`.
    pub user: Option<String>,
    /// The network: `--network`.
    pub network: Option<String>,
    /// Mounts, each in the form of `-v`.
    pub mounts: Vec<String>,
    /// The limit of memory: `--memory`.
    pub memory: Option<String>,
    /// The limit of processors: `--cpus`.
    pub cpus: Option<String>,
    /// The platform of the image: `--platform`.
    pub platform: Option<String>,
    /// The most bytes of a command's output that are kept, half of them from each end.
    pub capture_bytes: usize,
    /// An output whose first line is this is kept whole, with its own line ends: the marker of a
    /// submission.
    pub whole_after: Option<String>,
    /// Names the container and marks the processes of the run; unique among all runs. Empty: one is
    /// generated.
    pub run_id: String,
    /// The id of the run, which is the same in every process that continues the run: the label of
    /// its containers. Empty: `run_id`.
    pub journal_id: String,
    /// Names of the model's keys: forwarding one leads to a warning.
    pub secret_names: Vec<String>,
    /// The program with the subcommand [`SUBCOMMAND`](crate::guard::SUBCOMMAND), usually the host
    /// itself; none: the next start cleans up after a host that was killed.
    pub guard_program: Option<PathBuf>,
}

impl Default for ContainerSettings {
    fn default() -> Self {
        Self {
            image: String::new(),
            cwd: "/".to_owned(),
            env: IndexMap::new(),
            forward_env: Vec::new(),
            timeout: Duration::from_secs(30),
            executable: "docker".to_owned(),
            run_args: vec!["--rm".to_owned()],
            container_timeout: "2h".to_owned(),
            pull_timeout: Duration::from_secs(120),
            start_timeout: Duration::from_secs(60),
            interpreter: vec!["bash".to_owned(), "-lc".to_owned()],
            session: false,
            pty: false,
            transport: Transport::Auto,
            fast_path: true,
            keep: false,
            user: None,
            network: None,
            mounts: Vec::new(),
            memory: None,
            cpus: None,
            platform: None,
            capture_bytes: crate::CAPTURE_BYTES,
            whole_after: None,
            run_id: String::new(),
            journal_id: String::new(),
            secret_names: Vec::new(),
            guard_program: None,
        }
    }
}

impl ContainerSettings {
    /// The name of the container: the run's id in the characters that names allow.
    pub(super) fn container_name(&self) -> String {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let id = self.run_id.chars();
        let id: String = id.map(|c| if allowed(c) { c } else { '-' }).collect();
        format!("mswea-{id}")
    }

    /// The id in the label of the container.
    pub(super) fn label(&self) -> &str {
        match self.journal_id.as_str() {
            "" => &self.run_id,
            id => id,
        }
    }

    /// The user's arguments of `docker run`.
    pub(super) fn kept_run_args(&self) -> Vec<String> {
        // With `--rm`, the engine would remove the container as soon as its time is over.
        let stays = |arg: &&String| !(self.keep && matches!(arg.as_str(), "--rm" | "--rm=true"));
        self.run_args.iter().filter(stays).cloned().collect()
    }

    /// The arguments that have keys of their own.
    pub(super) fn typed(&self) -> Vec<TypedArg> {
        let keys = [
            ("environment.user", "user", &self.user),
            ("environment.network", "network", &self.network),
            ("environment.memory", "memory", &self.memory),
            ("environment.cpus", "cpus", &self.cpus),
        ];
        let texts = keys.into_iter().filter_map(|(key, arg, value)| {
            let value = value.clone()?;
            Some(TypedArg { key, arg, value })
        });
        let mounts = self.mounts.iter().map(|mount| TypedArg {
            key: "environment.mounts",
            arg: "volume",
            value: with_path(mount),
        });
        texts.chain(mounts).collect()
    }

    /// Checks the values before an engine is asked. `local` tells whether the engine sees the
    /// folders of this machine.
    ///
    /// # Errors
    /// A message if `container_timeout` is not a time, or a mount has no valid form or no source.
    pub(super) fn check(&self, local: bool) -> Result<(), String> {
        if !is_lifetime(&self.container_timeout) {
            return Err(format!(
                "`environment.container_timeout` is `{}`, which is not a time: set it to a number above 0 with an optional `s`, `m`, `h` or `d` after it (`2h`), or to `infinity`",
                self.container_timeout
            ));
        }
        self.mounts
            .iter()
            .try_for_each(|mount| check_mount(mount, local))
    }

    /// The part of the environment that all commands share.
    ///
    /// # Errors
    /// A message if a variable can't be passed to a process.
    pub(super) fn environment(&self) -> Result<Vec<(String, String)>, String> {
        let mut variables = environment::elsewhere(&self.forward_env, &self.env)?;
        variables.push((RUN_VARIABLE.to_owned(), self.run_id.clone()));
        Ok(variables)
    }

    /// The names of secrets that the config forwards.
    pub(super) fn forwarded_secrets(&self) -> Vec<&str> {
        let forwarded = self.forward_env.iter().map(String::as_str);
        forwarded
            .filter(|name| self.secret_names.iter().any(|secret| secret == name))
            .filter(|name| secrecy::var(name).is_some())
            .collect()
    }

    /// The variables of templates: mini-swe-agent's, and this machine's properties.
    pub(super) fn template_vars(&self) -> Object {
        let texts = |list: &[String]| list.iter().map(String::as_str).collect::<Value>();
        [
            ("image", Value::from(self.image.as_str())),
            ("cwd", Value::from(self.cwd.as_str())),
            ("env", machine::texts(&self.env)),
            ("forward_env", texts(&self.forward_env)),
            ("timeout", machine::seconds(self.timeout)),
            ("executable", Value::from(self.executable.as_str())),
            ("run_args", texts(&self.run_args)),
            (
                "container_timeout",
                Value::from(self.container_timeout.as_str()),
            ),
            ("pull_timeout", machine::seconds(self.pull_timeout)),
            ("interpreter", texts(&self.interpreter)),
        ]
        .into_iter()
        .chain(machine::variables())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// The container's longest life by `container_timeout`; none if that is not a number with a unit
    /// of `sleep`'s.
    pub(super) fn lifetime(&self) -> Option<Duration> {
        let text = self.container_timeout.trim();
        let (number, unit) = match text.char_indices().next_back()? {
            (at, 's') => (&text[..at], 1.0),
            (at, 'm') => (&text[..at], 60.0),
            (at, 'h') => (&text[..at], 3600.0),
            (at, 'd') => (&text[..at], 86400.0),
            _ => (text, 1.0),
        };
        let number: f64 = number.parse().ok()?;
        Duration::try_from_secs_f64(number * unit).ok()
    }
}

/// Whether `sleep` accepts the text, as a time above zero.
fn is_lifetime(text: &str) -> bool {
    if matches!(text, "infinity" | "inf") {
        return true;
    }
    let number = text.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(text);
    let is_plain = number.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_plain && number.parse::<f64>().is_ok_and(|number| number > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(list: &[&str]) -> Vec<String> {
        list.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn keys_become_arguments() {
        let settings = ContainerSettings {
            run_args: strings(&["--rm", "--gpus", "all"]),
            user: Some("1000:1000".into()),
            network: Some("none".into()),
            memory: Some("1g".into()),
            cpus: Some("1.5".into()),
            mounts: strings(&["/a:/b:ro", "vol:/c", "./d:/d", ".:/e", "~/f:/f"]),
            ..ContainerSettings::default()
        };
        let here = std::env::current_dir().unwrap().display().to_string();
        let home = std::env::var("HOME").unwrap();
        let typed = settings.typed();
        let typed = typed.iter().map(|of| (of.key, of.arg, of.value.as_str()));
        let wanted = [
            ("environment.user", "user", "1000:1000"),
            ("environment.network", "network", "none"),
            ("environment.memory", "memory", "1g"),
            ("environment.cpus", "cpus", "1.5"),
            ("environment.mounts", "volume", "/a:/b:ro"),
            ("environment.mounts", "volume", "vol:/c"),
            ("environment.mounts", "volume", &format!("{here}/d:/d")),
            ("environment.mounts", "volume", &format!("{here}:/e")),
            ("environment.mounts", "volume", &format!("{home}/f:/f")),
        ];
        assert_eq!(typed.collect::<Vec<_>>(), wanted);
        assert_eq!(settings.kept_run_args(), ["--rm", "--gpus", "all"]);
        let kept = ContainerSettings {
            keep: true,
            ..settings
        };
        assert_eq!(kept.kept_run_args(), ["--gpus", "all"]);
    }

    #[test]
    fn settings_that_cannot_work_are_refused_before_an_engine_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display();
        let checked = |text: &str, local: bool| {
            ContainerSettings {
                mounts: strings(&[text]),
                ..ContainerSettings::default()
            }
            .check(local)
        };
        for (text, local, wrong) in [
            (format!("{at}:/w"), true, None),
            (format!("{at}:/w:ro"), true, None),
            (format!("{at}/no:/w"), true, Some("there is no")),
            (format!("{at}/no:/w"), false, None),
            ("~:/w".into(), true, None),
            (
                "~/no/such:/w".into(),
                true,
                Some("/no/such` on this machine"),
            ),
            (".:/w".into(), true, None),
            ("./no-such:/w".into(), true, Some("there is no")),
            ("volume:/w".into(), true, None),
            ("a/b:/w".into(), true, Some("neither a path")),
            ("/etc".into(), true, Some("no target")),
            (":/w".into(), true, Some("source is empty")),
            ("/etc:w".into(), true, Some("`w` is not an absolute path")),
            ("/etc:".into(), true, Some("not an absolute path")),
            ("/etc:/w:ro:x".into(), true, Some("too many parts")),
        ] {
            match (checked(&text, local), wrong) {
                (Ok(()), None) => {}
                (Err(error), Some(wrong)) => {
                    assert!(error.contains(wrong), "{text}: {error}");
                    assert!(error.contains("`environment.mounts`"), "{error}");
                }
                (other, _) => panic!("{text}: {other:?}"),
            }
        }
        for (text, works) in [
            ("2h", true),
            ("0.5s", true),
            ("45", true),
            ("infinity", true),
            ("", false),
            ("h", false),
            ("0", false),
            ("-1", false),
            ("1e3", false),
            ("2 hours", false),
            ("2w", false),
            ("nan", false),
        ] {
            let settings = ContainerSettings {
                container_timeout: text.into(),
                ..ContainerSettings::default()
            };
            assert_eq!(settings.check(true).is_ok(), works, "{text}");
        }
    }

    #[test]
    fn names_hold_what_names_may_hold() {
        for (id, name) in [
            ("18c2-af-0", "mswea-18c2-af-0"),
            ("a/b c:d.é_1", "mswea-a-b-c-d.-_1"),
        ] {
            let settings = ContainerSettings {
                run_id: id.into(),
                ..ContainerSettings::default()
            };
            assert_eq!(settings.container_name(), name);
        }
    }

    #[test]
    fn lifetimes_are_those_of_sleep() {
        for (text, seconds) in [
            ("2h", Some(7200.0)),
            ("30m", Some(1800.0)),
            ("45", Some(45.0)),
            ("0.5s", Some(0.5)),
            ("1d", Some(86400.0)),
            ("infinity", None),
            ("", None),
            ("h", None),
            ("-1", None),
        ] {
            let settings = ContainerSettings {
                container_timeout: text.into(),
                ..ContainerSettings::default()
            };
            let wanted = seconds.map(Duration::from_secs_f64);
            assert_eq!(settings.lifetime(), wanted, "{text}");
        }
    }

    #[test]
    fn configured_variables_win_and_missing_ones_are_absent() {
        secrecy::supply("MSWEA_TEST_FORWARDED", "host");
        secrecy::supply("MSWEA_TEST_BOTH", "host");
        let settings = ContainerSettings {
            run_id: "r".into(),
            env: IndexMap::from([("MSWEA_TEST_BOTH".into(), "config".into())]),
            forward_env: strings(&[
                "PATH",
                "MSWEA_TEST_FORWARDED",
                "MSWEA_TEST_BOTH",
                "MSWEA_TEST_NOT_SET",
            ]),
            ..ContainerSettings::default()
        };
        let mut variables = settings.environment().unwrap();
        variables.retain(|(name, _)| name != "PATH");
        let wanted = [
            ("MSWEA_TEST_FORWARDED", "host"),
            ("MSWEA_TEST_BOTH", "config"),
            (RUN_VARIABLE, "r"),
        ];
        assert_eq!(
            variables,
            wanted.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        let bad = ContainerSettings {
            env: IndexMap::from([("A=B".into(), "x".into())]),
            ..settings
        };
        assert!(bad.environment().unwrap_err().contains("`A=B`"));
    }
}
