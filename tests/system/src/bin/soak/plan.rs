//! Plan of each call, which is the same for equal seeds.

use core::time::Duration;

use mcp_tests::harness::Rng;

/// The calls of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallPlan {
    seed: u64,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedCall {
    /// Duration of its handler.
    pub(crate) length: Duration,
    /// Time after which it is cancelled, unless it has been answered.
    pub(crate) cancel: Option<Duration>,
}

impl CallPlan {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns the plan of a call. Most handlers return immediately, some wait for up to 0.3 ms, a few for up to 3 ms.
    /// One call in twelve is cancelled, half of these immediately.
    pub(crate) fn planned_call(&self, number: usize) -> PlannedCall {
        let mut rng = Rng::new(self.seed.rotate_left(32) ^ number as u64);
        let mut up_to = |micros| Duration::from_micros(rng.below(micros) as u64);
        let length = match up_to(100).as_micros() {
            0..90 => Duration::ZERO,
            90..99 => up_to(300),
            _ => up_to(3_000),
        };
        let cancel = match up_to(24).as_micros() {
            0 => Some(Duration::ZERO),
            1 => Some(up_to(2_000)),
            _ => None,
        };
        PlannedCall { length, cancel }
    }
}
