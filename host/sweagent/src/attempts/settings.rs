//! The settings of an agent of the type `retry`: its `agent_configs` and its `retry_loop`.

use serde_json::Value;

use super::budget::AttemptBudget;
use super::scores::ScoreRules;
use crate::fault::{SweAgentError, SweAgentProblem};
use crate::given_at::GivenAt;
use crate::keys::{self, SweCommand, shortened};
use crate::tree::GivenTree;

/// An agent that makes several attempts.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptsSettings {
    /// The agents, used in turn; at least one.
    pub agents: Vec<GivenTree>,
    /// The limits of further attempts.
    pub budget: AttemptBudget,
    /// The model that chooses an attempt.
    pub judge: AttemptJudge,
}

/// The model that chooses an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptJudge {
    /// A reviewer scores each attempt, and the best one is chosen.
    Reviewer(Box<ReviewerSettings>),
    /// A chooser compares the attempts.
    Chooser(Box<ChooserSettings>),
}

/// How attempts are scored.
#[derive(Clone, Debug, PartialEq)]
pub struct ReviewerSettings {
    /// The model.
    pub model: GivenTree,
    /// The first message.
    pub system: String,
    /// The template of the question.
    pub instance: String,
    /// How often the question is sent.
    pub samples: u32,
    /// The least score of an accepted attempt.
    pub accept_score: f64,
    /// How the score is computed from replies.
    pub rules: ScoreRules,
    /// How the steps of the attempt are shown.
    pub steps: StepsShown,
}

/// How the steps of an attempt are shown to the reviewer.
#[derive(Clone, Debug, PartialEq)]
pub struct StepsShown {
    /// Steps are left out if their action begins with one of these texts.
    pub left_out: Vec<String>,
    /// Outputs are left out if their action begins with one of these texts.
    pub without_output: Vec<String>,
    /// The template of a step.
    pub template: String,
    /// How many outputs are shown, from the end; 0: all.
    pub last_outputs: usize,
}

/// How the chooser is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct ChooserSettings {
    /// The model.
    pub model: GivenTree,
    /// The first message.
    pub system: String,
    /// The template of the question.
    pub instance: String,
    /// The template of one submission in it.
    pub submission: String,
    /// The length of the longest submission that is shown; 0: any.
    pub longest: usize,
    /// A model that reduces the number of attempts before, if there is one.
    pub preselector: Option<Box<ChooserSettings>>,
}

const BUDGET: &[&str] = &[
    "type",
    "max_attempts",
    "min_budget_for_new_attempt",
    "cost_limit",
];
const SCORE: &[&str] = &["reviewer_config", "accept_score", "max_accepts", "model"];
const CHOICE: &[&str] = &["chooser"];
const REVIEWER: &[&str] = &[
    "type",
    "system_template",
    "instance_template",
    "failure_score_penalty",
    "traj_formatter",
    "n_sample",
    "reduce_by_std",
    "score_range",
];
const STEPS: &[&str] = &[
    "filter",
    "output_filter",
    "item_template",
    "only_show_last_n_output",
];
const PRESELECTOR: &[&str] = &[
    "model",
    "system_template",
    "instance_template",
    "submission_template",
    "max_len_submission",
];

/// The most samples of a review: each is a paid query.
const MOST_SAMPLES: i64 = 1000;

/// The settings of an agent of the type `retry`; none if the agent is of another type.
///
/// # Errors
/// [`SweAgentError`] with all mistakes.
pub fn attempts_of(tree: &GivenTree) -> Result<Option<AttemptsSettings>, SweAgentError> {
    let kind = tree.given("agent.type");
    match kind.and_then(GivenTree::text) {
        Some("retry") => {}
        // Without a type, the keys decide.
        None if kind.is_none() && tree.given("agent.retry_loop").is_some() => {}
        _ => return Ok(None),
    }
    let agent = tree.given("agent");
    let mut reader = SettingsReader::default();
    for (key, value) in agent.into_iter().flat_map(GivenTree::entries) {
        let is_own = ["type", "name", "agent_configs", "retry_loop"].contains(&key.as_str());
        if !is_own && !value.is_null() {
            let message = format!("an agent of the type `retry` has no `agent.{key}` of its own");
            let hint = format!("write `{key}` into each item of `agent.agent_configs`");
            let problem = SweAgentProblem::at(&value.at, message);
            reader.problems.push(problem.hint(hint));
        }
    }
    let at = kind.or(agent).map(|it| it.at.clone());
    let at = at.unwrap_or(GivenAt::Flag("--agent.type".to_owned()));
    let agents = reader.agents(tree, &at);
    let judged = match tree.given("agent.retry_loop") {
        Some(given) => reader.retry_loop(given),
        None => {
            let problem = SweAgentProblem::at(&at, "an agent of the type `retry` needs a loop");
            reader.problems.push(problem.hint(
                "give `agent.retry_loop` with `type: score` and `reviewer_config`, or `type: chooser` and `chooser`",
            ));
            None
        }
    };
    match judged {
        Some((budget, judge)) if reader.problems.is_empty() => Ok(Some(AttemptsSettings {
            agents,
            budget,
            judge,
        })),
        _ => Err(SweAgentError(reader.problems)),
    }
}

/// Reads values, and collects mistakes.
#[derive(Default)]
struct SettingsReader {
    problems: Vec<SweAgentProblem>,
}

impl SettingsReader {
    fn agents(&mut self, tree: &GivenTree, at: &GivenAt) -> Vec<GivenTree> {
        let given = tree.given("agent.agent_configs");
        let items = given.map(GivenTree::items).unwrap_or_default();
        if items.is_empty() {
            let at = given.map_or(at, |it| &it.at);
            let problem = SweAgentProblem::at(at, "an agent of the type `retry` has no agents");
            self.problems
                .push(problem.hint("give `agent.agent_configs`, a list of agents"));
        }
        for item in items {
            let kind = item.given("type");
            if let Some(kind) = kind.filter(|it| it.text() != Some("default")) {
                let message = format!(
                    "an attempt is made by an agent of the type `default`, not `{}`",
                    shortened(&kind.value())
                );
                let problem = SweAgentProblem::at(&kind.at, message);
                self.problems.push(problem.hint("leave out `type`"));
            }
            self.check(&item.clone().below(&["agent"]));
        }
        items.to_vec()
    }

    /// Checks keys and types against the table of `run`.
    fn check(&mut self, tree: &GivenTree) {
        self.problems
            .extend(keys::check(SweCommand::Run, tree).problems);
    }

    fn retry_loop(&mut self, given: &GivenTree) -> Option<(AttemptBudget, AttemptJudge)> {
        let kind = given.given("type").and_then(GivenTree::text);
        let scores = given.given("reviewer_config").is_some();
        let chooses = given.given("chooser").is_some();
        let scores = match (kind, scores, chooses) {
            (Some("score"), ..) | (None, true, false) => true,
            (Some("chooser"), ..) | (None, false, true) => false,
            _ => {
                let at = given.given("type").map_or(&given.at, |it| &it.at);
                let problem = SweAgentProblem::at(at, "the loop is of neither type that there is");
                self.problems.push(problem.hint(
                    "write `type: score` with `reviewer_config`, or `type: chooser` with `chooser`",
                ));
                return None;
            }
        };
        let own = match scores {
            true => SCORE,
            false => CHOICE,
        };
        self.known(given, "agent.retry_loop", &[BUDGET, own].concat());
        let path = "agent.retry_loop";
        let budget = AttemptBudget {
            max_attempts: self.count(given, path, "max_attempts", None),
            cost_limit: self.number(given, path, "cost_limit", None),
            min_budget: self.number(given, path, "min_budget_for_new_attempt", Some(0.0)),
            max_accepts: match scores {
                true => self.count(given, path, "max_accepts", Some(1)),
                false => 0,
            },
        };
        if budget.max_attempts == 0 && budget.cost_limit <= 0.0 {
            let message = "`max_attempts` and `cost_limit` are both without a limit";
            let problem = SweAgentProblem::at(&given.at, message);
            self.problems
                .push(problem.hint("set one of them, or the attempts never end"));
        }
        let judge = match scores {
            true => AttemptJudge::Reviewer(Box::new(self.reviewer(given)?)),
            false => {
                let chooser = self.needed(given, path, "chooser")?;
                AttemptJudge::Chooser(Box::new(self.chooser(
                    chooser,
                    "agent.retry_loop.chooser",
                    true,
                )?))
            }
        };
        Some((budget, judge))
    }

    fn reviewer(&mut self, given: &GivenTree) -> Option<ReviewerSettings> {
        let path = "agent.retry_loop";
        let model = self.model(given, path);
        let accept_score = self.number(given, path, "accept_score", None);
        let reviewer = self.needed(given, path, "reviewer_config")?;
        let path = "agent.retry_loop.reviewer_config";
        self.known(reviewer, path, REVIEWER);
        let formatter = self.needed(reviewer, path, "traj_formatter");
        let steps = formatter.map(|it| self.steps(it));
        let samples = self.count(reviewer, path, "n_sample", Some(5));
        if i64::from(samples) > MOST_SAMPLES {
            let message = format!("`{path}.n_sample` can't be {samples}");
            let problem = SweAgentProblem::at(&reviewer.at, message);
            self.problems
                .push(problem.hint(format!("give a number up to {MOST_SAMPLES}")));
        }
        Some(ReviewerSettings {
            model: model?,
            system: self.text(reviewer, path, "system_template", None),
            instance: self.text(reviewer, path, "instance_template", None),
            samples,
            accept_score,
            rules: ScoreRules {
                failure_penalty: self.number(reviewer, path, "failure_score_penalty", Some(0.0)),
                reduce_by_std: self.number(reviewer, path, "reduce_by_std", Some(0.0)),
                range: self.range(reviewer),
            },
            steps: steps?,
        })
    }

    fn steps(&mut self, given: &GivenTree) -> StepsShown {
        let path = "agent.retry_loop.reviewer_config.traj_formatter";
        self.known(given, path, STEPS);
        let template = "Model: {{response}}\n\nObservation: {{observation}}";
        StepsShown {
            left_out: self.texts(given, path, "filter"),
            without_output: self.texts(given, path, "output_filter"),
            template: self.text(given, path, "item_template", Some(template)),
            last_outputs: self.count(given, path, "only_show_last_n_output", Some(0)) as usize,
        }
    }

    fn chooser(&mut self, given: &GivenTree, path: &str, is_last: bool) -> Option<ChooserSettings> {
        let preselector = given.given("preselector").filter(|_| is_last);
        let known = match is_last {
            true => [PRESELECTOR, &["preselector"]].concat(),
            false => PRESELECTOR.to_vec(),
        };
        self.known(given, path, &known);
        let model = self.model(given, path);
        let of_before = format!("{path}.preselector");
        let before = preselector.map(|it| self.chooser(it, &of_before, false));
        Some(ChooserSettings {
            system: self.text(given, path, "system_template", None),
            instance: self.text(given, path, "instance_template", None),
            submission: self.text(given, path, "submission_template", None),
            longest: self.count(given, path, "max_len_submission", Some(5000)) as usize,
            model: model?,
            preselector: match before {
                Some(before) => Some(Box::new(before?)),
                None => None,
            },
        })
    }

    fn model(&mut self, given: &GivenTree, path: &str) -> Option<GivenTree> {
        let model = self.needed(given, path, "model")?;
        self.check(&model.clone().below(&["agent", "model"]));
        Some(model.clone())
    }

    /// The least and the largest number.
    fn range(&mut self, given: &GivenTree) -> (Option<f64>, Option<f64>) {
        let Some(range) = given.given("score_range") else {
            return (None, None);
        };
        let numbers: Vec<Value> = range.items().iter().map(GivenTree::value).collect();
        match numbers.as_slice() {
            [least, largest]
                if [least, largest]
                    .iter()
                    .all(|it| it.is_number() || it.is_null()) =>
            {
                (least.as_f64(), largest.as_f64())
            }
            _ => {
                let message = format!("`score_range` can't be `{}`", shortened(&range.value()));
                let problem = SweAgentProblem::at(&range.at, message);
                self.problems.push(
                    problem.hint("give two numbers, for example `[0, 10]`; `null` is no limit"),
                );
                (None, None)
            }
        }
    }

    /// Collects unknown keys.
    fn known(&mut self, given: &GivenTree, path: &str, names: &[&str]) {
        for (key, value) in given.entries() {
            if names.contains(&key.as_str()) {
                continue;
            }
            let problem = SweAgentProblem::at(&value.at, format!("there is no key `{path}.{key}`"));
            let hint = match mswea_text::nearest(key, names.iter().copied()) {
                Some(near) => format!("did you mean `{path}.{near}`?"),
                None => format!("the keys there are `{}`", names.join("`, `")),
            };
            self.problems.push(problem.hint(hint));
        }
    }

    fn needed<'t>(&mut self, given: &'t GivenTree, path: &str, key: &str) -> Option<&'t GivenTree> {
        let found = given.given(key);
        if found.is_none() {
            let message = format!("`{path}.{key}` is missing");
            self.problems.push(SweAgentProblem::at(&given.at, message));
        }
        found
    }

    /// Reads a value; without a `fallback`, it is required.
    fn value<T>(
        &mut self,
        (given, path, key): (&GivenTree, &str, &str),
        fallback: Option<T>,
        kind: &str,
        read: impl Fn(&GivenTree) -> Option<T>,
    ) -> Option<T> {
        let Some(found) = given.given(key) else {
            if fallback.is_none() {
                self.needed(given, path, key);
            }
            return fallback;
        };
        let read = read(found);
        if read.is_none() {
            let message = format!(
                "`{path}.{key}` must be {kind}, not `{}`",
                shortened(&found.value())
            );
            self.problems.push(SweAgentProblem::at(&found.at, message));
        }
        read
    }

    fn text(&mut self, given: &GivenTree, path: &str, key: &str, fallback: Option<&str>) -> String {
        let fallback = fallback.map(str::to_owned);
        let read = |tree: &GivenTree| tree.text().map(str::to_owned);
        let text = self.value((given, path, key), fallback, "a text", read);
        text.unwrap_or_default()
    }

    fn number(&mut self, given: &GivenTree, path: &str, key: &str, fallback: Option<f64>) -> f64 {
        let read = |tree: &GivenTree| tree.value().as_f64();
        let number = self.value((given, path, key), fallback, "a number", read);
        number.unwrap_or_default()
    }

    fn count(&mut self, given: &GivenTree, path: &str, key: &str, fallback: Option<u32>) -> u32 {
        // A limit below 0 means no limit, like 0.
        let read = |tree: &GivenTree| {
            let number = tree.value().as_i64()?;
            u32::try_from(number.max(0)).ok()
        };
        let number = self.value((given, path, key), fallback, "an integer", read);
        number.unwrap_or_default()
    }

    fn texts(&mut self, given: &GivenTree, path: &str, key: &str) -> Vec<String> {
        let read = |tree: &GivenTree| -> Option<Vec<String>> {
            let items = matches!(tree.value(), Value::Array(_)).then(|| tree.items().iter())?;
            items.map(|it| it.text().map(str::to_owned)).collect()
        };
        let texts = self.value(
            (given, path, key),
            Some(Vec::new()),
            "a list of texts",
            read,
        );
        texts.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::read_yaml;

    fn read(retry_loop: &str) -> Result<AttemptsSettings, String> {
        let yaml = format!(
            "agent:\n  agent_configs: [{{model: {{name: m}}}}]\n  retry_loop: {{{retry_loop}}}\n"
        );
        let read = attempts_of(&read_yaml("c.yaml", &yaml).unwrap());
        read.map(Option::unwrap).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_that_are_not_given_have_defaults() {
        let read = read(
            "max_attempts: 2, cost_limit: 3, accept_score: 1, model: {name: r}, reviewer_config: {system_template: s, instance_template: i, traj_formatter: {}}",
        );
        let settings = read.unwrap();
        assert_eq!(
            settings.budget,
            AttemptBudget {
                max_attempts: 2,
                cost_limit: 3.0,
                min_budget: 0.0,
                max_accepts: 1
            }
        );
        let AttemptJudge::Reviewer(reviewer) = settings.judge else {
            panic!("{:?}", settings.judge);
        };
        assert_eq!((reviewer.samples, reviewer.rules.range), (5, (None, None)));
        assert!(reviewer.steps.template.starts_with("Model: {{response}}"));
    }

    #[test]
    fn other_agents_have_no_attempts() {
        let tree = read_yaml("c.yaml", "agent: {type: default}\n").unwrap();
        assert_eq!(attempts_of(&tree), Ok(None));
    }

    #[test]
    fn all_that_is_missing_is_named() {
        let error = read("type: chooser, chooser: {}").unwrap_err();
        for key in ["max_attempts", "cost_limit", "chooser.model"] {
            let words = format!("`agent.retry_loop.{key}` is missing");
            assert!(error.contains(&words), "{error}");
        }
        assert!(error.contains("c.yaml:3:"), "{error}");
    }
}
