//! Faults that tests inject into writes of this thread.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::panic::AssertUnwindSafe;
use std::io::{self, ErrorKind};
use std::panic;

use super::Step;
use crate::folder_in_tests::Folder;

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
fn with_full_disk<T>(at: usize, f: impl FnOnce() -> T) -> (T, Vec<Step>) {
    PLAN.set(Some(Plan { fault: Some((at, Kind::Fails)), reached: Vec::new() }));
    let value = f();
    (value, PLAN.take().unwrap_or_default().reached)
}

/// Runs `f` up to the step with index `at`, as if the process was killed there. Returns `None` if it got there.
fn with_crash<T>(at: usize, f: impl FnOnce() -> T) -> (Option<T>, Vec<Step>) {
    PLAN.set(Some(Plan { fault: Some((at, Kind::Crashes)), reached: Vec::new() }));
    let value = match panic::catch_unwind(AssertUnwindSafe(f)) {
        Ok(value) => Some(value),
        Err(payload) if payload.is::<Crash>() => None,
        Err(payload) => panic::resume_unwind(payload),
    };
    (value, PLAN.take().unwrap_or_default().reached)
}

/// A change of a store in a folder.
pub(crate) type Change<S, E> = fn(&S) -> Result<(), E>;

/// How far a change came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// Nothing has changed yet.
    Begun,
    /// It is made, but its last step had the fault.
    Made,
    Finished,
}

impl Progress {
    pub(crate) fn is_made(self) -> bool {
        self != Self::Begun
    }

    fn after(steps: &[Step]) -> Self {
        if matches!(steps.last(), Some(Step::FlushFolder)) { Self::Made } else { Self::Begun }
    }
}

/// Makes a change, as if the process was killed at each of its steps in turn, and then to its end. `check` gets the folder and
/// what another process opens then.
pub(crate) fn crash_at_each_step<S, E: fmt::Debug>(
    open: impl Fn(&Folder) -> S,
    prepare: impl Fn(&S),
    change: Change<S, E>,
    check: impl Fn(&Folder, S, Progress),
) {
    let mut seen = Vec::new();
    for at in 0.. {
        let folder = Folder::new();
        let store = open(&folder);
        prepare(&store);
        let (done, steps) = with_crash(at, || change(&store));
        drop(store);
        let Some(result) = done else {
            check(&folder, open(&folder), Progress::after(&steps));
            seen.extend(steps.last().copied());
            continue;
        };
        result.expect("nothing fails");
        check(&folder, open(&folder), Progress::Finished);
        assert_eq!(seen, steps, "a fault at each step");
        break;
    }
    assert!(seen.len() >= 2);
}

/// Makes a change of which each step in turn fails as on a full disk. `check` gets the store and the error.
pub(crate) fn fill_disk_at_each_step<S, E: fmt::Debug + fmt::Display>(
    open: impl Fn(&Folder) -> S,
    prepare: impl Fn(&S),
    change: Change<S, E>,
    check: impl Fn(&S, &E, Progress),
) {
    for at in 0.. {
        let folder = Folder::new();
        let store = open(&folder);
        prepare(&store);
        let (result, steps) = with_full_disk(at, || change(&store));
        if steps.len() <= at {
            return result.expect("nothing fails");
        }
        let error = result.expect_err("the disk is full");
        assert!(alloc::format!("{error}").starts_with("cannot "), "{error}");
        check(&store, &error, Progress::after(&steps));
    }
}
