//! One wait for several things, each of which knows how to wait for itself alone

use core::marker::PhantomData;
use core::time::Duration;
use std::io;

#[cfg(unix)]
use crate::duplex::{Descriptors, Interest};

/// What one of several things that a loop drives waits for
///
/// The loop waits for all of them at once with [`wait`](Self::wait), and then has each of them look without waiting.
#[derive(Debug, Clone, Copy)]
pub struct Outlook<'a> {
    /// What can be watched; nothing where that cannot be told
    #[cfg(unix)]
    descriptors: Descriptors<'a>,
    #[cfg(unix)]
    interest: Interest,
    timeout: Option<Duration>,
    /// It cannot be told what to watch
    blind: bool,
    life: PhantomData<&'a ()>,
}

impl<'a> Outlook<'a> {
    /// A byte stream of these descriptors, what is wanted of it, and the longest time until it has to be looked at
    #[cfg(unix)]
    #[must_use]
    pub fn new(descriptors: Descriptors<'a>, interest: Interest, timeout: Option<Duration>) -> Self {
        let blind =
            (interest.read && descriptors.read.is_none()) || (interest.write && descriptors.write.is_none());
        Self { descriptors, interest, timeout, blind, life: PhantomData }
    }

    /// Something that waits for many things by a selector, whose descriptor this is
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn of(selector: std::os::fd::BorrowedFd<'a>, timeout: Option<Duration>) -> Self {
        let descriptors = Descriptors { read: Some(selector), ..Descriptors::default() };
        Self::new(descriptors, Interest::READ, timeout)
    }

    /// Something that cannot be watched: it is looked at every few milliseconds, and after `timeout` at the latest
    #[must_use]
    pub fn blind(timeout: Option<Duration>) -> Self {
        Self {
            #[cfg(unix)]
            descriptors: Descriptors::default(),
            #[cfg(unix)]
            interest: Interest::default(),
            timeout,
            blind: true,
            life: PhantomData,
        }
    }

    /// Waits until one of them has something to do, at most for `timeout` (`None`: no limit)
    ///
    /// May return early with nothing to do.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn wait(all: &[Self], timeout: Option<Duration>) -> io::Result<()> {
        let glance = all.iter().any(|one| one.blind).then_some(GLANCE);
        let timeouts = all.iter().filter_map(|one| one.timeout);
        let timeout = timeouts.chain(timeout).chain(glance).min();
        #[cfg(unix)]
        {
            let ends = all.iter().flat_map(|one| {
                let (wanted, at) = (one.interest, one.descriptors);
                [(at.read, wanted.read, false), (at.write, wanted.write, true), (at.aside, true, false)]
            });
            let ends = ends.filter_map(|(fd, wanted, writes)| Some((fd.filter(|_| wanted)?, writes)));
            crate::readiness::wait_any(ends, timeout)
        }
        #[cfg(not(unix))]
        {
            std::thread::sleep(timeout.unwrap_or(GLANCE));
            Ok(())
        }
    }
}

/// How often something is looked at that cannot be watched
const GLANCE: Duration = Duration::from_millis(10);
