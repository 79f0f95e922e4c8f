//! A choice of rows in which every two values of different axes meet that meet anywhere

use alloc::collections::BTreeSet;

use super::row::Row;

/// Two axes, and a value of each
type Pair = [(usize, String); 2];

fn pairs(row: &Row) -> impl Iterator<Item = Pair> {
    let values: Vec<_> = row.values().into_iter().enumerate().collect();
    let all = values.clone().into_iter().flat_map(move |a| {
        values.clone().into_iter().filter(move |b| b.0 > a.0).map(move |b| [a.clone(), b])
    });
    all.collect::<Vec<_>>().into_iter()
}

/// Always the same one: of the rows that add most, the first
pub(super) fn choice(all: &[Row]) -> Vec<Row> {
    let mut missing: BTreeSet<Pair> = all.iter().flat_map(pairs).collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let added = |row: &Row| pairs(row).filter(|pair| missing.contains(pair)).count();
        // The last of several is what `max_by_key` takes.
        let best = *all.iter().rev().max_by_key(|row| added(row)).expect("rows");
        for pair in pairs(&best) {
            missing.remove(&pair);
        }
        chosen.push(best);
    }
    chosen
}

#[test]
fn every_two_values_meet_in_the_choice() {
    let all = Row::all();
    let chosen = choice(&all);
    let met: BTreeSet<Pair> = chosen.iter().flat_map(pairs).collect();
    assert_eq!(met, all.iter().flat_map(pairs).collect());
    assert!(chosen.len() * 2 < all.len(), "{} of {}: hardly a choice", chosen.len(), all.len());
}
