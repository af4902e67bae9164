//! `agent.model`: the model, its limits and its key.

use serde_json::{Map, Value, json};

use super::TranslationWork;
use crate::flags::expand;

/// The variable for a key that the configuration contains.
const KEY: &str = "SWE_AGENT_MODEL_API_KEY";

pub(super) fn model(work: &mut TranslationWork<'_>) {
    name(work);
    let limit = work
        .number("agent.model.per_instance_cost_limit")
        .unwrap_or(3.0);
    let total = work.number("agent.model.total_cost_limit").unwrap_or(0.0);
    // For a single run, the smaller limit applies.
    let cost = match (limit > 0.0, total > 0.0) {
        (true, true) => limit.min(total),
        (true, false) => limit,
        (false, true) => total,
        (false, false) => 0.0,
    };
    let at = work
        .given("agent.model.per_instance_cost_limit")
        .or_else(|| work.given("agent.model.total_cost_limit"));
    match at {
        Some(tree) => work.put("agent.cost_limit", cost, &tree.at),
        None => work.put_fixed("agent.cost_limit", cost),
    }
    work.copy("agent.model.per_instance_call_limit", "agent.step_limit", 0);
    request(work);
    key(work);
    if let Some(tree) = work.given("agent.model.api_base") {
        work.put("model.base_url", tree.value(), &tree.at);
    }
    if let Some(tree) = work.given("agent.model.litellm_model_registry") {
        match expand(tree.text().unwrap_or_default(), work.input.variable) {
            Ok(path) => work.put("model.litellm_model_registry", path, &tree.at),
            Err(problem) => work.problems.push(problem),
        }
    }
    let retries = work.number("agent.model.retry.retries").unwrap_or(20.0);
    let retries = (retries - 1.0).max(0.0) as i64;
    for key in ["model.rate_limit_retries", "model.network_retries"] {
        work.put_fixed(key, retries);
    }
    if let Some(tree) = work.given("agent.model.retry.min_wait") {
        let wait = work.number("agent.model.retry.min_wait").unwrap_or(10.0);
        work.put("model.retry_wait", wait.max(0.001), &tree.at);
    } else {
        work.put_fixed("model.retry_wait", 10.0);
    }
    work.warn_unless(
        "agent.model.retry.max_wait",
        &[json!(120), json!(120.0)],
        "the wait between two requests doubles up to a minute",
    );
    work.refuse_unless(
        "agent.model.convert_system_to_user",
        &[json!(false)],
        "put the system template's text at the beginning of the instance template",
    );
    work.warn_unless(
        "agent.model.delay",
        &[json!(0), json!(0.0)],
        "a rate limit of the provider is waited for",
    );
    work.refuse_unless(
        "agent.model.fallbacks",
        &[json!([])],
        "name a gateway that changes between models, for example `litellm_proxy/NAME`",
    );
    let counted = "tokens are not counted before a request; the provider's own limit ends the run";
    work.warn_unless("agent.model.max_input_tokens", &[json!(0)], counted);
    work.warn_unless("agent.model.custom_tokenizer", &[json!({})], counted);
}

fn name(work: &mut TranslationWork<'_>) {
    let Some(tree) = work.given("agent.model.name") else {
        let problem = crate::fault::SweAgentProblem::new("no model was given");
        let hint = "write `--agent.model.name=NAME`, for example `gpt-4o` or `openai/NAME`";
        work.problems.push(problem.hint(hint));
        return;
    };
    let name = tree.text().unwrap_or_default();
    let instead = match name {
        "human" | "human_thought" => Some("a person can't take the model's place in this version"),
        "instant_empty_submit" => Some(
            "name a model of a server of yours, for example `--agent.model.name=openai/test --agent.model.api_base=URL`",
        ),
        _ => None,
    };
    match instead {
        Some(hint) => {
            work.refuse(
                &tree.at,
                format!("the model `{name}` can't be used here"),
                hint,
            );
        }
        None => work.put("model.model_name", name, &tree.at),
    }
}

/// The parameters of requests.
fn request(work: &mut TranslationWork<'_>) {
    let mut parameters = Map::new();
    let temperature = work.number("agent.model.temperature").unwrap_or(0.0);
    parameters.insert("temperature".to_owned(), temperature.into());
    let is_null = work
        .input
        .tree
        .get(&["agent", "model", "top_p"])
        .is_some_and(crate::tree::GivenTree::is_null);
    if !is_null {
        let top_p = work.number("agent.model.top_p").unwrap_or(1.0);
        parameters.insert("top_p".to_owned(), top_p.into());
    }
    let renamed = [
        ("stop", "stop"),
        ("max_output_tokens", "max_tokens"),
        ("api_version", "api_version"),
    ];
    for (theirs, ours) in renamed {
        if let Some(tree) = work.given(&format!("agent.model.{theirs}"))
            && ![json!([]), json!(0)].contains(&tree.value())
        {
            parameters.insert(ours.to_owned(), tree.value());
        }
    }
    if let Some(tree) = work.given("agent.model.completion_kwargs")
        && let Value::Object(more) = tree.value()
    {
        parameters.extend(more);
    }
    work.put_fixed("model.model_kwargs", Value::Object(parameters));
}

fn key(work: &mut TranslationWork<'_>) {
    let Some(tree) = work.given("agent.model.api_key") else {
        return;
    };
    let given = tree.text().unwrap_or_default();
    let key = match given.strip_prefix('$') {
        Some(name) => match (work.input.variable)(name) {
            Some(key) => key,
            None => {
                let message = format!("the variable `{name}` of `agent.model.api_key` is not set");
                work.refuse(
                    &tree.at,
                    message,
                    "set it, or leave out the key to use the provider's own variable",
                );
                return;
            }
        },
        None => given.to_owned(),
    };
    let keys: Vec<&str> = key.split(":::").collect();
    let place = work.input.place % keys.len();
    let name = match place {
        0 => KEY.to_owned(),
        place => format!("{KEY}_{}", place + 1),
    };
    let own = (name.clone(), keys[place].to_owned());
    work.done.secrets.push(own);
    work.put("model.api_key_env", name, &tree.at);
}
