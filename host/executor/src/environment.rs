//! Which variables of the host are passed to commands.
//!
//! A model that runs `env` must not find a key: so only variables on an allow-list are passed.
//! Variables whose names look like secrets, or are known to be secrets, and values that look like
//! credentials (a URL with a password) are passed only if the user wrote the whole name. That
//! applies to the addresses of proxies, too.
//!
//! The list is long, because a missing variable can make a build fail in a way that neither the
//! model nor the user understands. It contains variables that tell programs where things are and
//! how to work, and none that identify the user.

mod allowed;

use indexmap::IndexMap;
use mswea_helper::processes::{ACTION_VARIABLE, RUN_VARIABLE};
use mswea_secrecy::{self as secrecy, looks_secret};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;

pub use allowed::DEFAULT_ENV_ALLOW;

/// The rules for variables of the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'a> {
    /// Names that pass in addition to [`DEFAULT_ENV_ALLOW`], or prefixes with a trailing `*`.
    pub(super) allow: &'a [String],
    /// Names of secrets, whatever they look like.
    pub(super) secrets: &'a [String],
    /// Whether a value looks like a credential.
    pub(super) is_credential: fn(&str) -> bool,
}

/// The environment of commands.
#[derive(Clone, Debug, Default)]
pub(super) struct Built {
    /// As `NAME=value`.
    pub(super) variables: Vec<CString>,
    /// Names of the host's variables that are not passed: first those whose names are allowed, then
    /// the others, each sorted. Variables that shells set themselves are left out.
    pub(super) withheld: Vec<String>,
}

/// A configured variable that can't be passed to a process.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("environment variable `{name}` is not usable: {reason}; correct it in the config's `env`")]
pub(super) struct BadVariable {
    name: String,
    reason: &'static str,
}

/// The command's environment: the variables of `process` that the `rules` allow, with `configured`
/// laid over them.
///
/// # Errors
/// [`BadVariable`] if a configured name or value can't be passed to a process.
pub(super) fn build(
    process: impl IntoIterator<Item = (OsString, OsString)>,
    rules: Rules<'_>,
    configured: &IndexMap<String, String>,
) -> Result<Built, BadVariable> {
    let mut variables = Vec::new();
    let mut withheld = Vec::new();
    for (name, value) in process {
        // A name that is not UTF-8 can't be in the list.
        let Some(name) = name.to_str() else {
            continue;
        };
        if configured.contains_key(name) {
            continue;
        }
        if rules.pass(name, &value.to_string_lossy()) {
            let entry = [name.as_bytes(), b"=", value.as_bytes()].concat();
            // Variables of the process itself contain no NUL.
            variables.extend(CString::new(entry));
        } else if !value.is_empty() && !is_made_anew(name) {
            withheld.push((!rules.lists(name), name.to_owned()));
        }
    }
    withheld.sort();
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
    Ok(Built {
        variables,
        withheld: withheld.into_iter().map(|(_, name)| name).collect(),
    })
}

/// The variables of the host with the names `forward`, with `configured` laid over them.
pub(super) fn forwarded(
    forward: &[String],
    configured: &IndexMap<String, String>,
) -> IndexMap<String, String> {
    let host = forward.iter();
    let host = host.filter_map(|name| Some((name.clone(), secrecy::var(name)?)));
    let mut all: IndexMap<_, _> = host.collect();
    all.extend(configured.clone());
    all
}

/// The same for commands at another place, which get no other variables of the host. Without the
/// marks of runs and actions, which are set for each.
///
/// # Errors
/// A message if a variable can't be passed to a process.
pub(super) fn elsewhere(
    forward: &[String],
    configured: &IndexMap<String, String>,
) -> Result<Vec<(String, String)>, String> {
    let rules = Rules {
        allow: &[],
        secrets: &[],
        is_credential: |_| false,
    };
    let mut all = forwarded(forward, configured);
    build([], rules, &all).map_err(|error| error.to_string())?;
    all.retain(|name, _| name != ACTION_VARIABLE && name != RUN_VARIABLE);
    Ok(all.into_iter().collect())
}

impl Rules<'_> {
    fn pass(self, name: &str, value: &str) -> bool {
        if self.allow.iter().any(|pattern| pattern == name) {
            return true;
        }
        let known = self.secrets.iter().any(|secret| secret == name);
        self.lists(name) && !known && !looks_secret(name) && !(self.is_credential)(value)
    }

    /// Whether the name is on one of the lists.
    fn lists(self, name: &str) -> bool {
        let default = DEFAULT_ENV_ALLOW.iter().copied();
        let patterns = default.chain(self.allow.iter().map(String::as_str));
        // There are hundreds; the first character excludes most of them.
        let first = name.chars().next();
        let mut likely = patterns.filter(|it| it.starts_with('*') || it.chars().next() == first);
        likely.any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == pattern,
        })
    }
}

/// Whether shells, or this program, set a variable anew in each process.
fn is_made_anew(name: &str) -> bool {
    matches!(name, "_" | "PWD" | "OLDPWD" | "SHLVL") || name.starts_with("MSWEA_")
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

    const SECRETS: [&str; 3] = ["MYLLM", "PIP_ME", "CI"];

    fn built(
        process: &[(&str, &str)],
        allow: &[&str],
        configured: &[(&str, &str)],
    ) -> Result<Built, BadVariable> {
        let list = |names: &[&str]| -> Vec<String> { names.iter().map(|&it| it.into()).collect() };
        let process = process
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let configured = configured
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let rules = Rules {
            allow: &list(allow),
            secrets: &list(&SECRETS),
            is_credential: |value| value.contains('@'),
        };
        build(process, rules, &configured.collect())
    }

    #[test]
    fn secrets_pass_by_their_whole_name_only() {
        let vectors: &[(&str, &[&str], bool)] = &[
            ("PATH", &[], true),
            ("LC_ALL", &[], true),
            ("CARGO_HOME", &[], true),
            ("https_proxy", &[], true),
            ("PATHX", &[], false),
            ("LC", &[], false),
            ("OPENAI_API_KEY", &[], false),
            ("SSH_AUTH_SOCK", &[], false),
            ("MSWEA_RUN_ID", &[], false),
            ("CARGO_REGISTRY_TOKEN", &[], false),
            ("PYTHON_KEYRING_PASSWORD", &[], false),
            ("CONDA_SECRETS", &[], false),
            ("NODE_API_KEY", &[], false),
            ("npm_config__auth", &[], false),
            ("NODE_auth_token", &[], false),
            ("OPENAI_API_KEY", &["*"], false),
            ("OPENAI_API_KEY", &["OPENAI_*"], false),
            ("OPENAI_API_KEY", &["OPENAI_API_KEY"], true),
            ("OPENAI_BASE_URL", &["OPENAI_*"], true),
            ("PYTHON_KEY", &[], false),
            ("NODE_TOKENS", &[], false),
            ("TOKEN", &["*"], false),
            ("PGPASSFILE", &["PG*"], false),
            ("PGHOST", &["PG*"], true),
            // Known to be secrets.
            ("MYLLM", &["*"], false),
            ("PIP_ME", &[], false),
            ("MYLLM", &["MYLLM"], true),
            ("CI", &["*"], false),
            ("CI", &["CI"], true),
            ("ANYTHING", &["*"], true),
            // Of clusters, languages and tools.
            ("CUDA_VISIBLE_DEVICES", &[], true),
            ("HF_HOME", &[], true),
            ("HF_HUB_OFFLINE", &[], true),
            ("HF_HUB_TOKEN", &[], false),
            ("HF_TOKEN", &[], false),
            ("TOKENIZERS_PARALLELISM", &[], true),
            ("SLURM_JOB_ID", &[], true),
            ("SLURM_JWT", &[], false),
            ("TF_VAR_db_pw", &["*"], false),
            ("DB_PWD", &["*"], false),
            ("LOADEDMODULES", &[], true),
            ("BASH_FUNC_module%%", &[], true),
            ("DJANGO_SETTINGS_MODULE", &[], true),
            ("PYTEST_ADDOPTS", &[], true),
            ("GIT_AUTHOR_NAME", &[], true),
            ("GIT_CONFIG_VALUE_0", &[], false),
            ("DISPLAY", &[], true),
            ("JAVA_TOOL_OPTIONS", &[], true),
            ("YARN_NPM_AUTH_IDENT", &[], false),
            ("BUNDLE_GEMFILE", &[], true),
            ("BUNDLE_BUILD__NOKOGIRI", &[], true),
            ("BUNDLE_GEMS__EXAMPLE__COM", &[], false),
            ("BUNDLE_GEMS__EXAMPLE__COM", &["*"], false),
        ];
        for (name, allow, wanted) in vectors {
            let built = built(&[(name, "x")], allow, &[]).unwrap();
            assert_eq!(built.variables.len() == 1, *wanted, "{name} {allow:?}");
        }
    }

    #[test]
    fn withheld_variables_are_named() {
        let process = [
            ("ZED", "1"),
            ("PIP_INDEX_URL", "https://a:b@host"),
            ("OPENAI_API_KEY", "k"),
            ("UNSET", ""),
            ("PWD", "/"),
            ("MSWEA_RUN_ID", "1"),
            ("PATH", "/bin"),
            ("MINE", "1"),
        ];
        let found = built(&process, &[], &[("MINE", "2")]).unwrap();
        assert_eq!(found.withheld, ["PIP_INDEX_URL", "OPENAI_API_KEY", "ZED"]);
        for (allow, wanted) in [
            (&["*"][..], &["OPENAI_API_KEY", "PIP_INDEX_URL"][..]),
            (&["PIP_INDEX_URL", "ZED"], &["OPENAI_API_KEY"]),
        ] {
            let found = built(&process, allow, &[("MINE", "2")]).unwrap();
            assert_eq!(found.withheld, wanted, "{allow:?}");
        }
    }

    #[test]
    fn configured_variables_win() {
        let process = [("PATH", "/bin"), ("LANG", "C"), ("KEY", "k")];
        let configured = [("LANG", "de_DE"), ("X_API_KEY", "me@home")];
        let built = built(&process, &[], &configured).unwrap();
        let built: Vec<_> = built
            .variables
            .iter()
            .map(|it| it.to_str().unwrap())
            .collect();
        assert_eq!(built, ["PATH=/bin", "LANG=de_DE", "X_API_KEY=me@home"]);
    }

    #[test]
    fn variables_that_no_process_can_get_are_named() {
        for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0y")] {
            let error = built(&[], &[], &[(name, value)]).unwrap_err();
            assert!(error.to_string().contains("`env`"), "{error}");
        }
    }
}
