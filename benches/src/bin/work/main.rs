//! `bench-work SCENARIO N`: runs one scenario N times and prints its heap usage.
//!
//! `bench-work WHAT-ERA N` with `idle-server`, `idle-client`, `server-in-flight`, `client-in-flight`, `server-waiting`, `sessions`,
//! `streams`, and `bench-work subscriptions-URIS N`, print the memory of each of N objects. Prints one JSON object. Instructions
//! are counted from outside: `valgrind --tool=cachegrind` with two values of N.

mod counting;

use std::process::ExitCode;
use std::time::Instant;

use mcp_benches::heap;
use mcp_benches::scenario::{
    Footprint, Scenario, by_name, client_in_flight, idle_client, idle_server, server_in_flight,
    server_waiting_for_input, session_record, sessions, subscriptions, waiting_tasks,
};
use mcp_benches::wire::WireEra;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(Ok(n))) = (args.next(), args.next().map(|n| n.parse::<usize>())) else {
        eprintln!("usage: bench-work SCENARIO N");
        return ExitCode::from(2);
    };
    if let Some(held) = memory(&name, n.max(1)) {
        println!(
            "{{\"scenario\":\"{name}\",\"n\":{n},\"heap\":{:.1},\"inline\":{}}}",
            held.heap, held.inline
        );
    } else if let Some(mut scenario) = by_name(&name) {
        work(&name, n, &mut *scenario);
        // The instructions of the allocator for a drop depend on the blocks that the operations have left.
        core::mem::forget(scenario);
    } else {
        eprintln!("unknown scenario {name}");
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}

fn work(name: &str, n: usize, scenario: &mut dyn Scenario) {
    heap::restart_peak();
    let before = heap::snapshot();
    let start = Instant::now();
    for _ in 0..n {
        scenario.run_once();
    }
    let nanos = start.elapsed().as_nanos() as f64;
    let after = heap::snapshot();
    let ops = n.max(1) as f64;
    println!(
        "{{\"scenario\":\"{name}\",\"n\":{n},\"ns\":{:.1},\"allocs\":{:.3},\"bytes\":{:.1},\"peak\":{},\"kept\":{}}}",
        nanos / ops,
        (after.allocations - before.allocations) as f64 / ops,
        (after.bytes - before.bytes) as f64 / ops,
        after.peak - before.live,
        after.live as i64 - before.live as i64,
    );
}

fn memory(name: &str, n: usize) -> Option<Footprint> {
    let (kind, era) = name.rsplit_once('-')?;
    if kind == "subscriptions" {
        return Some(subscriptions(era.parse().ok().filter(|uris| *uris < 3)?, n));
    }
    let era = WireEra::BOTH.into_iter().find(|e| e.name() == era)?;
    Some(match kind {
        "idle-server" => idle_server(era, n),
        "idle-client" => idle_client(era, n),
        "server-in-flight" => server_in_flight(era, n),
        "client-in-flight" => client_in_flight(era, n),
        "record" => session_record(),
        "sessions" => sessions(false, n),
        "streams" => sessions(true, n),
        "tasks-waiting" => waiting_tasks(era, n),
        "server-waiting" => server_waiting_for_input(era, n),
        _ => return None,
    })
}
