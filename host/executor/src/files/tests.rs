use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let wanted = Arc::new(());
    let at = |path: &Path| PlacedPath::here(path.to_owned());
    copy_any(&at(from), &at(to), &Arc::downgrade(&wanted)).map(drop)
}

/// In a folder of this machine as in an archive.
#[test]
fn files_without_content_are_named() {
    let root = tempfile::tempdir().unwrap();
    let from = root.path().canonicalize().unwrap().join("a");
    fs::create_dir_all(from.join("in")).unwrap();
    fs::write(from.join("in/file"), "x").unwrap();
    for pipe in 1..=7 {
        let pipe = from.join(format!("in/pipe\x1b{pipe}"));
        rustix::fs::mkfifoat(rustix::fs::CWD, pipe, Mode::from_raw_mode(0o600)).unwrap();
    }
    let wanted = Arc::new(());
    let at = |path: PathBuf| PlacedPath::here(path);
    let places = (at(from.clone()), at(root.path().join("b")));
    let copied = copy_any(&places.0, &places.1, &Arc::downgrade(&wanted)).unwrap();
    let mut archive = tar::Builder::new(io::sink());
    let packed = mswea_helper::archive::pack(&mut archive, &from, Path::new("a"), (0, 0)).unwrap();
    for left_out in [copied, packed] {
        let line = left_out.line().unwrap();
        assert!(line.ends_with(" and 2 more"), "{line}");
        let named = format!("\"{}/in/pipe\\u{{1b}}", from.display());
        assert_eq!(line.matches(&named).count(), 5, "{line}");
    }
    assert!(LeftOut::default().line().is_none());
}

#[test]
fn a_pipe_whose_path_is_too_long_is_left_out() {
    let root = tempfile::tempdir().unwrap();
    let from = root.path().join("a");
    fs::create_dir(&from).unwrap();
    let mut folder = File::open(&from).unwrap();
    let name = "x".repeat(250);
    for _ in 0..20 {
        rustix::fs::mkdirat(&folder, &name, Mode::from_raw_mode(0o700)).unwrap();
        let flags = OFlags::DIRECTORY;
        folder = rustix::fs::openat(&folder, &name, flags, Mode::empty())
            .unwrap()
            .into();
    }
    rustix::fs::mkfifoat(&folder, "pipe", Mode::from_raw_mode(0o600)).unwrap();
    let (from, to) = (
        PlacedPath::here(from),
        PlacedPath::here(root.path().join("b")),
    );
    let wanted = Arc::new(());
    let left_out = copy_any(&from, &to, &Arc::downgrade(&wanted)).unwrap();
    assert!(left_out.line().unwrap().ends_with(": \"pipe\""));
}

#[test]
fn copies_files_folders_and_links() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir_all(at("a/b/empty")).unwrap();
    fs::write(at("a/b/x"), "x").unwrap();
    symlink("b/x", at("a/link")).unwrap();

    copy(&at("a"), &at("new/place")).unwrap();
    assert_eq!(fs::read_to_string(at("new/place/b/x")).unwrap(), "x");
    assert_eq!(
        fs::read_link(at("new/place/link")).unwrap(),
        Path::new("b/x")
    );
    assert!(at("new/place/b/empty").is_dir());

    fs::write(at("a/b/x"), "y").unwrap();
    copy(&at("a"), &at("new/place")).unwrap();
    assert_eq!(fs::read_to_string(at("new/place/link")).unwrap(), "y");

    copy(&at("a/b/x"), &at("new")).unwrap();
    assert_eq!(fs::read_to_string(at("new/x")).unwrap(), "y");
    copy(&at("a/b/x"), &at("a/b/x")).unwrap();
    assert_eq!(fs::read_to_string(at("a/b/x")).unwrap(), "y");

    assert!(copy(&at("a"), &at("a/b/inside")).is_err());
    assert!(copy(&at("missing"), &at("z")).is_err());
}

#[test]
fn permissions_are_copied_but_for_those_of_the_owner() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    let set = |path: &str, mode: u32| {
        fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |path: &str| fs::metadata(at(path)).unwrap().permissions().mode() & 0o7777;
    fs::create_dir_all(at("a/closed")).unwrap();
    fs::create_dir_all(at("a/open")).unwrap();
    for (name, wanted) in [("private", 0o600), ("setuid", 0o4755), ("fixed", 0o444)] {
        fs::write(at(&format!("a/{name}")), "x").unwrap();
        set(&format!("a/{name}"), wanted);
    }
    set("a/closed", 0o500);
    set("a/open", 0o1777);
    // A folder that all may read exists already.
    fs::create_dir(at("b")).unwrap();
    fs::write(at("b/private"), "longer").unwrap();
    set("b/private", 0o644);
    copy(&at("a"), &at("b")).unwrap();
    copy(&at("a/setuid"), &at("c/setuid")).unwrap();
    copy(&at("a/private"), &at("c/private")).unwrap();
    copy(&at("a/fixed"), &at("c/fixed")).unwrap();
    for (path, wanted) in [
        ("b/private", 0o600),
        ("b/setuid", 0o755),
        ("b/fixed", 0o444),
        ("b/closed", 0o500),
        ("b/open", 0o1777),
        ("c/private", 0o600),
        ("c/setuid", 0o755),
        ("c/fixed", 0o444),
    ] {
        assert_eq!(mode(path), wanted, "{path}");
    }
    assert_eq!(fs::read_to_string(at("b/private")).unwrap(), "x");
    assert_eq!(fs::read_to_string(at("c/fixed")).unwrap(), "x");
}

#[test]
fn a_new_file_never_has_more_permissions() {
    let root = tempfile::tempdir().unwrap();
    let to = PlacedPath::here(root.path().join("x"));
    let file = create(&to, root.path(), &to.path, 0o4600).unwrap();
    assert_eq!(mode_of(&file).unwrap(), 0o600);
}

#[test]
fn folders_that_are_too_deep_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let deep = root.path().join("a").join("d/".repeat(DEEPEST + 1));
    fs::create_dir_all(deep).unwrap();
    let error = copy(&root.path().join("a"), &root.path().join("b")).unwrap_err();
    assert!(error.to_string().contains("deep"), "{error}");
}

#[test]
fn a_copy_without_a_caller_stops() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("a/b")).unwrap();
    fs::write(root.path().join("a/b/x"), "x").unwrap();
    let to = root.path().join("new");
    let error = copy_any(
        &PlacedPath::here(root.path().join("a")),
        &PlacedPath::here(to.clone()),
        &Weak::new(),
    )
    .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    assert!(!to.join("b").exists());
}

fn into_image(from: &Path, root: &Path, to: &str) -> Result<(), String> {
    let wanted = Arc::new(());
    let to = PlacedPath::in_image(root, Path::new("/work"), to).map_err(|error| error.message)?;
    let copied = copy_any(
        &PlacedPath::here(from.to_owned()),
        &to,
        &Arc::downgrade(&wanted),
    );
    copied
        .map(drop)
        .map_err(|error| to.failed(&error, "failed").message)
}

/// A command in the image has made links there, before a folder is copied onto them.
#[test]
fn nothing_is_copied_through_links_that_lead_out() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir_all(at("image/work")).unwrap();
    fs::create_dir_all(at("outside")).unwrap();
    fs::write(at("outside/file"), "mine").unwrap();
    fs::create_dir_all(at("from/folder")).unwrap();
    fs::write(at("from/folder/x"), "new").unwrap();
    fs::write(at("from/file"), "new").unwrap();
    symlink(at("outside"), at("image/work/out")).unwrap();

    // A link in the place of a file gives way to the file.
    symlink(at("outside/file"), at("image/work/file")).unwrap();
    // A link in the place of a folder is an error.
    symlink(at("outside"), at("image/work/folder")).unwrap();
    let error = into_image(&at("from"), &at("image"), "/work").unwrap_err();
    assert!(error.contains("`folder`"), "{error}");
    fs::remove_file(at("image/work/folder")).unwrap();
    into_image(&at("from"), &at("image"), "/work").unwrap();
    assert_eq!(fs::read_to_string(at("image/work/file")).unwrap(), "new");
    assert_eq!(
        fs::read_to_string(at("image/work/folder/x")).unwrap(),
        "new"
    );

    // In the image there is no such folder.
    for to in ["out", "out/new", "/work/out/a/b"] {
        into_image(&at("from"), &at("image"), to).unwrap_err();
        into_image(&at("from/file"), &at("image"), to).unwrap_err();
    }
    assert_eq!(fs::read_dir(at("outside")).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(at("outside/file")).unwrap(), "mine");
}

#[test]
fn links_of_an_image_lead_where_they_lead_in_it() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    for folder in ["image/run", "image/var", "image/work"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    fs::write(at("file"), "new").unwrap();
    symlink("/run", at("image/var/run")).unwrap();
    symlink("../../../run", at("image/var/up")).unwrap();
    for (to, found) in [
        ("/var/run/a", "image/run/a"),
        ("/var/up/b", "image/run/b"),
        ("/var/run/new/c", "image/run/new/c"),
        ("/../d", "image/d"),
        ("../../e", "image/e"),
    ] {
        into_image(&at("file"), &at("image"), to).unwrap();
        assert_eq!(fs::read_to_string(at(found)).unwrap(), "new", "{to}");
    }
}

#[test]
fn paths_are_seen_from_the_environment() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir_all(at("work/sub")).unwrap();
    fs::write(at("work/file"), "file").unwrap();
    fs::write(at("top"), "top").unwrap();
    fs::write(outside.path().join("x"), "secret").unwrap();
    symlink("sub", at("work/fine")).unwrap();
    fs::write(at("work/sub/x"), "sub").unwrap();
    symlink(outside.path(), at("work/out")).unwrap();
    symlink("/", at("work/slash")).unwrap();
    let read = |found: Result<PlacedPath, ExecutorError>| {
        let found = found.map_err(|error| error.message)?;
        let text = found.files.read(&found.path).and_then(io::read_to_string);
        text.map_err(|error| found.failed(&error, "failed").message)
    };
    let below = |path: &str| at(path).to_str().unwrap().to_owned();
    for (path, wanted) in [
        ("file", Some("file")),
        ("fine/x", Some("sub")),
        ("sub/../file", Some("file")),
        ("../top", Some("top")),
        (&below("work/file"), Some("file")),
        ("../../x", None),
        ("out/x", None),
        ("slash/etc/passwd", None),
        ("/etc/passwd", None),
    ] {
        let found = read(PlacedPath::inside(root.path(), &at("work"), path));
        assert_eq!(found.as_deref().ok(), wanted, "{path}");
        assert!(wanted.is_some() || found.unwrap_err().contains("is not below"));
    }
    // The same folder as an image, whose commands start in `/work`.
    for (path, wanted) in [
        ("file", Some("file")),
        ("/work/file", Some("file")),
        ("//top", Some("top")),
        ("../top", Some("top")),
        ("../../top", Some("top")),
        ("slash/top", Some("top")),
        ("/work/out/x", None),
        ("out/x", None),
        ("slash/etc/passwd", None),
    ] {
        let found = read(PlacedPath::in_image(root.path(), Path::new("/work"), path));
        assert_eq!(found.ok().as_deref(), wanted, "{path}");
    }
}
