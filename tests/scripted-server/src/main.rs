//! Serves a scenario file until it is killed: `scripted-server FILE [--port N] [--record DIR]`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use scripted_server::{Scenario, Server};

const USAGE: &str = "usage: scripted-server FILE [--port N] [--record DIR]

Serves the scenario in FILE as an OpenAI-compatible server on 127.0.0.1, prints its base URL on
one line and runs until it is killed. The README describes the file's format.

  --port N      listens on this port; without it, on a free one
  --record DIR  writes each request to DIR/1.json, DIR/2.json, ...
";

struct Arguments {
    file: PathBuf,
    port: u16,
    record: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1).collect::<Vec<_>>();
    if arguments
        .iter()
        .any(|argument| argument == "--help" || argument == "-h")
    {
        // If stdout is closed, the error can't be reported.
        let _ = io::stdout().write_all(USAGE.as_bytes());
        return ExitCode::SUCCESS;
    }
    let arguments = match parse(arguments) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("error: {problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: Arguments) -> Result<(), String> {
    let scenario = Scenario::from_file(&arguments.file).map_err(|error| error.to_string())?;
    // During a long benchmark, kept requests would fill the memory.
    let mut server = Server::bind(scenario, arguments.port)
        .map_err(|error| format!("can't listen on 127.0.0.1:{}: {error}", arguments.port))?
        .recording(false);
    if let Some(folder) = arguments.record {
        let name = folder.display().to_string();
        server = server
            .record_to(folder)
            .map_err(|error| format!("`{name}` can't be made: {error}"))?;
    }
    let mut stdout = io::stdout();
    writeln!(stdout, "{}", server.url())
        .and_then(|()| stdout.flush())
        .map_err(|error| format!("can't print the URL: {error}"))?;
    loop {
        std::thread::park();
    }
}

fn parse(arguments: Vec<OsString>) -> Result<Arguments, String> {
    let (mut file, mut port, mut record) = (None, 0, None);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let mut value = |name: &str| arguments.next().ok_or(format!("`{name}` needs a value"));
        match argument.to_str() {
            Some("--port") => {
                let text = value("--port")?;
                port = text
                    .to_str()
                    .and_then(|text| text.parse().ok())
                    .ok_or(format!("`{}` is not a port", text.display()))?;
            }
            Some("--record") => record = Some(PathBuf::from(value("--record")?)),
            Some(option) if option.starts_with('-') => {
                return Err(format!("unknown option `{option}`"));
            }
            _ if file.is_some() => return Err("more than one FILE".to_owned()),
            _ => file = Some(PathBuf::from(argument)),
        }
    }
    Ok(Arguments {
        file: file.ok_or("FILE is missing")?,
        port,
        record,
    })
}
