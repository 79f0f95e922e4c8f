//! What each call does: the same for equal seeds, whoever makes it

use core::time::Duration;

use mcp_tests::harness::Rng;

/// All calls of a run
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    seed: u64,
}

/// One call
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// How long its handler takes
    pub(crate) length: Duration,
    /// After how long it is cancelled, if its answer has not come by then
    pub(crate) cancel: Option<Duration>,
}

impl Plan {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Most handlers return at once, some wait for up to 0.3 ms, a few for up to 3 ms; one call in twelve is cancelled,
    /// half of them at once
    pub(crate) fn step(&self, number: usize) -> Step {
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
        Step { length, cancel }
    }
}
