//! The table of scenarios of the official conformance suite that are not released, against the tests that it names.

use mcp_repository_tests::Requirements;

/// Number of scenarios that are known.
const SCENARIOS: usize = 55;

#[test]
fn every_scenario_has_tests_or_a_reason() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace");
    let requirements = Requirements::load(root).expect("the tests");
    let mut number = 0;
    for row in
        include_str!("../../conformance_next/scenarios.tsv").lines().filter(|line| !line.starts_with('#'))
    {
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
