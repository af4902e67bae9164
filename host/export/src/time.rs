//! Unix seconds as text of ISO 8601.

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

#[cfg(test)]
mod tests {
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
