//! Worlds as text: the fragment of an address goes in, JSON comes out.
//!
//! The host calls `buffer(len)`, writes the fragment there, and calls `run(len)` or `search(len)`, which return the length of the
//! answer at `output()`. No function takes a pointer, so a host cannot pass a wrong one. After a trap `output()` and
//! `output_len()` have the text of the panic.

mod settings;
mod timeline;

use std::cell::RefCell;

use mcp_proto::VersionSet;
use mcp_sim::{Application, Failure, INVARIANTS, Log, World};
use serde_json::{Value, json};
use settings::{FAULTS, Settings, VARIANTS};
use timeline::Timeline;

/// Seeds that one call of `search` runs, so that a page stays responsive.
const SEEDS_PER_SEARCH: u64 = 5;
/// Most runs of a reduction.
const MAX_ATTEMPTS: usize = 400;

include!("planted.rs");

/// Runs a world step by step.
fn show<A: Application>(settings: &Settings, application: impl Fn() -> A) -> Value {
    let failure =
        if settings.is_reduced { search_from(settings, 1, MAX_ATTEMPTS, &application) } else { None };
    let mut world = match &failure {
        Some(failure) => World::replay(failure.decisions.clone(), settings.plan, application()),
        None => World::new(settings.seed, settings.plan, application()),
    };
    let mut timeline = Timeline::new(&settings.plan);
    timeline.take(&mut world);
    while !timeline.is_cut && world.step() {
        timeline.take(&mut world);
    }
    let report = world.run();
    let log = Log::new(&report.log);
    let invariants: Vec<_> = INVARIANTS
        .iter()
        .map(|one| {
            let violation = (one.check)(&log);
            json!({
                "name": one.name,
                "sentence": one.sentence,
                "entry": violation.as_ref().map(|(entry, _)| entry),
                "reason": violation.map(|(_, reason)| reason),
            })
        })
        .collect();
    let mut warnings = settings.warnings.clone();
    if settings.is_reduced && failure.is_none() {
        warnings.push("reduced: no invariant is violated, so the run is shown as it is".to_owned());
    }
    if timeline.is_cut {
        warnings.push(format!("the log is cut after {} rows", timeline.rows.len()));
    }
    json!({
        "warnings": warnings,
        "rows": timeline.rows,
        "frames": timeline.frames,
        "entries": report.log.len(),
        "invariants": invariants,
        "settings": settings.to_json(),
        "test": failure.map(|failure| test(settings, &failure)),
    })
}

fn search_from<A: Application>(
    settings: &Settings,
    seeds: u64,
    attempts: usize,
    application: impl Fn() -> A,
) -> Option<Failure> {
    let last = settings.seed.saturating_add(seeds - 1);
    mcp_sim::search(settings.seed..=last, settings.plan, attempts, application)
}

fn find<A: Application>(settings: &Settings, application: impl Fn() -> A) -> Value {
    match search_from(settings, SEEDS_PER_SEARCH, 0, application) {
        Some(failure) => json!({
            "seed": failure.seed.to_string(),
            "invariant": failure.violation.invariant,
            "reason": failure.violation.reason,
        }),
        // Behind the last seed there is none.
        None => json!({"next": settings.seed.checked_add(SEEDS_PER_SEARCH).map(|next| next.to_string())}),
    }
}

/// Writes a failure as a test that needs nothing around it.
fn test(settings: &Settings, failure: &Failure) -> String {
    let versions = |set: VersionSet| {
        let mut text = String::new();
        for version in set.iter() {
            let version = format!("mcp_proto::Version::{version:?}");
            text = match text.as_str() {
                "" => format!("mcp_proto::VersionSet::only({version})"),
                text => format!("{text}.with({version})"),
            };
        }
        text
    };
    let marks = format!(
        "mcp_sim::Marks {{ client_versions: {}, server_versions: {} }}",
        versions(settings.marks.client_versions),
        versions(settings.marks.server_versions)
    );
    if settings.is_planted {
        let application = format!("Planted {{ marks: {marks}, previous: None }}");
        format!("{}\n{}", include_str!("planted.rs"), failure.to_test(&application))
    } else {
        failure.to_test(&marks)
    }
}

/// Runs the world of a fragment, and returns its timeline as JSON.
#[must_use]
pub fn run_fragment(fragment: &str) -> String {
    let settings = Settings::parse(fragment);
    let marks = settings.marks;
    let answer = match settings.is_planted {
        true => show(&settings, || Planted { marks, previous: None }),
        false => show(&settings, || marks),
    };
    answer.to_string()
}

/// Searches a few seeds from that of the fragment, and returns a failing one, or the next seed to try if there is one.
#[must_use]
pub fn search_fragment(fragment: &str) -> String {
    let settings = Settings::parse(fragment);
    let marks = settings.marks;
    let answer = match settings.is_planted {
        true => find(&settings, || Planted { marks, previous: None }),
        false => find(&settings, || marks),
    };
    answer.to_string()
}

/// Returns what a page offers: the revisions, the faults, and which of them are not meant by "all".
fn choices(_fragment: &str) -> String {
    let revisions: Vec<_> = VersionSet::ALL.iter().map(mcp_proto::Version::as_str).collect();
    let faults = FAULTS.map(|(name, _)| name);
    json!({"revisions": revisions, "faults": faults, "variants": VARIANTS}).to_string()
}

thread_local! {
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUTPUT: RefCell<String> = const { RefCell::new(String::new()) };
}

fn reply(len: usize, make: fn(&str) -> String) -> usize {
    std::panic::set_hook(Box::new(|panic| OUTPUT.with_borrow_mut(|output| *output = panic.to_string())));
    let fragment =
        INPUT.with_borrow(|input| String::from_utf8_lossy(&input[..len.min(input.len())]).into_owned());
    let text = make(&fragment);
    OUTPUT.with_borrow_mut(|output| *output = text);
    output_len()
}

/// Returns the address of room for `len` bytes of input, at most 4,096.
#[unsafe(no_mangle)]
pub extern "C" fn buffer(len: usize) -> usize {
    INPUT.with_borrow_mut(|input| {
        input.resize(len.min(4_096), 0);
        input.as_mut_ptr() as usize
    })
}

/// Runs the world of the fragment in the buffer; returns the length of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn run(len: usize) -> usize {
    reply(len, run_fragment)
}

/// Searches from the seed of the fragment in the buffer; returns the length of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn search(len: usize) -> usize {
    reply(len, search_fragment)
}

/// Lists what a page offers; returns the length of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn offer() -> usize {
    reply(0, choices)
}

/// Returns the address of the last answer.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> usize {
    OUTPUT.with_borrow(|output| output.as_ptr() as usize)
}

/// Returns the length of the last answer.
#[unsafe(no_mangle)]
pub extern "C" fn output_len() -> usize {
    OUTPUT.with_borrow(String::len)
}
