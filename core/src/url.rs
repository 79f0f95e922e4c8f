//! `http` and `https` URLs: strict parsing, resolution, and comparison of origins.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use crate::ascii::AsciiCaseExt as _;
#[cfg(feature = "http")]
use crate::ascii::is_word;
use crate::uri::{self, BRACKET, HASH, PERCENT, QUERY, SEGMENT, SLASH};

/// Length of the longest accepted URL, in bytes.
pub const MAX_URL: usize = 8 << 10;

/// The reason why a text is not an acceptable URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The text begins neither with `http://` nor with `https://`.
    #[error("the URL begins neither with `http://` nor with `https://`")]
    Scheme,
    /// There is a user name or password; credentials must not be part of a URL.
    #[error("the URL contains a user name or a password")]
    UserInfo,
    /// The host is missing, has invalid characters, or ends in a number and is no IPv4 address of four decimal numbers.
    #[error("the host of the URL is missing or malformed")]
    Host,
    /// The port is not a number from 1 to 65,535.
    #[error("the port of the URL is not a number from 1 to 65535")]
    Port,
    /// The path or query has an invalid character, or a `%` without two hexadecimal digits.
    #[error("the path or query of the URL contains an invalid character")]
    Path,
    /// The URL is longer than [`MAX_URL`].
    #[error("the URL is longer than {MAX_URL} bytes")]
    TooLong,
}

/// The scheme, host and port of a URL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Origin {
    /// Whether the scheme is `https`, with TLS, instead of `http`.
    pub secure: bool,
    /// The host in lower case; an IPv6 address without its brackets.
    pub host: Box<str>,
    /// The port, 1 to 65,535.
    pub port: u16,
}

impl Origin {
    /// Returns whether the host is this machine by its name: `localhost` and the names below it (RFC 6761, 6.3),
    /// `127.0.0.0/8`, `::1`, and an IPv6 address that stands for one of these.
    ///
    /// What is sent there in the clear stays on this machine. Other names are not resolved.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let name = self.host.strip_suffix('.').unwrap_or(&self.host);
        if name == "localhost" || name.ends_with(".localhost") {
            return true;
        }
        match name.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => address.is_loopback(),
            Ok(IpAddr::V6(address)) => {
                address.is_loopback() || address.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
            }
            Err(_) => false,
        }
    }

    /// Returns the value of `Host`: the host, and the port unless it is the default of the scheme.
    #[must_use]
    pub fn authority(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { String::from(&*self.host) };
        match (self.secure, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.secure { "https" } else { "http" }, self.authority())
    }
}

/// The URL of a request.
///
/// ```
/// use mcp_proto::http::client::Url;
/// let url = Url::parse("http://LocalHost:3000/mcp?x=1").unwrap();
/// assert_eq!((&*url.origin().host, url.origin().port, url.target()), ("localhost", 3000, "/mcp?x=1"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    origin: Origin,
    /// The path and query.
    target: Box<str>,
}

impl Url {
    /// Parses an absolute URL; a fragment is dropped, because it is never sent.
    ///
    /// # Errors
    ///
    /// [`UrlError`] with the first violated rule.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > MAX_URL {
            return Err(UrlError::TooLong);
        }
        let end = uri::scheme(text).ok_or(UrlError::Scheme)?;
        let (scheme, rest) = text.split_at(end);
        let secure = match () {
            () if scheme.eq_ignore_case("http") => false,
            () if scheme.eq_ignore_case("https") => true,
            () => return Err(UrlError::Scheme),
        };
        let rest = rest.strip_prefix("://").ok_or(UrlError::Scheme)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.contains('@') {
            return Err(UrlError::UserInfo);
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(address) => {
                let (address, port) = address.split_once(']').ok_or(UrlError::Host)?;
                // Normalized, so that origins can be compared.
                let address = Ipv6Addr::from_str(address).map_err(|_| UrlError::Host)?.to_string();
                match port.strip_prefix(':') {
                    Some(port) => (address, Some(port)),
                    None if port.is_empty() => (address, None),
                    None => return Err(UrlError::Host),
                }
            }
            None => {
                let (host, port) = authority.split_once(':').map_or((authority, None), |(h, p)| (h, Some(p)));
                let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
                // Resolvers read other spellings of an address, as 127.1 and 0x7f.0.0.1: a check of addresses must not
                // take them for names (SEC-011).
                let is_ambiguous = ends_in_number(host) && Ipv4Addr::from_str(host).is_err();
                if host.is_empty() || is_ambiguous || !host.bytes().all(fits) {
                    return Err(UrlError::Host);
                }
                (host.to_ascii_lowercase(), port)
            }
        };
        // An empty port is that of the scheme (RFC 3986, 3.2.3).
        let port = match port.filter(|p| !p.is_empty()) {
            None => {
                if secure {
                    443
                } else {
                    80
                }
            }
            Some(text) if text.len() <= 5 && text.bytes().all(|b| b.is_ascii_digit()) => {
                text.parse().ok().filter(|port| *port != 0).ok_or(UrlError::Port)?
            }
            Some(_) => return Err(UrlError::Port),
        };
        let origin = Origin { secure, host: host.into(), port };
        Ok(Self { origin, target: target(rest)? })
    }

    /// Resolves `reference` with this URL as the base (RFC 3986, 5.2).
    ///
    /// # Errors
    ///
    /// [`UrlError`] with the first violated rule.
    pub fn resolve(&self, reference: &str) -> Result<Self, UrlError> {
        if reference.len() > MAX_URL {
            return Err(UrlError::TooLong);
        }
        if uri::scheme(reference).is_some() {
            return Self::parse(reference);
        }
        if reference.starts_with("//") {
            let scheme = if self.origin.secure { "https:" } else { "http:" };
            return Self::parse(&format!("{scheme}{reference}"));
        }
        let (path, query) = self.target.split_once('?').map_or((&*self.target, None), |(p, q)| (p, Some(q)));
        let text = match reference.as_bytes().first() {
            None | Some(b'#') => match query {
                Some(query) => format!("{path}?{query}"),
                None => String::from(path),
            },
            Some(b'?') => format!("{path}{reference}"),
            Some(b'/') => String::from(reference),
            Some(_) => {
                let folder = path.rfind('/').and_then(|at| path.get(..=at)).unwrap_or("/");
                format!("{folder}{reference}")
            }
        };
        Ok(Self { origin: self.origin.clone(), target: target(&text)? })
    }

    /// Returns a possible URL without its user name, password, query and fragment, for logs and messages (SEC-019).
    ///
    /// ```
    /// use mcp_proto::http::client::Url;
    /// assert_eq!(Url::redacted("http://me:secret@host/mcp?key=secret"), "http://…@host/mcp?…");
    /// ```
    #[must_use]
    pub fn redacted(text: &str) -> String {
        let start = text.find(':').map_or(0, |at| at + 3);
        let (scheme, rest) =
            text.split_at_checked(start).filter(|(scheme, _)| scheme.ends_with("://")).unwrap_or(("", text));
        // A password may contain the delimiters of an authority, so all text before the last `@` may be secret; and all
        // behind it, if it may be in a query. A valid URL has no password.
        let (user, rest) = match rest.rsplit_once('@').filter(|_| Self::parse(text).is_err()) {
            Some((user, _)) if user.contains(['?', '#']) => ("…@…", ""),
            Some((_, rest)) => ("…@", rest),
            None => ("", rest),
        };
        let end = rest.find(['?', '#']).unwrap_or(rest.len());
        let (path, more) = rest.split_at_checked(end).unwrap_or((rest, ""));
        format!("{scheme}{user}{path}{}", if more.is_empty() { "" } else { "?…" })
    }

    /// Returns a text with each URL in it [redacted](Self::redacted), for messages of other libraries.
    ///
    /// ```
    /// use mcp_proto::http::client::Url;
    /// let text = "no answer (http://host/mcp?key=a(b)c), again";
    /// assert_eq!(Url::redacted_in(text), "no answer (http://host/mcp?…), again");
    /// ```
    #[must_use]
    pub fn redacted_in(text: &str) -> String {
        // No others end a URL: parentheses and quotation marks of its query may be a part of the secret.
        let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>' | '`');
        let redacted = text.split_inclusive(is_end).map(|part| {
            let (url, after) = part.split_at(part.trim_end_matches(is_end).len());
            let Some(at) = url.find("://") else { return part.into() };
            let before = url.get(..at).unwrap_or_default();
            let start = before.rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
            let (before, url) = url.split_at(start);
            let (url, closing) =
                url.split_at(url.trim_end_matches([')', ']', '}', '\'', ',', ';', '.', ':']).len());
            format!("{before}{}{closing}{after}", Self::redacted(url))
        });
        redacted.collect()
    }

    /// Returns the origin.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the path and query, as in a request line.
    #[must_use]
    pub const fn target(&self) -> &str {
        &self.target
    }
}

/// Shows the origin and the path; the query may be a secret (SEC-019).
impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, query) = self.target.split_once('?').map_or((&*self.target, ""), |(path, _)| (path, "?…"));
        write!(f, "{}{path}{query}", self.origin)
    }
}

/// Returns what follows a name of this machine at the front of an authority: `localhost`, `127.0.0.1`, `[::1]`.
///
/// It is for `Host` and `Origin` of requests, which a page of another site may have chosen, and narrower than
/// [`Origin::is_loopback`], which is for addresses to connect to: a page below `localhost` or at another loopback address
/// may be another user's or another program's.
#[cfg(feature = "http")]
pub(crate) fn strip_loopback_name(authority: &[u8]) -> Option<&[u8]> {
    match authority.split_at_checked("localhost".len()) {
        Some((name, rest)) if name == b"127.0.0.1" || is_word!(name, "localhost") => Some(rest),
        _ => authority.strip_prefix(b"[::1]"),
    }
}

/// Returns whether the last label of a host is a number, by the rule of the WHATWG URL standard ("ends in a number").
pub(crate) fn ends_in_number(host: &str) -> bool {
    let last = host.strip_suffix('.').unwrap_or(host).rsplit('.').next().unwrap_or_default();
    match last.get(..2).filter(|prefix| prefix.eq_ignore_case("0x")) {
        Some(prefix) => last.bytes().skip(prefix.len()).all(|b| b.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()),
    }
}

/// Returns the path and query of the text after an authority, without dot segments.
fn target(rest: &str) -> Result<Box<str>, UrlError> {
    let rest = rest.split('#').next().unwrap_or_default();
    let (path, query) = rest.split_once('?').map_or((rest, None), |(p, q)| (p, Some(q)));
    check(path, SEGMENT | SLASH)?;
    check(query.unwrap_or_default(), QUERY | BRACKET)?;
    let mut segments: Vec<&str> = Vec::new();
    let mut parts = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        // An encoded dot is a dot (RFC 3986, 6.2.2.2), and servers decode it.
        let dots = if part.len() <= "%2e%2e".len() { uri::decode(part) } else { None };
        match dots.as_deref() {
            Some(dots @ ("." | "..")) => {
                if dots == ".." {
                    // Above the root there is nothing (RFC 3986, 5.2.4).
                    segments.pop();
                }
                // A dot segment at the end leaves a path that ends in a slash.
                if last {
                    segments.push("");
                }
            }
            _ => segments.push(part),
        }
    }
    let mut text = String::with_capacity(rest.len() + 1);
    for segment in segments {
        text.push('/');
        text.push_str(segment);
    }
    if text.is_empty() {
        text.push('/');
    }
    if let Some(query) = query {
        text.push('?');
        text.push_str(query);
    }
    Ok(text.into())
}

fn check(part: &str, classes: u8) -> Result<(), UrlError> {
    let bytes = part.as_bytes();
    let fits = |(at, b): (usize, &u8)| {
        let class = uri::byte_class(*b);
        class & classes & !HASH != 0
            && (class != PERCENT || uri::decode_triplet(bytes.get(at..).unwrap_or_default()).is_some())
    };
    if bytes.iter().enumerate().all(fits) { Ok(()) } else { Err(UrlError::Path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, UrlError> {
        Url::parse(text).map(|u| format!("{} {}", u.origin(), u.target()))
    }

    #[test]
    fn parse_accepts_valid_urls_only() {
        for (text, expected) in [
            ("http://a", "http://a /"),
            ("HTTP://A:80/x", "http://a /x"),
            ("https://a.example:443", "https://a.example /"),
            ("https://a:80?x#y", "https://a:80 /?x"),
            ("http://[::1]:3000/mcp", "http://[::1]:3000 /mcp"),
            ("http://[0:0:0:0:0:0:0:1]", "http://[::1] /"),
            ("http://[FE80::A:0:1]:80", "http://[fe80::a:0:1] /"),
            ("http://[::ffff:127.0.0.1]", "http://[::ffff:127.0.0.1] /"),
            ("http://127.0.0.1:1/a/./b/../c/..", "http://127.0.0.1:1 /a/"),
            ("http://a/../../x%2F?q=[1]", "http://a /x%2F?q=[1]"),
            ("http://a:/x", "http://a /x"),
            ("http://a/b/%2e%2E/c/.%2e/%2e/d/%2e", "http://a /d/"),
            ("http://a/%2ea/%2e.%2e?%2e", "http://a /%2ea/%2e.%2e?%2e"),
            ("http://0x.a/", "http://0x.a /"),
            ("http://a.0xg", "http://a.0xg /"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, error) in [
            ("", UrlError::Scheme),
            ("a/b", UrlError::Scheme),
            ("ftp://a", UrlError::Scheme),
            ("http:a", UrlError::Scheme),
            ("http://", UrlError::Host),
            ("http://a b", UrlError::Host),
            ("http://[::1", UrlError::Host),
            ("http://[::1]x", UrlError::Host),
            ("http://[::::]", UrlError::Host),
            ("http://[1:2:3]", UrlError::Host),
            ("http://[.:]", UrlError::Host),
            ("http://[::1%25lo]", UrlError::Host),
            ("http://[127.0.0.1]", UrlError::Host),
            ("http://1", UrlError::Host),
            ("http://2130706433/", UrlError::Host),
            ("http://127.1", UrlError::Host),
            ("http://0X7f.1:80", UrlError::Host),
            ("http://0177.0.0.1", UrlError::Host),
            ("http://127.0.0.1.", UrlError::Host),
            ("http://a.0x", UrlError::Host),
            ("http://.1", UrlError::Host),
            ("http://a%2f@b", UrlError::UserInfo),
            ("http://a\\@b", UrlError::UserInfo),
            ("http://a\\b", UrlError::Host),
            ("http://a%62", UrlError::Host),
            ("http://\u{e9}", UrlError::Host),
            ("http://u:p@a", UrlError::UserInfo),
            ("http://a:0", UrlError::Port),
            ("http://a:65536", UrlError::Port),
            ("http://a:1x", UrlError::Port),
            ("http://a/ b", UrlError::Path),
            ("http://a/%zz", UrlError::Path),
            ("http://a/\r\nX: y", UrlError::Path),
            ("http://a/?\u{e9}", UrlError::Path),
        ] {
            assert_eq!(shown(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn resolve_follows_rfc_3986() {
        let base = Url::parse("http://h:81/a/b?c").expect("a URL");
        for (reference, expected) in [
            ("", "http://h:81 /a/b?c"),
            ("x", "http://h:81 /a/x"),
            ("/x?y", "http://h:81 /x?y"),
            ("?z", "http://h:81 /a/b?z"),
            ("../x", "http://h:81 /x"),
            ("//o/x", "http://o /x"),
            ("https://o/x", "https://o /x"),
        ] {
            let url = base.resolve(reference).expect("a URL");
            assert_eq!(format!("{} {}", url.origin(), url.target()), expected, "{reference}");
        }
        assert_eq!(base.resolve("javascript:x"), Err(UrlError::Scheme));
        assert_eq!(base.resolve("/a b"), Err(UrlError::Path));
    }

    // covers: SEC-019
    #[test]
    fn redacted_hides_secrets_in_any_text() {
        for (text, expected) in [
            ("http://h/a", "http://h/a"),
            ("http://u:s3cret@h:1/a", "http://…@h:1/a"),
            ("http://u:s3/?#c@ret@h/?s3cret", "http://…@…"),
            ("https://h/p?login_hint=a@b.c&token=s3cret", "https://h/p?…"),
            ("https://h/~a@b/p#s3cret@c", "https://h/~a@b/p?…"),
            ("http://h/a#s3cret", "http://h/a?…"),
            ("u:s3cret@h", "…@h"),
            ("", ""),
            ("://", "://"),
            ("h", "h"),
        ] {
            assert_eq!(Url::redacted(text), expected, "{text}");
        }
    }

    #[test]
    fn url_debug_output_omits_the_query() {
        let url = Url::parse("http://h/a?secret").expect("a URL");
        assert_eq!(format!("{url:?}"), "http://h/a?…");
        assert_eq!(url.origin().to_string(), "http://h");
    }
}
