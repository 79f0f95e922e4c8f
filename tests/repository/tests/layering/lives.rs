//! The tables "Where what lives" of `core/docs/architecture.md` name each package and each room of the core, and what a package knows.

use alloc::collections::BTreeSet;
use std::fs;

use crate::layering::adapters::PACKAGES;
use crate::layering::{ALLOWED, root};

/// Returns the rows of the section: their cells.
fn rows() -> Vec<Vec<String>> {
    let page = fs::read_to_string(root().join("core/docs/architecture.md")).expect("the page");
    let (_, section) = page.split_once("\n## Where what lives\n").expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// Returns the words in backticks.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn packages_of_the_page_are_those_of_the_workspace_with_what_they_know() {
    let rows = rows();
    let mut listed: Vec<(&str, String)> = Vec::new();
    for row in rows.iter().filter(|row| row.len() == 3) {
        assert!(!row[1].is_empty(), "{row:?} says nothing");
        listed.push((names(&row[0])[0], names(&row[2]).join(" ")));
    }
    let expected: Vec<_> = PACKAGES.iter().map(|(package, knows)| (*package, (*knows).to_owned())).collect();
    let set = |pairs: &[(&str, String)]| -> BTreeSet<String> {
        pairs.iter().map(|(package, knows)| format!("{package}: {knows}")).collect()
    };
    assert_eq!(set(&listed), set(&expected));
    assert_eq!(listed.len(), expected.len(), "a package is listed twice");
}

#[test]
fn rooms_of_the_page_are_those_of_the_core_each_above_what_it_knows() {
    let rows = rows();
    let floors: Vec<Vec<&str>> = rows.iter().filter(|row| row.len() == 2).map(|row| names(&row[0])).collect();
    let floor = |room: &str| floors.iter().position(|rooms| rooms.contains(&room));
    assert_eq!(floors.iter().map(Vec::len).sum::<usize>(), ALLOWED.len(), "each room stands in one row");
    for (room, uses) in ALLOWED {
        let own = floor(room).unwrap_or_else(|| panic!("`{room}` stands in no row"));
        for used in uses.split_whitespace() {
            let below = floor(used).unwrap_or_else(|| panic!("`{used}` stands in no row"));
            assert!(below <= own, "`{room}` knows `{used}`, which stands below it on the page");
        }
    }
}
