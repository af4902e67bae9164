//! Which names of variables are those of secrets.

/// Suffixes of a secret's name.
const SECRET_ENDS: &[&str] = &["_KEY", "_APIKEY", "_AUTH", "_PASS", "_PW", "_PWD"];
const SECRET_PARTS: &[&str] = &[
    "TOKEN",
    "_SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PGPASS",
    "CREDENTIAL",
    "AUTH_IDENT",
    "_JWT",
];

/// Whether a variable of this name is likely to hold a secret.
pub fn looks_secret(name: &str) -> bool {
    // `TOKENIZER` in a name does not make it a token.
    let name = name.to_ascii_uppercase().replace("TOKENIZER", "");
    // Bundler's logins: the host's name, with `__` for each dot.
    let is_login = name.strip_prefix("BUNDLE_").is_some_and(|rest| {
        let is_setting = ["BUILD__", "MIRROR__", "LOCAL__"];
        rest.contains("__") && !is_setting.iter().any(|start| rest.starts_with(start))
    });
    is_login
        || SECRET_ENDS.iter().any(|end| name.ends_with(end))
        || SECRET_PARTS.iter().any(|part| name.contains(part))
}
