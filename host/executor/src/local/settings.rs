//! The settings of a local environment, and values that follow from them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::environment::{self, Built, Rules};
use crate::sandbox::Sandbox;
use indexmap::IndexMap;
use mswea_helper::processes::{ACTION_VARIABLE, NESTED, RUN_VARIABLE};
use mswea_secrecy as secrecy;

/// The settings of a local environment.
#[derive(Clone, Debug)]
pub struct LocalSettings {
    /// The working directory of commands; none: the host's.
    pub cwd: Option<PathBuf>,
    /// Variables for every command; they take precedence over those of the host.
    pub env: IndexMap<String, String>,
    /// The default time limit of a command.
    pub timeout: Duration,
    /// Program and arguments to which the command is appended.
    pub interpreter: Vec<String>,
    /// Whether all actions run in one bash.
    pub session: bool,
    /// Whether that bash has a terminal.
    pub pty: bool,
    /// Variables of the host that commands get in addition to [`DEFAULT_ENV_ALLOW`]: names, or
    /// prefixes with a trailing `*`. A variable that looks like a secret is passed only by its
    /// whole name.
    ///
    /// [`DEFAULT_ENV_ALLOW`]: crate::DEFAULT_ENV_ALLOW
    pub env_allow: Vec<String>,
    /// Names of secrets, which are also passed only by their whole names.
    pub secret_names: Vec<String>,
    /// Whether a value looks like a credential, so that its variable is passed only by its whole
    /// name; by default none does.
    pub is_credential: fn(&str) -> bool,
    /// The most bytes of a command's output that are kept, half of them from each end.
    pub capture_bytes: usize,
    /// An output whose first line is this is kept whole, with its own line ends: the marker of a
    /// submission.
    pub whole_after: Option<String>,
    /// Marks the processes of the run; unique among all runs of the machine. Empty: one is
    /// generated.
    pub run_id: String,
    /// How long a background process may hold the pipe open after its command has exited, before
    /// the action ends without it.
    pub grace: Duration,
    /// The program that has the hidden subcommands ([`guard`](crate::guard::SUBCOMMAND),
    /// [`landlock`](crate::landlock::SUBCOMMAND)), usually the host itself; none: nothing cleans up
    /// after a host that was killed, and there is no Landlock sandbox.
    pub guard_program: Option<PathBuf>,
    /// The sandbox, if it needs no other program.
    pub sandbox: Sandbox,
    /// Variables that only the interpreter gets, which must be a shell: by a descriptor, and not in its
    /// environment, which every process of the same user can read. It does not export them.
    pub keys: BTreeMap<String, String>,
}

impl Default for LocalSettings {
    fn default() -> Self {
        Self {
            cwd: None,
            env: IndexMap::new(),
            timeout: Duration::from_secs(30),
            interpreter: vec!["/bin/sh".to_owned(), "-c".to_owned()],
            session: false,
            pty: false,
            env_allow: Vec::new(),
            secret_names: Vec::new(),
            is_credential: |_| false,
            capture_bytes: crate::CAPTURE_BYTES,
            whole_after: None,
            run_id: String::new(),
            grace: Duration::from_millis(200),
            guard_program: None,
            sandbox: Sandbox::default(),
            keys: BTreeMap::new(),
        }
    }
}

/// The part of the environment that all commands share, or why it can't be made.
pub(super) fn base_environment(settings: &LocalSettings) -> Result<Built, String> {
    let id = &settings.run_id;
    if !id.bytes().all(|byte| byte.is_ascii_graphic()) || id.contains(NESTED) {
        return Err(format!(
            "run id `{}` has characters that are no printable ASCII, or `{NESTED}`: use letters and digits",
            id.escape_debug()
        ));
    }
    let mut configured = settings.env.clone();
    configured.insert(RUN_VARIABLE.to_owned(), nested(RUN_VARIABLE, id));
    // Set anew for each action.
    configured.shift_remove(ACTION_VARIABLE);
    let allow: Vec<String> = settings
        .env_allow
        .iter()
        .filter(|name| *name != ACTION_VARIABLE)
        .cloned()
        .collect();
    let inherited = secrecy::vars()
        .into_iter()
        .filter(|(name, _)| name != ACTION_VARIABLE);
    let rules = Rules {
        allow: &allow,
        secrets: &settings.secret_names,
        is_credential: settings.is_credential,
    };
    environment::build(inherited, rules, &configured).map_err(|error| error.to_string())
}

/// The value of a mark. A host that is itself a command of another host keeps that host's mark, so
/// that the outer one finds what the inner one leaves behind.
pub(super) fn nested(variable: &str, id: &str) -> String {
    match std::env::var(variable) {
        Ok(outer) if !outer.is_empty() => format!("{outer}{NESTED}{id}"),
        _ => id.to_owned(),
    }
}

/// A run id that no other run of this machine has.
pub(crate) fn fresh_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{:x}-{count:x}", time.as_nanos(), std::process::id())
}
