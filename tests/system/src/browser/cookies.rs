//! The cookies of the browser (RFC 6265), for the life of the browser.

use alloc::string::String;
use alloc::vec::Vec;

use mcp_proto::http::client::Url;

struct Cookie {
    host: String,
    path: String,
    name: String,
    value: String,
}

/// Cookies by host, path and name. As in every browser, all ports of a host share them.
#[derive(Default)]
pub(super) struct CookieJar {
    cookies: Vec<Cookie>,
}

impl CookieJar {
    /// Keeps a cookie of a `Set-Cookie` field, or deletes it if the field has expired it.
    ///
    /// Dates are not parsed: a server that deletes a cookie also empties it, or sets the date to 1970.
    pub(super) fn store(&mut self, url: &Url, field: &str) {
        let mut attributes = field.split(';').map(str::trim);
        let Some((name, value)) = attributes.next().and_then(|pair| pair.split_once('=')) else { return };
        let mut path = folder(path_of(url));
        let mut is_expired = value.is_empty();
        for attribute in attributes {
            let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            match &*key.to_ascii_lowercase() {
                "path" if value.starts_with('/') => path = value,
                "max-age" => is_expired |= value.parse().is_ok_and(|seconds: i64| seconds <= 0),
                "expires" => is_expired |= value.contains(" 1970 "),
                _ => {}
            }
        }
        let host = &*url.origin().host;
        self.cookies.retain(|cookie| (&*cookie.host, &*cookie.path, &*cookie.name) != (host, path, name));
        if !is_expired {
            let [host, path, name, value] = [host, path, name, value].map(str::to_owned);
            self.cookies.push(Cookie { host, path, name, value });
        }
    }

    /// Returns the value of the field `Cookie`, empty if no cookie matches.
    pub(super) fn field(&self, url: &Url) -> String {
        let path = path_of(url);
        let matches =
            |cookie: &&Cookie| cookie.host == *url.origin().host && path_matches(&cookie.path, path);
        let mut matching: Vec<_> = self.cookies.iter().filter(matches).collect();
        // Cookies with longer paths come first (RFC 6265, 5.4).
        matching.sort_by_key(|cookie| core::cmp::Reverse(cookie.path.len()));
        let pairs: Vec<_> =
            matching.iter().map(|cookie| [&*cookie.name, "=", &*cookie.value].concat()).collect();
        pairs.join("; ")
    }
}

fn path_of(url: &Url) -> &str {
    url.target().split('?').next().unwrap_or("/")
}

/// Returns the default path of a cookie (RFC 6265, 5.1.4).
fn folder(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

fn path_matches(cookie: &str, path: &str) -> bool {
    let Some(rest) = path.strip_prefix(cookie) else { return false };
    rest.is_empty() || cookie.ends_with('/') || rest.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    #[test]
    fn cookie_is_sent_to_its_host_and_path_on_every_port() {
        let mut jar = CookieJar::default();
        jar.store(&url("http://a:1/x/y"), "one=1; path=/x; HttpOnly");
        jar.store(&url("http://a:1/x/y"), "two=2");
        jar.store(&url("http://a:1/x/y"), "root=3; Path=/");
        assert_eq!(jar.field(&url("http://a:2/x/z?q")), "one=1; two=2; root=3");
        assert_eq!(jar.field(&url("http://a:2/xx")), "root=3");
        assert_eq!(jar.field(&url("http://b:1/x/y")), "");
    }

    #[test]
    fn cookie_is_replaced_and_deleted() {
        let mut jar = CookieJar::default();
        let at = url("http://a/");
        jar.store(&at, "a=1");
        jar.store(&at, "a=2");
        assert_eq!(jar.field(&at), "a=2");
        for expired in ["a=", "a=x; max-age=0", "a=x; expires=Thu, 01 Jan 1970 00:00:00 GMT"] {
            jar.store(&at, "a=2");
            jar.store(&at, expired);
            assert_eq!(jar.field(&at), "", "{expired}");
        }
    }
}
