//! The mounts of a container, as a config has them.

/// A mount with its path written out, since engines know neither `~` nor the folder of this process.
pub(super) fn with_path(mount: &str) -> String {
    let (source, rest) = mount.split_at(mount.find(':').unwrap_or(mount.len()));
    let path = match source.strip_prefix('~') {
        Some(at) if at.is_empty() || at.starts_with('/') => {
            std::env::var("HOME").ok().map(|home| home + at)
        }
        None if source.starts_with('.') => std::path::absolute(source)
            .ok()
            .map(|path| path.display().to_string()),
        _ => None,
    };
    path.map_or_else(|| mount.to_owned(), |path| path + rest)
}

/// Checks a mount before an engine is asked. `local` tells whether the engine sees the folders of
/// this machine.
///
/// # Errors
/// A message if it has no valid form or no source.
pub(super) fn check_mount(mount: &str, local: bool) -> Result<(), String> {
    let fail = |why: String| {
        Err(format!(
            "`{mount}` in `environment.mounts` can't be mounted: {why}"
        ))
    };
    let written = with_path(mount);
    let mut parts = written.split(':');
    let (Some(source), Some(target)) = (parts.next(), parts.next()) else {
        return fail("it has no target; write `SOURCE:TARGET` or `SOURCE:TARGET:OPTIONS`".into());
    };
    if parts.nth(1).is_some() {
        return fail(
            "it has too many parts; write `SOURCE:TARGET` or `SOURCE:TARGET:OPTIONS`, neither path with a `:` in it".into(),
        );
    }
    if source.is_empty() {
        return fail("its source is empty; write `SOURCE:TARGET`, with a path of this machine or the name of a volume".into());
    }
    if !target.starts_with('/') {
        return fail(format!(
            "its target `{target}` is not an absolute path; begin it with `/`"
        ));
    }
    if !source.starts_with(['/', '.', '~']) {
        if source.contains('/') {
            return fail(format!(
                "its source `{source}` is neither a path nor the name of a volume; begin a path with `/`, `./` or `~/`"
            ));
        }
        return Ok(());
    }
    if local && !std::path::Path::new(source).exists() {
        // Docker would make an empty folder of it, which belongs to root.
        return fail(format!(
            "there is no `{source}` on this machine; make it, or name one that is there (if the engine sees other folders than this program does, mount it with `--volume` in `environment.run_args`)"
        ));
    }
    Ok(())
}
