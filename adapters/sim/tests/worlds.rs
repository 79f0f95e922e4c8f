//! Worlds of many seeds, and a planted mistake that has to be found. `MCP_SIM_RUNS=10000` makes more runs.

use mcp_proto::server::Call;
use mcp_proto::{RawJson, RpcError, Version, VersionSet, client, server};
use mcp_sim::{Application, Draws, Marks, Plan, What, World, search};

fn runs() -> u64 {
    std::env::var("MCP_SIM_RUNS").map_or(40, |text| text.parse().expect("a number"))
}

#[test]
fn world_of_any_seed_keeps_invariants() {
    let sets =
        [VersionSet::ALL, VersionSet::LEGACY, VersionSet::MODERN, VersionSet::only(Version::V2024_11_05)];
    for client_versions in sets {
        for server_versions in sets {
            for plan in [Plan::CALM, Plan::STORM] {
                let application = || Marks { client_versions, server_versions };
                if let Some(failure) = search(0..runs().div_ceil(8), plan, 2_000, application) {
                    let application = format!("{:?}", application());
                    panic!("{:?}\n{}", failure.violation, failure.to_test(&application));
                }
            }
        }
    }
}

#[test]
fn storm_has_results_and_every_fault() {
    let mut texts = String::new();
    for seed in 0..30 {
        for entry in World::new(seed, Plan::STORM, Marks::ALL).run().log {
            match entry.what {
                What::Ended { outcome, .. } => texts += &outcome,
                What::Fault { text } => texts += &text,
                What::Died => texts += "died",
                What::Cancelled { .. } => texts += "cancelled",
                _ => {}
            }
        }
    }
    for expected in
        ["mark-", "connection ended", "died", "breaks", "clock jumps", "foreign line", "cancelled"]
    {
        assert!(texts.contains(expected), "{expected}");
    }
}

#[test]
fn decisions_of_a_run_repeat_it() {
    for seed in 0..10 {
        let report = World::new(seed, Plan::STORM, Marks::ALL).run();
        let again = World::replay(report.decisions.clone(), Plan::STORM, Marks::ALL).run();
        assert_eq!(report.decisions, again.decisions);
        assert_eq!(report.log, again.log);
    }
}

/// A server that gives the second call of a client the mark of the first one, if it is broken.
struct Cached {
    is_broken: bool,
    last: Option<RawJson>,
}

impl Application for Cached {
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
        let answer = { Marks::ALL }.answer(call)?;
        let cached = self.last.replace(answer.clone());
        Ok(cached.filter(|_| self.is_broken).unwrap_or(answer))
    }

    fn check(&self, mark: &str, result: &RawJson) -> Result<(), String> {
        Marks::ALL.check(mark, result)
    }
}

/// The test that the search below writes, compiled: it passes once the server is mended.
mod mended {
    fn cached() -> super::Cached {
        super::Cached { is_broken: false, last: None }
    }

    include!("worlds/generated.rs");
}

#[test]
fn search_of_a_mistake_reduces_it_to_a_test() {
    let broken = || Cached { is_broken: true, last: None };
    let failure = search(0..100, Plan::STORM, 2_000, broken).expect("a mistake");
    assert_eq!(failure.violation.invariant, "result_reaches_its_call");
    assert!(failure.decisions.steps.len() <= 4, "{:?}", failure.decisions);
    assert!(World::replay(failure.decisions.clone(), failure.plan, broken()).run().violation.is_some());
    let text = failure.to_test("cached()");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/worlds/generated.rs");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(path, &text).expect("a file");
    }
    assert_eq!(text, include_str!("worlds/generated.rs"), "UPDATE_GENERATED=1 writes it again");
}
