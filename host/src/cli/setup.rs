//! `setup`: asks at a terminal for a provider, its key and a model, tries them, and stores them in
//! the file that every run reads. `setup --try MODEL` only tries a model.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use mswea_config::{Layers, PROVIDERS, ProcessEnvironment, Sources};
use mswea_core::Message;
use mswea_plugin_host::Cache;
use mswea_secrecy as secrecy;
use mswea_session::{Job, Runtime};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};

use super::args::SetupArgs;
use super::doctor::SilentFront;
use super::exit::ExitCode;
use super::output::{self, Failure};
use super::{dotenv, first_steps, front, signals};

/// The variable with the model of runs that name none.
const MODEL: &str = "MSWEA_MODEL_NAME";
const CTRL_C: u8 = 3;
const QUESTION: &str = "This is a test of the connection. Answer with one short line.";

/// Asks, tries, and stores.
pub fn setup(args: &SetupArgs) -> Result<ExitCode, Failure> {
    if let Some(model) = &args.try_model {
        return try_model(model);
    }
    let file = dotenv::path().ok_or_else(|| {
        Failure::usage("there is no place for the settings: set `HOME`".to_owned())
    })?;
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage(format!(
            "`setup` asks at a terminal, and here is none: write lines `OPENAI_API_KEY='...'` and `{MODEL}='openai/gpt-5'` into `{}` (mode 0600), or set these variables",
            file.display()
        )));
    }
    let Some(given) = ask(&file)? else {
        output::note("nothing was changed");
        return Ok(ExitCode::Interrupted);
    };
    output::note("trying it: one short question");
    if let Some((name, value)) = &given.key {
        secrecy::replace(name, value);
    }
    let tried = try_model(&given.model).unwrap_or_else(Failure::report);
    let is_fine = matches!(tried, ExitCode::Submitted);
    if !is_fine && !yes("keep it all the same? [y/N] ")? {
        output::note("nothing was changed");
        return Ok(ExitCode::Failed);
    }
    let mut entries = vec![(MODEL.to_owned(), given.model.clone())];
    entries.extend(given.key);
    keep(&file, &entries)
        .with_context(|| format!("can't write `{}`; nothing was changed", file.display()))?;
    output::note(&format!(
        "kept in `{}`, which only you can read; now `mswea-host -t \"TASK\"` uses `{}`",
        file.display(),
        given.model
    ));
    Ok(ExitCode::Submitted)
}

/// The answers of the user.
struct GivenModel {
    model: String,
    /// The variable and its value; none if the existing key is used.
    key: Option<(String, String)>,
}

/// Asks the user; none at the end of the input.
fn ask(file: &Path) -> Result<Option<GivenModel>, Failure> {
    let is_set = |name: &str| secrecy::var(name).is_some_and(|value| !value.is_empty());
    let known = first_steps::MODELS;
    let mut text = format!(
        "The settings go into `{}`. Which provider?\n",
        file.display()
    );
    for (number, (key, model)) in known.iter().enumerate() {
        let (provider, _) = model.split_once('/').unwrap_or((model, ""));
        let found = if is_set(key) {
            " (its key is there)"
        } else {
            ""
        };
        // Writing into a string does not fail.
        let _ = writeln!(text, "  {}  {provider}{found}", number + 1);
    }
    text.push_str("or another one by its name, for example `groq`");
    output::note(&text);
    let first = known.iter().position(|(key, _)| is_set(key)).unwrap_or(0);
    let (provider, example) = loop {
        let Some(answer) = line(&format!("provider [{}]: ", first + 1))? else {
            return Ok(None);
        };
        let number = match answer.as_str() {
            "" => Some(first + 1),
            answer => answer.parse::<usize>().ok(),
        };
        if let Some((_, model)) = number.and_then(|it| known.get(it.wrapping_sub(1))) {
            let (provider, _) = model.split_once('/').unwrap_or((model, ""));
            break (provider.to_owned(), (*model).to_owned());
        }
        let provider = answer.to_ascii_lowercase();
        if PROVIDERS
            .iter()
            .any(|it| it.prefix == provider && !it.keys.is_empty())
        {
            let of_known = known
                .iter()
                .find(|(_, model)| model.starts_with(&format!("{provider}/")));
            let example = of_known.map_or_else(String::new, |(_, model)| (*model).to_owned());
            break (provider, example);
        }
        let names: Vec<&str> = PROVIDERS
            .iter()
            .filter(|it| !it.keys.is_empty() && it.base_url.is_some())
            .map(|it| it.prefix)
            .collect();
        output::note(&format!(
            "there is no provider `{answer}` with a key; there are {}",
            names.join(", ")
        ));
    };
    let keys = PROVIDERS
        .iter()
        .find(|it| it.prefix == provider)
        .map(|it| it.keys);
    let keys = keys.unwrap_or_default();
    let there = keys.iter().find(|name| is_set(name));
    let name = there.or(keys.first()).copied().unwrap_or_default();
    let question = match there {
        Some(name) => format!("key [`{name}` as it is]: "),
        None => format!("key, for `{name}` (it is not shown): "),
    };
    let key = loop {
        let Some(key) = hidden_line(&question)? else {
            return Ok(None);
        };
        match (key.as_str(), there) {
            ("", Some(_)) => break None,
            ("", None) => output::note("a key is needed; Ctrl-D ends this"),
            _ => break Some((name.to_owned(), key)),
        }
    };
    let model = loop {
        let example = Some(example.as_str()).filter(|it| !it.is_empty() && !it.ends_with("MODEL"));
        let question = match example {
            Some(example) => format!("model [{example}]: "),
            None => format!("model ({provider}/...): "),
        };
        let Some(model) = line(&question)? else {
            return Ok(None);
        };
        match (model.as_str(), example) {
            ("", Some(example)) => break example.to_owned(),
            ("", None) => {}
            (model, _) if model.starts_with(&format!("{provider}/")) => break model.to_owned(),
            (model, _) => break format!("{provider}/{model}"),
        }
    };
    Ok(Some(GivenModel { model, key }))
}

/// Reads a line from the terminal, without the blanks around it; none at the end of the input.
fn line(question: &str) -> Result<Option<String>, Failure> {
    let mut err = io::stderr();
    // If the terminal is gone, the read finds the end of the input.
    let _ = err
        .write_all(question.as_bytes())
        .and_then(|()| err.flush());
    let mut text = String::new();
    let read = io::stdin().lock().read_line(&mut text);
    Ok(match read.context("can't read from the terminal")? {
        0 => None,
        _ => Some(text.trim().to_owned()),
    })
}

/// The same without echo.
fn hidden_line(question: &str) -> Result<Option<String>, Failure> {
    let stdin = io::stdin();
    let before = tcgetattr(&stdin).context("can't hide what is typed")?;
    let mut modes = before.clone();
    // Ctrl-C ends the line; as a signal it would leave the terminal without echo.
    modes.local_modes -= LocalModes::ECHO | LocalModes::ISIG;
    modes.local_modes |= LocalModes::ECHONL;
    modes.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
    tcsetattr(&stdin, OptionalActions::Flush, &modes).context("can't hide what is typed")?;
    let mut err = io::stderr();
    let _ = err
        .write_all(question.as_bytes())
        .and_then(|()| err.flush());
    let mut typed = [0; 4096];
    let read = rustix::io::read(&stdin, &mut typed);
    let _ = tcsetattr(&stdin, OptionalActions::Now, &before);
    let typed = &typed[..read.context("can't read from the terminal")?];
    if typed.is_empty() || typed.contains(&CTRL_C) {
        let _ = err.write_all(b"\n");
        return Ok(None);
    }
    let typed = String::from_utf8_lossy(typed);
    Ok(Some(typed.trim().to_owned()))
}

fn yes(question: &str) -> Result<bool, Failure> {
    let answer = line(question)?.unwrap_or_default();
    Ok(["y", "yes"].contains(&answer.to_ascii_lowercase().as_str()))
}

/// Writes the entries into the file in place of those with the same names. Other lines stay.
fn keep(file: &Path, entries: &[(String, String)]) -> io::Result<()> {
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let old = match mswea_files::read_text(&file, mswea_files::SETTINGS) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let text = replaced(&old, entries);
    let mut new = file.clone().into_os_string();
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .and_then(|()| fs::rename(&new, &file));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

fn replaced(old: &str, entries: &[(String, String)]) -> String {
    let is_replaced = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let name = line.split_once('=').map(|(name, _)| name.trim());
        entries.iter().any(|(entry, _)| name == Some(entry))
    };
    let mut text = String::new();
    for line in old.lines().filter(|line| !is_replaced(line)) {
        text.push_str(line);
        text.push('\n');
    }
    for (name, value) in entries {
        let value = value.replace('\\', "\\\\").replace('\'', "\\'");
        let _ = writeln!(text, "{name}='{value}'");
    }
    text
}

/// Sends a short question to the model.
fn try_model(model: &str) -> Result<ExitCode, Failure> {
    let sources = Sources {
        flags: vec![(
            "model.model_name".to_owned(),
            model.into(),
            "--try".to_owned(),
        )],
        ..Sources::default()
    };
    let usage = |error: mswea_config::ConfigError| Failure::usage(error.to_string());
    let layers = Layers::load(&sources, &ProcessEnvironment).map_err(usage)?;
    let config = layers.resolve().map_err(usage)?;
    first_steps::check(&config)?;
    let folder = tempfile::tempdir().context("can't make a temporary folder")?;
    let tokio = output::runtime()?;
    let runtime = Runtime::new(Cache::of_user());
    let answered = tokio.block_on(async {
        let stop = signals::stop()?;
        let run_id = mswea_session::new_run_id();
        let job = Job {
            layers: Some(&layers),
            ..Job::new(QUESTION, &config, &run_id)
        };
        let journal = folder.path().join("events.jsonl");
        let silent = Arc::new(SilentFront);
        let made = runtime.inquiry(job, &journal, silent, stop).await;
        let mut inquiry = made.map_err(|error| {
            Failure::new(crate::cli::run::setup_code(&error), error.to_string())
        })?;
        let messages = vec![Message::new("user", QUESTION)];
        let reply = inquiry.ask("setup", "trial", messages).await;
        let cost = inquiry.account().known_cost();
        Ok::<_, Failure>((reply, cost))
    });
    tokio.shutdown_background();
    let (reply, cost) = answered?;
    match reply {
        Ok(reply) => {
            let text = reply.message.text();
            let cost = cost.map_or_else(String::new, |cost| {
                format!(" ({})", front::dollars_text(cost))
            });
            output::note(&format!(
                "`{model}` answers{cost}: {}",
                mswea_text::one_line(&text)
            ));
            Ok(ExitCode::Submitted)
        }
        Err(error) => Err(Failure::new(
            ExitCode::Provider,
            format!("`{model}` does not answer: {}", error.message),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn other_lines_stay() {
        let entries = [
            ("K".to_owned(), "a'b\\c".to_owned()),
            (MODEL.to_owned(), "o/m".to_owned()),
        ];
        let old = "# mine\nexport K=1\nOTHER='x'\n K = 2\nMSWEA_MODEL_NAME=a";
        let expected = "# mine\nOTHER='x'\nK='a\\'b\\\\c'\nMSWEA_MODEL_NAME='o/m'\n";
        assert_eq!(replaced(old, &entries), expected);
        assert_eq!(replaced(expected, &entries), expected);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/.env");
        keep(&file, &entries).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        keep(&file, &entries).unwrap();
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }
}
