use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;

use rustix::fs::mknodat;

use super::*;

/// A folder `in` with files of every kind, and a file outside of it.
fn ground() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir_all(at("in/sub/deep")).unwrap();
    fs::write(at("in/sub/file"), b"a\0\xff\r\n").unwrap();
    fs::write(at("secret"), "secret").unwrap();
    for (target, link) in [
        ("sub", "fine"),
        ("sub/file", "also"),
        ("../secret", "out"),
        ("..", "up"),
        ("/", "slash"),
        ("/proc/self/root", "magic"),
        ("sub/new", "dangling"),
        ("../new", "leaving"),
        ("loop", "loop"),
    ] {
        symlink(target, at("in").join(link)).unwrap();
    }
    mknodat(CWD, at("in/pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    root
}

#[test]
fn what_is_read_is_below_the_folder() {
    let root = ground();
    let secret = root.path().join("secret").display().to_string();
    for path in [
        "sub/file",
        "/sub/file",
        "sub/../sub/./file",
        "fine/file",
        "also",
    ] {
        let files = PlaceFiles::below(&root.path().join("in")).unwrap();
        let mut text = Vec::new();
        let mut file = files.read(Path::new(path)).unwrap();
        file.read_to_end(&mut text).unwrap();
        assert_eq!(text, b"a\0\xff\r\n", "{path}");
    }
    let files = PlaceFiles::below(&root.path().join("in")).unwrap();
    for (path, wanted) in [
        ("../secret", Errno::XDEV),
        ("sub/../../secret", Errno::XDEV),
        ("out", Errno::XDEV),
        ("up/secret", Errno::XDEV),
        ("slash/etc/passwd", Errno::XDEV),
        ("magic/etc/passwd", Errno::XDEV),
        (&secret, Errno::NOENT),
        ("none", Errno::NOENT),
        ("none/x", Errno::NOENT),
        ("dangling", Errno::NOENT),
        ("loop", Errno::LOOP),
        ("sub", Errno::ISDIR),
        ("", Errno::ISDIR),
        ("sub/file/x", Errno::NOTDIR),
    ] {
        let error = files.read(Path::new(path)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(wanted.raw_os_error()), "{path}");
    }
    for files in [files, PlaceFiles::all()] {
        let path = root.path().join("in/pipe");
        let path = match files.is_bounded() {
            true => Path::new("pipe"),
            false => &path,
        };
        for opened in [files.read(path), files.create(path)] {
            let error = opened.unwrap_err();
            let is_other = error.kind() == io::ErrorKind::InvalidInput
                || error.raw_os_error() == Some(Errno::NXIO.raw_os_error());
            assert!(is_other, "{error}");
        }
    }
}

#[test]
fn what_is_written_is_below_the_folder() {
    let root = ground();
    let files = PlaceFiles::below(&root.path().join("in")).unwrap();
    for path in ["new", "fine/other", "dangling", "sub/file"] {
        let mut file = files.create(Path::new(path)).unwrap();
        file.write_all(b"x").unwrap();
        let found = files.facts(Path::new(path)).unwrap();
        assert_eq!((found.kind, found.size), (FileKind::File, 1), "{path}");
    }
    assert!(root.path().join("in/sub/new").exists());
    for path in ["../a", "up/a", "leaving", "slash/a", "out", "sub"] {
        assert!(files.create(Path::new(path)).is_err(), "{path}");
    }
    for path in ["a/b/c", "fine/d", "a/b/../e", "", "/f/"] {
        files.make_folder(Path::new(path)).unwrap();
        let found = files.facts(Path::new(path)).unwrap();
        assert_eq!(found.kind, FileKind::Folder, "{path}");
    }
    for path in [
        "../a",
        "up/a/b",
        "leaving/x",
        "slash/x",
        "sub/file/x",
        "n/../../x",
        "out",
    ] {
        assert!(files.make_folder(Path::new(path)).is_err(), "{path}");
    }
    let outside: Vec<_> = fs::read_dir(root.path()).unwrap().flatten().collect();
    assert_eq!(outside.len(), 2, "{outside:?}");
    assert_eq!(fs::read(root.path().join("secret")).unwrap(), b"secret");
}

#[test]
fn folders_are_listed() {
    let root = ground();
    let files = PlaceFiles::below(&root.path().join("in")).unwrap();
    let found = files.list(Path::new("")).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|(name, kind)| format!("{} {}", kind.letter(), name.display()))
        .collect();
    let wanted =
        "l also,l dangling,l fine,l leaving,l loop,l magic,l out,o pipe,l slash,d sub,l up";
    assert_eq!(found.join(","), wanted);
    for path in ["up", "slash", "sub/file", "none"] {
        assert!(files.list(Path::new(path)).is_err(), "{path}");
    }
    for kind in [
        FileKind::File,
        FileKind::Folder,
        FileKind::Link,
        FileKind::Other,
    ] {
        let letter = kind.letter().to_string();
        assert_eq!(FileKind::of_letter(&letter), Some(kind));
    }
}

/// As on a kernel without `openat2`.
#[test]
fn without_the_kernels_help_no_link_is_followed() {
    let root = ground();
    let files = PlaceFiles::below(&root.path().join("in")).unwrap();
    let folder = files.0.as_ref().unwrap().folder.as_fd();
    let open = |path: &str| by_parts(folder, Path::new(path), OFlags::RDONLY, Mode::empty());
    for path in ["sub/file", "./sub/./file", "", "sub"] {
        assert!(open(path).is_ok(), "{path}");
    }
    for (path, wanted) in [
        ("../secret", Errno::XDEV),
        ("/secret", Errno::XDEV),
        ("sub/../sub/file", Errno::XDEV),
        ("fine/file", Errno::NOTDIR),
        ("also", Errno::LOOP),
        ("out", Errno::LOOP),
        ("none", Errno::NOENT),
    ] {
        assert_eq!(open(path).unwrap_err(), wanted, "{path}");
    }
}

/// A command can put a link in the place of a folder at any time.
#[test]
fn links_that_come_and_go_lead_nowhere() {
    let root = ground();
    let at = |path: &str| root.path().join(path);
    fs::create_dir(at("in/race")).unwrap();
    fs::write(at("in/race/secret"), "mine").unwrap();
    let files = PlaceFiles::below(&at("in")).unwrap();
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                fs::rename(at("in/race"), at("in/aside")).unwrap();
                symlink("..", at("in/race")).unwrap();
                fs::remove_file(at("in/race")).unwrap();
                fs::rename(at("in/aside"), at("in/race")).unwrap();
            }
        });
        let mut seen = 0;
        for _ in 0..20_000 {
            if let Ok(mut file) = files.read(Path::new("race/secret")) {
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                assert_eq!(text, "mine");
                seen += 1;
            }
        }
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(seen > 0);
    });
}
