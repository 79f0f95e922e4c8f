//! Token buckets.

use core::time::Duration;

/// Number of full buckets that one may lack after tokens were taken from it elsewhere. If each of so many processes allows a full
/// one before it hears of the others, none of that is forgiven.
#[cfg(feature = "shared-sessions")]
const MAX_FILLINGS: u64 = 16;

/// The rate and the size of token buckets. A bucket itself is one number, which its owner keeps, with a lock if threads share
/// it: the time at which the bucket is full, in nanoseconds. It needs no refilling, and a new one is 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenRate {
    /// Time in which a bucket gets a token, in nanoseconds.
    interval: u64,
    /// Time in which an empty bucket gets all its tokens, in nanoseconds.
    filling: u64,
}

impl TokenRate {
    /// Creates a rate of `tokens` in each `period`, for buckets of `size` tokens. 0 counts as 1.
    pub(crate) fn new(tokens: u32, period: Duration, size: u32) -> Self {
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let interval = period / u64::from(tokens.max(1));
        Self { interval, filling: interval.saturating_mul(u64::from(size.max(1))) }
    }

    /// Returns the rate with buckets of another size; 0 counts as 1.
    pub(crate) fn with_size(self, size: u32) -> Self {
        Self { filling: self.interval.saturating_mul(u64::from(size.max(1))), ..self }
    }

    /// Returns a bucket after `tokens` were taken from it elsewhere between `since` and `now`, which may be more than it had:
    /// then the next ones are missing until that is made good. It lacks the tokens of [`MAX_FILLINGS`] at most.
    #[cfg(feature = "shared-sessions")]
    pub(crate) fn charged(self, full_at: u64, (since, now): (u64, u64), tokens: u32) -> u64 {
        let taken = self.interval.saturating_mul(u64::from(tokens));
        let latest = now.saturating_add(self.filling.saturating_mul(MAX_FILLINGS));
        // By `now` alone, what the bucket got since the first call would be lost.
        full_at.max(since.min(now)).saturating_add(taken).min(latest)
    }

    /// Takes a token from a bucket, `now` nanoseconds after the epoch of its owner. Returns the time until there is one, if
    /// there is none; then nothing has changed.
    #[inline]
    pub(crate) fn take(self, full_at: &mut u64, now: u64) -> Result<(), Duration> {
        let next = (*full_at).max(now).saturating_add(self.interval);
        let latest = now.saturating_add(self.filling);
        if next > latest {
            return Err(Duration::from_nanos(next - latest));
        }
        *full_at = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extreme_rates_neither_overflow_nor_divide_by_zero() {
        for (tokens, period, size) in
            [(0, Duration::MAX, 0), (u32::MAX, Duration::MAX, u32::MAX), (u32::MAX, Duration::ZERO, 1)]
        {
            let (rate, mut bucket) = (TokenRate::new(tokens, period, size), 0);
            assert_eq!(rate.take(&mut bucket, 0), Ok(()));
            let _ = rate.take(&mut bucket, u64::MAX);
        }
    }

    #[cfg(feature = "shared-sessions")]
    #[test]
    fn tokens_taken_elsewhere_count_from_their_time_and_are_owed_up_to_a_bound() {
        let rate = TokenRate::new(1, Duration::from_nanos(10), 2);
        assert_eq!(rate.charged(0, (100, 150), 3), 130, "full again at the time of the answer");
        assert_eq!(rate.charged(140, (100, 150), 3), 170, "other processes have taken before");
        assert_eq!(rate.charged(0, (200, 150), 1), 160, "a clock that was set back");
        let mut bucket = rate.charged(0, (100, 100), 5);
        assert_eq!(rate.take(&mut bucket, 139), Err(Duration::from_nanos(1)));
        assert_eq!(rate.take(&mut bucket, 140), Ok(()));
        assert_eq!(rate.charged(0, (100, 100), u32::MAX), 100 + 16 * 20);
    }

    #[test]
    fn bucket_that_is_never_filled_refuses_with_the_time_that_is_left() {
        let rate = TokenRate::new(1, Duration::from_nanos(10), 2);
        let mut bucket = 0;
        assert_eq!([rate.take(&mut bucket, 100), rate.take(&mut bucket, 100)], [Ok(()); 2]);
        let before = bucket;
        assert_eq!(rate.take(&mut bucket, 103), Err(Duration::from_nanos(7)));
        assert_eq!(bucket, before);
        assert_eq!(rate.take(&mut bucket, 110), Ok(()));
        assert_eq!(rate.with_size(3).take(&mut bucket, 110), Ok(()));
    }
}
