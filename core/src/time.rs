//! Time in the core: microseconds since an epoch that the caller chooses.
//!
//! The core never reads a clock. The driver passes an [`Instant`] into every call that needs one, and receives the
//! next deadline as an [`Instant`]. Each engine has one epoch; instants of different epochs cannot be compared. Wall
//! clock time enters only through an [`Anchor`], for values that outlive the process.

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time: microseconds since an epoch that the caller chooses.
///
/// Arithmetic saturates, so a hostile or absurd timeout cannot wrap around into the past.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
// The microseconds plus one, so that an `Option<Instant>` has the same size. Connections have many of them.
pub struct Instant(NonZeroU64);

impl Instant {
    /// The caller's epoch.
    pub const ZERO: Self = Self(NonZeroU64::MIN);
    /// An instant that is never reached: about 584,000 years after the epoch.
    pub const FAR_FUTURE: Self = Self(NonZeroU64::MAX);

    /// Returns the instant `micros` microseconds after the epoch, at most [`FAR_FUTURE`](Self::FAR_FUTURE).
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(micros))
    }

    /// Returns the microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0.get() - 1
    }

    /// Returns the time elapsed since `earlier`, or zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.get().saturating_sub(earlier.0.get()))
    }
}

impl Default for Instant {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Instant").field(&self.as_micros()).finish()
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    // Used in many places; the multiplication of 64-bit numbers is long on small targets.
    #[cfg_attr(target_pointer_width = "64", inline)]
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(micros(rhs)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self::from_micros(self.as_micros().saturating_sub(micros(rhs)))
    }
}

/// Returns the whole microseconds of a duration, in 64 bits.
const fn micros(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000).saturating_add(duration.subsec_micros() as u64)
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.as_micros();
        write!(f, "{}.{:06}s", micros / 1_000_000, micros % 1_000_000)
    }
}

/// Link between the caller's epoch and Unix time, for values that outlive a process, as sealed state does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Anchor {
    at: Instant,
    unix_secs: u64,
}

impl Anchor {
    /// Creates an anchor: at instant `at` the Unix clock showed `unix_secs` seconds.
    #[must_use]
    pub const fn new(at: Instant, unix_secs: u64) -> Self {
        Self { at, unix_secs }
    }

    /// Returns the Unix time at `now`, in seconds.
    #[must_use]
    pub const fn unix_secs(&self, now: Instant) -> u64 {
        let (now, at) = (now.as_micros(), self.at.as_micros());
        if now >= at {
            self.unix_secs.saturating_add((now - at) / 1_000_000)
        } else {
            self.unix_secs.saturating_sub((at - now) / 1_000_000)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Instant::FAR_FUTURE + Duration::from_secs(1), Instant::FAR_FUTURE);
        assert_eq!(Instant::ZERO + Duration::MAX, Instant::FAR_FUTURE);
        assert_eq!(Instant::ZERO - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant::ZERO.saturating_duration_since(Instant::FAR_FUTURE), Duration::ZERO);
        assert_eq!(Instant::from_micros(u64::MAX), Instant::FAR_FUTURE);
    }

    #[test]
    fn optional_instants_are_as_small() {
        assert_eq!(size_of::<Option<Instant>>(), size_of::<Instant>());
        assert_eq!((Instant::ZERO.as_micros(), Instant::from_micros(7).as_micros()), (0, 7));
    }

    #[test]
    fn anchor_counts_both_ways() {
        let a = Anchor::new(Instant::from_micros(5_000_000), 1_000);
        assert_eq!(a.unix_secs(Instant::from_micros(7_500_000)), 1_002);
        assert_eq!(a.unix_secs(Instant::from_micros(0)), 995);
    }
}
