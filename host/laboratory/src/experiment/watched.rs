//! Wraps a history processor to measure its own duration and record how it failed, without the
//! duration and the failures of the chain around it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use mswea_core::{Asker, Change, Manner, PluginFault, Processor, ViewChange};

/// The last call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub took: Duration,
    pub failed: Option<Manner>,
}

/// The place where [`WatchedProcessor`] records the last call.
#[derive(Clone, Default)]
pub(super) struct Sight(Arc<Mutex<Seen>>);

impl Sight {
    pub(super) fn last(&self) -> Seen {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct WatchedProcessor {
    inner: Box<dyn Processor>,
    sight: Sight,
}

impl WatchedProcessor {
    pub(super) fn over(inner: Box<dyn Processor>) -> (Box<dyn Processor>, Sight) {
        let sight = Sight::default();
        let watched = Self {
            inner,
            sight: sight.clone(),
        };
        (Box::new(watched), sight)
    }
}

#[async_trait]
impl Processor for WatchedProcessor {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn needs_all(&self) -> bool {
        self.inner.needs_all()
    }

    fn discard(&mut self) {
        self.inner.discard();
    }

    async fn apply(
        &mut self,
        change: Change,
        asker: &mut dyn Asker,
    ) -> Result<ViewChange, PluginFault> {
        let started = Instant::now();
        let result = self.inner.apply(change, asker).await;
        *self.sight.0.lock().unwrap_or_else(PoisonError::into_inner) = Seen {
            took: started.elapsed(),
            failed: result.as_ref().err().map(|fault| fault.manner),
        };
        result
    }
}
