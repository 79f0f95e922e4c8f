//! Faults that tests inject into writes of this thread.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::panic::AssertUnwindSafe;
use std::io::{self, ErrorKind};
use std::panic;

use super::Step;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fails,
    Crashes,
}

#[derive(Default)]
struct Plan {
    /// The step with this index has the fault.
    fault: Option<(usize, Kind)>,
    reached: Vec<Step>,
}

/// The payload of the panic that stands for the end of the process.
struct Crash;

std::thread_local! {
    static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
}

pub(super) fn reach(step: Step) -> io::Result<()> {
    let fault = PLAN.with_borrow_mut(|plan| {
        let plan = plan.as_mut()?;
        plan.reached.push(step);
        plan.fault.filter(|(at, _)| *at + 1 == plan.reached.len()).map(|(_, kind)| kind)
    });
    match fault {
        None => Ok(()),
        Some(Kind::Fails) => Err(ErrorKind::StorageFull.into()),
        // Nothing that runs while it unwinds may touch a file, as nothing runs after the end of a process.
        Some(Kind::Crashes) => panic::resume_unwind(Box::new(Crash)),
    }
}

/// Runs `f`, in which the step with index `at` fails as on a full disk. Returns the steps, too.
pub(super) fn with_full_disk<T>(at: usize, f: impl FnOnce() -> T) -> (T, Vec<Step>) {
    PLAN.set(Some(Plan { fault: Some((at, Kind::Fails)), reached: Vec::new() }));
    let value = f();
    (value, PLAN.take().unwrap_or_default().reached)
}

/// Runs `f` up to the step with index `at`, as if the process was killed there. Returns `None` if it got there.
pub(super) fn with_crash<T>(at: usize, f: impl FnOnce() -> T) -> (Option<T>, Vec<Step>) {
    PLAN.set(Some(Plan { fault: Some((at, Kind::Crashes)), reached: Vec::new() }));
    let value = match panic::catch_unwind(AssertUnwindSafe(f)) {
        Ok(value) => Some(value),
        Err(payload) if payload.is::<Crash>() => None,
        Err(payload) => panic::resume_unwind(payload),
    };
    (value, PLAN.take().unwrap_or_default().reached)
}
