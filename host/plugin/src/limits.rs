//! The limits of a plugin, and the counters that enforce them.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// The limits of one plugin instance. There is no `Default`, so that every store is made with
/// explicit limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginLimits {
    /// Wall-clock time of one call.
    pub deadline: Duration,
    /// Bytes of linear memory, over all memories of the component.
    pub memory: usize,
    /// Bytes that one call may return to the host.
    pub output: usize,
    /// Bytes of log, standard output and standard error that one call may write.
    pub log: usize,
}

impl PluginLimits {
    /// The limits of a plugin without settings of its own: enough for plugins in any language,
    /// small compared to the host's memory.
    pub const STANDARD: Self = Self {
        deadline: Duration::from_secs(5),
        memory: 256 << 20,
        output: 16 << 20,
        log: 64 << 10,
    };

    /// The limits of an adapter for responses of up to `bytes`. A response is returned twice, as
    /// the message and in its original form, and the adapter holds several copies while it parses
    /// it.
    #[must_use]
    pub fn for_answers(bytes: u64) -> Self {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let megabytes = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
        let standard = Self::STANDARD;
        Self {
            deadline: standard.deadline + Duration::from_millis(250) * megabytes,
            memory: standard.memory.saturating_add(bytes.saturating_mul(10)),
            output: standard.output.saturating_add(bytes.saturating_mul(3)),
            log: standard.log,
        }
    }
}

/// Instances in one component (a language's runtime and its adapters).
const INSTANCES: usize = 64;
const MEMORIES: usize = 8;
const TABLES: usize = 64;
const TABLE_ELEMENTS: usize = 1 << 20;

/// The fixed limits, as a text for messages.
pub fn caps() -> String {
    format!(
        "a plugin may have {INSTANCES} instances, {MEMORIES} memories and {TABLES} tables of together {TABLE_ELEMENTS} elements"
    )
}

/// Enforces a store's limits. wasmtime's own limiter counts each memory by itself; this one counts
/// their sum, because a component may have several.
#[derive(Debug)]
pub struct Meter {
    limit: usize,
    used: usize,
    pending: usize,
    elements: usize,
    /// Set when the guest was refused memory, which explains an abort that follows.
    pub refused_memory: bool,
}

impl Meter {
    /// A meter with this memory limit.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            used: 0,
            pending: 0,
            elements: 0,
            refused_memory: false,
        }
    }
}

impl Meter {
    /// Bytes of linear memory that the instance has.
    pub fn used(&self) -> usize {
        self.used
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let fits = self.used.saturating_add(more) <= self.limit
            && maximum.is_none_or(|maximum| desired <= maximum);
        if fits {
            self.used += more;
            self.pending = more;
        } else {
            self.refused_memory = true;
        }
        Ok(fits)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.used = self.used.saturating_sub(self.pending);
        self.pending = 0;
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let fits = self.elements.saturating_add(more) <= TABLE_ELEMENTS
            && maximum.is_none_or(|maximum| desired <= maximum);
        if fits {
            self.elements += more;
        }
        Ok(fits)
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn memories(&self) -> usize {
        MEMORIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_all_memories_together() {
        let mut meter = Meter::new(100);
        assert!(meter.memory_growing(0, 60, None).unwrap());
        assert!(!meter.memory_growing(0, 60, None).unwrap());
        assert!(meter.refused_memory);
        assert!(meter.memory_growing(0, 40, None).unwrap());
    }

    #[test]
    fn a_failed_growth_is_given_back() {
        let mut meter = Meter::new(100);
        assert!(meter.memory_growing(0, 60, None).unwrap());
        meter
            .memory_grow_failed(wasmtime::Error::msg("no memory"))
            .unwrap();
        assert!(meter.memory_growing(0, 100, None).unwrap());
    }
}
