//! Roots from the command line (`--root PATH`).

use std::ffi::{OsStr, OsString};
use std::path::{Path, absolute};

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

/// Converts a path to a URI: `file:///home/me`, with percent-encoding where needed.
fn file_uri(path: &Path) -> Option<String> {
    let mut uri = String::from("file://");
    let text = path.to_str()?;
    // On Windows `C:\a` becomes `/C:/a`.
    let text = if cfg!(windows) { format!("/{}", text.replace('\\', "/")) } else { text.to_owned() };
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte))
            }
            b':' if cfg!(windows) => uri.push(':'),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    Some(uri)
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
        let here = std::env::current_dir().expect("a directory");
        assert_eq!(Some(&*uri("x").uri), file_uri(&here.join("x")).as_deref());
        assert_eq!(from_paths(&[]), Ok(None));
    }
}
