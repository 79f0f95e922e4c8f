//! The parity matrix: one client and one server run the same scenarios in every pair of revisions.
//!
//! Both applications must record the same lines, up to the rows of one table ([`differences`]).

use std::sync::OnceLock;

use mcp_proto::client::TaskPolling;
use mcp_proto::seal::Keys;
use mcp_proto::server::CustomMethod;
use mcp_proto::{Anchor, Capabilities, Capability, Era, Fault, RawJson, Version, VersionSet, server};
use mcp_tests::harness::{Chunker, LinkConfig, rounds};

use self::differences::{Allowed, AllowedDifference, ROWS, Reason, compare, published};
use self::record::{Facet, RecordLine};
use self::scenario_runner::ScenarioRunner;
use self::scenarios::{ParityScenario, all, run_random, task_scenario};
use crate::protocol::common::{client, ms};

mod differences;
mod over_http;
mod record;
mod scenario_runner;
mod scenarios;
mod tools;

/// The revision that all others are compared with.
const REFERENCE: Version = Version::V2026_07_28;
const DUAL: VersionSet = VersionSet::ALL;

/// An extension that both sides declare, and a method of it.
const TIDES: &str = "org.example/tides";
const TIDES_METHOD: &str = "tides/next";

fn with_tides(capabilities: Capabilities, settings: &str) -> Capabilities {
    capabilities.extension(TIDES, RawJson::new(settings.to_owned()).expect("JSON")).expect("an identifier")
}

fn capabilities(all: &[Capability]) -> Capabilities {
    all.iter().fold(Capabilities::new(), |some, one| some.with(*one))
}

/// Runs a scenario; returns the runner with the recorded lines, and the agreed revision.
fn run_scenario(
    scenario: &ParityScenario,
    client_versions: VersionSet,
    server_versions: VersionSet,
    cut: Chunker,
) -> (ScenarioRunner, Option<Version>) {
    run_actions(scenario, scenario.play, client_versions, server_versions, cut)
}

/// Runs `play` with the settings of a scenario.
#[expect(deprecated, reason = "tested until its removal")]
fn run_actions(
    scenario: &ParityScenario,
    play: impl FnOnce(&mut ScenarioRunner),
    client_versions: VersionSet,
    server_versions: VersionSet,
    cut: Chunker,
) -> (ScenarioRunner, Option<Version>) {
    use Capability as C;
    let declared = scenario.declares.map_or_else(
        || {
            let all = [C::SamplingTools, C::RootsListChanged, C::ElicitationForm, C::ElicitationUrl];
            with_tides(capabilities(&all), r#"{"unit":"feet"}"#)
        },
        |declares| declares(),
    );
    let offers = [
        C::ToolsListChanged,
        C::PromptsListChanged,
        C::ResourcesListChanged,
        C::ResourceSubscriptions,
        C::Logging,
    ];
    let server = server::Config::new("tide-server", "2.1.0")
        .advertise_legacy(false)
        .versions(server_versions)
        .capabilities(with_tides(capabilities(&offers), r#"{"unit":"metres"}"#))
        .custom_method(CustomMethod::new(TIDES_METHOD).of_extension(TIDES).requires_client())
        .instructions("Ask for a berth first.")
        .seal(Keys::new([7; 32]), Anchor::default());
    let client = client(client_versions)
        .custom_method("harbor/draught")
        .capabilities(declared)
        .limits((scenario.limits)());
    let client = if scenario.tasks {
        client.task_polling(TaskPolling::new().interval_range(ms(10), ms(500)))
    } else {
        client
    };
    let link = LinkConfig { chunker: cut, latency: scenario.latency, ..LinkConfig::default() };
    let mut runner = ScenarioRunner::new(client, server, link, scenario.tasks);
    if runner.pair.app.version.is_some() {
        play(&mut runner);
        assert!(runner.is_idle(), "{}: {:#?}", scenario.name, runner.pair.app);
    }
    let version = runner.pair.app.version;
    (runner, version)
}

/// Returns the rows that hold in `version`.
fn allowed_differences(version: Version) -> Vec<AllowedDifference> {
    ROWS.iter().filter(|(reason, _)| reason.holds_in(version)).copied().collect()
}

/// Returns the lines of the reference, one entry for each scenario.
fn reference() -> &'static [Vec<RecordLine>] {
    static LINES: OnceLock<Vec<Vec<RecordLine>>> = OnceLock::new();
    LINES.get_or_init(|| {
        let only = VersionSet::only(REFERENCE);
        all().iter().map(|scenario| record_scenario(scenario, only, only, Chunker::Whole)).collect()
    })
}

/// Runs a scenario with a compatible pair and returns the recorded lines.
fn record_scenario(
    scenario: &ParityScenario,
    client_versions: VersionSet,
    server_versions: VersionSet,
    cut: Chunker,
) -> Vec<RecordLine> {
    let (runner, version) = run_scenario(scenario, client_versions, server_versions, cut);
    let version = version.expect("a revision in common");
    // The newest revision that both speak.
    let common =
        VersionSet::ALL.iter().filter(|v| client_versions.contains(*v) && server_versions.contains(*v)).max();
    assert_eq!(Some(version), common);
    runner.pair.app.lines
}

/// Compares every scenario with the reference.
fn assert_parity(client_versions: VersionSet, server_versions: VersionSet, version: Version, cut: Chunker) {
    let rows = allowed_differences(version);
    for (scenario, reference) in all().iter().zip(reference()) {
        let actual = record_scenario(scenario, client_versions, server_versions, cut);
        if let Err(reason) = compare(scenario.name, reference, &actual, &rows) {
            panic!("{client_versions} with {server_versions}, cut {cut:?}: {reason}");
        }
    }
}

/// The stored lines of the reference; they detect changes that affect all revisions alike.
const REFERENCE_TEXT: &str = include_str!("reference.txt");

// covers: MRTR-014, MRTR-026, ELIC-007, ROOT-003, SUB-001, SUB-012, LOG-007, SAMP-008
#[test]
fn reference_record_matches_reference_txt() {
    let mut text = String::new();
    for (scenario, lines) in all().iter().zip(reference()) {
        text.push_str(&format!("# {}\n", scenario.name));
        lines.iter().for_each(|line| text.push_str(&format!("{line:?}\n")));
    }
    if std::env::var_os("UPDATE_PARITY").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/protocol/parity/reference.txt");
        std::fs::write(path, &text).expect("written");
        return;
    }
    for (got, want) in text.lines().zip(REFERENCE_TEXT.lines()) {
        assert_eq!(
            got, want,
            "the record differs from reference.txt; if intended, run this test with UPDATE_PARITY=1"
        );
    }
    assert_eq!(text, REFERENCE_TEXT);
}

// covers: BASE-023, MRTR-001, ELIC-006, SAMP-003, ROOT-002, RES-010, SUB-001, LOG-004, LOG-007
#[test]
fn every_compatible_pair_has_the_same_record() {
    for version in VersionSet::ALL.iter() {
        let only = VersionSet::only(version);
        assert_parity(only, only, version, Chunker::Whole);
        assert_parity(DUAL, only, version, Chunker::Whole);
        assert_parity(only, DUAL, version, Chunker::Whole);
    }
    assert_parity(DUAL, DUAL, REFERENCE, Chunker::Whole);
    assert_parity(VersionSet::LEGACY, DUAL, Version::V2025_11_25, Chunker::Whole);
    assert_parity(DUAL, VersionSet::LEGACY, Version::V2025_11_25, Chunker::Whole);
}

// covers: TASK-009, TASK-018, TASK-021, TASK-022, TASK-105, TASK-112, TASK-117
#[test]
fn tool_has_the_same_record_as_a_call_and_as_a_task() {
    let (as_task, plain) = (task_scenario(), ParityScenario { tasks: false, ..task_scenario() });
    for version in VersionSet::ALL.iter() {
        let only = VersionSet::only(version);
        // A task numbers the keys of its questions, which are never used twice (TASK-120).
        let rows = [Facet::Stamps, Facet::Purpose].map(|facet| {
            (Reason::Only(version, "keys of questions, stamps of results"), Allowed::Differs(facet))
        });
        let [plain, as_task] =
            [&plain, &as_task].map(|scenario| record_scenario(scenario, only, only, Chunker::Whole));
        if let Err(reason) = compare("a tool as a call", &as_task, &plain, &rows) {
            panic!("{version}: {reason}");
        }
    }
}

#[test]
fn record_does_not_depend_on_chunking() {
    for version in [Version::V2024_11_05, Version::V2025_11_25, REFERENCE] {
        let only = VersionSet::only(version);
        for cut in [Chunker::Bytewise, Chunker::Seeded(1)] {
            assert_parity(only, only, version, cut);
        }
    }
}

#[test]
fn random_runs_have_the_same_record() {
    let scenario = all().into_iter().next().expect("a scenario");
    for seed in 0..rounds(40) {
        let run = |version| {
            let only = VersionSet::only(version);
            let (runner, _) =
                run_actions(&scenario, |s| run_random(s, seed), only, only, Chunker::Seeded(seed));
            runner.pair.app.lines
        };
        let reference = run(REFERENCE);
        assert!(reference.len() > 30, "too few lines: {reference:#?}");
        for version in VersionSet::LEGACY.iter() {
            let rows: Vec<AllowedDifference> = allowed_differences(version)
                .into_iter()
                .filter(|(_, what)| !matches!(what, Allowed::ScenarioLines(..)))
                .collect();
            if let Err(reason) = compare("random", &reference, &run(version), &rows) {
                panic!("seed {seed} in {version}: {reason}");
            }
        }
    }
}

// covers: VER-005, VER-006, VER-028, VER-032, VER-034
#[test]
fn pair_without_common_revision_fails() {
    let scenario = all().into_iter().next().expect("a scenario");
    for (client, server) in VersionSet::ALL.iter().flat_map(|a| VersionSet::ALL.iter().map(move |b| (a, b))) {
        if client == server {
            continue;
        }
        let (client_only, server_only) = (VersionSet::only(client), VersionSet::only(server));
        let (mut runner, version) = run_scenario(&scenario, client_only, server_only, Chunker::Whole);
        assert_eq!(version, None);
        runner.pair.drive();
        let fault = runner.pair.app.client_fault.clone().expect("a fault");
        match (client.era(), fault) {
            // A server of the other era answers the probe as an unknown method.
            (Era::Modern, Fault::LegacyServer { supported: client, error: Some(_) }) => {
                assert_eq!(client, client_only)
            }
            (Era::Legacy, Fault::NoCommonVersion { supported: client, offered: named }) => {
                assert_eq!((client, named), (client_only, vec![server.as_str().to_owned()]));
            }
            (_, fault) => panic!("{client} with {server}: {fault:?}"),
        }
        // The applications have seen nothing but the end.
        let lines: Vec<&str> = runner.pair.app.lines.iter().map(|line| &*line.text).collect();
        assert!(lines.iter().all(|line| line.starts_with("closed: ")), "{client} with {server}: {lines:?}");
    }
}

#[test]
fn every_row_of_the_table_is_needed() {
    let (scenarios, reference) = (all(), reference());
    for version in VersionSet::LEGACY.iter() {
        let (only, rows) = (VersionSet::only(version), allowed_differences(version));
        let actual: Vec<_> =
            scenarios.iter().map(|scenario| record_scenario(scenario, only, only, Chunker::Whole)).collect();
        for left_out in 0..rows.len() {
            let mut others = rows.clone();
            let row = others.remove(left_out);
            let needed = (0..scenarios.len())
                .any(|i| compare(scenarios[i].name, &reference[i], &actual[i], &others).is_err());
            assert!(needed, "no difference in {version} needs {row:?}");
        }
    }
}

#[test]
fn published_table_matches_the_rows() {
    let mut named: Vec<&str> = Vec::new();
    for (reason, _) in ROWS {
        match reason {
            Reason::CannotBeHidden(row) if !named.contains(row) => named.push(row),
            _ => {}
        }
    }
    let mut published = published();
    published.sort_unstable();
    named.sort_unstable();
    assert_eq!(published, named);
}
