//! Checks of text formats (ELIC-013), without regular expressions and in one pass.

use super::StringFormat;
use crate::uri::is_uri;

impl StringFormat {
    /// Returns whether a text has this format; any text matches an unknown format.
    ///
    /// - `email`: a local part, `@`, and a host. The host consists of names of letters, digits and `-` with dots
    ///   between them, or is an address in brackets. Letters outside of ASCII are accepted on both sides, white space
    ///   only in a quoted local part.
    /// - `uri`: an absolute URI (RFC 3986); letters outside of ASCII must be encoded.
    /// - `date`: an existing day, `2028-02-29` for example (RFC 3339).
    /// - `date-time`: a date, a time with seconds, and an offset or `Z` (RFC 3339). Second 60 is accepted where leap
    ///   seconds can occur.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Email => is_email(text),
            Self::Uri => is_uri(text),
            Self::Date => parse_date(text.as_bytes()).is_some_and(<[u8]>::is_empty),
            Self::DateTime => is_date_time(text.as_bytes()),
            Self::Other(_) => true,
        }
    }
}

fn is_email(text: &str) -> bool {
    let Some((local, host)) = text.rsplit_once('@') else { return false };
    let plain = |c: char| !c.is_whitespace() && !c.is_control();
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let local_fits = match quoted {
        true => !local.chars().any(char::is_control),
        // A second `@` and a quote are permitted only in a quoted local part.
        false => {
            local.split('.').all(|a| !a.is_empty() && a.chars().all(|c| plain(c) && !matches!(c, '@' | '"')))
        }
    };
    let host_fits = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|address| {
            !address.is_empty()
                && address.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b':' | b'.'))
        }),
        None => host.split('.').all(is_host_name),
    };
    // RFC 5321, 4.5.3.1, in bytes.
    local.len() <= 64 && host.len() <= 255 && local_fits && host_fits
}

fn is_host_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && !name.starts_with('-')
        && !name.ends_with('-')
        && name.chars().all(|c| c.is_alphanumeric() || c == '-')
}

/// Parses the date at the beginning of `text` and returns the rest.
fn parse_date(text: &[u8]) -> Option<&[u8]> {
    let (year, rest) = parse_digits(text, 4)?;
    let (month, rest) = parse_digits(strip_any(rest, b"-")?, 2)?;
    let (day, rest) = parse_digits(strip_any(rest, b"-")?, 2)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=days).contains(&day).then_some(rest)
}

fn is_date_time(text: &[u8]) -> bool {
    let is_valid = parse_date(text).and_then(|rest| {
        let (hour, rest) = parse_digits(strip_any(rest, b"Tt")?, 2)?;
        let (minute, rest) = parse_digits(strip_any(rest, b":")?, 2)?;
        let (second, mut rest) = parse_digits(strip_any(rest, b":")?, 2)?;
        if let Some(fraction) = strip_any(rest, b".") {
            let length = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
            rest = fraction.get(length.max(1)..).filter(|_| length > 0)?;
        }
        let (offset, rest) = parse_utc_offset(rest)?;
        let utc = (hour * 60 + minute - offset).rem_euclid(24 * 60);
        let leap = second == 60 && utc == 24 * 60 - 1;
        Some(hour < 24 && minute < 60 && (second < 60 || leap) && rest.is_empty())
    });
    is_valid == Some(true)
}

/// Parses an offset; returns the minutes ahead of UTC and the rest.
fn parse_utc_offset(text: &[u8]) -> Option<(i32, &[u8])> {
    if let Some(rest) = strip_any(text, b"Zz") {
        return Some((0, rest));
    }
    let (hours, rest) = parse_digits(strip_any(text, b"+-")?, 2)?;
    let (minutes, rest) = parse_digits(strip_any(rest, b":")?, 2)?;
    let ahead = hours * 60 + minutes;
    let fits = hours < 24 && minutes < 60;
    fits.then_some((if text.first() == Some(&b'-') { -ahead } else { ahead }, rest))
}

/// Removes one of `bytes` from the beginning and returns the rest.
fn strip_any<'a>(text: &'a [u8], bytes: &[u8]) -> Option<&'a [u8]> {
    let (first, rest) = text.split_first()?;
    bytes.contains(first).then_some(rest)
}

/// Parses a number of `count` digits and returns the rest too.
fn parse_digits(text: &[u8], count: usize) -> Option<(i32, &[u8])> {
    let (number, rest) = text.split_at_checked(count)?;
    let value = number.iter().try_fold(0, |n, b| b.is_ascii_digit().then(|| n * 10 + i32::from(b - b'0')))?;
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    fn check_all(format: &StringFormat, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(format.matches(text), "{format}: {text:?} is one");
        }
        for text in bad {
            assert!(!format.matches(text), "{format}: {text:?} is none");
        }
    }

    // covers: ELIC-013
    #[test]
    fn email_format_matches_addresses_only() {
        let long = |n| "a".repeat(n);
        let (local, label) = (format!("{}@x.example", long(65)), format!("a@{}.example", long(64)));
        let host = format!("a@{}", alloc::vec!["a"; 129].join("."));
        let good = [
            "a@b",
            "first.last+tag@mail.example.org",
            "\"a b@c\"@x.example",
            "ü@bücher.example",
            "a@[127.0.0.1]",
        ];
        let bad = [
            "",
            "a",
            "@",
            "a@",
            "@b",
            "a b@c",
            "a@b c",
            "a@b@c",
            ".a@b",
            "a.@b",
            "a..b@c",
            "a@.b",
            "a@b.",
            "a@-b",
            "a@b-",
            "a@b_c",
            "\"a@b",
            "\"@b",
            "a@[]",
            "a@[x y]",
            "a@[1",
            "a\n@b",
            "a@b\n",
            "\"\u{1}\"@b",
            &local,
            &label,
            &host,
        ];
        check_all(&StringFormat::Email, &good, &bad);
        assert!(StringFormat::Email.matches(&format!("{}@{}.example", long(64), long(63))));
    }

    // covers: ELIC-013
    #[test]
    fn uri_format_matches_absolute_uris_only() {
        let bad =
            ["", "x", "/a", "//h/a", "http:", "a b:c", "https://x.example/a b", "a:%2", "http://é.example"];
        check_all(&StringFormat::Uri, &["https://x.example/a?b#c", "urn:isbn:1", "mailto:a@b"], &bad);
    }

    // covers: ELIC-013
    #[test]
    fn date_and_date_time_formats_match_existing_times_only() {
        let good = ["2026-07-28", "2028-02-29", "2000-02-29", "0000-01-31"];
        let bad = [
            "",
            "2026-7-28",
            "2026-07-28 ",
            "2026-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-04-31",
            "2026-01-00",
            "+026-01-01",
            "2026/01/01",
            "20260101",
            "２026-01-01",
            "2026-07-28T00:00:00Z",
        ];
        check_all(&StringFormat::Date, &good, &bad);
        let good = [
            "2026-07-28T12:00:00Z",
            "2026-07-28t12:00:00z",
            "2026-07-28T23:59:59.123456789+14:00",
            "2026-12-31T23:59:60Z",
            "2026-12-31T15:59:60-08:00",
            "2027-01-01T08:59:60.5+09:00",
        ];
        let bad = [
            "",
            "2026-07-28",
            "2026-07-28T12:00Z",
            "2026-07-28T12:00:00",
            "2026-07-28 12:00:00Z",
            "2026-07-28T24:00:00Z",
            "2026-07-28T12:60:00Z",
            "2026-07-28T12:00:60Z",
            "2026-07-28T12:00:61Z",
            "2026-07-28T12:00:00.Z",
            "2026-07-28T12:00:00+1:00",
            "2026-07-28T12:00:00+24:00",
            "2026-07-28T12:00:00+01:60",
            "2026-07-28T12:00:00+0100",
            "2026-07-28T12:00:00Zx",
            "2026-02-30T12:00:00Z",
            "2026-07-28T12:00:00.1",
        ];
        check_all(&StringFormat::DateTime, &good, &bad);
        assert!(StringFormat::Other(String::from("phone")).matches("anything"));
    }
}
