//! Whether a failed request is sent again, and after how long.
//!
//! Rate limits and network faults have separate budgets, so that ten rate limits do not use up the
//! retries for an unreliable network, nor the reverse. Waits double, up to a minute. Each is
//! lengthened at random by up to a quarter, so that agents which failed together do not retry
//! together. Waits are not shortened: a restart of a server takes minutes, and the budget has to
//! cover them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::HeaderMap;
use tokio::time::Instant;

use super::fault::seconds;
use super::settings::RequestSettings;
use mswea_core::ErrorClass;

/// If a provider asks for a longer wait than this, the query fails.
const LONGEST_ASKED: Duration = Duration::from_secs(600);

/// The action after a failure.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    /// Send the request again after `wait`; this is retry number `attempt` of `of`.
    Again {
        attempt: u32,
        of: u32,
        wait: Duration,
    },
    /// Another attempt would not help, or none is left; the text is added to the message.
    GiveUp(String),
}

/// The retries of one query.
pub(super) struct Retries {
    random: fastrand::Rng,
    started: Instant,
    attempts: u32,
    rate_limit: u32,
    network: u32,
    doubtful: u32,
}

impl Retries {
    pub fn new(random: fastrand::Rng) -> Self {
        Self {
            random,
            started: Instant::now(),
            attempts: 0,
            rate_limit: 0,
            network: 0,
            doubtful: 0,
        }
    }

    /// Counts an attempt.
    pub fn count(&mut self) {
        self.attempts += 1;
    }

    /// Decides what to do after a failure of class `class`. `asked` is the wait that the provider
    /// asks for. `tries` is the number of further attempts that make sense for this failure; none:
    /// any number.
    pub fn decide(
        &mut self,
        class: &ErrorClass,
        tries: Option<u32>,
        asked: Option<Duration>,
        settings: &RequestSettings,
    ) -> Decision {
        let (used, of, key) = match class {
            ErrorClass::RateLimited | ErrorClass::Overloaded => (
                &mut self.rate_limit,
                settings.rate_limit_retries,
                "rate_limit_retries",
            ),
            ErrorClass::Timeout | ErrorClass::Network | ErrorClass::MalformedResponse => (
                &mut self.network,
                settings.network_retries,
                "network_retries",
            ),
            _ => return Decision::GiveUp(String::new()),
        };
        if tries == Some(0) {
            return Decision::GiveUp(String::new());
        }
        let attempts = match self.attempts {
            1 => "1 attempt".to_owned(),
            count => format!("{count} attempts"),
        };
        if *used >= of {
            return Decision::GiveUp(format!(
                " (gave up after {attempts} over {}; `model.{key}` is {of})",
                seconds(self.started.elapsed())
            ));
        }
        if let Some(asked) = asked.filter(|asked| *asked > LONGEST_ASKED) {
            return Decision::GiveUp(format!(
                " (gave up after {attempts}: the provider asks to wait {}, and the host waits at most {}; run it again later)",
                seconds(asked),
                seconds(LONGEST_ASKED)
            ));
        }
        let mut of = of;
        if let Some(tries) = tries {
            if self.doubtful >= tries {
                return Decision::GiveUp(format!(
                    " (gave up after {attempts} over {})",
                    seconds(self.started.elapsed())
                ));
            }
            of = of.min(*used + tries - self.doubtful);
            self.doubtful += 1;
        }
        *used += 1;
        let attempt = *used;
        let least = settings
            .retry_wait
            .saturating_mul(2_u32.saturating_pow(attempt - 1))
            .min(settings.max_wait);
        let drawn = least.mul_f64(1.0 + self.random.f64() / 4.0);
        let wait = match asked {
            // A little longer than asked, because other clients were asked to wait as long.
            Some(asked) if asked > drawn => {
                asked
                    + settings
                        .retry_wait
                        .min(asked)
                        .mul_f64(self.random.f64() / 4.0)
            }
            _ => drawn,
        };
        Decision::Again { attempt, of, wait }
    }
}

/// The wait that a response's headers ask for. Adapters have no clock, so dates are parsed here.
pub(super) fn asked(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let get = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = get("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return duration(millis / 1000.0);
    }
    let value = get("retry-after")?;
    if let Ok(seconds) = value.parse::<f64>() {
        return duration(seconds);
    }
    let until = http_date(value)?;
    // Relative to the server's clock if a header gives it: this machine's clock may be wrong.
    let now = get("date")
        .and_then(http_date)
        .or_else(|| Some(now.duration_since(UNIX_EPOCH).ok()?.as_secs()))?;
    Some(Duration::from_secs(until.saturating_sub(now)))
}

fn duration(seconds: f64) -> Option<Duration> {
    (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// Unix seconds of a date like `Sun, 06 Nov 1994 08:49:37 GMT`, the form that servers have to send
/// (RFC 9110, 5.6.7).
fn http_date(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once(", ")?;
    let mut words = rest.split(' ');
    let day: i64 = words.next()?.parse().ok()?;
    let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let name = words.next()?;
    let month = i64::try_from(months.iter().position(|month| *month == name)?).ok()? + 1;
    let year: i64 = words.next()?.parse().ok()?;
    let mut clock = words
        .next()?
        .split(':')
        .map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let plausible = words.next() == Some("GMT")
        && (1970..10_000).contains(&year)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    if !plausible {
        return None;
    }
    // Days since 1970, with years that begin in March, so that a leap day is a year's last day.
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    u64::try_from(days * 86_400 + hour * 3600 + minute * 60 + second).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retries() -> Retries {
        Retries::new(fastrand::Rng::with_seed(7))
    }

    #[test]
    fn waits_grow_within_bounds() {
        let settings = RequestSettings::standard();
        for (class, budget) in [
            (ErrorClass::RateLimited, 10),
            (ErrorClass::Overloaded, 10),
            (ErrorClass::Timeout, 9),
            (ErrorClass::Network, 9),
            (ErrorClass::MalformedResponse, 9),
        ] {
            let mut retries = retries();
            let mut waited = Duration::ZERO;
            for n in 1..=budget {
                let decision = retries.decide(&class, None, None, &settings);
                let Decision::Again { attempt, of, wait } = decision else {
                    panic!("{class} {n}: {decision:?}")
                };
                assert_eq!((attempt, of), (n, budget));
                let least = 60_000.min(1000 * 2_u128.pow(n - 1));
                assert!(
                    (least..=least * 5 / 4).contains(&wait.as_millis()),
                    "{n} {wait:?}"
                );
                waited += wait;
            }
            // mini-swe-agent waits for 248 s.
            assert!(waited > Duration::from_secs(240), "{class}: {waited:?}");
            let Decision::GiveUp(why) = retries.decide(&class, None, None, &settings) else {
                panic!()
            };
            assert!(why.contains("_retries` is"), "{why}");
        }
    }

    #[test]
    fn budgets_are_separate() {
        let settings = RequestSettings {
            rate_limit_retries: 1,
            network_retries: 1,
            ..RequestSettings::standard()
        };
        let mut retries = retries();
        for (class, again) in [
            (ErrorClass::RateLimited, true),
            (ErrorClass::Network, true),
            (ErrorClass::Overloaded, false),
            (ErrorClass::MalformedResponse, false),
        ] {
            let decision = retries.decide(&class, None, None, &settings);
            assert_eq!(matches!(decision, Decision::Again { .. }), again, "{class}");
        }
        for class in [
            ErrorClass::Authentication,
            ErrorClass::BadRequest,
            ErrorClass::Other("x".to_owned()),
        ] {
            let decision = retries.decide(&class, None, None, &RequestSettings::standard());
            assert_eq!(decision, Decision::GiveUp(String::new()), "{class}");
        }
    }

    #[test]
    fn some_failures_are_worth_one_try_or_none() {
        let settings = RequestSettings::standard();
        for (often_before, tries, expected) in [
            (0, 0, 0),
            (0, 1, 1),
            (0, 3, 3),
            (2, 1, 1),
            (8, 3, 1),
            (9, 1, 0),
        ] {
            let mut retries = retries();
            for _ in 0..often_before {
                retries.decide(&ErrorClass::Network, None, None, &settings);
            }
            let mut made = 0;
            while let Decision::Again { attempt, of, .. } =
                retries.decide(&ErrorClass::Network, Some(tries), None, &settings)
            {
                made += 1;
                assert_eq!(
                    (attempt, of),
                    (often_before + made, often_before + expected)
                );
            }
            assert_eq!(made, expected, "{often_before} {tries}");
        }
    }

    #[test]
    fn what_the_provider_asks() {
        let settings = RequestSettings::standard();
        for (asked, least, most) in [
            (0, 1000, 1250),
            (20, 20_000, 20_250),
            (90, 90_000, 90_250),
            (600, 600_000, 600_250),
        ] {
            let asked = Some(Duration::from_secs(asked));
            let Decision::Again { wait, .. } =
                retries().decide(&ErrorClass::RateLimited, None, asked, &settings)
            else {
                panic!()
            };
            assert!((least..=most).contains(&wait.as_millis()), "{wait:?}");
        }
        let long = Some(Duration::from_secs(3600));
        let Decision::GiveUp(why) =
            retries().decide(&ErrorClass::RateLimited, None, long, &settings)
        else {
            panic!()
        };
        assert_eq!(
            why,
            " (gave up after 0 attempts: the provider asks to wait 60 min, and the host waits at most \
             10 min; run it again later)"
        );
    }

    #[test]
    fn headers() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let later = "Sun, 06 Nov 1994 08:50:07 GMT";
        for (pairs, expected) in [
            (&[][..], None),
            (&[("retry-after", "7")][..], Some(7000)),
            (&[("retry-after", "1.5")], Some(1500)),
            (
                &[("retry-after", "7"), ("retry-after-ms", "250")],
                Some(250),
            ),
            (&[("retry-after", later)], Some(30_000)),
            (&[("retry-after", later), ("date", date)], Some(30_000)),
            (&[("retry-after", date), ("date", later)], Some(0)),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "NaN")], None),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            let millis = asked(&headers, now).map(|wait| wait.as_millis());
            assert_eq!(millis, expected, "{pairs:?}");
        }
        for (text, expected) in [
            (date, Some(784_111_777)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Thu, 29 Feb 2024 23:59:59 GMT", Some(1_709_251_199)),
            ("Fri, 01 Mar 2024 00:00:00 GMT", Some(1_709_251_200)),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("Sun, 06 Foo 1994 08:49:37 GMT", None),
            ("Sunday, 06-Nov-94 08:49:37 GMT", None),
            ("", None),
        ] {
            assert_eq!(http_date(text), expected, "{text}");
        }
    }
}
