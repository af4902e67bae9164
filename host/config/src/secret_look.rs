//! Secrets that are recognised by their form, in any text: a prompt, a command, a URL.
//!
//! Secrets that are recognised only by the name of their key are found by `secret_name`.

use mswea_secrecy::{keys_in, replaced};

use super::secret_name::{MARK, is_secret};

/// `text` with [`MARK`] in place of every secret in it.
pub(super) fn redacted(text: &str) -> String {
    // The one word after an authentication scheme is the secret, whatever its form.
    if let Some((scheme @ ("Bearer" | "bearer" | "Basic" | "basic"), secret)) = text.split_once(' ')
        && !secret.trim().contains(char::is_whitespace)
    {
        return format!("{scheme} {MARK}");
    }
    let text = urls(text);
    replaced(&text, &keys_in(&text), MARK)
}

/// Whether a variable with this value probably holds a credential: a secret of a known form, a
/// login in front of a host (`user:password@proxy`), or a setting with a secret's name
/// (`-Dhttp.proxyPassword=...`), alone or among others.
pub fn is_credential(value: &str) -> bool {
    // A path or a list of paths; a folder's name may look like a key.
    if value.starts_with(['/', '~', '.']) {
        return urls(value) != value;
    }
    let list = value.split(|c: char| c.is_whitespace() || ",|;".contains(c));
    redacted(value) != value
        || value.contains("PRIVATE KEY-----")
        || list.clone().any(|part| {
            redacted(part) != part || is_login(part) || is_secret_setting(part) || is_channel(part)
        })
        || list.clone().zip(list.skip(1)).any(|(option, argument)| {
            option.starts_with('-')
                && is_secret_setting(&format!("{option}={argument}"))
                && !argument.starts_with('-')
        })
}

/// A login without a scheme before it, as proxies take it.
fn is_login(text: &str) -> bool {
    let Some((login, host)) = text.rsplit_once('@') else {
        return false;
    };
    let is_word = |part: &str| !part.is_empty() && !part.contains('/');
    let login = login.split_once(':');
    is_word(host) && login.is_some_and(|(user, password)| is_word(user) && is_word(password))
}

/// An option or a property of a program with a secret's name.
fn is_secret_setting(text: &str) -> bool {
    let Some((name, value)) = text.split_once('=') else {
        return false;
    };
    let name = name.strip_prefix("-D").unwrap_or(name);
    let name = name.trim_start_matches('-');
    let lower = name.to_ascii_lowercase();
    let is_short = ["pass", "pwd"].iter().any(|word| {
        let before = lower.strip_suffix(word);
        before.is_some_and(|before| before.is_empty() || before.ends_with(['.', '_', '-']))
    });
    !value.is_empty() && (is_short || is_secret(name))
}

/// A URL with a token in its path, like conda's channels: `https://host/t/TOKEN/channel`.
fn is_channel(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else {
        return false;
    };
    let token = rest
        .split_once("/t/")
        .map_or("", |(_, rest)| run(rest, dashed));
    token.len() >= 12 && token.contains(|c: char| c.is_ascii_digit())
}

/// Every URL without its password and without the secrets in its query.
fn urls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, from) = rest.split_at(at + "://".len());
        out.push_str(before);
        let ends = |c: char| c.is_whitespace() || c.is_control() || "\"'`<>\\".contains(c);
        let (url, after) = from.split_at(from.find(ends).unwrap_or(from.len()));
        let (authority, path) = url.split_at(url.find(['/', '?', '#']).unwrap_or(url.len()));
        match authority.rsplit_once('@') {
            // `git` is a user name, and no secret.
            Some(("git", _)) | None => out.push_str(authority),
            Some((_, host)) => out.extend([MARK, "@", host]),
        }
        query(path, &mut out);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// A path, its query and its fragment.
fn query(path: &str, out: &mut String) {
    let Some(start) = path.find(['?', '#']) else {
        out.push_str(path);
        return;
    };
    out.push_str(&path[..start]);
    for part in path[start..].split_inclusive(['?', '#', '&', ';']) {
        let (pair, end) = match part.char_indices().last() {
            Some((at, '?' | '#' | '&' | ';')) => part.split_at(at),
            _ => (part, ""),
        };
        match pair.split_once('=') {
            Some((name, value)) if !value.is_empty() && is_secret_parameter(name) => {
                out.extend([name, "=", MARK]);
            }
            _ => out.push_str(pair),
        }
        out.push_str(end);
    }
}

fn is_secret_parameter(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    is_secret(&name)
        || ["key", "sig", "pass", "pwd", "code"].contains(&name.as_str())
        || name.ends_with("signature")
}

fn dashed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn run(text: &str, of: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !of(c)).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_that_hold_credentials() {
        for value in [
            "https://me:pw@host/simple",
            "https://token@host/simple",
            "mine=https://me:pw@host/simple",
            "https://proxy.golang.org,https://me:pw@host,direct",
            "https://proxy.golang.org|https://me:pw@host",
            "https://pypi.org/simple https://me:pw@host/simple",
            "https://host/simple?token=abc",
            "https://conda.example/t/ab-0123456789ab/channel",
            "me:pw@proxy:3128",
            "-Xmx1g -Dhttp.proxyUser=me -Dhttp.proxyPassword=pw",
            "--user me --password pw",
            "-Drepo.pass=x -Ddb_pwd=x",
            "--token=abc",
            "ghp_0123456789abcdefghij",
            "-----BEGIN RSA PRIVATE KEY-----",
            "/a:/b https://me:pw@host",
        ] {
            assert!(is_credential(value), "{value}");
        }
        for value in [
            "",
            "https://pypi.org/simple",
            "https://proxy.golang.org,direct",
            "git@github.com:a/b",
            "/usr/bin:/opt/sk-plugins-0123456789abcdef/bin:/opt/x@1/bin",
            "-Xmx1g -Dfile.encoding=UTF-8 --no-password",
            "-Dcompass=north --bypass=1",
            "proxy:3128",
            "Jo Doe",
            "jo@example.com",
            "1",
            "http://host/t/short/x",
            "max_split_size_mb:512,roundup_power2_divisions:[256:1]",
        ] {
            assert!(!is_credential(value), "{value}");
        }
    }

    #[test]
    fn secrets_are_known_by_their_look() {
        for (text, expected) in [
            // In URLs.
            ("https://me:pw@host:1/v1", "https://[redacted]@host:1/v1"),
            (
                "https://token@github.com/a/b",
                "https://[redacted]@github.com/a/b",
            ),
            (
                "git push 'https://u:p@h/x' && ls",
                "git push 'https://[redacted]@h/x' && ls",
            ),
            ("postgres://u:p@ss@db/x", "postgres://[redacted]@db/x"),
            (
                "https://h/v1?api_key=abc&x=1",
                "https://h/v1?api_key=[redacted]&x=1",
            ),
            (
                "https://h/v1?x=1&key=abc#f",
                "https://h/v1?x=1&key=[redacted]#f",
            ),
            (
                "see https://h/?sig=a and https://h/?X-Amz-Signature=b.",
                "see https://h/?sig=[redacted] and https://h/?X-Amz-Signature=[redacted]",
            ),
            (
                "https://h/cb#access_token=abc",
                "https://h/cb#access_token=[redacted]",
            ),
            // By their form.
            ("sk-abcdefghij0123456789", "[redacted]"),
            ("sk-ant-api03-Ab_cd-0123456789", "[redacted]"),
            ("use (sk-proj-abcdefgh12345678).", "use ([redacted])."),
            ("KEY=ghp_0123456789abcdefghij x", "KEY=[redacted] x"),
            ("github_pat_11ABCDEFG0_abcdefghijklmn", "[redacted]"),
            ("xoxb-1234567890-abc", "[redacted]"),
            ("npm_abcdefghij0123456789abcdefghij012345", "[redacted]"),
            ("gsk_abcdefghij0123456789abcdefghij012345", "[redacted]"),
            ("xoxp-1234567890-abc", "[redacted]"),
            ("AKIAABCDEFGHIJKLMNOP", "[redacted]"),
            ("a eyJhbGciOi.eyJzdWIiOi.abc-_d b", "a [redacted] b"),
            ("eyJhbGciOi.eyJzdWIiOi.", "[redacted]"),
            ("Bearer abc", "Bearer [redacted]"),
            ("Basic abc", "Basic [redacted]"),
            ("é sk-abcdefghij0123456789 é", "é [redacted] é"),
        ] {
            assert_eq!(redacted(text), expected, "{text}");
        }
        for plain in [
            "",
            "https://host/a@b",
            "https://host:8000/v1?model=x&n=3",
            "ssh://git@github.com/a/b",
            "https://h/?key=",
            "://",
            "?api_key=x is no URL",
            "sk-learn",
            "sk-this-is-only-a-long-branch-name",
            "task-0123456789012345678901",
            "risk-0123456789012345678901",
            "AKIA",
            "AKIAabcdefghijklmnop",
            "eyJ.eyJ.x",
            "github_pat_",
            "Bearers of news",
            "Basic rules of the house",
            "mail me@host, é",
        ] {
            assert_eq!(redacted(plain), plain);
        }
    }
}
