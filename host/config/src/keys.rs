//! The table of all keys: dotted path, type, default, one line of docs.
//!
//! All code that needs the keys reads this table: strict checking, did-you-mean, the defaults of
//! [`super::Config`], `config schema`, and the docs. A `*` in a path stands for a name that the
//! user chooses.

use serde_json::Value;

use super::environment_class;
use super::model_class;

/// The type of a key's value. A quoted number is not taken for an integer, nor an integer for a
/// text: such a value is usually a mistake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Type {
    /// Text.
    Text,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// True or false.
    Bool,
    /// An integer within these bounds.
    Int(i64, i64),
    /// A number (an integer will do) of at least this.
    Number(f64),
    /// A time in seconds: more than 0 and at most [`MAX_SECONDS`], so that a deadline can always be
    /// computed with it.
    Seconds,
    /// A list of texts.
    TextList,
    /// A map of texts; null removes the entry of a lower layer.
    TextMap,
    /// A map of anything.
    Object,
}

/// The longest time that [`Type::Seconds`] takes, about 30 years.
pub const MAX_SECONDS: f64 = 1e9;

/// Whether a value may be a path, which is relative to the config file that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// No file.
    Nothing,
    /// Always a file or a folder.
    File,
    /// A plugin: a file if it ends in `.wasm`, else a plugin's name.
    Plugin,
    /// A bundle of tools: a folder if it has a `/`, else the name of a first-party bundle.
    Bundle,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct ConfigKey {
    /// Dotted path.
    pub path: &'static str,
    /// The type of its value.
    pub kind: Type,
    /// Whether it may be null (unset).
    pub nullable: bool,
    /// The default as JSON; `None`: the key is required.
    pub default: Option<&'static str>,
    /// Its effect, in one line.
    pub doc: &'static str,
    /// Whether the value names a file.
    pub names: Names,
    /// The environment variable that sets it.
    pub variable: Option<&'static str>,
}

impl ConfigKey {
    /// The default as a value; null for a required key.
    pub fn default_value(&self) -> Value {
        self.default.map_or(Value::Null, |json| {
            json.parse()
                .expect("invariant: a test parses every default")
        })
    }

    /// The segments of the path.
    pub fn segments(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('.')
    }

    const fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    const fn names(mut self, names: Names) -> Self {
        self.names = names;
        self
    }

    const fn variable(mut self, name: &'static str) -> Self {
        self.variable = Some(name);
        self
    }
}

const fn key(
    path: &'static str,
    kind: Type,
    default: &'static str,
    doc: &'static str,
) -> ConfigKey {
    ConfigKey {
        path,
        kind,
        nullable: false,
        default: Some(default),
        doc,
        names: Names::Nothing,
        variable: None,
    }
}

const fn required(path: &'static str, kind: Type, doc: &'static str) -> ConfigKey {
    let mut required = key(path, kind, "null", doc);
    required.default = None;
    required
}

const fn optional(path: &'static str, kind: Type, doc: &'static str) -> ConfigKey {
    key(path, kind, "null", doc).nullable()
}

const ANY: Type = Type::Int(i64::MIN, i64::MAX);
const COUNT: Type = Type::Int(0, u32::MAX as i64);
const BYTES: Type = Type::Int(1, i64::MAX);

/// The ways of deciding, if there is a user at a terminal.
const MODES: &[&str] = &["human", "confirm", "yolo"];
/// How a container engine is reached.
const TRANSPORTS: &[&str] = &["auto", "api", "cli"];
const SANDBOXES: &[&str] = &["none", "landlock"];
const LONG_OUTPUTS: &[&str] = &["keep", "open", "summary"];
const RULES: &[&str] = &["mini-swe-agent", "swe-agent"];
const AGENT_CLASSES: &[&str] = &["interactive", "default"];

/// Every key, in the order in which it is shown.
#[rustfmt::skip]
pub const KEYS: &[ConfigKey] = &[
    required("agent.system_template", Type::Text, "Jinja template of the system message."),
    required("agent.instance_template", Type::Text, "Jinja template of the first user message; `task` is the task."),
    key("agent.step_limit", ANY, "0", "Ends the run before the query after this many, questions of history processors included; 0: no limit."),
    key("agent.cost_limit", Type::Number(f64::NEG_INFINITY), "3.0", "Ends the run once this many dollars are spent; 0: no limit."),
    key("agent.wall_time_limit_seconds", ANY, "0", "Ends the run after this many seconds; 0: no limit."),
    key("agent.max_consecutive_format_errors", ANY, "3", "Ends the run after this many unusable replies in a row; 0: no limit."),
    key("agent.max_consecutive_timeouts", COUNT, "0", "Ends the run after this many commands in a row that exceed `environment.timeout`; 0: no limit."),
    key("agent.total_execution_timeout", Type::Number(0.0), "0.0", "Ends the run before the query after its commands have taken this many seconds together; 0: no limit."),
    key("agent.rules", Type::OneOf(RULES), "\"mini-swe-agent\"", "Whose rules the loop follows: with `swe-agent`, the feedback on an unusable reply is dropped once there is a usable one, a denied command and one that bash can't read count as unusable replies, tools control the loop by the lines that they print, an end by a limit or an error submits the work, and exit statuses have SWE-agent's names."),
    optional("agent.strategy_template", Type::Text, "Jinja template of a further paragraph of the first user message; unset: none."),
    key("agent.demonstrations", Type::Object, "{}", "Messages before the task: a list `messages`, of maps with `role` and `content` as in a journal, or with the `template` of a user's message."),
    key("agent.action_sampler", Type::Object, "{}", "Asks the model several times for each step, as SWE-agent does: `type` (`ask_colleagues` with `n_samples`, or `binary_trajectory_comparison` with `min_n_samples`, `max_n_samples` and three templates); empty: asks once."),
    key("agent.syntax_error_template", Type::Text, "\"Bash can't read the command, so it was not run:\\n{{ bash_stderr }}\"", "Jinja template of what the model is told about a command that bash can't read (`agent.rules` = `swe-agent`, `environment.session`), with `action`, `bash_stdout` and `bash_stderr`."),
    key("agent.salvage_command", Type::Text, "\"@patch\"", "Shell command that is run at every ending, while the environment still exists, to save the work; `@patch`: once a command has run, the changes of the git work tree since the start, and the names of what can't be in a patch; `null`: none.").nullable(),
    key("agent.salvage_timeout", Type::Seconds, "30.0", "Time limit of the salvage command, in seconds."),
    optional("agent.output_path", Type::Text, "Where the trajectory goes; unset: a fresh folder per run."),
    optional("agent.mode", Type::OneOf(MODES), "Who decides at a terminal: `confirm` asks before commands run, `yolo` does not, in `human` the user gives the commands; unset: `confirm`. Without a terminal nobody is asked."),
    optional("agent.agent_class", Type::OneOf(AGENT_CLASSES), "mini-swe-agent's agent class: under `default` a submission is not answered; unset: as `interactive`."),
    key("agent.whitelist_actions", Type::TextList, "[]", "Commands that run without a question in mode `confirm`, as regular expressions that match at the beginning."),
    key("agent.confirm_exit", Type::Bool, "true", "Ask a user at a terminal before a submission ends the run."),

    optional("model.model_name", Type::Text, "The model as `prefix/name`, for example `openai/gpt-5`.").variable("MSWEA_MODEL_NAME"),
    optional("model.model_class", Type::OneOf(model_class::NAMES), "mini-swe-agent's model class: chooses the provider, its API and the parser."),
    optional("model.base_url", Type::Text, "Base URL of the provider's API; unset: the provider's own."),
    optional("model.api_key_env", Type::Text, "Name of the secret that holds the API key; unset: the provider's own."),
    key("model.plain_http_hosts", Type::TextList, "[]", "Hosts to which keys are sent over plain `http`, too: `host` or `host:port`; this machine, and private addresses that `base_url` names, need not be here."),
    key("model.stream", Type::Bool, "true", "Receive replies as a stream."),
    key("model.merge_user_messages", Type::Bool, "false", "Send messages of the user that follow one another as one; done in any case once a server has said that it wants alternating roles."),
    key("model.model_kwargs", Type::Object, "{}", "Further parameters of the request, passed on as they are."),
    key("model.session_header", Type::TextMap, "{}", "Headers that tell sessions apart, sent with each request; recorded, unless they look like secrets."),
    optional("model.observation_template", Type::Text, "Jinja template of a command's output, as the model sees it; unset: the formatter's own."),
    key("model.format_error_template", Type::Text, "\"{{ error }}\"", "Jinja template of what the model is told about an unusable reply."),
    optional("model.action_regex", Type::Text, "Regular expression with which a text parser finds the command; unset: the parser's own."),
    optional("model.set_cache_control", Type::OneOf(&["default_end"]), "Where the history processor `cache_control` marks the end of what may be cached; unset: `default_end` for Claude models, else nowhere."),
    key("model.multimodal_regex", Type::Text, "\"\"", "Regular expression (as of Python) whose matches in prompts and observations become images: its first group is the type, `image_url`, its second the URL; empty: no images."),
    key("model.cost_tracking", Type::OneOf(&["default", "ignore_errors"]), "\"default\"", "`ignore_errors`: go on when the price of a model is not known.").variable("MSWEA_COST_TRACKING"),
    optional("model.provider", Type::Text, "Provider that Portkey uses, where no virtual key determines it: `@openai`."),
    optional("model.litellm_model_registry", Type::Text, "File of prices in litellm's JSON format.").variable("LITELLM_MODEL_REGISTRY_PATH"),
    optional("model.litellm_model_name_override", Type::Text, "Name under which the model's price is looked up; unset: its own."),
    optional("model.price.input", Type::Number(0.0), "Dollars per million input tokens; unset: the cost is what the provider reports, else unknown."),
    optional("model.price.output", Type::Number(0.0), "Dollars per million output tokens."),
    optional("model.price.cache_read", Type::Number(0.0), "Dollars per million input tokens read from the cache; unset: as input."),
    optional("model.price.cache_write", Type::Number(0.0), "Dollars per million input tokens written to the cache; unset: as input."),
    key("model.connect_timeout", Type::Seconds, "10.0", "Time to connect, in seconds."),
    optional("model.first_byte_timeout", Type::Seconds, "Time from the request to the first byte of the response, in seconds; unset: `timeout` (or `request_timeout`, for streams `stream_timeout`) in `model.model_kwargs`, else as long as `model.total_timeout`."),
    optional("model.idle_timeout", Type::Seconds, "Longest pause within a response, in seconds; unset: as `model.first_byte_timeout`."),
    optional("model.total_timeout", Type::Seconds, "Time for one whole request, in seconds; unset: 600, or `timeout` in `model.model_kwargs` where that is longer."),
    key("model.rate_limit_retries", COUNT, "10", "How often a rate-limited or overloaded request is sent again.").variable("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT"),
    key("model.network_retries", COUNT, "9", "How often a request is sent again after a network fault, a timeout or a malformed response.").variable("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT"),
    key("model.retry_wait", Type::Seconds, "1.0", "Wait before a request is sent again, in seconds; it doubles each time, up to a minute."),
    key("model.max_response_bytes", BYTES, "67108864", "Size of the largest response that is accepted, in bytes."),
    optional("model.secrets_file", Type::Text, "File of `NAME=value` lines with secrets, readable by its owner only.").names(Names::File),

    key("environment.environment_class", Type::OneOf(environment_class::NAMES), "\"local\"", "Where commands run; unset: `docker` where an image is given, else `local`."),
    key("environment.cwd", Type::Text, "\"\"", "Working directory of commands; empty: that of the host, `/` in an image, a fresh folder under `bubblewrap` without an image."),
    key("environment.env", Type::TextMap, "{}", "Variables that commands see; null removes one."),
    key("environment.timeout", Type::Seconds, "30.0", "Time limit of a command, in seconds."),
    key("environment.interpreter", Type::TextList, "[\"/bin/sh\", \"-c\"]", "Program and arguments that the command is appended to; empty: `bash -c`, or `sh -c` where there is no bash; unset or empty in a container: `bash -lc`."),
    key("environment.session", Type::Bool, "false", "One bash for all commands of the agent: the working directory, variables, functions and background jobs stay from command to command; else each command has a shell of its own. Needs bash where the commands run."),
    key("environment.pty", Type::Bool, "false", "A terminal (24 lines, 80 columns, `TERM=dumb` unless `environment.env` sets it) for the commands of `environment.session`, whose input is then the terminal and not empty: for programs that refuse to run without one. A pager or an editor waits in it until the time limit."),
    key("environment.env_allow", Type::TextList, "[]", "Variables of the host that commands see in addition to the default list: names, or the first characters of names followed by `*`; a variable that looks like a secret has to be given by its whole name."),
    key("environment.capture_bytes", BYTES, "1048576", "How much output of a command is kept: its head and its tail, in bytes."),
    key("environment.sandbox", Type::OneOf(SANDBOXES), "\"none\"", "Sandbox of local commands: `landlock` lets them write only below the working directory, `writable` and temporary folders."),
    key("environment.sandbox_network", Type::Bool, "true", "Whether commands in the sandbox may use the network."),
    key("environment.sandbox_sockets", Type::Bool, "false", "Whether commands under `landlock` may use UNIX sockets, as Python's process pools and local databases do; this includes the sockets of services outside of the sandbox."),
    key("environment.writable", Type::TextList, "[]", "Further folders in which commands in the sandbox may write."),
    optional("environment.image", Type::Text, "The image of the container, as its engine names it; under `bubblewrap` a folder with an unpacked image."),
    key("environment.forward_env", Type::TextList, "[]", "Variables of the host that commands in the container see, if they are set; `env` takes precedence."),
    optional("environment.executable", Type::Text, "Program of the container engine or the sandbox; unset: that of `MSWEA_DOCKER_EXECUTABLE`, `MSWEA_SINGULARITY_EXECUTABLE` or `MSWEA_BUBBLEWRAP_EXECUTABLE`, else the class's own."),
    key("environment.run_args", Type::TextList, "[\"--rm\"]", "Further arguments of `docker run`."),
    key("environment.container_timeout", Type::Text, "\"2h\"", "Longest lifetime of the container, in the format of `sleep`."),
    key("environment.pull_timeout", Type::Seconds, "120.0", "Time limit of pulling the image, in seconds."),
    key("environment.start_timeout", Type::Seconds, "60.0", "Time limit of making and starting the container, in seconds."),
    key("environment.transport", Type::OneOf(TRANSPORTS), "\"auto\"", "How the container engine is called: through its `api`, its command line (`cli`), or the one of them that works (`auto`)."),
    key("environment.fast_path", Type::Bool, "true", "Run commands through a helper in the container, where that works."),
    key("environment.keep_container", Type::Bool, "false", "Leave the container running at the end."),
    optional("environment.user", Type::Text, "User of the container, as `--user` takes it."),
    optional("environment.network", Type::Text, "Network of the container, as `--network` takes it: `none`."),
    key("environment.mounts", Type::TextList, "[]", "What is mounted into the container, as `--volume` takes it: `/data:/data:ro`."),
    optional("environment.memory", Type::Text, "Memory limit of the container, as `--memory` takes it: `2g`."),
    optional("environment.cpus", Type::Number(0.0), "How many processors the container may use."),
    optional("environment.platform", Type::Text, "Platform of the image, as `--platform` takes it: `linux/arm64`."),
    key("environment.sandbox_build_retries", COUNT, "3", "How many attempts are made to build the sandbox of an image."),
    key("environment.build_timeout", Type::Seconds, "3600.0", "Time limit of one such attempt, and of the copy of an image under `bubblewrap`, in seconds."),
    key("environment.global_args", Type::TextList, "[\"--quiet\"]", "Arguments of singularity before `exec`."),
    key("environment.exec_args", Type::TextList, "[\"--contain\", \"--cleanenv\", \"--fakeroot\"]", "Arguments of `singularity exec`."),
    optional("environment.wrapper_args", Type::TextList, "Arguments of bubblewrap; unset: the system read-only, `/tmp` empty, no other processes, the network open."),
    optional("environment.url", Type::Text, "URL of the server on the machine where commands run: `https://HOST:PORT`, of `mswea-host runtime serve`, or with the class `swerex` of `swerex-remote`."),
    optional("environment.token_file", Type::Text, "File with the server's token (SWE-ReX's `--auth-token`), readable by its owner only.").names(Names::File),
    optional("environment.token_env", Type::Text, "Name of the variable of this machine that holds the server's token, instead of a file; commands never see it."),
    optional("environment.ca_file", Type::Text, "Certificate (PEM) that the server's has to be, or has to be signed by; unset: the system's authorities.").names(Names::File),
    key("environment.reconnect_seconds", Type::Seconds, "30.0", "How long a lost connection to the server is tried to be taken up again, in seconds; the server ends a session of which it hears nothing for longer than its `--keep-seconds`."),
    key("environment.connect", Type::TextList, "[]", "Program and arguments that reach the place where commands run through their standard input and output: `[\"ssh\", \"-T\", \"HOST\"]`. They are started with one further argument, `sh`."),
    key("environment.connect_timeout", Type::Seconds, "60.0", "How long that program may take until the place answers, in seconds."),

    optional("workspace.repo", Type::Text, "Repository to work on: a URL is cloned into the environment, a folder of this machine (relative to the current folder) is copied into it."),
    optional("workspace.path", Type::Text, "Folder of the repository in the environment, in which commands start; unset: a folder below the working directory."),
    optional("workspace.base_commit", Type::Text, "Commit, branch or tag to check out."),
    key("workspace.reset", Type::Bool, "false", "Discard the changes in a repository that is already there."),
    key("workspace.startup_commands", Type::TextList, "[]", "Commands that are run in this order when the workspace is ready; Jinja templates."),
    key("workspace.startup_timeout", Type::Seconds, "300.0", "Time limit of each step of making the workspace ready, in seconds."),

    key("tools.bundles", Type::TextList, "[]", "Bundles of tools for the model, in the order in which they are installed: names of first-party bundles (`windowed`), or folders (with a `/` in their path) that have `config.yaml` and `bin/`, as of SWE-agent. They need `environment.session`.").names(Names::Bundle),
    key("tools.hidden", Type::TextList, "[]", "Commands of the bundles that are installed and not offered to the model."),
    key("tools.env_variables", Type::TextMap, "{}", "Variables that the tools see; docstrings name them as `{NAME}`, templates as `{{ NAME }}`; null removes one."),
    key("tools.registry_variables", Type::Object, "{}", "First values of the registry, in which tools keep values."),
    key("tools.bash_tool", Type::Bool, "true", "Whether the model is offered the shell, too."),
    key("tools.root", Type::Text, "\"/root\"", "Folder in the environment for the bundles (`tools/`) and their files; SWE-agent's own bundles need `/root`."),
    key("tools.install_timeout", Type::Seconds, "300.0", "Time limit of the installation of one bundle, in seconds."),
    key("tools.state_timeout", Type::Seconds, "25.0", "Time limit of the state commands after each action, in seconds."),
    key("tools.long_outputs", Type::OneOf(LONG_OUTPUTS), "\"keep\"", "What the model sees of an output with more than `tools.longest_output` lines, which is put into a file: `open`: its first window, by the command `open`; `summary`: a note, to which the history processor `output_summary` adds a summary; `keep`: all, and there is no file."),
    key("tools.longest_output", COUNT, "105", "The most lines of an output that is shown as it is, if `tools.long_outputs` is not `keep`."),
    optional("tools.flag", Type::Text, "The flag that a submission of a tool has to be, or `sha256:` and its sum; a run goes on after another one. Unset: any submission is accepted."),

    optional("run.task", Type::Text, "The task."),
    optional("run.env_startup_command", Type::Text, "One more of the `workspace.startup_commands`, under mini-swe-agent's name."),
    optional("run.on_end", Type::Text, "Shell command that is run after every ending of a run, also if the run could not be set up; the variables `MSWEA_EXIT_STATUS`, `MSWEA_EXIT_CODE`, `MSWEA_TRAJECTORY` and `MSWEA_JOURNAL` describe the run."),
    optional("run.atif_path", Type::Text, "Where the run is written in ATIF, the trajectory format of Harbor, at every ending; unset: nowhere."),
    key("run.on_end_timeout", Type::Seconds, "60.0", "Time limit of `run.on_end`, in seconds."),

    optional("pipeline.adapter", Type::Text, "Model adapter: name or `.wasm` file; unset: chosen by the model's prefix.").names(Names::Plugin),
    key("pipeline.parser", Type::Text, "\"toolcall\"", "Action parser: name or `.wasm` file.").names(Names::Plugin),
    key("pipeline.formatter", Type::Text, "\"jinja\"", "Observation formatter: name or `.wasm` file.").names(Names::Plugin),
    key("pipeline.processors", Type::TextList, "[]", "History processors, in order: names or `.wasm` files.").names(Names::Plugin),
    key("pipeline.policies", Type::TextList, "[]", "Action policies, in order: names or `.wasm` files.").names(Names::Plugin),

    optional("plugins.*.path", Type::Text, "The plugin's `.wasm` file; unset: the built-in plugin of that name.").names(Names::File),
    key("plugins.*.config", Type::Object, "{}", "The plugin's own config, checked against its schema."),
    key("plugins.*.allow_hosts", Type::TextList, "[]", "Hosts that an adapter may reach: `host` or `host:port`."),
    key("plugins.*.secrets", Type::TextList, "[]", "Names of the secrets that an adapter may use."),
    optional("plugins.*.sha256", Type::Text, "SHA-256 digest that the file must have."),
    key("plugins.*.deadline_ms", BYTES, "5000", "Time limit of one call, in milliseconds."),
    key("plugins.*.memory_mb", BYTES, "256", "Memory limit, in MiB."),
    key("plugins.*.max_output_mb", BYTES, "16", "Limit of what one call may return, in MiB."),
    key("plugins.*.log_kb", COUNT, "64", "How much a plugin may log in one call, in KiB."),

    key("providers.*.adapter", Type::Text, "\"openai\"", "Adapter that speaks this provider's protocol.").names(Names::Plugin),
    optional("providers.*.base_url", Type::Text, "Base URL of its API; unset: it has to be given with the model."),
    optional("providers.*.api_key_env", Type::Text, "Name of the secret that holds the API key; unset: none is sent."),
];

/// Groups that may be null: the whole group is unset.
const NULLABLE_GROUPS: &[&str] = &["model.price"];

/// Keys of mini-swe-agent that this version ignores: in its files they lead to a warning.
pub const KNOWN_LATER: &[&str] = &[
    "model.outputs",
    "model.cost_per_call",
    "environment.image_tag",
    "environment.cwd_auto_create",
    "environment.import_username",
    "environment.import_password",
    "environment.deployment_extra_kwargs",
    "environment.startup_timeout",
    "environment.runtime_timeout",
    "environment.deployment_timeout",
    "environment.install_pipx",
    "environment.modal_sandbox_kwargs",
];

/// The target of a path.
#[derive(Clone, Copy, Debug)]
pub enum Found {
    /// A key.
    Key(&'static ConfigKey),
    /// A group of keys.
    Group {
        /// Whether null unsets it.
        nullable: bool,
    },
    /// A place inside a key's own free-form value.
    Inside(&'static ConfigKey),
    /// Nothing.
    Unknown,
}

/// Looks up a path.
pub fn find(path: &[&str]) -> Found {
    let mut found = Found::Unknown;
    for key in KEYS {
        let mut wanted = path.iter();
        let mut segments = key.segments();
        loop {
            match (wanted.next(), segments.next()) {
                (Some(name), Some(segment)) if segment == "*" || segment == *name => {}
                (Some(_), Some(_)) => break,
                (None, Some(_)) => {
                    let nullable = NULLABLE_GROUPS.contains(&path.join(".").as_str());
                    found = Found::Group { nullable };
                    break;
                }
                (None, None) => return Found::Key(key),
                (Some(_), None) => return Found::Inside(key),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_json_and_every_doc_one_sentence() {
        for key in KEYS {
            let value = key.default_value();
            let may_be_unset = key.nullable || key.default.is_none();
            assert!(may_be_unset || !value.is_null(), "{}", key.path);
            let is_missing = key.default.is_none();
            assert!(value.is_null() || !is_missing, "{}", key.path);
            assert!(key.doc.ends_with('.'), "{}", key.path);
            assert!(!key.doc.contains('\n'), "{}", key.path);
        }
    }

    #[test]
    fn paths_are_unique_and_none_is_both_live_and_later() {
        let mut paths: Vec<_> = KEYS
            .iter()
            .map(|key| key.path)
            .chain(KNOWN_LATER.iter().copied())
            .collect();
        paths.sort_unstable();
        let count = paths.len();
        paths.dedup();
        assert_eq!(paths.len(), count);
    }

    #[test]
    fn finds_what_a_path_leads_to() {
        for (path, expected) in [
            ("", "group"),
            ("agent", "group"),
            ("model.price", "nullable group"),
            ("model.price.input", "key model.price.input"),
            ("plugins", "group"),
            ("plugins.anything", "group"),
            ("plugins.anything.config", "key plugins.*.config"),
            ("plugins.anything.config.a.b", "inside plugins.*.config"),
            ("agent.step_limit", "key agent.step_limit"),
            ("agent.step_limit.x", "inside agent.step_limit"),
            ("agent.nothing", "unknown"),
            ("nothing", "unknown"),
        ] {
            let segments: Vec<_> = path.split('.').filter(|part| !part.is_empty()).collect();
            let found = match find(&segments) {
                Found::Key(key) => format!("key {}", key.path),
                Found::Inside(key) => format!("inside {}", key.path),
                Found::Group { nullable: true } => "nullable group".into(),
                Found::Group { nullable: false } => "group".into(),
                Found::Unknown => "unknown".into(),
            };
            assert_eq!(found, expected, "{path}");
        }
    }
}
