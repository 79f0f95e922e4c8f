//! Wall time of the scenarios: `cargo bench -p mcp-benches`.

use core::time::Duration;

use criterion::{Criterion, Throughput};
use mcp_benches::scenario::named;

/// What is small is measured as it is, what is large as bytes per second
fn scenarios(c: &mut Criterion) {
    for kind in ["floor-envelope", "envelope", "floor-core", "core", "round-trip"] {
        for era in ["legacy", "modern"] {
            let name = format!("{kind}-{era}");
            let mut scenario = named(&name).expect("a scenario of this name");
            c.bench_function(&name, |b| b.iter(|| scenario.op()));
        }
    }
    for name in ["seal", "open"] {
        let mut scenario = named(name).expect("a scenario of this name");
        c.bench_function(name, |b| b.iter(|| scenario.op()));
    }
    let mut group = c.benchmark_group("large");
    group.throughput(Throughput::Bytes(10_000_000)).sample_size(20);
    for name in ["floor-large-legacy", "large-legacy"] {
        let mut scenario = named(name).expect("a scenario of this name");
        group.bench_function(name, |b| b.iter(|| scenario.op()));
    }
}

fn main() {
    let times =
        Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    let mut criterion = times.configure_from_args();
    scenarios(&mut criterion);
    criterion.final_summary();
}
