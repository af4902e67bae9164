//! Tests of singularity with a recording: a shell script of that name.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::contract::{self, run, text};
use super::*;
use crate::{SingularityExecutor, SingularitySettings};
use mswea_core::StopSource;

/// Writes its arguments to a file, each with a NUL at its end and a line end after the last. Builds
/// a folder, unless it is told to fail; runs the command without a sandbox, but with the variables
/// of `--env` and `SINGULARITYENV_` and, as for `--cleanenv`, few others.
const SCRIPT: &str = r#"#!/bin/bash
log='LOG'
{ printf '%s\0' "$@"; echo; } >>"$log"
verb=
env=()
while [ $# -gt 0 ]; do
  case $1 in
    --version) echo 'apptainer version 1.3.4'; exit 0;;
    build)
      [ "$2" = --sandbox ] || exit 9
      [ -e "$3" ] && { echo 'asks before it overwrites' >&2; exit 9; }
      case $4 in
        fails) echo "no such image: $4" >&2; mkdir "$3"; exit 7;;
        fails-once) if [ ! -e "$log.once" ]; then touch "$log.once"; echo flaky >&2; exit 1; fi;;
        hangs) echo pulling; sleep "$NAP"; exit 1;;
        linked*) mkdir -p "$3"; ln -s "${4#linked }" "$3/.mswea";;
        locked) mkdir -p "$3/locked/in"; touch "$3/locked/in/x"; chmod -R a-w "$3/locked";;
      esac
      mkdir -p "$3/work"
      env >"$3/build-env"
      exit 0;;
    --env) env+=("$2"); shift;;
    --writable) root=$2; shift;;
    --pwd) pwd=$2; shift;;
    bash) break;;
    # The path is one of the image.
    /.mswea/helper) helper=$root$1; shift; set -- "$helper" "$@"; break;;
  esac
  shift
done
cd "$root/$pwd" || exit 255
for name in "${!SINGULARITYENV_@}"; do
  other=APPTAINERENV_${name#SINGULARITYENV_}
  [ "${!other}" = "${!name}" ] || { echo "$name is not $other" >&2; exit 9; }
  env+=("${name#SINGULARITYENV_}=${!name}")
done
exec env -i PATH="$PATH" "${env[@]}" "$@"
"#;

struct Recording {
    folder: tempfile::TempDir,
    settings: SingularitySettings,
}

impl Recording {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("singularity");
        let log = folder.path().join("log");
        // Written by another process: see the guardian's tests.
        let script = SCRIPT.replace("LOG", log.to_str().unwrap());
        let written = std::process::Command::new("sh")
            .args([
                "-c",
                "printf %s \"$1\" >\"$2\" && chmod +x \"$2\"",
                "sh",
                &script,
            ])
            .arg(&program)
            .status();
        assert!(written.unwrap().success());
        let settings = SingularitySettings {
            local: contract::local(),
            image: "docker://image:1".into(),
            cwd: "/work".into(),
            executable: Some(program.to_str().unwrap().to_owned()),
            ..SingularitySettings::default()
        };
        Self { folder, settings }
    }

    /// The arguments of each call.
    fn calls(&self) -> Vec<Vec<String>> {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        log.split_terminator("\0\n")
            .map(|call| call.split('\0').map(str::to_owned).collect())
            .collect()
    }
}

/// The folder into which the last build put the image.
fn target(recording: &Recording) -> PathBuf {
    let calls = recording.calls();
    let build = calls.iter().rev().find(|call| call[0] == "build").unwrap();
    PathBuf::from(&build[2])
}

#[tokio::test]
async fn no_argument_holds_a_value() {
    let mut recording = Recording::new();
    let settings = &mut recording.settings;
    settings.local.run_id = "rec-1".into();
    settings.local.env = [("A", "1"), ("B", "x=1,y=2")]
        .map(|(k, v)| (k.into(), v.into()))
        .into();
    settings.forward_env = vec!["HOME".into(), "NOT_SET_ANYWHERE".into()];
    let mut executor = SingularityExecutor::new(settings.clone());
    executor.start(&context(), None).await.unwrap();
    let parent = target(&recording).parent().unwrap().to_owned();
    let image = target(&recording).to_str().unwrap().to_owned();
    assert_eq!(
        std::fs::metadata(&parent).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let home = std::env::var("HOME").unwrap();
    let wanted = format!("1 x=1,y=2 {home}\n");
    assert_eq!(text(&mut executor, "echo \"$A $B $HOME\"").await, wanted);
    let wanted: [&[&str]; 2] = [
        &["build", "--sandbox", &image, "docker://image:1"],
        &[
            "--quiet",
            "exec",
            "--contain",
            "--cleanenv",
            "--fakeroot",
            "--pwd",
            "/work",
            "--env",
            "MSWEA_RUN_ID=rec-1",
            "--env",
            "MSWEA_ACTION=rec-1.1",
            "--writable",
            &image,
            "bash",
            "-c",
            "echo \"$A $B $HOME\"",
        ],
    ];
    assert_eq!(recording.calls(), wanted);
    executor.cleanup().await;
    assert!(!parent.exists());
    // Another run starts from scratch.
    executor.start(&context(), None).await.unwrap();
    assert_ne!(target(&recording).to_str(), Some(image.as_str()));
    drop(executor);
    assert!(!target(&recording).exists());
}

/// Run as root and as an unprivileged user.
pub(super) async fn everything() {
    let mut recording = Recording::new();
    recording.settings.image = "locked".into();
    let mut executor = SingularityExecutor::new(recording.settings.clone());
    executor.start(&context(), None).await.unwrap();
    contract::all(&mut executor).await;
    // `/` is the image's.
    executor
        .download("/build-env", &recording.folder.path().join("env"))
        .await
        .unwrap();
    // A link to `/etc` leads to the image's, which has no such file.
    text(&mut executor, "ln -s /etc out").await;
    let error = executor
        .download("out/passwd", recording.folder.path())
        .await
        .unwrap_err();
    assert!(error.message.contains("No such file"), "{error}");
    let image = target(&recording);
    contract::cleanup_leaves_nothing(&mut executor).await;
    assert!(!image.parent().unwrap().exists());
}

#[tokio::test]
async fn it_is_the_local_executor_behind_a_program() {
    everything().await;
}

#[tokio::test]
async fn a_build_is_tried_again_in_a_fresh_folder() {
    for (image, retries, builds, error) in [
        ("fails-once", 3, 2, None),
        (
            "fails",
            3,
            3,
            Some(
                "failed 3 times, the last time with exit code 7; its message: no such image: fails",
            ),
        ),
        ("fails", 0, 1, Some("failed 1 times")),
        ("fails-once", 1, 1, Some("its message: flaky")),
        ("", 1, 0, Some("no image is configured")),
    ] {
        let mut recording = Recording::new();
        recording.settings.image = image.into();
        recording.settings.sandbox_build_retries = retries;
        let mut executor = SingularityExecutor::new(recording.settings.clone());
        let started = executor.start(&context(), None).await;
        match (&started, error) {
            (Ok(_), None) => {}
            (Err(found), Some(wanted)) => assert!(found.message.contains(wanted), "{found}"),
            _ => panic!("{image}: {started:?}"),
        }
        let mut folders: Vec<_> = recording
            .calls()
            .iter()
            .map(|call| call[2].clone())
            .collect();
        assert_eq!(folders.len(), builds, "{image}");
        folders.sort();
        folders.dedup();
        assert_eq!(folders.len(), builds, "{image}");
        executor.cleanup().await;
        let parents = folders
            .iter()
            .map(|folder| Path::new(folder).parent().unwrap());
        assert!(parents.clone().all(|folder| !folder.exists()), "{image}");
    }
}

#[tokio::test]
async fn a_build_ends_at_its_limit_and_when_its_caller_is_dropped() {
    for stops in [false, true] {
        let nap = contract::nap();
        let mut recording = Recording::new();
        recording.settings.image = "hangs".into();
        recording.settings.build_timeout = Duration::from_millis(if stops { 60_000 } else { 500 });
        recording
            .settings
            .local
            .env
            .insert("NAP".into(), nap.clone());
        // The build gets the host's environment, without the variables for the inside.
        recording.settings.executable = {
            let program = recording.settings.executable.clone().unwrap();
            let text = std::fs::read_to_string(&program)
                .unwrap()
                .replace("$NAP", &nap);
            let other = recording.folder.path().join("apptainer");
            let written = std::process::Command::new("sh")
                .args([
                    "-c",
                    "printf %s \"$1\" >\"$2\" && chmod +x \"$2\"",
                    "sh",
                    &text,
                ])
                .arg(&other)
                .status();
            assert!(written.unwrap().success());
            Some(other.to_str().unwrap().to_owned())
        };
        let (source, stop) = StopSource::new();
        let context = Context { stop, ..context() };
        let mut executor = SingularityExecutor::new(recording.settings.clone());
        let began = Instant::now();
        let (started, ()) = tokio::join!(executor.start(&context, None), async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            if stops {
                source.stop();
            }
        });
        let error = started.unwrap_err().message;
        assert!(began.elapsed() < Duration::from_secs(4));
        let wanted = if stops {
            "was not finished"
        } else {
            "took longer than 0.5 s"
        };
        assert!(error.contains(wanted), "{error}");
        assert!(stops || error.ends_with("its message: pulling"), "{error}");
        assert_eq!(contract::sleeping(&nap), 0);
        assert!(!target(&recording).parent().unwrap().exists());
    }
}

#[tokio::test]
#[ignore = "a role in another test"]
async fn credentials_body() {
    if !plays("credentials_body") {
        return;
    }
    mswea_secrecy::protect();
    let mut recording = Recording::new();
    recording.settings.executable = None;
    let mut executor = SingularityExecutor::new(recording.settings.clone());
    let error = executor.start(&context(), None).await.unwrap_err().message;
    assert!(
        error.contains("`singularity` or `apptainer` is not installed"),
        "{error}"
    );
    // In the folder that is also in `PATH`, under its other name.
    let folder = PathBuf::from(std::env::var_os("PATH_TO_PROGRAMS").unwrap());
    let program = recording.folder.path().join("singularity");
    std::fs::copy(&program, folder.join("apptainer")).unwrap();
    executor.start(&context(), None).await.unwrap();
    executor
        .download("/build-env", &folder.join("env"))
        .await
        .unwrap();
    let seen = std::fs::read_to_string(folder.join("env")).unwrap();
    for entry in [
        "APPTAINER_DOCKER_PASSWORD=for-the-build",
        "SINGULARITY_CACHEDIR=/big",
    ] {
        assert!(seen.contains(entry), "{seen}");
    }
    assert!(
        !seen.contains("sk-of-the-host") && !seen.contains("MY_TOKEN"),
        "{seen}"
    );
    let seen = text(&mut executor, "env; tr '\\0' '\\n' </proc/$PPID/environ").await;
    assert!(
        !seen.contains("for-the-build") && !seen.contains("sk-of-the-host"),
        "{seen}"
    );
    executor.cleanup().await;
}

#[test]
fn only_a_build_has_the_registrys_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let output = in_its_own_process(module_path!(), "credentials_body")
        .env("PATH", format!("/usr/bin:/bin:{}", folder.path().display()))
        .env("PATH_TO_PROGRAMS", folder.path())
        .env("APPTAINER_DOCKER_PASSWORD", "for-the-build")
        .env("SINGULARITY_CACHEDIR", "/big")
        .env("OPENAI_API_KEY", "sk-of-the-host")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[tokio::test]
async fn an_exit_code_of_the_program_itself_is_an_observation() {
    let mut recording = Recording::new();
    recording.settings.cwd = "/none".into();
    let mut executor = SingularityExecutor::new(recording.settings.clone());
    executor.start(&context(), None).await.unwrap();
    let output = run(&mut executor, "echo x").await;
    assert_eq!(output.returncode, 255, "{}", output.output);
    executor.cleanup().await;
}

#[tokio::test]
async fn commands_may_share_a_shell() {
    let mut recording = Recording::new();
    recording.settings.local.session = true;
    recording.settings.local.env = [("A".into(), "a b".into())].into();
    let mut executor = SingularityExecutor::new(recording.settings.clone());
    executor.start(&context(), None).await.unwrap();
    assert_eq!(text(&mut executor, "echo $A; x=1").await, "a b\n");
    assert_eq!(text(&mut executor, "echo $x").await, "1\n");
    session_ends::exits(&mut executor).await;
    session_ends::lives_on(&mut executor).await;
    interactive::shells(&mut executor).await;
    let folder = target(&recording);
    executor.cleanup().await;
    assert!(!folder.exists());
    // The actions of the shell are not further calls.
    let calls = recording.calls();
    assert!(
        calls[1..]
            .iter()
            .all(|call| call.last().unwrap() == "session" || call.contains(&"bash".into())),
        "{calls:?}"
    );

    // A link that an image has in the helper's place must not lead out of the image.
    let outside = tempfile::tempdir().unwrap();
    recording.settings.image = format!("linked {}", outside.path().display());
    let mut executor = SingularityExecutor::new(recording.settings.clone());
    let error = executor.start(&context(), None).await.unwrap_err();
    assert!(
        error.message.contains("can't be written into"),
        "{}",
        error.message
    );
    assert_eq!(outside.path().read_dir().unwrap().count(), 0);
}

/// With the real program, which `tests/tooling/apptainer.sh` brings.
#[tokio::test]
async fn the_real_program_keeps_the_contract() {
    const NAME: &str = "the_real_program_keeps_the_contract";
    let image = std::env::var("MSWEA_TEST_APPTAINER_IMAGE").map_err(|error| error.to_string());
    if !needs::has("apptainer", NAME, image.clone().map(drop)) {
        return;
    }
    let settings = SingularitySettings {
        local: contract::local(),
        image: image.unwrap(),
        cwd: "/testbed".into(),
        ..SingularitySettings::default()
    };
    let mut executor = SingularityExecutor::new(settings.clone());
    executor.start(&context(), None).await.unwrap();
    contract::all(&mut executor).await;
    interactive::shells(&mut executor).await;
    contract::cleanup_leaves_nothing(&mut executor).await;
    let mut settings = settings;
    settings.local.session = true;
    let mut executor = SingularityExecutor::new(settings);
    executor.start(&context(), None).await.unwrap();
    session::stays(&mut executor).await;
    session_ends::exits(&mut executor).await;
    session_ends::lives_on(&mut executor).await;
    contract::cleanup_leaves_nothing(&mut executor).await;
}
