//! Which variables of the host a command gets to see.
//!
//! A model that can run `env` must never find a key: so variables pass by an allow-list, and
//! names that look like secrets, or are known to be some, pass only where somebody wrote down
//! the whole name.
//!
//! The addresses of proxies pass as they are, even one with a password in it
//! (`http://user:password@proxy`): without it, no command behind such a proxy would reach
//! anything. Who minds takes the variable away, by an empty one in the config's `env`.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;

/// What passes unless the config says otherwise: names, or beginnings with a trailing `*`.
pub const DEFAULT_ENV_ALLOW: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "HOSTNAME",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TMPDIR",
    "TMP",
    "TEMP",
    "XDG_*",
    "EDITOR",
    "PAGER",
    "LD_LIBRARY_PATH",
    "PKG_CONFIG_PATH",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "VIRTUAL_ENV",
    "CONDA_*",
    "PYTHON*",
    "PYENV_*",
    "PIP_*",
    "UV_*",
    "NODE_*",
    "NVM_*",
    "NPM_CONFIG_*",
    "npm_config_*",
    "CARGO_*",
    "RUSTUP_*",
    "RUST_*",
    "RUSTFLAGS",
    "GOPATH",
    "GOROOT",
    "GOBIN",
    "GOFLAGS",
    "GOPROXY",
    "GOTOOLCHAIN",
    "JAVA_HOME",
    "MAVEN_OPTS",
    "GRADLE_OPTS",
    "GEM_HOME",
    "GEM_PATH",
    "BUNDLE_*",
    "DEBIAN_FRONTEND",
    "CI",
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
];

/// Words that make a name look like a secret's.
const SECRET_ENDS: &[&str] = &["_KEY", "_APIKEY", "_AUTH", "_PASS"];
const SECRET_PARTS: &[&str] = &[
    "TOKEN",
    "_SECRET",
    "PASSWORD",
    "PASSWD",
    "PGPASS",
    "CREDENTIAL",
];

/// A configured variable that no process can be given.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("environment variable `{name}` is not usable: {reason}; mend it in the config's `env`")]
pub(super) struct BadVariable {
    name: String,
    reason: &'static str,
}

/// The command's environment: what `allow` lets through of `process`, under `configured`.
/// `secrets` are names of secrets, whatever they look like.
///
/// # Errors
/// When a configured name or value can't be handed to a process.
pub(super) fn build(
    process: impl IntoIterator<Item = (OsString, OsString)>,
    allow: &[String],
    secrets: &[String],
    configured: &BTreeMap<String, String>,
) -> Result<Vec<CString>, BadVariable> {
    let mut variables = Vec::new();
    for (name, value) in process {
        // A name that is not text can't be in the list.
        if let Some(name) = name.to_str()
            && !configured.contains_key(name)
            && passes(name, allow, secrets)
        {
            let entry = [name.as_bytes(), b"=", value.as_bytes()].concat();
            // What the process itself was given holds no NUL.
            variables.extend(CString::new(entry));
        }
    }
    for (name, value) in configured {
        let bad = |reason| BadVariable {
            name: name.clone(),
            reason,
        };
        if name.is_empty() || name.contains('=') {
            return Err(bad("a name is not empty and has no `=`"));
        }
        let entry = format!("{name}={value}");
        variables.push(CString::new(entry).map_err(|_| bad("there is a null byte in it"))?);
    }
    Ok(variables)
}

fn passes(name: &str, allow: &[String], secrets: &[String]) -> bool {
    let known = secrets.iter().any(|secret| secret == name);
    // The names that pass by default were not written down with this secret in mind.
    if known && DEFAULT_ENV_ALLOW.contains(&name) {
        return false;
    }
    let secret = known || looks_secret(name);
    allow.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(beginning) => !secret && name.starts_with(beginning),
        None => name == pattern,
    })
}

/// Whether a variable of this name is likely to hold a secret.
pub(super) fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_ENDS.iter().any(|end| name.ends_with(end))
        || SECRET_PARTS.iter().any(|part| name.contains(part))
}

/// The value of `name` in a built environment.
pub(super) fn get<'a>(variables: &'a [CString], name: &str) -> Option<&'a [u8]> {
    variables.iter().find_map(|entry| {
        entry
            .as_bytes()
            .strip_prefix(name.as_bytes())?
            .strip_prefix(b"=")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_pass_by_their_whole_name_only() {
        let default: Vec<String> = DEFAULT_ENV_ALLOW
            .iter()
            .map(|&name| name.to_owned())
            .collect();
        let with = |more: &str| [default.clone(), vec![more.to_owned()]].concat();
        let vectors = [
            ("PATH", default.clone(), true),
            ("LC_ALL", default.clone(), true),
            ("CARGO_HOME", default.clone(), true),
            ("https_proxy", default.clone(), true),
            ("PATHX", default.clone(), false),
            ("LC", default.clone(), false),
            ("OPENAI_API_KEY", default.clone(), false),
            ("SSH_AUTH_SOCK", default.clone(), false),
            ("MSWEA_RUN_ID", default.clone(), false),
            ("CARGO_REGISTRY_TOKEN", default.clone(), false),
            ("PYTHON_KEYRING_PASSWORD", default.clone(), false),
            ("CONDA_SECRETS", default.clone(), false),
            ("NODE_API_KEY", default.clone(), false),
            ("npm_config__auth", default.clone(), false),
            ("NODE_auth_token", default.clone(), false),
            ("OPENAI_API_KEY", with("*"), false),
            ("OPENAI_API_KEY", with("OPENAI_*"), false),
            ("OPENAI_API_KEY", with("OPENAI_API_KEY"), true),
            ("OPENAI_BASE_URL", with("OPENAI_*"), true),
            ("PYTHON_KEY", default.clone(), false),
            ("NODE_TOKENS", default.clone(), false),
            ("TOKEN", with("*"), false),
            ("PGPASSFILE", with("PG*"), false),
            ("PGHOST", with("PG*"), true),
            // Known to be secrets.
            ("MYLLM", with("*"), false),
            ("PIP_ME", default.clone(), false),
            ("MYLLM", with("MYLLM"), true),
            ("CI", with("*"), false),
            ("ANYTHING", with("*"), true),
        ];
        for (name, allow, wanted) in vectors {
            let secrets = ["MYLLM", "PIP_ME", "CI"].map(str::to_owned);
            assert_eq!(passes(name, &allow, &secrets), wanted, "{name}");
        }
    }

    #[test]
    fn configured_variables_win() {
        let process =
            [("PATH", "/bin"), ("LANG", "C"), ("KEY", "k")].map(|(k, v)| (k.into(), v.into()));
        let configured = BTreeMap::from([
            ("LANG".to_owned(), "de_DE".to_owned()),
            ("X_API_KEY".to_owned(), "mine".to_owned()),
        ]);
        let allow = ["PATH", "LANG"].map(str::to_owned);
        let built = build(process, &allow, &[], &configured).unwrap();
        let built: Vec<_> = built.iter().map(|entry| entry.to_str().unwrap()).collect();
        assert_eq!(built, ["PATH=/bin", "LANG=de_DE", "X_API_KEY=mine"]);
    }

    #[test]
    fn what_no_process_can_be_given_is_named() {
        for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0y")] {
            let configured = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            let error = build([], &[], &[], &configured).unwrap_err();
            assert!(error.to_string().contains("`env`"), "{error}");
        }
    }
}
