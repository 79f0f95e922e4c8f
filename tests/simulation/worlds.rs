//! Worlds of `mcp-sim`, whose messages are compared with the schemas of their revisions: nothing that a revision forbids is sent.

use alloc::collections::{BTreeMap, BTreeSet};

use mcp_proto::{Version, VersionSet};
use mcp_sim::{Binding, Entry, Lane, Marks, Plan, What, World};
use mcp_tests::harness::MessageObserver;
use mcp_tests::schema::MessageDirection;
use serde_json::Value;

use super::for_each_seed;

const PLANS: [Plan; 6] = [
    Plan::STORM,
    Plan::TIGHT,
    Plan::HTTP_STORM,
    Plan::HTTP_TIGHT.http1(true),
    Plan::HTTP_SSE_STORM.http1(true),
    Plan::HTTP_SSE_TIGHT,
];

fn version_sets() -> [VersionSet; 7] {
    let [a, b, c, d, e] = Version::ALL.map(VersionSet::only);
    [VersionSet::ALL, VersionSet::LEGACY, a, b, c, d, e]
}

/// A refusal of HTTP answers no message: it has an error alone.
fn is_refusal(message: &Value) -> bool {
    message.is_object() && message.get("id").is_none() && message.get("error").is_some()
}

/// A batch of a foreign line is refused as one, whatever revision the client of the connection has.
fn answers_foreign_batch(message: &Value) -> bool {
    let is_foreign = |m: &Value| m["id"].as_str().is_some_and(|id| id.starts_with("foreign-"));
    message.as_array().is_some_and(|messages| messages.iter().any(is_foreign))
}

fn observe(log: &[Entry], server_versions: VersionSet) {
    let (mut observers, mut responses) = (BTreeMap::new(), BTreeSet::new());
    for entry in log {
        let (direction, n) = match entry.lane {
            Lane::Client(n) => (MessageDirection::ClientToServer, n),
            Lane::Server(n) => (MessageDirection::ServerToClient, n),
            _ => continue,
        };
        let new = || MessageObserver::new(server_versions);
        if entry.what == What::Started && direction == MessageDirection::ClientToServer {
            observers.insert(n, new());
        }
        let observer = observers.entry(n).or_insert_with(new);
        match &entry.what {
            What::Sent { line } => {
                let message: Value = serde_json::from_str(line).expect("an emitted message");
                // Over HTTP a client repeats a response that may not have arrived.
                let is_repeated = direction == MessageDirection::ClientToServer
                    && message.get("method").is_none()
                    && !responses.insert((n, line));
                if !is_repeated && !is_refusal(&message) && !answers_foreign_batch(&message) {
                    observer.record_emitted(entry.at, direction, line.as_bytes());
                }
            }
            What::Injected { line } => observer.record_fed(entry.at, direction, line.as_bytes()),
            _ => {}
        }
    }
}

#[test]
fn messages_of_any_world_match_their_schemas() {
    for_each_seed("a world", 100, |seed| {
        let sets = version_sets();
        let set = |n: u64| sets[usize::try_from(n).unwrap_or(0) % sets.len()];
        let mut decisions = String::new();
        for plan in PLANS {
            let mut client_versions = set(seed);
            if plan.binding == Binding::HttpSse {
                // Without it, a client looks for no server there.
                client_versions = client_versions.with(Version::V2024_11_05);
            }
            let application = Marks { client_versions, server_versions: set(seed / 3) };
            let report = World::new(seed, plan, application).run();
            assert_eq!(report.violation, None, "{plan:?}, {application:?}");
            observe(&report.log, application.server_versions);
            decisions += &format!("{:?}", report.decisions);
        }
        decisions
    });
}
