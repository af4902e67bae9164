//! Properties of Claude models that requests depend on: the longest answer, how reasoning is
//! requested, and whether sampling parameters are accepted.

/// How a model's reasoning is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// The model is not known to reason, so an effort can't be expressed.
    Unknown,
    /// With a budget of tokens.
    Budget,
    /// Adaptive, with an effort; a budget is accepted too.
    Either,
    /// Adaptive, with an effort.
    Adaptive,
}

/// The properties that a request depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// The most tokens of one answer.
    pub max_tokens: u64,
    /// How its reasoning is requested.
    pub thinking: Thinking,
    /// Whether it is known to accept the effort `xhigh`.
    pub has_xhigh: bool,
    /// Whether reasoning can be switched off.
    pub may_rest: bool,
    /// Whether it accepts `temperature`, `top_p` and `top_k`.
    pub samples: bool,
    /// Whether a tool call can be forced.
    pub may_be_forced: bool,
}

const UNKNOWN: Traits = Traits {
    // Every model accepts this limit.
    max_tokens: 4096,
    thinking: Thinking::Unknown,
    has_xhigh: false,
    may_rest: true,
    samples: true,
    may_be_forced: true,
};

/// Models that Anthropic no longer offers by that name, but others may.
const OLD: Traits = Traits {
    thinking: Thinking::Budget,
    ..UNKNOWN
};

const BUDGET: Traits = Traits {
    max_tokens: 64_000,
    ..OLD
};

const EITHER: Traits = Traits {
    max_tokens: 128_000,
    thinking: Thinking::Either,
    ..UNKNOWN
};

const ADAPTIVE: Traits = Traits {
    thinking: Thinking::Adaptive,
    has_xhigh: true,
    samples: false,
    ..EITHER
};

const RESTLESS: Traits = Traits {
    may_rest: false,
    ..ADAPTIVE
};

const FREE: Traits = Traits {
    may_be_forced: false,
    ..RESTLESS
};

/// Models that are newer than this table.
const LATER: Traits = Traits {
    thinking: Thinking::Adaptive,
    ..UNKNOWN
};

/// Names without dates. The properties are those that mini-swe-agent's requests show, made by
/// litellm 1.106 (`vectors/litellm.json`).
const KNOWN: [(&str, Traits); 21] = [
    ("claude-3-7-sonnet", OLD),
    ("claude-sonnet-4", OLD),
    ("claude-opus-4", OLD),
    ("claude-opus-4-1", OLD),
    ("claude-haiku-4-5", BUDGET),
    ("claude-sonnet-4-5", BUDGET),
    ("claude-opus-4-5", BUDGET),
    ("claude-sonnet-4-6", EITHER),
    ("claude-opus-4-6", EITHER),
    ("claude-opus-4-7", ADAPTIVE),
    ("claude-opus-4-8", ADAPTIVE),
    ("claude-opus-5", ADAPTIVE),
    ("claude-sonnet-5", ADAPTIVE),
    ("claude-haiku-5-5", ADAPTIVE),
    ("claude-fable-5", RESTLESS),
    ("claude-mythos-5", RESTLESS),
    ("claude-mythos-preview", RESTLESS),
    ("claude-opus-5-5", FREE),
    ("claude-sonnet-5-5", FREE),
    ("claude-fable-5-1", FREE),
    ("claude-mythos-5-1", FREE),
];

/// The properties of a model, by its name in any server's spelling.
pub fn traits(model: &str) -> Traits {
    let name = family(model);
    let known = KNOWN.iter().find(|(known, _)| *known == name);
    match known {
        Some((_, traits)) => *traits,
        None if version(&name) > Some((4, 6)) => LATER,
        None => UNKNOWN,
    }
}

/// The version in a name such as `claude-opus-6-1`.
fn version(family: &str) -> Option<(u32, u32)> {
    let mut words = family.strip_prefix("claude-")?.split('-').skip(1);
    let major = words.next()?.parse().ok()?;
    let minor = words.next().map_or(Ok(0), str::parse).ok()?;
    Some((major, minor))
}

/// The name without the parts that servers put before it (`us.anthropic.`) and after it (a date, a
/// version of the deployment).
fn family(model: &str) -> String {
    let lower = model.to_ascii_lowercase();
    let name = &lower[lower.find("claude").unwrap_or(0)..];
    let name = name.split(['@', ':', '[']).next().unwrap_or(name);
    let name = name.replace('.', "-");
    let is_noise = |word: &str| {
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        (word.len() == 8 && digits(word))
            || (word.len() > 1 && word.starts_with('v') && digits(&word[1..]))
    };
    let words: Vec<&str> = name.split('-').take_while(|word| !is_noise(word)).collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_every_spelling() {
        for (model, expected) in [
            ("claude-sonnet-4-5-20250929", BUDGET),
            ("claude-haiku-4-5", BUDGET),
            ("claude-opus-4.5", BUDGET),
            ("anthropic/claude-opus-4-6", EITHER),
            ("us.anthropic.claude-opus-4-6-v1:0", EITHER),
            ("Claude-Opus-4-7@20260416", ADAPTIVE),
            ("claude-opus-4-6-20260205-v1:0", EITHER),
            ("claude-sonnet-5-5", FREE),
            ("claude-opus-4-1-20250805", OLD),
            ("claude-3-7-sonnet-20250219", OLD),
            ("claude-opus-4-9", LATER),
            ("claude-haiku-6", LATER),
            ("claude-sonnet-4-2", UNKNOWN),
            ("claude-3-opus-20240229", UNKNOWN),
            ("claude-next", UNKNOWN),
            ("MiniMax-M2", UNKNOWN),
            ("", UNKNOWN),
        ] {
            assert_eq!(traits(model), expected, "{model}");
        }
    }
}
