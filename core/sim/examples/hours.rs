//! Runs worlds of one kind until the time is over: `hours pipe|http|http-sse|events SECONDS FIRST_SEED`. The kind is a binding, or `events` on
//! a byte stream and over HTTP. `tests/worlds` counts its hours.
//!
//! Prints the number of runs. A world that violates an invariant is reduced, and printed as a test behind its seed.

use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use mcp_proto::{Version, VersionSet};
use mcp_sim::{Binding, Marks, Plan, search};

/// Most runs in which a world that violates an invariant is reduced.
const ATTEMPTS: usize = 20_000;

/// Returns the application of a seed, and how it is written: each set of revisions of clients meets each one of servers. Over HTTP+SSE
/// every client speaks the revision of it, without which it would find no server.
fn application(binding: Binding, seed: u64) -> (Marks, String) {
    let all = [(VersionSet::ALL, "ALL".to_owned()), (VersionSet::LEGACY, "LEGACY".to_owned())];
    let one = |version| (VersionSet::only(version), format!("only(mcp_proto::Version::{version:?})"));
    let sets: Vec<_> = all.into_iter().chain(Version::ALL.map(one)).collect();
    let count = u64::try_from(sets.len()).unwrap_or(1);
    let set = |n: u64| &sets[usize::try_from(n % count).unwrap_or(0)];
    let ((client_versions, client), (server_versions, server)) = (set(seed), set(seed / count));
    let (client_versions, more) = match binding {
        Binding::HttpSse => {
            (client_versions.with(Version::V2024_11_05), ".with(mcp_proto::Version::V2024_11_05)")
        }
        _ => (*client_versions, ""),
    };
    let text = format!(
        "mcp_sim::Marks {{ client_versions: mcp_proto::VersionSet::{client}{more}, server_versions: mcp_proto::VersionSet::{server} }}"
    );
    (Marks { client_versions, server_versions: *server_versions }, text)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, seconds, seed] = &arguments[..] else {
        eprintln!("usage: hours pipe|http|http-sse|events SECONDS FIRST_SEED");
        return ExitCode::from(2);
    };
    let (Ok(seconds), Ok(first)) = (seconds.parse(), seed.parse::<u64>()) else {
        eprintln!("SECONDS and FIRST_SEED are numbers");
        return ExitCode::from(2);
    };
    let plans: &[Plan] = match &**kind {
        "pipe" => &[Plan::CALM, Plan::STORM, Plan::TIGHT, Plan::STORM.max_memory(16 << 10)],
        "http" => {
            &[Plan::HTTP_CALM, Plan::HTTP_STORM, Plan::HTTP_TIGHT, Plan::HTTP_STORM.max_memory(32 << 10)]
        }
        "http-sse" => &[
            Plan::HTTP_SSE_CALM,
            Plan::HTTP_SSE_STORM,
            Plan::HTTP_SSE_TIGHT,
            Plan::HTTP_SSE_STORM.max_memory(32 << 10),
        ],
        "events" => &[Plan::EVENTS, Plan::HTTP_EVENTS, Plan::TIGHT.events(60), Plan::HTTP_TIGHT.events(60)],
        other => {
            eprintln!("there is no kind {other:?}");
            return ExitCode::from(2);
        }
    };
    let (begun, mut runs) = (Instant::now(), 0);
    let mut seed = first;
    while begun.elapsed() < Duration::from_secs(seconds) {
        for plan in plans {
            let (application, text) = application(plan.binding, seed);
            // Every second world over HTTP has the bytes of HTTP/1.1.
            let plan = plan.http1(plan.binding != Binding::Pipe && seed % 2 == 1);
            if let Some(failure) = search([seed], plan, ATTEMPTS, || application) {
                println!("seed {seed}\n{:?}\n{}", failure.violation, failure.to_test(&text));
                return ExitCode::FAILURE;
            }
            runs += 1;
        }
        seed = seed.wrapping_add(1);
    }
    println!("runs {runs}");
    ExitCode::SUCCESS
}
