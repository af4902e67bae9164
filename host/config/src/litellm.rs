//! Parameters in `model_kwargs` of mini-swe-agent's files that are settings of litellm's client, and
//! what they set here. The config keeps them as they were written, for templates and trajectories. A
//! key is the exception: it is removed as soon as its layer is read.

use serde_json::{Map, Value};

use super::given_key::{GIVEN_KEY, VARIABLE};
use super::sections::{ModelConfig, Price};

/// The provider that `custom_llm_provider` names, if it is set.
pub(super) fn custom_provider(kwargs: &Map<String, Value>) -> Option<&str> {
    let custom = kwargs.get("custom_llm_provider")?.as_str()?.trim();
    (!custom.is_empty()).then_some(custom)
}

/// The file of trusted certificates that `ssl_verify` names, if it names one.
#[must_use]
pub fn trusted_certificates(kwargs: &Map<String, Value>) -> Option<&str> {
    let text = kwargs.get("ssl_verify")?.as_str()?;
    let is_word = ["true", "false"].map(|word| text.eq_ignore_ascii_case(word));
    (!text.is_empty() && is_word == [false, false]).then_some(text)
}

/// The warning for an `ssl_verify` that would switch off the check of certificates, which is not
/// done.
pub(super) fn unverified(kwargs: &Map<String, Value>) -> Option<String> {
    let wish = kwargs.get("ssl_verify")?;
    let is_off = *wish == false
        || wish
            .as_str()
            .is_some_and(|text| text.eq_ignore_ascii_case("false"));
    is_off.then(|| {
        "`model.model_kwargs.ssl_verify` = false has no effect: a server's certificate is always \
         checked; for one that no public authority has signed, write the file of the certificates \
         to trust there, or into `SSL_CERT_FILE`"
            .to_owned()
    })
}

/// Moves parameters of `model_kwargs` that have a key of their own to that key, unless the key is
/// set.
pub(super) fn translate(model: &mut ModelConfig, key_is_given: bool) {
    let kwargs = &model.model_kwargs;
    let text = |name: &str| {
        let text = kwargs.get(name).and_then(Value::as_str);
        text.filter(|text| !text.trim().is_empty())
    };
    let base_url = text("api_base").or_else(|| text("base_url"));
    let named = text("api_key").and_then(|key| key.strip_prefix(VARIABLE));
    let key = named.or(key_is_given.then_some(GIVEN_KEY));
    let (base_url, key) = (base_url.map(str::to_owned), key.map(str::to_owned));
    model.price = model.price.or_else(|| price(kwargs));
    model.base_url = model.base_url.take().or(base_url);
    model.api_key_env = model.api_key_env.take().or(key);
}

/// The price in `model_kwargs`, which litellm takes instead of the one in its table.
fn price(kwargs: &Map<String, Value>) -> Option<Price> {
    // Dollars per million tokens, without the error of a multiplication in binary.
    let given = |name: &str| {
        let cost = kwargs.get(name)?.as_f64().filter(|cost| *cost >= 0.0)?;
        Some((cost * 1e12).round() / 1e6)
    };
    let (input, output) = (
        given("input_cost_per_token"),
        given("output_cost_per_token"),
    );
    input.or(output)?;
    Some(Price {
        input: input.unwrap_or(0.0),
        output: output.unwrap_or(0.0),
        cache_read: given("cache_read_input_token_cost"),
        cache_write: given("cache_creation_input_token_cost"),
    })
}

#[cfg(test)]
mod tests;
