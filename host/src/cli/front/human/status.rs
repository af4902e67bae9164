//! The line that counts the seconds while there is no other output.

use std::time::{Duration, Instant};

use crate::cli::front::words;

/// The part for which the run waits, and the start of the wait.
#[derive(Clone, Debug)]
pub(super) enum Status {
    /// The environment is being prepared.
    Preparing(Instant),
    /// The model's reply is awaited or arriving; the number of characters so far.
    Answering { since: Instant, characters: usize },
    /// A command is running.
    Running(Instant),
    /// A request will be sent again at `end`: `retry 1 of 10`.
    Retrying { what: String, end: Instant },
}

impl Status {
    /// The model was queried.
    pub fn asking(since: Instant) -> Self {
        Self::Answering {
            since,
            characters: 0,
        }
    }

    /// Changes to the next state if its time has come: the request is sent.
    pub fn at(&mut self, now: Instant) {
        if let Self::Retrying { end, .. } = self
            && now >= *end
        {
            *self = Self::asking(*end);
        }
    }

    /// The line; in most states none in the first second, because it would only flicker.
    pub fn line(&self, now: Instant) -> Option<String> {
        let since = match self {
            Self::Retrying { what, end } => {
                let left = end.saturating_duration_since(now);
                return Some(format!("{what} in {} s", whole_seconds(left)));
            }
            Self::Preparing(since) | Self::Running(since) | Self::Answering { since, .. } => since,
        };
        let seconds = now.saturating_duration_since(*since).as_secs();
        if seconds == 0 {
            return None;
        }
        let time = if seconds < 100 {
            format!("{seconds} s")
        } else {
            format!("{} min {} s", seconds / 60, seconds % 60)
        };
        Some(match self {
            Self::Answering { characters: 0, .. } => format!("waiting for the model: {time}"),
            Self::Answering { characters, .. } => {
                // Servers report the count only at the end. A token has about four characters.
                let tokens = u64::try_from(characters.div_ceil(4)).unwrap_or(u64::MAX);
                let tokens = words::number(if tokens < 100 {
                    tokens
                } else {
                    tokens / 10 * 10
                });
                format!("the model answers: {time}, about {tokens} tokens")
            }
            Self::Running(_) => format!("  running: {time}"),
            _ => format!("preparing: {time}"),
        })
    }

    /// The beginning of the line below the output, for a user who may type.
    pub fn footer(&self, now: Instant) -> String {
        let words = match self {
            Self::Preparing(_) => "preparing",
            Self::Answering { .. } => "waiting for the model",
            Self::Running(_) => "running",
            Self::Retrying { what, .. } => what,
        };
        let line = self.line(now);
        line.map_or_else(|| words.to_owned(), |line| line.trim().to_owned())
    }

    /// The time until the line changes.
    pub fn pause(&self, now: Instant) -> Duration {
        let into = match self {
            Self::Retrying { end, .. } => {
                let left = end.saturating_duration_since(now);
                return left
                    .saturating_sub(Duration::from_secs(whole_seconds(left).saturating_sub(1)));
            }
            Self::Preparing(since) | Self::Running(since) | Self::Answering { since, .. } => {
                now.saturating_duration_since(*since)
            }
        };
        Duration::from_secs(1) - Duration::from_nanos(into.subsec_nanos().into())
    }
}

/// The time rounded up, so that `1 s` means at most a second.
pub(super) fn whole_seconds(left: Duration) -> u64 {
    left.as_secs() + u64::from(left.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let answering = |characters| Status::Answering {
            since: begin,
            characters,
        };
        let retrying = Status::Retrying {
            what: "retry 1 of 10".to_owned(),
            end: at(2500),
        };
        for (status, millis, line, pause) in [
            (answering(0), 999, None, 1),
            (answering(0), 1000, Some("waiting for the model: 1 s"), 1000),
            (
                answering(5),
                12_300,
                Some("the model answers: 12 s, about 2 tokens"),
                700,
            ),
            (
                answering(6666),
                125_000,
                Some("the model answers: 2 min 5 s, about 1,660 tokens"),
                1000,
            ),
            (Status::Running(begin), 99_999, Some("  running: 99 s"), 1),
            (Status::Preparing(begin), 3000, Some("preparing: 3 s"), 1000),
            (retrying.clone(), 0, Some("retry 1 of 10 in 3 s"), 500),
            (retrying.clone(), 500, Some("retry 1 of 10 in 2 s"), 1000),
            (retrying.clone(), 2400, Some("retry 1 of 10 in 1 s"), 100),
        ] {
            assert_eq!(status.line(at(millis)).as_deref(), line, "{status:?}");
            assert_eq!(
                status.pause(at(millis)),
                Duration::from_millis(pause),
                "{status:?}"
            );
        }
        let mut status = retrying;
        status.at(at(2499));
        assert!(matches!(status, Status::Retrying { .. }));
        status.at(at(2600));
        assert_eq!(
            status.line(at(3600)).as_deref(),
            Some("waiting for the model: 1 s")
        );
    }

    #[test]
    fn seconds_are_rounded_up() {
        for (millis, seconds) in [(0, 0), (1, 1), (1000, 1), (1001, 2)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
        }
    }
}
