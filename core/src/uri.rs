//! URIs as text: which characters may stand where, and one spelling for those that mean the same (RFC 3986).

use alloc::borrow::Cow;
use alloc::string::String;
use core::ops::Range;

/// Letters, digits, `-`, `.`, `_`, `~`
pub(crate) const UNRESERVED: u8 = 1;
/// `!`, `$`, `&`, `'`, `(`, `)`, `*`, `+`, `,`, `;`, `=`
pub(crate) const SUB_DELIM: u8 = 2;
/// `:` and `@`
pub(crate) const COLON_AT: u8 = 4;
pub(crate) const SLASH: u8 = 8;
pub(crate) const QUESTION: u8 = 16;
pub(crate) const HASH: u8 = 32;
/// `%`, which two hexadecimal digits follow
pub(crate) const PERCENT: u8 = 64;
/// `[` and `]`
pub(crate) const BRACKET: u8 = 128;

pub(crate) const RESERVED: u8 = SUB_DELIM | COLON_AT | SLASH | QUESTION | HASH | BRACKET;
/// What a path segment may hold
pub(crate) const SEGMENT: u8 = UNRESERVED | SUB_DELIM | COLON_AT | PERCENT;
/// What the query may hold
pub(crate) const QUERY: u8 = SEGMENT | SLASH | QUESTION;
/// Everything that a URI may hold
pub(crate) const ANY: u8 = UNRESERVED | RESERVED | PERCENT;

/// The class of a byte; none for what no URI may hold
#[inline]
pub(crate) const fn class(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => UNRESERVED,
        b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' => SUB_DELIM,
        b':' | b'@' => COLON_AT,
        b'/' => SLASH,
        b'?' => QUESTION,
        b'#' => HASH,
        b'[' | b']' => BRACKET,
        b'%' => PERCENT,
        _ => 0,
    }
}

/// The value of a triplet such as `%2F` that `text` begins with
pub(crate) fn triplet(text: &[u8]) -> Option<u8> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        b'A'..=b'F' => Some(b - b'A' + 10),
        _ => None,
    };
    match text {
        [b'%', high, low, ..] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}

/// Appends a triplet
pub(crate) fn encode(out: &mut String, byte: u8) {
    let digit = |n: u8| char::from(if n < 10 { b'0' + n } else { b'A' + n - 10 });
    out.push('%');
    out.push(digit(byte >> 4));
    out.push(digit(byte & 15));
}

/// The text behind the triplets; none when it is not UTF-8
pub(crate) fn decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(String::from(text));
    }
    let mut decoded = alloc::vec::Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        match triplet(rest) {
            Some(byte) => {
                decoded.push(byte);
                rest = rest.get(3..).unwrap_or_default();
            }
            None => {
                decoded.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(decoded).ok()
}

/// Why a text is no URI that is taken here (RES-019, RES-026)
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// It does not begin with a scheme, such as `file:`
    #[error("it does not begin with a scheme")]
    Scheme,
    /// A character that no URI may hold, or a `%` that two hexadecimal digits do not follow
    #[error("the character at byte {at} does not belong there")]
    Character {
        /// Where
        at: usize,
    },
    /// Longer than is looked at
    #[error("it is longer than {limit} bytes")]
    TooLong {
        /// The limit
        limit: usize,
    },
}

/// Checks a URI, and gives it the spelling in which equal ones are equal bytes, but for the letters of the [`host`]
///
/// The scheme in small letters, triplets in capitals, none of them for characters that need none, and all of them for
/// those outside of ASCII (RFC 3986, 6.2.2.1 and 6.2.2.2; RFC 3987, 3.1). Dot segments stay: they are for who serves
/// the URI to judge.
pub(crate) fn normalize(uri: &str, limit: usize) -> Result<Cow<'_, str>, UriError> {
    if uri.len() > limit {
        return Err(UriError::TooLong { limit });
    }
    if scheme(uri).is_none() {
        return Err(UriError::Scheme);
    }
    normalize_part(uri, true, 0)
}

/// Where the host of a normalised URI stands, its port with it: capital and small letters mean the same there
/// (RFC 3986, 3.2.2)
///
/// They stay as they are in URIs that templates match, since much that stands behind `//` is no name of a machine, and a
/// variable is to hold what was sent.
pub(super) fn host(uri: &str) -> Range<usize> {
    let authority = scheme(uri).and_then(|end| Some((end + 3, uri.get(end + 1..)?.strip_prefix("//")?)));
    let Some((start, rest)) = authority else { return 0..0 };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let user = authority.rfind('@').map_or(0, |at| at + 1);
    start + user..start + authority.len()
}

/// Whether two bytes mean the same at a place of a URI with this host
#[inline]
pub(super) fn same_at(host: &Range<usize>, at: usize, a: u8, b: u8) -> bool {
    a == b || (host.contains(&at) && a.eq_ignore_ascii_case(&b))
}

/// Checks a URI, and gives it the spelling in which all equal ones are equal bytes
///
/// As [`normalize`] does, and the host in small letters too.
pub(crate) fn key(uri: &str, limit: usize) -> Result<Cow<'_, str>, UriError> {
    Ok(lower_host(normalize(uri, limit)?))
}

/// The host of a normalised URI in small letters
pub(crate) fn lower_host(uri: Cow<'_, str>) -> Cow<'_, str> {
    let host = host(&uri);
    let (Some(before), Some(name), Some(behind)) =
        (uri.get(..host.start), uri.get(host.clone()), uri.get(host.end..))
    else {
        return uri;
    };
    if !name.bytes().any(|b| b.is_ascii_uppercase()) {
        return uri;
    }
    let mut out = String::with_capacity(uri.len());
    out.push_str(before);
    // Triplets keep their capitals.
    for (i, piece) in name.split('%').enumerate() {
        let (digits, text) = piece.split_at_checked(if i == 0 { 0 } else { 2 }).unwrap_or((piece, ""));
        out.push_str(if i == 0 { "" } else { "%" });
        out.push_str(digits);
        out.extend(text.chars().map(|c| c.to_ascii_lowercase()));
    }
    out.push_str(behind);
    Cow::Owned(out)
}

/// The length of the scheme that `text` begins with, without its colon
pub(crate) fn scheme(text: &str) -> Option<usize> {
    let end = text.find(':')?;
    let scheme = text.as_bytes().get(..end)?;
    let (first, rest) = scheme.split_first()?;
    let fits = first.is_ascii_alphabetic()
        && rest.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    fits.then_some(end)
}

/// Whether `text` is an absolute URI: a scheme, then nothing that no URI may hold, and one fragment at most
///
/// Letters outside of ASCII make it an IRI, which this is not for.
pub(crate) fn is_uri(text: &str) -> bool {
    let Some(rest) = scheme(text).and_then(|end| text.as_bytes().get(end + 1..)) else { return false };
    let fits = |(at, byte): (usize, &u8)| match class(*byte) {
        0 => false,
        PERCENT => triplet(rest.get(at..).unwrap_or_default()).is_some(),
        _ => true,
    };
    !rest.is_empty()
        && rest.iter().enumerate().all(fits)
        && rest.iter().filter(|byte| **byte == b'#').count() <= 1
}

/// Whether a URI names a host: something between `//` (and who asks, if that is said) and the port
pub(crate) fn has_host(uri: &str) -> bool {
    let Some(rest) = scheme(uri).and_then(|end| uri.get(end..)?.strip_prefix("://")) else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let place = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (place, ""),
    };
    !host.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
}

/// The same for a piece of a URI: its beginning, or something further on
pub(crate) fn normalize_part(text: &str, begins: bool, offset: usize) -> Result<Cow<'_, str>, UriError> {
    let scheme = if begins { scheme(text).unwrap_or(0) } else { 0 };
    let bytes = text.as_bytes();
    let plain =
        |(at, b): (usize, &u8)| class(*b) & !PERCENT != 0 && (at >= scheme || !b.is_ascii_uppercase());
    let Some(odd) = bytes.iter().enumerate().position(|b| !plain(b)) else { return Ok(Cow::Borrowed(text)) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(text.get(..odd).unwrap_or_default());
    let mut at = odd;
    while let Some(byte) = bytes.get(at).copied() {
        match class(byte) {
            PERCENT => {
                let value = triplet(bytes.get(at..).unwrap_or_default());
                let value = value.ok_or(UriError::Character { at: offset + at })?;
                if class(value) == UNRESERVED {
                    out.push(char::from(value));
                } else {
                    encode(&mut out, value);
                }
                at += 2;
            }
            0 if byte < 128 => return Err(UriError::Character { at: offset + at }),
            0 => encode(&mut out, byte),
            _ if at < scheme => out.push(char::from(byte.to_ascii_lowercase())),
            _ => out.push(char::from(byte)),
        }
        at += 1;
    }
    Ok(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: RES-019, RES-026
    #[test]
    fn equal_uris_get_one_spelling() {
        let same = |uri| normalize(uri, 100).expect("a URI").into_owned();
        assert_eq!(same("file:///a/b"), "file:///a/b");
        assert_eq!(same("FILE:///A/%7euser/%e9%2f"), "file:///A/~user/%E9%2F");
        assert_eq!(same("note://é"), "note://%C3%A9");
        assert_eq!(same("x:%2e%2e/%41"), "x:../A");
        assert!(matches!(normalize("a:b", 9), Ok(Cow::Borrowed("a:b"))));
    }

    // covers: RES-019, RES-026
    #[test]
    fn hosts_are_the_same_in_small_and_capital_letters() {
        for (uri, expected) in [
            ("HTTPS://EXAMPLE.com/Doc", "https://example.com/Doc"),
            ("https://User:Pw@Host:80?A=B@C", "https://User:Pw@host:80?A=B@C"),
            ("x://A%c3%a9B%41#F", "x://a%C3%A9ba#F"),
            ("x://[2001:DB8::A]/A", "x://[2001:db8::a]/A"),
            ("file:///A/B", "file:///A/B"),
            ("urn:A:B//C", "urn:A:B//C"),
            ("x:/A//B", "x:/A//B"),
            ("x://", "x://"),
        ] {
            let got = key(uri, 100).expect("a URI").into_owned();
            assert_eq!(got, expected);
            assert_eq!(key(&got, 100).as_deref(), Ok(expected), "what is normal stays");
        }
        assert!(matches!(key("a://b/C", 9), Ok(Cow::Borrowed(_))));
    }

    // covers: RES-019
    #[test]
    fn what_is_no_uri_is_refused() {
        for (uri, at) in [("a:b c", 3), ("a:%2", 2), ("a:%zz", 2), ("a:\0", 2), ("a:<", 2), ("aB:\\", 3)] {
            assert_eq!(normalize(uri, 100), Err(UriError::Character { at }), "{uri:?}");
        }
        for uri in ["", "plain", "/path", ":x", "1a:b", "ä:b", "a b:c"] {
            assert_eq!(normalize(uri, 100), Err(UriError::Scheme), "{uri:?}");
        }
        assert_eq!(normalize("a:bcd", 4), Err(UriError::TooLong { limit: 4 }));
    }

    #[test]
    fn absolute_uris_and_their_hosts() {
        for uri in ["a:b", "mailto:x@y.example", "https://x.example/%20?q#f", "http://[::1]:80/"] {
            assert!(is_uri(uri), "{uri}");
        }
        for no in ["", "a:", "/x", "x.example", "a:b c", "a:%zz", "a:%2", "a:\u{e9}", "a:#b#c", "a:\n"] {
            assert!(!is_uri(no), "{no:?}");
        }
        for uri in
            ["https://x.example", "http://u:p@h:80/a?b", "http://[::1]", "http://[::1]:8080/", "app://h"]
        {
            assert!(has_host(uri), "{uri}");
        }
        for no in
            ["https://", "https:///a", "https://:80", "https://u@/", "https:x", "http://h:80a", "file:///a"]
        {
            assert!(!has_host(no), "{no}");
        }
    }

    #[test]
    fn triplets_are_read_as_utf_8() {
        assert_eq!(decode("a%20b%C3%A9").as_deref(), Some("a bé"));
        assert_eq!(decode("%C3"), None);
        assert_eq!(decode("100%").as_deref(), Some("100%"));
    }
}
