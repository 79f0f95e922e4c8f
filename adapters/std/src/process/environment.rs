//! Environment variables of a server.

use alloc::collections::BTreeMap;
use core::fmt;
use std::env;
use std::ffi::{OsStr, OsString};

/// An allow-list of inherited variables, and variables set explicitly.
///
/// Secrets of the host (tokens, keys, proxies with passwords) are not passed on unless they are named.
#[derive(Clone)]
pub(super) struct Environment {
    inherited: Vec<OsString>,
    set: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// No variables.
    pub(super) const EMPTY: Self = Self { inherited: Vec::new(), set: BTreeMap::new() };

    pub(super) fn set(&mut self, key: OsString, value: OsString) {
        self.set.insert(key, value);
    }

    pub(super) fn inherit(&mut self, name: OsString) {
        self.inherited.push(name);
    }

    /// Returns the variables as of now, in the order of their names.
    pub(super) fn resolve(&self) -> BTreeMap<OsString, OsString> {
        let inherited = self.inherited.iter().filter_map(|name| {
            let value = env::var_os(name).filter(|value| !is_function(value))?;
            Some((name.clone(), value))
        });
        inherited.chain(self.set.clone()).collect()
    }
}

impl Default for Environment {
    fn default() -> Self {
        Self { inherited: INHERITED.iter().map(Into::into).collect(), set: BTreeMap::new() }
    }
}

/// Shows names only, because values may be secrets.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("inherited", &self.inherited)
            .field("set", &self.set.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// Returns whether `value` is an exported shell function: code that a shell behind the server would run.
fn is_function(value: &OsStr) -> bool {
    value.as_encoded_bytes().starts_with(b"()")
}

/// Variables that servers need to find programs, their home directory and the user's language.
///
/// This is the list of the official SDKs, with the temporary directory, the language and the time zone added.
#[cfg(not(windows))]
const INHERITED: &[&str] = &[
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
];

/// Variables that programs on Windows need to start, and to find the user's files.
#[cfg(windows)]
const INHERITED: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explicit_variables_override_the_allow_list() {
        let mut environment = Environment::default();
        environment.set("PATH".into(), "/nowhere".into());
        let resolved = environment.resolve();
        assert_eq!(resolved.get(OsStr::new("PATH")).unwrap(), "/nowhere");
        assert!(resolved.keys().all(|key| INHERITED.iter().any(|name| *key == **name)), "{resolved:?}");
        for (name, value) in env::vars_os().filter(|(_, value)| !is_function(value)) {
            environment.inherit(name.clone());
            assert!(name == "PATH" || environment.resolve().get(&name) == Some(&value));
        }
        assert!(is_function(OsStr::new("() { :; }")));
        assert!(Environment::EMPTY.resolve().is_empty());
    }

    #[test]
    fn environment_debug_hides_values() {
        let mut environment = Environment::EMPTY;
        environment.set("TOKEN".into(), "hunter2".into());
        let shown = format!("{environment:?}");
        assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
    }
}
