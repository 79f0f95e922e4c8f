//! A process, on systems with neither process groups nor jobs.
//!
//! Processes that it starts itself are not reached.

use core::time::Duration;
use std::io;
use std::process::{Child, Command};

use super::ProcessStatus;

/// A started process; dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) child: Child,
}

/// Does nothing, as this system has no termination signals.
pub(super) fn terminate_all(_: Duration) {}

impl Process {
    pub(super) fn spawn(command: &mut Command) -> io::Result<Self> {
        Ok(Self { child: command.spawn()? })
    }

    /// Returns whether the process has exited.
    pub(super) fn status(&mut self) -> ProcessStatus {
        ProcessStatus::of(&mut self.child)
    }

    /// Returns whether the process has exited.
    pub(super) fn is_gone(&mut self) -> bool {
        !matches!(self.status(), ProcessStatus::Running)
    }

    /// Returns `false`: this system has no termination signals.
    pub(super) fn terminate(&mut self) -> bool {
        false
    }

    /// Kills the process.
    pub(super) fn kill(&mut self) {
        // Fails if the process has already exited, which is the goal.
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
