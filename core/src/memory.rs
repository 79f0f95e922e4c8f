//! Memory that is asked for before it is needed, so that a full heap refuses a request and ends nothing else.
//!
//! Where input or a result decides about a size, the allocator is asked first (`DESIGN-67`). Small tables are not:
//! [`Limits::memory_reserve`](crate::Limits::memory_reserve) keeps room for them.

mod account;

pub(crate) use account::{Charge, LONG, MemoryAccount, STEP};

use alloc::vec::Vec;
use core::hint::black_box;

/// Returns whether the allocator has `bytes` in one piece.
///
/// Nothing else may allocate between this and the use of the memory, which holds on a device with one thread.
#[cold]
pub(crate) fn is_available(bytes: usize) -> bool {
    hold(bytes).is_some()
}

/// Memory that is kept from other uses.
pub(crate) struct Held {
    _block: Vec<u8>,
}

impl Held {
    pub(crate) const NONE: Self = Self { _block: Vec::new() };
}

/// Takes `bytes` in one piece, so that what grows meanwhile leaves them free. Returns `None` if they are not free.
#[cold]
pub(crate) fn hold(bytes: usize) -> Option<Held> {
    let mut block = Vec::new();
    block.try_reserve_exact(bytes).ok()?;
    // The compiler may remove an allocation that nothing uses, and assume that it succeeds.
    black_box(&mut block);
    Some(Held { _block: block })
}

/// Makes room for `more` bytes at the end of a buffer, in exactly their size if it cannot have twice that. Returns
/// whether there is room.
#[inline]
pub(crate) fn reserve(out: &mut Vec<u8>, more: usize) -> bool {
    out.capacity() - out.len() >= more || grow(out, more)
}

#[cold]
#[inline(never)]
fn grow(out: &mut Vec<u8>, more: usize) -> bool {
    out.try_reserve(more).is_ok() || out.try_reserve_exact(more).is_ok()
}
