//! URIs as text: permitted characters and the normalized spelling (RFC 3986).

use alloc::borrow::Cow;
use alloc::string::String;
use core::ops::Range;

/// Letters, digits, `-`, `.`, `_`, `~`.
pub(crate) const UNRESERVED: u8 = 1;
/// `!`, `$`, `&`, `'`, `(`, `)`, `*`, `+`, `,`, `;`, `=`.
pub(crate) const SUB_DELIM: u8 = 2;
/// `:` and `@`.
pub(crate) const COLON_AT: u8 = 4;
pub(crate) const SLASH: u8 = 8;
pub(crate) const QUESTION: u8 = 16;
pub(crate) const HASH: u8 = 32;
/// `%`, which two hexadecimal digits follow.
pub(crate) const PERCENT: u8 = 64;
/// `[` and `]`.
pub(crate) const BRACKET: u8 = 128;

pub(crate) const RESERVED: u8 = SUB_DELIM | COLON_AT | SLASH | QUESTION | HASH | BRACKET;
/// Characters of a path segment.
pub(crate) const SEGMENT: u8 = UNRESERVED | SUB_DELIM | COLON_AT | PERCENT;
/// Characters of the query.
pub(crate) const QUERY: u8 = SEGMENT | SLASH | QUESTION;
/// Characters of a URI.
pub(crate) const ANY: u8 = UNRESERVED | RESERVED | PERCENT;

/// Returns the class of a byte; 0 for a byte that no URI may hold.
#[inline]
pub(crate) const fn byte_class(byte: u8) -> u8 {
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

/// Decodes the triplet (`%2F`, for example) at the beginning of `text`.
pub(crate) fn decode_triplet(text: &[u8]) -> Option<u8> {
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

/// Appends a byte as a triplet.
pub(crate) fn push_encoded(out: &mut String, byte: u8) {
    let digit = |n: u8| char::from(if n < 10 { b'0' + n } else { b'A' + n - 10 });
    out.push('%');
    out.push(digit(byte >> 4));
    out.push(digit(byte & 15));
}

/// Appends a segment of a path, in which bytes that a segment cannot hold, and `%`, become triplets.
pub fn push_segment(uri: &mut String, segment: &str) {
    for byte in segment.bytes() {
        if byte_class(byte) & SEGMENT != 0 && byte != b'%' {
            uri.push(char::from(byte));
        } else {
            push_encoded(uri, byte);
        }
    }
}

/// Returns the last segment of a URI, decoded.
pub(crate) fn file_name(uri: &str) -> Cow<'_, str> {
    let segment = uri.rsplit_once('/').map_or(uri, |(_, segment)| segment);
    decode(segment).map_or(Cow::Borrowed(segment), Cow::Owned)
}

/// Decodes all triplets; returns `None` if the outcome is not UTF-8.
#[must_use]
pub fn decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(String::from(text));
    }
    let mut decoded = alloc::vec::Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        match decode_triplet(rest) {
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

/// Reason why a text is not accepted as a URI (RES-019, RES-026).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// It does not begin with a scheme (`file:`, for example).
    #[error("it does not begin with a scheme")]
    Scheme,
    /// It holds a character that no URI may hold, or a `%` without two hexadecimal digits after it.
    #[error("the character at byte {at} is not permitted there")]
    Character {
        /// Offset of the character, in bytes.
        at: usize,
    },
    /// It is longer than the limit.
    #[error("it is longer than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
}

/// Checks and normalizes a URI: equivalent URIs get equal bytes, apart from the case of the [host](host_range).
///
/// The scheme is converted to lower case, triplets to upper case. Unreserved characters are not encoded, and characters
/// outside of ASCII are (RFC 3986, 6.2.2.1 and 6.2.2.2; RFC 3987, 3.1). Dot segments stay: the server that serves the
/// URI interprets them.
pub(crate) fn normalize(uri: &str, limit: usize) -> Result<Cow<'_, str>, UriError> {
    if uri.len() > limit {
        return Err(UriError::TooLong { limit });
    }
    if scheme(uri).is_none() {
        return Err(UriError::Scheme);
    }
    normalize_part(uri, true, 0)
}

/// Returns the range of the host with its port in a normalized URI. Case is not significant there (RFC 3986, 3.2.2).
///
/// URIs that templates match keep the case of this range. The text behind `//` is often not a host name, and a
/// variable must hold exactly the text that was sent.
pub(super) fn host_range(uri: &str) -> Range<usize> {
    let authority = scheme(uri).and_then(|end| Some((end + 3, uri.get(end + 1..)?.strip_prefix("//")?)));
    let Some((start, rest)) = authority else { return 0..0 };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let user = authority.rfind('@').map_or(0, |at| at + 1);
    start + user..start + authority.len()
}

/// Returns whether two bytes are equivalent at offset `at` of a URI with this host range.
#[inline]
pub(super) fn bytes_equal_at(host: &Range<usize>, at: usize, a: u8, b: u8) -> bool {
    a == b || (host.contains(&at) && a.eq_ignore_ascii_case(&b))
}

/// Checks and normalizes a URI: all equivalent URIs get equal bytes.
///
/// Does the same as [`normalize`], and converts the host to small letters.
pub(crate) fn comparison_key(uri: &str, limit: usize) -> Result<Cow<'_, str>, UriError> {
    Ok(lower_host(normalize(uri, limit)?))
}

/// Converts the host of a normalized URI to small letters.
pub(crate) fn lower_host(uri: Cow<'_, str>) -> Cow<'_, str> {
    let host = host_range(&uri);
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

/// Returns the length of the scheme at the beginning of `text`, its colon excluded.
#[must_use]
pub fn scheme(text: &str) -> Option<usize> {
    let end = text.find(':')?;
    let scheme = text.as_bytes().get(..end)?;
    let (first, rest) = scheme.split_first()?;
    let fits = first.is_ascii_alphabetic()
        && rest.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    fits.then_some(end)
}

/// Returns whether `text` is an absolute URI: a scheme, permitted characters, and at most one fragment.
///
/// A text with letters outside of ASCII is an IRI and is refused.
#[must_use]
pub fn is_uri(text: &str) -> bool {
    let Some(rest) = scheme(text).and_then(|end| text.as_bytes().get(end + 1..)) else { return false };
    let fits = |(at, byte): (usize, &u8)| match byte_class(*byte) {
        0 => false,
        PERCENT => decode_triplet(rest.get(at..).unwrap_or_default()).is_some(),
        _ => true,
    };
    !rest.is_empty()
        && rest.iter().enumerate().all(fits)
        && rest.iter().filter(|byte| **byte == b'#').count() <= 1
}

/// Returns whether a URI names a host: a non-empty text between `//` or the user information and the port.
pub(crate) fn has_host(uri: &str) -> bool {
    let Some(rest) = scheme(uri).and_then(|end| uri.get(end..)?.strip_prefix("://")) else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let place = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match place.rsplit_once(':') {
        // In `[::1]` the last colon belongs to the address.
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (place, ""),
    };
    !host.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
}

/// Normalizes a piece of a URI; `begins` says whether it is the first piece, `offset` where it begins.
pub(crate) fn normalize_part(text: &str, begins: bool, offset: usize) -> Result<Cow<'_, str>, UriError> {
    let scheme = if begins { scheme(text).unwrap_or(0) } else { 0 };
    let bytes = text.as_bytes();
    let plain =
        |(at, b): (usize, &u8)| byte_class(*b) & !PERCENT != 0 && (at >= scheme || !b.is_ascii_uppercase());
    let Some(odd) = bytes.iter().enumerate().position(|b| !plain(b)) else { return Ok(Cow::Borrowed(text)) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(text.get(..odd).unwrap_or_default());
    let mut at = odd;
    while let Some(byte) = bytes.get(at).copied() {
        match byte_class(byte) {
            PERCENT => {
                let value = decode_triplet(bytes.get(at..).unwrap_or_default());
                let value = value.ok_or(UriError::Character { at: offset + at })?;
                // A triplet of an unreserved character is the same as the character (RFC 3986, 6.2.2.2).
                if byte_class(value) == UNRESERVED {
                    out.push(char::from(value));
                } else {
                    push_encoded(&mut out, value);
                }
                at += 2;
            }
            0 if byte < 128 => return Err(UriError::Character { at: offset + at }),
            0 => push_encoded(&mut out, byte),
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
    fn equivalent_uris_get_one_spelling() {
        let same = |uri| normalize(uri, 100).expect("a URI").into_owned();
        assert_eq!(same("file:///a/b"), "file:///a/b");
        assert_eq!(same("FILE:///A/%7euser/%e9%2f"), "file:///A/~user/%E9%2F");
        assert_eq!(same("note://é"), "note://%C3%A9");
        assert_eq!(same("x:%2e%2e/%41"), "x:../A");
        assert!(matches!(normalize("a:b", 9), Ok(Cow::Borrowed("a:b"))));
    }

    // covers: RES-019, RES-026
    #[test]
    fn comparison_key_ignores_case_of_host() {
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
            let got = comparison_key(uri, 100).expect("a URI").into_owned();
            assert_eq!(got, expected);
            assert_eq!(comparison_key(&got, 100).as_deref(), Ok(expected), "what is normal stays");
        }
        assert!(matches!(comparison_key("a://b/C", 9), Ok(Cow::Borrowed(_))));
    }

    // covers: RES-019
    #[test]
    fn invalid_uri_is_refused() {
        for (uri, at) in [("a:b c", 3), ("a:%2", 2), ("a:%zz", 2), ("a:\0", 2), ("a:<", 2), ("aB:\\", 3)] {
            assert_eq!(normalize(uri, 100), Err(UriError::Character { at }), "{uri:?}");
        }
        for uri in ["", "plain", "/path", ":x", "1a:b", "ä:b", "a b:c"] {
            assert_eq!(normalize(uri, 100), Err(UriError::Scheme), "{uri:?}");
        }
        assert_eq!(normalize("a:bcd", 4), Err(UriError::TooLong { limit: 4 }));
    }

    #[test]
    fn absolute_uris_and_hosts_are_recognised() {
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
    fn segment_is_encoded_and_decoded() {
        let mut uri = String::from("a://b/");
        push_segment(&mut uri, "ü %?#+@.md");
        assert_eq!(uri, "a://b/%C3%BC%20%25%3F%23+@.md");
        assert_eq!((&*file_name(&uri), &*file_name("skill://a/b%20c")), ("ü %?#+@.md", "b c"));
    }

    #[test]
    fn triplets_decode_as_utf_8() {
        assert_eq!(decode("a%20b%C3%A9").as_deref(), Some("a bé"));
        assert_eq!(decode("%C3"), None);
        assert_eq!(decode("100%").as_deref(), Some("100%"));
    }
}
