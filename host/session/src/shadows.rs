//! `--shadow`: candidates that run beside the plugins of a run, each in the roles that it has.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::SetupError;
use super::plugins::{RoleSetup, StartedRoles, describe};
use mswea_core::Onlooker;
use mswea_laboratory::experiment::{Shadow, ShadowError, ShadowSettings, Steps};
use mswea_plugin_host::{RoleKind, WasmMaker};

/// How long the end of a run waits for a candidate's remaining calls, unless the limit of one call
/// is shorter.
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

impl RoleSetup<'_> {
    /// Puts the shadows beside the roles that were made.
    pub(super) async fn shadow(&self, mut made: StartedRoles) -> Result<StartedRoles, SetupError> {
        if self.job.shadows.is_empty() {
            return Ok(made);
        }
        let steps = Steps::over(self.context.journal.clone());
        for spec in self.job.shadows {
            let named = self.load(spec, None).await?;
            // An adapter can't be a shadow. A plugin with further kinds can be one in these.
            let kinds = &named.plugin.kinds;
            let only = kinds.len() == 1;
            let kinds = kinds
                .iter()
                .filter(|kind| only || **kind != RoleKind::ModelAdapter);
            for kind in kinds.copied() {
                if kind == RoleKind::ModelAdapter {
                    let plugin = named.name.to_string();
                    return Err(ShadowError::Adapter { plugin }.into());
                }
                let recipe = self.recipe(&named, kind, &self.offer(&named, kind))?;
                let config: Value = serde_json::from_str(&recipe.config).unwrap_or_default();
                let deadline = recipe.limits.deadline;
                let settings = ShadowSettings {
                    call_deadline: deadline,
                    ..ShadowSettings::default()
                };
                let maker = WasmMaker::new(named.plugin.clone(), recipe.limits, recipe.renderer)
                    .named(&named.name);
                let shadow =
                    Shadow::start(Arc::new(maker), config, kind, steps.clone(), settings).await?;
                made.roles = shadow.over(made.roles);
                let mut report = describe(&named, kind, None);
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
