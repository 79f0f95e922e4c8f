//! Fuzz target for URLs of endpoints and for the targets of redirects.

use core::net::Ipv6Addr;

use fluent_uri::Uri;
use mcp_proto::http::client::{MAX_URL, Url};

/// Parses a URL and resolves a reference against it; they are on two lines.
///
/// - An accepted URL is in a normal form, and its text gives the same URL.
/// - `fluent-uri` finds the same parts in it.
/// - A reference without an authority stays in the origin, and an absolute one does not depend on the base.
/// - The text for logs has no user name, password, query or fragment.
pub fn url(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (base, reference) = text.split_once('\n').unwrap_or((&text, ""));
    check_redacted(base);
    let whole = base;
    let Ok(base) = Url::parse(base) else { return };
    check_normal_form(&base);
    check_parts(whole, &base);
    assert_eq!(base.resolve("").as_ref(), Ok(&base));
    let resolved = base.resolve(reference);
    let absolute = Url::parse(reference);
    if let Ok(absolute) = &absolute {
        assert_eq!(resolved.as_ref(), Ok(absolute), "{reference} from {base:?}");
    }
    let Ok(resolved) = resolved else { return };
    check_normal_form(&resolved);
    let leaves = absolute.is_ok() || reference.starts_with("//");
    assert!(leaves || resolved.origin() == base.origin(), "{reference} leads from {base:?} to {resolved:?}");
    if !leaves && reference.starts_with('/') {
        let rooted = Url::parse(&format!("{}{reference}", base.origin()));
        assert!(reference.len() + 300 > MAX_URL || rooted.as_ref() == Ok(&resolved), "{reference}");
    }
}

fn check_normal_form(url: &Url) {
    let (origin, target) = (url.origin(), url.target());
    assert!(origin.port > 0 && !origin.host.is_empty() && *origin.host == *origin.host.to_ascii_lowercase());
    assert!(target.starts_with('/') && target.bytes().all(|b| b.is_ascii_graphic() && b != b'#'), "{target}");
    let path = target.split('?').next().unwrap_or_default();
    assert!(path.split('/').all(|segment| segment != "." && segment != ".."), "{target}");
    let text = format!("{origin}{target}");
    if text.len() <= MAX_URL {
        assert_eq!(Url::parse(&text).as_ref(), Ok(url), "{text}");
    }
    let shown = format!("{url:?}");
    assert_eq!(shown.replace("?…", ""), format!("{origin}{path}"), "the query is hidden");
}

/// Compares with a reader of RFC 3986, but for what the table of differences in `tests/programs/readers` lists.
fn check_parts(text: &str, url: &Url) {
    let text = text.split('#').next().unwrap_or_default();
    if text.split_once('?').is_some_and(|(_, query)| query.contains(['[', ']'])) {
        return;
    }
    let uri = Uri::parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).normalize();
    let (authority, origin) = (uri.authority().expect("an authority"), url.origin());
    let host = authority.host().trim_matches(['[', ']']);
    let host = host.parse::<Ipv6Addr>().map_or_else(|_| host.to_owned(), |address| address.to_string());
    let default = if origin.secure { 443 } else { 80 };
    let port = authority.port().map(|port| port.as_str()).filter(|port| !port.is_empty());
    let port = port.map_or(Some(default), |port| port.parse().ok());
    assert_eq!(
        (uri.scheme().as_str() == "https", &*host, port),
        (origin.secure, &*origin.host, Some(origin.port)),
        "{text}"
    );
    // It decodes what needs no encoding; ours sends the path as it is written.
    if !text.contains('%') {
        let path = if uri.path().is_empty() { "/" } else { uri.path().as_str() };
        let target = uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
        assert_eq!(target, url.target(), "{text}");
    }
}

fn check_redacted(text: &str) {
    let shown = Url::redacted(text);
    let Some(rest) = shown.strip_prefix("http://").or_else(|| shown.strip_prefix("https://")) else { return };
    let rest = rest.strip_prefix("…@").unwrap_or(rest);
    let rest = rest.strip_suffix("?…").unwrap_or(rest);
    // A valid URL has no user: an `@` is in its path.
    let may_have_user = Url::parse(text).is_err();
    assert!(!rest.contains(['?', '#']), "{text} is shown as {shown}");
    assert!(!may_have_user || !rest.contains('@'), "{text} is shown as {shown}");
}
