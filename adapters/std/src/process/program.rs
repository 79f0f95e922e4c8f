//! Description and start of a server process.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, io};

use super::group::Process;
use super::{Child, SpawnError};

/// A server to start: program, arguments, environment, working directory.
///
/// No shell is involved: the program gets exactly these arguments, and no character in them is special. A command
/// from a configuration file runs on this machine, so show it to the user first:
/// [`before_spawn`](Self::before_spawn).
///
/// ```no_run
/// use mcp_std::process::{Program, Stderr};
///
/// let server = Program::new("npx")
///     .args(["-y", "@modelcontextprotocol/server-everything"])
///     .env("LOG_LEVEL", "debug")
///     .stderr(Stderr::Capture);
/// let mut child = server.spawn()?;
/// # Ok::<(), mcp_std::process::SpawnError>(())
/// ```
pub struct Program {
    program: OsString,
    args: Vec<OsString>,
    environment: Environment,
    directory: Option<PathBuf>,
    stderr: Stderr,
    hook: Option<Box<SpawnHook>>,
}

type SpawnHook = dyn Fn(&Launch<'_>) -> io::Result<()> + Send + Sync;

impl Program {
    /// Creates a server without arguments, with the default environment, and with the working directory and stderr of
    /// this process.
    ///
    /// A bare name is searched on the `PATH` that the server will get. Systems resolve a relative path together with
    /// [`current_dir`](Self::current_dir) differently: use an absolute one.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            environment: Environment::default(),
            directory: None,
            stderr: Stderr::Inherit,
            hook: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item: Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable of the server, whether or not it is inherited.
    #[must_use]
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.set(key.into(), value.into());
        self
    }

    /// Adds names to the variables that the server inherits; their values are read at the start.
    ///
    /// The default allow-list on Unix is HOME, LANG, LC_ALL, LC_CTYPE, LC_MESSAGES, LOGNAME, PATH, SHELL, TERM,
    /// TMPDIR, TZ, USER. On Windows it is APPDATA, COMSPEC, HOMEDRIVE, HOMEPATH, LOCALAPPDATA, PATH, PATHEXT,
    /// PROCESSOR_ARCHITECTURE, PROGRAMDATA, PROGRAMFILES, SYSTEMDRIVE, SYSTEMROOT, TEMP, TMP, USERNAME, USERPROFILE,
    /// WINDIR. Exported shell functions are never inherited.
    #[must_use]
    pub fn inherit_env(mut self, names: impl IntoIterator<Item: Into<OsString>>) -> Self {
        for name in names {
            self.environment.inherit(name.into());
        }
        self
    }

    /// Removes the allow-list and all variables set so far; only later additions remain.
    #[must_use]
    pub fn clear_env(mut self) -> Self {
        self.environment = Environment::EMPTY;
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn current_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Sets where the server's stderr goes.
    #[must_use]
    pub fn stderr(mut self, stderr: Stderr) -> Self {
        self.stderr = stderr;
        self
    }

    /// Calls `hook` with the exact command before each start; an error of the hook prevents the start.
    ///
    /// Use it to ask for consent, or to write a log.
    #[must_use]
    pub fn before_spawn(
        mut self,
        hook: impl Fn(&Launch<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }

    /// Returns the program as it was given.
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// Returns the program and its arguments as they were given.
    pub fn argv(&self) -> impl Iterator<Item = &OsStr> {
        core::iter::once(&*self.program).chain(self.args.iter().map(|arg| &**arg))
    }

    /// Returns the working directory, unless it is that of this process.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Returns the variables that the server would get if it were started now: those that are set and those that are inherited.
    ///
    /// With [`clear_env`](Self::clear_env) and these, it can be started as from here by a process with another environment.
    #[must_use]
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        self.environment.resolve().into_iter().collect()
    }

    /// Starts the server, on Unix as the leader of its own process group.
    ///
    /// It may be called again, for example after a server has exited. Stdin and stdout are pipes:
    /// [`Child::take_io`]. Because of its own group, the server does not get the Ctrl-C of the terminal. If that ends
    /// this process, the server only sees the end of its stdin, unless [`terminate_all`](super::terminate_all) runs
    /// before.
    ///
    /// # Errors
    ///
    /// [`SpawnError`]; no process is left running then.
    pub fn spawn(&self) -> Result<Child, SpawnError> {
        let environment = self.environment();
        let directory = self.directory.as_deref();
        if let Some(hook) = &self.hook {
            let launch =
                Launch { program: &self.program, args: &self.args, environment: &environment, directory };
            hook(&launch).map_err(|error| SpawnError::refused(&self.program, error))?;
        }
        let file = self.file(&environment);
        let from_os = |error| SpawnError::from_os(&self.program, &file, directory, error);

        let mut command = Command::new(&file);
        command.args(&self.args).env_clear().envs(environment);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(self.stderr.to_stdio().map_err(from_os)?);
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        let process = Process::spawn(&mut command).map_err(from_os)?;
        // From here on an error drops the process, which kills its whole group.
        let lines = match &self.stderr {
            Stderr::Lines(lines) => Some(lines.clone()),
            _ => None,
        };
        Child::new(process, lines).map_err(from_os)
    }

    /// Returns the file to start.
    #[cfg(windows)]
    fn file(&self, environment: &[(OsString, OsString)]) -> OsString {
        use std::path::PathBuf;

        let variable = |name: &str| {
            let mut all = environment.iter();
            all.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        let path = variable("PATH").map(env::split_paths).into_iter().flatten();
        // An empty entry would be the working directory.
        let path: Vec<PathBuf> = path.filter(|entry| !entry.as_os_str().is_empty()).collect();
        let search = super::search::Search {
            path: &path,
            extensions: variable("PATHEXT").and_then(|value| value.to_str()),
            directory: self.directory.as_deref().unwrap_or(Path::new("")),
            is_file: &|path| path.is_file(),
        };
        // Otherwise the system looks for it, in its own directories, too.
        search.find(&self.program).map_or_else(|| self.program.clone(), OsString::from)
    }

    /// Returns the file to start: the system searches `PATH`.
    #[cfg(not(windows))]
    fn file(&self, _environment: &[(OsString, OsString)]) -> OsString {
        self.program.clone()
    }
}

/// Omits values of the environment, and the hook.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("environment", &self.environment)
            .field("directory", &self.directory)
            .field("stderr", &self.stderr)
            .finish_non_exhaustive()
    }
}

/// Destination of a server's stderr.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum Stderr {
    /// The stderr of this process.
    #[default]
    Inherit,
    /// A buffer in this process: the last 8 KiB are kept for [`Child::stderr_tail`], the rest is discarded.
    ///
    /// On Unix it is read during each wait for the server's [`ChildIo`](super::ChildIo), without a thread. A flood
    /// of stderr therefore blocks neither the server nor this process. A server that floods stderr while no wait is
    /// running stops until the next one. On other systems a thread reads it.
    Capture,
    /// The same as [`Capture`](Self::Capture), and each line is passed to the handler when it is read.
    Lines(StderrLineHandler),
    /// Discarded.
    Null,
    /// This file, pipe or terminal; any owned handle converts into a `File`.
    File(File),
}

impl Stderr {
    /// Captures stderr, and calls `show` with each line when it is read, without its line break.
    ///
    /// Invalid UTF-8 becomes U+FFFD. Control characters are kept: escape them before showing the line. Lines longer
    /// than 4 KiB are delivered in pieces.
    #[must_use]
    pub fn lines(show: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self::Lines(StderrLineHandler(Arc::new(show)))
    }

    /// Sends stderr to any owned handle: a file, the writing end of a pipe, a terminal, a socket.
    #[cfg(unix)]
    #[must_use]
    pub fn handle(handle: impl Into<std::os::fd::OwnedFd>) -> Self {
        Self::File(handle.into().into())
    }

    fn to_stdio(&self) -> io::Result<Stdio> {
        Ok(match self {
            Self::Inherit => Stdio::inherit(),
            Self::Capture | Self::Lines(_) => Stdio::piped(),
            Self::Null => Stdio::null(),
            Self::File(file) => file.try_clone()?.into(),
        })
    }
}

/// Receiver of the lines of a server's stderr; created by [`Stderr::lines`].
#[derive(Clone)]
pub struct StderrLineHandler(pub(super) Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for StderrLineHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StderrLineHandler")
    }
}

/// The command that is about to run, as a [`before_spawn`](Program::before_spawn) hook sees it.
///
/// `Display` prints the program and its arguments on one line, each quoted, with control characters escaped.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    program: &'a OsStr,
    args: &'a [OsString],
    environment: &'a [(OsString, OsString)],
    directory: Option<&'a Path>,
}

impl<'a> Launch<'a> {
    /// Returns the program and then its arguments, exactly as the process gets them.
    pub fn argv(&self) -> impl Iterator<Item = &'a OsStr> {
        core::iter::once(self.program).chain(self.args.iter().map(OsString::as_os_str))
    }

    /// Returns all environment variables of the process; values may be secrets.
    pub fn environment(&self) -> impl Iterator<Item = (&'a OsStr, &'a OsStr)> {
        self.environment.iter().map(|(key, value)| (key.as_os_str(), value.as_os_str()))
    }

    /// Returns the working directory; `None` means that of this process.
    #[must_use]
    pub fn directory(&self) -> Option<&'a Path> {
        self.directory
    }
}

impl fmt::Display for Launch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in self.argv().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{word:?}")?;
        }
        Ok(())
    }
}

/// Prints the same as `Display`, without the environment.
impl fmt::Debug for Launch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Launch({self})")
    }
}

// Environment variables of a server.

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
