//! Random schedules from seeds, on virtual time. These invariants hold in any order of events:
//!
//! * Every call ends exactly once on both sides, and no event follows the end of a connection.
//! * Every emitted message is valid, and every response answers a request.
//! * Memory stays within the limits.
//! * Equal seeds give equal runs.
//!
//! `MCP_SIM_SEED=7` repeats one run, `MCP_SIM_RUNS=10000` makes more runs.

mod client;
mod engine;
mod hostile_input;
mod pair;
mod server;
mod worlds;

use core::panic::AssertUnwindSafe;
use std::{env, panic};

use mcp_proto::Limits;
use mcp_tests::harness::{Rng, rounds};

/// Runs `test` for each seed and prints the seed of a failure.
fn for_each_seed(name: &str, default: u64, test: impl Fn(u64) -> String) {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seeds = match number("MCP_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MCP_SIM_RUNS").unwrap_or_else(|| rounds(default)),
    };
    for seed in seeds {
        let run = || panic::catch_unwind(AssertUnwindSafe(|| test(seed)));
        let repeat = seed % 8 == 0;
        match run() {
            Err(failure) => {
                eprintln!("{name} failed; to repeat it: MCP_SIM_SEED={seed}");
                panic::resume_unwind(failure);
            }
            Ok(transcript) if repeat => {
                let repeated = run().expect("the same outcome as before");
                assert!(
                    transcript == repeated,
                    "{name}: two runs of seed {seed} differ:\n{transcript}\n----\n{repeated}"
                );
            }
            Ok(_) => {}
        }
    }
}

/// Returns limits that are reached within a short run.
fn tight_limits(rng: &mut Rng) -> Limits {
    let mut limits = Limits::default();
    limits.max_frame = 4_096;
    limits.max_live_calls = 1 + u32::try_from(rng.below(6)).unwrap_or(0);
    limits.max_waiting_requests = 1 + rng.below(5);
    limits.max_waiting_bytes = 200 + rng.below(4_000);
    limits.max_pending_calls = 4 + u32::try_from(rng.below(30)).unwrap_or(0);
    limits.max_queued_bytes = 2_000;
    limits.outbox_high_water = 200 + rng.below(4_000);
    limits.max_batch = 1 + rng.below(6);
    limits.max_batch_bytes = 500 + rng.below(2_000);
    limits.max_peer_info = 2_000;
    limits.tap_records = rng.below(20);
    limits.tap_bytes = 4_096;
    limits
}

/// Bound on the memory of a side under [`tight_limits`], measured by the length of its debug output.
///
/// A byte is printed as up to four characters.
const MAX_DEBUG_LEN: usize = 500_000;

fn assert_bounded(side: &impl core::fmt::Debug) {
    let size = format!("{side:?}").len();
    assert!(size < MAX_DEBUG_LEN, "{size}: {side:?}");
}
