//! The comparison with other readers, and its inputs.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use mcp_proto::testing::{Rng, for_each_text};

/// Kind of text, reader, class of the inputs, and the reason of the difference.
const DIFFERENCES: &str = include_str!("differences.tsv");

/// The results: kind of text, readers, accepted inputs, those that all readers read alike, and the listed differences.
const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../readers.tsv");

/// Outcome of all inputs of one kind of text.
pub(crate) struct Comparison {
    kind: &'static str,
    /// Accepted inputs, each of which is compared once.
    accepted: HashSet<Vec<u8>>,
    refused: u64,
    /// Accepted inputs that a reader refuses or gives another value.
    differing: HashSet<Vec<u8>>,
    readers: BTreeSet<&'static str>,
    /// A reader is not there.
    is_partial: bool,
    /// The listed differences, and how often each occurred.
    listed: BTreeMap<(&'static str, &'static str), u64>,
    unlisted: Vec<String>,
}

impl Comparison {
    pub(crate) fn new(kind: &'static str) -> Self {
        let mut listed = BTreeMap::new();
        for line in DIFFERENCES.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&str> = line.split('\t').collect();
            let [of, reader, class, reason] = columns[..] else { panic!("expected four columns: {line}") };
            assert!(!reason.is_empty(), "expected a reason: {line}");
            if of == kind {
                listed.insert((reader, class), 0);
            }
        }
        Self {
            kind,
            accepted: HashSet::new(),
            refused: 0,
            differing: HashSet::new(),
            readers: BTreeSet::new(),
            is_partial: false,
            listed,
            unlisted: Vec::new(),
        }
    }

    /// Counts an input that we accept or refuse; returns our value of one that was not accepted before.
    pub(crate) fn count<T>(&mut self, input: &[u8], ours: Option<T>) -> Option<T> {
        if ours.is_none() {
            self.refused += 1;
        }
        ours.filter(|_| self.accepted.insert(input.to_vec()))
    }

    /// Compares our value of an input with that of another reader; `class` names the class of inputs that it belongs to.
    pub(crate) fn check<T: PartialEq + Debug>(
        &mut self,
        reader: &'static str,
        input: &[u8],
        ours: &T,
        theirs: Option<&T>,
        class: &'static str,
    ) {
        self.readers.insert(reader);
        if theirs == Some(ours) {
            return;
        }
        self.differing.insert(input.to_vec());
        match self.listed.get_mut(&(reader, class)) {
            Some(count) => *count += 1,
            // Some of each reader: one that differs often would hide the others.
            None if self.unlisted.iter().filter(|line| line.starts_with(reader)).count() < 12 => {
                self.unlisted.push(format!(
                    "{reader}, class {class:?}: \"{}\"\n  ours:   {ours:?}\n  theirs: {theirs:?}",
                    input.escape_ascii()
                ))
            }
            None => {}
        }
    }

    /// Leaves out a reader that is not there.
    pub(crate) fn skip(&mut self, reader: &str) {
        self.is_partial = true;
        self.listed.retain(|(of, _), _| *of != reader);
    }

    /// Fails if a difference is not listed, a listed one does not occur, fewer than `least` inputs were read alike by
    /// all, or the result is not the recorded one.
    pub(crate) fn finish(self, least: usize) {
        let Self { kind, accepted, refused, differing, readers, is_partial, listed, unlisted } = self;
        let alike = accepted.len() - differing.len();
        println!(
            "{kind}: {} accepted, {alike} read alike, {refused} refused; differences: {listed:?}",
            accepted.len()
        );
        assert!(unlisted.is_empty(), "{kind}: not listed:\n{}", unlisted.join("\n"));
        let unused: Vec<_> = listed.iter().filter(|(_, count)| **count == 0).collect();
        assert!(unused.is_empty(), "{kind}: listed, and does not occur: {unused:?}");
        assert!(alike >= least, "{kind}: only {alike} inputs were read alike");
        let readers = Vec::from_iter(readers).join(", ");
        // More inputs give other numbers, and so do fewer readers.
        if std::env::var_os("MCP_TEST_DEEP").is_none() && !is_partial {
            check_recorded(
                kind,
                &format!("{kind}\t{readers}\t{}\t{alike}\t{}", accepted.len(), listed.len()),
            );
        }
    }
}

/// Compares the row of a kind with the recorded one; `UPDATE_READERS=1` records it.
fn check_recorded(kind: &str, row: &str) {
    // The kinds are tests that run at once.
    static FILE: Mutex<()> = Mutex::new(());
    let _guard = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let recorded = fs::read_to_string(RESULTS).expect("the results");
    if std::env::var_os("UPDATE_READERS").is_none() {
        let found = recorded.lines().find(|line| line.split('\t').next() == Some(kind)).unwrap_or_default();
        assert_eq!(row, found, "{kind}: not as recorded; UPDATE_READERS=1 records it");
        return;
    }
    let (head, rows) = recorded.split_once('\n').expect("a head");
    let mut rows: Vec<&str> = rows.lines().filter(|line| line.split('\t').next() != Some(kind)).collect();
    rows.push(row);
    rows.sort_unstable();
    fs::write(RESULTS, format!("{head}\n{}\n", rows.join("\n"))).expect("the results");
}

/// Calls `check` with all inputs of one kind: the seeds of a fuzz target, whole and by line, the texts of at most `longest` pieces
/// (two more with `MCP_TEST_DEEP`), and mutations of the seeds and of `examples`.
pub(crate) fn for_each_input(
    target: &str,
    examples: &[&str],
    pieces: &[&str],
    longest: usize,
    mut check: impl FnMut(&[u8]),
) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds").join(target);
    let mut corpus: Vec<Vec<u8>> = examples.iter().map(|example| example.as_bytes().to_vec()).collect();
    let seeds = fs::read_dir(&folder).expect("the seeds of a fuzz target");
    let mut seeds: Vec<_> = seeds.map(|seed| seed.expect("a seed").path()).collect();
    // Mutations depend on the order.
    seeds.sort();
    for seed in seeds {
        let seed = fs::read(seed).expect("a seed");
        corpus.extend(seed.split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
        corpus.push(seed);
    }
    corpus.iter().for_each(|input| check(input));
    let bytes: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
    let is_deep = std::env::var_os("MCP_TEST_DEEP").is_some();
    for_each_text(&bytes, longest + usize::from(is_deep), &mut check);
    let mut rng = Rng::new(43);
    for _ in 0..if is_deep { 1_000_000 } else { 50_000 } {
        let mut input = rng.pick(&corpus).clone();
        for _ in 0..=rng.below(3) {
            let at = rng.below(input.len() + 1);
            let end = (at + rng.below(4)).min(input.len());
            let other = rng.pick(&corpus);
            let from = rng.below(other.len() + 1);
            match rng.below(4) {
                0 => drop(input.drain(at..end)),
                1 => drop(input.splice(at..end, [rng.next_high() as u8])),
                2 => drop(input.splice(at..end, rng.pick(&bytes).iter().copied())),
                _ => drop(input.splice(at..end, other[from..(from + 8).min(other.len())].iter().copied())),
            }
        }
        check(&input);
    }
}
