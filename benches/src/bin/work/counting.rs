//! The system allocator, counted: the one place of this project's packages with `unsafe`.

use core::alloc::{GlobalAlloc, Layout};
use std::alloc::System;

use mcp_benches::heap;

#[global_allocator]
static COUNTED: Counted = Counted;

struct Counted;

// SAFETY: every request goes unchanged to the system allocator, whose promises are therefore ours; the counters do not
// allocate and do not touch the memory.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        heap::taken(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        heap::returned(layout.size());
        // SAFETY: `block` came from the system allocator with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        heap::taken(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        heap::returned(layout.size());
        heap::taken(size);
        // SAFETY: `block` came from the system allocator with this layout.
        unsafe { System.realloc(block, layout, size) }
    }
}
