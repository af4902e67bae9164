//! SWE-agent's command line and files: converts its flags and YAML to the configuration of this
//! host ([`translate`]), makes its trajectory from a journal
//! ([`Trajectory`](trajectory::trajectory)), and has its small commands on files ([`tidy`]).

pub mod attempts;
mod batch_settings;
mod batch_statuses;
mod bundles;
mod challenge;
mod configs;
mod fault;
mod flags;
mod github;
mod given_at;
mod images;
mod instance_items;
mod instances;
mod keys;
mod places;
mod problem;
mod pull_request;
mod recorded_authority;
mod replay;
pub mod tidy;
pub mod trajectory;
mod translate;
mod tree;
mod web;

pub use batch_settings::{InstanceSource, SweBatchSettings};
pub use batch_statuses::SweBatchStatuses;
pub use bundles::with_located_bundles;
pub use challenge::Challenge;
pub use configs::names as shipped_configs;
pub use fault::{SweAgentError, SweAgentProblem};
pub use flags::{SweRequest, expand, read_command_line};
pub use github::IssueSource;
pub use given_at::GivenAt;
pub use instance_items::read_items;
pub use instances::{SweInstance, instances_of};
pub use keys::{SweCommand, check_tree, keys};
pub use places::{SweFiles, replay_folder, standard_folder};
pub use problem::{SweProblem, read_problem, short_hash};
pub use pull_request::{OpenPullRequest, pull_request_for};
pub use recorded_authority::{AskedByRecord, asked_by_record};
pub use replay::{RecordedRun, recorded};
pub use translate::{Translated, TranslationInput, translate, translate_model};
pub use tree::GivenTree;
pub use web::{github_server, github_token};
