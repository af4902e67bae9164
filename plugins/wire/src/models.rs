//! Properties of OpenAI's models that follow from their names: which parameters they accept. The
//! rules are litellm's, with which it sends them for mini-swe-agent.

/// The model's own name, without the prefix of a router or a fine-tuned model.
fn own_name(model: &str) -> &str {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.strip_prefix("ft:").unwrap_or(name)
}

/// Models that accept only a temperature of 1 while they reason.
pub fn is_reasoning_series(model: &str) -> bool {
    let is_series = ["gpt-5", "gpt-6"].iter().any(|mark| model.contains(mark));
    is_series && !own_name(model).contains("gpt-5-chat")
}

/// Models of that series that reason only if an effort is set.
pub fn rests_by_default(model: &str) -> bool {
    let name = own_name(model);
    let rest = ["gpt-5.1", "gpt-5.2", "gpt-5.4"]
        .iter()
        .find_map(|version| name.strip_prefix(version));
    let Some(rest) = rest else { return false };
    let rest = rest
        .strip_prefix("-mini")
        .or_else(|| rest.strip_prefix("-nano"))
        .unwrap_or(rest);
    // Only a date may follow.
    rest.is_empty()
        || rest
            .strip_prefix("-20")
            .is_some_and(|date| date.bytes().all(|b| b.is_ascii_digit() || b == b'-'))
}

/// OpenAI's models without reasoning.
pub fn never_reasons(model: &str) -> bool {
    let families = ["gpt-4", "gpt-3.5", "chatgpt-", "gpt-audio"];
    families
        .iter()
        .any(|family| own_name(model).starts_with(family))
}

/// OpenAI's older models that reason (`o1`, `o3-mini`, ...).
pub fn is_o_series(model: &str) -> bool {
    let mut letters = own_name(model).bytes();
    letters.next() == Some(b'o') && letters.next().is_some_and(|digit| digit.is_ascii_digit())
}
