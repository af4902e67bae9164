//! Configuration: from files, presets, `-c` settings, the environment and flags to one checked
//! [`Config`].
//!
//! What was given and what it means are two types. [`Layers`] is the raw side: a tree of values in
//! which every value knows its [`Origin`], so that an error can point at the line and `config show
//! --origin` can show where each value was set. [`Config`] is the resolved side: plain typed
//! sections, with every default filled in.
//!
//! All keys, their types, defaults and one-line docs stand in one table ([`keys`]); strict
//! checking, did-you-mean, the JSON Schema and the docs are derived from it. This module does not
//! know about plugins or providers beyond names: whether a plugin exists, or its free-form `config`
//! fits its schema, is checked by the code that loads it, which uses [`Layers::origin_of`] to name
//! the origin of a wrong value.

mod authority;
mod check;
mod environment;
mod environment_class;
mod error;
mod files;
mod given_key;
mod host_env;
mod import_paths;
mod key_rule;
pub mod keys;
mod layers;
mod litellm;
mod logins;
mod mini_files;
mod model_choice;
mod model_class;
mod node;
mod origin;
mod presets;
mod provider_params;
mod providers;
mod recorded;
mod redact;
mod request_time;
mod resolve;
mod schema;
mod secret_look;
mod secret_name;
mod sections;
mod set_by;
mod show;
mod spec;
mod suggest;
mod toml_file;
mod version_1;
mod wire_kwargs;
pub mod yaml;
mod yaml_file;

#[cfg(test)]
mod testing;

pub use authority::{RecordedValue, names_no_file};
pub use environment_class::{EnvironmentClass, EnvironmentKind, find as environment_class};
pub use error::{ConfigError, ConfigProblem, ProblemKind};
pub use given_key::{GIVEN_KEY, GivenKey};
pub use host_env::{HostEnvironment, ProcessEnvironment};
pub use layers::{Layers, Sources};
pub use litellm::trusted_certificates;
pub use model_choice::{ModelChoice, resolve_model, resolve_model_in, whose_model};
pub use model_class::{ModelClass, find as model_class};
pub use origin::Origin;
pub use presets::NAMES as PRESETS;
pub use providers::{PROVIDERS, Provider, of_bare_name};
pub use recorded::RecordedConfig;
pub use redact::{is_secret_entry, redacted, spec as redacted_spec, without_marks};
pub use request_time::{RequestTimes, TimeLimit};
pub use schema::schema;
pub use secret_look::is_credential as is_credential_value;
pub use sections::{
    AgentConfig, Config, EnvironmentConfig, ModelConfig, PipelineConfig, PluginEntry, Price,
    ProviderEntry, RunSection, ToolsSection, WorkspaceConfig,
};
pub use set_by::SetBy;
pub use wire_kwargs::WireKwargs;
