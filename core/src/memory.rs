//! Memory that is asked for before it is needed, so that a full heap refuses a request and ends nothing else.
//!
//! Where input or a result decides about a size, the allocator is asked first (`DESIGN-67`). Small tables are not:
//! [`Limits::memory_reserve`](crate::Limits::memory_reserve) keeps room for them.

mod account;

pub(crate) use account::{Charge, LONG, MemoryAccount, STEP};

use alloc::vec::Vec;
use core::hint::black_box;

use bytes::{Buf as _, Bytes, BytesMut};

/// Longest block of which no part is copied.
const MAX_SHARED_BLOCK: usize = 2 * STEP;

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

/// Splits the first `length` bytes off a buffer whose block has `allocated` bytes, and returns them with the bytes that they keep.
///
/// Of a long block less than `kept` bytes are copied: they may be held for long, and would keep the whole.
#[inline]
pub(crate) fn split_front(
    buf: &mut BytesMut,
    length: usize,
    allocated: usize,
    kept: usize,
) -> (Bytes, usize) {
    // Where nothing is counted, memory is too short for a copy.
    if cfg!(not(target_os = "none")) && allocated > MAX_SHARED_BLOCK && length < kept {
        if let Some(copy) = copy_front(buf, length) {
            return (copy, length);
        }
    }
    (buf.split_to(length).freeze(), allocated)
}

#[cold]
#[inline(never)]
fn copy_front(buf: &mut BytesMut, length: usize) -> Option<Bytes> {
    let (front, mut copy) = (buf.get(..length)?, Vec::new());
    copy.try_reserve_exact(length).ok()?;
    copy.extend_from_slice(front);
    buf.advance(length);
    Some(copy.into())
}
