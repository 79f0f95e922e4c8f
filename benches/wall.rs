//! Wall time of the scenarios: `cargo bench -p mcp-benches`.

use core::time::Duration;

use criterion::{Criterion, Throughput};
use mcp_benches::scenario::{FloorReadEvents, ReadEvents, Scenario as _, named};

/// What is small is measured as it is, what is large as bytes per second
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
            let mut scenario = named(&name).expect("a scenario of this name");
            c.bench_function(&name, |b| b.iter(|| scenario.op()));
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
        let mut scenario = named(name).expect("a scenario of this name");
        c.bench_function(name, |b| b.iter(|| scenario.op()));
    }
    let mut group = c.benchmark_group("large");
    group.throughput(Throughput::Bytes(10_000_000)).sample_size(20);
    for name in ["floor-large-legacy", "large-legacy"] {
        let mut scenario = named(name).expect("a scenario of this name");
        group.bench_function(name, |b| b.iter(|| scenario.op()));
    }
    group.finish();
    let mut group = c.benchmark_group("sse");
    for cut in ["whole", "1460", "7", "1"] {
        let stream = format!("small-{cut}");
        let mut ours = ReadEvents::named(&stream).expect("a stream of this name");
        let mut floor = FloorReadEvents::named(&stream).expect("a stream of this name");
        group.throughput(Throughput::Bytes(ours.size() as u64)).sample_size(20);
        group.bench_function(format!("floor-{stream}"), |b| b.iter(|| floor.op()));
        group.bench_function(stream, |b| b.iter(|| ours.op()));
    }
}

fn main() {
    let times =
        Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    let mut criterion = times.configure_from_args();
    scenarios(&mut criterion);
    criterion.final_summary();
}
