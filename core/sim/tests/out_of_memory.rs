//! Worlds in which memory runs out for a while, by the allocator of this program.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ptr;
use std::alloc::System;

use mcp_proto::server::Call;
use mcp_proto::{RawJson, RpcError, client, server};
use mcp_sim::{Application, Draws, Marks, Plan, What, World, search};

/// The allocator of the system. Blocks of the size of the reserve, to which nothing is ever written, take no memory: they are refused
/// while the thread is out of memory.
struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

thread_local! {
    static IS_OUT: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: the blocks are those of the system's allocator, but for those that only ask whether there is room.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= Plan::MEMORY_RESERVE {
            let room = ptr::without_provenance_mut(layout.align());
            return if IS_OUT.get() { ptr::null_mut() } else { room };
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() < Plan::MEMORY_RESERVE {
            // SAFETY: as above.
            unsafe { System.dealloc(block, layout) };
        }
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

    fn set_out_of_memory(&mut self, is_out: bool) {
        IS_OUT.set(is_out);
    }
}

fn runs() -> u64 {
    let default = if std::env::var_os("MCP_TEST_FULL").is_some() { 400 } else { 60 };
    std::env::var("MCP_SIM_RUNS").map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn nothing_is_lost_while_there_is_no_memory() {
    let plans = [Plan::CALM, Plan::STORM, Plan::TIGHT, Plan::HTTP_CALM, Plan::HTTP_STORM, Plan::HTTP_TIGHT];
    for plan in plans {
        if let Some(failure) = search(0..runs(), plan.out_of_memory(12), 2_000, || WithHeap) {
            panic!("{:?}\n{}", failure.violation, failure.to_test("WithHeap"));
        }
    }
}

/// Without faults, calls fail for lack of memory, and none before it has run out.
#[test]
fn calls_are_refused_for_lack_of_memory() {
    for plan in [Plan::CALM, Plan::HTTP_CALM] {
        let (mut refused, mut results) = (0, 0);
        for seed in 0..20 {
            let report = World::new(seed, plan.out_of_memory(6), WithHeap).run();
            assert_eq!(report.violation, None);
            let mut has_run_out = false;
            for entry in report.log {
                match entry.what {
                    What::Fault { text } => has_run_out |= text == "out of memory",
                    What::Ended { outcome, .. } if outcome.contains("content") => results += 1,
                    What::Ended { outcome, .. } if outcome.contains("memory") => {
                        assert!(has_run_out, "seed {seed}: {outcome}");
                        refused += 1;
                    }
                    _ => {}
                }
            }
            assert!(!IS_OUT.get());
        }
        assert!(refused > 20 && results > 100, "{plan:?}: {refused} refused, {results} results");
    }
}
