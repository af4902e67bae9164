//! Response headers, and the waits that servers ask for in them, as far as they can be computed
//! without a clock.

/// Headers with names in lower case.
#[derive(Debug, Default)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// The first header of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.trim())
    }

    /// How long to wait, in milliseconds. The windows of a rate limit are used only after a rate
    /// limit error, because every response contains them.
    pub fn retry_after_ms(&self, is_rate: bool) -> Option<u64> {
        let exact = self
            .get("retry-after-ms")
            .and_then(|text| millis(text, 1.0));
        exact
            .or_else(|| {
                let text = self.get("retry-after")?;
                millis(text, 1000.0).or_else(|| self.until(http_date(text)?))
            })
            .or_else(|| if is_rate { self.window() } else { None })
    }

    /// The wait until the exhausted window of a rate limit is reset. If no header names the
    /// exhausted window, it is the longest wait of all windows.
    fn window(&self) -> Option<u64> {
        let mut all = None;
        let mut exhausted = None;
        for (name, value) in &self.0 {
            let Some(remaining) = remaining(name) else {
                continue;
            };
            let wait = self.reset(value.trim());
            all = all.max(wait);
            if self.get(&remaining) == Some("0") {
                exhausted = exhausted.max(wait);
            }
        }
        exhausted.or(all)
    }

    /// A reset is a span (`6m0s`, `2`) or, for some servers, a time: an RFC 3339 date, or Unix
    /// seconds or milliseconds.
    fn reset(&self, text: &str) -> Option<u64> {
        match text.parse::<u64>() {
            Ok(moment) if moment > 100_000_000_000 => self.until(moment),
            Ok(moment) if moment > 1_000_000_000 => self.until(moment * 1000),
            _ => span(text).or_else(|| self.until(rfc3339(text)?)),
        }
    }

    /// The span until a time, by the server's own clock, since a plugin has none.
    fn until(&self, moment_ms: u64) -> Option<u64> {
        let now = http_date(self.get("date")?)?;
        Some(moment_ms.saturating_sub(now))
    }
}

/// The header with the remainder of a window, by the name of the one with its reset.
fn remaining(reset: &str) -> Option<String> {
    if let Some(which) = reset.strip_prefix("x-ratelimit-reset") {
        return Some(format!("x-ratelimit-remaining{which}"));
    }
    let which = reset.strip_prefix("anthropic-ratelimit-")?;
    let which = which.strip_suffix("-reset")?;
    Some(format!("anthropic-ratelimit-{which}-remaining"))
}

/// A wait in milliseconds in the text of a message: `try again in 1.2s`.
pub fn wait_in_text(message: &str) -> Option<u64> {
    let lower = message.to_ascii_lowercase();
    let at = ["try again in ", "retry in "]
        .into_iter()
        .find_map(|lead| lower.find(lead).map(|at| at + lead.len()))?;
    let mut words = lower[at..].split_whitespace();
    let wait = words.next()?.trim_end_matches(['.', ',', ';', ')']);
    let scale = match words.next().unwrap_or_default() {
        unit if unit.starts_with("minute") => 60_000.0,
        unit if unit.starts_with("hour") => 3_600_000.0,
        unit if unit.starts_with("ms") || unit.starts_with("milli") => 1.0,
        _ => 1000.0,
    };
    millis(wait, scale).or_else(|| span(wait))
}

/// A plain number times `scale`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked not to be negative; `as` saturates"
)]
fn millis(number: &str, scale: f64) -> Option<u64> {
    let value: f64 = number.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some((value * scale).ceil() as u64)
}

/// A span such as `1s`, `6m0s`, `120ms`, `1h2m3.5s`, `20`.
fn span(text: &str) -> Option<u64> {
    if let Some(plain) = millis(text, 1000.0) {
        return Some(plain);
    }
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let scale = match unit {
            "d" => 86_400_000.0,
            "h" => 3_600_000.0,
            "m" => 60_000.0,
            "s" => 1000.0,
            "ms" => 1.0,
            "us" | "µs" => 0.001,
            "ns" => 0.000_001,
            _ => return None,
        };
        total = total.saturating_add(millis(number, scale)?);
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

/// Unix milliseconds of an HTTP date (`Sun, 06 Nov 1994 08:49:37 GMT`).
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let mut words = text.split_whitespace().skip(1);
    let day: u64 = words.next()?.parse().ok()?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|known| *known == month)? as u64 + 1;
    let year: u64 = words.next()?.parse().ok()?;
    unix_millis([year, month, day], numbers(words.next()?, ':')?)
}

/// Unix milliseconds of an RFC 3339 date (`1994-11-06T08:49:37Z`). Fractions of a second are
/// ignored, so a wait can only become shorter.
fn rfc3339(text: &str) -> Option<u64> {
    let (date, clock) = text.split_once(['T', 't', ' '])?;
    let local = unix_millis(numbers(date, '-')?, numbers(clock.get(..8)?, ':')?)?;
    let digits = |c: char| c == '.' || c.is_ascii_digit();
    let zone = clock.get(8..)?.trim_start_matches(digits);
    let offset = match zone.strip_prefix(['+', '-']) {
        None if matches!(zone, "Z" | "z") => 0,
        None => return None,
        Some(offset) => {
            let (hours, minutes) = offset.split_once(':')?;
            (hours.parse::<u64>().ok()? * 60 + minutes.parse::<u64>().ok()?) * 60_000
        }
    };
    if zone.starts_with('-') {
        local.checked_add(offset)
    } else {
        local.checked_sub(offset)
    }
}

/// Three numbers with a sign between them.
fn numbers(text: &str, by: char) -> Option<[u64; 3]> {
    let mut parts = text.splitn(3, by).map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

/// Unix milliseconds of a date and time; none if it does not exist.
fn unix_millis([year, month, day]: [u64; 3], [hour, minute, second]: [u64; 3]) -> Option<u64> {
    let in_range = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !in_range {
        return None;
    }
    // Years begin in March here, so that the leap day is a year's last day.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days_before = |year: u64| 365 * year + year / 4 - year / 100 + year / 400;
    // 719 468 days lie between the first of March of year 0 and the first of January 1970.
    let days = days_before(year) + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_from_every_form() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        type Vector<'a> = (&'a [(&'a str, &'a str)], Option<u64>);
        let vectors: [Vector<'_>; 16] = [
            (&[], None),
            (&[("retry-after", "2")], Some(2000)),
            (&[("retry-after", "0.25")], Some(250)),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "soon")], None),
            (
                &[("retry-after", "3"), ("retry-after-ms", "1500")],
                Some(1500),
            ),
            (
                &[date, ("retry-after", "Sun, 06 Nov 1994 08:50:00 GMT")],
                Some(23_000),
            ),
            (
                &[date, ("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")],
                Some(0),
            ),
            (&[("retry-after", "Sun, 06 Nov 1994 08:50:00 GMT")], None),
            (
                &[
                    ("x-ratelimit-reset-requests", "1s"),
                    ("x-ratelimit-reset-tokens", "6m0s"),
                ],
                Some(360_000),
            ),
            (
                &[
                    ("x-ratelimit-reset-requests", "120ms"),
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-tokens", "6m0s"),
                    ("x-ratelimit-remaining-tokens", "7"),
                ],
                Some(120),
            ),
            (
                &[
                    ("date", "Thu, 06 Mar 2025 22:39:50 GMT"),
                    ("x-ratelimit-reset", "1741300800000"),
                ],
                Some(10_000),
            ),
            (
                &[
                    ("date", "Thu, 06 Mar 2025 22:39:50 GMT"),
                    ("x-ratelimit-reset", "1741300800"),
                ],
                Some(10_000),
            ),
            (
                &[
                    date,
                    ("anthropic-ratelimit-requests-reset", "1994-11-06T08:49:38Z"),
                    ("anthropic-ratelimit-requests-remaining", "49"),
                    (
                        "anthropic-ratelimit-input-tokens-reset",
                        "1994-11-06T08:50:37Z",
                    ),
                    ("anthropic-ratelimit-input-tokens-remaining", "0"),
                    (
                        "anthropic-ratelimit-output-tokens-reset",
                        "1994-11-06T09:50:37Z",
                    ),
                    ("anthropic-ratelimit-output-tokens-remaining", "8000"),
                ],
                Some(60_000),
            ),
            (
                &[
                    date,
                    ("anthropic-ratelimit-tokens-reset", "1994-11-06T08:49:39Z"),
                    (
                        "anthropic-ratelimit-requests-reset",
                        "1994-11-06T08:49:38.5Z",
                    ),
                ],
                Some(2000),
            ),
            (
                &[("anthropic-ratelimit-tokens-reset", "1994-11-06T08:49:39Z")],
                None,
            ),
        ];
        for (headers, expected) in vectors {
            let owned = headers
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
            let headers = Headers(owned.collect());
            assert_eq!(headers.retry_after_ms(true), expected, "{headers:?}");
        }
        let windows = Headers(vec![(
            "x-ratelimit-reset-tokens".to_owned(),
            "1s".to_owned(),
        )]);
        assert_eq!(windows.retry_after_ms(false), None);
    }

    #[test]
    fn spans_and_dates_are_read() {
        for (text, expected) in [
            ("1s", Some(1000)),
            ("6m0s", Some(360_000)),
            ("1h2m3.5s", Some(3_723_500)),
            ("1d", Some(86_400_000)),
            ("7.66s", Some(7660)),
            ("20", Some(20_000)),
            ("", None),
            ("x", None),
            ("5y", None),
            ("1.2.3s", None),
        ] {
            assert_eq!(span(text), expected, "{text}");
        }
        for (text, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777_000)),
            ("Thu, 29 Feb 2024 23:59:59 GMT", Some(1_709_251_199_000)),
            ("Sat, 21 Nov 2026 07:27:43 GMT", Some(1_795_246_063_000)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", None),
            ("garbage", None),
        ] {
            assert_eq!(http_date(text), expected, "{text}");
        }
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1994-11-06T08:49:37Z", Some(784_111_777_000)),
            ("1994-11-06T08:49:37.999z", Some(784_111_777_000)),
            ("1994-11-06 10:19:37+01:30", Some(784_111_777_000)),
            ("1994-11-06T00:49:37-08:00", Some(784_111_777_000)),
            ("1970-01-01T00:00:00+01:00", None),
            ("1994-11-06T08:49:37", None),
            ("1994-13-06T08:49:37Z", None),
            ("1994-11-06", None),
            ("1994-11-06T08:49:é7Z", None),
            ("é", None),
        ] {
            assert_eq!(rfc3339(text), expected, "{text}");
        }
    }

    #[test]
    fn waits_are_read_from_messages() {
        for (text, expected) in [
            (
                "Rate limit. Please try again in 1.242s. Visit x",
                Some(1242),
            ),
            ("Please try again in 6m0s.", Some(360_000)),
            ("please retry in 37.4s", Some(37_400)),
            ("Try again in 20 seconds", Some(20_000)),
            ("try again in 2 minutes.", Some(120_000)),
            ("try again in a moment", None),
            ("no", None),
        ] {
            assert_eq!(wait_in_text(text), expected, "{text}");
        }
    }
}
