//! The selector of systems other than Linux: level-triggered readiness by `polling`.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroUsize;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind};

use polling::{Event, Events, PollMode, Poller};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};

use crate::poll::MAX_TIMEOUT;
use crate::poll::{Interest, Ready};

pub(super) struct PlatformSelector {
    poller: Arc<SelectorWaker>,
    events: Events,
    sources: BTreeMap<usize, PolledSource>,
}

struct PolledSource {
    token: u64,
    /// Owned, so that it stays open while it is watched, whatever the caller does with the original.
    duplicate: OwnedFd,
    /// Index of its entry in the result of a wait: some systems report each direction by an event of its own.
    found_at: usize,
}

/// The poller, which has at most one pending notification.
struct SelectorWaker(Poller);

impl Wake for SelectorWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Fails only if the system is out of memory for the notification.
        let _ = self.0.notify();
    }
}

impl PlatformSelector {
    pub(super) fn new() -> io::Result<Self> {
        let poller = Poller::new()?;
        if !poller.supports_level() {
            // Event ports of Solaris and illumos report each change once.
            return Err(ErrorKind::Unsupported.into());
        }
        Ok(Self {
            poller: Arc::new(SelectorWaker(poller)),
            events: Events::with_capacity(MAX_EVENTS),
            sources: BTreeMap::new(),
        })
    }

    pub(super) fn add(&mut self, source: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let Entry::Vacant(entry) = self.sources.entry(key(token)) else {
            return Err(ErrorKind::AlreadyExists.into());
        };
        let duplicate = source.try_clone_to_owned()?;
        #[expect(unsafe_code, reason = "`polling` leaves it to its caller that a source stays open")]
        // SAFETY: The duplicate is open, and it is deleted before it is closed: below, in `remove` and in `drop`. Deleting fails only
        // if the system does not know the descriptor any more, and then nothing refers to it.
        let added =
            unsafe { self.poller.0.add_with_mode(&duplicate, event(token, interest), PollMode::Level) };
        if let Err(error) = added {
            // A part of it may have been done.
            let _ = self.poller.0.delete(duplicate.as_fd());
            return Err(error);
        }
        entry.insert(PolledSource { token, duplicate, found_at: 0 });
        Ok(())
    }

    pub(super) fn modify(&mut self, _: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let source = self.sources.get(&key(token)).ok_or(ErrorKind::NotFound)?;
        self.poller.0.modify_with_mode(source.duplicate.as_fd(), event(token, interest), PollMode::Level)
    }

    pub(super) fn remove(&mut self, _: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let source = self.sources.remove(&key(token)).ok_or(ErrorKind::NotFound)?;
        self.poller.0.delete(source.duplicate.as_fd())
    }

    /// A wait that a signal interrupts is repeated by `polling`.
    pub(super) fn wait(
        &mut self,
        timeout: Option<Duration>,
        found: &mut Vec<(u64, Ready)>,
    ) -> io::Result<()> {
        self.events.clear();
        self.poller.0.wait(&mut self.events, timeout.map(|timeout| timeout.min(MAX_TIMEOUT)))?;
        for event in self.events.iter() {
            let Some(source) = self.sources.get_mut(&event.key) else { continue };
            let broken = event.is_interrupt() || event.is_err().unwrap_or_default();
            let (readable, writable) = (event.readable || broken, event.writable || broken);
            match found.get_mut(source.found_at).filter(|(token, _)| *token == source.token) {
                Some((_, ready)) => {
                    ready.readable |= readable;
                    ready.writable |= writable;
                }
                None => {
                    source.found_at = found.len();
                    found.push((source.token, Ready { readable, writable }));
                }
            }
        }
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "same signature as on epoll")]
    pub(super) fn waker(&mut self) -> io::Result<Waker> {
        Ok(Waker::from(Arc::clone(&self.poller)))
    }
}

/// Wakers keep the poller after its selector.
impl Drop for PlatformSelector {
    fn drop(&mut self) {
        for source in self.sources.values() {
            let _ = self.poller.0.delete(source.duplicate.as_fd());
        }
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for PlatformSelector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.0.as_fd()
    }
}

impl fmt::Debug for PlatformSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlatformSelector").field("poller", &self.poller.0).finish_non_exhaustive()
    }
}

/// The key of a token in `polling`: all of it, or its lower half where addresses have 32 bits.
const fn key(token: u64) -> usize {
    token as usize
}

fn event(token: u64, interest: Interest) -> Event {
    // A broken source is reported whatever the interest, where the system can do that.
    Event::new(key(token), interest.read, interest.write).with_interrupt()
}

/// Events of one wait, at most.
const MAX_EVENTS: NonZeroUsize = NonZeroUsize::new(256).unwrap();
