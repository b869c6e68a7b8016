//! Formats numbers and durations for people.

use std::time::Duration;

/// Formats a number with four digits: `0.1234`, `1234.5` (at least one decimal), `1.234e-5`.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => "NaN".to_owned(),
        0.0 => "0".to_owned(),
        it if (1e-3..1e6).contains(&it) => {
            let after = (3.0 - it.log10().floor()).clamp(1.0, 6.0) as usize;
            format!("{value:.after$}")
        }
        f64::INFINITY => format!("{value}"),
        _ => format!("{value:.3e}"),
    }
}

/// Formats a duration with its unit: `850 ms`, `12.3 s`, `3 min 05 s`, `2 h 10 min`.
pub(super) fn duration(time: Duration) -> String {
    let (seconds, millis) = (time.as_secs(), time.as_millis());
    match seconds {
        0 if millis < 10 => format!("{:.1} ms", 1e3 * time.as_secs_f64()),
        0 => format!("{millis} ms"),
        1..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_short() {
        let numbers = [0.0, 0.123456, -1.5, 1234.56, 99999.96, 0.001, 9.9e-4, 1e6, f64::NAN, f64::NEG_INFINITY];
        let want = ["0", "0.1235", "-1.500", "1234.6", "100000.0", "0.001000", "9.900e-4", "1.000e6", "NaN", "-inf"];
        assert_eq!(numbers.map(number), want);
        let times = [0.0012, 0.85, 12.34, 59.96, 185.0, 7800.0].map(Duration::from_secs_f64);
        assert_eq!(times.map(duration), ["1.2 ms", "850 ms", "12.3 s", "60.0 s", "3 min 05 s", "2 h 10 min"]);
    }
}
