//! What is known of Claude models where a request needs it: how much they may write, how they
//! are told to think, and whether they take sampling parameters.

/// How a model is told to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// Not known to think; an effort can't be put into words for it.
    Unknown,
    /// With a budget of tokens.
    Budget,
    /// As it sees fit, with an effort.
    Adaptive,
}

/// What a request depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// The most that it writes in one answer.
    pub max_tokens: u64,
    /// How it is told to think.
    pub thinking: Thinking,
    /// Whether it takes `temperature`, `top_p` and `top_k`.
    pub samples: bool,
}

/// The most that every model writes, whatever it is.
const SAFE_MAX_TOKENS: u64 = 4096;

const BUDGET: Traits = Traits {
    max_tokens: 64_000,
    thinking: Thinking::Budget,
    samples: true,
};

const ADAPTIVE: Traits = Traits {
    max_tokens: 128_000,
    thinking: Thinking::Adaptive,
    samples: true,
};

const FIXED: Traits = Traits {
    samples: false,
    ..ADAPTIVE
};

/// Names without their dates, after litellm's table (1.109.1), by which requests of
/// mini-swe-agent are made.
const KNOWN: [(&str, Traits); 17] = [
    ("claude-haiku-4-5", BUDGET),
    ("claude-sonnet-4-5", BUDGET),
    ("claude-opus-4-5", BUDGET),
    ("claude-sonnet-4-6", ADAPTIVE),
    ("claude-opus-4-6", ADAPTIVE),
    ("claude-opus-4-7", FIXED),
    ("claude-opus-4-8", FIXED),
    ("claude-opus-5", FIXED),
    ("claude-opus-5-5", FIXED),
    ("claude-sonnet-5", FIXED),
    ("claude-sonnet-5-5", FIXED),
    ("claude-haiku-5-5", FIXED),
    ("claude-fable-5", FIXED),
    ("claude-fable-5-1", FIXED),
    ("claude-mythos-5", FIXED),
    ("claude-mythos-5-1", FIXED),
    ("claude-mythos-preview", FIXED),
];

/// What is known of a model, by its name in whatever spelling a server has for it.
pub fn traits(model: &str) -> Traits {
    let name = family(model);
    let known = KNOWN.iter().find(|(known, _)| *known == name);
    known.map_or(
        Traits {
            max_tokens: SAFE_MAX_TOKENS,
            thinking: Thinking::Unknown,
            samples: true,
        },
        |(_, traits)| *traits,
    )
}

/// The name without what servers put before it (`us.anthropic.`) and after it (a date, a
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
            ("anthropic/claude-opus-4-6", ADAPTIVE),
            ("us.anthropic.claude-opus-4-6-v1:0", ADAPTIVE),
            ("Claude-Opus-4-7@20260416", FIXED),
            ("claude-opus-4-6-20260205-v1:0", ADAPTIVE),
            ("claude-sonnet-5-5", FIXED),
        ] {
            assert_eq!(traits(model), expected, "{model}");
        }
        for model in [
            "claude-3-opus-20240229",
            "claude-opus-4-1",
            "MiniMax-M2",
            "",
        ] {
            let traits = traits(model);
            assert_eq!(traits.max_tokens, 4096, "{model}");
            assert_eq!(traits.thinking, Thinking::Unknown, "{model}");
            assert!(traits.samples, "{model}");
        }
    }
}
