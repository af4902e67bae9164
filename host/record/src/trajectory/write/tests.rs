//! The places of trajectories: what is replaced, what is kept, and what is never followed.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::*;

#[test]
fn is_written_whole_with_usual_permissions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/er/x.traj.json");
    drop([Target::of(&path).unwrap(), Target::begun(&path).unwrap()]);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    write(&path, &json!({"a": 1})).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\n  \"a\": 1\n}");
    let plain = folder.path().join("plain");
    fs::write(&plain, "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&path), mode(&plain));
    let before = fs::metadata(&path).unwrap().ino();
    write(&path, &json!([])).unwrap();
    assert_ne!(
        fs::metadata(&path).unwrap().ino(),
        before,
        "replaced, not overwritten"
    );
    assert_eq!(
        fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1,
        "nothing left"
    );

    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    write(&link, &json!(2)).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&path).unwrap(), "2");
}

#[test]
fn devices_stay_devices() {
    write(Path::new("/dev/null"), &json!({})).unwrap();
    assert!(Target::of(Path::new("/dev/null")).unwrap().is_stream());
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    let error = write(Path::new("/dev/full"), &json!({}))
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("; free some space"), "{error}");
}

#[test]
fn unwritable_places_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for (path, remedy) in [
        (
            file.join("x.traj.json"),
            "a part of its path is a file; choose another output",
        ),
        (folder.path().to_owned(), "name a file, not a folder"),
        (folder.path().join("new/"), "name a file, not a folder"),
        (folder.path().join(".."), "name a file, not a folder"),
        (
            "/proc/nope/x.traj.json".into(),
            "choose an output that you may write to (`-o FILE`)",
        ),
    ] {
        for error in [
            write(&path, &json!({})).unwrap_err(),
            Target::of(&path).unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(
                text.starts_with(&format!(
                    "can't write the trajectory `{}`: ",
                    path.display()
                )),
                "{text}"
            );
            assert!(text.ends_with(remedy), "{text}");
        }
    }
}

/// A pipe or a link that a command puts in the place of a trajectory is neither waited for nor
/// followed.
#[test]
fn what_appears_in_its_place_is_replaced() {
    replaces(Target::of);
    replaces(Target::begun);
}

fn replaces(begin: fn(&Path) -> Result<Target, TrajectoryError>) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("precious"), "kept").unwrap();
    let target = begin(&at("deep/x.traj.json")).unwrap();
    for what in ["pipe", "link", "nothing", "no folder"] {
        let path = at("deep/x.traj.json");
        let _ = fs::remove_file(&path);
        match what {
            "pipe" => {
                let made = std::process::Command::new("mkfifo").arg(&path).status();
                assert!(made.unwrap().success());
            }
            "link" => std::os::unix::fs::symlink(at("precious"), &path).unwrap(),
            "no folder" => fs::remove_dir(at("deep")).unwrap(),
            _ => {}
        }
        target.write(&json!(what)).unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_file(), "{what}");
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("\"{what}\""));
    }
    assert_eq!(fs::read_to_string(at("precious")).unwrap(), "kept");
    fs::remove_file(at("deep/x.traj.json")).unwrap();
    fs::create_dir(at("deep/x.traj.json")).unwrap();
    target.write(&json!(1)).unwrap_err();
    assert_eq!(fs::read_dir(at("deep")).unwrap().count(), 1, "nothing left");
}

/// Another host that is refused for the same output has made and removed a file of the same name.
#[test]
fn a_first_file_that_is_gone_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.traj.json");
    for is_replaced in [false, true] {
        let target = Target::begun(&path).unwrap();
        let other = Target::begun(&path).unwrap();
        if !is_replaced {
            other.forget();
        }
        target.write(&json!(is_replaced)).unwrap();
        drop((target, other));
        assert_eq!(fs::read_to_string(&path).unwrap(), is_replaced.to_string());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

/// A pipe that was named from the start is one that somebody wants to read.
#[test]
fn a_pipe_of_the_users_is_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let target = Target::of(&path).unwrap();
    assert!(target.is_stream());
    let reader = thread::spawn({
        let path = path.clone();
        move || fs::read_to_string(path).unwrap()
    });
    target.write(&json!([1])).unwrap();
    assert_eq!(reader.join().unwrap(), "[\n  1\n]");
    // The writer does not wait for ever for a reader.
    let error = target.write(&json!([1])).unwrap_err().to_string();
    assert!(error.contains("nothing reads there"), "{error}");
}

/// Also where `/dev/stdout` leads to no path, as that of a pipe does not.
#[test]
fn nothing_is_made_or_replaced_among_devices() {
    use std::os::fd::AsRawFd;
    let (reader, writer) = io::pipe().unwrap();
    for form in ["/dev/fd/", "/proc/self/fd/"] {
        let path = PathBuf::from(format!("{form}{}", writer.as_raw_fd()));
        // Only what can't be written at all could be replaced by mistake here: a name of procfs.
        let target = Target::of(&path).unwrap();
        assert!(target.is_stream());
        target.write(&json!(form)).unwrap();
    }
    drop(writer);
    let text = io::read_to_string(reader).unwrap();
    assert_eq!(text, "\"/dev/fd/\"\"/proc/self/fd/\"");
    for new in ["/dev/mswea-no-such-device", "/proc/self/fd/999999"] {
        Target::of(Path::new(new)).unwrap_err();
        assert!(fs::symlink_metadata(new).is_err(), "{new}");
    }
    // A plain file that is somebody's stdout keeps what is in it.
    let folder = tempfile::tempdir().unwrap();
    let mut file = File::create(folder.path().join("out")).unwrap();
    file.write_all(b"patch").unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let target = Target::of(&path).unwrap();
    assert!(target.is_stream());
    target.write(&json!(1)).unwrap();
    assert_eq!(
        fs::read_to_string(folder.path().join("out")).unwrap(),
        "patch1"
    );
}
