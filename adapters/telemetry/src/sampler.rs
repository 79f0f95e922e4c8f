//! The decision whether a request gets a span, before the span is built.

use core::hash::{BuildHasher as _, Hasher as _};
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::hash_map::RandomState;

use mcp_proto::Instant;
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// A sampler that follows the parent, and takes a share of the requests without one.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// Limit of the 63 random bits that sample a root.
    root_limit: u64,
    /// State of the generator of random numbers.
    state: AtomicU64,
}

/// Number of values of 63 bits.
const RANGE: u64 = 1 << 63;

impl Sampler {
    /// Creates a sampler of this share of roots, from 0 to 1.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a power of two has a precise float, and a cast to an integer saturates; NaN is 0"
    )]
    pub(crate) fn new(root_ratio: f64) -> Self {
        let root_limit = ((root_ratio * RANGE as f64) as u64).min(RANGE);
        Self { root_limit, state: AtomicU64::new(RandomState::new().build_hasher().finish()) }
    }

    /// Returns whether a request is sampled.
    pub(crate) fn is_sampled(&self, parent: Option<&SpanContext>) -> bool {
        match parent {
            Some(parent) => parent.is_sampled(),
            None => self.random() >> 1 < self.root_limit,
        }
    }

    /// Returns the context of a request that is not sampled, in the trace of its parent or in a new one.
    pub(crate) fn unsampled(&self, parent: Option<&SpanContext>, at: Instant) -> SpanContext {
        // The ids are unique although nothing records them: other processes may, and logs quote them.
        let span_id = SpanId::from(self.random().max(1));
        let (trace_id, state) = match parent {
            Some(parent) => (parent.trace_id(), parent.trace_state().clone()),
            None => (self.trace_id(at), TraceState::NONE),
        };
        SpanContext::new(trace_id, span_id, TraceFlags::NOT_SAMPLED, false, state)
    }

    fn trace_id(&self, at: Instant) -> TraceId {
        // A target without a source of randomness starts with the same state each time, but not at the same time.
        let low = self.random() ^ at.as_micros();
        TraceId::from((u128::from(self.random()) << 64 | u128::from(low)).max(1))
    }

    /// Returns the next number of the generator SplitMix64.
    fn random(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn parent(flags: TraceFlags) -> SpanContext {
        SpanContext::new(TraceId::from(7_u128), SpanId::from(8_u64), flags, true, TraceState::NONE)
    }

    #[test]
    fn parent_decides() {
        for ratio in [0.0, 1.0] {
            let sampler = Sampler::new(ratio);
            assert!(sampler.is_sampled(Some(&parent(TraceFlags::SAMPLED))));
            assert!(!sampler.is_sampled(Some(&parent(TraceFlags::NOT_SAMPLED))));
        }
    }

    #[test]
    fn share_of_roots_is_that_of_the_ratio() {
        let share = |ratio| {
            let sampler = Sampler::new(ratio);
            (0..10_000).filter(|_| sampler.is_sampled(None)).count()
        };
        for none in [0.0, -0.0, -1.0, f64::NEG_INFINITY, f64::NAN] {
            assert_eq!(share(none), 0, "{none}");
        }
        for all in [1.0, 2.0, f64::INFINITY] {
            assert_eq!(share(all), 10_000, "{all}");
        }
        // Eight standard deviations.
        let tenth = share(0.1);
        assert!((760..=1_240).contains(&tenth), "{tenth}");
    }

    #[test]
    fn unsampled_context_has_ids_of_its_own() {
        let sampler = Sampler::new(0.0);
        let mut spans = HashSet::new();
        let mut traces = HashSet::new();
        for _ in 0..1_000 {
            let root = sampler.unsampled(None, Instant::ZERO);
            let child = sampler.unsampled(Some(&root), Instant::ZERO);
            assert!(root.is_valid() && !root.is_sampled() && !root.is_remote());
            assert_eq!(child.trace_id(), root.trace_id());
            assert!(traces.insert(root.trace_id()), "{root:?}");
            assert!(spans.insert(root.span_id()) && spans.insert(child.span_id()), "{root:?} {child:?}");
        }
    }
}
