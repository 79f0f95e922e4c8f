//! Deviations of drafts: each is asked for at one place of the core.

use mcp_proto::draft::Deviation;

use crate::layering::{root, source};

/// The table is the whole of the drafts: nothing else asks for one, and each row has its test.
#[test]
fn each_deviation_is_asked_for_at_one_place_and_has_a_test() {
    let sources = source::read(&root().join("core/src"));
    let tests = include_str!("../../../protocol/drafts.rs");
    assert!(Deviation::TABLE.len() >= 16);
    for row in Deviation::TABLE {
        let name = format!("Deviation::{:?})", row.deviation);
        let found: Vec<(&str, usize)> = sources
            .iter()
            .map(|source| (&*source.path, source.code.matches(&*name).count()))
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(found, [(row.place, 1)], "{name}");
        assert!(tests.contains(&format!("off_and_on(Deviation::{:?})", row.deviation)), "{name} has no test");
        assert!(!row.draft.is_empty() && !row.release.is_empty());
    }
}
