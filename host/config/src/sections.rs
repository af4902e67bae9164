//! The resolved configuration: one plain struct per section.
//!
//! There are no serde defaults here: [`super::keys`] is the only place of defaults, and
//! [`super::Layers::resolve`] fills them in. A test compares the fields with that table.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::given_key::GivenKey;
use super::set_by::SetBy;

/// Everything that a run is made from. The fields are the keys of [`super::keys::KEYS`], which has
/// their docs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The loop: prompts and limits.
    pub agent: AgentConfig,
    /// The model and its requests.
    pub model: ModelConfig,
    /// The place where commands run.
    pub environment: EnvironmentConfig,
    /// The folder or repository on which the commands work.
    pub workspace: WorkspaceConfig,
    /// The tools of the model.
    pub tools: ToolsSection,
    /// The task, and the command at the end of the run.
    pub run: RunSection,
    /// Which plugins take which role.
    pub pipeline: PipelineConfig,
    /// Settings of plugins, by name.
    pub plugins: BTreeMap<String, PluginEntry>,
    /// Model prefixes beside the built-in ones.
    pub providers: BTreeMap<String, ProviderEntry>,
    /// Whether it was written for mini-swe-agent: then templates get mini-swe-agent's variables.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mini: bool,
    /// The places at which the model's address and its key were set.
    #[serde(skip)]
    pub set_by: SetBy,
    /// The key itself, if a file of mini-swe-agent holds it.
    #[serde(skip)]
    pub given_key: Option<GivenKey>,
}

/// A text that is empty in formats that have no null.
fn unless_empty<'de, D: Deserializer<'de>>(given: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(given)?;
    Ok(text.filter(|text| !text.trim().is_empty()))
}

/// `[agent]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in the table of keys")]
pub struct AgentConfig {
    pub system_template: String,
    pub instance_template: String,
    pub step_limit: i64,
    pub cost_limit: f64,
    pub wall_time_limit_seconds: i64,
    pub max_consecutive_format_errors: i64,
    pub max_consecutive_timeouts: i64,
    pub total_execution_timeout: f64,
    pub rules: String,
    pub strategy_template: Option<String>,
    pub demonstrations: Map<String, Value>,
    pub action_sampler: Map<String, Value>,
    pub syntax_error_template: String,
    #[serde(deserialize_with = "unless_empty")]
    pub salvage_command: Option<String>,
    pub salvage_timeout: f64,
    pub output_path: Option<String>,
    pub mode: Option<String>,
    pub agent_class: Option<String>,
    pub whitelist_actions: Vec<String>,
    pub confirm_exit: bool,
}

/// `[model]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in the table of keys")]
pub struct ModelConfig {
    pub model_name: Option<String>,
    pub model_class: Option<String>,
    pub base_url: Option<String>,
    pub api_key_env: Option<String>,
    pub plain_http_hosts: Vec<String>,
    pub stream: bool,
    pub merge_user_messages: bool,
    pub model_kwargs: Map<String, Value>,
    pub session_header: BTreeMap<String, String>,
    pub observation_template: Option<String>,
    pub format_error_template: String,
    pub action_regex: Option<String>,
    pub set_cache_control: Option<String>,
    pub multimodal_regex: String,
    pub cost_tracking: String,
    pub provider: Option<String>,
    pub litellm_model_registry: Option<String>,
    pub litellm_model_name_override: Option<String>,
    pub price: Option<Price>,
    pub connect_timeout: f64,
    pub first_byte_timeout: Option<f64>,
    pub idle_timeout: Option<f64>,
    pub total_timeout: Option<f64>,
    pub rate_limit_retries: u32,
    pub network_retries: u32,
    pub retry_wait: f64,
    pub max_response_bytes: u64,
    pub secrets_file: Option<String>,
}

/// `[model.price]`: dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in the table of keys")]
pub struct Price {
    pub input: f64,
    pub output: f64,
    pub cache_read: Option<f64>,
    pub cache_write: Option<f64>,
}

/// `[environment]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in the table of keys")]
pub struct EnvironmentConfig {
    pub environment_class: String,
    pub cwd: String,
    pub env: IndexMap<String, String>,
    pub timeout: f64,
    pub interpreter: Vec<String>,
    pub session: bool,
    pub pty: bool,
    pub env_allow: Vec<String>,
    pub capture_bytes: u64,
    pub sandbox: String,
    pub sandbox_network: bool,
    pub sandbox_sockets: bool,
    pub writable: Vec<String>,
    pub image: Option<String>,
    pub forward_env: Vec<String>,
    pub executable: Option<String>,
    pub run_args: Vec<String>,
    pub container_timeout: String,
    pub pull_timeout: f64,
    pub start_timeout: f64,
    pub transport: String,
    pub fast_path: bool,
    pub keep_container: bool,
    pub user: Option<String>,
    pub network: Option<String>,
    pub mounts: Vec<String>,
    pub memory: Option<String>,
    pub cpus: Option<f64>,
    pub platform: Option<String>,
    pub sandbox_build_retries: u32,
    pub build_timeout: f64,
    pub global_args: Vec<String>,
    pub exec_args: Vec<String>,
    pub wrapper_args: Option<Vec<String>>,
    pub url: Option<String>,
    pub token_file: Option<String>,
    pub token_env: Option<String>,
    pub ca_file: Option<String>,
    pub reconnect_seconds: f64,
    pub connect: Vec<String>,
    pub connect_timeout: f64,
}

/// `[workspace]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in the table of keys")]
pub struct WorkspaceConfig {
    pub repo: Option<String>,
    pub path: Option<String>,
    pub base_commit: Option<String>,
    pub reset: bool,
    pub startup_commands: Vec<String>,
    pub startup_timeout: f64,
}

/// `[tools]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in the table of keys")]
pub struct ToolsSection {
    pub bundles: Vec<String>,
    pub hidden: Vec<String>,
    pub env_variables: BTreeMap<String, String>,
    pub registry_variables: Map<String, Value>,
    pub bash_tool: bool,
    pub root: String,
    pub install_timeout: f64,
    pub state_timeout: f64,
    pub long_outputs: String,
    pub longest_output: usize,
    pub flag: Option<String>,
}

/// `[run]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in the table of keys")]
pub struct RunSection {
    pub task: Option<String>,
    pub env_startup_command: Option<String>,
    pub on_end: Option<String>,
    pub atif_path: Option<String>,
    pub on_end_timeout: f64,
}

/// `[pipeline]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in the table of keys")]
pub struct PipelineConfig {
    pub adapter: Option<String>,
    pub parser: String,
    pub formatter: String,
    pub processors: Vec<String>,
    pub policies: Vec<String>,
}

/// `[plugins.NAME]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in the table of keys")]
pub struct PluginEntry {
    pub path: Option<String>,
    pub config: Map<String, Value>,
    pub allow_hosts: Vec<String>,
    pub secrets: Vec<String>,
    pub sha256: Option<String>,
    pub deadline_ms: u64,
    pub memory_mb: u64,
    pub max_output_mb: u64,
    pub log_kb: u64,
}

/// `[providers.PREFIX]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in the table of keys")]
pub struct ProviderEntry {
    pub adapter: String,
    pub base_url: Option<String>,
    pub api_key_env: Option<String>,
}
