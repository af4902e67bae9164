//! Durations as text.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix seconds, now.
pub(super) fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

/// `40 s`, `3 min`, `2 h`, `5 d`.
pub(super) fn words(seconds: f64) -> String {
    // The value in a file may be invalid.
    let seconds = if seconds.is_finite() {
        seconds.max(0.0)
    } else {
        0.0
    };
    for (unit, length) in [("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)] {
        if seconds >= length * if unit == "d" { 2.0 } else { 1.0 } {
            return format!("{:.0} {unit}", (seconds / length).floor());
        }
    }
    format!("{seconds:.0} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        for (seconds, expected) in [
            (-5.0, "0 s"),
            (0.4, "0 s"),
            (59.0, "59 s"),
            (60.0, "1 min"),
            (3_599.0, "59 min"),
            (3_600.0, "1 h"),
            (172_799.0, "47 h"),
            (172_800.0, "2 d"),
            (f64::NAN, "0 s"),
            (f64::INFINITY, "0 s"),
        ] {
            assert_eq!(words(seconds), expected, "{seconds}");
        }
    }
}
