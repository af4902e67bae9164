//! A key in `model_kwargs` of mini-swe-agent's files: it is taken out of its layer as soon as the
//! layer is read, and sent as a secret.

use std::fmt;

use serde_json::Value;

use super::node::{Content, Node};
use super::origin::Origin;
use super::secret_name::MARK;

/// litellm's prefix for a key that is in an environment variable.
pub(super) const VARIABLE: &str = "os.environ/";

/// The name of the secret that a key in `model_kwargs` becomes.
pub const GIVEN_KEY: &str = "MODEL_KWARGS_API_KEY";

/// The path of such a key.
const KEY: [&str; 3] = ["model", "model_kwargs", "api_key"];

/// A key that a file of mini-swe-agent holds. `Debug` hides it and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct GivenKey {
    text: String,
    origin: Origin,
}

impl GivenKey {
    /// The key, for the host's secrets.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// The warning for the user.
    #[must_use]
    pub fn warning(&self) -> String {
        let readers = match self.origin {
            Origin::File { .. } => "the model's commands can read that file",
            _ => "every process of this machine sees the command line",
        };
        format!(
            "`model.model_kwargs.api_key` ({}) holds a key: it is sent and not written down \
             anywhere, but {readers}; put it into an environment variable or \
             `model.secrets_file`, and its name into `model.api_key_env`",
            self.origin
        )
    }
}

impl fmt::Debug for GivenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenKey")
            .field("origin", &self.origin.to_string())
            .finish_non_exhaustive()
    }
}

/// The change that a layer makes to the key in `model_kwargs`.
pub(super) enum KeyChange {
    /// Nothing.
    None,
    /// It removes the key, names a variable instead, or holds a key that is refused.
    Gone,
    /// It held this key, which was taken out of it.
    Taken(GivenKey),
}

/// Takes a key out of a layer. Only layers of `mini`-swe-agent may hold one.
pub(super) fn take_key(layer: &mut Node, mini: bool) -> KeyChange {
    let origin = layer.origin_of(&KEY).cloned();
    let (Some(node), Some(origin)) = (layer.get_mut(&KEY), origin) else {
        return KeyChange::None;
    };
    let text = match &node.content {
        Content::Scalar(Value::String(text)) => text.trim().to_owned(),
        Content::Scalar(Value::Number(number)) => number.to_string(),
        _ => return KeyChange::Gone,
    };
    if !mini || text.is_empty() || text.starts_with(VARIABLE) {
        return KeyChange::Gone;
    }
    node.content = Content::Scalar(MARK.into());
    KeyChange::Taken(GivenKey { text, origin })
}
