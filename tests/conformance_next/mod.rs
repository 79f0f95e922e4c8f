//! Scenarios of the official conformance suite that are written and not released, one file per group. `scenarios.tsv` has a row for
//! each of them: the tests that hold it, here or elsewhere, or the reason why there is none.

mod client_authorization;
mod client_core;
mod extensions;
mod server_authorization;
mod server_core;
mod server_streams;
mod server_values;

use mcp_tests::requirements::Requirements;

/// Number of scenarios that are known.
const SCENARIOS: usize = 55;

#[test]
fn every_scenario_has_tests_or_a_reason() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let requirements = Requirements::load(folder.parent().expect("a workspace")).expect("the tests");
    let mut number = 0;
    for row in include_str!("scenarios.tsv").lines().filter(|line| !line.starts_with('#')) {
        number += 1;
        let columns: Vec<&str> = row.split('\t').collect();
        let [found, name, tests, reason] = columns[..] else { panic!("four columns: {row}") };
        assert_eq!(found, number.to_string(), "{row}");
        assert!(!name.is_empty() && (tests != "-" || reason.len() > 1), "{row}");
        for test in tests.split("; ").filter(|test| *test != "-") {
            assert!(requirements.has_test(test), "scenario {number}: no such test: {test}");
        }
    }
    assert_eq!(number, SCENARIOS);
}
