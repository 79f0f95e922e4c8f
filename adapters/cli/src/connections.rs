//! The connections that `connect` keeps: their names, and the sockets at which they are reached.

use std::path::{Path, PathBuf};
use std::{env, fs};

use mcp_std::io::StreamAddress;

/// Parses the name of a connection: letters, digits, `-`, `_` and `.`, at most 64, and no dot first.
pub(crate) fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty()
        || text.len() > MAX_NAME_BYTES
        || text.starts_with(['.', '-'])
        || !text.chars().all(fits)
    {
        return Err(format!(
            "must be a name: at most {MAX_NAME_BYTES} letters, digits, '-', '_' and '.', with a letter, a digit or '_' first"
        ));
    }
    Ok(text.to_owned())
}

/// Returns the address of a connection of this name, which need not be there.
///
/// # Errors
///
/// Returns a text if it is no name of a connection.
pub(crate) fn address(text: &str) -> Result<StreamAddress, String> {
    let name = name(text).map_err(|why| format!("@{text}: {why}"))?;
    let path = socket(&folder(), &name);
    if path.as_os_str().len() > MAX_PATH_BYTES {
        return Err(format!(
            "@{text}: the path of its socket has more than {MAX_PATH_BYTES} bytes: set XDG_RUNTIME_DIR to a shorter one"
        ));
    }
    Ok(StreamAddress::Unix(path))
}

/// Returns the socket of a connection.
pub(crate) fn socket(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}{SOCKET_ENDING}"))
}

/// Returns the name of the connection at an address, if it is one of ours.
pub(crate) fn name_at(address: &StreamAddress) -> Option<String> {
    let StreamAddress::Unix(path) = address else { return None };
    (path.parent() == Some(&folder())).then(|| name_of(path)).flatten()
}

/// Returns why a connection cannot be used that nobody keeps, and what to do. Others are named.
pub(crate) fn describe_missing(name: &str) -> (String, String) {
    let others = names();
    let known = match &*others {
        [] => String::new(),
        some => format!("; there are: @{}", some.join(" @")),
    };
    let hint = format!("`mcp-probe connect {name} …` with a server makes it{known}");
    (format!("there is no connection @{name}"), hint)
}

/// Returns the names of sockets in the folder. One whose process was killed is among them.
fn names() -> Vec<String> {
    let files = fs::read_dir(folder()).into_iter().flatten().flatten();
    let mut names: Vec<_> = files.filter_map(|file| name_of(&file.path())).take(MAX_SHOWN).collect();
    names.sort_unstable();
    names
}

fn name_of(path: &Path) -> Option<String> {
    name(path.file_name()?.to_str()?.strip_suffix(SOCKET_ENDING)?).ok()
}

/// Returns the folder of the sockets, which need not exist.
///
/// It is of this user alone: in the folder for sockets of the session, if the system has one, else in that for temporary files.
pub(crate) fn folder() -> PathBuf {
    let session = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    match session {
        Some(session) => session.join("mcp-probe"),
        #[cfg(unix)]
        None => env::temp_dir().join(format!("mcp-probe-{}", rustix::process::getuid().as_raw())),
        #[cfg(not(unix))]
        None => env::temp_dir().join("mcp-probe"),
    }
}

/// What follows the name of a connection in the name of its socket.
const SOCKET_ENDING: &str = ".sock";
/// Maximum length of the path of a socket on all systems.
const MAX_PATH_BYTES: usize = 103;
/// Maximum length of a name.
const MAX_NAME_BYTES: usize = 64;
/// Maximum number of connections that a failure names.
const MAX_SHOWN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_that_are_no_paths() {
        for good in ["lab", "a", "my-server_2.1", "_x", &"n".repeat(64)] {
            assert_eq!(name(good).as_deref(), Ok(good));
        }
        for bad in ["", ".", "..", ".x", "-x", "a/b", "../a", "a b", "é", "a\n", "@a", &"n".repeat(65)] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
        let address = address("lab").unwrap();
        assert_eq!(name_at(&address).as_deref(), Some("lab"));
        assert_eq!(name_at(&StreamAddress::Unix("/elsewhere/lab.sock".into())), None);
    }
}
