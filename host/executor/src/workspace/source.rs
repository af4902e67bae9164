//! The source of a repository: the configured value, parsed, with its secrets separate from the
//! part that may be shown.

use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;

/// Replaces a secret in messages.
const MARK: &str = "***";

/// Schemes that git itself can fetch from.
const SCHEMES: [&str; 5] = ["https", "http", "ssh", "git", "file"];

/// The origin of a repository.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum RepositorySource {
    /// A server, or a repository in the environment: git fetches it there.
    Remote(Remote),
    /// A folder of the host, which is copied unchanged.
    Folder(PathBuf),
}

/// A URL.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Remote {
    /// Without secrets: for git's config, commands and messages.
    pub(super) url: String,
    /// With secrets, in the form of git's credential store: `https://USER:PASSWORD@HOST`.
    pub(super) credentials: Option<String>,
}

impl RepositorySource {
    /// Parses `repo`. Relative paths are relative to this process's folder; `home` replaces `~`.
    ///
    /// # Errors
    /// A message without secrets, if it is neither a URL that git accepts nor a path.
    pub(super) fn parse(repo: &str, home: Option<&Path>) -> Result<Self, String> {
        let repo = repo.trim();
        let shown = without_credentials(repo);
        let bad = |why: &str| {
            Err(format!(
                "`workspace.repo` `{shown}` can't be used: {why}; give a URL (`https://`, `ssh://`, \
                 `git@HOST:PATH`, `file://`) or the path of a folder"
            ))
        };
        if repo.is_empty() {
            return bad("it is empty");
        }
        if repo.contains(['\0', '\n']) {
            return bad("it has a line break or a NUL in it");
        }
        if let Some((scheme, rest)) = repo.split_once("://") {
            if !SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()) {
                return bad("repositories are not fetched by its scheme");
            }
            if rest.is_empty() || rest.starts_with('-') {
                return bad("it has no host");
            }
            return Ok(Self::Remote(Remote::new(scheme, rest)));
        }
        let path = match (repo.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(repo),
        };
        if path.exists() || !is_scp_like(repo) {
            if repo.contains("::") && !path.exists() {
                return bad("it would call a helper program of git, which is not allowed");
            }
            return Ok(Self::Folder(straight(&path)));
        }
        if repo.starts_with('-') {
            return bad("it begins with `-`");
        }
        Ok(Self::Remote(Remote {
            url: repo.to_owned(),
            credentials: None,
        }))
    }

    /// The name of its folder, as git chooses it.
    pub(super) fn name(&self) -> String {
        let last = match self {
            Self::Folder(path) => path
                .canonicalize()
                .unwrap_or_else(|_| path.clone())
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            Self::Remote(remote) => {
                let path = remote.url.split(['?', '#']).next().unwrap_or_default();
                let path = path.trim_end_matches('/');
                let path = path.strip_suffix("/.git").unwrap_or(path);
                let last = path.rsplit(['/', ':']).next().unwrap_or_default();
                last.strip_suffix(".git").unwrap_or(last).to_owned()
            }
        };
        match last.as_str() {
            "" | "." | ".." => "repo".to_owned(),
            _ => last,
        }
    }

    /// For messages, without secrets.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Remote(remote) => remote.url.clone(),
            Self::Folder(path) => path.display().to_string(),
        }
    }

    /// `text` without the secrets of this source and of any URL.
    pub(super) fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if let Self::Remote(Remote {
            credentials: Some(credentials),
            ..
        }) = self
        {
            let user_info = credentials
                .split_once("://")
                .and_then(|(_, rest)| rest.rsplit_once('@'))
                .map_or("", |(user_info, _)| user_info);
            let secret = match user_info.split_once(':') {
                Some((user, "")) => user,
                Some((_, password)) => password,
                None => user_info,
            };
            let decoded = percent_decode_str(secret).decode_utf8_lossy();
            for secret in [user_info, secret, &*decoded] {
                if !secret.is_empty() {
                    text = text.replace(secret, MARK);
                }
            }
        }
        without_credentials(&text)
    }
}

/// A derived one would print the secrets.
impl std::fmt::Debug for RepositorySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RepositorySource({})", self.shown())
    }
}

impl Remote {
    fn new(scheme: &str, rest: &str) -> Self {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let Some((user_info, host)) = authority.rsplit_once('@') else {
            return Self {
                url: format!("{scheme}://{rest}"),
                credentials: None,
            };
        };
        if !scheme.to_ascii_lowercase().starts_with("http") {
            // The user is part of the address, and a password can't be used.
            let user = user_info.split(':').next().unwrap_or_default();
            return Self {
                url: format!("{scheme}://{user}@{host}{path}"),
                credentials: None,
            };
        }
        // A name alone is a token. If it were a user's name, git would ask for the password, and
        // the fetch would fail.
        let colon = if user_info.contains(':') { "" } else { ":" };
        Self {
            url: format!("{scheme}://{host}{path}"),
            credentials: (!user_info.is_empty())
                .then(|| format!("{scheme}://{user_info}{colon}@{host}")),
        }
    }
}

/// `text` with the user part of every URL in it replaced, except a bare name before a host of
/// `ssh`, which is no secret.
pub(super) fn without_credentials(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after
            .find(|c: char| c.is_whitespace() || "/?#'\"`<>".contains(c))
            .unwrap_or(after.len());
        rest = after;
        if let Some(sign) = after[..end].rfind('@') {
            let user_info = &after[..sign];
            let is_name = before.ends_with("ssh://") && !user_info.contains(':');
            out.push_str(if is_name { user_info } else { MARK });
            rest = &after[sign..];
        }
    }
    out.push_str(rest);
    out
}

/// Whether it has `scp`'s form `[USER@]HOST:PATH`.
fn is_scp_like(repo: &str) -> bool {
    repo.split_once(':').is_some_and(|(host, path)| {
        !host.is_empty() && !host.contains('/') && !path.is_empty() && !path.starts_with(':')
    })
}

/// `path` made absolute. If it contains `..`, the file system resolves it, because a folder before
/// the `..` may be a link.
fn straight(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if whole.components().any(|part| part == Component::ParentDir) {
        whole.canonicalize().unwrap_or(whole)
    } else {
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        // given; expected URL, credentials, name
        for (repo, url, credentials, name) in [
            ("https://h/a/b.git", "https://h/a/b.git", None, "b"),
            ("https://h/a/b/", "https://h/a/b/", None, "b"),
            (
                "https://user:to%40ken@h:8443/a/b",
                "https://h:8443/a/b",
                Some("https://user:to%40ken@h:8443"),
                "b",
            ),
            (
                "https://token@h/b.git?x=1",
                "https://h/b.git?x=1",
                Some("https://token:@h"),
                "b",
            ),
            (
                "http://a@b:c@h/x",
                "http://h/x",
                Some("http://a@b:c@h"),
                "x",
            ),
            (
                "ssh://git@h:22/a/b.git",
                "ssh://git@h:22/a/b.git",
                None,
                "b",
            ),
            ("ssh://git:pw@h/a/b", "ssh://git@h/a/b", None, "b"),
            ("git@h:a/b.git", "git@h:a/b.git", None, "b"),
            ("h:b", "h:b", None, "b"),
            ("file:///a/b c/.git", "file:///a/b c/.git", None, "b c"),
            ("file:///", "file:///", None, "repo"),
            ("https://h", "https://h", None, "h"),
        ] {
            let source = RepositorySource::parse(repo, None).unwrap();
            let wanted = RepositorySource::Remote(Remote {
                url: url.to_owned(),
                credentials: credentials.map(str::to_owned),
            });
            assert!(source == wanted, "{repo}: {source:?}");
            assert_eq!(source.name(), name, "{repo}");
        }
    }

    #[test]
    fn paths_are_folders() {
        let here = std::env::current_dir().unwrap();
        for (repo, path) in [
            ("/a/b", PathBuf::from("/a/b")),
            ("a b/c", here.join("a b/c")),
            ("./x:y", here.join("x:y")),
            ("~/x", PathBuf::from("/home/x")),
            ("-x", here.join("-x")),
        ] {
            let source = RepositorySource::parse(repo, Some(Path::new("/home"))).unwrap();
            assert!(
                source == RepositorySource::Folder(path),
                "{repo}: {source:?}"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("host:path");
        std::fs::create_dir(&odd).unwrap();
        let source = RepositorySource::parse(odd.to_str().unwrap(), None).unwrap();
        assert!(source == RepositorySource::Folder(odd));
        assert_eq!(source.name(), "host:path");
        let around = folder.path().join("host:path/../host:path/.");
        let source = RepositorySource::parse(around.to_str().unwrap(), None).unwrap();
        let real = folder.path().canonicalize().unwrap().join("host:path");
        assert_eq!(source.shown(), real.to_str().unwrap());
    }

    #[test]
    fn others_are_refused_without_their_secrets() {
        for repo in [
            "",
            "  ",
            "ext::sh -c x",
            "ftp://u:sesame@h/x",
            "https://",
            "ssh://-oProxyCommand=x/y",
            "-oProxyCommand=x:y",
            "https://u:sesame@h/x\ny",
        ] {
            let error = RepositorySource::parse(repo, None).unwrap_err();
            assert!(error.contains("git@HOST:PATH"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
    }

    #[test]
    fn texts_lose_their_secrets() {
        let token = RepositorySource::parse("https://me:se%2Fsame1@h/x", None).unwrap();
        let bare = RepositorySource::parse("https://sesame1@h/x", None).unwrap();
        let plain = RepositorySource::parse("https://h/x", None).unwrap();
        for (source, text, wanted) in [
            (&token, "is se%2Fsame1 or se/same1?", "is *** or ***?"),
            (
                &token,
                "at 'https://me:se%2Fsame1@h/x'",
                "at 'https://***@h/x'",
            ),
            (&bare, "sesame1 and x", "*** and x"),
            (
                &plain,
                "get https://u:p@h/a@b http://h/c@d",
                "get https://***@h/a@b http://h/c@d",
            ),
            (
                &plain,
                "ssh://git@h/x ssh://git:pw@h/x",
                "ssh://git@h/x ssh://***@h/x",
            ),
            (&plain, "a://b a@b ://", "a://b a@b ://"),
        ] {
            assert_eq!(source.redact(text), wanted);
        }
        assert!(!format!("{token:?}{bare:?}").contains("same"));
    }
}
