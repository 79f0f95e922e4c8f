//! URLs, read by `url` (WHATWG) and `fluent-uri` (RFC 3986).

use std::net::Ipv6Addr;

use fluent_uri::Uri;
use mcp_proto::http::client::Url;

use crate::compare::{Comparison, for_each_input};

const EXAMPLES: [&str; 8] = [
    "http://localhost:3000/mcp?a=b%20c",
    "https://example.com",
    "HTTPS://Example.COM:443/a/../b/./c",
    "http://[::1]:80/?q=1#f",
    "http://127.0.0.1/a//b/..",
    "https://a.b-c.example/~x/%7Ey?x=[1]",
    "http://[::ffff:127.0.0.1]:8080/x",
    "http://h/%2e%2E/a",
];
const PIECES: [&str; 19] = [
    "http://", "https://", "h", "A", "1", "/", ".", "..", "?", "#", ":", ":80", "%2e", "@", "[::1]", "0x",
    "%41", "x", "&[",
];

/// Scheme, host, port, path with query.
type Parts = (bool, String, u16, String);

fn by_whatwg(text: &str) -> Option<Parts> {
    let url = url::Url::parse(text).ok()?;
    let host = url.host_str().map(host)?;
    let target = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    Some((url.scheme() == "https", host, url.port_or_known_default()?, target))
}

fn by_rfc_3986(text: &str) -> Option<Parts> {
    let uri = Uri::parse(text).ok()?.normalize();
    let is_secure = uri.scheme().as_str() == "https";
    let authority = uri.authority()?;
    let port = authority.port().map_or("", |port| port.as_str());
    let port = if port.is_empty() { if is_secure { 443 } else { 80 } } else { port.parse().ok()? };
    let path = if uri.path().is_empty() { "/" } else { uri.path().as_str() };
    let target = uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    Some((is_secure, host(authority.host()), port, target))
}

fn host(text: &str) -> String {
    let text = text.trim_matches(['[', ']']).to_ascii_lowercase();
    // An IPv6 address has several spellings.
    text.parse::<Ipv6Addr>().map_or(text, |address| address.to_string())
}

/// Returns the class of an accepted URL for the reader by RFC 3986, by which `differences.tsv` lists it.
fn class(text: &str) -> &'static str {
    let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (_, query) = before.split_once('?').unwrap_or((before, ""));
    match () {
        () if query.contains(['[', ']']) => "bracket in query",
        () if Uri::parse(text).is_err() && !fragment.is_empty() => "fragment",
        () if before.contains('%') => "encoded character",
        () => "",
    }
}

#[test]
fn url_that_is_accepted_is_read_alike_by_whatwg_and_rfc_3986() {
    let mut comparison = Comparison::new("URL");
    let check = |input: &[u8]| {
        let Ok(text) = str::from_utf8(input) else { return };
        let Some(url) = comparison.count(input, Url::parse(text).ok()) else { return };
        let printed = format!("{}{}", url.origin(), url.target());
        let again = Url::parse(&printed).expect("our own spelling");
        assert_eq!(
            (&again, format!("{}{}", again.origin(), again.target())),
            (&url, printed.clone()),
            "{text}"
        );
        let origin = url.origin();
        let parts = (origin.secure, origin.host.to_string(), origin.port, url.target().to_owned());
        let (whatwg, rfc) = (by_whatwg(text), by_rfc_3986(text));
        comparison.check(
            "url",
            input,
            &parts,
            whatwg.as_ref(),
            if url.target().contains('\'') { "apostrophe in query" } else { "" },
        );
        comparison.check("fluent-uri", input, &parts, rfc.as_ref(), class(text));
    };
    for_each_input("url", &EXAMPLES, &PIECES, 5, check);
    comparison.finish(10_000);
}
