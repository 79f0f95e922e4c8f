//! A process and the group that it leads, on Unix
//!
//! Signals go to the group, by a number that the system may give away again as soon as nothing uses it. So
//! the leader is not reaped while a signal may still be needed: its exit is looked at with `WNOWAIT`, and the
//! zombie keeps the number ours. Only at the end is it reaped, to learn whether others of its group are left;
//! as long as there are, they keep the number, and they are looked at every few milliseconds.

use core::time::Duration;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Instant;

use rustix::process::{
    Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid, waitpid,
};

use super::Life;

/// A started process; dropping it kills its whole group
#[derive(Debug)]
pub(super) struct Process {
    pub(super) child: Child,
    /// Of the leader, and so of the group
    pid: Pid,
    state: State,
    /// When `SIGKILL` went to the whole group: from then on nobody in it runs any more or can start anything
    killed: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Running, or a zombie
    Unreaped,
    /// The leader is reaped, here or (`None`) by somebody else; others of its group may be left
    Reaped(Option<ExitStatus>),
    /// Nobody is left: no signal must be sent any more
    Gone(Option<ExitStatus>),
}

impl Process {
    pub(super) fn spawn(command: &mut Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        Ok(Self { child, pid, state: State::Unreaped, killed: None })
    }

    /// Looks whether the leader has ended, and leaves it unreaped
    pub(super) fn life(&mut self) -> Life {
        if let State::Unreaped = self.state { self.look() } else { Life::Ended(self.status()) }
    }

    /// Whether the leader has ended and nobody of its group is left; reaps the leader once it has ended
    pub(super) fn is_gone(&mut self) -> bool {
        if let State::Unreaped = self.state {
            self.state = match self.child.try_wait() {
                Ok(Some(status)) => State::Reaped(Some(status)),
                Ok(None) => return false,
                Err(_) => State::Reaped(None),
            };
        }
        if let State::Reaped(status) = self.state {
            // Where we stand in for `init` (process 1 of a container), orphans of the group are ours to reap.
            while let Ok(Some(_)) = waitpgid(self.pid, WaitOptions::NOHANG) {}
            // Not permitted means that whoever has this number is not ours, or beyond our reach. Killed ones
            // are not waited for: they may be stuck in the kernel, or stay on as zombies where process 1 does
            // not reap.
            let killed = self.killed.is_some_and(|at| at.elapsed() > LINGER);
            if killed || test_kill_process_group(self.pid).is_err() || self.only_zombies() {
                self.state = State::Gone(status);
            }
        }
        matches!(self.state, State::Gone(_))
    }

    /// Asks the whole group to end; false where there is no such thing
    pub(super) fn terminate(&mut self) -> bool {
        self.signal(Signal::TERM);
        true
    }

    /// Ends the whole group, now
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.killed.get_or_insert_with(Instant::now);
    }

    fn only_zombies(&self) -> bool {
        #[cfg(target_os = "linux")]
        return super::zombies::only_zombies(self.pid.as_raw_nonzero().get());
        #[cfg(not(target_os = "linux"))]
        return false;
    }

    fn status(&self) -> Option<ExitStatus> {
        match self.state {
            State::Unreaped => None,
            State::Reaped(status) | State::Gone(status) => status,
        }
    }

    fn signal(&mut self, signal: Signal) {
        if !matches!(self.state, State::Gone(_)) {
            // Fails only when nobody is left to get it, which is what was wanted.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    #[cfg(not(any(target_os = "openbsd", target_os = "netbsd", target_os = "redox")))]
    fn look(&mut self) -> Life {
        use std::os::unix::process::ExitStatusExt;

        use rustix::io::{Errno, retry_on_intr};
        use rustix::process::{WaitId, WaitIdOptions, waitid};

        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match retry_on_intr(|| waitid(WaitId::Pid(self.pid), options)) {
            Ok(Some(found)) => {
                let code = found.exit_status().map(|code| (code & 0xff) << 8);
                let signal =
                    found.terminating_signal().map(|signal| signal | (i32::from(found.dumped()) << 7));
                Life::Ended(code.or(signal).map(ExitStatus::from_raw))
            }
            // Somebody else reaped it (a program that ignores SIGCHLD, for one).
            Err(Errno::CHILD) => {
                self.state = State::Reaped(None);
                Life::Ended(None)
            }
            Ok(None) | Err(_) => Life::Running,
        }
    }

    /// Without `WNOWAIT`, looking is reaping; the number may then be given away a little earlier
    #[cfg(any(target_os = "openbsd", target_os = "netbsd", target_os = "redox"))]
    fn look(&mut self) -> Life {
        match self.child.try_wait() {
            Ok(None) => return Life::Running,
            Ok(status) => self.state = State::Reaped(status),
            Err(_) => self.state = State::Reaped(None),
        }
        Life::Ended(self.status())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let State::Gone(_) = self.state {
            return;
        }
        self.kill();
        let (started, mut pause) = (Instant::now(), Duration::from_micros(100));
        while !self.is_gone() {
            if started.elapsed() > PATIENCE {
                // Stuck in the kernel. A thread waits for it, so that it does not stay as a zombie.
                if let State::Unreaped = self.state {
                    let pid = self.pid;
                    let _ = thread::Builder::new()
                        .name("mcp-std reap".into())
                        .spawn(move || waitpid(Some(pid), WaitOptions::empty()));
                }
                return;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }
}

/// How long killed processes are given to disappear, once their leader has
const LINGER: Duration = Duration::from_millis(20);
/// How long a drop waits for a killed leader; usually it takes a millisecond
const PATIENCE: Duration = Duration::from_secs(1);
