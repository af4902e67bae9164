//! How a local environment is set up, and what follows from it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::executor::environment::{self, Built, Rules};
use crate::executor::landlock::Sandbox;
use crate::executor::processes::{ACTION_VARIABLE, NESTED, RUN_VARIABLE};
use crate::executor::secrecy;

/// How a local environment is set up.
#[derive(Clone, Debug)]
pub struct LocalSettings {
    /// Where commands start; none means where the host is.
    pub cwd: Option<PathBuf>,
    /// Variables for every command; they win over those of the host.
    pub env: BTreeMap<String, String>,
    /// How long a command may run unless the call says otherwise.
    pub timeout: Duration,
    /// Program and arguments that the command is appended to.
    pub interpreter: Vec<String>,
    /// Variables of the host that commands see besides [`DEFAULT_ENV_ALLOW`]: names, or beginnings
    /// with a trailing `*`. What looks like a secret passes by its whole name only.
    ///
    /// [`DEFAULT_ENV_ALLOW`]: crate::executor::DEFAULT_ENV_ALLOW
    pub env_allow: Vec<String>,
    /// Names of secrets, whatever they look like: they pass by their whole name only as well.
    pub secret_names: Vec<String>,
    /// Whether a value looks like a credential, so that its variable passes by its whole name only;
    /// by default none does.
    pub is_credential: fn(&str) -> bool,
    /// How much of a command's output is kept, half of it from each end.
    pub capture_bytes: usize,
    /// An output whose first line is this is kept whole, with its own line ends: the marker of
    /// a submission.
    pub whole_after: Option<String>,
    /// Marks the processes of the run; unique among all runs of the machine. Empty means that
    /// one is made up.
    pub run_id: String,
    /// How long a background process may keep the pipe open after its command has exited,
    /// before the step goes on without it.
    pub grace: Duration,
    /// The program that has the hidden subcommands ([`guard`](crate::executor::guard::SUBCOMMAND),
    /// [`landlock`](crate::executor::landlock::SUBCOMMAND)), normally the host itself; none means
    /// that nothing cleans up after a host that was killed, and that there is no landlock.
    pub guard_program: Option<PathBuf>,
    /// What keeps commands in, without any other program.
    pub sandbox: Sandbox,
}

impl Default for LocalSettings {
    fn default() -> Self {
        Self {
            cwd: None,
            env: BTreeMap::new(),
            timeout: Duration::from_secs(30),
            interpreter: vec!["/bin/sh".to_owned(), "-c".to_owned()],
            env_allow: Vec::new(),
            secret_names: Vec::new(),
            is_credential: |_| false,
            capture_bytes: 256 * 1024,
            whole_after: None,
            run_id: String::new(),
            grace: Duration::from_millis(200),
            guard_program: None,
            sandbox: Sandbox::default(),
        }
    }
}

/// The commands' environment as far as it is the same for all, or why there is none.
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
    // Set for each action anew.
    configured.remove(ACTION_VARIABLE);
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

/// The value of a mark. A host that is itself a command of another host keeps that one's mark,
/// so that the outer one finds what the inner one leaves behind.
pub(super) fn nested(variable: &str, id: &str) -> String {
    match std::env::var(variable) {
        Ok(outer) if !outer.is_empty() => format!("{outer}{NESTED}{id}"),
        _ => id.to_owned(),
    }
}

/// A run id that no other run of this machine has.
pub(in crate::executor) fn fresh_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{:x}-{count:x}", time.as_nanos(), std::process::id())
}
