//! The folder of a resource, whatever the spelling of its URI.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

/// Returns a URI as a file system would read its path: triplets are decoded, and there are no empty segments and no dot segments.
///
/// A template serves `x:/a/./b` and `x:/a%2Bb` with what it has at `x:/a/b` and `x:/a+b`, mostly. So what holds for a folder
/// holds for all of them, although they are different URIs. Only keys are compared, so the result need not be a URI.
pub(super) fn folder_key(uri: &str) -> String {
    let (scheme, rest) = uri.split_once(':').unwrap_or(("", uri));
    let decoded = decode(rest);
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => _ = segments.pop(),
            other => segments.push(other),
        }
    }
    let mut key = scheme.to_owned();
    key.push(':');
    key.push_str(&segments.join("/"));
    if decoded.ends_with('/') && !segments.is_empty() {
        key.push('/');
    }
    key
}

/// Decodes all triplets; what is not UTF-8 then is replaced.
fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).filter(|_| *first == b'%');
        let value = digits.and_then(|digits| core::str::from_utf8(digits).ok());
        match value.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                bytes.push(value);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_file_are_in_one_folder() {
        for uri in [
            "x://a/b+c/d",
            "x://a/./b+c/d",
            "x://./a/b+c/d",
            "x:///a//b+c/d",
            "x://a/b%2Bc/d",
            "x://a/z/../b+c/d",
            "x://a/b%2bc%2Fd",
        ] {
            assert_eq!(folder_key(uri), "x:a/b+c/d", "{uri}");
        }
        assert_eq!((&*folder_key("x://a/"), &*folder_key("x:/"), &*folder_key("x")), ("x:a/", "x:", ":x"));
        assert_eq!(folder_key("x://a/%C3%A9/%zz%"), "x:a/é/%zz%");
    }
}
