//! The clock of validators.

use alloc::sync::Arc;
use core::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of the Unix time in seconds.
#[derive(Clone)]
pub(super) struct UnixClock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl UnixClock {
    pub(super) fn new(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(clock))
    }

    pub(super) fn now(&self) -> u64 {
        (self.0)()
    }
}

/// The clock of the system; a time before 1970 is 1970.
impl Default for UnixClock {
    fn default() -> Self {
        Self::new(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }
}

impl fmt::Debug for UnixClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixClock").finish_non_exhaustive()
    }
}
