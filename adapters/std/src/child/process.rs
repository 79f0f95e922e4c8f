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
use std::sync::{Mutex, MutexGuard, PoisonError};
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

/// The groups that are not known to be gone, of the whole process
static GROUPS: Mutex<Groups> = Mutex::new(Groups { leaders: Vec::new(), closed: false });

struct Groups {
    leaders: Vec<Pid>,
    /// No more are to be started
    closed: bool,
}

/// Held where a number may be given back: nobody else sends a signal to it then
fn groups() -> MutexGuard<'static, Groups> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// See [`end_all`](super::end_all)
pub(super) fn end_all(patience: Duration) {
    let begun = Instant::now();
    let mut groups = groups();
    groups.closed = true;
    for leader in &groups.leaders {
        let _ = kill_process_group(*leader, Signal::TERM);
    }
    let mut pause = Duration::from_millis(1);
    // Whoever owns one may be waiting for something else, and then leaves it as a zombie.
    while groups.leaders.iter().any(|leader| is_alive(*leader)) && begun.elapsed() < patience {
        drop(groups);
        thread::sleep(pause.min(patience.saturating_sub(begun.elapsed())));
        pause = (pause * 2).min(Duration::from_millis(32));
        groups = self::groups();
    }
    for leader in &groups.leaders {
        let _ = kill_process_group(*leader, Signal::KILL);
    }
}

/// Whether anybody of the group may still run
fn is_alive(leader: Pid) -> bool {
    test_kill_process_group(leader).is_ok() && !only_zombies(leader)
}

fn only_zombies(leader: Pid) -> bool {
    #[cfg(target_os = "linux")]
    return super::zombies::only_zombies(leader.as_raw_nonzero().get());
    #[cfg(not(target_os = "linux"))]
    {
        let _ = leader;
        false
    }
}

impl Process {
    pub(super) fn spawn(command: &mut Command) -> io::Result<Self> {
        let mut groups = groups();
        if groups.closed {
            return Err(io::Error::other("this process is about to end"));
        }
        let child = command.process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        groups.leaders.push(pid);
        drop(groups);
        Ok(Self { child, pid, state: State::Unreaped, killed: None })
    }

    /// Looks whether the leader has ended, and leaves it unreaped
    pub(super) fn life(&mut self) -> Life {
        if let State::Unreaped = self.state { self.look() } else { Life::Ended(self.status()) }
    }

    /// Whether the leader has ended and nobody of its group is left; reaps the leader once it has ended
    pub(super) fn is_gone(&mut self) -> bool {
        if let State::Gone(_) = self.state {
            return true;
        }
        let mut groups = groups();
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
            if killed || !is_alive(self.pid) {
                self.state = State::Gone(status);
                groups.leaders.retain(|leader| *leader != self.pid);
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
                groups().leaders.retain(|leader| *leader != self.pid);
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
