//! Flags of the commands that look after the machine rather than run a task.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Flags of `gc`.
#[derive(Clone, Debug, Default, Args)]
pub struct GcArgs {
    /// Only tell what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Only what this run has left behind
    #[arg(long, value_name = "ID")]
    pub run: Option<String>,
    /// Look for containers with this program too, as `environment.executable`; repeatable
    #[arg(long = "docker", value_name = "EXE")]
    pub docker: Vec<String>,
}

/// Flags of `setup`.
#[derive(Clone, Debug, Default, Args)]
pub struct SetupArgs {
    /// Ask nothing, only send a short question to this model
    #[arg(long = "try", value_name = "MODEL")]
    pub try_model: Option<String>,
}

/// Flags of `doctor`.
#[derive(Clone, Debug, Default, Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Check also the server at this URL, as `environment.url` of the class `remote`
    #[arg(long, value_name = "URL", requires = "token_file")]
    pub url: Option<String>,
    /// It is a server of SWE-ReX, for the class `swerex`
    #[arg(long, requires = "url")]
    pub swerex: bool,
    /// The file with its token
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "url")]
    pub token_file: Option<PathBuf>,
    /// The certificate that it has or that has signed its own; by default the system's authorities
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "url")]
    pub ca_file: Option<PathBuf>,
}

/// The commands about this installation.
#[derive(Clone, Debug, Subcommand)]
pub enum SelfCommand {
    /// Check the program, its plugins, the machine and the keys; no network is needed
    #[command(
        after_help = "Exit code: 0 if tasks can be run, 7 if a plugin inside is broken, 6 if commands can't \
        be run, 1 if runs can't be recorded. A missing key is no error; `setup --try MODEL` tries one."
    )]
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The commands about runs that work on another machine.
#[derive(Clone, Debug, Subcommand)]
pub enum RuntimeCommand {
    /// Run commands for runs on other machines, whose environment class is `remote`
    #[command(after_help = SERVE)]
    Serve(ServeArgs),
}

/// The help of `runtime serve`.
const SERVE: &str = "\
The first line of the output is the URL. Every request has to show the token. Whoever has it can
run any command as the user of this server, and commands can read this user's files, also the token.

Each client has sessions of its own. A client takes up a lost connection again, and no command is
run twice. A session whose client says nothing for `--keep-seconds` is ended with all its
processes; so are all sessions when the server ends.

Example:
  (umask 077; openssl rand -hex 32 > token)
  mswea-host runtime serve --listen 0.0.0.0:8443 --token-file token \\
    --tls-cert cert.pem --tls-key key.pem

and on the other machine:
  mswea-host -m openai/gpt-5 -c environment.environment_class=remote \\
    -c environment.url=https://HOST:8443 -c environment.token_file=token \\
    -c environment.ca_file=cert.pem -t \"...\"";

/// Flags of `runtime serve`.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Address and port; port 0 is any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: String,
    /// File with the token, which only its owner may read
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: PathBuf,
    /// File with the certificates (PEM), the server's own first
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// File with the certificate's key (PEM)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Serve other machines without TLS: everybody in between can read the token and the commands
    #[arg(long)]
    pub insecure: bool,
    /// Serve also clients of SWE-ReX, as SWE-agent's deployment `remote`: their `auth_token` is the token
    #[arg(long)]
    pub swerex: bool,
    /// End a session whose client has said nothing for this long, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub keep_seconds: u64,
    /// The most sessions at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_sessions: u32,
    /// The most connections at once; a session uses two
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: u32,
    /// Folder in which commands start; by default the current one
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
    /// Variables of this process that commands see, as `environment.env_allow`; repeatable
    #[arg(long, value_name = "NAME")]
    pub env_allow: Vec<String>,
    /// Let commands write only in the folder in which they start, and in temporary folders, as
    /// `environment.sandbox=landlock`
    #[arg(long)]
    pub landlock: bool,
    /// With `--landlock`: a further folder in which commands may write; repeatable
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "landlock")]
    pub writable: Vec<PathBuf>,
}
