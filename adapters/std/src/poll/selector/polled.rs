//! The selector on `poll(2)`.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::poll::LazyNotifier;
use crate::poll::MAX_TIMEOUT;
use crate::poll::{Interest, Ready};

#[derive(Debug)]
pub(super) struct PlatformSelector {
    sources: BTreeMap<u64, (Arc<OwnedFd>, Interest)>,
    /// Empty between two waits; kept for its allocation.
    entries: Vec<PollFd<'static>>,
    notifier: LazyNotifier,
}

impl PlatformSelector {
    #[expect(clippy::unnecessary_wraps, reason = "same signature as on epoll")]
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { sources: BTreeMap::new(), entries: Vec::new(), notifier: LazyNotifier::default() })
    }

    pub(super) fn add(&mut self, source: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        if self.sources.contains_key(&token) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.sources.insert(token, (Arc::new(source.try_clone_to_owned()?), interest));
        Ok(())
    }

    pub(super) fn modify(&mut self, _: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let source = self.sources.get_mut(&token).ok_or(ErrorKind::NotFound)?;
        source.1 = interest;
        Ok(())
    }

    pub(super) fn remove(&mut self, _: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.sources.remove(&token).map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(super) fn wait(
        &mut self,
        timeout: Option<Duration>,
        found: &mut Vec<(u64, Ready)>,
    ) -> io::Result<()> {
        let mut entries: Vec<PollFd<'_>> = core::mem::take(&mut self.entries);
        entries.extend(self.sources.values().map(|(source, interest)| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, interest.read);
            flags.set(PollFlags::OUT, interest.write);
            PollFd::from_borrowed_fd(source.as_fd(), flags)
        }));
        entries.extend(self.notifier.notifier().map(|notifier| PollFd::new(notifier, PollFlags::IN)));
        let timeout = timeout.map(|timeout| timeout.min(MAX_TIMEOUT));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let outcome = poll(&mut entries, timeout.as_ref());
        if outcome.is_ok() {
            let broken = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
            for (token, flags) in self.sources.keys().zip(entries.iter().map(PollFd::revents)) {
                let ready = Ready {
                    readable: flags.intersects(PollFlags::IN | broken),
                    writable: flags.intersects(PollFlags::OUT | broken),
                };
                if !ready.is_empty() {
                    found.push((*token, ready));
                }
            }
            if let (Some(notifier), Some(entry)) = (self.notifier.notifier(), entries.get(self.sources.len()))
            {
                if !entry.revents().is_empty() {
                    notifier.reset();
                }
            }
        }
        entries.clear();
        // The list is empty: collecting changes its lifetime and reuses the allocation.
        self.entries = entries.into_iter().map_while(|_| None).collect();
        match outcome {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn waker(&mut self) -> io::Result<Waker> {
        self.notifier.waker()
    }

    #[cfg(any(not(target_os = "linux"), mcp_portable))]
    pub(super) fn source(&self, token: u64) -> Option<&Arc<OwnedFd>> {
        self.sources.get(&token).map(|(source, _)| source)
    }

    #[cfg(any(not(target_os = "linux"), mcp_portable))]
    pub(super) fn sources(&self) -> impl Iterator<Item = (u64, &Arc<OwnedFd>, Interest)> {
        self.sources.iter().map(|(token, (source, interest))| (*token, source, *interest))
    }

    #[cfg(any(not(target_os = "linux"), mcp_portable))]
    pub(super) fn notifier(&self) -> Option<BorrowedFd<'_>> {
        self.notifier.notifier().map(AsFd::as_fd)
    }
}
