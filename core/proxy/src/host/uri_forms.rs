//! The forms of a URI that rules are compared with: servers read more than one spelling as the same thing.

/// A URI, or a pattern of URIs, in several spellings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct UriForms {
    pub(super) text: String,
    /// RFC 3986, 6.2.2: the scheme and the host in lower case, no unreserved character percent-encoded. A user, the port that the
    /// scheme has anyway, and the host `localhost` of a file are left out.
    pub(super) normal: String,
    /// As a server reads it that decodes first: nothing percent-encoded, `/` for `\`.
    pub(super) decoded: String,
    /// As the name of a file: decoded, with one slash for several, and none at the end.
    pub(super) path: String,
}

impl UriForms {
    /// Returns the forms of a URI; `None` if a segment of it is `.` or `..`, also percent-encoded: it is somewhere else than it
    /// looks. So may be one with control characters, or with white space at an end, which many servers leave out.
    pub(super) fn of(uri: &str) -> Option<Self> {
        let mut forms = Self::of_pattern(uri)?;
        let end = forms.decoded.find(['?', '#']).unwrap_or(forms.decoded.len());
        forms.path = path(forms.decoded.get(..end).unwrap_or_default());
        Some(forms)
    }

    /// Returns the forms of a pattern, in which `*` stands for any characters; `None` as for a URI.
    pub(super) fn of_pattern(pattern: &str) -> Option<Self> {
        let normal = normal(pattern);
        let decoded = decode(&normal, |_| true).replace('\\', "/");
        // Also what follows a query, because its mark may be encoded in a path.
        let has_dots = decoded.split(['/', '?', '#']).any(|segment| matches!(segment, "." | ".."));
        let path = path(&decoded);
        let is_clean = pattern.trim() == pattern && !pattern.contains(char::is_control);
        (is_clean && !has_dots).then(|| Self { text: pattern.to_owned(), normal, decoded, path })
    }
}

fn path(decoded: &str) -> String {
    let mut path = String::with_capacity(decoded.len());
    for character in decoded.trim_end_matches('/').chars() {
        if character != '/' || !path.ends_with('/') {
            path.push(character);
        }
    }
    path
}

fn normal(uri: &str) -> String {
    let uri = decode(uri, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
    let is_scheme = |scheme: &str| scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let Some((scheme, rest)) = uri.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return uri;
    };
    let scheme = scheme.to_ascii_lowercase();
    let Some(rest) = rest.strip_prefix("//") else {
        // `file:/etc` is `file:///etc`.
        let authority = if scheme == "file" && rest.starts_with('/') { "//" } else { "" };
        return format!("{scheme}:{authority}{rest}");
    };
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
    // Neither the user nor the port that the scheme has anyway names another thing.
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let default_port = match &*scheme {
        "http" | "ws" => ":80",
        "https" | "wss" => ":443",
        _ => ":",
    };
    let mut host = host.strip_suffix(default_port).unwrap_or(host).to_ascii_lowercase();
    if scheme == "file" && host == "localhost" {
        host.clear();
    }
    format!("{scheme}://{host}{rest}")
}

/// Decodes the percent-encoded bytes that are chosen, and writes the others in upper case.
fn decode(text: &str, is_chosen: impl Fn(u8) -> bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let encoded = match after {
            [high, low, after @ ..] if *first == b'%' => {
                digit(high).zip(digit(low)).map(|pair| (pair, after))
            }
            _ => None,
        };
        match encoded {
            Some(((high, low), after)) => {
                let byte = high << 4 | low;
                if is_chosen(byte) {
                    bytes.push(byte);
                } else {
                    bytes.extend(format!("%{byte:02X}").bytes());
                }
                rest = after;
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_uri_have_one_normal_form() {
        for uri in [
            "file:///a/k.txt",
            "FILE:///a/k.txt",
            "file://LocalHost/a/k.txt",
            "file:/a/k.txt",
            "file:///%61/k%2etxt",
        ] {
            assert_eq!(UriForms::of(uri).expect("no dots").normal, "file:///a/k.txt", "{uri}");
        }
        for (uri, normal) in [
            ("HTTP://Me@Host:80/A%2fb%c3", "http://host/A%2Fb%C3"),
            ("https://a.example:443", "https://a.example"),
            ("https://a.example:80/", "https://a.example:80/"),
            ("urn:A:b", "urn:A:b"),
            ("note://A", "note://a"),
            ("no scheme", "no scheme"),
            ("50%", "50%"),
            ("x:%4", "x:%4"),
        ] {
            assert_eq!(UriForms::of(uri).expect("no dots").normal, normal, "{uri}");
        }
    }

    #[test]
    fn decoded_form_and_path_are_as_a_server_may_read_them() {
        let forms = UriForms::of("file:////a%2Fb\\c%5Cd%20e//?x=1#y").expect("no dots");
        assert_eq!(forms.decoded, "file:////a/b/c/d e//?x=1#y");
        assert_eq!(forms.path, "file:/a/b/c/d e");
        assert_eq!(UriForms::of_pattern("file:///a/*").expect("no dots").path, "file:/a/*");
    }

    #[test]
    fn dot_segments_have_no_forms() {
        for uri in [
            "file:///a/../b",
            "file:///a/./b",
            "file:///a/..",
            "file:///a/..?x",
            "file:///a/%2e%2E/b",
            "file:///a/.%2e%2fb",
            "file:///a/..\\b",
            "file:///a/%3f/../b",
            "..",
            "file:///a/.\t./b",
            "file:///a/%2\ne./b",
            " file:///a",
            "file:///a\r",
        ] {
            assert_eq!(UriForms::of(uri), None, "{uri}");
        }
        for uri in ["file:///a/...", "file:///a/..b", "file:///a/.b", "x:a..b"] {
            assert!(UriForms::of(uri).is_some(), "{uri}");
        }
    }
}
