//! The options of an examination.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use mswea_core::{Action, Message, Output, Reply, RoleKind};

/// The kinds, the inputs and the effort of an examination.
#[derive(Clone, Debug, Default)]
pub struct ExaminationOptions {
    /// The kinds to examine; empty for all kinds of the plugin.
    pub kinds: Vec<RoleKind>,
    /// Configs that the author knows to be valid. More are derived from the schema.
    pub configs: Vec<Value>,
    /// The author's inputs, in addition to the kit's own.
    pub samples: Samples,
    /// Seed of the random inputs: the same seed leads to the same examination.
    pub seed: u64,
    /// How much to try.
    pub effort: Effort,
    /// The time limit of one group of laws with one config; none: that of the effort.
    pub time: Option<Duration>,
}

impl ExaminationOptions {
    pub(super) fn scale(&self) -> Scale {
        let mut scale = self.effort.scale();
        if let Some(time) = self.time {
            (scale.time, scale.shrinking) = (time, time / 6);
        }
        scale
    }
}

/// How thorough an examination is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// A little of everything, and nothing huge: seconds even for slow guests.
    Quick,
    /// Everything.
    #[default]
    Full,
}

impl Effort {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }

    /// Its figures.
    pub(super) fn scale(self) -> Scale {
        match self {
            Self::Quick => Scale {
                huge: 32 << 10,
                many: 200,
                sequences: 4,
                long: 60,
                configs: 3,
                time: Duration::from_secs(4),
                shrinking: Duration::from_millis(700),
            },
            Self::Full => Scale {
                huge: 1 << 20,
                many: 3000,
                sequences: 25,
                long: 300,
                configs: 10,
                time: Duration::from_secs(20),
                shrinking: Duration::from_secs(3),
            },
        }
    }
}

/// The figures of an effort.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Bytes of a huge text.
    pub huge: usize,
    /// How many parts, calls or messages count as many.
    pub many: usize,
    /// Random sequences of calls for each config.
    pub sequences: usize,
    /// Calls in the one long sequence for each config: the effects of counters and of growing state
    /// show late.
    pub long: usize,
    /// The most configs that are used, besides the given ones.
    pub configs: usize,
    /// The time limit of one group of laws.
    pub time: Duration,
    /// The time limit for making one input smaller.
    pub shrinking: Duration,
}

/// The author's inputs. As JSON: `{"replies": [...], "steps": [{"actions": [...], "outputs":
/// [...]}], "histories": [[...]], "responses": [{"body": "..."}], "invalid_configs": [...]}`, all
/// of them optional; the values are written as in the journal.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Samples {
    /// Replies, for parsers.
    pub replies: Vec<Reply>,
    /// Actions, for policies.
    pub actions: Vec<Action>,
    /// Actions and their outputs, for formatters.
    pub steps: Vec<StepSample>,
    /// Histories, for processors and adapters.
    pub histories: Vec<Vec<Message>>,
    /// Responses as the provider sends them, for adapters.
    pub responses: Vec<Response>,
    /// Configs that the plugin has to refuse.
    pub invalid_configs: Vec<Value>,
}

/// Actions and their outputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepSample {
    /// The actions.
    pub actions: Vec<Action>,
    /// Their outputs; possibly fewer.
    pub outputs: Vec<Output>,
}

/// A provider's response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The status.
    #[serde(default = "ok")]
    pub status: u16,
    /// The headers, names in lower case.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The body.
    #[serde(default)]
    pub body: ResponseBody,
    /// The offsets at which the body is cut into pieces; increasing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<usize>,
}

fn ok() -> u16 {
    200
}

impl Response {
    /// A response without cuts.
    pub(super) fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), content_type.into())],
            body: ResponseBody(body.into()),
            cuts: Vec::new(),
        }
    }

    /// The pieces, none of them empty.
    pub(super) fn pieces(&self) -> Vec<&[u8]> {
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in self.cuts.iter().copied().chain([self.body.0.len()]) {
            if cut > from && cut <= self.body.0.len() {
                pieces.push(&self.body.0[from..cut]);
                from = cut;
            }
        }
        pieces
    }
}

/// Bytes that are written as text if they are UTF-8, and otherwise as `{"hex": "..."}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseBody(pub Vec<u8>);

impl Serialize for ResponseBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => json!({ "hex": mswea_text::hex(&self.0) }).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ResponseBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Hex { hex: String },
        }
        match Written::deserialize(deserializer)? {
            Written::Text(text) => Ok(Self(text.into_bytes())),
            Written::Hex { hex } => {
                let digits = hex.as_bytes().chunks(2);
                let bytes = digits.map(|pair| {
                    let pair = std::str::from_utf8(pair)
                        .ok()
                        .filter(|pair| pair.len() == 2);
                    pair.and_then(|pair| u8::from_str_radix(pair, 16).ok())
                });
                bytes.collect::<Option<_>>().map(Self).ok_or_else(|| {
                    serde::de::Error::custom("`hex` must be pairs of hexadecimal digits")
                })
            }
        }
    }
}
