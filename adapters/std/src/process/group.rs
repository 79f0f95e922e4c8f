//! A process and the group that it leads, on Unix.
//!
//! Signals are sent to the group by its id, which the system may reuse as soon as no process has it. So the leader is
//! not reaped while a signal may still be needed: `WNOWAIT` reads its exit status, and the zombie keeps the id in
//! use. It is reaped only at the end, to learn whether other processes of the group are left. These keep the id in
//! use, and are checked every few milliseconds.

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

use super::ProcessStatus;
use super::guard::Guard;

/// A started process; dropping it kills its whole group.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) child: Child,
    /// Process id of the leader, which is also the id of the group.
    pid: Pid,
    state: State,
    /// Time at which `SIGKILL` was sent to the whole group; since then no process in it runs or starts another.
    killed_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The leader is running or a zombie.
    Unreaped,
    /// The leader was reaped, here or (`None`) elsewhere; other processes of the group may be left.
    Reaped(Option<ExitStatus>),
    /// No process is left, so no signal may be sent any more.
    Gone(Option<ExitStatus>),
}

/// The groups of this process that are not known to be gone.
static GROUPS: Mutex<Groups> = Mutex::new(Groups { leaders: Vec::new(), closed: false, guard: Guard(None) });

struct Groups {
    leaders: Vec<Pid>,
    /// Whether no more processes may be started.
    closed: bool,
    /// Ends the groups after this process.
    guard: Guard,
}

impl Groups {
    fn enter(&mut self, leader: Pid) {
        self.leaders.push(leader);
        self.guard.enter(&self.leaders);
    }

    fn leave(&mut self, leader: Pid) {
        self.leaders.retain(|other| *other != leader);
        self.guard.leave(leader);
    }
}

/// Locks the groups. The lock is held wherever an id may be released, so that no signal is sent to it meanwhile.
fn groups() -> MutexGuard<'static, Groups> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// See [`terminate_all`](super::terminate_all).
pub(super) fn terminate_all(timeout: Duration) {
    let started = Instant::now();
    let mut groups = groups();
    // Under the lock under which processes are started: none begins after the signals.
    groups.closed = true;
    for leader in &groups.leaders {
        // It fails if the group is gone.
        let _ = kill_process_group(*leader, Signal::TERM);
    }
    let mut pause = Duration::from_millis(1);
    // The owner of a process may be busy and leave it as a zombie, so zombies do not count.
    while groups.leaders.iter().any(|leader| is_alive(*leader)) && started.elapsed() < timeout {
        drop(groups);
        thread::sleep(pause.min(timeout.saturating_sub(started.elapsed())));
        pause = (pause * 2).min(Duration::from_millis(32));
        groups = self::groups();
    }
    for leader in &groups.leaders {
        let _ = kill_process_group(*leader, Signal::KILL);
    }
}

/// Returns whether a process of the group may still be running.
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
        // Held until the leader is entered, so that `terminate_all` does not miss it.
        let mut groups = groups();
        if groups.closed {
            return Err(io::Error::other("no process can be started after `terminate_all`"));
        }
        let child = command.process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        groups.enter(pid);
        drop(groups);
        Ok(Self { child, pid, state: State::Unreaped, killed_at: None })
    }

    /// Returns whether the leader has exited, without reaping it.
    pub(super) fn status(&mut self) -> ProcessStatus {
        if let State::Unreaped = self.state {
            self.peek_status()
        } else {
            ProcessStatus::Exited(self.exit_status())
        }
    }

    /// Returns whether no process of the group is left; reaps the leader once it has exited.
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
            // As process 1 of a container this process must also reap the orphans of the group.
            while let Ok(Some(_)) = waitpgid(self.pid, WaitOptions::NOHANG) {}
            // "Not permitted" means that the id is now used by a foreign process, or one out of reach. Killed processes
            // are not waited for: they may be stuck in the kernel, or stay zombies if process 1 does not reap.
            let killed = self.killed_at.is_some_and(|at| at.elapsed() > KILLED_GRACE);
            if killed || !is_alive(self.pid) {
                self.state = State::Gone(status);
                groups.leave(self.pid);
            }
        }
        matches!(self.state, State::Gone(_))
    }

    /// Sends `SIGTERM` to the whole group; returns `false` on systems without signals.
    pub(super) fn terminate(&mut self) -> bool {
        self.signal(Signal::TERM);
        true
    }

    /// Sends `SIGKILL` to the whole group.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.killed_at.get_or_insert_with(Instant::now);
    }

    fn exit_status(&self) -> Option<ExitStatus> {
        match self.state {
            State::Unreaped => None,
            State::Reaped(status) | State::Gone(status) => status,
        }
    }

    fn signal(&mut self, signal: Signal) {
        if !matches!(self.state, State::Gone(_)) {
            // Fails only if no process is left, which is the goal.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    #[cfg(not(any(target_os = "openbsd", target_os = "netbsd", target_os = "redox")))]
    fn peek_status(&mut self) -> ProcessStatus {
        use std::os::unix::process::ExitStatusExt;

        use rustix::io::{Errno, retry_on_intr};
        use rustix::process::{WaitId, WaitIdOptions, waitid};

        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match retry_on_intr(|| waitid(WaitId::Pid(self.pid), options)) {
            Ok(Some(found)) => {
                let code = found.exit_status().map(|code| (code & 0xff) << 8);
                let signal =
                    found.terminating_signal().map(|signal| signal | (i32::from(found.dumped()) << 7));
                ProcessStatus::Exited(code.or(signal).map(ExitStatus::from_raw))
            }
            // Reaped elsewhere, for example because the program ignores `SIGCHLD`.
            Err(Errno::CHILD) => {
                self.state = State::Reaped(None);
                ProcessStatus::Exited(None)
            }
            Ok(None) | Err(_) => ProcessStatus::Running,
        }
    }

    /// Without `WNOWAIT` the check itself reaps, so the id may be reused a little earlier.
    #[cfg(any(target_os = "openbsd", target_os = "netbsd", target_os = "redox"))]
    fn peek_status(&mut self) -> ProcessStatus {
        match self.child.try_wait() {
            Ok(None) => return ProcessStatus::Running,
            Ok(status) => self.state = State::Reaped(status),
            Err(_) => self.state = State::Reaped(None),
        }
        ProcessStatus::Exited(self.exit_status())
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
            if started.elapsed() > DROP_TIMEOUT {
                groups().leave(self.pid);
                // Stuck in the kernel. A thread waits for it, so that it does not stay a zombie.
                if let State::Unreaped = self.state {
                    let pid = self.pid;
                    // Without a thread it stays a zombie until this process ends.
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

/// Time for killed processes to disappear after their leader has.
const KILLED_GRACE: Duration = Duration::from_millis(20);
/// Longest wait of a drop for a killed leader; it usually takes a millisecond.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);
