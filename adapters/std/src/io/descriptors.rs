//! The limit of open descriptors of this process.

use std::io;

/// Returns how many descriptors this process may have open; `None` if there is no limit, or none is known.
#[must_use]
pub fn descriptor_limit() -> Option<u64> {
    platform::limit()
}

/// Raises the number of descriptors that this process may have open as far as the system allows. Returns the new limit,
/// or `None` if there is none.
///
/// Most systems limit a process to 1,024 descriptors (macOS: 256) unless it asks for more. The library never changes
/// this by itself, because the limit is inherited by child processes, and some programs fail with large descriptors.
///
/// # Errors
///
/// The error of the operating system; [`Unsupported`](io::ErrorKind::Unsupported) outside of Unix.
pub fn raise_descriptor_limit() -> io::Result<Option<u64>> {
    platform::raise()
}

#[cfg(unix)]
mod platform {
    use std::io;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    pub(super) fn limit() -> Option<u64> {
        getrlimit(Resource::Nofile).current
    }

    pub(super) fn raise() -> io::Result<Option<u64>> {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        if current == maximum {
            return Ok(current);
        }
        let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        // macOS names no maximum, but allows no more than this.
        let raised = raised.or_else(|error| {
            let current = Some(MACOS_MAXIMUM).filter(|most| maximum.is_none_or(|maximum| *most <= maximum));
            let fallback = current.filter(|most| limit().is_some_and(|now| now < *most));
            fallback.map_or(Err(error), |most| {
                setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum })
            })
        });
        raised?;
        Ok(limit())
    }

    /// `OPEN_MAX` of macOS.
    const MACOS_MAXIMUM: u64 = 10_240;
}

#[cfg(not(unix))]
mod platform {
    use std::io;

    pub(super) const fn limit() -> Option<u64> {
        None
    }

    pub(super) fn raise() -> io::Result<Option<u64>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
