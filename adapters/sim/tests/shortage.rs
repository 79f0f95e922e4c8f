//! Worlds in which memory is short at times, by the allocator of this program.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;

use mcp_proto::server::Call;
use mcp_proto::{RawJson, RpcError, client, server};
use mcp_sim::{Application, Draws, Marks, Plan, What, World, search};

/// The allocator of the system, which refuses large blocks while the heap of the thread is full.
struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

thread_local! {
    static IS_FULL: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: the blocks are those of the system's allocator.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= Plan::HEAP_RESERVE && IS_FULL.get() {
            return core::ptr::null_mut();
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) };
    }
}

/// [`Marks`], with that allocator.
#[derive(Debug)]
struct WithHeap;

impl Application for WithHeap {
    fn client(&self) -> client::Config {
        Marks::ALL.client()
    }

    fn server(&self) -> server::Config {
        Marks::ALL.server()
    }

    fn request(&mut self, mark: &str, draws: &mut Draws) -> (String, RawJson) {
        { Marks::ALL }.request(mark, draws)
    }

    fn answer(&mut self, call: &Call) -> Result<RawJson, RpcError> {
        { Marks::ALL }.answer(call)
    }

    fn check(&self, mark: &str, result: &RawJson) -> Result<(), String> {
        Marks::ALL.check(mark, result)
    }

    fn set_heap_full(&mut self, is_full: bool) {
        IS_FULL.set(is_full);
    }
}

fn runs() -> u64 {
    let default = if std::env::var_os("MCP_TEST_FULL").is_some() { 400 } else { 60 };
    std::env::var("MCP_SIM_RUNS").map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn nothing_is_lost_while_memory_is_short() {
    let plans = [Plan::CALM, Plan::STORM, Plan::TIGHT, Plan::HTTP_CALM, Plan::HTTP_STORM, Plan::HTTP_TIGHT];
    for plan in plans {
        if let Some(failure) = search(0..runs(), plan.shortage(12), 2_000, || WithHeap) {
            panic!("{:?}\n{}", failure.violation, failure.to_test("WithHeap"));
        }
    }
}

/// Calls are refused while memory is short, and others before and after that have results.
#[test]
fn calls_are_refused_while_memory_is_short_and_only_then() {
    for plan in [Plan::CALM, Plan::HTTP_CALM] {
        let (mut refused, mut results) = (0, 0);
        for seed in 0..20 {
            let report = World::new(seed, plan.shortage(6), WithHeap).run();
            assert_eq!(report.violation, None);
            let is_short = |entry: &mcp_sim::Entry| matches!(&entry.what, What::Fault { text } if text == "memory is short");
            let first = report.log.iter().position(is_short).unwrap_or(report.log.len());
            for (at, entry) in report.log.iter().enumerate() {
                let What::Ended { outcome, .. } = &entry.what else { continue };
                let is_result = outcome.contains("content");
                assert!(
                    is_result
                        || at > first
                        || outcome.contains("cancelled")
                        || outcome.contains("does not exist"),
                    "seed {seed}: {outcome}"
                );
                if is_result { results += 1 } else { refused += 1 }
            }
            assert!(!IS_FULL.get());
        }
        assert!(refused > 20 && results > 100, "{plan:?}: {refused} refused, {results} results");
    }
}
