//! The one background process of a user: how it takes its place, and whether it still has it.

use core::time::Duration;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, process, thread};

use mcp_std::durable_file::FileLock;

use super::control::CONTROL_SOCKET;
use crate::connections;
use crate::stop::StopSignal;

/// The lock and the control socket, which one process has at a time.
pub(super) struct Begun {
    pub(super) lock: FileLock,
    pub(super) listener: UnixListener,
    pub(super) control: ControlFile,
    pub(super) signal: StopSignal,
}

/// The file of the control socket, as it was made.
pub(super) struct ControlFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl ControlFile {
    fn new(path: PathBuf) -> Self {
        let identity = Self::identity(&path);
        Self { path, identity }
    }

    fn identity(path: &Path) -> Option<(u64, u64)> {
        fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
    }

    /// Returns whether requests still come here: the folder may have been removed, and made again by another process.
    pub(super) fn is_there(&self) -> bool {
        Self::identity(&self.path) == self.identity
    }

    pub(super) fn remove(&self) {
        if self.is_there() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Takes the place of the one background process; `None` if another one has it.
pub(super) fn begin() -> io::Result<Option<Begun>> {
    let folder = connections::folder();
    let control = folder.join(CONTROL_SOCKET);
    let begun = Instant::now();
    let lock = loop {
        match FileLock::try_new(&folder.join(LOCK_FILE))? {
            Some(lock) => break lock,
            None if UnixStream::connect(&control).is_ok() => return Ok(None),
            // It has just begun, or is about to end.
            None if begun.elapsed() < LOCK_TIMEOUT => thread::sleep(Duration::from_millis(20)),
            None => {
                return Err(io::Error::new(ErrorKind::TimedOut, "another one takes no requests"));
            }
        }
    };
    // The hint about a process that does not answer names it.
    fs::write(folder.join(LOCK_FILE), process::id().to_string())?;
    // Sockets of a process that was killed.
    for file in fs::read_dir(&folder)?.flatten() {
        let path = file.path();
        if path == control || path.extension().is_some_and(|ending| ending == "sock") {
            fs::remove_file(path)?;
        }
    }
    let listener = UnixListener::bind(&control)?;
    listener.set_nonblocking(true)?;
    let control = ControlFile::new(control);
    Ok(Some(Begun { lock, listener, control, signal: StopSignal::new()? }))
}

/// Tells the process that started this one that requests are taken, and lets go of it.
pub(super) fn say_ready() {
    let mut stdout = io::stdout();
    let _ = stdout.write_all(READY.as_bytes()).and_then(|()| stdout.flush());
    if let Ok(null) = fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

/// What the process writes to stdout as soon as it accepts requests.
pub(super) const READY: &str = "ready";
/// File whose lock the process has, with its id.
pub(super) const LOCK_FILE: &str = ".lock";
/// Time in which a process that begins or ends gives way.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
