//! The remote of `actions.open_pr`: parses a URL of git, and separates the login.

use percent_encoding::percent_decode_str;
use url::Url;

/// A remote of git.
#[derive(Debug, PartialEq)]
pub(super) struct PushRemote {
    /// The URL without a password, for arguments, which all users of the machine can see.
    pub(super) url: String,
    /// The place on a server; none for a folder.
    place: Option<PushPlace>,
    /// `USER:PASSWORD` of an http(s) URL.
    login: Option<String>,
}

/// A repository on a server.
#[derive(Debug, PartialEq)]
struct PushPlace {
    host: String,
    /// The port, if it is not the default one.
    port: Option<u16>,
    /// `OWNER/NAME`.
    repository: String,
    /// The beginning of its URLs, if they are http(s) URLs.
    web: Option<String>,
}

impl PushRemote {
    /// Parses a remote; none if git or this host can't read it.
    pub(super) fn of(remote: &str) -> Option<Self> {
        let name = |path: &str| {
            let path = path.trim_matches('/');
            path.strip_suffix(".git").unwrap_or(path).to_owned()
        };
        if !remote.contains("://") {
            // As git reads it: a colon before the first slash follows a host.
            let scp = remote.split_once(':').filter(|(it, _)| !it.contains('/'));
            return Some(Self {
                url: remote.to_owned(),
                place: scp.map(|(login, path)| PushPlace {
                    host: login.rsplit('@').next().unwrap_or_default().to_owned(),
                    port: None,
                    repository: name(path),
                    web: None,
                }),
                login: None,
            });
        }
        let mut url = Url::parse(remote).ok()?;
        if url.scheme() == "file" {
            return Some(Self {
                url: remote.to_owned(),
                place: None,
                login: None,
            });
        }
        let is_web = matches!(url.scheme(), "http" | "https");
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let (user, password) = (url.username(), url.password());
        let has_login = is_web && (!user.is_empty() || password.is_some());
        let login = format!(
            "{}:{}",
            decoded(user),
            decoded(password.unwrap_or_default())
        );
        if is_web {
            url.set_username("").ok()?;
        }
        url.set_password(None).ok()?;
        url.set_query(None);
        url.set_fragment(None);
        Some(Self {
            place: Some(PushPlace {
                host: url.host_str()?.to_owned(),
                port: url.port(),
                repository: name(url.path()),
                web: is_web.then(|| url.origin().ascii_serialization()),
            }),
            url: url.into(),
            login: has_login.then_some(login),
        })
    }

    /// Whether it is this repository on this server, or a folder. The port is that of the server's
    /// web pages.
    pub(super) fn is_of(&self, (host, port): (&str, Option<u16>), repository: &str) -> bool {
        self.place.as_ref().is_none_or(|place| {
            place.host.eq_ignore_ascii_case(host)
                && place.repository.eq_ignore_ascii_case(repository)
                && (place.web.is_none() || place.port == port)
        })
    }

    /// The server's address, and the answer of a credential helper of git for it, if there is a login.
    pub(super) fn login(&self, token: Option<&str>) -> Option<(&str, String)> {
        let web = self.place.as_ref()?.web.as_ref()?;
        let (user, password) = match token.filter(|_| web.starts_with("https:")) {
            Some(token) => ("x-access-token", token),
            None => self.login.as_ref()?.split_once(':')?,
        };
        // A line end would begin another value.
        let answer = (!format!("{user}{password}").contains(['\n', '\0']))
            .then(|| format!("username={user}\npassword={password}\n"))?;
        Some((web, answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_issues_repository_is_one_to_push_to() {
        for (remote, expected) in [
            ("https://github.com/o/r", true),
            ("https://github.com:443/O/R.git/", true),
            ("https://me:pw@GitHub.com/o/r.git?a=b#c", true),
            ("http://github.com/o/r", true),
            ("git@github.com:o/r.git", true),
            ("github.com:/o/r", true),
            ("ssh://git@github.com:22/o/r.git", true),
            ("/some/folder", true),
            ("../it:self", true),
            ("file:///some/folder", true),
            ("https://github.com:8443/o/r", false),
            ("https://github.com.evil.org/o/r", false),
            ("https://github.com@evil.org/o/r", false),
            ("https://evil.org/github.com/o/r", false),
            ("https://evil.org\\@github.com/o/r", false),
            ("https://github.com/o/other", false),
            ("https://github.com/x/o/r", false),
            ("git@gitlab.com:o/r.git", false),
            ("me:pw@github.com/o/r", false),
            ("ssh://git@evil.org/o/r", false),
            ("ext::sh -c x", false),
        ] {
            let found = PushRemote::of(remote).unwrap();
            assert_eq!(
                found.is_of(("github.com", None), "o/r"),
                expected,
                "{remote}"
            );
        }
        for remote in ["https://", "https://h:99999/o/r", "ssh:///o/r"] {
            assert_eq!(PushRemote::of(remote), None, "{remote}");
        }
    }

    #[test]
    fn a_login_is_not_in_the_url() {
        let web = "https://h:81";
        for (remote, token, url, expected) in [
            (
                "https://me:p%2Fw@h:81/o/r.git?x=1",
                None,
                "https://h:81/o/r.git",
                Some((web, "username=me\npassword=p/w\n")),
            ),
            (
                "https://tok@h:81/o/r",
                None,
                "https://h:81/o/r",
                Some((web, "username=tok\npassword=\n")),
            ),
            (
                "https://tok@h:81/o/r",
                Some("t"),
                "https://h:81/o/r",
                Some((web, "username=x-access-token\npassword=t\n")),
            ),
            ("http://h/o/r", Some("t"), "http://h/o/r", None),
            ("https://me:a%0Ab@h/o/r", None, "https://h/o/r", None),
            ("ssh://git:pw@h/o/r", Some("t"), "ssh://git@h/o/r", None),
            ("git@h:o/r", Some("t"), "git@h:o/r", None),
            ("/a/b", Some("t"), "/a/b", None),
        ] {
            let found = PushRemote::of(remote).unwrap();
            assert_eq!(found.url, url);
            let expected = expected.map(|(web, answer)| (web, answer.to_owned()));
            assert_eq!(found.login(token), expected, "{remote}");
        }
    }
}
