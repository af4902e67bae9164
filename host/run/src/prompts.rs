//! The templates of a run, and the messages made from them.

use std::sync::Arc;

use super::{Demonstration, Variables};
use mswea_core::{End, Message, Object, Problem, Reply};

/// The templates that the loop itself renders; observations are the formatter's business.
pub struct Prompts {
    /// First message.
    pub system: String,
    /// The message with the task.
    pub instance: String,
    /// Messages between these two.
    pub demonstrations: Vec<Demonstration>,
    /// A further paragraph of the message with the task.
    pub strategy: Option<String>,
    /// The template of the feedback on a malformed reply.
    pub format_error: String,
    /// The template of the feedback on a command that bash can't read.
    pub syntax_error: String,
    /// Templates that are tried before the first query.
    pub trials: Vec<TemplateTrial>,
    /// Renders the templates.
    pub variables: Arc<Variables>,
}

/// A template for what a run gets later, with examples of it. A mistake in it would end the run after
/// queries that were paid.
pub struct TemplateTrial {
    /// Its config key.
    pub key: String,
    /// The template.
    pub template: String,
    /// The variables that it may get.
    pub examples: Vec<Object>,
    /// Whether every run renders it. A mistake in another one is told, and the run begins.
    pub is_needed: bool,
}

impl Prompts {
    /// The messages that a run begins with. The variables in `over` replace those of the same name.
    ///
    /// # Errors
    /// [`End::Template`] if a template can't be rendered.
    pub async fn opening(&self, over: &Object) -> Result<Vec<Message>, End> {
        let render = async |key: &str, template: &str| {
            let rendered = self.variables.render(template, over).await;
            rendered.map_err(|error| template_failed(error.named(key)))
        };
        let system = render("agent.system_template", &self.system).await?;
        let mut instance = render("agent.instance_template", &self.instance).await?;
        if let Some(strategy) = &self.strategy {
            let strategy = render("agent.strategy_template", strategy).await?;
            instance = format!("{instance}\n{strategy}");
        }
        let mut messages = vec![Message::new("system", system)];
        for demonstration in &self.demonstrations {
            let text = match demonstration {
                Demonstration::Template(template) => {
                    Some(render("agent.demonstrations", template).await?)
                }
                Demonstration::Recorded(_) => None,
            };
            messages.push(demonstration.message(text));
        }
        messages.push(Message::new("user", instance));
        Ok(messages)
    }

    /// Refuses a template that can be rendered for none of its examples, or that calls what does not
    /// exist for one of them. Another mistake may be one of the example. Returns warnings about those
    /// that a run may never render.
    ///
    /// # Errors
    /// [`End::Template`] if there is one.
    pub async fn try_out(&self) -> Result<Vec<String>, End> {
        let mut warnings = Vec::new();
        for trial in &self.trials {
            let mut failed = None;
            let mut worked = 0;
            for example in &trial.examples {
                match self.variables.render(&trial.template, example).await {
                    Ok(_) => worked += 1,
                    Err(error) => {
                        let is_certain = error.message.starts_with("unknown method");
                        // The other examples would take as long.
                        let is_endless = error.message.starts_with("gave up");
                        worked = if is_certain { 0 } else { worked };
                        failed = Some(error);
                        if is_certain || is_endless {
                            break;
                        }
                    }
                }
            }
            if let Some(error) = failed.filter(|_| worked == 0) {
                let error = error.named(&trial.key);
                if trial.is_needed {
                    return Err(template_failed(error));
                }
                warnings.push(format!("when it is needed, this will end the run: {error}"));
            }
        }
        Ok(warnings)
    }

    /// The feedback on a command that bash can't read.
    ///
    /// # Errors
    /// [`End::Template`] if the template can't be rendered.
    pub async fn syntax_feedback(&self, vars: &Object) -> Result<String, End> {
        let rendered = self.variables.render(&self.syntax_error, vars).await;
        rendered.map_err(|error| template_failed(error.named("agent.syntax_error_template")))
    }

    /// The feedback on a malformed reply.
    ///
    /// # Errors
    /// [`End::Template`] if the template can't be rendered.
    pub async fn feedback(&self, problem: &Problem, reply: &Reply) -> Result<String, End> {
        let mut vars = Object::new();
        vars.insert("actions".into(), serde_json::Value::Array(Vec::new()));
        vars.insert("finish_reason".into(), reply.finish_reason.clone().into());
        vars.insert(
            "has_tool_calls".into(),
            (!reply.message.tool_calls.is_empty()).into(),
        );
        vars.extend(problem.details.clone());
        vars.insert("error".into(), problem.message.clone().into());
        vars.insert("code".into(), problem.code.clone().into());
        let rendered = self.variables.render(&self.format_error, &vars).await;
        rendered.map_err(|error| template_failed(error.named("model.format_error_template")))
    }
}

/// The end of a run whose template can't be rendered: a fault of the config, unless the machine has no memory left for it.
pub(crate) fn template_failed(error: impl std::fmt::Display) -> End {
    let message = error.to_string();
    match message.contains(mswea_template::NO_ENGINE) {
        true => End::Environment { message },
        false => End::Template { message },
    }
}
