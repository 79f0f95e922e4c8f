//! The time of calls: `cargo test --profile measure -p mcp-redis-store speed -- --ignored --nocapture`.

use std::time::Instant;

use mcp_redis_store::session_store::{SessionName, SessionStore, Swap};

use crate::support::{LONG, Redis, watch};

#[test]
#[ignore = "prints times"]
fn time_of_calls_on_a_unix_socket() {
    let Some(server) = Redis::start(&[]) else { return };
    let store = server.store();
    let record = [7; 400];
    let names: Vec<_> = (0..=255).map(|i| SessionName([i; 32])).collect();
    let mut versions = vec![None; names.len()];
    const ROUNDS: usize = 40;
    let time = |name: &str, run: &mut dyn FnMut(usize)| {
        let mut times: Vec<_> = (0..ROUNDS * names.len())
            .map(|i| {
                let begun = Instant::now();
                run(i % names.len());
                begun.elapsed()
            })
            .collect();
        times.sort();
        println!("{name}: median {:?}, 99 % {:?}", times[times.len() / 2], times[times.len() * 99 / 100]);
    };
    time("compare_and_set", &mut |i| match store
        .compare_and_set(&names[i], versions[i], &record, LONG)
        .unwrap()
    {
        Swap::Stored(version) => versions[i] = Some(version),
        Swap::Conflict(found) => panic!("{found:?}"),
    });
    time("load", &mut |i| assert!(store.load(&names[i]).unwrap().is_some()));
    time("touch of 16", &mut |i| store.touch(&names[i & !15..][..16], LONG).unwrap());
    time("publish", &mut |_| store.publish(&record).unwrap());
    let (_watch, messages) = watch(&store);
    time("publish until it is received", &mut |_| {
        store.publish(&record).unwrap();
        messages.recv().unwrap();
    });
    time("remove", &mut |i| store.remove(&names[i]).unwrap());
}
