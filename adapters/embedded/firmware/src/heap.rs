//! The heap: a fixed region, and a list of its holes.
//!
//! What is too large for every hole is refused: `alloc` returns null. The core asks before it takes memory for input, so
//! that a refusal costs the request alone; everything else that allocates ends in the handler of allocation errors.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::{RefCell, UnsafeCell};
use core::ptr::{NonNull, null_mut};

use critical_section::Mutex;

/// Granularity and alignment of blocks: a hole has to fit into each.
const UNIT: usize = 2 * size_of::<usize>();

/// Free memory, in the order of addresses. Two holes never touch.
struct Hole {
    bytes: usize,
    next: Option<NonNull<Hole>>,
}

/// Use of the heap in bytes, since the beginning or the last [`Heap::reset_marks`].
#[derive(Clone, Copy)]
pub struct Marks {
    /// Bytes in use.
    pub used: usize,
    /// Most bytes that were in use at once.
    pub peak: usize,
    /// Requests that were refused.
    pub refused: usize,
    /// Largest request that was refused.
    pub largest_refused: usize,
}

struct State {
    first: Option<NonNull<Hole>>,
    is_ready: bool,
    marks: Marks,
}

// SAFETY: the pointers are to memory that only this state hands out, and it is used in critical sections.
unsafe impl Send for State {}

/// A first-fit allocator of `N` bytes that joins neighbouring holes.
pub struct Heap<const N: usize> {
    memory: Memory<N>,
    state: Mutex<RefCell<State>>,
}

#[repr(align(16))]
struct Memory<const N: usize>(UnsafeCell<[u8; N]>);

// SAFETY: the state decides which part belongs to whom, and is used in critical sections.
unsafe impl<const N: usize> Sync for Memory<N> {}

impl<const N: usize> Heap<N> {
    /// Creates a heap that is all free.
    pub const fn new() -> Self {
        let marks = Marks { used: 0, peak: 0, refused: 0, largest_refused: 0 };
        Self {
            memory: Memory(UnsafeCell::new([0; N])),
            state: Mutex::new(RefCell::new(State { first: None, is_ready: false, marks })),
        }
    }

    /// Returns the use of the heap.
    pub fn marks(&self) -> Marks {
        critical_section::with(|cs| self.state.borrow_ref(cs).marks)
    }

    /// Lets the marks begin at the present use.
    pub fn reset_marks(&self) {
        critical_section::with(|cs| {
            let marks = &mut self.state.borrow_ref_mut(cs).marks;
            *marks = Marks { peak: marks.used, refused: 0, largest_refused: 0, ..*marks };
        });
    }

    fn with<R>(&self, use_state: impl FnOnce(&mut State) -> R) -> R {
        critical_section::with(|cs| {
            let mut state = self.state.borrow_ref_mut(cs);
            if !state.is_ready {
                state.is_ready = true;
                let whole = self.memory.0.get().cast::<u8>();
                // SAFETY: nothing was handed out yet, so the region is free; it is aligned to 16, and `N` is a multiple of
                // `UNIT` after rounding down.
                unsafe { state.release(whole, N / UNIT * UNIT) };
            }
            use_state(&mut state)
        })
    }
}

/// Returns the bytes of the block for a layout.
const fn block_bytes(bytes: usize) -> usize {
    (if bytes == 0 { 1 } else { bytes }).saturating_add(UNIT - 1) / UNIT * UNIT
}

impl State {
    /// Takes a block of the first hole that is large enough.
    fn take(&mut self, bytes: usize) -> *mut u8 {
        let mut link = &mut self.first;
        while let Some(mut at) = *link {
            // SAFETY: holes of the list are valid, and no other reference to them exists in this critical section.
            let hole = unsafe { at.as_mut() };
            if hole.bytes < bytes {
                link = &mut hole.next;
                continue;
            }
            let rest = hole.bytes - bytes;
            if rest == 0 {
                *link = hole.next;
                return at.as_ptr().cast();
            }
            hole.bytes = rest;
            // The end of the hole, so that the list stays as it is.
            return at.as_ptr().cast::<u8>().wrapping_add(rest);
        }
        null_mut()
    }

    /// Takes the `bytes` behind a block, if they are the beginning of a hole.
    fn take_behind(&mut self, end: *mut u8, bytes: usize) -> bool {
        let mut link = &mut self.first;
        while let Some(mut at) = *link {
            // SAFETY: as in `take`.
            let hole = unsafe { at.as_mut() };
            if at.as_ptr().cast::<u8>() != end {
                link = &mut hole.next;
                continue;
            }
            if hole.bytes < bytes {
                return false;
            }
            let (rest, next) = (hole.bytes - bytes, hole.next);
            *link = if rest == 0 {
                next
            } else {
                let moved = end.wrapping_add(bytes).cast::<Hole>();
                // SAFETY: the address is within the hole and a multiple of `UNIT`, so there is room for a `Hole`.
                unsafe { moved.write(Hole { bytes: rest, next }) };
                NonNull::new(moved)
            };
            return true;
        }
        false
    }

    /// Returns a block to the list, and joins it with the holes that touch it.
    ///
    /// # Safety
    ///
    /// The block is of this heap, `bytes` long, a multiple of `UNIT`, and not in use.
    unsafe fn release(&mut self, block: *mut u8, bytes: usize) {
        let mut link = &mut self.first;
        let mut before: Option<NonNull<Hole>> = None;
        while let Some(mut at) = *link {
            if at.as_ptr().cast::<u8>() > block {
                break;
            }
            before = Some(at);
            // SAFETY: as in `take`.
            link = unsafe { &mut at.as_mut().next };
        }
        let (mut bytes, mut next) = (bytes, *link);
        if let Some(after) = next.filter(|after| block.wrapping_add(bytes) == after.as_ptr().cast()) {
            // SAFETY: as in `take`.
            let after = unsafe { after.as_ref() };
            bytes += after.bytes;
            next = after.next;
        }
        if let Some(mut before) = before {
            // SAFETY: as in `take`; `link` is not used any more.
            let before = unsafe { before.as_mut() };
            if core::ptr::from_mut(before).cast::<u8>().wrapping_add(before.bytes) == block {
                before.bytes += bytes;
                before.next = next;
                return;
            }
        }
        let hole = block.cast::<Hole>();
        // SAFETY: the caller gives the block up; it is aligned to `UNIT` and has room for a `Hole`.
        unsafe { hole.write(Hole { bytes, next }) };
        *link = NonNull::new(hole);
    }

    fn refuse(&mut self, bytes: usize) -> *mut u8 {
        self.marks.refused += 1;
        self.marks.largest_refused = self.marks.largest_refused.max(bytes);
        null_mut()
    }

    fn count(&mut self, taken: usize) {
        self.marks.used += taken;
        self.marks.peak = self.marks.peak.max(self.marks.used);
    }
}

// SAFETY: blocks are within the region, aligned to `UNIT`, and belong to one owner until they are released. Critical
// sections keep interrupts out, and there is one core.
unsafe impl<const N: usize> GlobalAlloc for Heap<N> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let bytes = block_bytes(layout.size());
        self.with(|state| {
            let block = if layout.align() > UNIT { null_mut() } else { state.take(bytes) };
            if block.is_null() {
                return state.refuse(bytes);
            }
            state.count(bytes);
            block
        })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let bytes = block_bytes(layout.size());
        self.with(|state| {
            state.marks.used -= bytes;
            // SAFETY: the caller gives back a block of this layout.
            unsafe { state.release(block, bytes) };
        });
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (old, new) = (block_bytes(layout.size()), block_bytes(size));
        let is_in_place = self.with(|state| {
            if new <= old {
                if new < old {
                    state.marks.used -= old - new;
                    // SAFETY: the end of the block is given up, a multiple of `UNIT`.
                    unsafe { state.release(block.wrapping_add(new), old - new) };
                }
                return true;
            }
            let has_grown = state.take_behind(block.wrapping_add(old), new - old);
            if has_grown {
                state.count(new - old);
            }
            has_grown
        });
        if is_in_place {
            return block;
        }
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
        // SAFETY: the sizes are not 0, and the old block is given back after it was copied.
        unsafe {
            let moved = self.alloc(wanted);
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(block, layout.size().min(size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}
