//! Heap counters, updated by the allocator of the measuring program.
//!
//! The counters are here and the allocator, which needs `unsafe`, is in the program, so that scenarios can read them.
//! They are for single-threaded use: they are atomics only because statics must be.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

/// Values of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapStats {
    /// Number of allocations and reallocations.
    pub allocations: u64,
    /// Number of requested bytes.
    pub bytes: u64,
    /// Bytes in use.
    pub live: u64,
    /// Largest number of bytes in use since [`restart_peak`].
    pub peak: u64,
}

/// Records that `size` bytes were allocated.
#[inline]
pub fn record_alloc(size: usize) {
    ALLOCATIONS.store(ALLOCATIONS.load(Relaxed) + 1, Relaxed);
    BYTES.store(BYTES.load(Relaxed) + size as u64, Relaxed);
    let live = LIVE.load(Relaxed) + size as u64;
    LIVE.store(live, Relaxed);
    if live > PEAK.load(Relaxed) {
        PEAK.store(live, Relaxed);
    }
}

/// Records that `size` bytes were freed.
#[inline]
pub fn record_free(size: usize) {
    LIVE.store(LIVE.load(Relaxed).wrapping_sub(size as u64), Relaxed);
}

/// Returns the counters; all zero in a program without the counting allocator.
#[must_use]
pub fn snapshot() -> HeapStats {
    HeapStats {
        allocations: ALLOCATIONS.load(Relaxed),
        bytes: BYTES.load(Relaxed),
        live: LIVE.load(Relaxed),
        peak: PEAK.load(Relaxed),
    }
}

/// Restarts the peak at the bytes in use now.
pub fn restart_peak() {
    PEAK.store(LIVE.load(Relaxed), Relaxed);
}
