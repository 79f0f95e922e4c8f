//! With `epoll`, by levels

use core::mem::MaybeUninit;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::BELL;
use crate::alarm::Alarm;
use crate::duplex::{Interest, Ready};
use crate::readiness::LONGEST;

#[derive(Debug)]
pub(super) struct Selector {
    epoll: OwnedFd,
    alarm: Alarm,
}

impl Selector {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, alarm: Alarm::default() })
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
        let timeout = timeout.map(|timeout| timeout.min(LONGEST));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut events: [MaybeUninit<Event>; BATCH] = [const { MaybeUninit::uninit() }; BATCH];
        let events = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in events {
            let (token, flags, broken) = (event.data.u64(), event.flags, EventFlags::ERR | EventFlags::HUP);
            match (token, self.alarm.bell()) {
                (BELL, Some(bell)) => bell.silence(),
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
        let known = self.alarm.bell().is_some();
        let waker = self.alarm.waker()?;
        if let (false, Some(bell)) = (known, self.alarm.bell()) {
            let added = epoll::add(&self.epoll, bell, EventData::new_u64(BELL), EventFlags::IN);
            if let Err(error) = added {
                self.alarm = Alarm::default();
                return Err(error.into());
            }
        }
        Ok(waker)
    }
}

impl AsFd for Selector {
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

/// Events of one wait
const BATCH: usize = 256;
