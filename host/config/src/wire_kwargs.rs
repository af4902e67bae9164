//! `model_kwargs` as an adapter gets them. litellm does not send its own parameters to the server, so
//! this host must not either.

use serde_json::{Map, Value};

use super::model_choice::ModelChoice;
use super::sections::Config;
use super::{provider_params, providers};

/// Parameters of litellm's that the built-in adapters know: they log which ones they drop.
const OF_ADAPTERS: [&str; 9] = [
    "additional_drop_params",
    "allowed_openai_params",
    "cache",
    "caching",
    "drop_params",
    "fallbacks",
    "max_retries",
    "model_info",
    "num_retries",
];

/// The parameters of litellm's that this host translates into settings of its own.
const TAKEN: [&str; 17] = [
    "api_base",
    "api_key",
    "base_url",
    "cache_creation_input_token_cost",
    "cache_read_input_token_cost",
    "custom_llm_provider",
    "extra_body",
    "extra_headers",
    "headers",
    "input_cost_per_token",
    "organization",
    "output_cost_per_token",
    "request_timeout",
    "ssl_verify",
    "stream_timeout",
    "timeout",
    "verbose",
];

/// Litellm's other parameters, those of `all_litellm_params` in its version 1.106 that are no logins. It
/// sends none of them, and they have no effect here.
const OTHERS: &str = "acompletion adaptive_router_config adaptive_router_default_model aembedding \
    aimg_generation allm_passthrough_route allow_client_keepalive_override allowed_model_region arize_api_key \
    arize_error_sampling_rate arize_otlp_protocol arize_space_id arize_space_key arize_success_sampling_rate \
    assistant_continue_message async_call atext_completion attempted_targets auto_router_config \
    auto_router_config_path auto_router_default_model auto_router_embedding_model auto_router_max_input_chars \
    auto_router_model_compression auto_router_routing_compression azure azure_scope base_model bos_token \
    budget_duration cache_key caching_groups client client_side_timeout \
    complete_response completion_call_id complexity_router_config complexity_router_default_model \
    configurable_clientside_auth_params context_window_fallback_dict cooldown_time custom_prompt_dict \
    data_residency dd_agent_host dd_agent_port dd_api_key dd_site default_api_key_rpm_limit \
    default_api_key_tpm_limit disable_add_transform_inline_image_block enable_json_schema_validation \
    enable_prompt_caching enable_tag_filtering ensure_alternating_roles eos_token fallback_depth \
    fastest_response final_prompt_value fireworks_forward_user_id force_timeout gcs_bucket_name \
    gcs_path_service_account guardrails hf_model_name humanloop_api_key id itpm keepalive_seconds \
    langfuse_environment langfuse_host langfuse_prompt_version langfuse_public_key langfuse_secret \
    langfuse_secret_key langfuse_span_scope langsmith_api_key langsmith_base_url langsmith_project \
    langsmith_sampling_rate langsmith_tenant_id litellm_call_id litellm_credential_name \
    litellm_disabled_callbacks litellm_logging_obj litellm_metadata litellm_request_debug \
    litellm_session_id litellm_system_prompt litellm_trace_id \
    log_client_error_tracebacks logger_fn max_agentic_loops max_budget max_fallbacks max_file_size_mb \
    max_parallel_requests merge_reasoning_content_in_choices mock_response mock_timeout \
    model_alias_map model_config model_file_id_mapping model_list newrelic_api_key newrelic_region \
    no-log order otpm output_vector_size posthog_api_key posthog_api_url preset_cache_key prompt_environment \
    prompt_id prompt_label prompt_variables prompt_version provider_affinity_header \
    provider_specific_header proxy_server_request quality_router_config quality_router_default_model \
    regional_endpoint_uplift_multiplier regional_processing_uplift_multiplier_eu \
    regional_processing_uplift_multiplier_us region_name retry_policy retry_strategy roles \
    routing_strategy rpm rust search_tool_name secret_fields self shared_session \
    signoz_ingestion_endpoint signoz_ingestion_key silent_model stream_chunk_size stream_response \
    supports_system_message tag_regex tags text_completion tiered_pricing tpm ttl \
    turn_off_message_logging use_chat_completions_api use_client use_in_pass_through use_litellm_proxy \
    use_xai_oauth user_continue_message wandb_api_key weave_project_id weight";

/// Whether it is one of [`OTHERS`], or one of the many prices.
fn is_of_litellm(name: &str) -> bool {
    OTHERS.split(' ').any(|other| other == name)
        || !TAKEN.contains(&name)
            && ["cost_per_", "_token_cost"]
                .iter()
                .any(|it| name.contains(it))
        || name.starts_with("_litellm_")
}

/// `model_kwargs` as an adapter gets them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WireKwargs {
    /// Parameters of the request.
    pub parameters: Map<String, Value>,
    /// Headers of the request.
    pub headers: Vec<(String, String)>,
    /// The OpenAI organization that is billed, which OpenAI's client sends as a header.
    pub organization: Option<String>,
    /// What is not sent as it was written, for the user.
    pub notes: Vec<String>,
}

impl WireKwargs {
    /// Sorts the parameters of `config` for the chosen model. A `native` adapter is a built-in one, and also gets the
    /// parameters that control what it leaves out of a request, and `extra_body` by itself.
    #[must_use]
    pub fn of(config: &Config, choice: &ModelChoice, native: bool) -> Self {
        let given = &config.model.model_kwargs;
        let object = |name: &str| {
            given
                .get(name)
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
        };
        let dropped: Vec<&str> = match given.get("additional_drop_params") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let is_responses = choice.adapter == "openai_responses" || choice.api == Some("responses");
        // A part of the address, which then has it already.
        let is_in_address = |name: &str| {
            let address = choice.base_url.as_deref().unwrap_or_default();
            name == "api_version" && address.contains("api-version=")
        };
        // Other adapters may have parameters of the same names.
        let has_no_effect = |name: &str| (native || config.mini) && is_of_litellm(name);
        let is_own = |name: &str| {
            TAKEN.contains(&name)
                || !native && OF_ADAPTERS.contains(&name)
                || has_no_effect(name)
                // litellm uses it for its own logs only, except for Responses.
                || config.mini && name == "metadata" && !is_responses
                || is_in_address(name)
        };
        let sent = given
            .iter()
            .filter(|(name, _)| !is_own(name) && !dropped.contains(&name.as_str()));
        let mut parameters: Map<String, Value> = sent
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        // As in litellm, which puts parameters that are not OpenAI's into `extra_body` itself.
        let extra = object("extra_body");
        let extra: Map<String, Value> = extra
            .filter(|(name, _)| {
                provider_params::is_openais(name) || !parameters.contains_key(*name)
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let without_effect = given.keys().filter(|name| has_no_effect(name));
        let mut notes: Vec<String> = without_effect
            .map(|name| {
                format!("`model.model_kwargs.{name}` has no effect: it is a setting of litellm")
            })
            .collect();
        if !is_responses && choice.adapter == "openai" {
            let drops = given.get("drop_params") == Some(&Value::Bool(true));
            let provider = providers::canonical(&choice.prefix);
            if provider == "ollama" {
                let is_own_api = choice.api.is_some();
                notes.extend(provider_params::without_effect(is_own_api, &parameters));
            }
            let model = &choice.model;
            notes.extend(provider_params::fit(
                provider,
                model,
                drops,
                &mut parameters,
            ));
        }
        match native {
            true if !extra.is_empty() => {
                parameters.insert("extra_body".to_owned(), extra.into());
            }
            true => {}
            false => parameters.extend(extra),
        }
        let session = &config.model.session_header;
        let is_set_anew = |name: &str| session.keys().any(|it| it.eq_ignore_ascii_case(name));
        let headers = object("headers")
            .chain(object("extra_headers"))
            .filter(|(name, _)| !is_set_anew(name))
            .map(|(name, value)| (name.clone(), words(value)))
            .chain(session.clone())
            .collect();
        let organization = given.get("organization").filter(|name| !name.is_null());
        Self {
            parameters,
            headers,
            organization: organization.map(words),
            notes,
        }
    }
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
