//! High-water mark of the stack: it is painted at the start, and what has lost its paint was used.

const PAINT: u32 = 0xC5C5_C5C5;
/// Bytes below the present top of the stack that are not painted, because this code uses them.
const MARGIN: usize = 256;

/// Paints the stack from its end to where it is used now.
///
/// # Safety
///
/// `[low, high)` is the region of the stack, which nothing else uses. No interrupt occurs meanwhile.
#[inline(never)]
pub unsafe fn paint(low: usize) {
    let here = 0u32;
    let mut at = low.next_multiple_of(4);
    let end = (&raw const here) as usize - MARGIN;
    while at < end {
        // SAFETY: the word is below all frames in use, and the caller says that it belongs to the stack.
        unsafe { (at as *mut u32).write_volatile(PAINT) };
        at += 4;
    }
}

/// Returns the most bytes of the stack `[low, high)` that were ever in use.
///
/// # Safety
///
/// As for [`paint`], which was called.
pub unsafe fn peak(low: usize, high: usize) -> usize {
    let mut at = low.next_multiple_of(4);
    // SAFETY: the words belong to the stack.
    while at < high && unsafe { (at as *const u32).read_volatile() } == PAINT {
        at += 4;
    }
    high - at
}
