//! Pairwise selection of rows: every two values of different axes that occur together in the table do so in the
//! selection.

use alloc::collections::BTreeSet;

use super::row::TableRow;

/// Two axes, and a value of each.
type ValuePair = [(usize, String); 2];

fn pairs(row: &TableRow) -> impl Iterator<Item = ValuePair> {
    let values: Vec<_> = row.values().into_iter().enumerate().collect();
    let all = values.clone().into_iter().flat_map(move |a| {
        values.clone().into_iter().filter(move |b| b.0 > a.0).map(move |b| [a.clone(), b])
    });
    all.collect::<Vec<_>>().into_iter()
}

/// Returns the selection, which is deterministic: repeatedly the first of the rows that add most pairs.
pub(super) fn select_rows(all: &[TableRow]) -> Vec<TableRow> {
    let mut missing: BTreeSet<ValuePair> = all.iter().flat_map(pairs).collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let added = |row: &TableRow| pairs(row).filter(|pair| missing.contains(pair)).count();
        // `max_by_key` returns the last of several maxima.
        let best = *all.iter().rev().max_by_key(|row| added(row)).expect("rows");
        for pair in pairs(&best) {
            missing.remove(&pair);
        }
        chosen.push(best);
    }
    chosen
}

#[test]
fn selection_covers_every_pair_of_values() {
    let all = TableRow::all_rows();
    let chosen = select_rows(&all);
    let met: BTreeSet<ValuePair> = chosen.iter().flat_map(pairs).collect();
    assert_eq!(met, all.iter().flat_map(pairs).collect());
    assert!(chosen.len() * 2 < all.len(), "{} of {}: hardly a choice", chosen.len(), all.len());
}
