//! A command with all processes that it starts.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::{io, mem};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::task::{self, JoinHandle};

/// Longest line in bytes; longer ones are split.
const MAX_LINE: usize = 4096;

/// A running command, as the leader of a process group. Dropping it kills the group.
pub struct ProcessGroup {
    leader: Child,
    id: Pid,
    /// Ends with the leader, which it does not reap.
    exit: JoinHandle<()>,
    is_killed: bool,
}

impl ProcessGroup {
    /// Starts a command. Its stdout and stderr are one pipe, so that their lines keep their order.
    pub fn spawn(command: &[String], directory: &Path) -> io::Result<(Self, Lines)> {
        let (reader, writer) = io::pipe()?;
        let leader = Command::new(&command[0])
            .args(&command[1..])
            .current_dir(directory)
            // The stdin of a server on stdio belongs to its client.
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0)
            .spawn()?;
        let id = leader.id().and_then(|id| Pid::from_raw(id.cast_signed())).ok_or(io::ErrorKind::NotFound)?;
        // Not reaped, the leader keeps the id of the group in use: no signal can reach a stranger.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let exit = task::spawn_blocking(move || _ = retry_on_intr(|| waitid(WaitId::Pid(id), options)));
        let lines = Lines { pipe: pipe::Receiver::from_owned_fd(reader.into())?, buffer: Vec::new() };
        Ok((Self { leader, id, exit, is_killed: false }, lines))
    }

    /// Waits for the end of the leader, and kills the processes that it leaves behind. It is cancel safe.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        if !self.is_killed {
            (&mut self.exit).await.map_err(io::Error::other)?;
            self.kill();
        }
        self.leader.wait().await
    }

    fn kill(&mut self) {
        if !mem::replace(&mut self.is_killed, true) {
            // Fails only if no process is left, which is the goal.
            let _ = kill_process_group(self.id, Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The output of a command.
pub struct Lines {
    pipe: pipe::Receiver,
    buffer: Vec<u8>,
}

impl Lines {
    /// Returns the next line, or `None` at the end. It is cancel safe: no output is lost.
    pub async fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            let end = self.buffer.iter().take(MAX_LINE).position(|byte| *byte == b'\n').map(|at| at + 1);
            if let Some(end) = end.or((self.buffer.len() >= MAX_LINE).then_some(MAX_LINE)) {
                return Ok(Some(self.take(end)));
            }
            self.buffer.reserve(MAX_LINE);
            if self.pipe.read_buf(&mut self.buffer).await? == 0 {
                let rest = self.buffer.len();
                return Ok((rest > 0).then(|| self.take(rest)));
            }
        }
    }

    /// Removes bytes from the front. Bytes that are not UTF-8 are replaced.
    fn take(&mut self, length: usize) -> String {
        let line: Vec<u8> = self.buffer.drain(..length).collect();
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }
}
