//! `--shadow`: candidates that run beside the plugins of a run, each in the roles that it has.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::SetupError;
use super::plugins::{Made, Roles, describe};
use crate::experiment::{Shadow, ShadowError, ShadowSettings, Steps};
use crate::plugin::{Kind, WasmMaker};
use crate::roles::Onlooker;

/// How long the end of a run waits for what a candidate has left to do; at the most, the limit of
/// one of its calls.
const LAST_WAIT: Duration = Duration::from_secs(2);

struct Watch {
    shadow: Shadow,
    deadline: Duration,
}

#[async_trait]
impl Onlooker for Watch {
    async fn finish(self: Box<Self>) -> String {
        self.shadow.finish(self.deadline).await.brief()
    }
}

impl Roles<'_> {
    /// Puts the shadows beside the roles that were made.
    pub(super) async fn shadow(&self, mut made: Made) -> Result<Made, SetupError> {
        if self.job.shadows.is_empty() {
            return Ok(made);
        }
        let steps = Steps::over(self.context.journal.clone());
        for spec in self.job.shadows {
            let actor = self.load(spec, None).await?;
            // An adapter has no shadow, but what is more than one may have others.
            let kinds = &actor.plugin.kinds;
            let only = kinds.len() == 1;
            let kinds = kinds
                .iter()
                .filter(|kind| only || **kind != Kind::ModelAdapter);
            for kind in kinds.copied() {
                if kind == Kind::ModelAdapter {
                    let plugin = actor.name.to_string();
                    return Err(ShadowError::Adapter { plugin }.into());
                }
                let recipe = self.recipe(&actor, kind, &self.offer(&actor, kind))?;
                let config: Value = serde_json::from_str(&recipe.config).unwrap_or_default();
                let deadline = recipe.limits.deadline;
                let settings = ShadowSettings {
                    call_deadline: deadline,
                    ..ShadowSettings::default()
                };
                let maker = WasmMaker::new(actor.plugin.clone(), recipe.limits, recipe.renderer)
                    .named(&actor.name);
                let shadow =
                    Shadow::start(Arc::new(maker), config, kind, steps.clone(), settings).await?;
                made.cast = shadow.over(made.cast);
                let mut report = describe(&actor, kind, None);
                report["shadow"] = true.into();
                made.report.push(report);
                made.onlookers.push(Box::new(Watch {
                    shadow,
                    deadline: deadline.min(LAST_WAIT),
                }));
            }
        }
        made.steps = Some(steps);
        Ok(made)
    }
}
