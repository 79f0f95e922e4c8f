//! Heads as they came: read by `httparse`, then held against what it lets pass, and what their fields say of the body.

use core::mem::MaybeUninit;

use super::body::Framing;
use super::error::Reason;
use super::limits::Limits;
use crate::ascii::AnyCase as _;
use crate::head::{Field, Request, Response, is_token, set_of};

/// Fields of a head that is read at first sight; one with more takes the long way
const FEW: usize = 24;
/// Fields that a head can have at all
const MANY: usize = 128;

/// What is wrong, and how many bytes into the head
pub(super) type Wrong = (Reason, usize);

/// What a request says of itself
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) framing: Framing,
    pub(super) expects_continue: bool,
    /// HTTP/1.0
    pub(super) old: bool,
    pub(super) close: bool,
    /// `HEAD`: the response has no body, whatever its fields say
    pub(super) head_only: bool,
}

/// What a response says of itself
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) framing: Framing,
    pub(super) close: bool,
}

pub(super) enum Reply<R, F> {
    /// 1xx: another one follows
    Interim(F),
    Final(R, Answered),
}

/// What came of a look at bytes that may hold a head
pub(super) enum Look<R, F> {
    /// A head of so many bytes, or what is wrong with it
    Read(Result<(R, Asked), Wrong>, usize),
    /// It is incomplete, too long, has many fields, or is odd in its lines
    Unclear(F),
}

/// Reads the head of a request at the front of `bytes`, if one is there and has nothing odd about its lines
///
/// So a head that comes in one piece need not be searched for its end before it is read. What this leaves unclear is
/// judged by what [`find_head`](super::inbox::Inbox::find_head) says, whatever it is; this only spares work.
pub(super) fn look<R, F: FnOnce(Request<'_>, &Asked) -> R>(
    bytes: &[u8],
    limits: &Limits,
    on_head: F,
) -> Look<R, F> {
    let mut headers = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; FEW];
    let mut parsed = httparse::Request::new(&mut []);
    let read = parsed.parse_with_uninit_headers(bytes, &mut headers);
    let Ok(httparse::Status::Complete(length)) = read else { return Look::Unclear(on_head) };
    let head = bytes.get(..length).unwrap_or_default();
    let plain = length <= limits.max_head
        && parsed.headers.len() <= limits.max_fields
        && head.ends_with(b"\r\n\r\n")
        // Before a name stands a line feed, whatever stands before that.
        && parsed.headers.iter().all(|h| head.get(place(head, h.name.as_bytes()).wrapping_sub(2)) == Some(&b'\r'));
    if !plain {
        return Look::Unclear(on_head);
    }
    Look::Read(judge::<FEW, R>(head, &parsed, limits, on_head), length)
}

/// Reads the head of a request and lends it to `on_head`, unless something is wrong with it
pub(super) fn request<R>(
    head: &[u8],
    lines: usize,
    limits: &Limits,
    on_head: impl FnOnce(Request<'_>, &Asked) -> R,
) -> Result<(R, Asked), Wrong> {
    if lines.saturating_sub(1) > limits.max_fields.min(MANY) {
        return Err((Reason::TooManyFields, 0));
    }
    let mut headers = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; MANY];
    let mut parsed = httparse::Request::new(&mut []);
    match parsed.parse_with_uninit_headers(head, &mut headers) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {
            judge::<MANY, R>(head, &parsed, limits, on_head)
        }
        read => Err(unreadable(head, read.err(), Reason::RequestLine)),
    }
}

/// Holds what was read of a head against the rules that `httparse` does not know
#[inline]
fn judge<const N: usize, R>(
    head: &[u8],
    parsed: &httparse::Request<'_, '_>,
    limits: &Limits,
    on_head: impl FnOnce(Request<'_>, &Asked) -> R,
) -> Result<(R, Asked), Wrong> {
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Err((Reason::RequestLine, 0));
    };
    let old = minor == 0;
    let mut fields: [Field<'_>; N] = [("", &[]); N];
    let facts = Facts::of(parsed.headers, &mut fields, head, old)?;
    if facts.hosts > 1 || (facts.hosts == 0 && !old) || facts.host.is_some_and(|h| !is_host(h)) {
        return Err((Reason::Host, facts.host.map_or(0, |h| place(head, h))));
    }
    if matches!(method, "CONNECT" | "TRACE") {
        return Err((Reason::Method, 0));
    }
    let Some(target) = path(method, target, facts.host) else {
        return Err((Reason::Target, 0));
    };
    if facts.expects_else && !old {
        return Err((Reason::Expectation, 0));
    }
    let framing = match facts.length {
        _ if facts.chunked => Framing::Chunked,
        Some(n) if n > limits.max_body => return Err((Reason::BodyTooLong, 0)),
        Some(n) => Framing::Exact(n),
        None => Framing::None,
    };
    let asked = Asked {
        framing,
        // To be ignored in HTTP/1.0, and where no content follows (RFC 9110, 10.1.1).
        expects_continue: facts.expects_continue
            && !old
            && !matches!(framing, Framing::None | Framing::Exact(0)),
        old,
        close: facts.close || old,
        head_only: method == "HEAD",
    };
    let fields = fields.get(..parsed.headers.len()).unwrap_or_default();
    Ok((on_head(Request { method, target, fields }, &asked), asked))
}

/// Reads the head of a response and lends it to `on_head`, unless something is wrong with it or it is an interim one
pub(super) fn response<R, F: FnOnce(Response<'_>) -> R>(
    head: &[u8],
    lines: usize,
    limits: &Limits,
    to_head: bool,
    on_head: F,
) -> Result<Reply<R, F>, Wrong> {
    match lines.saturating_sub(1) {
        n if n <= FEW && n <= limits.max_fields => response_of::<FEW, R, F>(head, limits, to_head, on_head),
        n if n <= MANY && n <= limits.max_fields => response_of::<MANY, R, F>(head, limits, to_head, on_head),
        _ => Err((Reason::TooManyFields, 0)),
    }
}

fn response_of<const N: usize, R, F: FnOnce(Response<'_>) -> R>(
    head: &[u8],
    limits: &Limits,
    to_head: bool,
    on_head: F,
) -> Result<Reply<R, F>, Wrong> {
    let mut headers = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; N];
    let mut parsed = httparse::Response::new(&mut []);
    let read =
        httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut parsed, head, &mut headers);
    let (Ok(httparse::Status::Complete(length)), Some(status), Some(minor)) =
        (read, parsed.code, parsed.version)
    else {
        return Err(unreadable(head, read.err(), Reason::StatusLine));
    };
    if length != head.len() || !(100..600).contains(&status) {
        return Err((Reason::StatusLine, 0));
    }
    let old = minor == 0;
    let mut fields: [Field<'_>; N] = [("", &[]); N];
    let facts = Facts::of(parsed.headers, &mut fields, head, old)?;
    if status == 101 {
        return Err((Reason::Upgrade, 0));
    }
    let interim = status < 200;
    if (interim || status == 204) && (facts.chunked || facts.length.is_some_and(|n| n > 0)) {
        return Err((Reason::BodyForbidden, 0));
    }
    if interim {
        return Ok(Reply::Interim(on_head));
    }
    let framing = match facts.length {
        _ if to_head || matches!(status, 204 | 304) => Framing::None,
        _ if facts.chunked => Framing::Chunked,
        Some(n) if n > limits.max_body => return Err((Reason::BodyTooLong, 0)),
        Some(n) => Framing::Exact(n),
        None => Framing::UntilClose,
    };
    let answered = Answered { framing, close: facts.close || old || framing == Framing::UntilClose };
    let fields = fields.get(..parsed.headers.len()).unwrap_or_default();
    Ok(Reply::Final(on_head(Response { status, fields }), answered))
}

/// What the fields that say where a message ends, and what comes after it, have to say
#[derive(Default)]
struct Facts<'a> {
    host: Option<&'a [u8]>,
    hosts: usize,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    expects_continue: bool,
    expects_else: bool,
}

impl<'a> Facts<'a> {
    /// Copies `headers` to `fields`, and reads those that matter here
    #[inline]
    fn of(
        headers: &[httparse::Header<'a>],
        fields: &mut [Field<'a>],
        head: &[u8],
        old: bool,
    ) -> Result<Self, Wrong> {
        let mut facts = Self::default();
        for (header, field) in headers.iter().zip(fields) {
            *field = (header.name, header.value);
            // By length first: most fields are none of these.
            let known = match header.name.len() {
                4 => facts.host(header),
                6 => facts.expectation(header),
                10 => facts.connection(header),
                14 => facts.content_length(header),
                17 => facts.transfer_encoding(header, old),
                _ => Ok(()),
            };
            known.map_err(|reason| (reason, place(head, header.name.as_bytes())))?;
        }
        Ok(facts)
    }

    #[inline]
    fn host(&mut self, header: &httparse::Header<'a>) -> Result<(), Reason> {
        if is_named(header, b"Host", b"host") {
            self.host = Some(header.value);
            self.hosts += 1;
        }
        Ok(())
    }

    #[inline]
    fn expectation(&mut self, header: &httparse::Header<'a>) -> Result<(), Reason> {
        if is_named(header, b"Expect", b"expect") {
            let known = header.value.eq_any_case(b"100-continue");
            self.expects_continue |= known;
            self.expects_else |= !known;
        }
        Ok(())
    }

    #[inline]
    fn connection(&mut self, header: &httparse::Header<'a>) -> Result<(), Reason> {
        // What most clients say need not be taken apart.
        if is_named(header, b"Connection", b"connection") && header.value != b"keep-alive" {
            let mut options = header.value.split(|b| *b == b',').map(<[u8]>::trim_ascii);
            self.close |= options.any(|option| option.len() == 5 && option.eq_any_case(b"close"));
        }
        Ok(())
    }

    /// RFC 9112, 6.2 and 6.3: a length that is repeated or no number is not to be guessed at
    #[inline]
    fn content_length(&mut self, header: &httparse::Header<'a>) -> Result<(), Reason> {
        if !is_named(header, b"Content-Length", b"content-length") {
            return Ok(());
        }
        let digits = header.value;
        if self.length.is_some() || !(1..=19).contains(&digits.len()) {
            return Err(Reason::ContentLength);
        }
        let mut length = 0;
        for byte in digits {
            if !byte.is_ascii_digit() {
                return Err(Reason::ContentLength);
            }
            length = length * 10 + u64::from(byte - b'0');
        }
        self.length = Some(length);
        if self.chunked { Err(Reason::TwoLengths) } else { Ok(()) }
    }

    /// RFC 9112, 6.1 and 6.3
    #[inline]
    fn transfer_encoding(&mut self, header: &httparse::Header<'a>, old: bool) -> Result<(), Reason> {
        if !is_named(header, b"Transfer-Encoding", b"transfer-encoding") {
            return Ok(());
        }
        if old || self.chunked || header.value.is_empty() {
            return Err(Reason::TransferEncoding);
        }
        if !header.value.eq_any_case(b"chunked") {
            return Err(Reason::Coding);
        }
        self.chunked = true;
        if self.length.is_some() { Err(Reason::TwoLengths) } else { Ok(()) }
    }
}

/// Whether a field has this name, given in the two ways in which it is mostly written
#[inline]
fn is_named<const N: usize>(header: &httparse::Header<'_>, usual: &[u8; N], lower: &[u8; N]) -> bool {
    let name = header.name.as_bytes();
    name == usual || name == lower || name.eq_any_case(lower)
}

/// The path of a target (RFC 9112, 3.2), if it is a form that a server takes
fn path<'a>(method: &str, target: &'a str, host: Option<&[u8]>) -> Option<&'a str> {
    if !is_target(target) {
        return None;
    }
    if target.starts_with('/') || (target == "*" && method == "OPTIONS") {
        return Some(target);
    }
    // An absolute target has precedence over Host (3.2.2), and whoever goes by Host must not end up elsewhere.
    let (scheme, rest) = target.split_once("://")?;
    if !scheme.eq_any_case("http") && !scheme.eq_any_case("https") {
        return None;
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let same = match host {
        Some(host) => host.eq_any_case(authority.as_bytes()),
        None => is_host(authority.as_bytes()),
    };
    match path {
        _ if !same => None,
        "" if method == "OPTIONS" => Some("*"),
        "" => Some("/"),
        path => path.starts_with('/').then_some(path),
    }
}

/// Whether all of it is visible ASCII without a fragment
pub(super) fn is_target(target: &str) -> bool {
    !target.is_empty() && target.bytes().all(|b| matches!(b, 0x21..=0x7e) && b != b'#')
}

/// Whether it is a host with an optional port as `Host` has it (RFC 9110, 7.2): a name, an IPv4 address, or an address
/// in brackets
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

/// What the name of a host is made of
static HOST_BYTES: [bool; 256] =
    set_of(b"-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~");

/// How many bytes at the front are as they should be
fn leading(bytes: &[u8], good: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|b| !good(*b)).unwrap_or(bytes.len())
}

/// Whether a field line, without its end, is one (RFC 9112, 5)
pub(super) fn is_field(line: &[u8]) -> bool {
    let mut parts = line.splitn(2, |b| *b == b':');
    let (name, value) = (parts.next().unwrap_or_default(), parts.next());
    is_token(name) && value.is_some_and(|v| v.iter().all(|b| *b == b'\t' || (*b >= b' ' && *b != 0x7f)))
}

/// What `httparse` could not read, and where
#[cold]
fn unreadable(head: &[u8], error: Option<httparse::Error>, start_line: Reason) -> Wrong {
    let mut lines = head.split_inclusive(|b| *b == b'\n');
    let first = lines.next().unwrap_or_default();
    let start = first.strip_suffix(b"\r\n").unwrap_or(first);
    match error {
        Some(httparse::Error::TooManyHeaders) => (Reason::TooManyFields, 0),
        Some(httparse::Error::Version) if is_other_version(start, start_line) => (Reason::Version, 0),
        // This is said of the end of a start line, too.
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

/// Whether a start line has a version of HTTP where one belongs (RFC 9112, 2.3)
fn is_other_version(line: &[u8], start_line: Reason) -> bool {
    let mut parts = line.split(|b| *b == b' ');
    let version = match start_line {
        Reason::StatusLine => parts.next(),
        _ => parts.nth(2).filter(|_| parts.next().is_none()),
    };
    matches!(version, Some([b'H', b'T', b'T', b'P', b'/', major, b'.', minor])
        if major.is_ascii_digit() && minor.is_ascii_digit() && !matches!((major, minor), (b'1', b'0' | b'1')))
}

/// Where in `head` a part of it begins
fn place(head: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).wrapping_sub(head.as_ptr() as usize)
}
