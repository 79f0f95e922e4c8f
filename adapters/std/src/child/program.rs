//! What to start, and how

use alloc::sync::Arc;
use core::fmt;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::environment::Environment;
use super::process::Process;
use super::{Child, SpawnError};

/// A server to start: program, arguments, environment, working directory
///
/// Never a shell: the program gets exactly these arguments, and no character in them means anything. What is
/// found in a configuration file is a command to run on this machine, so show it to the user first:
/// [`before_spawn`](Self::before_spawn).
///
/// ```no_run
/// use mcp_std::child::{Program, Stderr};
///
/// let server = Program::new("npx")
///     .args(["-y", "@modelcontextprotocol/server-everything"])
///     .env("LOG_LEVEL", "debug")
///     .stderr(Stderr::Capture);
/// let mut child = server.spawn()?;
/// # Ok::<(), mcp_std::child::SpawnError>(())
/// ```
pub struct Program {
    program: OsString,
    args: Vec<OsString>,
    environment: Environment,
    directory: Option<PathBuf>,
    stderr: Stderr,
    hook: Option<Box<Hook>>,
}

type Hook = dyn Fn(&Launch<'_>) -> io::Result<()> + Send + Sync;

impl Program {
    /// A server with no arguments, the default environment, our working directory, and our stderr
    ///
    /// A bare name is looked for on the `PATH` that the server will get. A relative path together with
    /// [`current_dir`](Self::current_dir) means different things on different systems: use an absolute one.
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

    /// Adds an argument
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item: Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable of the server, whether or not it is inherited
    #[must_use]
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.set(key.into(), value.into());
        self
    }

    /// Lets the server inherit more variables, by name, as they are when it is started
    ///
    /// By default it inherits an allow-list: on Unix HOME, LANG, LC_ALL, LC_CTYPE, LC_MESSAGES, LOGNAME,
    /// PATH, SHELL, TERM, TMPDIR, TZ, USER; on Windows APPDATA, COMSPEC, HOMEDRIVE, HOMEPATH, LOCALAPPDATA,
    /// PATH, PATHEXT, PROCESSOR_ARCHITECTURE, PROGRAMDATA, PROGRAMFILES, SYSTEMDRIVE, SYSTEMROOT, TEMP, TMP,
    /// USERNAME, USERPROFILE, WINDIR. Exported shell functions are never inherited.
    #[must_use]
    pub fn inherit_env(mut self, names: impl IntoIterator<Item: Into<OsString>>) -> Self {
        for name in names {
            self.environment.inherit(name.into());
        }
        self
    }

    /// Forgets the allow-list and everything set so far: only what is added after this is there
    #[must_use]
    pub fn clear_env(mut self) -> Self {
        self.environment = Environment::EMPTY;
        self
    }

    /// Starts the server in `directory`
    #[must_use]
    pub fn current_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Says where the server's stderr goes
    #[must_use]
    pub fn stderr(mut self, stderr: Stderr) -> Self {
        self.stderr = stderr;
        self
    }

    /// Shows `hook` exactly what is about to run, at each start; its error prevents it
    ///
    /// The place to ask for consent, or to write a log.
    #[must_use]
    pub fn before_spawn(
        mut self,
        hook: impl Fn(&Launch<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }

    /// The program, as it was given
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// Starts the server, on Unix as the leader of a process group of its own
    ///
    /// May be called again, for instance after a server has died. Its stdin and stdout are pipes:
    /// [`Child::take_io`]. In a group of its own, it does not get the Ctrl-C of our terminal: when we end
    /// by that, it is left with the end of its stdin, unless we [end it](super::end_all) before.
    ///
    /// # Errors
    ///
    /// [`SpawnError`]. Nothing is left running then.
    pub fn spawn(&self) -> Result<Child, SpawnError> {
        let environment: Vec<_> = self.environment.resolve().into_iter().collect();
        let directory = self.directory.as_deref();
        if let Some(hook) = &self.hook {
            let launch =
                Launch { program: &self.program, args: &self.args, environment: &environment, directory };
            hook(&launch).map_err(|error| SpawnError::refused(&self.program, error))?;
        }
        let from_os = |error| SpawnError::from_os(&self.program, directory, error);

        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().envs(environment);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(self.stderr.to_stdio().map_err(from_os)?);
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        let process = Process::spawn(&mut command).map_err(from_os)?;
        // From here on, an error drops the process, and with it the whole group.
        let lines = match &self.stderr {
            Stderr::Lines(lines) => Some(lines.clone()),
            _ => None,
        };
        Child::new(process, lines).map_err(from_os)
    }
}

/// Neither values of the environment nor the hook are shown
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

/// Where a server's stderr goes
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum Stderr {
    /// Where ours goes
    #[default]
    Inherit,
    /// To us: the last 8 KiB are kept for [`Child::last_words`], the rest is read and forgotten
    ///
    /// On Unix it is read whenever somebody waits on the server's [`ChildIo`](super::ChildIo), in that same
    /// wait, so a flood of it cannot block a server that we wait for, nor us; no thread is needed. A server
    /// that floods stderr while nobody waits stands still until somebody does. Elsewhere a thread reads it.
    Capture,
    /// As [`Capture`](Self::Capture), and each line is handed over when it is read
    Lines(StderrLines),
    /// Nowhere
    Null,
    /// To this file, pipe or terminal (any owned handle turns into a `File`)
    File(File),
}

impl Stderr {
    /// Captures, and hands each line to `show` when it is read, without its line break
    ///
    /// Bytes that are no UTF-8 are U+FFFD in it; control characters are left in: escape them before showing them. What
    /// is longer than 4 KiB comes in pieces.
    #[must_use]
    pub fn lines(show: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self::Lines(StderrLines(Arc::new(show)))
    }

    /// Hands over any owned handle: a file, the writing end of a pipe, a terminal, a socket
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

/// Who gets the lines of a server's stderr; made by [`Stderr::lines`]
#[derive(Clone)]
pub struct StderrLines(pub(super) Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for StderrLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StderrLines")
    }
}

/// What is about to run, as a [`before_spawn`](Program::before_spawn) hook sees it
///
/// `Display` prints program and arguments on one line, each quoted, with control characters escaped.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    program: &'a OsStr,
    args: &'a [OsString],
    environment: &'a [(OsString, OsString)],
    directory: Option<&'a Path>,
}

impl<'a> Launch<'a> {
    /// The program, then its arguments, exactly as it gets them
    pub fn argv(&self) -> impl Iterator<Item = &'a OsStr> {
        core::iter::once(self.program).chain(self.args.iter().map(OsString::as_os_str))
    }

    /// Every environment variable that it gets; values may be secrets
    pub fn environment(&self) -> impl Iterator<Item = (&'a OsStr, &'a OsStr)> {
        self.environment.iter().map(|(key, value)| (key.as_os_str(), value.as_os_str()))
    }

    /// Its working directory; `None` means ours
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

/// As `Display`: the environment's values are not shown
impl fmt::Debug for Launch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Launch({self})")
    }
}
