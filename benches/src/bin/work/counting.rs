//! A counting wrapper of the system allocator, the only `unsafe` code of the packages in this workspace.

use core::alloc::{GlobalAlloc, Layout};
use std::alloc::System;

use mcp_benches::heap;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct CountingAllocator;

// SAFETY: every request is passed unchanged to the system allocator, which keeps the contract. The counters neither
// allocate nor touch the memory.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        heap::record_alloc(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        heap::record_free(layout.size());
        // SAFETY: `block` came from the system allocator with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        heap::record_alloc(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        heap::record_free(layout.size());
        heap::record_alloc(size);
        // SAFETY: `block` came from the system allocator with this layout.
        unsafe { System.realloc(block, layout, size) }
    }
}
