//! The tokens of a reply, by the provider's response.

use mswea_core::Usage;
use serde_json::Value;

/// The tokens that a response names: one of chat completions, or of the Responses API.
pub fn usage_of(response: &Value) -> Option<Usage> {
    let told = response.get("usage")?;
    let count = |paths: [&str; 2]| {
        let mut found = paths.iter().filter_map(|path| told.pointer(path)?.as_u64());
        found.next()
    };
    let input = count(["/prompt_tokens", "/input_tokens"]);
    let output = count(["/completion_tokens", "/output_tokens"]);
    input.or(output)?;
    let cached = [
        "/prompt_tokens_details/cached_tokens",
        "/input_tokens_details/cached_tokens",
    ];
    let reasoning = [
        "/completion_tokens_details/reasoning_tokens",
        "/output_tokens_details/reasoning_tokens",
    ];
    Some(Usage {
        input_tokens: input.unwrap_or_default(),
        cache_read_tokens: count(cached).unwrap_or_default(),
        output_tokens: output.unwrap_or_default(),
        reasoning_tokens: count(reasoning).unwrap_or_default(),
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_that_a_response_names() {
        for (told, wanted) in [
            (
                json!({"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": null}),
                Some([100, 0, 10, 0]),
            ),
            (
                json!({
                    "prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4},
                    "completion_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 2},
                }),
                Some([9, 4, 3, 2]),
            ),
            (
                json!({
                    "input_tokens": 7, "input_tokens_details": {"cached_tokens": 5},
                    "output_tokens": 6, "output_tokens_details": {"reasoning_tokens": 1},
                }),
                Some([7, 5, 6, 1]),
            ),
            (json!({"prompt_tokens_details": null}), None),
            (json!(null), None),
        ] {
            let found = usage_of(&json!({ "usage": told })).map(|it| {
                let (read, reasoning) = (it.cache_read_tokens, it.reasoning_tokens);
                [it.input_tokens, read, it.output_tokens, reasoning]
            });
            assert_eq!(found, wanted, "{told}");
        }
    }
}
