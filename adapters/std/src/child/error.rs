//! Why a server could not be started

use core::fmt;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::Path;

/// A server process could not be started
///
/// `Display` names the program, says what happened, and what to do about it.
#[derive(Debug)]
pub struct SpawnError {
    program: String,
    kind: SpawnErrorKind,
    directory: Option<String>,
    source: io::Error,
}

/// What kept a server from starting
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnErrorKind {
    /// The operating system said no in some other way; the source has it
    Other,
    /// The working directory is not there, or is no directory
    Directory,
    /// The program is there, but cannot be run on this machine
    NotExecutable,
    /// There is no such program
    NotFound,
    /// The file is no program, or we may not run it
    NotPermitted,
    /// The hook given to [`before_spawn`](super::Program::before_spawn) said no
    Refused,
}

impl SpawnError {
    /// What kept it from starting
    #[must_use]
    pub fn kind(&self) -> SpawnErrorKind {
        self.kind
    }

    /// The program, as it was given
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    pub(super) fn refused(program: &OsStr, source: io::Error) -> Self {
        Self::new(program, SpawnErrorKind::Refused, None, source)
    }

    /// Finds out what an error of the operating system was about
    pub(super) fn from_os(program: &OsStr, directory: Option<&Path>, source: io::Error) -> Self {
        // The same errors stand for the program, its directory and its interpreter; a second look tells them
        // apart.
        if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
            return Self::new(program, SpawnErrorKind::Directory, Some(directory), source);
        }
        let kind = match source.kind() {
            ErrorKind::NotFound if is_file(program) => SpawnErrorKind::NotExecutable,
            ErrorKind::NotFound => SpawnErrorKind::NotFound,
            ErrorKind::PermissionDenied => SpawnErrorKind::NotPermitted,
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
        // `{:?}` escapes control characters: a program's name may come from a configuration file of somebody
        // else.
        write!(f, "cannot start {:?}: ", self.program)?;
        match self.kind {
            SpawnErrorKind::Other => write!(f, "{}", self.source),
            SpawnErrorKind::Directory => write!(
                f,
                "its working directory {:?} is not there or is no directory; create it or name another",
                self.directory.as_deref().unwrap_or_default()
            ),
            SpawnErrorKind::NotExecutable => f.write_str(
                "the file is there but cannot run here; was it built for this kind of machine, and if it is a \
                 script, is the interpreter of its first line (#!) installed?",
            ),
            SpawnErrorKind::NotFound if cfg!(windows) => f.write_str(
                "no such program; is it installed and on PATH? Scripts need their full name, such as npx.cmd",
            ),
            SpawnErrorKind::NotFound => {
                f.write_str("no such program; is it installed and on PATH? Otherwise give its full path")
            }
            SpawnErrorKind::NotPermitted => f.write_str(
                "not permitted; is it a program (not a directory), may you run it (chmod +x), and enter its \
                 working directory?",
            ),
            SpawnErrorKind::Refused => write!(f, "refused before the start: {}", self.source),
        }
    }
}

impl core::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self.kind {
            // These two show it in their own text.
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

/// Whether `program` names a file by its path (a bare name is looked for on `PATH` instead)
fn is_file(program: &OsStr) -> bool {
    let path = Path::new(program);
    path.components().count() > 1 && path.is_file()
}

/// "exec format error", which the standard library has no name for
fn is_format_error(error: &io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error());
    // ERROR_BAD_EXE_FORMAT
    #[cfg(not(unix))]
    return cfg!(windows) && error.raw_os_error() == Some(193);
}
