//! Changes of stores in folders, with a fault at each of their steps.

use alloc::string::ToString as _;
use alloc::vec::Vec;
use core::fmt;

use super::Step;
use super::faults::{with_crash, with_full_disk};
use crate::folder_in_tests::Folder;

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
        result.unwrap();
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
            return result.unwrap();
        }
        let error = result.unwrap_err();
        assert!(error.to_string().starts_with("cannot "), "{error}");
        check(&store, &error, Progress::after(&steps));
    }
}
