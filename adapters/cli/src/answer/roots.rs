//! Roots from the command line (`--root PATH`).

use std::env::current_dir;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, absolute};

use mcp_proto::model::{ListRootsResult, Root};

/// Returns the list of roots for these paths, or `None` without paths.
pub(super) fn from_paths(paths: &[OsString]) -> Result<Option<ListRootsResult>, String> {
    if paths.is_empty() {
        return Ok(None);
    }
    let roots = paths.iter().map(|path| root(path)).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(ListRootsResult::new(roots)))
}

/// Creates a root from a path, which need not exist, or from a `file://` URI.
pub(super) fn root(path: &OsStr) -> Result<Root, String> {
    if let Some(uri) = path.to_str().filter(|text| text.starts_with("file://")) {
        return Ok(Root::new(uri));
    }
    let whole = absolute(path).map_err(|error| format!("the root {path:?} is not a path: {error}"))?;
    let name = whole.file_name().and_then(OsStr::to_str).map(str::to_owned);
    let root =
        Root::new(file_uri(&whole).ok_or_else(|| format!("the root {path:?} cannot be written as a URI"))?);
    Ok(match name {
        Some(name) => root.name(name),
        None => root,
    })
}

/// Converts an absolute path to a URI: `file:///home/me`, with percent-encoding where needed.
fn file_uri(path: &Path) -> Option<String> {
    // On Windows `C:\a` becomes `/C:/a`.
    Some(format!(
        "file://{}{}",
        if cfg!(windows) { "/" } else { "" },
        uri_path(path.to_str()?, cfg!(windows))
    ))
}

/// Converts a path to a reference (RFC 3986, 4.1): relative to the current directory if it is inside of that, and a `file` URI
/// otherwise. `None` if it cannot be written as one.
pub(crate) fn uri_reference(path: &Path) -> Option<String> {
    let whole = absolute(path).ok()?;
    // `..` says nothing to whoever reads the reference elsewhere.
    let is_plain = whole.components().all(|part| part != Component::ParentDir);
    match current_dir().ok().and_then(|here| Some(whole.strip_prefix(here).ok()?.to_path_buf())) {
        // An encoded colon: the first part of a relative reference must not be taken for a scheme.
        Some(inside) if is_plain => Some(uri_path(inside.to_str()?, false)),
        _ => file_uri(&whole),
    }
}

/// Converts the text of a path to that of the path of a URI.
fn uri_path(text: &str, has_drive: bool) -> String {
    let text = if cfg!(windows) { text.replace('\\', "/") } else { text.to_owned() };
    let mut uri = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte))
            }
            b':' if has_drive => uri.push(':'),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    // covers: ROOT-005
    #[test]
    fn paths_become_file_uris() {
        let uri = |path: &str| root(path.as_ref()).expect("a root");
        let cases = [
            ("/", "file:///", None),
            ("/home/me", "file:///home/me", Some("me")),
            ("/a b/50%/ü#?", "file:///a%20b/50%25/%C3%BC%23%3F", Some("ü#?")),
            ("file:///x", "file:///x", None),
        ];
        for (path, want, name) in cases {
            let root = uri(path);
            assert_eq!((&*root.uri, root.name.as_deref()), (want, name), "{path}");
        }
        let here = current_dir().expect("a directory");
        assert_eq!(Some(&*uri("x").uri), file_uri(&here.join("x")).as_deref());
        assert_eq!(from_paths(&[]), Ok(None));
    }

    #[test]
    fn paths_inside_the_current_directory_become_relative_references() {
        let here = current_dir().expect("a directory");
        let above = here.parent().expect("a directory");
        for (path, expected) in [
            ("mcp.lock", Some("mcp.lock".into())),
            ("./x/50%#ü.lock", Some("x/50%25%23%C3%BC.lock".into())),
            ("c:ü.lock", Some("c%3A%C3%BC.lock".into())),
            ("/elsewhere/x y", Some("file:///elsewhere/x%20y".into())),
            ("../x", file_uri(&here.join("../x"))),
        ] {
            assert_eq!(uri_reference(path.as_ref()), expected, "{path}");
        }
        assert_eq!(uri_reference(&here.join("x/y")).as_deref(), Some("x/y"));
        assert_eq!(uri_reference(&above.join("x")), file_uri(&above.join("x")));
    }
}
