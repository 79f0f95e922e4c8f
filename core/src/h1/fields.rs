//! Parsing of received heads: `httparse`, then the checks that it lacks, then the framing of the body.

use core::mem::MaybeUninit;

use super::HttpLimits;
use super::body::{Framing, RequestBodyInfo};
use super::error::Reason;
use crate::ascii::{AsciiCaseExt as _, is_word};
use crate::head::{FieldLine, RequestHead, ResponseHead, byte_set, is_token};

/// Largest number of fields that the fast path accepts; a head with more takes the general path.
const FAST_MAX_FIELDS: usize = 24;
/// Largest number of fields in any head.
const MAX_FIELDS: usize = 128;

/// The reason of a fault, and its offset within the head.
pub(super) type HeadFault = (Reason, usize);

/// The framing of a request, from its method, version and fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestFraming {
    pub(super) body: RequestBodyInfo,
    pub(super) closes_connection: bool,
    /// The method is `HEAD`: the response has no body, whatever its fields are.
    pub(super) is_head_request: bool,
}

/// The framing of a response, from its status, version and fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseFraming {
    pub(super) framing: Framing,
    pub(super) closes_connection: bool,
}

pub(super) enum ParsedResponse<R, F> {
    /// A 1xx response; another response follows.
    Interim(F),
    Final(R, ResponseFraming),
}

/// The outcome of the fast path.
pub(super) enum FastParse<R, F> {
    /// A complete head of this many bytes.
    Parsed(R, RequestFraming, usize),
    /// The general path decides: the head is incomplete, too long, faulty, or has many fields.
    Undecided(F),
}

/// Parses the request head at the front of `bytes` if it is complete and all its lines end as usual.
///
/// A head that arrives in one piece is then parsed without a search for its end. This path only saves work: on
/// `Undecided`, [`ReadBuffer::find_head`](super::read_buffer::ReadBuffer::find_head) decides.
pub(super) fn parse_request_fast<R, F: FnOnce(RequestHead<'_>, &RequestBodyInfo) -> R>(
    bytes: &[u8],
    limits: &HttpLimits,
    on_head: F,
) -> FastParse<R, F> {
    let mut headers = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; FAST_MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut []);
    let read = parsed.parse_with_uninit_headers(bytes, &mut headers);
    // A fault goes to the general path, too, which finds its reason and its place.
    let Ok(httparse::Status::Complete(length)) = read else { return FastParse::Undecided(on_head) };
    let head = bytes.get(..length).unwrap_or_default();
    // `httparse` accepts a last line that ends without a carriage return, which this module refuses.
    if length > limits.max_head || parsed.headers.len() > limits.max_fields || !head.ends_with(b"\r\n\r\n") {
        return FastParse::Undecided(on_head);
    }
    let mut fields: [FieldLine<'_>; FAST_MAX_FIELDS] = [("", &[]); FAST_MAX_FIELDS];
    match check_request(head, &parsed, limits, &mut fields) {
        Ok((head, framing)) => FastParse::Parsed(on_head(head, &framing.body), framing, length),
        Err(_) => FastParse::Undecided(on_head),
    }
}

/// Parses a complete request head and lends it to `on_head`, unless there is a fault.
pub(super) fn parse_request<R>(
    head: &[u8],
    lines: usize,
    limits: &HttpLimits,
    on_head: impl FnOnce(RequestHead<'_>, &RequestBodyInfo) -> R,
) -> Result<(R, RequestFraming), HeadFault> {
    if lines.saturating_sub(1) > limits.max_fields.min(MAX_FIELDS) {
        return Err((Reason::TooManyFields, 0));
    }
    let mut headers = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut []);
    match parsed.parse_with_uninit_headers(head, &mut headers) {
        // Both searches must agree on the end. Otherwise a part of the head would be read as the body.
        Ok(httparse::Status::Complete(length)) if length == head.len() => {
            let mut fields: [FieldLine<'_>; MAX_FIELDS] = [("", &[]); MAX_FIELDS];
            let (head, framing) = check_request(head, &parsed, limits, &mut fields)?;
            Ok((on_head(head, &framing.body), framing))
        }
        read => Err(locate_parse_fault(head, read.err(), Reason::RequestLine)),
    }
}

/// Applies the rules that `httparse` does not check. Copies the fields to `fields`, which are as many at least.
#[inline]
fn check_request<'f, 'h: 'f>(
    head: &'h [u8],
    parsed: &httparse::Request<'_, 'h>,
    limits: &HttpLimits,
    fields: &'f mut [FieldLine<'h>],
) -> Result<(RequestHead<'f>, RequestFraming), HeadFault> {
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Err((Reason::RequestLine, 0));
    };
    let is_http10 = minor == 0;
    let framing_fields = FramingFields::collect(parsed.headers, fields, head, is_http10)?;
    // Two hosts, or none, leave open which site is meant (RFC 9112, 3.2); a proxy may have chosen another one.
    if framing_fields.host_count > 1
        || (framing_fields.host_count == 0 && !is_http10)
        || framing_fields.host.is_some_and(|h| !is_host(h))
    {
        return Err((Reason::Host, framing_fields.host.map_or(0, |h| offset_in(head, h))));
    }
    if matches!(method, "CONNECT" | "TRACE") {
        return Err((Reason::Method, 0));
    }
    let Some(target) = target_path(method, target, framing_fields.host) else {
        return Err((Reason::Target, 0));
    };
    if framing_fields.has_unknown_expectation && !is_http10 {
        return Err((Reason::Expectation, 0));
    }
    let framing = match framing_fields.content_length {
        // `collect` has refused a head with both lengths, so this order prefers none of them.
        _ if framing_fields.is_chunked => Framing::Chunked,
        // The announced length decides, so that nothing of a body that is too long is read.
        Some(n) if n > limits.max_body => return Err((Reason::BodyTooLong, 0)),
        Some(n) => Framing::Exact(n),
        None => Framing::None,
    };
    let request_framing = RequestFraming {
        body: RequestBodyInfo {
            framing,
            // Ignored in HTTP/1.0 and without content (RFC 9110, 10.1.1).
            expects_continue: framing_fields.expects_continue
                && !is_http10
                && !matches!(framing, Framing::None | Framing::Exact(0)),
            is_http10,
        },
        // Old proxies pass on `Connection: keep-alive` without acting on it (RFC 9112, C.2.2), so HTTP/1.0 always
        // closes.
        closes_connection: framing_fields.closes_connection || is_http10,
        is_head_request: method == "HEAD",
    };
    let fields = fields.get(..parsed.headers.len()).unwrap_or_default();
    Ok((RequestHead { method, target, fields }, request_framing))
}

/// Parses a complete response head and lends it to `on_head`, unless there is a fault or it is an interim response.
pub(super) fn parse_response<R, F: FnOnce(ResponseHead<'_>) -> R>(
    head: &[u8],
    lines: usize,
    limits: &HttpLimits,
    to_head: bool,
    on_head: F,
) -> Result<ParsedResponse<R, F>, HeadFault> {
    match lines.saturating_sub(1) {
        n if n <= FAST_MAX_FIELDS && n <= limits.max_fields => {
            parse_response_sized::<FAST_MAX_FIELDS, R, F>(head, limits, to_head, on_head)
        }
        n if n <= MAX_FIELDS && n <= limits.max_fields => {
            parse_response_sized::<MAX_FIELDS, R, F>(head, limits, to_head, on_head)
        }
        _ => Err((Reason::TooManyFields, 0)),
    }
}

fn parse_response_sized<const N: usize, R, F: FnOnce(ResponseHead<'_>) -> R>(
    head: &[u8],
    limits: &HttpLimits,
    to_head: bool,
    on_head: F,
) -> Result<ParsedResponse<R, F>, HeadFault> {
    let mut headers = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; N];
    let mut parsed = httparse::Response::new(&mut []);
    let read =
        httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut parsed, head, &mut headers);
    let (Ok(httparse::Status::Complete(length)), Some(status), Some(minor)) =
        (read, parsed.code, parsed.version)
    else {
        return Err(locate_parse_fault(head, read.err(), Reason::StatusLine));
    };
    if length != head.len() || !(100..600).contains(&status) {
        return Err((Reason::StatusLine, 0));
    }
    let is_http10 = minor == 0;
    let mut fields: [FieldLine<'_>; N] = [("", &[]); N];
    let framing_fields = FramingFields::collect(parsed.headers, &mut fields, head, is_http10)?;
    // Bytes behind such a head belong to another protocol, and this client never asks for one.
    if status == 101 {
        return Err((Reason::Upgrade, 0));
    }
    let interim = status < 200;
    if (interim || status == 204)
        && (framing_fields.is_chunked || framing_fields.content_length.is_some_and(|n| n > 0))
    {
        return Err((Reason::BodyForbidden, 0));
    }
    if interim {
        return Ok(ParsedResponse::Interim(on_head));
    }
    let framing = match framing_fields.content_length {
        // These have no body, whatever their fields are (RFC 9112, 6.3): the length in a response to `HEAD` is that
        // for `GET`.
        _ if to_head || matches!(status, 204 | 304) => Framing::None,
        _ if framing_fields.is_chunked => Framing::Chunked,
        Some(n) if n > limits.max_body => return Err((Reason::BodyTooLong, 0)),
        Some(n) => Framing::Exact(n),
        None => Framing::UntilClose,
    };
    let response_framing = ResponseFraming {
        framing,
        closes_connection: framing_fields.closes_connection || is_http10 || framing == Framing::UntilClose,
    };
    let fields = fields.get(..parsed.headers.len()).unwrap_or_default();
    Ok(ParsedResponse::Final(on_head(ResponseHead { status, fields }), response_framing))
}

/// The fields that control framing, routing and the life of the connection.
#[derive(Default)]
struct FramingFields<'a> {
    host: Option<&'a [u8]>,
    host_count: usize,
    content_length: Option<u64>,
    is_chunked: bool,
    closes_connection: bool,
    expects_continue: bool,
    has_unknown_expectation: bool,
}

impl<'a> FramingFields<'a> {
    /// Copies `headers` to `fields` and evaluates those that control framing.
    #[inline(always)]
    fn collect(
        headers: &[httparse::Header<'a>],
        fields: &mut [FieldLine<'a>],
        head: &[u8],
        is_http10: bool,
    ) -> Result<Self, HeadFault> {
        let mut framing_fields = Self::default();
        for (header, field) in headers.iter().zip(fields) {
            *field = (header.name, header.value);
            let name = header.name.as_bytes();
            let at = offset_in(head, name);
            // The byte before a name is a line feed. `httparse` accepts it without a carriage return.
            if head.get(at.wrapping_sub(2)) != Some(&b'\r') {
                return Err((Reason::Field, at));
            }
            // By the length first, because most fields are none of these.
            let known = match name.len() {
                4 if is_word!(name, "host") => framing_fields.read_host(header),
                6 if is_word!(name, "expect") => framing_fields.read_expect(header),
                10 if is_word!(name, "connection") => framing_fields.read_connection(header),
                14 if is_word!(name, "content-length") => framing_fields.read_content_length(header),
                17 if is_word!(name, "transfer-encoding") => {
                    framing_fields.read_transfer_encoding(header, is_http10)
                }
                _ => continue,
            };
            known.map_err(|reason| (reason, at))?;
        }
        Ok(framing_fields)
    }

    #[inline]
    const fn read_host(&mut self, header: &httparse::Header<'a>) -> Result<(), Reason> {
        self.host = Some(header.value);
        self.host_count += 1;
        Ok(())
    }

    #[inline]
    fn read_expect(&mut self, header: &httparse::Header<'a>) -> Result<(), Reason> {
        let known = header.value.eq_ignore_case(b"100-continue");
        self.expects_continue |= known;
        self.has_unknown_expectation |= !known;
        Ok(())
    }

    #[inline]
    fn read_connection(&mut self, header: &httparse::Header<'a>) -> Result<(), Reason> {
        // The most frequent value needs no splitting.
        if header.value != b"keep-alive" {
            let mut options = header.value.split(|b| *b == b',').map(<[u8]>::trim_ascii);
            self.closes_connection |=
                options.any(|option| option.len() == 5 && option.eq_ignore_case(b"close"));
        }
        Ok(())
    }

    /// Reads `Content-Length`; a repeated or non-numeric length is a fault (RFC 9112, 6.2 and 6.3).
    #[inline]
    fn read_content_length(&mut self, header: &httparse::Header<'a>) -> Result<(), Reason> {
        let digits = header.value;
        // Nineteen digits fit `u64`, so the sum below cannot overflow.
        if self.content_length.is_some() || !(1..=19).contains(&digits.len()) {
            return Err(Reason::ContentLength);
        }
        let mut length = 0;
        for byte in digits {
            // `parse` would accept a plus sign, which other recipients refuse or read differently.
            if !byte.is_ascii_digit() {
                return Err(Reason::ContentLength);
            }
            length = length * 10 + u64::from(byte - b'0');
        }
        self.content_length = Some(length);
        // The fields may come in either order, so `read_transfer_encoding` has the same check.
        if self.is_chunked { Err(Reason::ConflictingLengths) } else { Ok(()) }
    }

    /// Reads `Transfer-Encoding` (RFC 9112, 6.1 and 6.3).
    #[inline]
    fn read_transfer_encoding(
        &mut self,
        header: &httparse::Header<'a>,
        is_http10: bool,
    ) -> Result<(), Reason> {
        // HTTP/1.0 has no codings: a proxy in between may have passed the field on without acting on it (RFC 9112,
        // 6.1).
        if is_http10 || self.is_chunked || header.value.is_empty() {
            return Err(Reason::TransferEncoding);
        }
        if !header.value.eq_ignore_case(b"chunked") {
            return Err(Reason::TransferCoding);
        }
        self.is_chunked = true;
        if self.content_length.is_some() { Err(Reason::ConflictingLengths) } else { Ok(()) }
    }
}

/// Returns the path of a request target (RFC 9112, 3.2), if the form of the target is acceptable to a server.
fn target_path<'a>(method: &str, target: &'a str, host: Option<&[u8]>) -> Option<&'a str> {
    if !is_target(target) {
        return None;
    }
    if target.starts_with('/') || (target == "*" && method == "OPTIONS") {
        return Some(target);
    }
    // An absolute target overrides Host (3.2.2), so both must agree: a proxy may route by Host.
    // No other scheme is accepted, so a colon in it does not matter.
    let (scheme, rest) = target.split_once(':')?;
    let rest = rest.strip_prefix("//")?;
    if !scheme.eq_ignore_case("http") && !scheme.eq_ignore_case("https") {
        return None;
    }
    let (authority, path) = rest.split_at_checked(rest.find(['/', '?']).unwrap_or(rest.len()))?;
    let same = match host {
        Some(host) => host.eq_ignore_case(authority.as_bytes()),
        None => is_host(authority.as_bytes()),
    };
    match path {
        _ if !same => None,
        // This form means the server as a whole (RFC 9112, 3.2.4).
        "" if method == "OPTIONS" => Some("*"),
        "" => Some("/"),
        path => path.starts_with('/').then_some(path),
    }
}

/// Returns whether `target` is visible ASCII without a fragment.
pub(super) fn is_target(target: &str) -> bool {
    !target.is_empty() && target.bytes().all(|b| matches!(b, 0x21..=0x7e) && b != b'#')
}

/// Returns whether `host` is a host with an optional port, as in `Host` (RFC 9110, 7.2).
///
/// The host is a name, an IPv4 address, or an address in brackets.
pub(super) fn is_host(host: &[u8]) -> bool {
    let (name, after) = match host {
        [b'[', rest @ ..] => {
            rest.split_at(leading(rest, |b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.')))
        }
        _ => host.split_at(leading(host, |b| HOST_BYTES.get(usize::from(b)) == Some(&true))),
    };
    let port = match after {
        [b']', port @ ..] if host.first() == Some(&b'[') => port,
        port if host.first() != Some(&b'[') => port,
        _ => return false,
    };
    !name.is_empty()
        && match port {
            [] => true,
            [b':', digits @ ..] => (1..=5).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit),
            _ => false,
        }
}

/// The bytes of a host name.
static HOST_BYTES: [bool; 256] =
    byte_set(b"-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~");

/// Returns the number of leading bytes for which `good` is true.
fn leading(bytes: &[u8], good: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|b| !good(*b)).unwrap_or(bytes.len())
}

/// Returns whether `line`, without its line end, is a valid field line (RFC 9112, 5).
pub(super) fn is_field(line: &[u8]) -> bool {
    let mut parts = line.splitn(2, |b| *b == b':');
    let (name, value) = (parts.next().unwrap_or_default(), parts.next());
    is_token(name) && value.is_some_and(|v| v.iter().all(|b| *b == b'\t' || (*b >= b' ' && *b != 0x7f)))
}

/// Returns the reason and the offset of a fault that `httparse` reported.
#[cold]
fn locate_parse_fault(head: &[u8], error: Option<httparse::Error>, start_line: Reason) -> HeadFault {
    let mut lines = head.split_inclusive(|b| *b == b'\n');
    let first = lines.next().unwrap_or_default();
    let start = first.strip_suffix(b"\r\n").unwrap_or(first);
    match error {
        Some(httparse::Error::Version) if is_other_version(start, start_line) => (Reason::Version, 0),
        // `httparse` reports this for the end of a start line, too.
        Some(httparse::Error::NewLine) if !start.ends_with(b"HTTP/1.1") && !start.ends_with(b"HTTP/1.0") => {
            (start_line, 0)
        }
        Some(httparse::Error::HeaderName | httparse::Error::HeaderValue | httparse::Error::NewLine) => {
            let good = |line: &&[u8]| line.strip_suffix(b"\r\n").is_some_and(is_field);
            (Reason::Field, first.len() + lines.take_while(good).map(<[u8]>::len).sum::<usize>())
        }
        _ => (start_line, 0),
    }
}

/// Returns whether the start line has another HTTP version than 1.0 or 1.1 in the right position (RFC 9112, 2.3).
fn is_other_version(line: &[u8], start_line: Reason) -> bool {
    let mut parts = line.split(|b| *b == b' ');
    let version = match start_line {
        Reason::StatusLine => parts.next(),
        _ => parts.nth(2).filter(|_| parts.next().is_none()),
    };
    matches!(version, Some([b'H', b'T', b'T', b'P', b'/', major, b'.', minor])
        if major.is_ascii_digit() && minor.is_ascii_digit() && !matches!((major, minor), (b'1', b'0' | b'1')))
}

/// Returns the offset of `part` within `head`.
#[inline]
fn offset_in(head: &[u8], part: &[u8]) -> usize {
    // `httparse` copies nothing: `part` is a slice of `head`, so the distance of both is its offset.
    (part.as_ptr() as usize).wrapping_sub(head.as_ptr() as usize)
}
