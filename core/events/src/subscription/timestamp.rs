//! Times in ISO 8601 as servers write them: `2026-11-25T11:00:00Z`, with a fraction or another zone.

/// Seconds of a day.
const DAY: i64 = 86_400;

/// Reads a time with a zone. Returns its Unix time in whole seconds; `None` for any other text, and for times before 1970.
///
/// Accepted is the profile of RFC 3339: a date, `T`, `t` or a space, a time, a fraction, and `Z`, `z` or an offset. A leap second is the
/// last one of its minute.
pub(super) fn parse_timestamp(text: &str) -> Option<u64> {
    let text = text.as_bytes();
    let (year, month, day) = (digits(text, 0, 4)?, digits(text, 5, 2)?, digits(text, 8, 2)?);
    let (hour, minute, second) = (digits(text, 11, 2)?, digits(text, 14, 2)?, digits(text, 17, 2)?);
    let is_separated = [(4, b"-".as_slice()), (7, b"-"), (10, b"Tt "), (13, b":"), (16, b":")]
        .into_iter()
        .all(|(at, allowed)| text.get(at).is_some_and(|byte| allowed.contains(byte)));
    let is_in_range = (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !is_separated || !is_in_range {
        return None;
    }
    let rest = text.get(19..)?;
    let zone = match rest.split_first() {
        Some((b'.' | b',', fraction)) => {
            let end = fraction.iter().position(|byte| !byte.is_ascii_digit())?;
            fraction.get(end..).filter(|_| end > 0)?
        }
        _ => rest,
    };
    let seconds = days_since_1970(year, month, day) * DAY + hour * 3_600 + minute * 60 + second.min(59);
    u64::try_from(seconds - offset(zone)?).ok()
}

/// Returns the offset of a zone from UTC, in seconds.
fn offset(zone: &[u8]) -> Option<i64> {
    let sign = match zone {
        b"Z" | b"z" => return Some(0),
        [b'+', ..] => 1,
        [b'-', ..] => -1,
        _ => return None,
    };
    let (hours, minutes) = match zone.len() {
        6 if zone.get(3) == Some(&b':') => (digits(zone, 1, 2)?, digits(zone, 4, 2)?),
        5 => (digits(zone, 1, 2)?, digits(zone, 3, 2)?),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// Reads a number of `length` digits.
fn digits(text: &[u8], at: usize, length: usize) -> Option<i64> {
    text.get(at..at + length)?
        .iter()
        .try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the number of days of a date in the Gregorian calendar, by years that begin in March.
const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: EVT-081
    #[test]
    fn times_with_a_zone_are_read() {
        for (text, secs) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-25T11:00:00Z", 1_795_604_400),
            ("2026-11-25T11:00:00.999z", 1_795_604_400),
            ("2026-11-25 12:30:00,1+01:30", 1_795_604_400),
            ("2026-11-25t05:00:00-0600", 1_795_604_400),
            ("2024-02-29T23:59:60Z", 1_709_251_199),
            ("2000-03-01T00:00:00Z", 951_868_800),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            assert_eq!(parse_timestamp(text), Some(secs), "{text}");
        }
        // The core writes what is read here, on each day of some leap and other years.
        for day in 0..30_000_u64 {
            let secs = day * 86_400 + day % 86_400;
            assert_eq!(parse_timestamp(&mcp_proto::iso_8601(secs)), Some(secs));
        }
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in [
            "",
            "2026-11-25",
            "2026-11-25T11:00:00",
            "2026-11-25T11:00Z",
            "2026-11-25T11:00:00.Z",
            "2026-11-25T11:00:00.5",
            "2026-13-25T11:00:00Z",
            "2026-02-29T11:00:00Z",
            "2026-11-31T11:00:00Z",
            "2026-11-25T24:00:00Z",
            "2026-11-25T11:60:00Z",
            "2026-11-25T11:00:00+24:00",
            "2026-11-25T11:00:00+1:00",
            "2026-11-25T11:00:00Zx",
            "2026/11/25T11:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-11-2\u{e9}T11:00:00Z",
            "+026-11-25T11:00:00Z",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }
}
