//! Counters of the heap, fed by the allocator of the program that measures.
//!
//! They stand here, and the allocator (which needs `unsafe`) in the program, so that the scenarios can read them.
//! Single-threaded use: the counters are atomics only because statics must be.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

/// What the counters say
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heap {
    /// Allocations and reallocations so far
    pub allocations: u64,
    /// Bytes asked for so far
    pub bytes: u64,
    /// Bytes held now
    pub live: u64,
    /// Most bytes held at once since [`restart_peak`]
    pub peak: u64,
}

/// Notes that `size` bytes were handed out
#[inline]
pub fn taken(size: usize) {
    ALLOCATIONS.store(ALLOCATIONS.load(Relaxed) + 1, Relaxed);
    BYTES.store(BYTES.load(Relaxed) + size as u64, Relaxed);
    let live = LIVE.load(Relaxed) + size as u64;
    LIVE.store(live, Relaxed);
    if live > PEAK.load(Relaxed) {
        PEAK.store(live, Relaxed);
    }
}

/// Notes that `size` bytes came back
#[inline]
pub fn returned(size: usize) {
    LIVE.store(LIVE.load(Relaxed).wrapping_sub(size as u64), Relaxed);
}

/// The counters now; all zero in a program without the counting allocator
#[must_use]
pub fn now() -> Heap {
    Heap {
        allocations: ALLOCATIONS.load(Relaxed),
        bytes: BYTES.load(Relaxed),
        live: LIVE.load(Relaxed),
        peak: PEAK.load(Relaxed),
    }
}

/// Lets the peak begin anew at what is held now
pub fn restart_peak() {
    PEAK.store(LIVE.load(Relaxed), Relaxed);
}
