//! The time of day, as a parameter of a run: tests pass another clock.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Returns the time in Unix seconds, rounded to microseconds: some JSON readers lose further
/// digits.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Clock {
    /// A clock of the caller's own, in Unix seconds.
    pub fn new(now: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Unix seconds.
    pub fn now(&self) -> f64 {
        (self.0)()
    }
}

impl Default for Clock {
    /// The system's clock as it was when it was first asked, going on steadily: limits of time are measured by it, and
    /// must not follow a clock that is set during a run.
    fn default() -> Self {
        Self::new(|| {
            static FIRST: OnceLock<(SystemTime, Instant)> = OnceLock::new();
            let (time, instant) = FIRST.get_or_init(|| (SystemTime::now(), Instant::now()));
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default() + instant.elapsed();
            #[expect(clippy::cast_precision_loss, reason = "exact until the year 2255")]
            let micros = since.as_micros() as f64;
            micros / 1e6
        })
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
