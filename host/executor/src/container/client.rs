//! An engine used through its command line client: `docker`, `podman`, or a compatible program.

mod exec;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::{sleep, timeout};

use super::api::{listed, state_of};
use super::clear::{Unfinished, made};
use super::daemon::QUICK;
use super::engine::{
    ContainerSpec, ContainerState, Engine, EngineError, EngineErrorKind, Exec, ExecSpec, Image,
    ListedContainer, Tell, TypedArg,
};
use super::errors::{self, Doing, explain};
use super::pull::PullProgress;
use super::run_args;
use super::stream::tap;
use crate::process::{Errors, Feed, Finished, Input, Program};
use mswea_secrecy as secrecy;

/// The time limit of copying an archive.
const COPYING: Duration = Duration::from_secs(600);

/// The command line client that `executable` names.
#[derive(Clone)]
pub(super) struct Client {
    program: Arc<Program>,
    /// The name that the user gave.
    executable: String,
}

impl Client {
    /// The client, if the program exists.
    pub(super) fn find(executable: &str) -> Option<Self> {
        Some(Self {
            program: Arc::new(Program::find(executable)?),
            executable: executable.to_owned(),
        })
    }

    fn is_podman(&self) -> bool {
        self.executable
            .rsplit('/')
            .next()
            .is_some_and(|name| name.contains("podman"))
    }

    fn explain(&self, doing: Doing<'_>, text: &str) -> EngineError {
        explain(doing, &self.executable, text)
    }

    fn broken(&self, error: &io::Error) -> EngineError {
        EngineError {
            kind: EngineErrorKind::Unavailable,
            message: format!(
                "`{}` can't be run: {error}; check `environment.executable`",
                self.executable
            ),
        }
    }

    /// Runs the client to its end, whatever its exit code.
    async fn finish(
        &self,
        doing: Doing<'_>,
        args: &[String],
        limit: Duration,
    ) -> Result<Finished, EngineError> {
        match timeout(limit, self.program.run(args, &[], Feed::Nothing)).await {
            Ok(finished) => finished.map_err(|error| self.broken(&error)),
            Err(_) => Err(errors::timed_out(doing, &self.executable, limit)),
        }
    }

    /// Runs the client, which must succeed.
    async fn output(&self, doing: Doing<'_>, args: &[&str]) -> Result<Vec<u8>, EngineError> {
        let finished = self.finish(doing, &owned(args), QUICK).await?;
        match finished.code {
            0 => Ok(finished.output),
            _ => Err(self.explain(doing, &words(&finished))),
        }
    }

    fn removal(&self, id: &str) -> Vec<String> {
        let mut args = owned(&["rm", "-f", "-v"]);
        if self.is_podman() {
            // Otherwise podman waits ten seconds for a process that ignores SIGTERM, as `sleep`
            // does.
            args.extend(owned(&["-t", "0"]));
        }
        args.push(id.to_owned());
        args
    }

    async fn make(self, spec: ContainerSpec) -> Result<Unfinished, EngineError> {
        let env = passed_on(&run_args::variables(&spec.run_args));
        let mut unfinished = Unfinished::new(Arc::new(self.clone()), &spec);
        let finished = self
            .program
            .run(&run_args_of(&spec), &env, Feed::Nothing)
            .await;
        let failure = match finished {
            Ok(finished) => {
                let output = String::from_utf8_lossy(&finished.output);
                match output.lines().rfind(|line| !line.trim().is_empty()) {
                    Some(id) if finished.code == 0 => {
                        unfinished.has_id(id.trim());
                        return Ok(unfinished);
                    }
                    _ => self.explain(Doing::Making(&spec), &words(&finished)),
                }
            }
            Err(error) => self.broken(&error),
        };
        unfinished.remove(Duration::ZERO).await;
        Err(failure)
    }

    async fn unpack(&self, id: &str, folder: &str, tar: Feed) -> Result<(), EngineError> {
        let doing = Doing::Copying(folder);
        let mut args = owned(&["cp"]);
        if self.is_podman() {
            // Otherwise all files would belong to the container's user.
            args.push("-a=false".to_owned());
        }
        args.extend(["-".to_owned(), format!("{id}:{folder}")]);
        let finished = timeout(COPYING, self.program.run(&args, &[], tar))
            .await
            .map_err(|_| errors::timed_out(doing, &self.executable, COPYING))?;
        let finished = finished.map_err(|error| self.broken(&error))?;
        match finished.code {
            0 => Ok(()),
            _ => Err(self.explain(doing, &words(&finished))),
        }
    }

    async fn inspect(&self, doing: Doing<'_>, ids: &[&str]) -> Result<Vec<Value>, EngineError> {
        let args = [&["inspect", "--type", "container"], ids].concat();
        let finished = self.finish(doing, &owned(&args), QUICK).await?;
        let found: Vec<Value> = serde_json::from_slice(&finished.output).unwrap_or_default();
        // One of several may have been removed in between.
        if found.is_empty()
            && finished.code != 0
            && !(ids.len() > 1 && is_missing(&finished.errors))
        {
            return Err(self.explain(doing, &words(&finished)));
        }
        Ok(found)
    }
}

#[async_trait]
impl Engine for Client {
    async fn describe(&self) -> Result<String, EngineError> {
        let output = self
            .output(Doing::Asking, &["version", "--format", "{{json .}}"])
            .await?;
        let found: Value = serde_json::from_slice(&output).unwrap_or_default();
        let version = found["Server"]["Version"].as_str();
        let version = version.or(found["Client"]["Version"].as_str());
        let name = if self.is_podman() { "podman" } else { "docker" };
        Ok(format!(
            "{name} {} by the command line of `{}`",
            version.unwrap_or("of unknown version"),
            self.executable
        ))
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, EngineError> {
        let doing = Doing::Running(name);
        let args = owned(&["image", "inspect", name]);
        let finished = self.finish(doing, &args, QUICK).await?;
        if finished.code != 0 {
            let error = self.explain(doing, &words(&finished));
            return match error.kind {
                EngineErrorKind::NoImage => Ok(None),
                _ => Err(error),
            };
        }
        let found: Value = serde_json::from_slice(&finished.output).unwrap_or_default();
        let text = |key: &str| found[0][key].as_str().unwrap_or_default().to_owned();
        Ok(Some(Image {
            id: text("Id"),
            architecture: text("Architecture"),
            user: found[0]["Config"]["User"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            os: text("Os"),
        }))
    }

    async fn pull(
        &self,
        name: &str,
        platform: Option<&str>,
        tell: Tell<'_>,
    ) -> Result<(), EngineError> {
        let mut args = owned(&["pull"]);
        args.extend(platform.map(|platform| format!("--platform={platform}")));
        args.push(name.to_owned());
        let started = self
            .program
            .start(&args, &[], Input::Empty, Errors::WithOutput);
        let mut started = started.map_err(|error| self.broken(&error))?;
        let mut lines = BufReader::new(started.output).lines();
        let mut progress = PullProgress::new(tell);
        let mut last = Vec::new();
        while let Ok(Some(line)) = lines.next_line().await {
            progress.line(&line);
            // The error is at the end.
            last.push(line);
            if last.len() > 10 {
                last.remove(0);
            }
        }
        let code = started.process.exited().await;
        match code.map_err(|error| self.broken(&error))? {
            0 => Ok(()),
            _ => {
                let at = last.iter().position(|line| line.starts_with("Error"));
                let text = last.split_off(at.unwrap_or(0)).join("\n");
                Err(self.explain(Doing::Pulling(name), &text))
            }
        }
    }

    async fn run(&self, spec: &ContainerSpec) -> Result<String, EngineError> {
        made(self.clone().make(spec.clone())).await
    }

    async fn unpause(&self, id: &str) -> Result<(), EngineError> {
        self.output(Doing::Using(id), &["unpause", id])
            .await
            .map(drop)
    }

    async fn start(&self, id: &str) -> Result<(), EngineError> {
        self.output(Doing::Using(id), &["start", id])
            .await
            .map(drop)
    }

    async fn state(&self, id: &str) -> Result<ContainerState, EngineError> {
        let found = self.inspect(Doing::Using(id), &[id]).await?;
        Ok(state_of(
            found.first().map_or(&Value::Null, |found| &found["State"]),
        ))
    }

    async fn exec(&self, id: &str, spec: &ExecSpec) -> Result<Exec, EngineError> {
        let (args, env) = exec::arguments(id, spec);
        let input = match spec.stdin {
            true => Input::Pipe,
            false => Input::Empty,
        };
        let started = self
            .program
            .start(&args, &env, input, Errors::WithOutput)
            .map_err(|error| self.broken(&error))?;
        let (tap, watched) = tap();
        let output = exec::ClientOutput {
            pipe: started.output,
            tap,
        };
        let status = exec::wait(
            self.clone(),
            started.process,
            watched,
            id.to_owned(),
            errors::described(spec),
        );
        Ok(Exec {
            output: Box::new(output),
            input: started.input.map(|input| Box::new(input) as _),
            status: Box::pin(status),
        })
    }

    async fn put(&self, id: &str, folder: &str, tar: Bytes) -> Result<(), EngineError> {
        self.unpack(id, folder, Feed::Bytes(tar)).await
    }

    async fn put_file(&self, id: &str, folder: &str, tar: &Path) -> Result<(), EngineError> {
        let open = std::fs::File::open(tar);
        let file = open.map_err(|error| errors::packed(folder, tar, &error))?;
        self.unpack(id, folder, Feed::File(file)).await
    }

    async fn get(&self, id: &str, path: &str, to: &Path) -> Result<(), EngineError> {
        let doing = Doing::Copying(path);
        let args = owned(&["cp", &format!("{id}:{path}"), "-"]);
        let started = self.program.start(&args, &[], Input::Empty, Errors::Apart);
        let mut started = started.map_err(|error| self.broken(&error))?;
        let local = |error| errors::local(path, to, &error);
        let mut file = tokio::fs::File::create(to).await.map_err(local)?;
        let mut said = String::new();
        let said_all = async {
            if let Some(errors) = &mut started.errors {
                let _ = errors.read_to_string(&mut said).await;
            }
            Ok(())
        };
        // A failed copy drops the client's process, which ends it.
        let copying = tokio::io::copy(&mut started.output, &mut file);
        tokio::try_join!(copying, said_all).map_err(local)?;
        file.flush().await.map_err(local)?;
        let code = started.process.exited().await;
        match code.map_err(|error| self.broken(&error))? {
            0 => Ok(()),
            _ => Err(self.explain(doing, &said)),
        }
    }

    async fn list(&self, label: &str) -> Result<Vec<ListedContainer>, EngineError> {
        let filter = format!("label={label}");
        let args = ["ps", "-a", "-q", "--no-trunc", "--filter", &filter];
        let output = errors::steadily(|| self.output(Doing::Asking, &args)).await?;
        let ids = String::from_utf8_lossy(&output);
        let ids: Vec<&str> = ids.split_whitespace().collect();
        let mut all = Vec::new();
        for some in ids.chunks(100) {
            let found = match self.inspect(Doing::Asking, some).await {
                Err(error) if error.kind == EngineErrorKind::ContainerGone => continue,
                found => found?,
            };
            all.extend(
                found
                    .iter()
                    .map(|one| listed(&one["Id"], &one["Name"], &one["Config"]["Labels"])),
            );
        }
        Ok(all)
    }

    async fn remove(&self, id: &str, limit: Duration) -> Result<(), EngineError> {
        let doing = Doing::Removing(id);
        let started = std::time::Instant::now();
        loop {
            let left = limit.saturating_sub(started.elapsed());
            let finished = match self.finish(doing, &self.removal(id), left).await {
                // The message names the whole time limit, not the rest of it.
                Err(error) if error.kind == EngineErrorKind::TimedOut => {
                    return Err(errors::timed_out(doing, &self.executable, limit));
                }
                finished => finished?,
            };
            if finished.code == 0 || is_missing(&finished.errors) {
                return Ok(());
            }
            if !finished.errors.contains("already in progress") {
                return Err(self.explain(doing, &words(&finished)));
            }
            // `--rm` is removing the container, which takes a moment.
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn owned(args: &[&str]) -> Vec<String> {
    args.iter().map(|&arg| arg.to_owned()).collect()
}

/// The client's message, from either stream.
fn words(finished: &Finished) -> String {
    if finished.errors.is_empty() {
        let output = String::from_utf8_lossy(&finished.output);
        return format!("{} (exit code {})", output.trim(), finished.code);
    }
    finished.errors.clone()
}

fn is_missing(errors: &str) -> bool {
    let errors = errors.to_lowercase();
    errors.contains("no such container") || errors.contains("no container with ")
}

/// The values of the host's variables that arguments pass by name.
fn passed_on(names: &[&str]) -> Vec<(String, String)> {
    names
        .iter()
        .filter_map(|&name| Some((name.to_owned(), secrecy::var(name)?)))
        .collect()
}

/// The arguments that make a container. Those of the user come last, so that they take precedence.
fn run_args_of(spec: &ContainerSpec) -> Vec<String> {
    let mut args = owned(&["run", "-d", "--name", &spec.name, "-w", &spec.cwd]);
    for (key, value) in &spec.labels {
        args.extend(["--label".to_owned(), format!("{key}={value}")]);
    }
    if let Some(platform) = &spec.platform {
        args.extend(["--platform".to_owned(), platform.clone()]);
    }
    args.extend(spec.run_args.iter().cloned());
    for TypedArg { arg, value, .. } in &spec.typed {
        args.push(format!("--{arg}={value}"));
    }
    args.push(spec.image.clone());
    args.extend(spec.command.iter().cloned());
    args
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn arguments_stand_in_the_order_that_people_know() {
        let spec = ContainerSpec {
            name: "n".to_owned(),
            image: "i".to_owned(),
            command: owned(&["sleep", "2h"]),
            cwd: "/w".to_owned(),
            labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
            run_args: owned(&["--rm", "--net=none"]),
            platform: Some("linux/arm64".to_owned()),
            typed: vec![TypedArg {
                key: "environment.user",
                arg: "user",
                value: "u".to_owned(),
            }],
        };
        let wanted = "run -d --name n -w /w --label a=b --platform linux/arm64 --rm --net=none --user=u i sleep 2h";
        assert_eq!(run_args_of(&spec).join(" "), wanted);
    }
}
