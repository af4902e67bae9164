//! The configs of the attempts at a problem, and those of the models that judge them.

use std::path::Path;

use serde_json::Value;

use crate::cli::output::Failure;
use mswea_config::{Config, Layers, ProcessEnvironment, Sources};
use mswea_plugin_host::{Cache, templates};
use mswea_secrecy as secrecy;
use mswea_sweagent::attempts::{AttemptJudge, AttemptsSettings, attempts_of, try_questions};
use mswea_sweagent::{
    GivenTree, SweAgentError, SweProblem, Translated, TranslationInput, translate, translate_model,
};

/// The attempts that a configuration asks for.
#[derive(Debug)]
pub(in crate::cli::sweagent) struct AttemptsPlan {
    pub(super) settings: AttemptsSettings,
    pub(in crate::cli::sweagent) problem: SweProblem,
    /// The name of the environment.
    pub(super) name: String,
    /// The whole configuration.
    tree: GivenTree,
    /// The configuration without its secrets.
    shown: Value,
    /// The index of the instance in its batch.
    place: usize,
}

/// The config of a run or of a question.
pub(super) struct PlannedRun {
    pub(super) layers: Layers,
    pub(super) config: Config,
}

impl AttemptsPlan {
    /// The plan of a configuration; none if its agent is of another type. All configs and templates
    /// are checked before anything is paid.
    pub(in crate::cli::sweagent) fn of(
        tree: &GivenTree,
        problem: &SweProblem,
        place: usize,
        shown: Value,
    ) -> Result<Option<Self>, Failure> {
        let Some(settings) = attempts_of(tree)? else {
            return Ok(None);
        };
        try_questions(&templates(Cache::of_user()), &settings, problem)
            .map_err(|error| Failure::usage(error.to_string()))?;
        let name = tree.given("env.name").and_then(GivenTree::text);
        let plan = Self {
            settings,
            problem: problem.clone(),
            name: name.unwrap_or("main").to_owned(),
            tree: tree.clone(),
            shown,
            place,
        };
        for number in 0..plan.settings.agents.len() {
            plan.attempt(number, Path::new("attempt"))?;
        }
        for (model, tag) in plan.judges() {
            plan.judge(model, tag)?;
        }
        Ok(Some(plan))
    }

    /// The models that judge, with a tag for each.
    fn judges(&self) -> Vec<(&GivenTree, &'static str)> {
        match &self.settings.judge {
            AttemptJudge::Reviewer(reviewer) => vec![(&reviewer.model, "REVIEWER")],
            AttemptJudge::Chooser(chooser) => {
                let before = chooser.preselector.as_ref();
                let before = before.map(|it| (&it.model, "PRESELECTOR"));
                before
                    .into_iter()
                    .chain([(&chooser.model, "CHOOSER")])
                    .collect()
            }
        }
    }

    /// The index in `agent_configs` of the agent that makes the attempt.
    fn agent(&self, number: usize) -> usize {
        number % self.settings.agents.len().max(1)
    }

    /// The configuration of the attempt, in the form for a single agent.
    fn tree_of(&self, number: usize) -> GivenTree {
        let mut tree = self.tree.clone();
        tree.remove(&["agent"]);
        if let Some(agent) = self.settings.agents.get(self.agent(number)) {
            tree.merge(agent.clone().below(&["agent"]));
        }
        tree
    }

    /// The translation of the first attempt's configuration.
    pub(in crate::cli::sweagent) fn first(&self, folder: &Path) -> Result<Translated, Failure> {
        Ok(self.translated(0, folder)?)
    }

    /// Warnings about values that have no effect in any of the agents.
    pub(in crate::cli::sweagent) fn warnings(&self, folder: &Path) -> Result<Vec<String>, Failure> {
        let mut warnings = Vec::new();
        for number in 0..self.settings.agents.len() {
            warnings.extend(self.translated(number, folder)?.warnings);
        }
        warnings.sort_unstable();
        warnings.dedup();
        Ok(warnings)
    }

    fn translated(&self, number: usize, folder: &Path) -> Result<Translated, SweAgentError> {
        let tree = self.tree_of(number);
        let translated = translate(TranslationInput {
            tree: &tree,
            problem: &self.problem,
            folder: &folder.to_string_lossy(),
            place: self.place,
            variable: &|name| secrecy::var(name),
        })?;
        Ok(translated.with_own_secrets(&format!("ATTEMPT_{}", self.agent(number))))
    }

    /// The config of an attempt whose files are in `folder`.
    pub(super) fn attempt(&self, number: usize, folder: &Path) -> Result<PlannedRun, Failure> {
        let translated = self.translated(number, folder)?;
        let file = folder.join(format!("{}.traj.json", self.problem.id));
        let output = (
            "agent.output_path".to_owned(),
            file.to_string_lossy().into(),
            "--output_dir".to_owned(),
        );
        planned(translated, vec![output])
    }

    /// The config of a question to a model that judges.
    pub(super) fn judge(&self, model: &GivenTree, tag: &str) -> Result<PlannedRun, Failure> {
        let tree = model.clone().below(&["agent", "model"]);
        let translated = translate_model(TranslationInput {
            tree: &tree,
            problem: &self.problem,
            folder: "",
            place: self.place,
            variable: &|name| secrecy::var(name),
        });
        let translated = translated?.with_own_secrets(tag);
        let mut planned = planned(translated, Vec::new())?;
        // The attempts' limit includes reviews, so their price must be known.
        let limit = &mut planned.config.agent.cost_limit;
        if *limit <= 0.0 && matches!(self.settings.judge, AttemptJudge::Reviewer(_)) {
            *limit = self.settings.budget.cost_limit;
        }
        Ok(planned)
    }

    /// The configuration of the attempt for its trajectory, without secrets.
    pub(super) fn shown_attempt(&self, number: usize) -> Value {
        let mut shown = self.shown.clone();
        let agent = &self.shown["agent"]["agent_configs"][self.agent(number)];
        shown["agent"] = agent.clone();
        shown
    }
}

fn planned(
    translated: Translated,
    flags: Vec<(String, Value, String)>,
) -> Result<PlannedRun, Failure> {
    for (name, secret) in &translated.secrets {
        secrecy::supply(name, secret);
    }
    let sources = Sources {
        translated: translated.settings,
        flags,
        ..Sources::default()
    };
    let usage = |error: mswea_config::ConfigError| Failure::usage(error.to_string());
    let layers = Layers::load(&sources, &ProcessEnvironment).map_err(usage)?;
    let config = layers.resolve().map_err(usage)?;
    Ok(PlannedRun { layers, config })
}
