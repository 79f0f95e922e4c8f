//! URLs, URIs and addresses, beside RFC 3986 and the registries of addresses.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::for_each_str;
use crate::network::Network;
use crate::testing::exhaustive;
use crate::uri::{UriError, comparison_key, decode, file_name, is_uri, normalize, push_segment};
use crate::url::Url;

/// Removes the dot segments of a path, step by step as RFC 3986, 5.2.4 describes it.
fn remove_dots(path: &str) -> String {
    let (mut input, mut output) = (path.to_owned(), String::new());
    while !input.is_empty() {
        if input.starts_with("../") || input.starts_with("./") {
            input = input[input.find('/').map_or(0, |at| at + 1)..].to_owned();
        } else if input.starts_with("/./") || input == "/." {
            input = format!("/{}", input.get(3..).unwrap_or_default());
        } else if input.starts_with("/../") || input == "/.." {
            input = format!("/{}", input.get(4..).unwrap_or_default());
            output.truncate(output.rfind('/').unwrap_or(0));
        } else if input == "." || input == ".." {
            input.clear();
        } else {
            let end = input[1..].find('/').map_or(input.len(), |at| at + 1);
            output += &input[..end];
            input = input[end..].to_owned();
        }
    }
    output
}

/// Returns whether a text has these characters alone, and triplets.
fn has_only(text: &str, fits: impl Fn(char) -> bool) -> bool {
    let mut pieces = text.split('%');
    let is_triplet = |piece: &str| piece.len() >= 2 && piece.bytes().take(2).all(|b| b.is_ascii_hexdigit());
    pieces.next().is_some_and(|first| first.chars().all(&fits))
        && pieces.all(|piece| is_triplet(piece) && piece[2..].chars().all(&fits))
}

fn is_unreserved(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~".contains(c)
}

fn is_segment(c: char) -> bool {
    is_unreserved(c) || "!$&'()*+,;=:@".contains(c)
}

/// Returns the path and query of a text that follows an authority.
fn read_target(text: &str) -> Option<String> {
    let text = text.split('#').next()?;
    let (path, query) = text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)));
    let is_path = has_only(path, |c| is_segment(c) || c == '/');
    let is_query = has_only(query.unwrap_or_default(), |c| is_segment(c) || "/?[]".contains(c));
    // WHATWG, and RFC 3986, 6.2.2.2: a dot is a dot in either spelling.
    let dots = |segment: &str| Some(segment.replace("%2e", ".")).filter(|text| matches!(&**text, "." | ".."));
    let segments = path.split('/').map(|segment| dots(segment).unwrap_or_else(|| segment.to_owned()));
    let path = segments.collect::<Vec<_>>().join("/");
    let path = remove_dots(if path.is_empty() { "/" } else { &path });
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    (is_path && is_query).then(|| path + &query)
}

/// Reads a URL: whether it is secure, host, port, path and query.
fn read_url(text: &str) -> Option<(bool, String, u16, String)> {
    let (scheme, rest) = text.split_once("://")?;
    let secure = match &*scheme.to_lowercase() {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            let port = if port.is_empty() { None } else { Some(port.strip_prefix(':')?) };
            (address.parse::<Ipv6Addr>().ok()?.to_string(), port)
        }
        None => {
            let (host, port) = authority.split_once(':').map_or((authority, None), |(h, p)| (h, Some(p)));
            let is_name = !host.is_empty() && host.chars().all(is_unreserved);
            let host = host.to_lowercase();
            let last = host.strip_suffix('.').unwrap_or(&host).rsplit('.').next()?;
            let digits = last.strip_prefix("0x").unwrap_or(last);
            // WHATWG: such a host is an IPv4 address or none. Only its usual spelling is read here.
            let base = if digits.len() < last.len() { 16 } else { 10 };
            let is_number = !last.is_empty() && digits.chars().all(|c| c.is_digit(base));
            let is_host = is_name && (!is_number || host.parse::<Ipv4Addr>().is_ok());
            (is_host.then_some(host)?, port)
        }
    };
    let port = match port.unwrap_or_default() {
        "" if secure => 443,
        "" => 80,
        digits if digits.len() <= 5 && digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok()?,
        _ => return None,
    };
    (port != 0).then_some((secure, host, port, read_target(rest)?))
}

fn parts(url: &Url) -> (bool, String, u16, String) {
    let origin = url.origin();
    (origin.secure, (*origin.host).to_owned(), origin.port, url.target().to_owned())
}

/// Compares a URL with what the plain reader finds, and prints and reads it again.
fn check_url(text: &str) {
    let found = Url::parse(text).ok();
    assert_eq!(found.as_ref().map(parts), read_url(text), "{text:?}");
    if let Some(url) = found {
        let printed = format!("{}{}", url.origin(), url.target());
        assert_eq!(Url::parse(&printed).as_ref(), Ok(&url), "{printed}");
    }
}

#[test]
fn exhaustive_urls_are_read_as_the_grammar_says() {
    const PIECES: [&str; 14] =
        ["h", "Z", ":", "80", ".0", "/", "?", "#", "@", "%4a", "[::1]", "é", "%", "0x"];
    exhaustive(
        "URLs: read or refused as RFC 3986 says, and as WHATWG says of hosts that end in a number, with origin, path and query, and the same after they were printed",
        "texts of 14 pieces behind the scheme, up to a length of",
        [3, 4, 5],
        |longest| for_each_str(&PIECES, longest, |text| check_url(&format!("http://{text}"))),
    );
}

#[test]
fn exhaustive_schemes_of_urls_are_two() {
    exhaustive(
        "URLs: http and https in any case, with two slashes and a host, are read and nothing else",
        "texts of 9 pieces, up to a length of",
        [4, 5, 6],
        |longest| for_each_str(&["http", "S", "s", ":", "/", "//", "h", "+", "::"], longest, check_url),
    );
}

#[test]
fn exhaustive_dot_segments_are_removed() {
    exhaustive(
        "URLs: a path has no dot segments, as the algorithm of RFC 3986, 5.2.4 removes them, in either spelling of a dot",
        "paths of 6 pieces, up to a length of",
        [5, 6, 8],
        |longest| {
            for_each_str(&["/", ".", "..", "a", "%2e", "?"], longest, |path| {
                check_url(&format!("https://h/{path}"))
            })
        },
    );
}

#[test]
fn exhaustive_references_are_resolved_as_the_standard_says() {
    const PIECES: [&str; 9] = ["..", ".", "/", "a", "?", "#", "http:", "//", "y"];
    let base = Url::parse("https://h:8/b/c/d?q").expect("a URL");
    exhaustive(
        "URLs: every reference is resolved as RFC 3986, 5.2.2 says",
        "references of 9 pieces, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_str(&PIECES, longest, |reference| {
                let before = reference.split(['/', '?', '#']).next().unwrap_or_default();
                let is_scheme = |text: &str| {
                    text.starts_with(|c: char| c.is_ascii_alphabetic())
                        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
                };
                let has_scheme = before.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme));
                let of_base =
                    |target: String| read_target(&target).map(|target| (true, "h".to_owned(), 8, target));
                let expected = match reference.as_bytes() {
                    _ if has_scheme => read_url(reference),
                    [b'/', b'/', ..] => read_url(&format!("https:{reference}")),
                    [] | [b'#', ..] => of_base("/b/c/d?q".to_owned()),
                    [b'?', ..] => of_base(format!("/b/c/d{reference}")),
                    [b'/', ..] => of_base(reference.to_owned()),
                    _ => of_base(format!("/b/c/{reference}")),
                };
                assert_eq!(base.resolve(reference).ok().as_ref().map(parts), expected, "{reference:?}");
            })
        },
    );
}

#[test]
fn exhaustive_secrets_of_urls_are_not_shown() {
    const PIECES: [&str; 7] = ["S", "@", ":", "/", "?", "#", "%"];
    exhaustive(
        "URLs: neither user information nor query is shown, whether or not the text is a URL, alone and within a sentence",
        "pairs of user information and query of 7 pieces, up to a length of",
        [2, 3, 3],
        |longest| {
            let mut texts = Vec::new();
            for_each_str(&PIECES, longest, |text| texts.push(text.to_owned()));
            let mut count = 0;
            for user in &texts {
                for query in &texts {
                    let text = format!("http://{user}@h/p?{query}");
                    // Text that is in front of the first `?` of a URL is its host and path.
                    let is_url = Url::parse(&text).is_ok();
                    let end = text.find(['?', '#']).unwrap_or(text.len());
                    for shown in [Url::redacted(&text), Url::redacted_in(&format!("see {text} there"))] {
                        let hidden = if is_url { shown.replacen(&text[..end], "", 1) } else { shown };
                        assert!(!hidden.contains('S'), "{text} {hidden}");
                    }
                    count += 1;
                }
            }
            count
        },
    );
}

const URI_PIECES: [&str; 12] = ["a", "B", ":", "/", "//", "%41", "%2f", "%e9", "%", "é", "@", " "];

#[test]
fn exhaustive_uris_are_normalized_as_the_standard_says() {
    exhaustive(
        "URIs: the scheme gets small letters, triplets capital ones unless they are unreserved, and what is normal stays",
        "texts of 12 pieces, up to a length of",
        [3, 4, 5],
        |longest| {
            for_each_str(&URI_PIECES, longest, |text| {
                let scheme = text.split(':').next().filter(|scheme| scheme.len() < text.len());
                let is_scheme = scheme.is_some_and(|scheme| {
                    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
                });
                let expected = is_scheme.then(|| {
                    let scheme = scheme.unwrap_or_default();
                    let (mut out, mut at) = (scheme.to_lowercase(), scheme.len());
                    while let Some(c) = text[at..].chars().next() {
                        let hex =
                            text.get(at + 1..at + 3).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
                        match (c, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
                            ('%', Some(byte)) if is_unreserved(char::from(byte)) => {
                                out.push(char::from(byte))
                            }
                            ('%', Some(byte)) => out += &format!("%{byte:02X}"),
                            ('%', None) | (' ', _) => return None,
                            (c, _) if c.is_ascii() => out.push(c),
                            (c, _) => c.to_string().bytes().for_each(|byte| out += &format!("%{byte:02X}")),
                        }
                        at += if c == '%' { 3 } else { c.len_utf8() };
                    }
                    Some(out)
                });
                let found = normalize(text, 99);
                assert_eq!(matches!(found, Err(UriError::Scheme)), expected.is_none(), "{text:?}");
                let found = found.ok().map(|found| found.into_owned());
                assert_eq!(found, expected.flatten(), "{text:?}");
                if let Some(normal) = found {
                    assert_eq!(normalize(&normal, 99).as_deref(), Ok(&*normal));
                    // The key is that of every spelling, and its own key.
                    let key = comparison_key(text, 99).expect("a URI").into_owned();
                    assert_eq!(key.to_lowercase(), normal.to_lowercase());
                    for other in [&*normal, &*key, &format!("A{}", &text[1..])] {
                        let is_same = other.starts_with(['a', 'b']) || text.starts_with(['a', 'A']);
                        assert!(!is_same || comparison_key(other, 99).as_deref() == Ok(&*key), "{other}");
                    }
                }
            })
        },
    );
}

#[test]
fn exhaustive_absolute_uris_have_permitted_characters() {
    exhaustive(
        "URIs: a text is one if it has a scheme, something behind it, permitted characters and at most one fragment",
        "all pairs of ASCII characters, and texts of 8 pieces, up to a length of",
        [4, 5, 6],
        |longest| {
            let check = |text: &str| {
                let (scheme, rest) = text.split_once(':').unwrap_or_default();
                let expected = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                    && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
                    && !rest.is_empty()
                    && has_only(rest, |c| is_segment(c) || "/?#[]".contains(c))
                    && rest.matches('#').count() <= 1;
                assert_eq!(is_uri(text), expected, "{text:?}");
            };
            for (one, other) in (0..128_u8).flat_map(|one| (0..128_u8).map(move |other| (one, other))) {
                check(&format!("x:{}{}", char::from(one), char::from(other)));
                check(&format!("{}{}:y", char::from(one), char::from(other)));
            }
            for_each_str(&["a", "1", ":", "#", "%4", "1f", "é", "+"], longest, check) + 2 * 128 * 128
        },
    );
}

#[test]
fn exhaustive_segments_are_decoded_as_they_were_encoded() {
    exhaustive(
        "URIs: a text that is a segment of a path is part of a URI, has no separator, and is decoded as it was",
        "texts of 10 pieces, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_str(&["a", "/", "%", "4", "1", "?", "#", " ", "é", "\0"], longest, |text| {
                let mut uri = "x://h/".to_owned();
                push_segment(&mut uri, text);
                assert!(is_uri(&uri), "{uri}");
                assert_eq!(uri.matches(['/', '?', '#']).count(), 3, "{uri}");
                assert_eq!(file_name(&uri), text);
                assert_eq!(decode(&uri[6..]).as_deref(), Some(text));
            })
        },
    );
}

/// The registries of special-purpose addresses, and multicast (RFC 6890, RFC 5771).
const REGISTRY: [([u8; 4], u32, Network); 17] = [
    ([0, 0, 0, 0], 8, Network::Reserved),
    ([10, 0, 0, 0], 8, Network::Private),
    ([100, 64, 0, 0], 10, Network::Private),
    ([127, 0, 0, 0], 8, Network::Loopback),
    ([169, 254, 0, 0], 16, Network::LinkLocal),
    ([172, 16, 0, 0], 12, Network::Private),
    ([192, 0, 0, 0], 24, Network::Reserved),
    ([192, 0, 2, 0], 24, Network::Reserved),
    ([192, 88, 99, 0], 24, Network::Reserved),
    ([192, 168, 0, 0], 16, Network::Private),
    ([198, 18, 0, 0], 15, Network::Reserved),
    ([198, 51, 100, 0], 24, Network::Reserved),
    ([203, 0, 113, 0], 24, Network::Reserved),
    ([224, 0, 0, 0], 4, Network::Reserved),
    ([240, 0, 0, 0], 4, Network::Reserved),
    ([255, 255, 255, 255], 32, Network::Reserved),
    ([0, 0, 0, 0], 32, Network::Reserved),
];

#[test]
fn exhaustive_addresses_belong_to_the_registered_networks() {
    exhaustive(
        "addresses: each first half of an IPv4 address is in its registered network, also as IPv6 address mapped, translated or in 6to4",
        "all first and second bytes, with 10 third bytes and of 5 fourth bytes the first",
        [1, 2, 5],
        |fourths| {
            let mut count = 0;
            for half in 0..=u16::MAX {
                let [first, second] = half.to_be_bytes();
                for third in [0, 1, 2, 3, 98, 99, 100, 113, 114, 255] {
                    for fourth in [1, 0, 255, 2, 254].into_iter().take(fourths) {
                        let address = Ipv4Addr::new(first, second, third, fourth);
                        let bits =
                            |address: [u8; 4], length: u32| u32::from_be_bytes(address) >> (32 - length);
                        let entry = REGISTRY
                            .iter()
                            .find(|(net, length, _)| bits(*net, *length) == bits(address.octets(), *length));
                        let expected = entry.map_or(Network::Public, |(_, _, network)| *network);
                        assert_eq!(Network::of(IpAddr::V4(address)), expected, "{address}");
                        let (high, low) = (half, u16::from_be_bytes([third, fourth]));
                        for segments in [
                            [0, 0, 0, 0, 0, 0xffff, high, low],
                            [0x64, 0xff9b, 0, 0, 0, 0, high, low],
                            [0x2002, high, low, 0, 0, 0, 0, 1],
                        ] {
                            let same = Network::of(IpAddr::V6(segments.into()));
                            assert_eq!(same, expected, "{address}");
                        }
                        count += 1;
                    }
                }
            }
            count
        },
    );
}
