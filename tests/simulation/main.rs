//! Random schedules from seeds, on virtual time: whatever happens in whatever order, a few things always hold.
//!
//! * Every call ends exactly once, on both sides, and nothing is told after the end of a connection.
//! * Every message that our side emits is legal; none answers what was not asked.
//! * What is kept in memory stays within the limits.
//! * A seed gives the same run each time.
//!
//! `MCP_SIM_SEED=7` repeats one run, `MCP_SIM_RUNS=10000` makes more of them.

extern crate alloc;

mod both;
mod client;
mod hostile;
mod server;
mod talk;

use core::panic::AssertUnwindSafe;
use std::{env, panic};

use mcp_proto::Limits;
use mcp_tests::harness::Rng;

/// Runs `test` for each seed and says which one failed
fn for_each_seed(name: &str, default: u64, test: impl Fn(u64) -> String) {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seeds = match number("MCP_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MCP_SIM_RUNS").unwrap_or(default),
    };
    for seed in seeds {
        let run = || panic::catch_unwind(AssertUnwindSafe(|| test(seed)));
        let repeat = seed % 8 == 0;
        match run() {
            Err(failure) => {
                eprintln!("{name} failed; to repeat it: MCP_SIM_SEED={seed}");
                panic::resume_unwind(failure);
            }
            Ok(story) if repeat => {
                let again = run().expect("it went well before");
                assert!(story == again, "{name}: two runs of seed {seed} differ:\n{story}\n----\n{again}");
            }
            Ok(_) => {}
        }
    }
}

/// Limits that are reached within a short run
fn tight(rng: &mut Rng) -> Limits {
    let mut limits = Limits::default();
    limits.max_frame = 4_096;
    limits.max_live_calls = 1 + u32::try_from(rng.below(6)).unwrap_or(0);
    limits.max_waiting = 1 + rng.below(5);
    limits.max_waiting_bytes = 200 + rng.below(4_000);
    limits.max_pending_calls = 4 + u32::try_from(rng.below(30)).unwrap_or(0);
    limits.max_queued_bytes = 2_000;
    limits.outbox_mark = 200 + rng.below(4_000);
    limits.max_batch = 1 + rng.below(6);
    limits.max_batch_bytes = 500 + rng.below(2_000);
    limits.max_peer_info = 2_000;
    limits.tap_records = rng.below(20);
    limits.tap_bytes = 4_096;
    limits
}

/// Memory that a side under [`tight`] limits has no reason to pass, seen by how long it is when it is printed
///
/// Bytes are printed as up to four characters; what is too long to keep is not kept.
const MUCH: usize = 500_000;

fn stays_small(side: &impl core::fmt::Debug) {
    let size = format!("{side:?}").len();
    assert!(size < MUCH, "{size}: {side:?}");
}
