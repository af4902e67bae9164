//! `runtime serve`: runs commands for runs on other machines, until a signal ends it.

use std::time::Duration;

use mswea_config::is_credential_value;
use mswea_executor::remote::AccessToken;
use mswea_executor::{LocalSettings, Sandbox, SandboxKind};
use mswea_serve::{RuntimeServer, ServeSettings};

use super::args::ServeArgs;
use super::exit::ExitCode;
use super::output::{self, Failure};
use super::signals;

/// Serves until SIGINT, SIGTERM or SIGHUP, and then ends all sessions with their processes.
pub(super) fn serve(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let settings = settings(args)?;
    let runtime = output::runtime()?;
    runtime.block_on(async {
        let stop = signals::stop()?;
        let server = RuntimeServer::bind(settings).await;
        let server = server.map_err(|error| Failure::usage(error.to_string()))?;
        output::data(|out| writeln!(out, "{}", server.url()))?;
        server.run(&stop).await;
        Ok(ExitCode::Submitted)
    })
}

fn settings(args: &ServeArgs) -> Result<ServeSettings, Failure> {
    let kind = match args.landlock {
        true => SandboxKind::Landlock,
        false => SandboxKind::None,
    };
    Ok(ServeSettings {
        listen: args.listen.clone(),
        token: AccessToken::read(&args.token_file).map_err(Failure::usage)?,
        tls: args.tls_cert.clone().zip(args.tls_key.clone()),
        insecure: args.insecure,
        local: LocalSettings {
            cwd: args.cwd.clone(),
            env_allow: args.env_allow.clone(),
            is_credential: is_credential_value,
            guard_program: std::env::current_exe().ok(),
            sandbox: Sandbox {
                kind,
                writable: args.writable.clone(),
                ..Sandbox::default()
            },
            ..LocalSettings::default()
        },
        keep: Duration::from_secs(args.keep_seconds),
        swerex: args.swerex,
        max_sessions: args.max_sessions as usize,
        max_connections: args.max_connections as usize,
    })
}
