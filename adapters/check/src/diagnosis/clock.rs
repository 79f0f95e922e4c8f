//! The clock of this machine, compared with that of the server.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Passed;

/// Returns how many seconds the clock of this machine is ahead of a `Date` field; negative if it is behind.
pub(super) fn skew(date: &str) -> Option<i64> {
    let server = parse_date(date)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(now.as_secs()).ok().map(|now| now - server)
}

/// Judges a skew, if the server sent its time.
pub(super) fn judge(skew: Option<i64>) -> Passed {
    match skew {
        None => Passed::Skipped("the server sends no `Date`".into()),
        Some(skew) if skew.abs() <= TOLERANCE => Passed::Ok("as that of the server".into()),
        Some(skew) => Passed::Warning(format!(
            "{}: tokens and certificates may seem to be expired, or not valid yet",
            describe(skew)
        )),
    }
}

/// Describes a skew that matters; `None` if it does not.
#[cfg(feature = "auth")]
pub(super) fn explain(skew: Option<i64>) -> Option<String> {
    skew.filter(|skew| skew.abs() > TOLERANCE).map(describe)
}

fn describe(skew: i64) -> String {
    let side = if skew > 0 { "ahead of" } else { "behind" };
    format!("the clock of this machine is {} s {side} that of the server", skew.abs())
}

/// Parses the date of HTTP, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7), as Unix time.
fn parse_date(text: &str) -> Option<i64> {
    let mut words = text.split_once(", ")?.1.split(' ');
    let (day, month, year) = (words.next()?, words.next()?, words.next()?);
    let month = MONTHS.iter().zip(1..).find_map(|(name, number)| (*name == month).then_some(number))?;
    let mut time = words.next()?.split(':');
    let (hour, minute) = (parse_part(time.next()?, 2, 23)?, parse_part(time.next()?, 2, 59)?);
    // A leap second is the 60th.
    let second = parse_part(time.next()?, 2, 60)?;
    let days = days_since_1970(parse_part(year, 4, 9_999)?, month, parse_part(day, 2, 31)?);
    let is_whole = time.next().is_none() && words.next() == Some("GMT") && words.next().is_none();
    is_whole.then_some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Parses a number of this many digits, up to `max`.
fn parse_part(text: &str, digits: usize, max: i64) -> Option<i64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && *number <= max)
}

/// Counts days in years that begin in March, so that leap days are last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Seconds that two clocks may differ without a warning.
const TOLERANCE: i64 = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_http_are_unix_times() {
        for (text, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Thu, 29 Feb 2024 23:59:59 GMT", Some(1_709_251_199)),
            ("Fri, 01 Mar 2024 00:00:00 GMT", Some(1_709_251_200)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", None),
            ("06 Nov 1994", None),
            ("Sun, 06 Nov 9223372036854775807 08:49:37 GMT", None),
            ("Sun, 9223372036854775807 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 9223372036854775807:49:37 GMT", None),
            ("Sun, 06 Nov -994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 24:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37:01 GMT", None),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799)),
            ("", None),
        ] {
            assert_eq!(parse_date(text), expected, "{text}");
        }
    }

    #[test]
    fn skew_is_told_beyond_the_tolerance_alone() {
        assert!(matches!(judge(Some(-30)), Passed::Ok(_)));
        let Passed::Warning(text) = judge(Some(40)) else { panic!("no warning") };
        assert!(text.starts_with("the clock of this machine is 40 s ahead of"), "{text}");
        let Passed::Warning(text) = judge(Some(-400)) else { panic!("no warning") };
        assert!(text.contains("400 s behind"), "{text}");
    }
}
