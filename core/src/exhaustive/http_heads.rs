//! Heads of HTTP/1.1 messages, beside the grammar of RFC 9112 written down line by line.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::for_each_str;
use super::http_messages::{self as messages, Seen, client_events, get, server_events};
use crate::h1::{Framing, HttpLimits};
use crate::testing::{exhaustive, for_each_cut, for_each_sequence, for_each_text};

/// Returns whether the name of a field, or a method, is a token (RFC 9110, 5.6.2).
pub(super) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b))
}

/// Returns the name of a field line and its value without the white space around it (RFC 9112, 5).
pub(super) fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|b| *b == b':')?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_text = |b: &u8| *b == b'\t' || *b >= 0x20 && *b != 0x7f;
    (is_token(name) && value.iter().all(is_text)).then(|| (name, value.trim_ascii()))
}

/// A host, or an address in brackets, and perhaps a port (RFC 9110, 7.2).
fn is_host(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, "")) => (address, None),
        Some((address, rest)) => match rest.strip_prefix(':') {
            Some(port) => (address, Some(port)),
            None => return false,
        },
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let fits = |c: char| match text.starts_with('[') {
        true => c.is_ascii_hexdigit() || ":.".contains(c),
        false => c.is_ascii_alphanumeric() || "-._~".contains(c),
    };
    !host.is_empty()
        && host.chars().all(fits)
        && port.is_none_or(|port| (1..=5).contains(&port.len()) && port.chars().all(|c| c.is_ascii_digit()))
}

const REQUEST_LINES: [(&str, &str); 14] = [
    ("Host", "a"),
    ("HOST", "b:8"),
    ("host", ""),
    ("Content-Length", "3"),
    ("content-length", "0"),
    ("Content-Length", "+3"),
    ("Transfer-Encoding", "Chunked"),
    ("Transfer-Encoding", "gzip, chunked"),
    ("Connection", "close"),
    ("Connection", "x ,\tCLOSE"),
    ("Connection", "closed"),
    ("Expect", "100-Continue"),
    ("Expect", "x"),
    ("Hosts", "y"),
];

/// Returns the framing of a request, whether it waits for `100 Continue`, and whether it is the last one.
fn request_framing(lines: &[(&str, &str)], is_http10: bool) -> Option<(Framing, bool, bool)> {
    let all = |name: &str| -> Vec<String> {
        let same = lines.iter().filter(|(other, _)| other.to_lowercase() == name);
        same.map(|(_, value)| value.to_lowercase()).collect()
    };
    let (hosts, expectations) = (all("host"), all("expect"));
    let has_host = hosts.len() == 1 && is_host(&hosts[0]) || hosts.is_empty() && is_http10;
    let framing = match (&*all("content-length"), &*all("transfer-encoding")) {
        ([], []) => Framing::None,
        ([length], []) if length.chars().all(|c| c.is_ascii_digit()) => Framing::Exact(length.parse().ok()?),
        ([], [coding]) if coding == "chunked" && !is_http10 => Framing::Chunked,
        _ => return None,
    };
    if !has_host || !is_http10 && expectations.iter().any(|expected| expected != "100-continue") {
        return None;
    }
    let has_body = !matches!(framing, Framing::None | Framing::Exact(0));
    let options = all("connection");
    let is_last = is_http10 || options.iter().flat_map(|all| all.split(',')).any(|one| one.trim() == "close");
    Some((framing, has_body && !is_http10 && !expectations.is_empty(), is_last))
}

#[test]
fn exhaustive_framing_of_requests_is_that_of_their_fields() {
    exhaustive(
        "request heads: accepted or refused, with the framing, expectation and end of RFC 9112 for every order of fields",
        "sequences of 14 field lines in HTTP/1.0 and 1.1, up to a length of",
        [2, 3, 4],
        |longest| {
            for_each_sequence(REQUEST_LINES.len(), longest, |sequence| {
                let lines: Vec<_> = sequence.iter().map(|line| REQUEST_LINES[*line]).collect();
                for (version, is_http10) in [("1.0", true), ("1.1", false)] {
                    let mut text = format!("POST /t HTTP/{version}\r\n");
                    lines.iter().for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
                    text += "\r\n";
                    let expected = request_framing(&lines, is_http10);
                    let (events, output) = server_events([text.as_bytes()], &HttpLimits::default());
                    let found = match events.first() {
                        Some(Seen::Head { info, fields, .. }) => {
                            assert_eq!(fields.len(), lines.len());
                            Some((info.framing, info.expects_continue))
                        }
                        Some(Seen::Fault(..)) => None,
                        other => panic!("{other:?}"),
                    };
                    assert_eq!(found, expected.map(|(framing, expects, _)| (framing, expects)), "{text}");
                    if let Some((Framing::None, _, is_last)) = expected {
                        let closes = output.windows(17).any(|part| part == b"Connection: close");
                        assert_eq!(closes, is_last, "{text}");
                    }
                }
            }) * 2
        },
    );
}

#[test]
fn exhaustive_framing_of_responses_is_that_of_their_fields() {
    const LINES: [(&str, &str); 8] = [
        ("Content-Length", "3"),
        ("content-length", "0"),
        ("Content-Length", "3, 3"),
        ("Transfer-Encoding", "chunked"),
        ("Transfer-Encoding", "gzip"),
        ("Connection", "close"),
        ("Connection", "keep-alive"),
        ("X", "y"),
    ];
    const BODY: &str = "3\r\nabc\r\n0\r\n\r\n";
    exhaustive(
        "response heads: the body is the one of RFC 9112, 6.3 for every status, method and order of fields",
        "sequences of 8 field lines with 9 statuses to GET and HEAD, up to a length of",
        [2, 3, 4],
        |longest| {
            for_each_sequence(LINES.len(), longest, |sequence| {
                let mut lines = String::new();
                sequence
                    .iter()
                    .for_each(|line| lines += &format!("{}: {}\r\n", LINES[*line].0, LINES[*line].1));
                let all = |name: &str| -> Vec<&str> {
                    let same = sequence.iter().map(|line| LINES[*line]);
                    same.filter(|(other, _)| other.eq_ignore_ascii_case(name))
                        .map(|(_, value)| value)
                        .collect()
                };
                let (lengths, codings) = (all("content-length"), all("transfer-encoding"));
                for status in [99, 100, 101, 200, 204, 304, 500, 599, 600] {
                    for method in ["GET", "HEAD"] {
                        let expected = match (&*lengths, &*codings) {
                            _ if !matches!(status, 200..600) => None,
                            ([], ["chunked"]) | (["3"], []) if status == 204 => None,
                            ([], [] | ["chunked"]) | (["0" | "3"], [])
                                if method == "HEAD" || matches!(status, 204 | 304) =>
                            {
                                Some("")
                            }
                            ([], []) => Some(BODY),
                            ([], ["chunked"]) => Some("abc"),
                            (["0"], []) => Some(""),
                            (["3"], []) => Some(&BODY[..3]),
                            _ => None,
                        };
                        let text = format!("HTTP/1.1 {status} x\r\n{lines}\r\n{BODY}");
                        let events = client_events([text.as_bytes()], method, &HttpLimits::default());
                        let (body, is_whole) = messages::body(&events);
                        let found = is_whole.then_some(body);
                        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{method} {text}");
                    }
                }
            }) * 18
        },
    );
}

#[test]
fn exhaustive_request_lines_have_three_parts() {
    const PIECES: [&str; 10] =
        ["GET", "OPTIONS", " ", "/", "*", "#", " HTTP/1.1", " HTTP/1.0", " HTTP/2.0", "\t"];
    exhaustive(
        "request lines: those of RFC 9112, 3 alone are accepted, and their parts delivered",
        "texts of 10 pieces, up to a length of",
        [4, 4, 6],
        |longest| {
            for_each_str(&PIECES, longest, |line| {
                let parts: Vec<&str> = line.split(' ').collect();
                let expected = match *parts {
                    [method, target, "HTTP/1.1" | "HTTP/1.0"]
                        if is_token(method.as_bytes())
                            && target.bytes().all(|b| b.is_ascii_graphic() && b != b'#')
                            && (target.starts_with('/') || (method, target) == ("OPTIONS", "*")) =>
                    {
                        Some((method.to_owned(), target.to_owned()))
                    }
                    _ => None,
                };
                let text = format!("{line}\r\nHost: a\r\n\r\n");
                let (events, _) = server_events([text.as_bytes()], &HttpLimits::default());
                let found = match events.into_iter().next() {
                    Some(Seen::Head { method, target, .. }) => Some((method, target)),
                    _ => None,
                };
                assert_eq!(found, expected, "{line:?}");
            })
        },
    );
}

#[test]
fn exhaustive_status_lines_have_a_version_and_three_digits() {
    const PIECES: [&str; 10] =
        ["HTTP/1.1", "HTTP/1.0", "HTTP/1.", " ", "2", "00", "600", "a", "\t", "\u{7f}"];
    exhaustive(
        "status lines: those of RFC 9112, 4 alone are accepted, also without a reason",
        "texts of 10 pieces, up to a length of",
        [4, 4, 6],
        |longest| {
            for_each_str(&PIECES, longest, |line| {
                let expected = (|| {
                    let rest = line.strip_prefix("HTTP/1.1 ").or_else(|| line.strip_prefix("HTTP/1.0 "))?;
                    let (digits, reason) = rest.split_at_checked(3)?;
                    let status =
                        digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))?;
                    let fits = |c: char| c == '\t' || !c.is_ascii_control();
                    let reason_fits =
                        reason.is_empty() || reason.starts_with(' ') && reason.chars().all(fits);
                    Some(status).filter(|status| (200..600).contains(status) && reason_fits)
                })();
                let text = format!("{line}\r\nContent-Length: 0\r\n\r\n");
                let events = client_events([text.as_bytes()], "GET", &HttpLimits::default());
                let found = match events.first() {
                    Some(Seen::Status(status)) => Some(*status),
                    _ => None,
                };
                assert_eq!(found, expected, "{line:?}");
            })
        },
    );
}

#[test]
fn exhaustive_field_lines_are_a_name_and_a_value() {
    const PIECES: [&[u8]; 10] = [b"a", b"B-", b":", b" ", b"\t", b"\0", b"\x7f", b"\x80", b"(", b"\r"];
    exhaustive(
        "field lines: those of RFC 9112, 5 alone are accepted by both roles, and delivered without the space around them",
        "texts of 10 pieces, up to a length of",
        [3, 4, 5],
        |longest| {
            for_each_text(&PIECES, longest, |line| {
                let expected = match line {
                    // An empty line ends the head.
                    b"" => Some(None),
                    line => field(line).map(Some),
                };
                let request = [b"GET / HTTP/1.1\r\nHost: a\r\n", line, b"\r\n\r\n"].concat();
                let (events, _) = server_events([&*request], &HttpLimits::default());
                let found = match events.first() {
                    Some(Seen::Head { fields, .. }) => Some(fields.get(1).cloned()),
                    _ => None,
                };
                let expected = expected.map(|field| {
                    field.map(|(name, value)| {
                        (core::str::from_utf8(name).expect("a token").to_owned(), value.to_owned())
                    })
                });
                assert_eq!(found, expected, "{}", line.escape_ascii());
                let response = [b"HTTP/1.1 200 x\r\nContent-Length: 0\r\n", line, b"\r\n\r\n"].concat();
                let events = client_events([&*response], "GET", &HttpLimits::default());
                let found = matches!(events.first(), Some(Seen::Status(200)));
                assert_eq!(found, expected.is_some(), "{}", line.escape_ascii());
            })
        },
    );
}

#[test]
fn exhaustive_hosts_are_names_or_addresses_with_ports() {
    exhaustive(
        "Host: a name, an address in brackets, and a port of 1 to 5 digits are accepted, and nothing else",
        "texts of 11 pieces, up to a length of",
        [3, 4, 5],
        |longest| {
            for_each_str(&["a", "Z", "00", ".", ":", "[", "]", "_", "%", "@", " "], longest, |host| {
                let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
                let (events, _) = server_events([text.as_bytes()], &HttpLimits::default());
                let is_accepted = matches!(events.first(), Some(Seen::Head { .. }));
                assert_eq!(is_accepted, is_host(host.trim()), "{host:?}");
            })
        },
    );
}

#[test]
fn exhaustive_absolute_targets_are_of_the_host_that_is_named() {
    const SCHEMES: [&str; 4] = ["http://", "HTTPS://", "ftp://", "http:/"];
    const AUTHORITIES: [&str; 6] = ["a", "A", "a:80", "b", "", "a@b"];
    const PATHS: [&str; 6] = ["", "/", "/x?y", "?q", "/#", "/x:y"];
    exhaustive(
        "absolute targets: http(s) with the authority of Host gives its path, all others are refused",
        "combinations of 4 schemes, 6 authorities, 6 paths, 5 values of Host and 2 methods, of",
        [5, 5, 5],
        |parts| {
            let mut count = 0;
            for_each_sequence(6, parts, |sequence| {
                let [scheme, authority, path, host, method] = *sequence else { return };
                let (Some(scheme), Some(host)) =
                    (SCHEMES.get(scheme), [Some("a"), Some("A:80"), Some("a:80"), Some("b"), None].get(host))
                else {
                    return;
                };
                let Some(method) = ["GET", "OPTIONS"].get(method) else { return };
                let (authority, path) = (AUTHORITIES[authority], PATHS[path]);
                let target = format!("{scheme}{authority}{path}");
                let named = host.map_or_else(|| authority.to_owned(), str::to_owned);
                let expected = match path {
                    _ if !["http://", "HTTPS://"].contains(scheme) => None,
                    _ if !named.eq_ignore_ascii_case(authority) || !is_host(authority) => None,
                    "" => Some(if *method == "OPTIONS" { "*" } else { "/" }),
                    "?q" | "/#" => None,
                    path => Some(path),
                };
                let (version, line) = match host {
                    Some(host) => ("1.1", format!("Host: {host}\r\n")),
                    None => ("1.0", String::new()),
                };
                let text = format!("{method} {target} HTTP/{version}\r\n{line}\r\n");
                let (events, _) = server_events([text.as_bytes()], &HttpLimits::default());
                let found = match events.first() {
                    Some(Seen::Head { target, .. }) => Some(&**target),
                    _ => None,
                };
                assert_eq!(found, expected, "{text}");
                count += 1;
            });
            count
        },
    );
}

#[test]
fn exhaustive_limits_of_heads_hold_for_every_cut() {
    exhaustive(
        "heads: one of exactly the limit in bytes and fields is accepted, a longer one refused, whole and cut at each place",
        "limits 0 to 60 with heads cut at each place, whose longest field has a length below",
        [2, 8, 40],
        |longest| {
            let mut count = 0;
            for length in 0..longest {
                let text = format!("GET /{} HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n", "p".repeat(length));
                let line = text.find('\n').map_or(0, |at| at + 1);
                for max in 0..=60 {
                    for max_fields in [1, 2] {
                        let limits = HttpLimits { max_head: max, max_fields, ..HttpLimits::default() };
                        let expected = match max {
                            _ if text.len() > max && line > max => Some(414),
                            _ if text.len() > max || max_fields < 2 => Some(431),
                            _ => None,
                        };
                        for cut in 0..text.len() {
                            let (one, other) = text.as_bytes().split_at(cut);
                            let (events, _) = server_events([one, other], &limits);
                            let found = match events.first() {
                                Some(Seen::Fault(reason, _)) => Some(reason.status()),
                                _ => None,
                            };
                            assert_eq!(found, expected, "{text} {max} {max_fields} {cut}");
                            count += 1;
                        }
                    }
                }
            }
            count
        },
    );
}

#[test]
fn exhaustive_requests_are_the_same_for_every_cut() {
    const CORPUS: [&str; 8] = [
        "\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcdGET / HTTP/1.1\r\nHost: b\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: a\r\n\r\n3;x=1\r\nabc\r\n00A\r\n0123456789\r\n0\r\nT: u\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nxyGET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n X: y\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nHost: x\r\n\r\n",
    ];
    exhaustive(
        "requests: 8 streams give the same events, faults and responses for all cuts of a window at each place",
        "all cuts within a window, of bytes:",
        [5, 7, 10],
        |window| {
            let mut count = 0;
            for text in CORPUS.map(str::as_bytes) {
                let expected = server_events([text], &HttpLimits::default());
                assert_eq!(server_events(text.chunks(1), &HttpLimits::default()), expected);
                for from in 0..text.len().saturating_sub(window) {
                    count += for_each_cut(window, |ends| {
                        let all = core::iter::once(from).chain(ends.iter().map(|end| from + end));
                        let pieces = super::pieces(text, &all.collect::<Vec<_>>());
                        let found = server_events(pieces, &HttpLimits::default());
                        assert_eq!(found, expected, "{} {from} {ends:?}", text.escape_ascii());
                    });
                }
            }
            count
        },
    );
}

#[test]
fn exhaustive_responses_are_the_same_for_every_cut() {
    const CORPUS: [&str; 6] = [
        "HTTP/1.1 100 c\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n10;e\r\n0123456789abcdef\r\n0\r\n\r\n",
        "HTTP/1.0 404 no\r\n\r\nto the end",
        "HTTP/1.1 304\r\nContent-Length: 9\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 103 e\r\nA: b\r\n\r\nHTTP/1.1 102 p\r\n\r\nHTTP/1.1 101 u\r\n\r\n",
    ];
    exhaustive(
        "responses: 6 streams give the same events and faults for all cuts of a window at each place",
        "all cuts within a window, of bytes:",
        [5, 7, 10],
        |window| {
            let mut count = 0;
            for text in CORPUS.map(str::as_bytes) {
                let expected = client_events([text], "GET", &HttpLimits::default());
                assert_eq!(client_events(text.chunks(1), "GET", &HttpLimits::default()), expected);
                for from in 0..text.len().saturating_sub(window) {
                    count += for_each_cut(window, |ends| {
                        let all = core::iter::once(from).chain(ends.iter().map(|end| from + end));
                        let pieces = super::pieces(text, &all.collect::<Vec<_>>());
                        let found = client_events(pieces, "GET", &HttpLimits::default());
                        assert_eq!(found, expected, "{} {from} {ends:?}", text.escape_ascii());
                    });
                }
            }
            count
        },
    );
}

#[test]
fn exhaustive_requests_of_one_input_are_those_of_several() {
    let requests: [Vec<u8>; 6] = [
        get("/1"),
        b"POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy".to_vec(),
        b"POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nz\r\n0\r\n\r\n".to_vec(),
        b"GET /4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_vec(),
        b"\r\nGET /5 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"GET /6 HTTP/1.1\r\n\r\n".to_vec(),
    ];
    exhaustive(
        "pipelined requests: events and responses are those of the same requests one after the other, up to the last one",
        "sequences of 6 requests, up to a length of",
        [3, 4, 6],
        |longest| {
            for_each_sequence(requests.len(), longest, |sequence| {
                let all: Vec<&[u8]> = sequence.iter().map(|request| &*requests[*request]).collect();
                let together = server_events([&*all.concat()], &HttpLimits::default());
                let found = server_events(all.iter().copied(), &HttpLimits::default());
                assert_eq!(found, together, "{sequence:?}");
                // All heads up to the first request that closes or is faulty.
                let last = sequence.iter().position(|request| matches!(request, 3 | 5));
                let served = last.map_or(sequence.len(), |at| at + usize::from(sequence[at] == 3));
                let heads = together.0.iter().filter(|event| matches!(event, Seen::Head { .. })).count();
                assert_eq!(heads, served, "{sequence:?}");
            })
        },
    );
}
