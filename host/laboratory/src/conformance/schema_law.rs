//! The laws of a plugin as a whole: its descriptor, and which configs it accepts.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::configs::{ConfigSchema, Trust, Valid};
use super::exam::{Crash, Exam};
use super::law::Law;
use super::options::Effort;
use mswea_core::{Manner, Refused, RoleKind};

/// The input for the other laws.
pub(super) struct LawInput {
    /// Configs that the plugin accepts.
    pub configs: Vec<Value>,
    /// Names of the secrets that it declares.
    pub secrets: Vec<String>,
    /// The hosts that it declares.
    pub hosts: Vec<String>,
}

/// Examines the plugin as a whole.
pub(super) async fn examine(exam: &mut Exam<'_>, kind: RoleKind) -> LawInput {
    let descriptor = descriptor(exam).await;
    let configs = schema(exam, kind).await;
    exam.begin();
    described(exam, &descriptor, &configs).await;
    let list = |key: &str| {
        let list = descriptor.get(key).and_then(Value::as_array);
        let texts = list.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    LawInput {
        configs,
        secrets: list("secrets"),
        hosts: list("hosts"),
    }
}

fn is_word(text: &str, others: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || others.contains(c);
    !text.is_empty() && text.len() <= 100 && text.chars().all(fits)
}

/// Reads the descriptor and checks it.
async fn descriptor(exam: &mut Exam<'_>) -> Value {
    let law = Law::Schema;
    let since = Instant::now();
    let descriptor = match exam.maker.describe(None).await {
        Ok(descriptor) => descriptor,
        Err(fault) => {
            let took = since.elapsed();
            let crash = Crash {
                manner: fault.manner,
                message: fault.message,
                took,
            };
            exam.count_crash(&crash);
            exam.find_crash(
                "`describe` of a fresh instance",
                &Value::Null,
                &Value::Null,
                &crash,
            );
            return json!({});
        }
    };
    let identity = exam.maker.identity().clone();
    let mut check = |good: bool, case: &str, input: &Value, expected: &str, came: String| {
        exam.case(law);
        if !good {
            exam.find(law, case, &Value::Null, input, expected, came);
        }
    };
    let text = |key: &str| {
        descriptor
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    for (key, text, known, others, expected) in [
        (
            "name",
            text("name"),
            &identity.name,
            "_-.",
            "letters, digits, `_`, `-` and `.`, as users write it in their config",
        ),
        (
            "version",
            text("version"),
            &identity.version,
            "_-.+",
            "a version that begins with a digit, like `0.1.0`",
        ),
    ] {
        let begins = key == "name"
            || text
                .trim_start_matches('v')
                .starts_with(|c: char| c.is_ascii_digit());
        let good = is_word(text, others) && begins && text == known;
        check(
            good,
            &format!("the descriptor's {key}"),
            &Value::Null,
            expected,
            format!("`{text}`"),
        );
    }
    for (key, others) in [("secrets", "_"), ("hosts", "-.:[]")] {
        let list = descriptor.get(key).and_then(Value::as_array);
        for entry in list.into_iter().flatten() {
            let good = entry.as_str().is_some_and(|text| is_word(text, others));
            let expected = match key {
                "secrets" => "the NAME of a secret, as an environment variable has it",
                _ => "`host` or `host:port`, without a scheme and a path",
            };
            check(
                good,
                &format!("the descriptor's {key}"),
                entry,
                expected,
                entry.to_string(),
            );
            let adapter = identity.kinds.contains(&RoleKind::ModelAdapter);
            let came = format!("{key} of a plugin that is no adapter: {entry}");
            check(
                adapter,
                &format!("the descriptor's {key}"),
                entry,
                "none: only adapters make requests",
                came,
            );
        }
    }
    descriptor
}

/// Checks that `describe` returns the same after `configure`, with any config.
async fn described(exam: &mut Exam<'_>, first: &Value, configs: &[Value]) {
    let law = Law::Deterministic;
    for config in std::iter::once(None).chain(configs.iter().map(Some)) {
        if exam.enough(&[law]) {
            return;
        }
        exam.case(law);
        let case = match config {
            None => "`describe` of another fresh instance",
            Some(_) => "`describe` of a configured instance",
        };
        let since = Instant::now();
        let shown = config.unwrap_or(&Value::Null);
        match exam.maker.describe(config).await {
            Ok(descriptor) => {
                if let Some((expected, came)) = super::answer::unequal(first, &descriptor) {
                    exam.find(law, case, shown, &Value::Null, expected, came);
                }
            }
            Err(fault) => {
                let took = since.elapsed();
                let crash = Crash {
                    manner: fault.manner,
                    message: fault.message,
                    took,
                };
                exam.count_crash(&crash);
                exam.find_crash(case, shown, &Value::Null, &crash);
            }
        }
    }
}

/// Checks the schema, and whether configs that it allows and excludes are accepted and refused.
/// Returns the accepted configs.
async fn schema(exam: &mut Exam<'_>, kind: RoleKind) -> Vec<Value> {
    let law = Law::Schema;
    let root = exam.maker.identity().config_schema.clone();
    exam.case(law);
    let is_table = root.is_object() && root.get("type").is_none_or(|kind| *kind == json!("object"));
    let validator = match jsonschema::validator_for(&root) {
        Ok(validator) if is_table => validator,
        Ok(_) => {
            let expected = "a JSON Schema that is an object, of objects (`\"type\": \"object\"`)";
            exam.find(
                law,
                "the config's schema",
                &Value::Null,
                &root,
                expected,
                root.to_string(),
            );
            return Vec::new();
        }
        Err(error) => {
            exam.find(
                law,
                "the config's schema",
                &Value::Null,
                &root,
                "a JSON Schema",
                error.to_string(),
            );
            return Vec::new();
        }
    };
    let schema = ConfigSchema::new(&root, &validator);
    let mut accepted = Vec::new();
    let mut tried = String::new();
    for valid in schema.valid(&exam.options.configs.clone()) {
        if let Some(refused) = try_valid(exam, kind, &valid, &mut accepted).await {
            tried = format!("{}: {refused}", valid.config);
        }
    }
    let Some(base) = accepted.first().cloned() else {
        // A law that could not be examined has not passed.
        if !exam.is_broken(law) {
            let case = "a config to examine it with";
            let expected = "a config that it accepts: in the schema's `examples`, as the \
                            defaults, or one that is given";
            let came = match tried.is_empty() {
                true => "none that fits the schema could be made up".to_owned(),
                false => tried,
            };
            exam.find(law, case, &Value::Null, &Value::Null, expected, came);
        }
        return accepted;
    };
    let given = accepted.len();
    let mut random = exam.random("configs");
    for valid in &schema.varied(&base, &mut random) {
        if exam.enough(&[law]) {
            break;
        }
        try_valid(exam, kind, valid, &mut accepted).await;
    }
    accepted.truncate(given.max(exam.scale.configs));
    let mut invalid = schema.invalid(&base);
    let own = exam.options.samples.invalid_configs.iter();
    invalid.extend(own.map(|config| super::configs::Invalid {
        config: config.clone(),
        label: "a config that was given as invalid".to_owned(),
        key: String::new(),
    }));
    for invalid in &invalid {
        if exam.enough(&[law]) {
            break;
        }
        exam.case(law);
        let expected = match invalid.key.as_str() {
            "" => "it is refused".to_owned(),
            key => format!("it is refused, and the refusal names `{key}`"),
        };
        let (case, config) = (&invalid.label, &invalid.config);
        let came = match exam.maker.make(kind, config, false).await {
            Ok(_) => "it was accepted".to_owned(),
            Err(Refused::Failed(detail)) => format!("the plugin failed: {detail}"),
            Err(Refused::Config {
                pointer, detail, ..
            }) => {
                if !pointer.is_empty() || detail.contains(&invalid.key) {
                    continue;
                }
                format!("it was refused without a pointer, and with the words: {detail}")
            }
        };
        exam.find(law, case, config, &Value::Null, expected, came);
    }
    hostile(exam, kind, &schema, &base).await;
    accepted
}

/// Makes an instance with a config that should be accepted; returns why it was refused.
async fn try_valid(
    exam: &mut Exam<'_>,
    kind: RoleKind,
    valid: &Valid,
    accepted: &mut Vec<Value>,
) -> Option<String> {
    let law = Law::Schema;
    exam.case(law);
    let refused = match exam.maker.make(kind, &valid.config, false).await {
        Ok(_) => {
            accepted.push(valid.config.clone());
            return None;
        }
        Err(refused) => refused,
    };
    let is_breach = match (&refused, &valid.trust) {
        (Refused::Failed(_), _) | (_, Trust::Known) => true,
        // Another key may be the missing one: a schema can't always express such a dependency.
        (Refused::Config { pointer, .. }, Trust::Varied(varied)) => pointer == varied,
        (_, Trust::Guessed) => false,
    };
    let came = match refused {
        Refused::Failed(detail) => format!("the plugin failed: {detail}"),
        Refused::Config {
            pointer, detail, ..
        } if pointer.is_empty() => format!("it was refused: {detail}"),
        Refused::Config {
            pointer, detail, ..
        } => format!("it was refused at `{pointer}`: {detail}"),
    };
    if is_breach {
        let (case, config) = (&valid.label, &valid.config);
        exam.find(
            law,
            case,
            config,
            &Value::Null,
            "it is accepted",
            came.as_str(),
        );
    }
    Some(came)
}

/// Checks that unusual texts in a config are accepted or refused, without a crash.
async fn hostile(exam: &mut Exam<'_>, kind: RoleKind, schema: &ConfigSchema<'_>, base: &Value) {
    let law = Law::Total;
    exam.begin();
    let size = match exam.options.effort {
        Effort::Quick => 4 << 10,
        Effort::Full => 64 << 10,
    };
    let mut hostile = schema.hostile(base, size);
    exam.random("hostile configs").shuffle(&mut hostile);
    if hostile.is_empty() {
        exam.not_applicable(law, "its config has no texts");
    }
    for odd in hostile {
        if exam.enough(&[law]) {
            return;
        }
        exam.case(law);
        let since = Instant::now();
        if let Err(Refused::Failed(message)) = exam.maker.make(kind, &odd.config, false).await {
            let took: Duration = since.elapsed();
            let crash = Crash {
                manner: Manner::Crashed,
                message,
                took,
            };
            exam.count_crash(&crash);
            exam.find_crash(&odd.label, &odd.config, &Value::Null, &crash);
        }
    }
}
