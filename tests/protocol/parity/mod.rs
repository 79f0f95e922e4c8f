//! The parity matrix: one script for a client and one for a server, played by every pair of revisions; what both
//! applications are told must be the same, but for the rows of one table ([`differences`]).

use mcp_proto::seal::Keys;
use mcp_proto::{Anchor, Capabilities, Capability, Era, Fault, Version, VersionSet, server};
use mcp_tests::harness::{Chunker, Line as Wire};

use self::differences::{ROWS, Row, What, Why, compare, published};
use self::record::Line;
use self::scenes::{Scene, all, by_chance};
use self::stage::Stage;
use crate::common::client;

mod differences;
mod record;
mod scenes;
mod stage;
mod tools;

/// What all others are compared with
const REFERENCE: Version = Version::V2026_07_28;
const DUAL: VersionSet = VersionSet::ALL;

fn capabilities(all: &[Capability]) -> Capabilities {
    all.iter().fold(Capabilities::new(), |some, one| some.with(*one))
}

/// Plays a scene; the revision that was settled on, and what both applications were told
fn play(scene: &Scene, ours: VersionSet, theirs: VersionSet, cut: Chunker) -> (Stage, Option<Version>) {
    act(scene, scene.play, ours, theirs, cut)
}

/// The same with something else to play
fn act(
    scene: &Scene,
    play: impl FnOnce(&mut Stage),
    ours: VersionSet,
    theirs: VersionSet,
    cut: Chunker,
) -> (Stage, Option<Version>) {
    use Capability as C;
    let can = scene.declares.map_or_else(
        || capabilities(&[C::SamplingTools, C::RootsListChanged, C::ElicitationForm, C::ElicitationUrl]),
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
        .versions(theirs)
        .capabilities(capabilities(&offers))
        .instructions("Ask for a berth first.")
        .seal(Keys::new([7; 32]), Anchor::default());
    let client = client(ours).custom_method("harbor/draught").capabilities(can).limits((scene.limits)());
    let wire = Wire { cut, latency: scene.latency, ..Wire::default() };
    let mut stage = Stage::new(client, server, wire);
    if stage.pair.app.version.is_some() {
        play(&mut stage);
        assert!(stage.is_quiet(), "{}: {:#?}", scene.name, stage.pair.app);
    }
    let version = stage.pair.app.version;
    (stage, version)
}

/// What holds in `version`
fn permitted(version: Version) -> Vec<Row> {
    ROWS.iter().filter(|(why, _)| why.holds_in(version)).copied().collect()
}

/// What both applications are told in the reference, scene by scene
fn reference() -> Vec<Vec<Line>> {
    let only = VersionSet::only(REFERENCE);
    all().iter().map(|scene| told(scene, only, only, Chunker::Whole)).collect()
}

/// What both applications are told, by a pair that has to come together
fn told(scene: &Scene, ours: VersionSet, theirs: VersionSet, cut: Chunker) -> Vec<Line> {
    let (stage, version) = play(scene, ours, theirs, cut);
    let version = version.expect("a revision in common");
    // The newest that both speak.
    let common = VersionSet::ALL.iter().filter(|v| ours.contains(*v) && theirs.contains(*v)).max();
    assert_eq!(Some(version), common);
    stage.pair.app.lines
}

/// Compares every scene with the reference
fn same(ours: VersionSet, theirs: VersionSet, version: Version, cut: Chunker) {
    let rows = permitted(version);
    for (scene, reference) in all().iter().zip(reference()) {
        let told = told(scene, ours, theirs, cut);
        if let Err(why) = compare(scene.name, &reference, &told, &rows) {
            panic!("{ours} with {theirs}, cut {cut:?}: {why}");
        }
    }
}

/// What is written down of the reference, so that it does not change along with everything else
const WRITTEN: &str = include_str!("reference.txt");

// covers: MRTR-014, MRTR-026, ELIC-007, ROOT-003, SUB-001, SUB-012, LOG-007, SAMP-008
#[test]
fn the_reference_is_what_is_written() {
    let mut text = String::new();
    for (scene, lines) in all().iter().zip(reference()) {
        text.push_str(&format!("# {}\n", scene.name));
        lines.iter().for_each(|line| text.push_str(&format!("{line:?}\n")));
    }
    if std::env::var_os("UPDATE_PARITY").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/protocol/parity/reference.txt");
        std::fs::write(path, &text).expect("written");
        return;
    }
    for (got, want) in text.lines().zip(WRITTEN.lines()) {
        assert_eq!(got, want, "run this test with UPDATE_PARITY=1, if that is right");
    }
    assert_eq!(text, WRITTEN);
}

// covers: BASE-023, MRTR-001, ELIC-006, SAMP-003, ROOT-002, RES-010, SUB-001, LOG-004, LOG-007
#[test]
fn every_pair_with_a_revision_in_common_is_told_the_same() {
    for version in VersionSet::ALL.iter() {
        let only = VersionSet::only(version);
        same(only, only, version, Chunker::Whole);
        same(DUAL, only, version, Chunker::Whole);
        same(only, DUAL, version, Chunker::Whole);
    }
    same(DUAL, DUAL, REFERENCE, Chunker::Whole);
    same(VersionSet::LEGACY, DUAL, Version::V2025_11_25, Chunker::Whole);
    same(DUAL, VersionSet::LEGACY, Version::V2025_11_25, Chunker::Whole);
}

#[test]
fn how_bytes_are_cut_changes_nothing() {
    for version in [Version::V2024_11_05, Version::V2025_11_25, REFERENCE] {
        let only = VersionSet::only(version);
        for cut in [Chunker::Bytewise, Chunker::Seeded(1)] {
            same(only, only, version, cut);
        }
    }
}

#[test]
fn what_happens_by_chance_is_told_the_same() {
    let scene = all().into_iter().next().expect("a scene");
    for seed in 0..40 {
        let run = |version| {
            let only = VersionSet::only(version);
            let (stage, _) = act(&scene, |s| by_chance(s, seed), only, only, Chunker::Seeded(seed));
            stage.pair.app.lines
        };
        let reference = run(REFERENCE);
        assert!(reference.len() > 30, "much happens: {reference:#?}");
        for version in VersionSet::LEGACY.iter() {
            let rows: Vec<Row> =
                permitted(version).into_iter().filter(|(_, what)| !matches!(what, What::Scene(..))).collect();
            if let Err(why) = compare("by chance", &reference, &run(version), &rows) {
                panic!("seed {seed} in {version}: {why}");
            }
        }
    }
}

// covers: VER-005, VER-006, VER-028, VER-032, VER-034
#[test]
fn a_pair_without_a_revision_in_common_is_refused() {
    let scene = all().into_iter().next().expect("a scene");
    for (ours, theirs) in VersionSet::ALL.iter().flat_map(|a| VersionSet::ALL.iter().map(move |b| (a, b))) {
        if ours == theirs {
            continue;
        }
        let (ours_only, theirs_only) = (VersionSet::only(ours), VersionSet::only(theirs));
        let (mut stage, version) = play(&scene, ours_only, theirs_only, Chunker::Whole);
        assert_eq!(version, None);
        stage.pair.drive();
        let fault = stage.pair.app.end.clone().expect("it is over");
        match (ours.era(), fault) {
            // A server of the other era answers the question for its versions as something that it does not know.
            (Era::Modern, Fault::LegacyServer { ours, answer: Some(_) }) => assert_eq!(ours, ours_only),
            (Era::Legacy, Fault::NoCommonVersion { ours, theirs: named }) => {
                assert_eq!((ours, named), (ours_only, vec![theirs.as_str().to_owned()]));
            }
            (_, fault) => panic!("{ours} with {theirs}: {fault:?}"),
        }
        // No application has seen more than the end.
        let lines: Vec<&str> = stage.pair.app.lines.iter().map(|line| &*line.text).collect();
        assert!(lines.iter().all(|line| line.starts_with("closed: ")), "{ours} with {theirs}: {lines:?}");
    }
}

#[test]
fn no_row_of_the_table_is_idle() {
    let (scenes, reference) = (all(), reference());
    for version in VersionSet::LEGACY.iter() {
        let (only, rows) = (VersionSet::only(version), permitted(version));
        let told: Vec<_> = scenes.iter().map(|scene| told(scene, only, only, Chunker::Whole)).collect();
        for left_out in 0..rows.len() {
            let mut others = rows.clone();
            let row = others.remove(left_out);
            let needed =
                (0..scenes.len()).any(|i| compare(scenes[i].name, &reference[i], &told[i], &others).is_err());
            assert!(needed, "in {version} nothing needs {row:?}");
        }
    }
}

#[test]
fn what_users_read_is_the_table() {
    let mut named: Vec<&str> = Vec::new();
    for (why, _) in ROWS {
        match why {
            Why::CannotBeHidden(row) if !named.contains(row) => named.push(row),
            _ => {}
        }
    }
    let mut published = published();
    published.sort_unstable();
    named.sort_unstable();
    assert_eq!(published, named);
}
