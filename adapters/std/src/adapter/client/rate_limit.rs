//! A limit on how often a server is answered.

use alloc::format;
use alloc::sync::Arc;
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use mcp_proto::{Instant, RpcError};

use crate::Clock;
use crate::adapter::sync::TokenRate;

/// A limit on how often a handler answers its server, for requests that cost money or attention: sampling (SAMP-021),
/// elicitation (ELIC-045). Clones share it.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_proto::RpcError;
/// use mcp_proto::model::{ElicitParams, ElicitResult};
/// use mcp_std::RateLimit;
/// use mcp_std::adapter::client::ClientHandler;
///
/// struct User {
///     limit: RateLimit,
/// }
///
/// impl ClientHandler for User {
///     fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
///         self.limit.check()?;
///         Ok(ElicitResult::decline()) // … or ask the user
///     }
/// }
///
/// let user = User { limit: RateLimit::new(5, Duration::from_secs(60)) };
/// # for _ in 0..5 { user.limit.check()?; }
/// # assert!(user.limit.check().is_err());
/// # Ok::<(), RpcError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateLimit(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    requests: u32,
    period: Duration,
    rate: TokenRate,
    /// The bucket of the rate.
    full_at: Mutex<u64>,
}

impl RateLimit {
    /// Limits to `requests` in each `period`. They may come at once; then one more is permitted after each share of the
    /// period. With no requests, all are refused.
    #[must_use]
    pub fn new(requests: u32, period: Duration) -> Self {
        let rate = TokenRate::new(requests, period, requests);
        Self(Arc::new(Inner { clock: Clock::start(), requests, period, rate, full_at: Mutex::default() }))
    }

    /// Counts a request, if it is permitted now.
    ///
    /// # Errors
    ///
    /// The error that refuses the request and says when another one is permitted. Return it from the handler. It is not
    /// counted.
    pub fn check(&self) -> Result<(), RpcError> {
        self.check_at(self.0.clock.now())
    }

    fn check_at(&self, now: Instant) -> Result<(), RpcError> {
        let Inner { requests, period, rate, full_at, .. } = &*self.0;
        if *requests == 0 {
            return Err(RpcError::internal("the client refuses such requests"));
        }
        let mut full_at = full_at.lock().unwrap_or_else(PoisonError::into_inner);
        rate.take(&mut full_at, now.as_micros().saturating_mul(1000)).map_err(|after| {
            let seconds = after.as_millis().div_ceil(1000);
            RpcError::internal(format!(
                "the client answers {requests} such requests in {period:?}; try again in {seconds} s"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SAMP-021, ELIC-045
    #[test]
    fn requests_beyond_the_limit_are_refused_until_a_share_has_passed() {
        let limit = RateLimit::new(3, Duration::from_secs(60));
        let start = limit.0.clock.now() + Duration::from_secs(1);
        let check = |seconds| limit.check_at(start + Duration::from_secs(seconds));
        assert_eq!([check(0), check(0), check(0)], [Ok(()), Ok(()), Ok(())]);
        let refused = check(5).unwrap_err();
        assert_eq!(refused.message, "the client answers 3 such requests in 60s; try again in 15 s");
        // A refused request is not counted.
        check(19).unwrap_err();
        check(20).unwrap();
        check(20).unwrap_err();
        // After a pause of the whole period as many may come at once again.
        assert_eq!([check(200), check(200), check(200)], [Ok(()), Ok(()), Ok(())]);
        check(200).unwrap_err();
    }

    #[test]
    fn limit_of_none_refuses_all() {
        let limit = RateLimit::new(0, Duration::from_secs(1));
        assert!(limit.check().is_err());
        let free = RateLimit::new(1, Duration::ZERO);
        assert!(free.check().is_ok() && free.check().is_ok());
    }
}
