//! A process and its job, on Windows. Processes that it starts itself are in the job.
//!
//! The process is created suspended and runs once it is in the job, so that it can start none outside of it. This process
//! alone has the handle of the job: if it ends, however it ends, the system kills all processes of the job.

use core::time::Duration;
use std::io;
use std::os::windows::process::CommandExt;
use std::process::{Child, Command};

use windows_sys::Win32::System::Threading::{CREATE_NO_WINDOW, CREATE_SUSPENDED};

use super::ProcessStatus;
use super::job::{Job, resume};

/// A started process; dropping it kills it and all processes of its job.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) child: Child,
    job: Job,
}

/// Does nothing: this system has no termination signals, and ends all jobs with this process.
pub(super) fn terminate_all(_: Duration) {}

impl Process {
    pub(super) fn spawn(command: &mut Command) -> io::Result<Self> {
        let job = Job::new()?;
        // A server of a desktop program must not open a console window.
        let mut child = command.creation_flags(CREATE_NO_WINDOW | CREATE_SUSPENDED).spawn()?;
        if let Err(error) = job.assign(&child).and_then(|()| resume(&child)) {
            // It has not run, or is in the job, which closes here.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        Ok(Self { child, job })
    }

    /// Returns whether the process has exited.
    pub(super) fn status(&mut self) -> ProcessStatus {
        ProcessStatus::of(&mut self.child)
    }

    /// Returns whether the process has exited and no other process of its job is left.
    pub(super) fn is_gone(&mut self) -> bool {
        !matches!(self.status(), ProcessStatus::Running) && self.job.is_empty()
    }

    /// Returns `false`: this system has no termination signals.
    pub(super) fn terminate(&mut self) -> bool {
        false
    }

    /// Kills all processes of the job.
    pub(super) fn kill(&mut self) {
        self.job.terminate();
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
