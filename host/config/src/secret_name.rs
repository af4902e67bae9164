//! Names by which a secret is recognised: of keys in a config, of variables, headers and
//! parameters.

use std::borrow::Cow;

/// The text that replaces a secret.
pub(super) const MARK: &str = "[redacted]";

/// Whether the values of this key are secrets.
pub(super) fn is_secret(key: &str) -> bool {
    let is_other = |c: char| c == '-' || c == ' ' || c.is_ascii_uppercase();
    // Most keys are in this form already.
    let key = match key.contains(is_other) {
        true => Cow::Owned(key.to_ascii_lowercase().replace(['-', ' '], "_")),
        false => Cow::Borrowed(key),
    };
    // The name of a secret is no secret, and neither is the price of a token.
    if ["_env", "_file", "_path", "_per_token"]
        .iter()
        .any(|end| key.ends_with(end))
        || key == "secrets"
    {
        return false;
    }
    const WHOLE: &[&str] = &[
        "authorization",
        "cookie",
        "token",
        "secret",
        "auth",
        "apikey",
        "bearer",
    ];
    const PARTS: &[&str] = &[
        "api_key",
        "password",
        "passwd",
        "passphrase",
        "credential",
        "private_key",
        "access_key",
        "secret_key",
        "virtual_key",
        "client_secret",
        "set_cookie",
    ];
    const ENDS: &[&str] = &["_token", "_secret", "_apikey", "_authorization", "_auth"];
    WHOLE.contains(&&*key)
        || PARTS.iter().any(|part| key.contains(part))
        || ENDS.iter().any(|end| key.ends_with(end))
}

/// Whether a variable of the commands is a secret, by its name. The test is wider than for keys of
/// a config, because variables' names follow no rule, and hiding one too many does little harm.
pub(super) fn is_secret_variable(name: &str) -> bool {
    // `TOKENIZER` in a name does not make it a token.
    let name = name.to_ascii_uppercase().replace("TOKENIZER", "");
    name == "KEY"
        || name.ends_with("_KEY")
        || ["PASS", "TOKEN", "SECRET"]
            .iter()
            .any(|part| name.contains(part))
}
