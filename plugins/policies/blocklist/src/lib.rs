//! The policy that denies commands by list: programs that wait for a person, shells that never end,
//! and the user's additions.
//!
//! It saves steps. It is no protection: it is easy to get around.

use std::collections::BTreeMap;

use mswea_expression::Expression;
use mswea_sdk::policy::Verdict;
use mswea_sdk::types::{Action, PluginError};
use mswea_sdk::{Descriptor, Plugin, Policy, from_config, host};
use serde::Deserialize;
use serde_json::{Value, json};

/// Programs that take over the terminal, or never end.
const BLOCKLIST: &[&str] = &[
    "vim",
    "vi",
    "emacs",
    "nano",
    "nohup",
    "gdb",
    "less",
    "tail -f",
    "python -m venv",
];

/// Programs that wait for input unless they get something to run.
const STANDALONE: &[&str] = &[
    "python",
    "python3",
    "ipython",
    "bash",
    "sh",
    "zsh",
    "/bin/bash",
    "/bin/sh",
    "nohup",
    "vi",
    "vim",
    "emacs",
    "nano",
    "su",
];

/// Programs that wait for input unless a part of the command, which this regex finds, says what to do.
const UNLESS: &[(&str, &str)] = &[("r2", RADARE), ("radare2", RADARE)];
const RADARE: &str = r"\s-[a-zA-Z]*[cq]";

const ERROR_MESSAGE: &str = "The command `{{ action }}` was not run: `{{ entry }}` is blocked \
                             here. Commands run without a terminal and must end by themselves; \
                             find one that needs no input.";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    blocklist: Vec<String>,
    blocklist_standalone: Vec<String>,
    regexes: Vec<String>,
    block_unless_regex: BTreeMap<String, String>,
    error_message: String,
}

impl Default for Config {
    fn default() -> Self {
        let owned = |list: &[&str]| list.iter().map(|entry| (*entry).to_owned()).collect();
        Self {
            blocklist: owned(BLOCKLIST),
            blocklist_standalone: owned(STANDALONE),
            regexes: Vec::new(),
            block_unless_regex: UNLESS
                .iter()
                .map(|(name, regex)| ((*name).to_owned(), (*regex).to_owned()))
                .collect(),
            error_message: ERROR_MESSAGE.to_owned(),
        }
    }
}

/// The plugin: its lists.
pub struct Blocklist {
    config: Config,
    regexes: Vec<Expression>,
    unless: Vec<(String, Expression)>,
}

impl Plugin for Blocklist {
    fn describe() -> Descriptor {
        let list = |default: &[&str], description: &str| {
            json!({
                "type": "array",
                "items": { "type": "string", "minLength": 1 },
                "default": default,
                "description": description,
            })
        };
        Descriptor::new(
            "blocklist",
            env!("CARGO_PKG_VERSION"),
            "Denies commands that would hang or do harm",
        )
        .config_schema(&json!({
            "type": "object",
            "properties": {
                "blocklist": list(BLOCKLIST, "Denies commands that begin with these words."),
                "blocklist_standalone": list(
                    STANDALONE,
                    "Denies commands that consist of just these words.",
                ),
                "regexes": list(&[], "Denies commands in which one of these is found."),
                "block_unless_regex": {
                    "type": "object",
                    "additionalProperties": { "type": "string" },
                    "default": Config::default().block_unless_regex,
                    "description": "Denies commands whose first word is one of these, unless its regex is \
                                    found in the command.",
                },
                "error_message": {
                    "type": "string",
                    "default": ERROR_MESSAGE,
                    "description": "Jinja template of the message to the model, with `action` and \
                                    `entry`.",
                },
            },
            "additionalProperties": false,
        }))
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let config: Config = from_config(config)?;
        let mut regexes = Vec::with_capacity(config.regexes.len());
        for (number, regex) in config.regexes.iter().enumerate() {
            let (name, pointer) = (format!("regexes[{number}]"), format!("/regexes/{number}"));
            regexes.push(compiled(regex, &name, &pointer)?);
        }
        let mut unless = Vec::with_capacity(config.block_unless_regex.len());
        for (word, regex) in &config.block_unless_regex {
            let name = format!("block_unless_regex.{word}");
            let escaped = word.replace('~', "~0").replace('/', "~1");
            let pointer = format!("/block_unless_regex/{escaped}");
            unless.push((word.clone(), compiled(regex, &name, &pointer)?));
        }
        Ok(Self {
            config,
            regexes,
            unless,
        })
    }
}

fn compiled(regex: &str, name: &str, pointer: &str) -> Result<Expression, PluginError> {
    Expression::new(regex).map_err(|error| {
        PluginError::invalid_config(format!(
            "`{name}` is not usable: {error}; it is written as for Python's `re`"
        ))
        .at(pointer)
    })
}

impl Blocklist {
    /// The first entry that forbids a command. What can't be searched for in the time that there is
    /// counts against the command.
    fn entry(&self, command: &str) -> Option<&str> {
        let words: Vec<_> = command.split_whitespace().collect();
        let alone = |entry: &&String| entry.split_whitespace().eq(words.iter().copied());
        let begins = |entry: &&String| begins_with(&words, entry);
        let config = &self.config;
        let found = config.blocklist.iter().find(begins);
        let found = found.or_else(|| config.blocklist_standalone.iter().find(alone));
        let unless = || {
            let mut unless = self.unless.iter();
            let found = unless.find(|(word, regex)| {
                begins_with(&words, word) && regex.is_in(command) != Ok(true)
            });
            found.map(|(word, _)| word.as_str())
        };
        let matching = || {
            let mut regexes = self.regexes.iter();
            let found = regexes.find(|regex| regex.is_in(command) != Ok(false));
            found.map(Expression::as_str)
        };
        found.map(String::as_str).or_else(unless).or_else(matching)
    }
}

/// Whether a command begins with the words of an entry: `vim x` and `vim;ls` begin with `vim`,
/// `vimdiff` does not.
fn begins_with(words: &[&str], entry: &str) -> bool {
    let entry: Vec<_> = entry.split_whitespace().collect();
    let Some((last, first)) = entry.split_last() else {
        return false;
    };
    words.starts_with(first)
        && words
            .get(first.len())
            .and_then(|word| word.strip_prefix(last))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([';', '&', '|', '<', '>', ')']))
}

impl Policy for Blocklist {
    fn judge(&mut self, action: Action) -> Result<Verdict, PluginError> {
        let Some(entry) = self.entry(&action.command) else {
            return Ok(Verdict::Allow);
        };
        let vars = json!({ "action": action.command, "entry": entry });
        host::render(&self.config.error_message, &vars).map(|text| Verdict::deny("blocked", text))
    }
}

mswea_sdk::export!(policy: Blocklist);

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_sdk::testing::{configure, set_render};

    fn policy(config: Value) -> Blocklist {
        configure(config).expect("the config is good")
    }

    #[test]
    fn default_lists() {
        let policy = policy(json!({}));
        for (command, entry) in [
            ("vim", Some("vim")),
            ("vim x.py", Some("vim")),
            ("  vim\tx.py", Some("vim")),
            ("vim;ls", Some("vim")),
            ("vi\nls", Some("vi")),
            ("tail -f log", Some("tail -f")),
            ("tail  -f log", Some("tail -f")),
            ("python -m venv .venv", Some("python -m venv")),
            ("nohup ./serve &", Some("nohup")),
            ("python", Some("python")),
            (" python3\n", Some("python3")),
            ("/bin/bash", Some("/bin/bash")),
            ("zsh", Some("zsh")),
            ("su", Some("su")),
            ("vimdiff a b", None),
            ("virtualenv x", None),
            ("view_image x.png", None),
            ("lessc a.less", None),
            ("make", None),
            ("python -c 1", None),
            ("python x.py", None),
            ("bash x.sh", None),
            ("su - x", None),
            ("tail -n1 x", None),
            ("tail -f1", None),
            ("r2 a.out", Some("r2")),
            ("r2", Some("r2")),
            ("radare2 -A a.out", Some("radare2")),
            ("radare2 -A -c pdf a.out", None),
            ("r2 -qc 'pdf' a.out", None),
            ("r2 -q a.out", None),
            ("r2pm -c", None),
            ("file r2", None),
            ("git commit && vim", None),
            ("ls; vim", None),
            ("echo vim", None),
            ("", None),
        ] {
            assert_eq!(policy.entry(command), entry, "{command:?}");
        }
    }

    #[test]
    fn own_lists() {
        let policy = policy(json!({
            "blocklist": ["git push"],
            "blocklist_standalone": ["git log"],
            "regexes": [r"rm\s+-rf\s+/($|\s)"],
        }));
        for (command, entry) in [
            ("git push --force", Some("git push")),
            ("git pull", None),
            ("git log", Some("git log")),
            ("git log -3", None),
            ("cd / && rm -rf / ", Some(r"rm\s+-rf\s+/($|\s)")),
            ("rm -rf /tmp/x", None),
            ("vim", None),
        ] {
            assert_eq!(policy.entry(command), entry, "{command:?}");
        }
    }

    #[test]
    fn a_regex_that_takes_too_long_counts_against_the_command() {
        let hard = r"(?=(a+)+)(a+)+\1+[bc]";
        let text = "a".repeat(50_000);
        let on = policy(json!({ "regexes": [hard] }));
        assert_eq!(on.entry(&text), Some(hard));
        let unless = policy(json!({ "block_unless_regex": { "x": hard } }));
        assert_eq!(unless.entry(&format!("x {text}")), Some("x"));
    }

    #[test]
    fn words_that_need_a_regex() {
        // The regex of SWE-agent's defaults wants the word `radare2`, also for `r2`.
        let theirs = r"\b(?:radare2)\b.*\s+-c\s+.*";
        let policy = policy(json!({
            "blocklist": ["git push"],
            "block_unless_regex": {
                "radare2": theirs, "r2": theirs, "git push": "--dry-run", "curl": "^curl -s ", "rm": "",
            },
        }));
        for (command, entry) in [
            ("radare2 x", Some("radare2")),
            ("radare2 -c aaa x", None),
            ("radare2 -A -c 'a;b' x", None),
            ("radare2 -caaa x", Some("radare2")),
            ("radare2\n-c x", None),
            ("r2 -c aaa x", Some("r2")),
            ("r2 -c aaa radare2", Some("r2")),
            ("r2 radare2 -c aaa", None),
            ("r2;ls", Some("r2")),
            ("radare2x", None),
            ("echo; radare2 x", None),
            // A list has precedence over a regex that would allow it.
            ("git push --dry-run", Some("git push")),
            ("curl x", Some("curl")),
            (" curl -s x", Some("curl")),
            ("curl -s x", None),
            ("rm x", None),
            ("gdb x", None),
        ] {
            assert_eq!(policy.entry(command), entry, "{command:?}");
        }
    }

    #[test]
    fn the_model_is_told() {
        set_render(|template, vars| Ok(format!("{template} {vars}")));
        let mut policy = policy(json!({ "error_message": "No:" }));
        assert_eq!(
            policy.judge(Action::new("vim x")),
            Ok(Verdict::deny(
                "blocked",
                r#"No: {"action":"vim x","entry":"vim"}"#
            ))
        );
        assert_eq!(policy.judge(Action::new("ls")), Ok(Verdict::Allow));
    }

    #[test]
    fn a_bad_regex_is_refused() {
        let config = json!({ "regexes": ["ok", "("] });
        let error = configure::<Blocklist>(config).err().expect("it is bad");
        assert_eq!(error.code, "invalid-config");
        assert!(error.message.starts_with("`regexes[1]` is not usable"));
        assert_eq!(error.extra.as_deref(), Some(r#"{"pointer":"/regexes/1"}"#));
        let config = json!({ "block_unless_regex": { "a/b": "(?<!x+)" } });
        let error = configure::<Blocklist>(config).err().expect("it is bad");
        assert!(
            error
                .message
                .starts_with("`block_unless_regex.a/b` is not usable")
        );
        assert_eq!(
            error.extra.as_deref(),
            Some(r#"{"pointer":"/block_unless_regex/a~1b"}"#)
        );
    }
}
