//! `view`: shows runs on a page, until a signal ends it.

use std::path::PathBuf;

use mswea_view::{ViewRoots, ViewServer, ViewSettings};

use super::args::ViewArgs;
use super::atif::{secrets, secrets_in_file};
use super::exit::ExitCode;
use super::output::{self, Failure};
use super::sent::sent;
use super::{runs, signals};

/// Serves until SIGINT, SIGTERM or SIGHUP.
pub(super) fn view(args: &ViewArgs) -> Result<ExitCode, Failure> {
    let roots = roots(&args.paths)?;
    let settings = ViewSettings {
        listen: args.listen.clone(),
        secrets: secrets(),
        in_file: secrets_in_file,
        roots,
        sent,
    };
    let runtime = output::runtime()?;
    let done = runtime.block_on(async {
        let stop = signals::stop()?;
        let server = ViewServer::bind(settings).await;
        let server = server.map_err(|error| Failure::usage(error.to_string()))?;
        if server.is_public() {
            output::warning(
                "other machines can reach this page, and everybody in between can read it and its token: \
                 `ssh -L` to the default address is safer",
            );
        }
        output::data(|out| writeln!(out, "{}", server.url()))?;
        server.run(&stop).await;
        Ok(ExitCode::Submitted)
    });
    // A search in many files is not waited for.
    runtime.shutdown_background();
    done
}

/// The folders and files that are searched for runs.
pub(super) fn roots(paths: &[PathBuf]) -> Result<ViewRoots, Failure> {
    if paths.is_empty() {
        return Ok(ViewRoots::Own(runs::journals));
    }
    for path in paths {
        if let Err(error) = path.metadata() {
            let shown = path.display();
            return Err(Failure::usage(format!(
                "can't read `{shown}`: {error}; name a folder with runs in it or below, or the file of a run"
            )));
        }
    }
    let absolute = paths.iter().map(std::path::absolute);
    let absolute = absolute.collect::<Result<_, _>>();
    let absolute = absolute.map_err(|error| Failure::usage(error.to_string()))?;
    Ok(ViewRoots::Paths(absolute))
}
