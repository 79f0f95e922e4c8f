//! A single wait for several sources of events.

use core::marker::PhantomData;
#[cfg(unix)]
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
#[cfg(unix)]
use std::os::fd::{AsFd as _, BorrowedFd};

#[cfg(unix)]
use crate::poll::{Descriptors, Interest, Selector};

/// Request of one source, a byte stream for example, to be waited for together with other sources.
///
/// A loop waits for all its sources at once with [`wait`](Self::wait). It then lets each source check its state without
/// waiting.
///
/// A source is *unpollable* if the operating system cannot report its readiness, because it has no descriptor for what
/// it waits for. While one source is unpollable, each wait ends after 10 ms at the latest, so that the loop checks it.
#[derive(Debug, Clone, Copy)]
pub struct WaitRequest<'a> {
    /// Descriptors to watch; none if the request was created by [`unpollable`](Self::unpollable).
    #[cfg(unix)]
    descriptors: Descriptors<'a>,
    #[cfg(unix)]
    interest: Interest,
    timeout: Option<Duration>,
    /// Whether the source is unpollable (see [`WaitRequest`]).
    is_unpollable: bool,
    /// Is told whether nothing was ready.
    #[cfg(unix)]
    is_quiet: Option<&'a AtomicBool>,
    lifetime: PhantomData<&'a ()>,
}

impl<'a> WaitRequest<'a> {
    /// Creates the request of a byte stream from its descriptors, the interest, and the time until its next deadline.
    ///
    /// The stream is unpollable if `interest` includes a direction that has no descriptor.
    #[cfg(unix)]
    #[must_use]
    pub fn new(descriptors: Descriptors<'a>, interest: Interest, timeout: Option<Duration>) -> Self {
        let is_unpollable =
            (interest.read && descriptors.read.is_none()) || (interest.write && descriptors.write.is_none());
        Self { descriptors, interest, timeout, is_unpollable, is_quiet: None, lifetime: PhantomData }
    }

    /// Creates the request of a source with a selector, from the selector and the next deadline.
    #[cfg(unix)]
    #[must_use]
    pub fn for_selector(selector: &'a Selector, timeout: Option<Duration>) -> Self {
        let descriptors = Descriptors { read: Some(selector.as_fd()), ..Descriptors::default() };
        let is_quiet = Some(selector.quiet_flag());
        Self { is_quiet, ..Self::new(descriptors, Interest::READ, timeout) }
    }

    /// Creates the request of an unpollable source, which is checked after 10 ms, or after `timeout` if that is less.
    #[must_use]
    pub fn unpollable(timeout: Option<Duration>) -> Self {
        Self {
            #[cfg(unix)]
            descriptors: Descriptors::default(),
            #[cfg(unix)]
            interest: Interest::default(),
            timeout,
            is_unpollable: true,
            #[cfg(unix)]
            is_quiet: None,
            lifetime: PhantomData,
        }
    }

    /// Waits until one of the sources may be ready, at most for `timeout` (`None`: no limit).
    ///
    /// It may return early with nothing ready.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn wait(all: &[Self], timeout: Option<Duration>) -> io::Result<()> {
        let interval = all.iter().any(|request| request.is_unpollable).then_some(UNPOLLABLE_INTERVAL);
        let timeouts = all.iter().filter_map(|request| request.timeout);
        let timeout = timeouts.chain(timeout).chain(interval).min();
        #[cfg(unix)]
        {
            let ready = crate::poll::wait_any(all.iter().flat_map(Self::watched), timeout)?;
            let mut ready = ready.into_iter();
            for request in all {
                let any = ready.by_ref().take(request.watched().count()).fold(false, |any, one| any | one);
                if let Some(is_quiet) = request.is_quiet {
                    is_quiet.store(!any, Ordering::Relaxed);
                }
            }
            Ok(())
        }
        #[cfg(not(unix))]
        {
            std::thread::sleep(timeout.unwrap_or(UNPOLLABLE_INTERVAL));
            Ok(())
        }
    }

    /// Returns the descriptors to wait for, each with whether it is for writing.
    #[cfg(unix)]
    fn watched(&self) -> impl Iterator<Item = (BorrowedFd<'a>, bool)> + use<'a> {
        let (interest, descriptors) = (self.interest, self.descriptors);
        let all = [
            (descriptors.read, interest.read, false),
            (descriptors.write, interest.write, true),
            (descriptors.auxiliary, true, false),
        ];
        all.into_iter().filter_map(|(fd, wanted, is_write)| Some((fd.filter(|_| wanted)?, is_write)))
    }
}

/// Maximum duration of a wait while one source is unpollable.
const UNPOLLABLE_INTERVAL: Duration = Duration::from_millis(10);
