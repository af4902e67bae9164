//! Token counts, which servers report in several ways.

use mswea_sdk::types::Usage;
use serde_json::Value;

use crate::json::{cost, count};

/// Parses a `usage` object; none if it has neither a count nor a cost.
pub(super) fn usage(usage: &Value) -> Option<Usage> {
    let usage = usage.as_object()?;
    let prompt = usage.get("prompt_tokens_details");
    let completion = usage.get("completion_tokens_details");
    let top = |key: &str| count(usage.get(key));
    let in_prompt = |key: &str| count(prompt.and_then(|details| details.get(key)));
    let cache_read_tokens = in_prompt("cached_tokens")
        .or_else(|| top("cache_read_input_tokens"))
        .or_else(|| top("prompt_cache_hit_tokens"))
        .unwrap_or(0);
    let cache_write_tokens = top("cache_creation_input_tokens")
        .or_else(|| in_prompt("cache_creation_tokens"))
        .or_else(|| in_prompt("cache_write_tokens"))
        .unwrap_or(0);
    let reasoning = completion.and_then(|details| details.get("reasoning_tokens"));
    let mut reasoning_tokens = count(reasoning).unwrap_or(0);
    let [input, output, total] = ["prompt_tokens", "completion_tokens", "total_tokens"].map(top);
    let cost = cost(usage.get("cost"));
    if input.or(output).or(total).is_none() && cost.is_none() {
        return None;
    }
    let mut input_tokens = input.unwrap_or(0);
    let mut output_tokens = output.unwrap_or(0);
    // Some servers count cached or reasoning tokens only in the total.
    let missing = total
        .unwrap_or(0)
        .saturating_sub(input_tokens.saturating_add(output_tokens));
    if missing > 0 {
        let cached = cache_read_tokens.saturating_add(cache_write_tokens);
        if [cache_read_tokens, cache_write_tokens, cached].contains(&missing) {
            input_tokens = input_tokens.saturating_add(missing);
        } else {
            output_tokens = output_tokens.saturating_add(missing);
            reasoning_tokens = reasoning_tokens.max(missing);
        }
    }
    Some(Usage {
        input_tokens,
        cache_read_tokens,
        cache_write_tokens,
        output_tokens,
        reasoning_tokens,
        cost,
        extra: None,
    })
}
