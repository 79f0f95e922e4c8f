//! Time in the core: microseconds since an epoch that the caller chooses.
//!
//! The core never reads a clock. The driver passes an [`Instant`] into every call that needs one, and receives the
//! next deadline as an [`Instant`]. Each engine has one epoch; instants of different epochs cannot be compared. Wall
//! clock time enters only through an [`Anchor`], for values that outlive the process.

use alloc::string::String;
use alloc::vec::Vec;
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

// Times as text.

/// Returns a Unix time as ISO 8601 in UTC: `2026-07-28T09:30:00Z`.
///
/// Years beyond 9999 have no such form: the last second before them stands for all.
#[must_use]
pub fn iso_8601(unix_secs: u64) -> String {
    let mut out = Vec::with_capacity(20);
    write_iso_8601(&mut out, unix_secs);
    String::from_utf8(out).unwrap_or_default()
}

/// Appends a Unix time as `2026-07-28T09:30:00Z` (TASK-015).
pub(crate) fn write_iso_8601(out: &mut Vec<u8>, unix_secs: u64) {
    // Years beyond 9999 have no form here.
    let secs = unix_secs.min(253_402_300_799);
    let (days, rest) = (secs / 86_400, secs % 86_400);
    // Civil date from days, with years that begin in March (Howard Hinnant's algorithm).
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let digit = |n: u64, unit: u64| b'0' + u8::try_from(n / unit % 10).unwrap_or_default();
    let two = |n: u64| [digit(n, 10), digit(n, 1)];
    out.extend_from_slice(&[digit(year, 1_000), digit(year, 100), digit(year, 10), digit(year, 1), b'-']);
    for (number, end) in
        [(month, b'-'), (day, b'T'), (rest / 3_600, b':'), (rest / 60 % 60, b':'), (rest % 60, b'Z')]
    {
        let [tens, ones] = two(number);
        out.extend_from_slice(&[tens, ones, end]);
    }
}

// The reason of a deadline.

/// The reason of the deadline that a state machine returns from `poll_timeout`.
///
/// For logs and for the question why a loop wakes up; it is not needed to drive. Of several deadlines at the same instant
/// it is one of them. [`handle_timeout`](crate::pipe::Pipe::handle_timeout) may find that a deadline has moved meanwhile,
/// as that of a call does after progress. Then nothing happens, and the next deadline is later.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TimeoutReason {
    /// The server did not answer the probe or the handshake: [`Limits::probe_timeout`](crate::Limits::probe_timeout),
    /// [`Limits::init_timeout`](crate::Limits::init_timeout).
    Negotiation,
    /// A call that was made has no answer: [`Limits::call_timeout`](crate::Limits::call_timeout),
    /// [`Limits::call_total_timeout`](crate::Limits::call_total_timeout), and those of
    /// [`CallOptions`](crate::CallOptions).
    Call,
    /// A call that was received is not answered: [`Limits::max_call_age`](crate::Limits::max_call_age).
    CallAge,
    /// Progress or a log message was held back, and may be sent now:
    /// [`Limits::progress_rate`](crate::Limits::progress_rate).
    Notification,
    /// Changes were held back, and may be announced now.
    Changes,
    /// The input has ended, and calls are still open: [`Limits::eof_grace_period`](crate::Limits::eof_grace_period), or
    /// the grace period of a shutdown.
    GracePeriod,
    /// A ping is due, or has no answer.
    KeepAlive,
    /// A task expires, is asked about again, or is tried to be stored again.
    Task,
    /// Buffers are idle and can be freed: [`Limits::idle_trim_delay`](crate::Limits::idle_trim_delay), and those of HTTP.
    /// The deadline of `poll_timeout_without_trim` never has this reason.
    Trim,
    /// HTTP server: a response becomes an event stream, or an event stream is silent, or its token expires.
    EventStream,
    /// HTTP server: a session may have been idle for too long.
    Session,
    /// HTTP server: the application has not decided on a token.
    TokenDecision,
    /// HTTP client: a response is not complete.
    Response,
    /// HTTP client: a refused request waits for a credential.
    Credential,
    /// HTTP client: a request is sent again, or a stream is opened again.
    Retry,
    /// HTTP client: messages wait for the session to be confirmed.
    SessionStart,
    /// HTTP client: a connection is not established.
    Connect,
    /// A connection has no exchange: `HttpLimits::keep_alive`.
    IdleConnection,
    /// A head is not complete: `HttpLimits::head_timeout`.
    Head,
    /// A body is not complete: `HttpLimits::body_idle_timeout`, `HttpLimits::body_timeout`.
    Body,
    /// The peer takes no bytes: `HttpLimits::body_idle_timeout`.
    SlowReader,
    /// A connection ends, and the rest of the input is read: `HttpLimits::drain_timeout`.
    Linger,
}

impl TimeoutReason {
    /// Returns the reason of the earliest deadline, the first one of several at the same instant.
    pub(crate) fn earliest<const N: usize>(
        deadlines: [Option<(Instant, Self)>; N],
    ) -> Option<(Instant, Self)> {
        deadlines.into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

impl fmt::Display for TimeoutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Negotiation => "the handshake is not answered",
            Self::Call => "a call that was made is not answered",
            Self::CallAge => "a call that was received is not answered",
            Self::Notification => "progress or a log message is held back",
            Self::Changes => "changes are held back",
            Self::GracePeriod => "calls are open after the end of the input",
            Self::KeepAlive => "a ping is due or not answered",
            Self::Task => "a task is looked at",
            Self::Trim => "buffers are idle",
            Self::EventStream => "an event stream begins, is silent or expires",
            Self::Session => "a session may be idle",
            Self::TokenDecision => "a token is not decided on",
            Self::Response => "a response is not complete",
            Self::Credential => "a request waits for a credential",
            Self::Retry => "a request is sent again",
            Self::SessionStart => "a session is not confirmed",
            Self::Connect => "a connection is not established",
            Self::IdleConnection => "a connection is idle",
            Self::Head => "a head is not complete",
            Self::Body => "a body is not complete",
            Self::SlowReader => "the peer takes no bytes",
            Self::Linger => "a connection is being closed",
        })
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

    // covers: TASK-015
    #[test]
    fn times_are_iso_8601() {
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_785_578_402, "2026-08-01T10:00:02Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(iso_8601(secs), text);
        }
    }

    #[test]
    fn of_deadlines_at_the_same_instant_the_first_is_named() {
        let at = |micros, reason| Some((Instant::from_micros(micros), reason));
        let (call, task) = (TimeoutReason::Call, TimeoutReason::Task);
        assert_eq!(TimeoutReason::earliest([at(2, call), None, at(1, task)]), at(1, task));
        assert_eq!(TimeoutReason::earliest([at(1, call), at(1, task)]), at(1, call));
        assert_eq!(TimeoutReason::earliest([None]), None);
    }

    #[test]
    fn each_reason_of_a_deadline_has_its_text() {
        use TimeoutReason as R;
        for (reason, text) in [
            (R::Negotiation, "the handshake is not answered"),
            (R::Call, "a call that was made is not answered"),
            (R::CallAge, "a call that was received is not answered"),
            (R::Notification, "progress or a log message is held back"),
            (R::Changes, "changes are held back"),
            (R::GracePeriod, "calls are open after the end of the input"),
            (R::KeepAlive, "a ping is due or not answered"),
            (R::Task, "a task is looked at"),
            (R::Trim, "buffers are idle"),
            (R::EventStream, "an event stream begins, is silent or expires"),
            (R::Session, "a session may be idle"),
            (R::TokenDecision, "a token is not decided on"),
            (R::Response, "a response is not complete"),
            (R::Credential, "a request waits for a credential"),
            (R::Retry, "a request is sent again"),
            (R::SessionStart, "a session is not confirmed"),
            (R::Connect, "a connection is not established"),
            (R::IdleConnection, "a connection is idle"),
            (R::Head, "a head is not complete"),
            (R::Body, "a body is not complete"),
            (R::SlowReader, "the peer takes no bytes"),
            (R::Linger, "a connection is being closed"),
        ] {
            assert_eq!(alloc::format!("{reason}"), text);
        }
        assert_eq!(
            alloc::format!("{} {:?}", Instant::from_micros(1_000_007), Instant::ZERO),
            "1.000007s Instant(0)"
        );
    }
}
