//! A line that counts the seconds until the next try, written over each second.

use std::sync::{Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::lock;

/// What a countdown writes to.
pub(super) trait Target: Send + 'static {
    /// Shows that `seconds` are left, if the countdown `id` is still the current one; answers
    /// whether it is.
    fn tick(&mut self, id: u64, seconds: u64) -> bool;
}

/// Counts until `end` in a thread of its own: the run's tasks sleep meanwhile, and a front has
/// no runtime to lean on. The thread ends within a second after the countdown `id` stops being
/// the current one or the target is gone.
pub(super) fn start<T: Target>(target: Weak<Mutex<T>>, id: u64, end: Instant) {
    let count = move || {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let seconds = whole_seconds(left);
            let Some(target) = target.upgrade() else {
                return;
            };
            if !lock(&target).tick(id, seconds) || seconds == 0 {
                return;
            }
            drop(target);
            thread::sleep(left - Duration::from_secs(seconds - 1));
        }
    };
    // Without a thread the line simply stands still.
    drop(
        thread::Builder::new()
            .name("countdown".to_owned())
            .spawn(count),
    );
}

/// Rounded up: a person who reads `1 s` waits a second at the most.
pub(super) fn whole_seconds(left: Duration) -> u64 {
    left.as_secs() + u64::from(left.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Default)]
    struct Ticks {
        seen: Vec<u64>,
        current: u64,
    }

    impl Target for Ticks {
        fn tick(&mut self, id: u64, seconds: u64) -> bool {
            if id == self.current {
                self.seen.push(seconds);
            }
            id == self.current
        }
    }

    fn wait_until(done: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !done() {
            assert!(Instant::now() < end, "nothing happened");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn counts_to_zero_and_stops() {
        let ticks = Arc::new(Mutex::new(Ticks::default()));
        let end = Instant::now() + Duration::from_millis(1100);
        start(Arc::downgrade(&ticks), 0, end);
        wait_until(|| lock(&ticks).seen.last() == Some(&0));
        let seen = lock(&ticks).seen.clone();
        assert!(seen.is_sorted_by(|a, b| a > b), "{seen:?}");
        assert!(seen[0] <= 2, "{seen:?}");
    }

    #[test]
    fn stops_when_it_is_no_longer_the_current_one_or_the_target_is_gone() {
        let ticks = Arc::new(Mutex::new(Ticks {
            current: 1,
            ..Ticks::default()
        }));
        let end = Instant::now() + Duration::from_secs(60);
        start(Arc::downgrade(&ticks), 0, end);
        wait_until(|| Arc::weak_count(&ticks) == 0);
        assert!(lock(&ticks).seen.is_empty());

        let end = Instant::now() + Duration::from_millis(50);
        start(Arc::downgrade(&ticks), 1, end);
        drop(ticks);
    }

    #[test]
    fn seconds_are_rounded_up() {
        for (millis, seconds) in [(0, 0), (1, 1), (1000, 1), (1001, 2)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
        }
    }
}
