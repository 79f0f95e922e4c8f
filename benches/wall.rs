//! Wall time of the scenarios: `cargo bench -p mcp-benches`.

use core::time::Duration;

use criterion::{Criterion, Throughput};
use mcp_benches::scenario::{FloorReadEvents, ReadEvents, Scenario as _, by_name};

/// Registers all scenarios: small ones by time, large ones by bytes per second.
fn scenarios(c: &mut Criterion) {
    for kind in [
        "floor-envelope",
        "envelope",
        "floor-core",
        "core",
        "round-trip",
        "raw-call",
        "typed-call",
        "typed-list",
    ] {
        for era in ["legacy", "modern"] {
            let name = format!("{kind}-{era}");
            let mut scenario = by_name(&name).expect("a scenario of this name");
            c.bench_function(&name, |b| b.iter(|| scenario.run_once()));
        }
    }
    for name in [
        "floor-read-list",
        "read-list",
        "floor-write-list",
        "write-list",
        "match-10-4",
        "match-1000-4",
        "match-1000-400",
        "seal",
        "open",
    ] {
        let mut scenario = by_name(name).expect("a scenario of this name");
        c.bench_function(name, |b| b.iter(|| scenario.run_once()));
    }
    let mut group = c.benchmark_group("large");
    group.throughput(Throughput::Bytes(10_000_000)).sample_size(20);
    for name in ["floor-large-legacy", "large-legacy"] {
        let mut scenario = by_name(name).expect("a scenario of this name");
        group.bench_function(name, |b| b.iter(|| scenario.run_once()));
    }
    group.finish();
    let mut group = c.benchmark_group("sse");
    for cut in ["whole", "1460", "7", "1"] {
        let stream = format!("small-{cut}");
        let mut events = ReadEvents::by_name(&stream).expect("a stream of this name");
        let mut floor = FloorReadEvents::by_name(&stream).expect("a stream of this name");
        group.throughput(Throughput::Bytes(events.size() as u64)).sample_size(20);
        group.bench_function(format!("floor-{stream}"), |b| b.iter(|| floor.run_once()));
        group.bench_function(stream, |b| b.iter(|| events.run_once()));
    }
}

fn main() {
    let times =
        Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    let mut criterion = times.configure_from_args();
    scenarios(&mut criterion);
    criterion.final_summary();
}
