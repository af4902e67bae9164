//! Unix seconds as text of ISO 8601, and back.

/// The time in UTC with milliseconds; none if it is no time of this era.
pub fn iso(seconds: f64) -> Option<String> {
    // The end of the year 9999.
    if !(0.0..253_402_300_799.0).contains(&seconds) {
        return None;
    }
    let millis = (seconds * 1000.0).round() as u64;
    let (days, of_day) = (millis / 86_400_000, millis % 86_400_000);
    // Days are counted from 0000-03-01, so that a leap day is the last of its year.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let date = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hours, minutes) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1000 % 60, of_day % 1000);
    Some(format!(
        "{year:04}-{month:02}-{date:02}T{hours:02}:{minutes:02}:{second:02}.{milli:03}Z"
    ))
}

/// The Unix seconds of such a text, with any offset; without one it is taken for UTC. None if it is no time.
pub fn from_iso(text: &str) -> Option<f64> {
    let (date, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(at);
    let number = |text: Option<&str>, most: i64| {
        let text = text.filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()))?;
        text.parse().ok().filter(|it| (0..=most).contains(it))
    };
    let mut parts = date.split('-');
    let (year, month, day): (i64, i64, i64) = (
        number(parts.next(), 9999)?,
        number(parts.next(), 12)?,
        number(parts.next(), 31)?,
    );
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = whole.split(':');
    let (hours, minutes) = (number(parts.next(), 24)?, number(parts.next(), 59)?);
    // 60: a leap second.
    let second = number(parts.next().or(Some("0")), 60)?;
    let fraction: f64 = format!("0.{fraction}").parse().ok()?;
    let offset = match zone.split_at_checked(1) {
        None | Some(("Z" | "z", "")) => 0,
        Some((sign, zone)) => {
            let zone: String = zone.chars().filter(|it| *it != ':').collect();
            let (hours, minutes) = zone.split_at_checked(2)?;
            let minutes = if minutes.is_empty() { "0" } else { minutes };
            let offset = number(Some(hours), 24)? * 60 + number(Some(minutes), 59)?;
            if sign == "-" { -offset } else { offset }
        }
    };
    // The same count of days as above, the other way.
    let year = year - i64::from(month <= 2);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days =
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year
            - 719_468;
    let whole = days * 86_400 + hours * 3_600 + (minutes - offset) * 60 + second;
    #[expect(clippy::cast_precision_loss, reason = "it has at most 12 digits")]
    let whole = whole as f64;
    Some(whole + fraction).filter(|it| *it >= 0.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn texts() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", Some(0.0)),
            ("2000-02-29T00:00:00.000Z", Some(951_782_400.0)),
            ("2000-03-01 00:00:00", Some(951_868_800.0)),
            ("2026-11-25T05:40:14.136Z", Some(1_795_585_214.136)),
            ("2026-11-25T07:10:14.136+01:30", Some(1_795_585_214.136)),
            ("2026-11-24T21:40:14.136-0800", Some(1_795_585_214.136)),
            ("2026-11-25T06:40+01", Some(1_795_585_200.0)),
            ("1969-12-31T23:59:59Z", None),
            ("2026-13-25T05:40:14Z", None),
            ("2026-11-25", None),
            ("2026-11-25T+5:40:14Z", None),
            ("2026-11-25T05:40:14.Zx", None),
            ("ä026-11-25T05:40:14Z", None),
            ("", None),
        ] {
            assert_eq!(super::from_iso(text), seconds, "{text}");
        }
    }

    #[test]
    fn times() {
        for (seconds, text) in [
            (0.0, Some("1970-01-01T00:00:00.000Z")),
            (951_782_400.0, Some("2000-02-29T00:00:00.000Z")),
            (1_795_585_214.136, Some("2026-11-25T05:40:14.136Z")),
            (-1.0, None),
            (f64::NAN, None),
        ] {
            assert_eq!(super::iso(seconds).as_deref(), text, "{seconds}");
        }
    }
}
