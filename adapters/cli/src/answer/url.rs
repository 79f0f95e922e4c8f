//! Properties of a URL that the user should see before opening it.

/// Returns the host of a URL, without user name and port.
pub(super) fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split_once(':').map_or(host, |(host, _)| host),
    }
}

/// Returns warnings about a URL (ELIC-038, ELIC-041).
pub(super) fn warnings(url: &str) -> Vec<&'static str> {
    let host = host(url);
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let is_ours = host == "localhost" || host == "::1" || host.starts_with("127.");
    let scheme = url.get(..8).unwrap_or_default().to_ascii_lowercase();
    let is_puny = host.split('.').any(|part| part.get(..4).is_some_and(|p| p.eq_ignore_ascii_case("xn--")));
    let found = [
        (scheme != "https://" && !is_ours, "this is not https: others on the network may read or change it"),
        (is_puny || !host.is_ascii(), "the host may imitate another one: it has characters beyond ASCII"),
        (authority.contains('@'), "the text before the @ is not part of the host"),
    ];
    found.into_iter().filter(|(is, _)| *is).map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ELIC-024, ELIC-038, ELIC-041
    #[test]
    fn host_is_extracted_and_deceptive_urls_are_warned_about() {
        let cases = [
            ("https://a.example/sign?x=https://b.example", "a.example", 0),
            ("https://bank.example@evil.example:8443/x", "evil.example", 1),
            ("https://bank.example:x@evil.example", "evil.example", 1),
            ("http://a.example", "a.example", 1),
            ("http://localhost:3000/x", "localhost", 0),
            ("http://[::1]:3000/x", "::1", 0),
            ("https://xn--pple-43d.example?y", "xn--pple-43d.example", 1),
            ("https://a.example\\@b.example/", "a.example", 0),
        ];
        for (url, want, warned) in cases {
            assert_eq!((host(url), warnings(url).len()), (want, warned), "{url}");
        }
    }
}
