//! A token bucket on the caller's clock: a burst, then a steady rate per second.

use core::time::Duration;

use crate::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    /// Remaining tokens, in millionths.
    level: u64,
    refilled_at: Instant,
    burst: u16,
    rate: u16,
}

const UNITS_PER_TOKEN: u64 = 1_000_000;

impl TokenBucket {
    pub(crate) fn new(now: Instant, burst: u16, rate: u16) -> Self {
        Self { level: u64::from(burst) * UNITS_PER_TOKEN, refilled_at: now, burst, rate }
    }

    /// Takes a token, if there is one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        self.refill(now);
        match self.level.checked_sub(UNITS_PER_TOKEN) {
            Some(left) => {
                self.level = left;
                true
            }
            None => false,
        }
    }

    /// Returns when the next token is available; `None` if the rate is zero.
    pub(crate) fn ready_at(&self) -> Option<Instant> {
        let missing = UNITS_PER_TOKEN.saturating_sub(self.level);
        if missing == 0 {
            return Some(self.refilled_at);
        }
        let micros =
            missing.checked_add(u64::from(self.rate).saturating_sub(1))?.checked_div(u64::from(self.rate))?;
        Some(self.refilled_at + Duration::from_micros(micros))
    }

    fn refill(&mut self, now: Instant) {
        // One microsecond at `rate` per second adds `rate` millionths of a token.
        let elapsed =
            u64::try_from(now.saturating_duration_since(self.refilled_at).as_micros()).unwrap_or(u64::MAX);
        let added = elapsed.saturating_mul(u64::from(self.rate));
        self.level = self.level.saturating_add(added).min(u64::from(self.burst.max(1)) * UNITS_PER_TOKEN);
        self.refilled_at = self.refilled_at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: PROG-013
    #[test]
    fn token_bucket_allows_a_burst_then_a_steady_rate() {
        let at = |ms: u64| Instant::from_micros(ms * 1000);
        let mut b = TokenBucket::new(at(0), 10, 20);
        assert_eq!((0..20).filter(|_| b.take(at(0))).count(), 10);
        assert_eq!(b.ready_at(), Some(at(50)));
        assert!(!b.take(at(49)) && b.take(at(50)) && !b.take(at(50)));
        let taken = (0..1_000).filter(|i| b.take(at(50 + i * 10))).count();
        assert!((199..=210).contains(&taken), "{taken} in ten seconds");
        let mut only_burst = TokenBucket::new(at(0), 1, 0);
        assert_eq!(only_burst.ready_at(), Some(at(0)));
        assert!(only_burst.take(at(0)) && only_burst.ready_at().is_none());
    }
}
