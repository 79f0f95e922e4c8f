//! A job of Windows: a process and everything that it starts. They end together, at the latest when the job is closed.
//!
//! The system has no safe interface for jobs, so this module has `unsafe` blocks.
#![expect(unsafe_code, reason = "calls of the system; each states why its arguments are valid")]

use core::ptr;
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::process::Child;

use windows_sys::Win32::Foundation::{ERROR_NO_MORE_FILES, HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JobObjectBasicAccountingInformation, JobObjectExtendedLimitInformation, QueryInformationJobObject,
    SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{OpenThread, ResumeThread, THREAD_SUSPEND_RESUME};

/// A job; dropping it kills the processes in it. No other process holds its handle.
#[derive(Debug)]
pub(super) struct Job(OwnedHandle);

impl Job {
    /// Creates an empty job, whose processes cannot leave it.
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: both pointers may be null: default security (so the handle is not inherited), and no name.
        let handle = unsafe { CreateJobObjectW(ptr::null(), ptr::null()) };
        let job = Self(own(handle)?);
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: the pointer is to a value of the type that belongs to this class, and the length is its size.
        check(unsafe {
            SetInformationJobObject(
                job.handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size_of_u32::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>(),
            )
        })?;
        Ok(job)
    }

    /// Puts a process into the job. Processes that it starts from then on are in it, too.
    pub(super) fn assign(&self, child: &Child) -> io::Result<()> {
        // SAFETY: both handles are open during the call, because their owners are borrowed.
        check(unsafe { AssignProcessToJobObject(self.handle(), child.as_raw_handle()) })
    }

    /// Kills all processes of the job.
    pub(super) fn terminate(&self) {
        // SAFETY: the handle is open. The call fails only without the right to it, which its creator has.
        let _ = unsafe { TerminateJobObject(self.handle(), 1) };
    }

    /// Returns whether no process of the job is left.
    pub(super) fn is_empty(&self) -> bool {
        let mut counts = JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
        // SAFETY: the pointer is to a value of the type that belongs to this class, and the length is its size; the
        // length that was written may be left out.
        let known = check(unsafe {
            QueryInformationJobObject(
                self.handle(),
                JobObjectBasicAccountingInformation,
                (&raw mut counts).cast(),
                size_of_u32::<JOBOBJECT_BASIC_ACCOUNTING_INFORMATION>(),
                ptr::null_mut(),
            )
        });
        known.is_ok() && counts.ActiveProcesses == 0
    }

    fn handle(&self) -> HANDLE {
        self.0.as_raw_handle()
    }
}

/// Lets a process run that was created suspended. Its id is not reused meanwhile, because `child` has its handle.
pub(super) fn resume(child: &Child) -> io::Result<()> {
    // SAFETY: takes no pointers.
    let handle = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) };
    let snapshot = own(handle)?;
    let mut entry = THREADENTRY32 { dwSize: size_of_u32::<THREADENTRY32>(), ..THREADENTRY32::default() };
    let mut resumed = false;
    // SAFETY: the snapshot is open, and `entry` is a writable value whose `dwSize` is its size.
    let mut found = check(unsafe { Thread32First(snapshot.as_raw_handle(), &raw mut entry) });
    while found.is_ok() {
        if entry.th32OwnerProcessID == child.id() {
            resume_thread(entry.th32ThreadID)?;
            resumed = true;
        }
        // SAFETY: as above.
        found = check(unsafe { Thread32Next(snapshot.as_raw_handle(), &raw mut entry) });
    }
    match found {
        Err(error) if error.raw_os_error() != Some(ERROR_NO_MORE_FILES as i32) => Err(error),
        _ if !resumed => Err(io::Error::other("the new process has no thread")),
        _ => Ok(()),
    }
}

fn resume_thread(id: u32) -> io::Result<()> {
    // SAFETY: takes no pointers. The handle is not inherited.
    let thread = own(unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, id) })?;
    // SAFETY: the handle is open and has the right that the call needs.
    match unsafe { ResumeThread(thread.as_raw_handle()) } {
        u32::MAX => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Takes a handle that the system has just returned, or its error.
fn own(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle is open, closed by `CloseHandle`, and nobody else has it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

fn check(outcome: i32) -> io::Result<()> {
    if outcome == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

const fn size_of_u32<T>() -> u32 {
    // No structure of the system is that large.
    size_of::<T>() as u32
}
