//! A process, where there are no process groups
//!
//! What it started itself is out of reach here.

use core::time::Duration;
use std::io;
use std::process::{Child, Command};

use super::Life;

/// A started process; dropping it kills it
#[derive(Debug)]
pub(super) struct Process {
    pub(super) child: Child,
}

/// Nobody tells a process to end here
pub(super) fn end_all(_: Duration) {}

impl Process {
    pub(super) fn spawn(command: &mut Command) -> io::Result<Self> {
        #[cfg(windows)]
        {
            use std::os::windows::process::CommandExt;
            // No console window pops up for a server that a desktop program starts.
            const CREATE_NO_WINDOW: u32 = 0x0800_0000;
            command.creation_flags(CREATE_NO_WINDOW);
        }
        Ok(Self { child: command.spawn()? })
    }

    /// Looks whether it has ended
    pub(super) fn life(&mut self) -> Life {
        match self.child.try_wait() {
            Ok(None) => Life::Running,
            Ok(status) => Life::Ended(status),
            Err(_) => Life::Ended(None),
        }
    }

    /// Whether it has ended
    pub(super) fn is_gone(&mut self) -> bool {
        !matches!(self.life(), Life::Running)
    }

    /// Asks it to end; false, as there is no such thing here
    pub(super) fn terminate(&mut self) -> bool {
        false
    }

    /// Ends it, now
    pub(super) fn kill(&mut self) {
        // Fails when it has ended already, which is what was wanted.
        let _ = self.child.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_gone() {
            self.kill();
            let _ = self.child.wait();
        }
    }
}
