//! The selector on level-triggered `epoll`.

use core::mem::MaybeUninit;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::NOTIFIER_TOKEN;
use crate::poll::LazyNotifier;
use crate::poll::MAX_TIMEOUT;
use crate::poll::{Interest, Ready};

#[derive(Debug)]
pub(super) struct PlatformSelector {
    epoll: OwnedFd,
    notifier: LazyNotifier,
}

impl PlatformSelector {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, notifier: LazyNotifier::default() })
    }

    pub(super) fn add(&mut self, source: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token), flags(interest))?)
    }

    pub(super) fn modify(
        &mut self,
        source: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, EventData::new_u64(token), flags(interest))?)
    }

    pub(super) fn remove(&mut self, source: BorrowedFd<'_>, _: u64) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    pub(super) fn wait(
        &mut self,
        timeout: Option<Duration>,
        found: &mut Vec<(u64, Ready)>,
    ) -> io::Result<()> {
        let timeout = timeout.map(|timeout| timeout.min(MAX_TIMEOUT));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut events: [MaybeUninit<Event>; MAX_EVENTS] = [const { MaybeUninit::uninit() }; MAX_EVENTS];
        let events = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in events {
            let (token, flags, broken) = (event.data.u64(), event.flags, EventFlags::ERR | EventFlags::HUP);
            match (token, self.notifier.notifier()) {
                (NOTIFIER_TOKEN, Some(notifier)) => notifier.reset(),
                _ => found.push((
                    token,
                    Ready {
                        readable: flags.intersects(EventFlags::IN | broken),
                        writable: flags.intersects(EventFlags::OUT | broken),
                    },
                )),
            }
        }
        Ok(())
    }

    pub(super) fn waker(&mut self) -> io::Result<Waker> {
        let registered = self.notifier.notifier().is_some();
        let waker = self.notifier.waker()?;
        if let (false, Some(notifier)) = (registered, self.notifier.notifier()) {
            let added = epoll::add(&self.epoll, notifier, EventData::new_u64(NOTIFIER_TOKEN), EventFlags::IN);
            if let Err(error) = added {
                // Otherwise the next call would take a notifier that ends no wait.
                self.notifier = LazyNotifier::default();
                return Err(error.into());
            }
        }
        Ok(waker)
    }
}

impl AsFd for PlatformSelector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn flags(interest: Interest) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, interest.read);
    flags.set(EventFlags::OUT, interest.write);
    flags
}

/// Events of one wait, at most.
const MAX_EVENTS: usize = 256;
