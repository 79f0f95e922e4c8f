//! Errors of starting a server process.

use core::fmt;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Error of starting a server process.
///
/// `Display` names the program, what happened, and what to do.
#[derive(Debug)]
pub struct SpawnError {
    program: String,
    kind: SpawnErrorKind,
    directory: Option<String>,
    source: io::Error,
}

/// Reason why a server process did not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnErrorKind {
    /// Another error of the operating system, which is the source.
    Other,
    /// The working directory does not exist or is not a directory.
    Directory,
    /// The program exists but cannot run on this machine.
    NotExecutable,
    /// The program was not found.
    NotFound,
    /// The file is not a program, or this process may not run it.
    NotPermitted,
    /// The program is a batch file (Windows), and an argument could not be passed to it unchanged: the shell that runs it
    /// would take a part of it for a command.
    UnsafeArgument,
    /// The hook given to [`before_spawn`](super::Program::before_spawn) refused the start.
    Refused,
}

impl SpawnError {
    /// Returns the reason.
    #[must_use]
    pub fn kind(&self) -> SpawnErrorKind {
        self.kind
    }

    /// Returns the program as it was given.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    pub(super) fn refused(program: &OsStr, source: io::Error) -> Self {
        Self::new(program, SpawnErrorKind::Refused, None, source)
    }

    /// Creates the error and finds its kind.
    ///
    /// `file` is what was started in place of `program`.
    pub(super) fn from_os(
        program: &OsStr,
        file: &OsStr,
        directory: Option<&Path>,
        source: io::Error,
    ) -> Self {
        // The same error codes stand for the program, its directory and its interpreter; the file system tells which.
        if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
            return Self::new(program, SpawnErrorKind::Directory, Some(directory), source);
        }
        let kind = match source.kind() {
            ErrorKind::NotFound if is_file(file) => SpawnErrorKind::NotExecutable,
            ErrorKind::NotFound => SpawnErrorKind::NotFound,
            ErrorKind::PermissionDenied => SpawnErrorKind::NotPermitted,
            #[cfg(windows)]
            ErrorKind::InvalidInput if super::search::is_batch_file(Path::new(file)) => {
                SpawnErrorKind::UnsafeArgument
            }
            _ if is_format_error(&source) => SpawnErrorKind::NotExecutable,
            _ => SpawnErrorKind::Other,
        };
        Self::new(program, kind, None, source)
    }

    fn new(program: &OsStr, kind: SpawnErrorKind, directory: Option<&Path>, source: io::Error) -> Self {
        let directory = directory.map(|directory| directory.display().to_string());
        Self { program: program.to_string_lossy().into_owned(), kind, directory, source }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `{:?}` escapes control characters, as the name may come from an untrusted configuration file.
        write!(f, "cannot start {:?}: ", self.program)?;
        match self.kind {
            SpawnErrorKind::Other => write!(f, "{}", self.source),
            SpawnErrorKind::Directory => write!(
                f,
                "its working directory {:?} does not exist or is not a directory; create it or choose another",
                self.directory.as_deref().unwrap_or_default()
            ),
            SpawnErrorKind::NotExecutable => f.write_str(
                "the file exists but cannot run here; was it built for this kind of machine? If it is a \
                 script, is the interpreter in its first line (#!) installed?",
            ),
            SpawnErrorKind::NotFound => {
                f.write_str("no such program; is it installed and on PATH? Otherwise give its full path")
            }
            SpawnErrorKind::NotPermitted => f.write_str(
                "permission denied; is it a program and not a directory, is it executable (chmod +x), and can you enter \
                 its working directory?",
            ),
            SpawnErrorKind::UnsafeArgument => f.write_str(
                "it is a batch file, and an argument has characters that its shell could take for a command; start the \
                 program behind it instead, for example node with the path of its script",
            ),
            SpawnErrorKind::Refused => write!(f, "refused by the before_spawn hook: {}", self.source),
        }
    }
}

impl core::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self.kind {
            // `Display` already contains these two sources.
            SpawnErrorKind::Other | SpawnErrorKind::Refused => None,
            _ => Some(&self.source),
        }
    }
}

impl From<SpawnError> for io::Error {
    fn from(error: SpawnError) -> Self {
        Self::new(error.source.kind(), error)
    }
}

/// Returns whether `program` is the path of a file; a bare name is searched on `PATH` instead.
fn is_file(program: &OsStr) -> bool {
    let path = Path::new(program);
    path.components().count() > 1 && path.is_file()
}

/// Returns whether `error` is "exec format error", which the standard library does not name.
fn is_format_error(error: &io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error());
    // ERROR_BAD_EXE_FORMAT
    #[cfg(not(unix))]
    return cfg!(windows) && error.raw_os_error() == Some(193);
}
