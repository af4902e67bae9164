//! The questions to the models that judge attempts. An attempt is passed as its trajectory.

use serde_json::{Map, Value, json};

use mswea_template::{TemplateError, Templates};

use super::settings::{
    AttemptJudge, AttemptsSettings, ChooserSettings, ReviewerSettings, StepsShown,
};
use crate::problem::SweProblem;
use crate::trajectory::EDITED;

const OMITTED: &str = "[Output omitted]";
const INVALID: &str = "Solution invalid.";

/// The text of the question for a score.
///
/// # Errors
/// [`TemplateError`] if a template can't be rendered.
pub fn review_question(
    templates: &Templates,
    settings: &ReviewerSettings,
    problem: &SweProblem,
    attempt: &Value,
) -> Result<String, TemplateError> {
    let mut variables = problem.extra_fields.clone();
    variables.insert("problem_statement".to_owned(), problem.text.as_str().into());
    variables.extend(facts(attempt));
    let traj = steps(templates, &settings.steps, &attempt["trajectory"])?;
    variables.insert("traj".to_owned(), traj.into());
    let rendered = templates.render(&settings.instance, &variables);
    rendered.map_err(|error| error.named("agent.retry_loop.reviewer_config.instance_template"))
}

/// The text of the question for a choice among these attempts.
///
/// # Errors
/// [`TemplateError`] if a template can't be rendered.
pub fn choice_question(
    templates: &Templates,
    settings: &ChooserSettings,
    problem: &SweProblem,
    attempts: &[&Value],
) -> Result<String, TemplateError> {
    let shown = attempts.iter().map(|attempt| {
        let patch = attempt["info"]["submission"].as_str();
        let fits = |patch: &str| settings.longest == 0 || patch.chars().count() <= settings.longest;
        match patch.filter(|it| fits(it)) {
            Some(_) => templates
                .render(&settings.submission, &facts(attempt))
                .map_err(|error| error.named("agent.retry_loop.chooser.submission_template")),
            None => Ok(INVALID.to_owned()),
        }
    });
    let shown: Vec<String> = shown.collect::<Result<_, _>>()?;
    let mut variables = Map::new();
    variables.insert("problem_statement".to_owned(), problem.text.as_str().into());
    variables.insert("submissions".to_owned(), shown.into());
    let rendered = templates.render(&settings.instance, &variables);
    rendered.map_err(|error| error.named("agent.retry_loop.chooser.instance_template"))
}

/// Renders all templates with example attempts, so that an invalid one is found before anything is
/// paid.
///
/// # Errors
/// [`TemplateError`] of the first template that can't be rendered.
pub fn try_questions(
    templates: &Templates,
    settings: &AttemptsSettings,
    problem: &SweProblem,
) -> Result<(), TemplateError> {
    let stats =
        json!({"instance_cost": 0.0, "tokens_sent": 0, "tokens_received": 0, "api_calls": 0});
    let step = json!({
        "action": "", "observation": "", "response": "", "thought": "", "execution_time": 0.0,
        "state": {"working_dir": "/", "open_file": "n/a", "diff": ""}, "query": [], "extra_info": {},
    });
    let mut attempt = json!({
        "trajectory": [step],
        "info": {
            "submission": "x", "exit_status": "submitted", "swe_agent_hash": "", "swe_agent_version": "",
            "swe_rex_version": "", "swe_rex_hash": "", "model_stats": stats,
        },
    });
    for key in EDITED {
        attempt["info"][key] = "".into();
    }
    match &settings.judge {
        AttemptJudge::Reviewer(reviewer) => {
            review_question(templates, reviewer, problem, &attempt)?;
        }
        AttemptJudge::Chooser(chooser) => {
            for one in chooser
                .preselector
                .as_deref()
                .into_iter()
                .chain([&**chooser])
            {
                choice_question(templates, one, problem, &[&attempt, &attempt])?;
            }
        }
    }
    Ok(())
}

/// The variables of templates about an attempt: its `info`, with nested maps flattened, and numbers
/// as floats.
fn facts(attempt: &Value) -> Map<String, Value> {
    let mut flat = Map::new();
    for (key, value) in attempt["info"].as_object().into_iter().flatten() {
        match value {
            Value::String(_) => drop(flat.insert(key.clone(), value.clone())),
            Value::Object(map) => {
                for (inner, value) in map {
                    let value = match value.as_f64() {
                        Some(number) => number.into(),
                        None => value.clone(),
                    };
                    flat.insert(format!("{key}_{inner}"), value);
                }
            }
            _ => {}
        }
    }
    for key in ["submission", "exit_status"].into_iter().chain(EDITED) {
        flat.entry(key).or_insert_with(|| "".into());
    }
    flat
}

/// The steps of an attempt as a text.
fn steps(
    templates: &Templates,
    settings: &StepsShown,
    trajectory: &Value,
) -> Result<String, TemplateError> {
    let begins = |step: &Value, with: &[String]| {
        let action = step["action"].as_str().unwrap_or_default().trim();
        with.iter().any(|it| action.starts_with(it.as_str()))
    };
    let all = trajectory.as_array().into_iter().flatten();
    let shown: Vec<&Value> = all.filter(|it| !begins(it, &settings.left_out)).collect();
    let first_output = match settings.last_outputs {
        0 => 0,
        last => shown.len().saturating_sub(last),
    };
    let mut texts = Vec::with_capacity(shown.len());
    for (place, step) in shown.into_iter().enumerate() {
        let mut variables = step.as_object().cloned().unwrap_or_default();
        if place < first_output || begins(step, &settings.without_output) {
            variables.insert("observation".to_owned(), OMITTED.into());
        }
        variables.insert("i_step".to_owned(), place.into());
        variables.insert("i_traj".to_owned(), 1.into());
        let text = templates.render(&settings.template, &variables);
        texts.push(text.map_err(|error| {
            error.named("agent.retry_loop.reviewer_config.traj_formatter.item_template")
        })?);
    }
    Ok(texts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt() -> Value {
        json!({
            "trajectory": [
                {"action": "ls", "observation": "a", "response": "r0"},
                {"action": " cat a", "observation": "b", "response": "r1"},
                {"action": "submit", "observation": "c", "response": "r2"},
            ],
            "info": {"exit_status": "submitted", "submission": null, "model_stats": {"api_calls": 2}},
        })
    }

    #[test]
    fn steps_and_outputs_are_left_out() {
        let templates = mswea_plugin_host::templates(None);
        for (left_out, without, last, expected) in [
            (&[][..], &[][..], 0, "0 r0 a\n\n1 r1 b\n\n2 r2 c"),
            (&["cat"], &[], 0, "0 r0 a\n\n1 r2 c"),
            (
                &[],
                &["cat", "ls"],
                0,
                "0 r0 [Output omitted]\n\n1 r1 [Output omitted]\n\n2 r2 c",
            ),
            (
                &[],
                &[],
                1,
                "0 r0 [Output omitted]\n\n1 r1 [Output omitted]\n\n2 r2 c",
            ),
            (&["l"], &[], 9, "0 r1 b\n\n1 r2 c"),
        ] {
            let texts = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect();
            let settings = StepsShown {
                left_out: texts(left_out),
                without_output: texts(without),
                template: "{{i_step}} {{response}} {{observation}}".to_owned(),
                last_outputs: last,
            };
            let shown = steps(&templates, &settings, &attempt()["trajectory"]);
            assert_eq!(shown.unwrap(), expected);
        }
    }

    #[test]
    fn choosers_see_patches_of_a_limited_length() {
        let templates = mswea_plugin_host::templates(None);
        let settings = ChooserSettings {
            model: crate::GivenTree::empty(crate::GivenAt::Flag("x".to_owned())),
            system: String::new(),
            instance:
                "{{problem_statement}}:{% for s in submissions %}{{loop.index0}}={{s}};{% endfor %}"
                    .to_owned(),
            submission: "{{submission}} {{model_stats_api_calls}} {{exit_status}}".to_owned(),
            longest: 3,
            preselector: None,
        };
        let problem = SweProblem {
            text: "p".to_owned(),
            ..SweProblem::default()
        };
        let with = |patch: &str| {
            let mut made = attempt();
            made["info"]["submission"] = patch.into();
            made
        };
        let (none, fits, long) = (attempt(), with("éab"), with("abcd"));
        let shown = choice_question(&templates, &settings, &problem, &[&none, &fits, &long]);
        assert_eq!(
            shown.unwrap(),
            "p:0=Solution invalid.;1=éab 2.0 submitted;2=Solution invalid.;"
        );
    }
}
