//! Form encoding (`application/x-www-form-urlencoded`), and parameters in the query of a URL.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Encodes pairs as a form.
#[must_use]
pub fn encode<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs: Vec<_> = pairs
        .into_iter()
        .map(|(name, value)| format!("{}={}", encode_text(name), encode_text(value)))
        .collect();
    pairs.join("&")
}

fn encode_text(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

/// Decodes a name or value. A `%` without two hexadecimal digits stays as it is.
fn decode_text(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let digits = tail.get(..2).and_then(|digits| core::str::from_utf8(digits).ok());
        match (first, digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                rest = &tail[2..];
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(*first),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the decoded parameters in the query of a URL, in order.
pub fn parameters(url: &str) -> Vec<(String, String)> {
    let url = url.split('#').next().unwrap_or_default();
    let Some((_, query)) = url.split_once('?') else { return Vec::new() };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| (decode_text(name), decode_text(value))).collect()
}

/// Returns the first parameter of that name in the query of a URL.
#[must_use]
pub fn parameter(url: &str, name: &str) -> Option<String> {
    parameters(url).into_iter().find(|(own, _)| own == name).map(|(_, value)| value)
}

/// Replaces a parameter in the query of a URL by `value`, or removes it. A parameter that is not there is added.
#[must_use]
pub fn with_parameter(url: &str, name: &str, value: Option<&str>) -> String {
    let mut pairs = parameters(url);
    match (pairs.iter_mut().find(|(own, _)| own == name), value) {
        (Some(pair), Some(value)) => value.clone_into(&mut pair.1),
        (None, Some(value)) => pairs.push((name.to_owned(), value.to_owned())),
        (_, None) => pairs.retain(|(own, _)| own != name),
    }
    let base = url.split(['?', '#']).next().unwrap_or_default();
    let query = encode(pairs.iter().map(|(name, value)| (&**name, &**value)));
    if query.is_empty() { base.to_owned() } else { format!("{base}?{query}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_encoded() {
        let url = "http://a/b?code=x%2Fy&state=a+b&iss=http%3A%2F%2Fc&odd=%zz%";
        assert_eq!(parameter(url, "code").as_deref(), Some("x/y"));
        assert_eq!(parameter(url, "state").as_deref(), Some("a b"));
        assert_eq!(parameter(url, "odd").as_deref(), Some("%zz%"));
        assert_eq!(parameter(url, "none"), None);
        let pairs = parameters(url);
        let encoded = encode(pairs.iter().map(|(name, value)| (&**name, &**value)));
        assert_eq!(encoded, "code=x%2Fy&state=a+b&iss=http%3A%2F%2Fc&odd=%25zz%25");
    }

    #[test]
    fn parameter_is_replaced_added_and_removed() {
        let url = "http://a/b?code=x&state=y";
        assert_eq!(with_parameter(url, "state", Some("z&")), "http://a/b?code=x&state=z%26");
        assert_eq!(with_parameter(url, "iss", Some("q")), "http://a/b?code=x&state=y&iss=q");
        assert_eq!(with_parameter(url, "code", None), "http://a/b?state=y");
        assert_eq!(with_parameter("http://a/b?code=x", "code", None), "http://a/b");
    }
}
